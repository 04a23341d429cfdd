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
  const text = atob(packed.base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
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
    const { chosen, means, expected, deviation } = found.grid;
    r.grid = { ...found.grid, chosen: unpack(chosen), means: unpack(means), expected: unpack(expected), deviation: unpack(deviation) };
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
  const known = Array.from(r.rollouts.returns).filter((v) => !Number.isNaN(v)).sort((a, b) => a - b), middle = known[known.length >> 1];
  const far = known.map((v) => Math.abs(v - middle)).sort((a, b) => b - a);
  let reach = Infinity;
  for (let k = 0; known.length >= 10 && k < Math.min(far.length / 20, 100); k++) if (far[k + 1] > 0 && far[k] > 5 * far[k + 1]) reach = far[k + 1];
  return (i) => Math.abs(r.rollouts.returns[i] - middle) > reach;
}

// Where numbers come from: a grid in the page, or the server

const report = {
  live: false,
  place(context) {
    // The place in the grid that is nearest to a context, and the context there.
    const grid = run().grid;
    let at = 0;
    const there = run().start.slice();
    grid.axes.forEach((axis, k) => {
      const values = grid.values[k];
      let best = 0;
      values.forEach((v, i) => { if (Math.abs(v - context[axis]) < Math.abs(values[best] - context[axis])) best = i; });
      at = at * values.length + best;
      there[axis] = values[best];
    });
    return [at, there];
  },
  async evaluate(context) {
    const r = run(), grid = r.grid, O = r.policy_options.length, [at, there] = report.place(context);
    const d = grid.drawing;
    const options = r.policy_options.map((option, o) => ({
      number: option.number, parameters: grid.means.subarray((at * O + o) * r.D, (at * O + o + 1) * r.D),
      expected_return: grid.expected[at * O + o], expected_deviation: grid.deviation[at * O + o],
      measured_return: option.measured_return, measured_rollouts: option.measured_rollouts,
      line: d && rows(d.lines, at * O + o, d.K, d.P), points: d && rows(d.points, at * O + o, d.M, d.P),
    }));
    return { context: there, option: grid.chosen[at], options, goal: d && d.goal && rows(d.goal, at * O, 1, d.P)[0], scene: d };
  },
  async line(context, axis) {
    // Every option along one context number.
    const r = run(), k = r.grid.axes.indexOf(axis), O = r.policy_options.length;
    if (k < 0) return null;
    const xs = r.grid.values[k], means = [], chosen = [];
    for (const x of xs) {
      const there = context.slice();
      there[axis] = x;
      const [at] = report.place(there);
      means.push(r.policy_options.map((_, o) => r.grid.means.subarray((at * O + o) * r.D, (at * O + o + 1) * r.D)));
      chosen.push(r.grid.chosen[at]);
    }
    return { xs, means, chosen };
  },
};

function rows(array, start, count, size) {
  const found = [];
  for (let i = 0; i < count; i++) found.push(array.subarray((start * count + i) * size, (start * count + i + 1) * size));
  return found;
}

const server = {
  live: true,
  token: new URLSearchParams(location.search).get("token") || "",
  async call(path, content) {
    const words = { Authorization: `Bearer ${server.token}` };
    const request = content === undefined ? { headers: words } : {
      method: "POST", headers: { ...words, "Content-Type": "application/json" }, body: JSON.stringify(content) };
    const answer = await fetch(path, request);
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error || answer.statusText);
    return found;
  },
  evaluate: (context) => server.call("evaluate", { run: state.at, context }),
  line: (context, axis) => server.call("line", { run: state.at, context, axis }),
};
const source = DATA.mode === "report" ? report : server;

// Drawing

const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
function colourOf(number) {
  if (!number) return ink("--soft");
  const colour = COLOURS[(number - 1) % COLOURS.length];
  return colour === "ink" ? ink("--ink") : colour;
}
// From dark blue to yellow, lighter as it rises: read by every kind of colour vision, and in grey.
const HEAT = [[38, 43, 110], [62, 82, 160], [74, 125, 165], [92, 164, 150], [140, 196, 112], [226, 214, 80]];
function heat(share) {
  const at = Math.min(Math.max(share, 0), 0.9999) * (HEAT.length - 1), i = Math.floor(at), f = at - i;
  return `rgb(${HEAT[i].map((v, k) => Math.round(v + f * (HEAT[i + 1][k] - v))).join(" ")})`;
}

function surface(canvas) {
  const box = canvas.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
  const width = Math.max(box.width, 1), height = Math.max(box.height, 1);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "12px system-ui, sans-serif";
  pen.lineJoin = "round";
  return { pen, width, height };
}

function ticks(low, high, count) {
  const rough = (high - low) / Math.max(count, 1), size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((v) => v * size).find((v) => v >= rough) || rough;
  const found = [];
  for (let v = Math.ceil(low / step) * step; v <= high + 1e-9 * step && found.length < 50; v += step) found.push(v);
  const places = Math.min(Math.max(-Math.floor(Math.log10(step) + 1e-9), 0), 12), large = Math.max(Math.abs(low), Math.abs(high)) >= 1e6;
  return found.map((v) => [v, large || step < 1e-6 ? digits(v, 6) : v.toFixed(places).replace(/^-(0(\.0*)?)$/, "$1")]);
}

function extent(low, high) {
  if (!(high >= low)) return [0, 1];
  const pad = high > low ? 0.04 * (high - low) : Math.max(Math.abs(low) * 0.1, 0.5);
  return [low - pad, high + pad];
}

