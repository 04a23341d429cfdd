// One rollout

function select(id) {
  state.selected = id;
  const r = run(), i = r.rollouts.id.indexOf(id), box = $("selected");
  box.hidden = i < 0;
  if (i < 0) { drawMap(); return; }
  box.innerHTML = "";
  box.append(strong(`Rollout ${id}`), ` ${describe(r, i).slice(1).join("; ")}`);
  if (source.live && r.writable && r.rollouts.state[i] !== 0) box.append(corrections(id));
  if (source.live) server.call(`rollout?run=${state.at}&id=${id}`).then((found) => { if ((found.reason || "").length > (r.reasons[id] || "").length) box.append(` Why: ${found.reason}`); }, () => {});
  drawMap();
}

function describe(r, i) {
  const a = r.rollouts;
  return [`rollout ${a.id[i]}`, a.state[i] === 1 ? `return ${digits(a.returns[i], 6)}${r.far(i) ? ", far from the others" : ""}` : `${STATES[a.state[i]]}${r.reasons[a.id[i]] ? `: ${r.reasons[a.id[i]]}` : ""}`,
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
