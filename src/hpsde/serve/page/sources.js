// Where numbers come from: the policy in the page, or the server. Both answer with a context, every option in it, the one
// that is chosen, its picture, options along a context number, and, for a learning step of the past, which one it is.

const LINE_POINTS = 81, LIVE_POINTS = 41; // along a context number: of one, and of several, where every move draws lines anew
const report = {
  live: false,
  free(r) {
    // Context numbers that can be moved: pictures and grids are there for one or two, numbers for all.
    return r.grid.drawing || !r.model ? r.grid.axes : [...Array(r.S).keys()];
  },
  async evaluate(context, axis, step) {
    const r = run(), past = step === null ? null : r.models.filter((each) => each.step <= step).pop();
    const found = past || r.model ? modelled(past || r, context, axis, r) : gridded(r, context, axis);
    return { ...found, step: past ? past.step : null, entries: past ? past.entries : null, ...(past ? { scene: null, goal: null } : drawn(r, found)) };
  },
};

function modelled(of, context, axis, r) {
  // The policy evaluated here.
  of.ready = of.ready || makeModel(of.model);
  const at = of.ready.at(context), entries = of.entries || r.policy_options;
  const options = at.options.map((option, o) => ({ number: entries[o].number, measured_return: entries[o].measured_return,
    measured_rollouts: entries[o].measured_rollouts, ...option }));
  const count = r.S === 1 ? LINE_POINTS : LIVE_POINTS;
  const xs = axis === null ? null : Array.from({ length: count }, (_, i) => r.low[axis] + ((r.high[axis] - r.low[axis]) * i) / (count - 1));
  return { context: Array.from(context), option: at.option, options, line: xs && of.ready.line(context, axis, xs) };
}

function gridPlace(grid, context, start) {
  // The place in a grid that is nearest to a context, and the context there.
  const there = start.slice();
  let at = 0;
  grid.axes.forEach((axis, k) => {
    const values = grid.values[k];
    let best = 0;
    values.forEach((v, i) => { if (Math.abs(v - context[axis]) < Math.abs(values[best] - context[axis])) best = i; });
    at = at * values.length + best;
    there[axis] = values[best];
  });
  return [at, there];
}

function gridded(r, context, axis) {
  // A policy that cannot be evaluated here, at the nearest context that the file has numbers for.
  const grid = r.grid, O = r.policy_options.length, [at, there] = gridPlace(grid, context, r.start), k = axis === null ? -1 : grid.axes.indexOf(axis);
  const means = (place) => r.policy_options.map((_, o) => grid.means.subarray((place * O + o) * r.D, (place * O + o + 1) * r.D));
  const options = means(at).map((parameters, o) => ({ number: r.policy_options[o].number, parameters, expected_return: grid.expected[at * O + o],
    expected_deviation: grid.deviation[at * O + o], measured_return: r.policy_options[o].measured_return, measured_rollouts: r.policy_options[o].measured_rollouts }));
  let line = null;
  if (k >= 0) {
    const places = grid.values[k].map((x) => { const next = there.slice(); next[axis] = x; return gridPlace(grid, next, r.start)[0]; });
    line = { xs: grid.values[k], means: places.map(means), chosen: places.map((place) => grid.chosen[place]) };
  }
  return { context: there, option: grid.chosen[at], options, line };
}

function drawn(r, found) {
  // Pictures between those of the grid.
  const d = r.grid.drawing, O = found.options.length;
  if (!d) return { scene: null, goal: null };
  let corners = [[0, 1]];
  r.grid.axes.forEach((axis, k) => {
    const values = r.grid.values[k], n = values.length, share = n > 1 ? ((found.context[axis] - values[0]) / (values[n - 1] - values[0])) * (n - 1) : 0;
    const low = Math.min(Math.max(Math.floor(share), 0), Math.max(n - 2, 0)), f = Math.min(Math.max(share - low, 0), 1);
    corners = corners.flatMap(([at, w]) => [[at * n + low, w * (1 - f)], [at * n + Math.min(low + 1, n - 1), w * f]]).filter(([, w]) => w > 0);
  });
  const mixed = (array, place, count) => Array.from({ length: count }, (_, i) => Array.from({ length: d.P }, (__, c) =>
    corners.reduce((sum, [at, w]) => sum + w * array[(place(at) * count + i) * d.P + c], 0)));
  found.options.forEach((option, o) => {
    option.line = mixed(d.lines, (at) => at * O + o, d.K);
    option.points = mixed(d.points, (at) => at * O + o, d.M);
  });
  return { scene: d, goal: d.goal && mixed(d.goal, (at) => at * O, 1)[0] };
}

const server = {
  live: true,
  token: new URLSearchParams(location.search).get("token") || "",
  free: (r) => [...Array(r.S).keys()],
  async call(path, content) {
    const words = { Authorization: `Bearer ${server.token}` };
    const request = content === undefined ? { headers: words } : {
      method: "POST", headers: { ...words, "Content-Type": "application/json" }, body: JSON.stringify(content) };
    const answer = await fetch(path, request);
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error || answer.statusText);
    return found;
  },
  async evaluate(context, axis, step) {
    // The first context came with the run.
    const first = run().first;
    run().first = null;
    if (first && step === null && axis === (run().S ? 0 : null) && context.every((v, i) => v === run().start[i])) return first;
    return server.call("evaluate", { run: state.at, context: Array.from(context), axis, step });
  },
};
const source = DATA.mode === "report" ? report : server;