function frame(canvas, xEnds, yEnds, xLabel, yLabel) {
  // Axes; how numbers become places.
  const { pen, width, height } = surface(canvas), left = 62, right = 14, top = 22, bottom = 38;
  const X = (v) => left + ((v - xEnds[0]) / (xEnds[1] - xEnds[0])) * (width - left - right);
  const Y = (v) => height - bottom - ((v - yEnds[0]) / (yEnds[1] - yEnds[0])) * (height - top - bottom);
  pen.strokeStyle = ink("--line");
  pen.fillStyle = ink("--soft");
  pen.lineWidth = 1;
  pen.textAlign = "center";
  for (const [v, text] of ticks(...xEnds, (width - left) / 90)) {
    line(pen, [[X(v), top], [X(v), height - bottom]]);
    pen.fillText(text, X(v), height - bottom + 15);
  }
  pen.textAlign = "right";
  for (const [v, text] of ticks(...yEnds, (height - top) / 45)) {
    line(pen, [[left, Y(v)], [width - right, Y(v)]]);
    pen.fillText(text, left - 6, Y(v) + 4);
  }
  pen.fillStyle = ink("--ink");
  pen.textAlign = "center";
  pen.fillText(xLabel, (left + width - right) / 2, height - 6);
  pen.textAlign = "left";
  pen.fillText(yLabel, 4, 13);
  const back = (px) => xEnds[0] + ((px - left) / (width - left - right)) * (xEnds[1] - xEnds[0]);
  return { pen, X, Y, back, left, right: width - right, top, bottom: height - bottom };
}

function line(pen, points) {
  pen.beginPath();
  points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.stroke();
}

// Which rollouts are shown

function axisChoices(r) {
  const found = [];
  for (let i = 0; i < r.S; i++) found.push({ key: `c${i}`, name: r.S > 1 ? `context ${i + 1}` : "context" });
  for (let i = 0; i < r.D; i++) found.push({ key: `p${i}`, name: r.D > 1 ? `parameter ${i + 1}` : "parameter" });
  found.push({ key: "return", name: "return" }, { key: "time", name: "number of the rollout" });
  return found;
}
const nameOf = (key) => axisChoices(run()).find((each) => each.key === key).name;

function valueOf(r, key) {
  const a = r.rollouts, at = Number(key.slice(1));
  if (key === "return") return (i) => a.returns[i];
  if (key === "time") return (i) => a.id[i];
  return key[0] === "c" ? (i) => a.contexts[i * r.S + at] : (i) => a.parameters[i * r.D + at];
}

function endsOf(r, key) {
  // The lowest and the highest value of a number among all rollouts.
  if (!r.ends[key]) {
    const of = valueOf(r, key);
    let low = Infinity, high = -Infinity;
    for (let i = 0; i < r.count; i++) { const v = of(i); if (v < low) low = v; if (v > high) high = v; }
    r.ends[key] = [low, high];
  }
  return r.ends[key];
}

function shown(r) {
  // Places of the rollouts that pass all filters, at the replayed moment.
  const a = r.rollouts, found = [], now = state.step === null;
  for (let i = 0; i < r.count; i++) {
    if ((!now && (a.step[i] === 0 || a.step[i] > state.step)) || state.hidden.has(a.number[i])) continue;
    if (a.state[i] === 1 ? a.returns[i] < state.least || a.returns[i] > state.most : a.state[i] === 2 && !state.failed) continue;
    found.push(i);
  }
  return found;
}

function pointColours(r) {
  const a = r.rollouts;
  if (state.colour === "option") {
    const known = new Map();
    return (i) => {
      const n = a.number[i];
      if (!known.has(n)) known.set(n, colourOf(n));
      return known.get(n);
    };
  }
  const of = valueOf(r, state.colour === "return" ? "return" : "time");
  const values = [];
  for (let i = 0; i < r.count; i++) if (!Number.isNaN(of(i))) values.push(of(i));
  values.sort((p, q) => p - q);
  const rank = (v) => {
    let low = 0, high = values.length;
    while (low < high) { const m = (low + high) >> 1; if (values[m] < v) low = m + 1; else high = m; }
    return low / Math.max(values.length - 1, 1);
  };
  const steps = Array.from({ length: 33 }, (_, k) => heat(k / 32)), none = ink("--soft");
  return (i) => (Number.isNaN(of(i)) ? none : steps[Math.round(32 * Math.min(rank(of(i)), 1))]);
}

let mapped = null; // what the map has drawn, for the pointer, and its rollouts as a picture

function moveOnMap() {
  // Only the context has changed: the rollouts stay as they were drawn.
  const { f, layer } = mapped;
  f.pen.save();
  f.pen.setTransform(1, 0, 0, 1, 0, 0);
  f.pen.clearRect(0, 0, layer.width, layer.height);
  f.pen.drawImage(layer, 0, 0);
  f.pen.restore();
  drawOptionsOnMap(f);
}

function drawMap() {
  const r = run(), x = valueOf(r, state.x), y = valueOf(r, state.y), places = shown(r);
  const ends = (key) => {
    let [low, high] = endsOf(r, key);
    if (key[0] === "c") { low = Math.min(low, r.low[+key.slice(1)]); high = Math.max(high, r.high[+key.slice(1)]); }
    return extent(low, high);
  };
  const f = frame($("map"), ends(state.x), ends(state.y), nameOf(state.x), nameOf(state.y));
  const pen = f.pen, colour = pointColours(r), size = places.length > 20000 ? 1.6 : places.length > 3000 ? 2.4 : 3.6;
  const px = new Float32Array(places.length), py = new Float32Array(places.length), groups = new Map();
  places.forEach((i, k) => {
    px[k] = f.X(x(i));
    py[k] = f.Y(y(i));
    if (Number.isNaN(px[k]) || Number.isNaN(py[k])) return;
    const c = colour(i);
    if (!groups.has(c)) groups.set(c, []);
    groups.get(c).push(k);
  });
  pen.globalAlpha = places.length > 20000 ? 0.5 : 0.75;
  for (const [c, members] of groups) {
    pen.fillStyle = c;
    for (const k of members) pen.fillRect(px[k] - size / 2, py[k] - size / 2, size, size);
  }
  pen.globalAlpha = 1;
  places.forEach((i, k) => {
    if (r.rollouts.state[i] === 2) cross(pen, px[k], py[k], 3, ink("--soft"));
    else if (r.far(i)) ring(pen, px[k], py[k], 6, ink("--ink"));
    if (r.rollouts.id[i] === state.selected) ring(pen, px[k], py[k], 8, ink("--accent"));
  });
  const layer = Object.assign(document.createElement("canvas"), { width: $("map").width, height: $("map").height });
  layer.getContext("2d").drawImage($("map"), 0, 0);
  drawOptionsOnMap(f);
  mapped = { f, px, py, places, layer };
  const more = r.shown < r.all ? ` ${r.shown.toLocaleString("en")} of ${r.all.toLocaleString("en")} are in this file.` : "";
  const how = state.x[0] === "c" ? " Drag to move the context; lines are the options, thick where the gate chooses them." : "";
  $("map-hint").textContent = `${places.length.toLocaleString("en")} rollouts are shown.${more}${how} × failed, ○ return far from the others.`;
}

