// All of it

function showRun() {
  const r = run(), choices = axisChoices(r);
  $("name").textContent = `${r.name}: ${r.policy_options.length} option${r.policy_options.length === 1 ? "" : "s"}`;
  $("facts").textContent = `${r.method}, seed ${r.seed}; ${r.status.done.toLocaleString("en")} rollouts done, ${r.status.failed} failed, ${r.status.asked} under way; `
    + `${r.status.steps} learning step${r.status.steps === 1 ? "" : "s"}; best return ${digits(r.best_return, 6)}`;
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
}

function makeLegend(r) {
  const numbers = [...new Set([...r.rollouts.number, ...r.policy_options.map((each) => each.number)])].sort((a, b) => a - b);
  $("legend").replaceChildren(...numbers.map((n) => {
    const label = document.createElement("label"), box = Object.assign(document.createElement("input"), { type: "checkbox", checked: !state.hidden.has(n) });
    box.dataset.number = n;
    box.addEventListener("change", () => { if (box.checked) state.hidden.delete(n); else state.hidden.add(n); refresh(); });
    label.append(box, swatch(n), n ? `option ${n}` : "initial");
    return label;
  }));
}

function refresh() {
  forgetLayout();
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
    forgetLayout();
    makeLegend(run());
    refresh();
  });
  $("run").addEventListener("change", () => { Object.assign(state, { at: Number($("run").value), there: null, context: [], step: null, selected: null, line: null }); $("selected").hidden = true; showRun(); });
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
    if (!source.free(r).includes(axis)) return;
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
    if (!side || state.x[0] !== "c" || !source.free(r).includes(+state.x.slice(1))) return;
    event.preventDefault();
    const axis = +state.x.slice(1), next = state.context.slice(), grid = !source.live && !r.model ? r.grid.values[r.grid.axes.indexOf(axis)] : null;
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
    const runs = [...Array(DATA.runs).keys()];
    state.runs = (await Promise.all(runs.map((at) => server.call(`data?run=${at}`)))).map(ready);
  }
  $("run-choice").hidden = state.runs.length < 2;
  $("run").replaceChildren(...state.runs.map((r, k) => new Option(r.folder, k)));
  showRun();
  if (source.live) setTimeout(follow, 2000);
}
begin().catch((error) => say(String(error.message || error)));
