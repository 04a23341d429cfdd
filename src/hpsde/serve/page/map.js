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
  r.sorted = r.sorted || {};
  const values = r.sorted[state.colour] = r.sorted[state.colour] || Float64Array.from({ length: r.count }, (_, i) => of(i)).filter((v) => !Number.isNaN(v)).sort();
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
  const px = new Float32Array(places.length), py = new Float32Array(places.length), own = new Map();
  places.forEach((i, k) => {
    px[k] = f.X(x(i));
    py[k] = f.Y(y(i));
    const number = r.rollouts.number[i];
    if (!own.has(number)) own.set(number, []);
    own.get(number).push(i);
  });
  dots($("map"), px, py, (k) => colour(places[k]), size, places.length > 20000 ? 0.5 : 0.75);
  places.forEach((i, k) => {
    if (r.rollouts.state[i] === 2) cross(pen, px[k], py[k], 3, ink("--soft"));
    else if (r.far(i)) ring(pen, px[k], py[k], 6, ink("--ink"));
    if (r.rollouts.id[i] === state.selected) ring(pen, px[k], py[k], 8, ink("--accent"));
  });
  const layer = Object.assign(document.createElement("canvas"), { width: $("map").width, height: $("map").height });
  layer.getContext("2d").drawImage($("map"), 0, 0);
  drawOptionsOnMap(f);
  mapped = { f, px, py, places, layer, own };
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

// The options that are shown: those of the newest policy, or of the replayed one.
const entries = () => (state.there && state.there.entries) || run().policy_options;
// Whether the policy of the replayed moment was kept.
const known = () => state.step === null || (state.there && state.there.step !== null);

function drawOptionsOnMap(f) {
  const pen = f.pen;
  pen.save();
  pen.beginPath();
  pen.rect(f.left, f.top, f.right - f.left, f.bottom - f.top);
  pen.clip();
  if (state.line && state.x[0] === "c" && state.y[0] === "p" && known()) {
    const d = +state.y.slice(1), { xs, means, chosen } = state.line;
    entries().forEach((option, o) => {
      if (state.hidden.has(option.number)) return;
      for (const [width, colour] of [[2, ink("--back")], [0, colourOf(option.number)]]) {
        pen.strokeStyle = colour;
        for (const thick of [false, true]) {
          pen.lineWidth = (thick ? 4 : 1.6) + width;
          pen.beginPath();
          for (let k = 1; k < xs.length; k++) {
            if ((chosen[k] === o) !== thick) continue;
            pen.moveTo(f.X(xs[k - 1]), f.Y(means[k - 1][o][d]));
            pen.lineTo(f.X(xs[k]), f.Y(means[k][o][d]));
          }
          pen.stroke();
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
  if (state.there && state.y[0] === "p" && known()) {
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
  let places = mapped.places.filter((i) => r.rollouts.state[i] === 1);
  if (places.length > 1500) { const every = Math.ceil(places.length / 1500); places = places.filter((_, k) => k % every === 0); }
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
    pen.textAlign = k === 0 ? "left" : k === keys.length - 1 ? "right" : "center";
    pen.fillText(short ? each.name.replace("parameter ", "p").replace("context ", "c").replace("context", "c") : each.name, k === 0 ? 2 : k === keys.length - 1 ? width - 2 : X(k), 14);
  });
}