function ring(pen, x, y, radius, colour) {
  pen.strokeStyle = colour;
  pen.lineWidth = 1.5;
  pen.beginPath();
  pen.arc(x, y, radius, 0, 7);
  pen.stroke();
}
function cross(pen, x, y, size, colour) {
  pen.strokeStyle = colour;
  pen.lineWidth = 1.5;
  line(pen, [[x - size, y - size], [x + size, y + size]]);
  line(pen, [[x - size, y + size], [x + size, y - size]]);
}

function drawOptionsOnMap(f) {
  const r = run(), pen = f.pen;
  pen.save();
  pen.beginPath();
  pen.rect(f.left, f.top, f.right - f.left, f.bottom - f.top);
  pen.clip();
  if (state.line && state.x[0] === "c" && state.y[0] === "p" && state.step === null) {
    const d = +state.y.slice(1), { xs, means, chosen } = state.line;
    r.policy_options.forEach((option, o) => {
      if (state.hidden.has(option.number)) return;
      for (const [width, colour] of [[2, ink("--back")], [0, colourOf(option.number)]]) {
        pen.strokeStyle = colour;
        for (let k = 1; k < xs.length; k++) {
          pen.lineWidth = (chosen[k] === o ? 4 : 1.6) + width;
          line(pen, [[f.X(xs[k - 1]), f.Y(means[k - 1][o][d])], [f.X(xs[k]), f.Y(means[k][o][d])]]);
        }
      }
    });
  }
  if (state.x[0] === "c" && state.context.length) {
    pen.setLineDash([5, 4]);
    pen.strokeStyle = ink("--ink");
    pen.lineWidth = 1.5;
    const at = f.X(state.context[+state.x.slice(1)]);
    line(pen, [[at, f.top], [at, f.bottom]]);
    pen.setLineDash([]);
  }
  if (state.there && state.y[0] === "p" && state.step === null) {
    for (const option of state.there.options) {
      const at = state.x[0] === "c" ? state.context[+state.x.slice(1)] : state.x[0] === "p" ? option.parameters[+state.x.slice(1)] : NaN;
      if (state.hidden.has(option.number) || Number.isNaN(at)) continue;
      pen.fillStyle = colourOf(option.number);
      pen.strokeStyle = ink("--back");
      pen.lineWidth = 2;
      pen.beginPath();
      pen.arc(f.X(at), f.Y(option.parameters[+state.y.slice(1)]), option === state.there.options[state.there.option] ? 8 : 5, 0, 7);
      pen.fill();
      pen.stroke();
    }
  }
  pen.restore();
}

function drawParallel() {
  const r = run(), keys = axisChoices(r).slice(0, -1);
  const many = keys.length > 3;
  $("parallel").hidden = $("parallel-title").hidden = !many;
  if (!many) return;
  const { pen, width, height } = surface($("parallel")), of = keys.map((each) => valueOf(r, each.key)), top = 24, bottom = height - 8;
  const ends = keys.map(({ key }) => {
    const [low, high] = endsOf(r, key);
    return high > low ? [low, high] : [low - 1, low + 1];
  });
  const X = (k) => 34 + (k / (keys.length - 1)) * (width - 68), colour = pointColours(r);
  let places = shown(r).filter((i) => r.rollouts.state[i] === 1);
  if (places.length > 1500) places = places.filter((_, k) => k % Math.ceil(places.length / 1500) === 0);
  pen.globalAlpha = Math.max(0.06, Math.min(0.5, 120 / (places.length + 1)));
  pen.lineWidth = 1;
  for (const i of places) {
    pen.strokeStyle = colour(i);
    line(pen, keys.map((_, k) => [X(k), bottom - ((of[k](i) - ends[k][0]) / (ends[k][1] - ends[k][0])) * (bottom - top)]));
  }
  pen.globalAlpha = 1;
  pen.fillStyle = ink("--ink");
  pen.strokeStyle = ink("--line");
  pen.textAlign = "center";
  const short = width / keys.length < 90;
  keys.forEach((each, k) => {
    line(pen, [[X(k), top], [X(k), bottom]]);
    pen.fillText(short ? each.name.replace("parameter ", "p").replace("context ", "c").replace("context", "c") : each.name, X(k), 14);
  });
}

