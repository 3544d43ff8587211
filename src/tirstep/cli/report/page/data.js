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

const LANGUAGES = { cuda: "CUDA", opencl: "OpenCL", llvm: "LLVM IR" };
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

// "ok", "failed" or nothing, over all checks of a step.
function statusOf(step) {
  if (!step.checks) return null;
  return step.checks.findings.length ? "failed" : step.checks.numbers;
}
