// The cards

function showCards() {
  const r = run(), there = state.there, box = $("cards");
  if (!there) { box.textContent = "Nothing has been learned yet."; return; }
  if (box.childElementCount !== there.options.length || box.dataset.run !== String(state.at) || there.options.some((o, k) => box.children[k]?.dataset.number !== String(o.number))) {
    box.innerHTML = "";
    box.dataset.run = String(state.at);
    for (const option of there.options) box.append(makeCard(option.number));
  }
  there.options.forEach((option, o) => {
    const card = box.children[o], entry = entries().find((each) => each.number === option.number) || {}, own = mapped.own.get(option.number) || [];
    card.classList.toggle("chosen", o === there.option);
    card.style.setProperty("--colour", colourOf(option.number));
    card.querySelector("button").setAttribute("aria-pressed", String(state.pinned === option.number));
    const facts = [
      within(option.expected_return, option.expected_deviation),
      option.measured_return === null ? "no rollouts of its own" : `${digits(option.measured_return)} (its newest ${option.measured_rollouts})`,
      !r.S ? `${entry.share ? "chosen" : "not chosen"}` : `${Math.round(100 * (entry.share || 0))} % of contexts${entry.share ? whereOf(r, entry) : ""}`,
      list(option.parameters, 10),
    ];
    const said = card.querySelectorAll("dd");
    facts.forEach((text, k) => { if (said[k].textContent !== text) said[k].textContent = text; });
    const canvas = card.querySelector("canvas");
    if (there.scene) drawScene(canvas, there, (each) => each === option, true);
    else if (r.D === 1 && r.S && state.line) drawCurve(canvas, r, option, o, own);
    else drawBars(canvas, r, option, entry, own);
    drawReturns(card.querySelector(".strip"), r, option.number, own);
  });
  compareCards();
}

const MOST_OWN = 1000; // rollouts that a card shows
const factNames = (r) => [r.S ? "expected here" : "expected", "measured", r.S ? "rules in" : "by the gate", "parameters"];
function whereOf(r, entry) {
  // Between what the contexts lie where an option rules.
  if (!r.S || r.S > 3) return "";
  return `, within ${entry.low.map((v, i) => `${r.S > 1 ? `${i + 1}: ` : ""}${digits(v, 3)} to ${digits(entry.high[i], 3)}`).join("; ")}`;
}

function makeCard(number) {
  const card = document.createElement("article");
  card.className = "card";
  card.dataset.number = number;
  card.innerHTML = `<header><h3><span class="swatch"></span>Option ${number}</h3><button type="button">pin</button></header>`
    + `<canvas aria-label="Option ${number}"></canvas><dl>${factNames(run()).map((name) => `<dt>${name}</dt><dd></dd>`).join("")}`
    + `<dt>returns</dt><dd><canvas class="strip" aria-label="Returns of the rollouts of option ${number}, the newest at the right"></canvas></dd></dl>`;
  card.querySelector("button").addEventListener("click", () => {
    state.pinned = state.pinned === number ? null : number;
    showCards();
    showPicture();
  });
  return card;
}

function drawCurve(canvas, r, option, o, own) {
  // The one parameter over the context, thick where the option rules, among the option's own rollouts.
  const { pen, width, height } = surface(canvas), { xs, means, chosen } = state.line, axis = +state.x.slice(1) || 0, of = valueOf(r, "p0");
  const [low, high] = endsOf(r, "p0");
  const X = (v) => 4 + ((v - xs[0]) / (xs[xs.length - 1] - xs[0] || 1)) * (width - 8), Y = (v) => height - 6 - ((v - low) / (high - low || 1)) * (height - 12);
  pen.strokeStyle = ink("--line");
  pen.strokeRect(0.5, 0.5, width - 1, height - 1);
  pen.fillStyle = pen.strokeStyle = colourOf(option.number);
  pen.globalAlpha = 0.45;
  for (const i of own.slice(-MOST_OWN)) pen.fillRect(X(r.rollouts.contexts[i * r.S + axis]) - 1.5, Y(of(i)) - 1.5, 3, 3);
  pen.globalAlpha = 1;
  for (let k = 1; k < xs.length; k++) {
    pen.lineWidth = chosen[k] === o ? 4 : 1.5;
    line(pen, [[X(xs[k - 1]), Y(means[k - 1][o][0])], [X(xs[k]), Y(means[k][o][0])]]);
  }
  pen.beginPath();
  pen.arc(X(state.context[axis]), Y(option.parameters[0]), 5, 0, 7);
  pen.fill();
}

function drawReturns(canvas, r, number, own) {
  // The returns of an option's own rollouts in their order, between the lowest and the highest of the run.
  if (canvas.drawn === own) return; // they do not depend on the context
  canvas.drawn = own;
  const done = own.filter((i) => r.rollouts.state[i] === 1).slice(-MOST_OWN), size = done.length > 200 ? 1.5 : 3;
  const { pen, width, height } = surface(canvas), [low, high] = endsOf(r, "return");
  pen.strokeStyle = ink("--line");
  pen.strokeRect(0.5, 0.5, width - 1, height - 1);
  pen.fillStyle = colourOf(number);
  done.forEach((i, k) => pen.fillRect(3 + (k / Math.max(done.length - 1, 1)) * (width - 9), height - 4 - ((r.rollouts.returns[i] - low) / (high - low || 1)) * (height - 8) - size / 2, size, size));
}

function drawBars(canvas, r, option, entry, own) {
  // Parameters within what was tried of each, the option's width as a band, and its own rollouts as dots.
  const { pen, width, height } = surface(canvas);
  const size = Math.min(r.D, 16), step = width / size;
  for (let d = 0; d < size; d++) {
    const of = valueOf(r, `p${d}`), [low, high] = endsOf(r, `p${d}`);
    const Y = (v) => height - 6 - ((v - low) / (high - low || 1)) * (height - 12), x = (d + 0.5) * step;
    pen.fillStyle = ink("--line");
    pen.fillRect(x - 1, 6, 2, height - 12);
    pen.fillStyle = colourOf(option.number);
    const spread = (entry.deviations || [])[d] || 0, half = Math.min(step / 3, 18);
    pen.globalAlpha = 0.25;
    const top = Math.max(Y(option.parameters[d] + spread), 2), bottom = Math.min(Y(option.parameters[d] - spread), height - 2);
    pen.fillRect(x - half, top, 2 * half, Math.max(bottom - top, 1));
    pen.globalAlpha = 0.5;
    for (const i of own.slice(-60)) pen.fillRect(x + half + 3, Y(of(i)) - 1, 4, 2);
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