function projector(scene, canvas) {
  // From the picture's coordinates to places on a canvas: a plane as it is, space seen from a side that can be turned.
  const box = canvas.getBoundingClientRect(), flat = scene.low.length === 2;
  const right = [-Math.sin(state.yaw), Math.cos(state.yaw), 0];
  const up = [-Math.cos(state.yaw) * Math.sin(state.pitch), -Math.sin(state.yaw) * Math.sin(state.pitch), Math.cos(state.pitch)];
  const seen = flat ? (p) => [p[0], p[1]] : (p) => [dot(p, right), dot(p, up)];
  const corners = [];
  for (let c = 0; c < 2 ** scene.low.length; c++) corners.push(seen(scene.low.map((v, k) => ((c >> k) & 1 ? scene.high[k] : v))));
  const low = [0, 1].map((k) => Math.min(...corners.map((p) => p[k]))), high = [0, 1].map((k) => Math.max(...corners.map((p) => p[k])));
  // A plane is stretched to what there is room for, three times at most; space is not.
  const fit = [0, 1].map((k) => (0.9 * (k ? box.height : box.width)) / Math.max(high[k] - low[k], 1e-9)), least = Math.min(...fit);
  const scale = fit.map((v) => (flat ? Math.min(v, 3 * least) : least));
  const to = (p) => {
    const [x, y] = seen(p);
    return [box.width / 2 + scale[0] * (x - (low[0] + high[0]) / 2), box.height / 2 - scale[1] * (y - (low[1] + high[1]) / 2)];
  };
  const move = (dx, dy) => (flat ? [dx / scale[0], -dy / scale[1]] : right.map((v, k) => (v * dx - up[k] * dy) / least));
  return { to, move };
}
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];

function drawScene(canvas, there, which, small) {
  const { pen } = surface(canvas), view = projector(there.scene, canvas);
  pen.strokeStyle = ink("--soft");
  pen.fillStyle = ink("--line");
  pen.lineWidth = 1;
  for (const outline of there.scene.scene) {
    pen.beginPath();
    outline.forEach((p, i) => (i ? pen.lineTo(...view.to(p)) : pen.moveTo(...view.to(p))));
    if (there.scene.low.length === 2) pen.fill();
    pen.stroke();
  }
  there.options.forEach((option, o) => {
    if (!which(option, o) || !option.line) return;
    const chosen = o === there.option || option.number === state.pinned;
    pen.strokeStyle = pen.fillStyle = colourOf(option.number);
    pen.lineWidth = (chosen ? 4 : 2) * (small ? 0.7 : 1);
    pen.globalAlpha = chosen || small ? 1 : 0.7;
    line(pen, option.line.map((p) => view.to(p)));
    for (const p of option.points || []) {
      pen.beginPath();
      pen.arc(...view.to(p), small ? 2 : 4, 0, 7);
      pen.fill();
    }
  });
  pen.globalAlpha = 1;
  if (there.goal) {
    const [x, y] = view.to(there.goal);
    cross(pen, x, y, small ? 4 : 7, ink("--ink"));
    if (!small && there.scene.drag.length) ring(pen, x, y, 12, ink("--ink"));
  }
  return view;
}

// The context

let waiting = null, working = false;
async function setContext(context) {
  // Only the newest context is asked for, however fast it is dragged.
  waiting = context;
  if (working) return;
  working = true;
  try {
    while (waiting) {
      const next = waiting;
      waiting = null;
      if (!run().policy_options.length) break;
      const there = await source.evaluate(next);
      state.there = there;
      state.context = Array.from(there.context);
      const axis = +state.x.slice(1);
      if (state.x[0] === "c" && (run().S > 1 || !state.line)) state.line = await source.line(state.context, axis);
      showContext();
    }
  } catch (error) {
    say(String(error.message || error));
  } finally {
    working = false;
  }
}

function showContext() {
  state.context.forEach((v, i) => {
    const [range, number] = [$(`slider-${i}`), $(`number-${i}`)];
    if (range && document.activeElement !== range) range.value = v;
    if (number && document.activeElement !== number) number.value = +v.toPrecision(6);
  });
  const there = state.there;
  if (there) {
    const best = there.options[there.option];
    $("choice").innerHTML = "";
    $("choice").append("Here the gate chooses ", strong(`option ${best.number}`), `: expected return `
      + `${within(best.expected_return, best.expected_deviation)}, parameters ${list(best.parameters)}.`);
  }
  showCards();
  showPicture();
  moveOnMap();
  document.body.dataset.drawn = String(Number(document.body.dataset.drawn || 0) + 1);
}
const strong = (text) => Object.assign(document.createElement("strong"), { textContent: text });

function makeSliders() {
  const r = run(), free = source.live ? [...Array(r.S).keys()] : r.grid ? r.grid.axes : [];
  $("context-section").hidden = !r.S || !r.policy_options.length;
  $("sliders").innerHTML = "";
  for (const i of free) {
    const box = document.createElement("div");
    box.className = "slider";
    const values = source.live ? null : r.grid.values[r.grid.axes.indexOf(i)];
    const step = values ? (values[values.length - 1] - values[0]) / (values.length - 1) : (r.high[i] - r.low[i]) / 1000;
    const range = Object.assign(document.createElement("input"), { type: "range", id: `slider-${i}`, min: r.low[i], max: r.high[i], step });
    const number = Object.assign(document.createElement("input"), { type: "number", id: `number-${i}`, step: "any" });
    const label = Object.assign(document.createElement("label"), { textContent: r.S > 1 ? `context ${i + 1}` : "context", htmlFor: range.id });
    number.setAttribute("aria-label", `${label.textContent} as a number`);
    const take = (from) => () => {
      const next = state.context.slice();
      next[i] = Number(from.value);
      if (from.value !== "" && Number.isFinite(next[i])) setContext(next);
    };
    range.addEventListener("input", take(range));
    number.addEventListener("change", take(number));
    box.append(label, range, number);
    $("sliders").append(box);
  }
  const held = [...Array(r.S).keys()].filter((i) => !free.includes(i));
  $("context-hint").textContent = "The numbers that the world sets. Move them, and see what every option would do."
    + (held.length ? ` Held at those of the best rollout: ${held.map((i) => `context ${i + 1} = ${digits(r.start[i])}`).join(", ")}.` : "")
    + (source.live || !free.length ? "" : " The sliders move in steps, at which numbers are exact.");
}

// The cards

