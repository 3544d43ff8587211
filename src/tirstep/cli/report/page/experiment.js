// The first page of an experiment: what a change of the pipeline did to each module, and the small
// program that shows it where an answer changed.

const ANSWERS = { right: "ok", unchanged: "none", wrong: "failed", refused: "failed" };

function experimentPage() {
  const { about, rows, small } = report.experiment;
  return h("div", { class: "overview" },
    h("header", { class: "headline" }, h("h1", {}, report.title), h("p", { class: "about" }, about, report.device && h("span", { class: "dim" }, ` Run on: ${report.device}.`))),
    here.missing && h("p", { class: "notice", role: "alert" }, `This report has no '${here.missing}'.`),
    experimentTable(rows ?? []), small && smallProgram(small),
    h("p", { class: "hints" }, "Of each module there are three states: as it was given, and without and with the change. Press ", key("j"), " for the first, ", key("/"), " to search, ", key("?"), " for all keys."),
    h("footer", { class: "made" }, footerWords()));
}

function experimentTable(rows) {
  const head = ["Module", "Lines", "Answer", "Run on", "What differs"];
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The modules" },
    h("table", { class: "ladder tried" }, h("thead", {}, h("tr", {}, head.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rows.map(experimentRow))));
}

function experimentRow(row) {
  const step = recipeNamed(row.recipe)?.steps.at(-1);
  const change = row.added === undefined ? null : { added: row.added, removed: row.removed };
  const name = step ? h("a", { href: stepLink(step, "tir") }, row.module) : h("span", { class: "dim" }, row.module);
  return h("tr", { class: row.status }, h("th", { scope: "row" }, name), h("td", { class: "num" }, changeWords(change)),
    h("td", {}, h("span", { class: `verdict ${ANSWERS[row.status] ?? "none"}` }, row.status)), h("td", {}, (row.ran_on ?? []).join(", ")),
    h("td", {}, (row.differences ?? []).map((words) => h("span", { class: "difference" }, words)), row.reason && h("small", {}, row.reason)));
}

function smallProgram(small) {
  return h("section", { class: "finding", "aria-label": "The smallest program that shows it" },
    h("h2", {}, "The smallest program that shows it"), h("p", {}, small.reason),
    h("pre", { tabindex: "0" }, linesOf(small.text).join("\n")),
    h("p", { class: "dim" }, small.script ? `The script ${small.script} shows it with TVM and NumPy alone.` : "No script shows it with TVM alone."));
}
