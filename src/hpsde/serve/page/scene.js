// Pictures of options in a context

function projector(scene, canvas) {
  // From the picture's coordinates to places on a canvas: a plane as it is, space seen from a side that can be turned.
  const box = sizeOf(canvas), flat = scene.low.length === 2;
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