function showCards() {
  const r = run(), there = state.there, box = $("cards");
  if (!there) { box.textContent = "Nothing has been learned yet."; return; }
  if (box.childElementCount !== there.options.length || box.dataset.run !== String(state.at) || there.options.some((o, k) => box.children[k]?.dataset.number !== String(o.number))) {
    box.innerHTML = "";
    box.dataset.run = String(state.at);
    for (const option of there.options) box.append(makeCard(option.number));
  }
  const { places } = mapped;
  there.options.forEach((option, o) => {
    const card = box.children[o], known = r.policy_options.find((each) => each.number === option.number) || {};
    card.classList.toggle("chosen", o === there.option);
    card.style.setProperty("--colour", colourOf(option.number));
    card.querySelector("button").setAttribute("aria-pressed", String(state.pinned === option.number));
    const facts = {
      "expected here": within(option.expected_return, option.expected_deviation),
      "measured": option.measured_return === null ? "no rollouts of its own" : `${digits(option.measured_return)} (its newest ${option.measured_rollouts})`,
      "rules in": `${Math.round(100 * (known.share || 0))} % of contexts`,
      "parameters": list(option.parameters, 10),
    };
    card.querySelector("dl").innerHTML = "";
    for (const [name, text] of Object.entries(facts)) {
      card.querySelector("dl").append(Object.assign(document.createElement("dt"), { textContent: name }), Object.assign(document.createElement("dd"), { textContent: text }));
    }
    const canvas = card.querySelector("canvas");
    if (there.scene) drawScene(canvas, there, (each) => each === option, true);
    else if (r.D === 1 && r.S && state.line) drawCurve(canvas, r, option, o, places);
    else drawBars(canvas, r, option, known, places);
  });
  compareCards();
}

function makeCard(number) {
  const card = document.createElement("article");
  card.className = "card";
  card.dataset.number = number;
  card.innerHTML = `<header><h3><span class="swatch"></span>Option ${number}</h3><button type="button">pin</button></header>`
    + `<canvas aria-label="Option ${number}"></canvas><dl></dl>`;
  card.querySelector("button").addEventListener("click", () => {
    state.pinned = state.pinned === number ? null : number;
    showCards();
    showPicture();
  });
  return card;
}

function drawCurve(canvas, r, option, o, places) {
  // The one parameter over the context, thick where the option rules, among the option's own rollouts.
  const { pen, width, height } = surface(canvas), { xs, means, chosen } = state.line, axis = +state.x.slice(1) || 0, of = valueOf(r, "p0");
  const [low, high] = endsOf(r, "p0");
  const X = (v) => 4 + ((v - xs[0]) / (xs[xs.length - 1] - xs[0] || 1)) * (width - 8), Y = (v) => height - 6 - ((v - low) / (high - low || 1)) * (height - 12);
  pen.strokeStyle = ink("--line");
  pen.strokeRect(0.5, 0.5, width - 1, height - 1);
  pen.fillStyle = pen.strokeStyle = colourOf(option.number);
  pen.globalAlpha = 0.45;
  for (const i of places) if (r.rollouts.number[i] === option.number) pen.fillRect(X(r.rollouts.contexts[i * r.S + axis]) - 1.5, Y(of(i)) - 1.5, 3, 3);
  pen.globalAlpha = 1;
  for (let k = 1; k < xs.length; k++) {
    pen.lineWidth = chosen[k] === o ? 4 : 1.5;
    line(pen, [[X(xs[k - 1]), Y(means[k - 1][o][0])], [X(xs[k]), Y(means[k][o][0])]]);
  }
  pen.beginPath();
  pen.arc(X(state.context[axis]), Y(option.parameters[0]), 5, 0, 7);
  pen.fill();
}

function drawBars(canvas, r, option, known, places) {
  // Parameters within what was tried of each, the option's width as a band, and its own rollouts as dots.
  const { pen, width, height } = surface(canvas), own = places.filter((i) => r.rollouts.number[i] === option.number).slice(-60);
  const size = Math.min(r.D, 16), step = width / size;
  for (let d = 0; d < size; d++) {
    const of = valueOf(r, `p${d}`), [low, high] = endsOf(r, `p${d}`);
    const Y = (v) => height - 6 - ((v - low) / (high - low || 1)) * (height - 12), x = (d + 0.5) * step;
    pen.fillStyle = ink("--line");
    pen.fillRect(x - 1, 6, 2, height - 12);
    pen.fillStyle = colourOf(option.number);
    const spread = (known.deviations || [])[d] || 0, half = Math.min(step / 3, 18);
    pen.globalAlpha = 0.25;
    const top = Math.max(Y(option.parameters[d] + spread), 2), bottom = Math.min(Y(option.parameters[d] - spread), height - 2);
    pen.fillRect(x - half, top, 2 * half, Math.max(bottom - top, 1));
    pen.globalAlpha = 0.5;
    for (const i of own) pen.fillRect(x + half + 3, Y(of(i)) - 1, 4, 2);
    pen.globalAlpha = 1;
    pen.fillRect(x - half, Y(option.parameters[d]) - 2, 2 * half, 4);
  }
}

function compareCards() {
  const there = state.there, pinned = there.options.find((each) => each.number === state.pinned), best = there.options[there.option];
  if (!pinned) { $("comparison").textContent = ""; return; }
  if (pinned === best) { $("comparison").textContent = `Option ${pinned.number} is pinned, and the gate chooses it here.`; return; }
  const less = best.expected_return - pinned.expected_return;
  $("comparison").textContent = `Pinned option ${pinned.number} against option ${best.number}, the gate's choice: ${less >= 0 ? "less" : "more"} by `
    + `${digits(Math.abs(less))} in expected return. Parameters differ by ${list(Array.from(pinned.parameters, (v, i) => v - best.parameters[i]))}.`;
}

