// Drawing

// What the style sheet and the layout say is asked once, until something changes them.
const inks = new Map(), sizes = new Map();
function ink(name) {
  if (!inks.has(name)) inks.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return inks.get(name);
}
function sizeOf(canvas) {
  if (!sizes.has(canvas)) { const box = canvas.getBoundingClientRect(); sizes.set(canvas, { width: Math.max(box.width, 1), height: Math.max(box.height, 1) }); }
  return sizes.get(canvas);
}
function forgetLayout() {
  inks.clear();
  sizes.clear();
}
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
  const { width, height } = sizeOf(canvas), ratio = window.devicePixelRatio || 1;
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

function swatch(number) {
  // A small square in the colour of an option or a run.
  const square = Object.assign(document.createElement("span"), { className: "swatch" });
  square.style.setProperty("--colour", colourOf(number));
  return square;
}

function line(pen, points) {
  pen.beginPath();
  points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.stroke();
}

function dots(canvas, px, py, colours, size, alpha) {
  // Many squares at once, blended by hand: a hundred thousand calls of a pen take half a second. [k] is of one square.
  const ratio = canvas.width / sizeOf(canvas).width, W = canvas.width, H = canvas.height, half = Math.max(Math.round(size * ratio), 1);
  const image = new ImageData(W, H), data = image.data, rgb = new Map();
  for (let k = 0; k < px.length; k++) {
    if (Number.isNaN(px[k]) || Number.isNaN(py[k])) continue;
    const text = colours(k), x0 = Math.round(px[k] * ratio - half / 2), y0 = Math.round(py[k] * ratio - half / 2);
    if (!rgb.has(text)) rgb.set(text, numbersOf(text));
    const c = rgb.get(text);
    for (let y = Math.max(y0, 0); y < Math.min(y0 + half, H); y++) {
      for (let x = Math.max(x0, 0); x < Math.min(x0 + half, W); x++) {
        const i = 4 * (y * W + x), before = data[i + 3] / 255, after = before + (1 - before) * alpha, share = alpha / after;
        for (let d = 0; d < 3; d++) data[i + d] += share * (c[d] - data[i + d]);
        data[i + 3] = 255 * after;
      }
    }
  }
  const layer = Object.assign(document.createElement("canvas"), { width: W, height: H }), pen = canvas.getContext("2d");
  layer.getContext("2d").putImageData(image, 0, 0);
  pen.save();
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.drawImage(layer, 0, 0);
  pen.restore();
}
function numbersOf(colour) {
  // Red, green and blue of "#rrggbb" or "rgb(r g b)".
  if (colour[0] === "#") return [1, 3, 5].map((i) => parseInt(colour.length === 4 ? colour[(i + 1) / 2].repeat(2) : colour.slice(i, i + 2), 16));
  return colour.match(/\d+/g).slice(0, 3).map(Number);
}
