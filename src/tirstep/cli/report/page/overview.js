// The first page: the ladder in a table.

const METRICS = [
  { title: "Time µs", of: (step) => step.time?.median, note: "median of one call, warm caches" },
  { title: "GFLOP/s", of: (step) => step.time?.gflops, note: "by the kernel's own count of operations" },
  { title: "Global traffic", of: (step) => factOf(step, "traffic_over_least"), unit: "×",
    note: "32-byte sectors touched by all launches, from those of each launch's first GPU block, over the least to move" },
  { title: "Bank conflicts", of: (step) => factOf(step, "bank_conflicts"), note: "wavefronts beyond those needed, in the first GPU block of each launch" },
  { title: "Barriers", of: (step) => factOf(step, "counted_barriers"), note: "that the first GPU block of each launch passes" },
];

const factOf = (step, name) => step.facts.rows.find((row) => row.key === name)?.value;

function overviewPage() {
  return h("div", { class: "overview" },
    h("header", { class: "headline" }, h("h1", {}, report.title),
      h("p", { class: "about" }, ladderSummary(), report.device && h("span", { class: "dim" }, ` Run on: ${report.device}.`))),
    missingNotice(), ladderTable(), h("p", { class: "hints" }, "Press ", key("j"), " for the first step, ", key("/"), " to search, ", key("?"), " for all keys."),
    h("footer", { class: "made" }, `Lowered for ${report.target}. ${Object.entries(report.versions).map((pair) => pair.join(" ")).join(", ")}.`));
}

const missingNotice = () => here.missing && h("p", { class: "notice", role: "alert" }, `This report has no '${here.missing}'.`);

function ladderSummary() {
  const having = (status) => recipes.filter((recipe) => recipe.status === status).length;
  const [failed, skipped] = [having("failed"), having("skipped")];
  return [`${plural(recipes.length, "recipe")}, ${plural(steps.length, "step")}. `, skipped > 0 && `${plural(skipped, "recipe")} skipped. `,
    !report.device ? "Nothing was checked." : failed ? h("b", { class: "bad" }, `${plural(failed, "recipe")} failed.`) : "Every check passed."];
}

function ladderTable() {
  const last = recipes.map((recipe) => recipe.steps.at(-1));
  const metrics = METRICS.filter(({ of }) => last.some((step) => step && of(step) !== undefined));
  const shapes = new Set(recipes.filter((recipe) => recipe.steps.length).map((recipe) => recipe.shape));
  const rows = recipes.map((recipe, at) => {
    const step = last[at];
    const shape = shapes.size > 1 && recipe.shape && step && h("span", { class: "dim" }, ` ${recipe.shape.replaceAll("x", "×")}`);
    return h("tr", { class: recipe.status },
      h("th", { scope: "row" }, step ? h("a", { href: stepLink(step, "tir") }, recipe.name) : recipe.name, h("small", {}, recipe.refusal ?? recipe.about, shape)),
      h("td", { class: "num" }, step ? String(recipe.steps.length - 1) : "–"),
      h("td", { class: "num" }, changeWords(step && countChange(recipe.steps[0].tir, step.tir))),
      h("td", {}, recipe.status === "skipped" ? h("span", { class: "verdict none" }, "skipped") : verdictWord(recipe.status)),
      metrics.map(({ of, unit }) => h("td", { class: "num" }, step && of(step) !== undefined ? `${number(of(step))}${unit ?? ""}` : "–")));
  });
  const heads = [["Recipe"], ["Steps", "num"], ["Lines", "num"], ["Checks"], ...metrics.map(({ title }) => [title, "num"])];
  const head = h("tr", {}, heads.map(([title, kind]) => h("th", { scope: "col", class: kind }, title)));
  return [h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The ladder" },
    h("table", { class: "ladder" }, h("thead", {}, head), h("tbody", {}, rows))),
    h("p", { class: "notes" }, metrics.map(({ title, note }) => [h("b", {}, title), `: ${note}. `]))];
}
