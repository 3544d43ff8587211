// The panels of facts and checks.

function factsPanel(step, against) {
  if (!step.facts.rows.length) {
    return h("p", { class: "empty" }, `No facts: ${step.facts.missing ?? "nothing was lowered"}.`);
  }
  const before = against?.facts.rows.length ? against : null;
  const old = new Map((before?.facts.rows ?? []).map((row) => [row.group + row.key, row]));
  const groups = Map.groupBy ? Map.groupBy(step.facts.rows, (row) => row.group) : groupRows(step.facts.rows);
  const body = [...groups].map(([group, rows]) => factGroup(group, rows, old, before));
  return h("table", { class: "facts" },
    h("caption", {}, before ? ["Changed rows are marked; compared with ", h("b", {}, before.label), "."] : "Nothing to compare with."),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Fact"), before && h("th", { scope: "col", class: "num" }, "before"),
      h("th", { scope: "col", class: "num" }, before ? "now" : "value"), before && h("th", { scope: "col", class: "delta" }, "change"))),
    body);
}

function groupRows(rows) {
  const groups = new Map();
  for (const row of rows) groups.set(row.group, [...(groups.get(row.group) ?? []), row]);
  return groups;
}

const isNothing = (row) => !row || row.value === undefined || row.value === 0;

function factGroup(group, rows, old, before) {
  const shown = rows.filter((row) => !isNothing(row) || !isNothing(old.get(row.group + row.key)));
  const quiet = rows.length - shown.length;
  return h("tbody", {}, h("tr", { class: "group" }, h("th", { scope: "rowgroup", colspan: before ? 4 : 2 }, group)),
    shown.map((row) => factRow(row, old.get(row.group + row.key), before)),
    quiet > 0 && h("tr", { class: "quiet" }, h("td", { colspan: before ? 4 : 2 },
      `None: ${rows.filter((row) => !shown.includes(row)).map((row) => row.name).join(" · ")}`)));
}

function factRow(row, was, before) {
  const changed = before && (was?.value ?? null) !== (row.value ?? null);
  return h("tr", { class: changed ? "changed" : null }, h("th", { scope: "row" }, row.name),
    before && h("td", { class: "num was" }, factValue(was)), h("td", { class: "num" }, factValue(row)),
    before && h("td", { class: "delta" }, changed && factChange(was, row)));
}

function factValue(row) {
  if (!row || row.value === undefined) return "–";
  if (typeof row.value !== "number") return row.value;
  if (row.unit === "bytes" && row.value >= 1024) return [number(row.value), h("span", { class: "unit" }, ` (${bytes(row.value)})`)];
  return [number(row.value), row.unit && h("span", { class: "unit" }, ` ${row.unit}`)];
}

function factChange(was, row) {
  if (typeof was?.value !== "number" || typeof row.value !== "number") return sign("●", "changed");
  const difference = row.value - was.value;
  const text = `${difference > 0 ? "+" : "−"}${number(Math.abs(difference))}`;
  return was.value && row.value ? [text, h("span", { class: "dim" }, `  ${ratio(row.value / was.value)}`)] : text;
}

const ratio = (value) => (value >= 1 ? `× ${number(+value.toFixed(2))}` : `÷ ${number(+(1 / value).toFixed(2))}`);

const WORDS = { ok: ["✓", "passed"], failed: ["✕", "failed"] };

function verdictWord(word) {
  const [symbol, text] = WORDS[word] ?? ["–", "not checked"];
  return h("span", { class: `verdict ${word ?? "none"}` }, h("span", { "aria-hidden": "true" }, symbol), ` ${text}`);
}

function checksPanel(step) {
  const checks = step.checks;
  const ofRecipe = step.recipe.findings.filter((one) => one.where.includes(step.label) || step.index === 0);
  if (!checks && !ofRecipe.length) return h("p", { class: "empty" }, "This report was made without checks.");
  return [
    checks && h("dl", { class: "checks" },
      h("div", {}, h("dt", {}, "Numbers"), h("dd", {}, verdictWord(checks.numbers), h("p", {}, `Exact whole numbers, then random floats, against ${checks.reference}; on ${checks.checked_on}.`))),
      h("div", {}, h("dt", {}, "Golden"), h("dd", {}, verdictWord(checks.golden), h("p", {}, checks.golden ? "The TIR against the golden file of this step, at the golden shape." : "No golden was looked at for this step.")))),
    [...(checks?.findings ?? []), ...ofRecipe].map(findingCard),
  ];
}

function findingCard(finding) {
  return h("article", { class: "finding" }, h("h2", {}, finding.check, h("small", {}, ` ${finding.where} ${finding.source ?? ""}`)),
    h("p", {}, finding.message), finding.detail && h("pre", { tabindex: "0" }, detailLines(finding.detail)));
}

// A diff has the colours of one.
function detailLines(detail) {
  if (!detail.startsWith("--- ")) return detail;
  const marks = { "+": "plus", "-": "minus" };
  return detail.split("\n").map((line, at) => h("span", { class: at > 1 ? marks[line[0]] : null }, `${line}\n`));
}
