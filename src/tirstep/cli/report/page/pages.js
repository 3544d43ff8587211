// The panels of facts and checks.

function factsPanel(step, against) {
  if (!step.facts.rows.length) {
    return h("p", { class: "empty" }, `No facts: ${step.facts.missing ?? "nothing was lowered"}.`);
  }
  const before = against?.facts.rows.length ? against : null;
  const old = new Map((before?.facts.rows ?? []).map((row) => [row.group + row.key, row]));
  const groups = Map.groupBy(step.facts.rows, (row) => row.group);
  const body = [...groups].map(([group, rows]) => factGroup(group, rows, old, before));
  return h("table", { class: "facts" },
    h("caption", {}, before ? ["Changed rows are marked; compared with ", h("b", {}, before.label), "."] : "Nothing to compare with."),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Fact"), before && h("th", { scope: "col", class: "num" }, "before"),
      h("th", { scope: "col", class: "num" }, before ? "now" : "value"), before && h("th", { scope: "col", class: "delta" }, "change"))),
    body);
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

// The words of a verdict, and those of goldens, by kind.
const SIGNS = { good: "✓", bad: "✕", none: "–" };
const KINDS = { ok: "good", right: "good", clean: "good", failed: "bad", wrong: "bad" };

function verdictWord(word) {
  const kind = KINDS[word] ?? "none";
  return h("span", { class: `verdict ${kind}` }, h("span", { "aria-hidden": "true" }, SIGNS[kind]), ` ${word ?? "not checked"}`);
}

// What was done with a step's numbers, and why no more was.
function numbersNote(checks) {
  if (checks.numbers === "not judged") return checks.reason;
  if (checks.numbers === "clean") return `Simulated without a finding on ${checks.checked_on}; not compared: ${checks.reason}.`;
  return `Integers, exactly, then random floats, against ${checks.reference}; on ${checks.checked_on}.`;
}