let seen = null;
function showPicture() {
  const there = state.there;
  $("picture-figure").hidden = !(there && there.scene);
  if (!there || !there.scene) return;
  const only = state.pinned !== null && there.options.some((each) => each.number === state.pinned);
  seen = drawScene($("picture"), there, (option, o) => !state.hidden.has(option.number) && (!only || o === there.option || option.number === state.pinned), false);
  $("picture-caption").textContent = "All options in this context, the gate's choice drawn thick."
    + (there.scene.drag.length ? " Drag the goal (×)." : "") + (there.scene.low.length === 3 ? " Drag elsewhere to turn the picture." : "");
}

// Learning

function drawCurves() {
  const key = state.curve, all = state.runs.map((r, k) => ({ r, k })).filter(({ r }) => (r.curves[key] || []).some((v) => v !== null));
  let xs = [], ys = [];
  for (const { r } of all) {
    r.curves[key].forEach((v, i) => { if (v !== null) { xs.push(r.curves.rollouts[i]); ys.push(v); } });
  }
  const f = frame($("curves"), extent(Math.min(0, ...xs), Math.max(...xs, 1)), extent(Math.min(...ys), Math.max(...ys)), "rollouts", CURVES[key]);
  const pen = f.pen;
  all.forEach(({ r, k }) => {
    const points = [];
    r.curves[key].forEach((v, i) => { if (v !== null) points.push([f.X(r.curves.rollouts[i]), f.Y(v)]); });
    pen.strokeStyle = pen.fillStyle = state.runs.length > 1 ? colourOf(k + 1) : ink("--accent");
    pen.lineWidth = k === state.at ? 2.5 : 1.5;
    line(pen, points);
    for (const [x, y] of points) pen.fillRect(x - 2, y - 2, 4, 4);
    if (state.runs.length > 1 && points.length) { pen.textAlign = "right"; pen.fillText(r.folder.split("/").pop(), f.right, f.top + 14 * (k + 1)); }
  });
  if (state.step !== null) {
    pen.strokeStyle = ink("--ink");
    pen.setLineDash([5, 4]);
    const at = f.X(run().curves.rollouts[state.step - 1] || 0);
    line(pen, [[at, f.top], [at, f.bottom]]);
    pen.setLineDash([]);
  }
}

function setReplay(value) {
  const steps = run().status.steps;
  state.step = value >= steps ? null : value;
  const alive = (at) => run().lives.filter((each) => each.born <= at && (each.died === null || each.died > at)).length;
  const rollouts = run().curves.rollouts[value - 1] || 0;
  $("replay-text").textContent = state.step === null ? `now, after ${steps} learning steps`
    : `as learning step ${value} of ${steps} saw it: ${rollouts} rollouts, ${alive(rollouts)} options`;
  refresh();
}

// Tables

function fill(table, head, body) {
  table.innerHTML = "";
  const add = (cells, kind) => {
    const row = document.createElement("tr");
    for (const cell of cells) row.append(Object.assign(document.createElement(kind), { textContent: cell }));
    table.append(row);
    return row;
  };
  add(head, "th");
  return body.map((cells) => add(cells, "td"));
}

function showTables() {
  const r = run();
  fill($("options-table"), ["option", "rules in", "expected", "±", "measured", "of rollouts", "parameters, mean where it rules"],
    r.policy_options.map((o) => [o.number, `${Math.round(100 * o.share)} %`, digits(o.expected_return, 6), digits(o.expected_deviation, 3),
      digits(o.measured_return, 6), o.measured_rollouts, list(o.parameters, 8)]));
  const done = shown(r).filter((i) => r.rollouts.state[i] === 1).sort((a, b) => r.rollouts.returns[b] - r.rollouts.returns[a]).slice(0, 12);
  const made = fill($("best-table"), ["rollout", "return", "option", "context", "parameters"], done.map((i) => [
    r.rollouts.id[i], digits(r.rollouts.returns[i], 9), r.rollouts.number[i] || "initial", list(contextOf(r, i), 4), list(parametersOf(r, i), 6)]));
  made.forEach((row, k) => row.addEventListener("click", () => select(r.rollouts.id[done[k]])));
}
const contextOf = (r, i) => r.rollouts.contexts.subarray(i * r.S, (i + 1) * r.S);
const parametersOf = (r, i) => r.rollouts.parameters.subarray(i * r.D, (i + 1) * r.D);

function showCompare() {
  $("compare").hidden = state.runs.length < 2;
  if (state.runs.length < 2) return;
  const last = (values) => [...values].reverse().find((v) => v !== null);
  fill($("compare-table"), ["run", "method", "rollouts", "failed", "options", "best return", "return of the policy", "seconds of learning", "doubts"],
    state.runs.map((r) => [r.folder, r.method, r.status.done, r.status.failed, r.policy_options.length, digits(r.best_return, 6),
      digits(last(r.curves.greedy_mean_return), 6), digits(r.curves.learner_seconds.reduce((a, b) => a + (b || 0), 0), 3), r.doubts.length]));
  const names = [...new Set(state.runs.flatMap((r) => Object.keys(r.settings)))];
  const differ = names.filter((name) => new Set(state.runs.map((r) => JSON.stringify(r.settings[name]))).size > 1);
  fill($("settings-table"), ["setting", ...state.runs.map((r) => r.folder)],
    differ.map((name) => [name, ...state.runs.map((r) => (name in r.settings ? JSON.stringify(r.settings[name]) : "default"))]));
}

// One rollout

function select(id) {
  state.selected = id;
  const r = run(), i = r.rollouts.id.indexOf(id), box = $("selected");
  box.hidden = i < 0;
  if (i < 0) { drawMap(); return; }
  box.innerHTML = "";
  box.append(strong(`Rollout ${id}`), ` ${describe(r, i).slice(1).join("; ")}`);
  if (source.live && r.writable && r.rollouts.state[i] !== 0) box.append(corrections(id));
  if (source.live) server.call(`rollout?run=${state.at}&id=${id}`).then((found) => { if (found.reason) box.append(` Reason: ${found.reason}`); }, () => {});
  drawMap();
}

