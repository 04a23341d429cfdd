"use strict";
// One page for two uses: a report carries its data, a view asks its server. Nothing is loaded from elsewhere.
const DATA = /* data */ null;
const $ = (id) => document.getElementById(id);
// Okabe and Ito's colours, told apart with every kind of colour vision; black is white on a dark page.
const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "ink"];
const CURVES = {
  greedy_mean_return: "return of the policy", batch_mean_return: "mean return of the newest rollouts", options_kept: "options",
  ess: "effective samples", temperature: "temperature", learner_seconds: "seconds of learning",
};
const STATES = ["under way", "done", "failed"];

const state = {
  runs: [], at: 0, context: [], there: null, pinned: null, hidden: new Set(), least: -Infinity, most: Infinity, failed: true,
  x: null, y: null, colour: "option", curve: "greedy_mean_return", step: null, selected: null, line: null, yaw: -2.2, pitch: 0.45,
};
const run = () => state.runs[state.at];

// Numbers

function unpack(packed) {
  let bytes;
  if (Uint8Array.fromBase64) bytes = Uint8Array.fromBase64(packed.base64);
  else {
    const text = atob(packed.base64);
    bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  }
  const kinds = { f4: Float32Array, f8: Float64Array, i4: Int32Array, u1: Uint8Array };
  return new kinds[packed.type](bytes.buffer);
}

function digits(value, count = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  return (size >= 1e6 || size < 1e-4 ? value.toExponential(count - 1) : String(+value.toPrecision(size >= 1000 ? count + 2 : count)));
}
function within(value, deviation) {
  // A number to the digits that its deviation leaves it.
  if (value === null || !(deviation > 0)) return `${digits(value, 6)} ± ${digits(deviation, 2)}`;
  const places = Math.min(Math.max(1 - Math.floor(Math.log10(deviation)), 0), 12);
  return `${places > 8 ? digits(value, 8) : value.toFixed(places)} ± ${digits(deviation, 2)}`;
}
const list = (values, most = 12) => Array.from(values).slice(0, most).map((v) => digits(v)).join(", ") + (values.length > most ? ", …" : "");

function ready(found) {
  // A run as the page works with it: arrays in place of text.
  const arrays = {};
  for (const [name, packed] of Object.entries(found.rollouts)) arrays[name] = unpack(packed);
  const r = { ...found, rollouts: arrays, S: found.context_size, D: found.parameter_size, count: arrays.id.length, ends: {} };
  if (found.grid) {
    r.grid = { ...found.grid };
    for (const name of ["chosen", "means", "expected", "deviation"]) if (found.grid[name]) r.grid[name] = unpack(found.grid[name]);
    const drawing = found.grid.drawing;
    if (drawing) {
      r.grid.drawing = { ...drawing, K: drawing.lines.shape[1], M: drawing.points.shape[1], P: drawing.lines.shape[2],
        lines: unpack(drawing.lines), points: unpack(drawing.points), goal: drawing.goal && unpack(drawing.goal) };
    }
  }
  r.far = farReturns(r);
  return r;
}

function farReturns(r) {
  // The few returns beyond a gap: five times as far from the median as the next ones are.
  const known = r.rollouts.returns.filter((v) => !Number.isNaN(v)).sort(), middle = known[known.length >> 1];
  const far = known.map((v) => Math.abs(v - middle)).sort().reverse();
  let reach = Infinity;
  for (let k = 0; known.length >= 10 && k < Math.min(far.length / 20, 100); k++) if (far[k + 1] > 0 && far[k] > 5 * far[k + 1]) reach = far[k + 1];
  return (i) => Math.abs(r.rollouts.returns[i] - middle) > reach;
}