function checksPanel(step) {
  const checks = step.checks;
  const ofRecipe = step.recipe.findings.filter((one) => one.where.includes(step.label) || step.index === 0);
  if (!checks && !ofRecipe.length) return h("p", { class: "empty" }, "This report was made without checks.");
  return [
    checks && h("dl", { class: "checks" },
      h("div", {}, h("dt", {}, "Numbers"), h("dd", {}, verdictWord(checks.numbers), h("p", {}, numbersNote(checks)))),
      h("div", {}, h("dt", {}, "Golden"), h("dd", {}, verdictWord(checks.golden), h("p", {}, checks.golden ? "The TIR against the golden file of this step, at the golden shape." : "No golden was compared for this step.")))),
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

// The first page: the ladder in a table.

const METRICS = [
  { title: "Time µs", of: (step) => step.time?.median, note: "median of one call, warm caches" },
  { title: "GFLOP/s", of: (step) => step.time?.gflops, note: "by the kernel's own count of operations" },
  { title: "Global traffic", of: (step) => factOf(step, "traffic_over_least"), unit: "×",
    note: "32-byte sectors moved by all launches, estimated from each launch's first thread block, over the minimum" },
  { title: "Bank conflicts", of: (step) => factOf(step, "bank_conflicts"), note: "extra wavefronts, in the first thread block of each launch" },
  { title: "Barriers", of: (step) => factOf(step, "counted_barriers"), note: "executed by the first thread block of each launch" },
];

const factOf = (step, name) => step.facts.rows.find((row) => row.key === name)?.value;

function overviewPage() {
  return h("div", { class: "overview" },
    h("header", { class: "headline" }, h("h1", {}, report.title),
      h("p", { class: "about" }, ladderSummary(), report.device && h("span", { class: "dim" }, ` Run on: ${report.device}.`))),
    missingNotice(), recipes.length === 1 && steps.length > 1 ? stepTable(recipes[0]) : ladderTable(), h("p", { class: "hints" }, "Press ", key("j"), " for the first step, ", key("/"), " to search, ", key("?"), " for all keys."),
    h("footer", { class: "made" }, `Lowered for ${report.target}. ${Object.entries(report.versions).map((pair) => pair.join(" ")).join(", ")}.`));
}

const missingNotice = () => here.missing && h("p", { class: "notice", role: "alert" }, `This report has no '${here.missing}'.`);

function ladderSummary() {
  const having = (status) => recipes.filter((recipe) => recipe.status === status).length;
  const [wrong, unjudged] = [having("wrong"), having("not judged")];
  const made = steps.filter((step) => step.index > 0).length;
  const those = (number) => plural(number, report.kind);
  return [`${those(recipes.length)}${made ? `, ${plural(made, "step")}` : ""}. `, unjudged > 0 && `${those(unjudged)} not judged. `,
    !report.device ? "Nothing was checked." : wrong ? h("b", { class: "bad" }, `${those(wrong)} wrong.`)
      : !unjudged && "Every check passed."];
}

// The one recipe of a page: its steps, each with the lines that it adds and removes.
function stepTable(recipe) {
  const rows = recipe.steps.map((step) => [step,
    h("th", { scope: "row" }, h("a", { href: stepLink(step, "tir") }, step.label), h("small", {}, step.index ? step.source : "the kernel as it was written")),
    h("td", { class: "num" }, changeWords(changeOf(step))), h("td", {}, verdictWord(statusOf(step)))]);
  const first = recipe.steps[1];
  return [h("p", { class: "about" }, recipe.about),
    h("p", { class: "first" }, h("a", { href: stepLink(first, "tir") }, `Begin with step 1, ${first.name} ›`)),
    overviewTable("The steps", [["Step"], ["Lines", "num"], ["Checks"]], rows)];
}

function ladderTable() {
  const shapes = new Set(recipes.filter((recipe) => recipe.steps.length).map((recipe) => recipe.shape));
  const rows = recipes.map((recipe) => {
    const step = recipe.steps.at(-1);
    const shape = shapes.size > 1 && recipe.shape && step && h("span", { class: "dim" }, `, at ${recipe.shape.replaceAll("x", "×")}`);
    return [step,
      h("th", { scope: "row" }, step ? h("a", { href: stepLink(step, "tir") }, recipe.name) : recipe.name, h("small", {}, recipe.refusal ?? recipe.about, shape)),
      h("td", { class: "num" }, step ? String(recipe.steps.length - 1) : "–"),
      h("td", { class: "num" }, changeWords(step && countChange(recipe.steps[0].tir, step.tir))),
      h("td", {}, verdictWord(recipe.status))];
  });
  return overviewTable("The ladder", [["Name"], ["Steps", "num"], ["Lines", "num"], ["Checks"]], rows);
}

// A table of rows [step, ...cells], with the metrics that any of the steps has.
function overviewTable(label, columns, rows) {
  const metrics = METRICS.filter(({ of }) => rows.some(([step]) => step && of(step) !== undefined));
  const metricCell = (step, { of, unit }) =>
    h("td", { class: "num" }, step && of(step) !== undefined ? `${number(of(step))}${unit ?? ""}` : "–");
  const heads = [...columns, ...metrics.map(({ title }) => [title, "num"])];
  const head = h("tr", {}, heads.map(([title, kind]) => h("th", { scope: "col", class: kind }, title)));
  return [h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h("table", { class: "ladder" }, h("thead", {}, head), h("tbody", {}, rows.map(([step, ...cells]) =>
      h("tr", {}, cells, metrics.map((one) => metricCell(step, one))))))),
    h("p", { class: "notes" }, h("b", {}, "Lines"), ": added and removed; re-indented lines do not count. ", metrics.map(({ title, note }) => [h("b", {}, title), `: ${note}. `]))];
}

// The ladder at the left: recipes, their steps, and under each step the passes that changed it.

const unfolded = new Set();

function drawTree() {
  const side = byId("side");
  const scroll = side.scrollTop;
  if (here.step) unfolded.add(here.step.recipe.name);
  if (here.pass) unfolded.add(stepKey(here.step));
  side.replaceChildren(h("a", { class: "home", href: "#", "aria-current": here.step ? null : "page" }, "Overview"),
    h("ul", { class: "recipes" }, recipes.map(recipeItem)));
  side.scrollTop = scroll;
  side.querySelector("[aria-current=page]")?.scrollIntoView({ block: "nearest" });
}

const stepKey = (step) => `${step.recipe.name}/${step.label}`;

function foldButton(name, label, id) {
  const flip = () => {
    if (!unfolded.delete(name)) unfolded.add(name);
    drawTree();
    byId(`fold-${id}`)?.focus({ preventScroll: true });
  };
  return h("button", { type: "button", class: "fold", id: `fold-${id}`, "aria-expanded": String(unfolded.has(name)), onclick: flip },
    h("span", { class: "caret", "aria-hidden": "true" }), label);
}

const wrongSign = (status) => status === "wrong" && sign("✕", "wrong", "bad");

function recipeItem(recipe, at) {
  return h("li", { class: `recipe${here.step?.recipe === recipe ? " within" : ""}` },
    foldButton(recipe.name, [h("span", { class: "name" }, recipe.name), wrongSign(recipe.status),
      h("span", { class: "count" }, recipe.steps.length ? String(recipe.steps.length - 1) : "skipped")], `r${at}`),
    unfolded.has(recipe.name) && h("ul", { class: "steps" }, recipe.steps.map(stepItem)));
}

function stepItem(step) {
  const isHere = here.step === step;
  const passes = isHere && unfolded.has(stepKey(step)) && step.passes.map((pass) => h("li", {},
    h("a", { href: passLink(pass), "aria-current": here.pass === pass ? "page" : null }, h("span", { class: "index" }, String(pass.number)),
      h("span", { class: "name" }, pass.name.replace(/^\w+\./, "")), changeWords(changeOfPass(pass)))));
  return h("li", { class: "step" },
    h("a", { href: stepLink(step), class: isHere ? "here" : null, "aria-current": isHere && !here.pass ? "page" : null },
      h("span", { class: "index" }, String(step.index)), h("span", { class: "name" }, step.name), wrongSign(statusOf(step)), changeWords(changeOf(step))),
    isHere && step.passes.length > 0 && foldButton(stepKey(step), `${step.passes.length} of ${step.pass_count} passes changed it`, `s${step.place}`),
    passes && h("ul", { class: "passes" }, passes));
}

// The page of a step, or of a pass: its head, its tabs, and the panel.

function showStep() {
  const { step, pass } = here;
  byId("main").replaceChildren(step ? h("article", { class: "page" }, pass ? passPage(here) : stepPage(here)) : overviewPage());
  document.title = step ? `${pass ? pass.name : step.label} · ${step.recipe.name} · tirstep` : `${report.title} · tirstep`;
  const code = byId("code");
  if (code) markTarget(code)?.scrollIntoView({ block: "center" });
  if (here.tab === "lines" && !pass) showTarget();
}

function stepPage(route) {
  const { step } = route;
  const { recipe, time, checks } = step;
  const config = Object.entries(recipe.config ?? {}).map(([name, value]) => `${name}=${value}`);
  const settings = [recipe.shape?.replaceAll("x", "×"), recipe.dtype, ...config].filter(Boolean).join("  ");
  return [
    head([h("span", {}, recipe.name), h("span", { class: "dim" }, recipe.about)], [step.index, step.name],
      [steps[step.place - 1], steps[step.place + 1]], stepLink, "step", ["k", "j"],
      [step.source && h("code", {}, step.source), changeWords(changeOf(step)),
        checks && h("span", {}, verdictWord(statusOf(step)), h("span", { class: "dim" }, ` on ${checks.checked_on}`)),
        time && h("span", { class: "time" }, h("b", {}, `${number(time.median)} µs`),
          h("span", { class: "dim" }, ` quartiles ${number(time.lower)} – ${number(time.upper)} µs, ${time.repeats} repeats`)),
        h("span", { class: "dim" }, settings)]),
    missingNotice(), tabList(route), tabPanel(route),
  ];
}

function passPage({ pass, step }) {
  const at = step.passes.indexOf(pass);
  return [
    head([h("a", { href: stepLink(step, "tir") }, stepKey(step)), h("span", { class: "dim" }, `lowered for ${report.target}`)], [pass.number, pass.name],
      [step.passes[at - 1], step.passes[at + 1]], passLink, "pass", ["[", "]"],
      [changeWords(changeOfPass(pass)), h("span", {}, `${number(pass.milliseconds)} ms`),
        h("span", { class: "dim" }, `pass ${pass.number} of ${step.pass_count}; ${step.passes.length} changed the module`)]),
    h("section", { class: "panel", id: "panel", "aria-label": "What the pass changed" }, codePanel(here)),
  ];
}

function head(crumbs, [index, name], [back, on], link, noun, [backKey, onKey], meta) {
  const walk = (to, symbol, words, shortcut) => to
    ? h("a", { href: link(to), "aria-label": words, title: `${words} (${shortcut})` }, symbol)
    : h("span", { class: "end", "aria-hidden": "true" }, symbol);
  return h("header", { class: "head" }, h("p", { class: "crumbs" }, crumbs),
    h("div", { class: "titles" }, h("h1", {}, h("span", { class: "index" }, String(index)), " ", name),
      h("div", { class: "walk" }, walk(back, "‹", `previous ${noun}`, backKey), walk(on, "›", `next ${noun}`, onKey))),
    h("p", { class: "meta" }, meta));
}

function tabList(route) {
  const titles = { tir: "TIR", source: languageOf(route.step), lines: "Lines", facts: "Facts", trace: "Trace", checks: "Checks" };
  const list = h("div", { class: "tabs", role: "tablist", "aria-label": "Views of the step" }, TABS.map((name) =>
    h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-selected": String(name === route.tab), "aria-controls": "panel",
      tabindex: name === route.tab ? "0" : "-1", onclick: () => openTab(name) },
      titles[name], name === "checks" && wrongSign(statusOf(route.step)))));
  list.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    openTab(TABS.at((TABS.indexOf(here.tab) + by) % TABS.length));
  });
  return list;
}

let focusAfter = null;

function openTab(name) {
  if (!here.step) return;
  focusAfter = document.activeElement?.getAttribute("role") === "tab" ? `tab-${name}` : null;
  go({ ...here, tab: name, pass: null, line: null, pane: null });
}

function tabPanel(route) {
  const panels = { lines: () => linesPanel(route), checks: () => checksPanel(route.step),
    facts: () => factsPanel(route.step, route.against ?? priorStep(route.step, "source")) };
  return h("section", { class: "panel", id: "panel", role: "tabpanel", "aria-labelledby": `tab-${route.tab}`,
    tabindex: panels[route.tab] ? "0" : null }, (panels[route.tab] ?? (() => codePanel(route)))());
}