function describe(r, i) {
  const a = r.rollouts;
  return [`rollout ${a.id[i]}`, a.state[i] === 1 ? `return ${digits(a.returns[i], 6)}${r.far(i) ? ", far from the others" : ""}` : STATES[a.state[i]],
    a.number[i] ? `option ${a.number[i]}` : "initial policy", r.S ? `context ${list(contextOf(r, i), 6)}` : "no context", `parameters ${list(parametersOf(r, i), 8)}`];
}

function corrections(id) {
  const form = document.createElement("form");
  form.innerHTML = `<label>right return <input type="number" step="any" id="right"></label><label>why <input id="why"></label>`
    + `<button type="button" id="correct">correct</button><button type="button" id="drop">drop</button>`;
  form.addEventListener("submit", (event) => event.preventDefault());
  const send = (text, content) => async () => {
    if (content().return === null) { say("Type the right return first."); return; }
    if (!(await sure(text(content())))) return;
    say("The run learns anew from what is right; that may take a while.");
    try {
      await server.call("correct", { run: state.at, id, ...content() });
      await load(state.at);
      if (state.selected === id) select(id); // unless another was selected meanwhile
      say(`Rollout ${id} was corrected.`);
    } catch (error) { say(String(error.message)); }
  };
  const why = () => $("why").value || null;
  form.querySelector("#correct").addEventListener("click", send((c) => `Correct the return of rollout ${id} to ${c.return}? What was learned from the old one is learned anew.`,
    () => ({ return: $("right").value === "" ? null : Number($("right").value), reason: why() })));
  form.querySelector("#drop").addEventListener("click", send(() => `Drop rollout ${id}? It will count as failed, and what was learned from it is learned anew.`,
    () => ({ drop: true, reason: why() })));
  return form;
}

function sure(text) {
  $("ask-text").textContent = text;
  $("ask").showModal();
  return new Promise((resolve) => $("ask").addEventListener("close", () => resolve($("ask").returnValue === "yes"), { once: true }));
}

function say(text) {
  $("message").textContent = text;
  $("message").hidden = !text;
}

// All of it

function showRun() {
  const r = run(), choices = axisChoices(r);
  $("name").textContent = `${r.name}: ${r.policy_options.length} option${r.policy_options.length === 1 ? "" : "s"}`;
  $("facts").textContent = `${r.method}, seed ${r.seed}; ${r.status.done.toLocaleString("en")} rollouts done, ${r.status.failed} failed, ${r.status.asked} under way; `
    + `${r.status.steps} learning steps; best return ${digits(r.best_return, 6)}`;
  $("doubts").hidden = !r.doubts.length;
  $("doubts").querySelector("ul").replaceChildren(...r.doubts.map((d) => Object.assign(document.createElement("li"), { textContent: d.text })));
  for (const [id, wanted] of [["x", r.S ? "c0" : "p0"], ["y", r.S || r.D < 2 ? "p0" : "p1"]]) {
    $(id).replaceChildren(...choices.map((each) => new Option(each.name, each.key)));
    if (!choices.some((each) => each.key === state[id])) state[id] = wanted;
    $(id).value = state[id];
  }
  const curves = Object.keys(CURVES).filter((key) => (r.curves[key] || []).some((v) => v !== null));
  $("curve").replaceChildren(...curves.map((key) => new Option(CURVES[key], key)));
  if (!curves.includes(state.curve)) state.curve = curves[0] || "batch_mean_return";
  $("curve").value = state.curve;
  $("replay").max = Math.max(r.status.steps, 1);
  $("replay").value = state.step === null ? r.status.steps : state.step;
  makeLegend(r);
  makeSliders();
  if (state.context.length !== r.S) state.context = r.start.slice();
  state.line = null;
  setReplay(Number($("replay").value));
  showCompare();
  setContext(state.context.slice());
}

function makeLegend(r) {
  const numbers = [...new Set(r.rollouts.number)].sort((a, b) => a - b);
  $("legend").replaceChildren(...numbers.map((n) => {
    const label = document.createElement("label"), box = Object.assign(document.createElement("input"), { type: "checkbox", checked: !state.hidden.has(n) });
    box.dataset.number = n;
    box.addEventListener("change", () => { if (box.checked) state.hidden.delete(n); else state.hidden.add(n); refresh(); });
    const swatch = Object.assign(document.createElement("span"), { className: "swatch" });
    swatch.style.setProperty("--colour", colourOf(n));
    label.append(box, swatch, n ? `option ${n}` : "initial");
    return label;
  }));
}

function refresh() {
  drawMap();
  drawParallel();
  drawCurves();
  showTables();
  if (state.there) { showCards(); showPicture(); }
}

function connect() {
  for (const id of ["x", "y"]) $(id).addEventListener("change", () => { state[id] = $(id).value; state.line = null; refresh(); setContext(state.context.slice()); });
  $("colour").addEventListener("change", () => { state.colour = $("colour").value; refresh(); });
  $("curve").addEventListener("change", () => { state.curve = $("curve").value; drawCurves(); });
  $("least").addEventListener("input", () => { state.least = $("least").value === "" ? -Infinity : Number($("least").value); refresh(); });
  $("most").addEventListener("input", () => { state.most = $("most").value === "" ? Infinity : Number($("most").value); refresh(); });
  $("failed").addEventListener("change", () => { state.failed = $("failed").checked; refresh(); });
  $("clear").addEventListener("click", () => {
    Object.assign(state, { least: -Infinity, most: Infinity, failed: true, hidden: new Set() });
    $("least").value = $("most").value = "";
    $("failed").checked = true;
    makeLegend(run());
    refresh();
  });
  $("replay").addEventListener("input", () => setReplay(Number($("replay").value)));
  $("theme").addEventListener("click", () => {
    const dark = ink("color-scheme") === "dark" || getComputedStyle(document.documentElement).colorScheme === "dark";
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    makeLegend(run());
    refresh();
  });
  $("run").addEventListener("change", () => { Object.assign(state, { at: Number($("run").value), there: null, context: [], step: null, selected: null }); $("selected").hidden = true; showRun(); });
  let later = null;
  window.addEventListener("resize", () => { clearTimeout(later); later = setTimeout(refresh, 60); });
  connectMap();
  connectPicture();
}

