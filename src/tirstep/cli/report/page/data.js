// The report's data, and the questions that the rest asks of it.

// JSON, deflated and in base64.
async function unpack(text) {
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

const report = await unpack(byId("data").textContent).catch(() => null);
if (report === null) return stop("The data of this report cannot be read: the file is damaged or not complete.");
const recipes = report.recipes ?? [];
const steps = [];

for (const recipe of recipes) {
  recipe.steps ??= [];
  recipe.findings ??= [];
  recipe.steps.forEach((step, index) => {
    Object.assign(step, { recipe, index, place: steps.length });
    step.passes ??= [];
    for (const one of step.passes) one.step = step;
    step.facts.rows ??= [];
    if (step.checks) step.checks.findings ??= [];
    steps.push(step);
  });
}

const textCache = new Map();

// The lines of a text, which the data holds as places of lines that texts share.
function linesOf(text) {
  if (!textCache.has(text)) textCache.set(text, (report.texts[text] ?? []).map((line) => report.lines[line]));
  return textCache.get(text);
}

const previousStep = (step) => step.recipe.steps[step.index - 1] ?? null;

const LANGUAGES = { cuda: "CUDA", opencl: "OpenCL", metal: "Metal", webgpu: "WGSL", llvm: "LLVM IR" };
const languageOf = (step) => (LANGUAGES[step.device_source.language] ?? step.device_source.language) || "Source";

// A text of a step: its lines and their language, or why there is none.
function programOf(step, kind) {
  if (kind === "trace") return { lines: linesOf(step.trace), language: "tvmscript" };
  if (kind === "tir") return { lines: linesOf(step.tir), language: "tvmscript" };
  const source = step.device_source;
  if (source.text === undefined) return { lines: [], missing: source.missing };
  return { lines: linesOf(source.text), language: "cuda" };
}

// Lines added and removed, but for indentation: of a step against the one before, or by a pass.
function changeOf(step) {
  const before = previousStep(step);
  step.change ??= before ? countChange(before.tir, step.tir) : null;
  return step.change;
}

const changeOfPass = (pass) => (pass.change ??= countChange(pass.before, pass.after));

function countChange(before, after) {
  const [old, fresh] = [linesOf(before), linesOf(after)];
  const pairs = alignLines(old, fresh, true);
  return { added: fresh.length - pairs.length, removed: old.length - pairs.length };
}

function changeWords(change) {
  if (!change) return null;
  const { added, removed } = change;
  return h("span", { class: "change" }, added > 0 && h("span", { class: "plus" }, `+${added}`), added > 0 && removed > 0 && " ",
    removed > 0 && h("span", { class: "minus" }, `−${removed}`), !added && !removed && h("span", { class: "dim" }, "="));
}

// "right", "clean", "wrong", "not judged" or nothing, over all checks of a step.
function statusOf(step) {
  if (!step.checks) return null;
  return step.checks.findings.length ? "wrong" : step.checks.numbers;
}

// TIR and device source side by side: lines that belong together are marked.

const PANES = ["tir", "source"];
const TINTS = 6;

function linesPanel({ step }) {
  const links = step.device_source.links ?? [];
  const titles = { tir: "TIR", source: languageOf(step) };
  const order = [...new Set(links)].filter(Boolean).sort((a, b) => a - b);
  const tint = new Map(order.map((line, at) => [line, at % TINTS]));
  const panes = h("div", { class: "panes" }, PANES.map((pane) => {
    const text = programOf(step, pane);
    if (text.missing) return h("section", { class: "pane" }, h("p", { class: "empty" }, `No ${titles[pane]}: ${text.missing}.`));
    const makeRow = (line, at) => {
      const origin = pane === "tir" ? at + 1 : links[at];
      return h("tr", { "data-line": at + 1, "data-pane": pane, class: tint.has(origin) ? `tied tint-${tint.get(origin)}` : null },
        numberCell(at, "fresh"), codeCell(line, tokensOf(line, text.language)));
    };
    return h("section", { class: "pane", "data-pane": pane }, h("h2", {}, titles[pane]), codeBox(titles[pane], wholeLines(text, makeRow)));
  }));
  panes.addEventListener("mouseover", (event) => tieLines(panes, links, event.target.closest("tr[data-line]")));
  panes.addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-line]");
    if (!row) return;
    stay({ line: Number(row.dataset.line), pane: row.dataset.pane });
    showTarget(row);
  });
  const linked = links.filter(Boolean).length;
  const words = step.device_source.text === undefined ? "No lines can be matched: there is no device source."
    : !linked ? "Lines cannot be matched here: with markers in it, TVM's code generator writes another source."
    : `${plural(linked, "line")} of ${titles.source} ${linked === 1 ? "comes" : "come"} from a line of the step; the others are TVM's own. Click a line for its address.`;
  return [h("p", { class: "codebar dim" }, words), panes];
}

// Mark what belongs to a row, and bring it into view in the other pane.
function tieLines(panes, links, row, scroll = false) {
  if (!row) return;
  const [pane, line] = [row.dataset.pane, Number(row.dataset.line)];
  const other = pane === "tir" ? "source" : "tir";
  const found = pane === "source" ? [links[line - 1]] : links.flatMap((at, index) => at === line ? [index + 1] : []);
  for (const one of panes.querySelectorAll("tr.tie")) one.classList.remove("tie");
  const rows = found.map((at) => panes.querySelector(`tr[data-pane="${other}"][data-line="${at}"]`)).filter(Boolean);
  for (const one of [row, ...rows]) one.classList.add("tie");
  if (!scroll || !rows.length) return;
  const box = rows[0].closest(".codebox");
  box.scrollTop = rows[0].offsetTop - box.clientHeight / 3;
}

// The line of the address, in its pane and with all that belongs to it.
function showTarget(clicked = null) {
  const panes = document.querySelector(".panes");
  if (!panes || !here.line) return;
  const pane = here.pane ?? "tir";
  const find = () => panes.querySelector(`tr[data-pane="${pane}"][data-line="${here.line}"]`);
  if (!find()) panes.querySelector(`.pane[data-pane="${pane}"] tr.fold button`)?.click();
  const row = clicked ?? find();
  if (!row) return;
  for (const one of panes.querySelectorAll("tr.target")) one.classList.remove("target");
  row.classList.add("target");
  if (!clicked) row.closest(".codebox").scrollTop = row.offsetTop - 80;
  tieLines(panes, here.step.device_source.links ?? [], row, true);
}
