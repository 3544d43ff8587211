// A whole recipe on paper: each step with its Python, its diff, and the facts that it changed.

function printPage(recipe) {
  return [
    h("header", { class: "head" }, h("p", { class: "crumbs" }, h("span", { class: "dim" }, report.title)),
      h("div", { class: "titles" }, h("h1", {}, recipe.name)),
      h("p", { class: "meta" }, h("span", {}, recipe.about), settings(recipe),
        h("button", { type: "button", class: "chip", onclick: () => window.print() }, "Print"))),
    recipe.refusal && h("p", {}, recipe.refusal),
    recipe.steps.map(printStep), h("footer", { class: "made" }, footerWords()),
  ];
}

function printStep(step) {
  const before = previousStep(step);
  const compared = { after: programOf(step, "tir"), before: before && programOf(before, "tir"), name: before?.label, other: before };
  return h("section", { class: "print-step" },
    h("h2", {}, h("a", { href: stepLink(step, "tir") }, step.label), " ", changeWords(changeOf(step))),
    h("p", { class: "meta" }, verdictOf(step)), pythonBox(step),
    h("div", { class: "codebox", tabindex: "0", role: "region", "aria-label": `What ${step.label} changed` }, before ? diffTable(compared) : wholeTable(compared)),
    step.facts.rows.length > 0 && changedFacts(step, before));
}

function changedFacts(step, before) {
  const old = new Map((before?.facts.rows ?? []).map((row) => [row.group + row.key, row]));
  const rows = step.facts.rows.filter((row) => (old.get(row.group + row.key)?.value ?? 0) !== (row.value ?? 0));
  if (!rows.length) return null;
  return h("table", { class: "facts" }, h("caption", {}, before?.facts.rows.length ? `Facts that differ from ${before.label}` : "Facts"),
    h("tbody", {}, rows.map((row) => factRow(row, old.get(row.group + row.key), before?.facts.rows.length ? before : null))));
}