function nearest(event) {
  // The rollout under the pointer.
  const box = $("map").getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
  let best = -1, least = 64;
  if (mapped) {
    for (let k = 0; k < mapped.places.length; k++) {
      const far = (mapped.px[k] - x) ** 2 + (mapped.py[k] - y) ** 2;
      if (far < least) { least = far; best = k; }
    }
  }
  return best < 0 ? -1 : mapped.places[best];
}

function connectMap() {
  const canvas = $("map");
  let from = null;
  const drag = (event) => {
    const next = state.context.slice(), axis = +state.x.slice(1), r = run();
    next[axis] = Math.min(Math.max(mapped.f.back(event.clientX - canvas.getBoundingClientRect().left), r.low[axis]), r.high[axis]);
    setContext(next);
  };
  canvas.addEventListener("pointerdown", (event) => { from = [event.clientX, event.clientY]; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (from && state.x[0] === "c" && Math.hypot(event.clientX - from[0], event.clientY - from[1]) > 3) { $("tip").hidden = true; drag(event); return; }
    tip(event, nearest(event));
  });
  canvas.addEventListener("pointerup", (event) => {
    const still = from && Math.hypot(event.clientX - from[0], event.clientY - from[1]) <= 3;
    from = null;
    if (!still) return;
    const i = nearest(event);
    if (i >= 0) select(run().rollouts.id[i]);
    else if (state.x[0] === "c") drag(event);
  });
  canvas.addEventListener("pointercancel", () => { from = null; });
  canvas.addEventListener("pointerleave", () => { $("tip").hidden = true; });
  canvas.addEventListener("keydown", (event) => {
    const side = { ArrowLeft: -1, ArrowRight: 1 }[event.key], r = run();
    if (!side || state.x[0] !== "c") return;
    event.preventDefault();
    const axis = +state.x.slice(1), next = state.context.slice(), grid = !source.live && r.grid.axes.includes(axis) ? r.grid.values[r.grid.axes.indexOf(axis)] : null;
    next[axis] = Math.min(Math.max(next[axis] + side * (grid ? grid[1] - grid[0] : (r.high[axis] - r.low[axis]) / 100), r.low[axis]), r.high[axis]);
    setContext(next);
  });
}

function tip(event, i) {
  $("tip").hidden = i < 0;
  if (i < 0) return;
  $("tip").textContent = describe(run(), i).join("\n");
  $("tip").style.left = `${Math.min(event.clientX + 14, window.innerWidth - 240)}px`;
  $("tip").style.top = `${event.clientY + 14}px`;
}

function connectPicture() {
  const canvas = $("picture");
  let last = null, goal = null;
  canvas.addEventListener("pointerdown", (event) => {
    const box = canvas.getBoundingClientRect(), there = state.there;
    last = [event.clientX, event.clientY];
    goal = null;
    if (there.goal && there.scene.drag.length) {
      const [x, y] = seen.to(there.goal);
      if (Math.hypot(event.clientX - box.left - x, event.clientY - box.top - y) < 24) goal = Array.from(there.goal);
    }
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!last || !seen) return;
    const dx = event.clientX - last[0], dy = event.clientY - last[1], r = run();
    last = [event.clientX, event.clientY];
    if (goal) {
      seen.move(dx, dy).forEach((v, k) => { goal[k] += v; });
      const next = state.context.slice();
      state.there.scene.drag.forEach((axis, k) => { if (axis >= 0) next[axis] = Math.min(Math.max(goal[k], r.low[axis]), r.high[axis]); });
      setContext(next);
    } else if (state.there.scene.low.length === 3) {
      state.yaw -= 0.01 * dx;
      state.pitch = Math.min(Math.max(state.pitch + 0.01 * dy, -1.5), 1.5);
      showCards();
      showPicture();
    }
  });
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => { last = goal = null; });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-8, 0], ArrowRight: [8, 0], ArrowUp: [0, -8], ArrowDown: [0, 8] }[event.key], there = state.there, r = run();
    if (!step || !there || !there.goal || !there.scene.drag.length) return;
    event.preventDefault();
    const next = state.context.slice(), moved = seen.move(...step);
    there.scene.drag.forEach((axis, k) => { if (axis >= 0) next[axis] = Math.min(Math.max(there.goal[k] + moved[k], r.low[axis]), r.high[axis]); });
    setContext(next);
  });
}

async function load(at) {
  const found = await server.call(`data?run=${at}`);
  state.runs[at] = ready(found);
  if (at === state.at) { state.line = null; showRun(); }
}

async function follow() {
  // While a run goes on, what is new is shown.
  try {
    const found = await server.call("changes");
    for (const [at, mark] of found.runs.entries()) {
      if (state.runs[at] && state.runs[at].mark !== mark && !working) await load(at);
    }
    if ($("message").textContent === "The server does not answer.") say("");
  } catch { say("The server does not answer."); }
  setTimeout(follow, 2000);
}

async function begin() {
  connect();
  if (DATA.mode === "report") state.runs = DATA.runs.map(ready);
  else {
    const { runs } = await server.call("changes");
    state.runs = (await Promise.all(runs.map((_, at) => server.call(`data?run=${at}`)))).map(ready);
  }
  $("run-choice").hidden = state.runs.length < 2;
  $("run").replaceChildren(...state.runs.map((r, k) => new Option(r.folder, k)));
  showRun();
  if (source.live) setTimeout(follow, 2000);
}
begin().catch((error) => say(String(error.message || error)));
