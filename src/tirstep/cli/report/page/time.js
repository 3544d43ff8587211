// The panel of a step's time or, without a GPU, of what the simulator counted.

// `of` is what is shown of a step; `bar`, where there is one, is what compares over shapes.
const shapes = new Set(recipes.filter((recipe) => recipe.steps.length).map((recipe) => recipe.shape));
const METRICS = {
  time: { title: "Time", unit: "µs", of: (step) => step.time?.median, bar: (step) => shapes.size > 1 ? undefined : step.time?.median,
    note: "median of one call, warm caches" },
  gflops: { title: "GFLOP/s", unit: "GFLOP/s", of: (step) => step.time?.gflops, note: "by the kernel's own count of operations" },
  traffic: { title: "Global traffic", unit: "bytes", of: (step) => step.counts?.traffic, bar: (step) => timesLeast(step),
    note: "32-byte sectors touched by all launches, from those of each launch's first GPU block; bars over the least to move" },
  conflicts: { title: "Bank conflicts", unit: "", of: (step) => step.counts?.bank_conflicts, note: "wavefronts beyond those needed, in the first GPU block of each launch" },
  barriers: { title: "Barriers", unit: "", of: (step) => step.counts?.barriers, note: "that the first GPU block of each launch passes" },
};

const timesLeast = (step) => step.recipe.bytes && step.counts ? step.counts.traffic / step.recipe.bytes : undefined;
const barOf = (name, step) => (METRICS[name].bar ?? METRICS[name].of)(step);
const isTimed = steps.some((step) => step.time);
const isCounted = steps.some((step) => step.counts);
const shownMetrics = () => isTimed ? ["time", "gflops"] : isCounted ? ["traffic", "conflicts", "barriers"] : [];
const metricText = (name, value) => value === undefined ? "–" : METRICS[name].unit === "bytes" ? bytes(value) : number(value);

function timePanel(step) {
  const metrics = shownMetrics();
  if (!metrics.length) return h("p", { class: "empty" }, "Nothing was timed or counted: this report was made without checks, or on a device without a clock.");
  const intro = isTimed
    ? step.time && h("p", { class: "figure" }, h("b", {}, number(step.time.median)), " µs ",
      h("span", { class: "dim" }, `quartiles ${number(step.time.lower)} – ${number(step.time.upper)} µs, ${step.time.repeats} repeats`))
    : h("p", { class: "lead" }, "No GPU timed this report. The simulator counted what the first GPU block of each launch does, each access with the sectors and banks of NVIDIA's GPUs.");
  return [intro, !step.time && !step.counts && h("p", { class: "empty" }, step.checks?.checked_on.startsWith("cpu")
      ? "No loop of this step is bound to threads of a GPU, so there is nothing to measure." : "This step cannot be launched yet, or is wrong, so nothing was measured."),
    (step.counts || step.example_counts) && countTable(step), metrics.map((name) => stepBars(step.recipe, step, name))];
}

// The counts at the report's shape and, beside them, at the shape of the recipe's own example.
function countTable(step) {
  const { recipe } = step;
  const columns = [[recipe.shape, step.counts, recipe.bytes], [recipe.example_shape, step.example_counts, recipe.example_bytes]]
    .filter(([, counts]) => counts);
  const rows = [
    ["GPU blocks of all launches", (counts) => counts.blocks], ["barriers", (counts) => counts.barriers],
    ["requests to global memory, by warp", (counts) => counts.requests], ["32-byte sectors touched", (counts) => counts.sectors],
    ["traffic as a multiple of the least", (counts, least) => least ? counts.traffic / least : undefined],
    ["bytes asked of global memory", (counts) => counts.bytes], ["requests to shared memory, by warp", (counts) => counts.shared_requests],
    ["bank conflicts", (counts) => counts.bank_conflicts],
  ];
  const figure = (value) => value === undefined ? "–" : number(+value.toFixed(2));
  return h("table", { class: "facts counts" }, h("caption", {}, "Counts of the first GPU block of each launch"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Count"), columns.map(([shape]) => h("th", { scope: "col", class: "num" }, (shape ?? "as given").replaceAll("x", "×"))))),
    h("tbody", {}, rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name),
      columns.map(([, counts, least]) => h("td", { class: "num" }, figure(value(counts, least))))))));
}

// A bar for each step of a recipe.
function stepBars(recipe, current, name) {
  const metric = METRICS[name];
  const values = recipe.steps.map((step) => metric.of(step));
  const most = Math.max(...values.filter((value) => value !== undefined), 0);
  if (!most) return null;
  return h("figure", { class: "bars" }, h("figcaption", {}, h("b", {}, metric.title), ` ${metric.note}`),
    h("table", {}, h("tbody", {}, recipe.steps.map((step, at) => h("tr", { class: step === current ? "current" : null },
      h("th", { scope: "row" }, h("a", { href: stepLink(step, "time") }, step.label)),
      h("td", { class: "bar" }, bar(values[at], most)), h("td", { class: "num" }, metricText(name, values[at])))))));
}

const bar = (value, most) => !value ? null
  : h("span", { class: "fill", style: { "--part": (most ? value / most : 0).toFixed(4) } });
