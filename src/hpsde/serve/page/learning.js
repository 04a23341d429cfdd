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
  });
  $("curve-names").hidden = state.runs.length < 2;
  $("curve-names").replaceChildren(...all.map(({ r, k }) => {
    const name = document.createElement("span");
    name.append(swatch(k + 1), ` ${r.folder.split("/").pop()}`);
    return name;
  }));
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
  const past = run().past.filter((each) => each <= value).pop();
  const kept = past === undefined ? "; its policy was not kept" : past < value ? `; the policy is that of step ${past}, the last one kept` : "";
  $("replay-text").textContent = state.step === null ? `now, after ${steps} learning step${steps === 1 ? "" : "s"}`
    : `as learning step ${value} of ${steps} saw it: ${rollouts} rollouts, ${alive(rollouts)} options${kept}`;
  state.line = null;
  refresh();
  setContext(state.context.slice());
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

function bestOf(r, places, count) {
  // The places of the highest returns, in one pass.
  const a = r.rollouts, best = [];
  for (const i of places) {
    if (a.state[i] !== 1 || (best.length === count && !(a.returns[i] > a.returns[best[count - 1]]))) continue;
    best.push(i);
    best.sort((p, q) => a.returns[q] - a.returns[p]);
    if (best.length > count) best.pop();
  }
  return best;
}

let tabled = null; // the options that the table shows

function showOptionsTable() {
  tabled = entries();
  fill($("options-table"), ["option", "rules in", "expected", "±", "measured", "of rollouts", "parameters, mean where it rules"],
    entries().map((o) => [o.number, `${Math.round(100 * o.share)} %`, digits(o.expected_return, 6), digits(o.expected_deviation, 3),
      digits(o.measured_return, 6), o.measured_rollouts, list(o.parameters, 8)]));
}

function showTables() {
  const r = run();
  showOptionsTable();
  const done = bestOf(r, mapped.places, 12);
  const made = fill($("best-table"), ["rollout", "return", "option", ...(r.S ? ["context"] : []), "parameters"], done.map((i) => [
    r.rollouts.id[i], digits(r.rollouts.returns[i], 9), r.rollouts.number[i] || "initial", ...(r.S ? [list(contextOf(r, i), 4)] : []), list(parametersOf(r, i), 6)]));
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
