// A roofline of the recipes' last steps, on logarithmic axes.

const FRAME = { left: 84, right: 190, top: 18, bottom: 46, width: 900, height: 380 };

function roofline() {
  const points = recipes.map((recipe) => ({ recipe, step: recipe.steps.at(-1) }))
    .filter(({ recipe, step }) => step?.time && recipe.flops && recipe.bytes)
    .map(({ recipe, step }) => ({ recipe, step, x: recipe.flops / recipe.bytes, y: step.time.gflops }));
  if (!points.length) return null;
  const scale = rooflineScale(points);
  const label = `Roofline: ${points.map((one) => `${one.recipe.name} ${number(one.y)} GFLOP/s`).join(", ")}`;
  return h("figure", { class: "roofline" },
    h("figcaption", {}, h("b", {}, "Roofline"), " Operations per byte that must be moved at least, against what was reached."),
    s("svg", { viewBox: `0 0 ${FRAME.width} ${FRAME.height}`, role: "img", "aria-label": label },
      rooflineGrid(scale), report.peaks && rooflineRoofs(scale), rooflinePoints(points, scale)));
}

function rooflineScale(points) {
  const ridge = report.peaks ? report.peaks.gflops / report.peaks.gigabytes : null;
  const range = (values) => {
    const known = values.filter(Boolean).map(Math.log10);
    return [Math.floor(Math.min(...known) - 0.05), Math.ceil(Math.max(...known) + 0.05)];
  };
  const [x0, x1] = range([...points.map((one) => one.x), ridge]);
  const [y0, y1] = range([...points.map((one) => one.y), report.peaks?.gflops]);
  return { x0, x1, y0, y1,
    x: (value) => FRAME.left + ((Math.log10(value) - x0) / (x1 - x0)) * (FRAME.width - FRAME.left - FRAME.right),
    y: (value) => FRAME.height - FRAME.bottom - ((Math.log10(value) - y0) / (y1 - y0)) * (FRAME.height - FRAME.top - FRAME.bottom) };
}

function rooflineGrid({ x0, x1, y0, y1, x, y }) {
  const [right, bottom] = [FRAME.width - FRAME.right, FRAME.height - FRAME.bottom];
  const tens = (from, to) => Array.from({ length: to - from + 1 }, (_, at) => 10 ** (from + at));
  return [
    tens(x0, x1).map((one) => [s("line", { class: "grid", x1: x(one), x2: x(one), y1: FRAME.top, y2: bottom }),
      s("text", { class: "tick", x: x(one), y: bottom + 18, "text-anchor": "middle" }, number(one))]),
    tens(y0, y1).map((one) => [s("line", { class: "grid", x1: FRAME.left, x2: right, y1: y(one), y2: y(one) }),
      s("text", { class: "tick", x: FRAME.left - 8, y: y(one) + 4, "text-anchor": "end" }, number(one))]),
    s("text", { class: "axis", x: (FRAME.left + right) / 2, y: FRAME.height - 6, "text-anchor": "middle" }, "FLOP per byte"),
    s("text", { class: "axis", x: 14, y: FRAME.height / 2, transform: `rotate(-90 14 ${FRAME.height / 2})`, "text-anchor": "middle" }, "GFLOP/s"),
  ];
}

function rooflineRoofs({ x0, x1, y0, x, y }) {
  const { gflops, gigabytes } = report.peaks;
  const ridge = gflops / gigabytes;
  const from = Math.max(10 ** x0, 10 ** y0 / gigabytes);
  const path = `M ${x(from)} ${y(from * gigabytes)} L ${x(ridge)} ${y(gflops)} L ${x(10 ** x1)} ${y(gflops)}`;
  return [s("path", { class: "roof", d: path }),
    s("text", { class: "tick", x: x(10 ** x1) + 8, y: y(gflops) + 4 }, `${number(gflops)} GFLOP/s`),
    s("text", { class: "tick", x: x(from) + 14, y: y(from * gigabytes) + 14 }, `${number(gigabytes)} GB/s`)];
}

// Labels stand beside the points, moved apart where they would lie on each other.
function rooflinePoints(points, { x, y }) {
  let last = -Infinity;
  return [...points].sort((a, b) => b.y - a.y).map((one) => {
    const [cx, cy] = [x(one.x), y(one.y)];
    last = Math.max(cy, last + 15);
    return s("a", { href: stepLink(one.step, "time") }, s("title", {}, `${one.recipe.name}: ${number(one.y)} GFLOP/s`),
      s("line", { class: "lead", x1: cx + 5, y1: cy, x2: cx + 16, y2: last }), s("circle", { cx, cy, r: 4.5 }),
      s("text", { class: "name", x: cx + 20, y: last + 4 }, one.recipe.name));
  });
}
