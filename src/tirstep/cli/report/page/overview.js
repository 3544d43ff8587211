// The first page: the ladder in a table with bars in its cells, and a roofline where there are times.

function overviewPage() {
  return h("div", { class: "overview" },
    h("header", { class: "headline" }, h("h1", {}, report.title), h("p", { class: "about" }, ladderSummary())),
    here.missing && h("p", { class: "notice", role: "alert" }, `This report has no '${here.missing}'.`),
    ladderTable(), isTimed && roofline(), h("p", { class: "hints" }, "Press ", key("j"), " for the first step, ", key("/"), " to search, ", key("?"), " for all keys."),
    h("footer", { class: "made" }, footerWords()));
}

function ladderSummary() {
  const failed = recipes.filter((recipe) => recipe.status === "failed").length;
  const skipped = recipes.filter((recipe) => recipe.status === "skipped").length;
  return [`${plural(recipes.length, "recipe")}, ${plural(steps.length, "step")}. `, skipped > 0 && `${plural(skipped, "recipe")} skipped. `,
    report.device ? (failed ? h("b", { class: "bad" }, `${plural(failed, "recipe")} failed. `) : "Every check passed. ") : "Nothing was checked. ",
    report.device && h("span", { class: "dim" }, `Checked on: ${report.device}.`)];
}

const footerWords = () => `Lowered for ${report.target}. ${Object.entries(report.versions).map(([name, version]) => `${name} ${version}`).join(", ")}.`;

function ladderTable() {
  const metrics = shownMetrics();
  const last = recipes.map((recipe) => recipe.steps.at(-1));
  const most = Object.fromEntries(metrics.map((name) =>
    [name, Math.max(0, ...last.map((step) => (step && barOf(name, step)) || 0))]));
  const head = h("tr", {}, h("th", { scope: "col" }, "Recipe"), h("th", { scope: "col", class: "num" }, "Steps"),
    h("th", { scope: "col", class: "num" }, "Lines"), h("th", { scope: "col" }, "Checks"),
    metrics.map((name) => h("th", { scope: "col", title: METRICS[name].note }, METRICS[name].title,
      METRICS[name].unit && METRICS[name].unit !== "bytes" && METRICS[name].unit !== METRICS[name].title && h("span", { class: "unit" }, ` ${METRICS[name].unit}`))));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The ladder" },
    h("table", { class: "ladder" }, h("thead", {}, head), h("tbody", {}, recipes.map((recipe, at) => ladderRow(recipe, last[at], metrics, most)))),
    metrics.length > 0 && h("p", { class: "notes" }, metrics.map((name) => [h("b", {}, METRICS[name].title), `: ${METRICS[name].note}. `])));
}

function ladderRow(recipe, step, metrics, most) {
  const name = step ? h("a", { href: stepLink(step, "tir") }, recipe.name) : recipe.name;
  const change = step && countChange(linesOf(recipe.steps[0].tir), linesOf(step.tir));
  return h("tr", { class: recipe.status }, h("th", { scope: "row" }, name, h("small", {}, recipe.refusal ?? recipe.about, shapes.size > 1 && recipe.shape && recipe.steps.length > 0 && h("span", { class: "dim" }, ` ${recipe.shape.replaceAll("x", "×")}`))),
    h("td", { class: "num" }, recipe.steps.length ? String(recipe.steps.length - 1) : "–"), h("td", { class: "num" }, changeWords(change)),
    h("td", {}, recipe.status === "skipped" ? h("span", { class: "verdict none" }, "skipped") : verdictWord(recipe.status)),
    metrics.map((metric) => {
      const value = step ? METRICS[metric].of(step) : undefined;
      return h("td", { class: "bar" }, h("span", { class: "value" }, metricText(metric, value),
        metric === "traffic" && value !== undefined && h("span", { class: "dim" }, ` ${number(+timesLeast(step).toFixed(timesLeast(step) < 10 ? 1 : 0))}×`)),
        bar(step && barOf(metric, step), most[metric]));
    }));
}
