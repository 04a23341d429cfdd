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
      const axis = state.x[0] === "c" && (run().S > 1 || !state.line || state.line.axis !== +state.x.slice(1)) ? +state.x.slice(1) : null;
      const at = state.at, step = state.step, there = await source.evaluate(next, axis, step);
      if (at !== state.at || step !== state.step) { waiting = waiting || next; continue; } // another run or moment was chosen meanwhile
      state.there = there;
      state.context = Array.from(there.context);
      if (axis !== null) state.line = there.line && { ...there.line, axis };
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
    if (number && document.activeElement !== number) number.value = +v.toPrecision(5);
  });
  const there = state.there;
  if (there) {
    const best = there.options[there.option];
    $("choice").innerHTML = "";
    $("choice").append("Here the gate chooses ", strong(`option ${best.number}`), `: expected return `
      + `${within(best.expected_return, best.expected_deviation)}, parameters ${list(best.parameters)}.`);
  }
  if (tabled !== entries()) showOptionsTable();
  showCards();
  showPicture();
  moveOnMap();
  document.body.dataset.drawn = String(Number(document.body.dataset.drawn || 0) + 1);
}
const strong = (text) => Object.assign(document.createElement("strong"), { textContent: text });

function makeSliders() {
  const r = run(), free = source.free(r), stepped = !source.live && !r.model;
  $("cards-where").hidden = !r.S;
  $("context-section").hidden = !r.S || !r.policy_options.length;
  $("sliders").innerHTML = "";
  for (const i of free) {
    const box = document.createElement("div");
    box.className = "slider";
    const values = stepped ? r.grid.values[r.grid.axes.indexOf(i)] : null;
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
    + (stepped && free.length ? " The sliders move in steps, at which numbers are exact." : "");
}
