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
    for (const name of ["passes", "nests", "buffers"]) step[name] ??= [];
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

// A text of a step: its lines, their authors where they are known, or why there is none.
function programOf(step, kind) {
  if (kind === "trace") return { lines: linesOf(step.trace), authors: null, language: "tvmscript", step };
  if (kind === "tir") return { lines: linesOf(step.tir), authors: step.authors ?? [], language: "tvmscript", step };
  const source = step.device_source;
  if (source.text === undefined) return { lines: [], authors: null, missing: source.missing, step };
  return { lines: linesOf(source.text), authors: source.authors ?? [], language: "cuda", step };
}

function programsOfPass(pass) {
  const base = { language: "tvmscript", step: pass.step };
  const index = pass.step.passes.indexOf(pass);
  const before = pass.step.passes.slice(0, index).reverse().find((one) => one.after === pass.before);
  const authors = before ? before.authors : pass.before === pass.step.tir ? pass.step.authors : null;
  return {
    before: { ...base, lines: linesOf(pass.before), authors: authors ?? null },
    after: { ...base, lines: linesOf(pass.after), authors: pass.authors ?? [] },
  };
}

// Who an author's number stands for: a step of the recipe, or a pass of TVM.
function authorOf(step, author) {
  if (author >= 0) {
    const wrote = step.recipe.steps[author];
    return { kind: "step", index: author, label: wrote.label, source: wrote.source, step: wrote };
  }
  const pass = step.passes.find((one) => one.number === -author);
  return { kind: "pass", index: -author, label: pass ? pass.name : `pass ${-author}`, source: `pass ${-author}`, step, pass };
}

// Lines added and removed against the step before, but for indentation.
function changeOf(step) {
  if (step.change === undefined) {
    const before = previousStep(step);
    step.change = before ? countChange(linesOf(before.tir), linesOf(step.tir)) : null;
  }
  return step.change;
}

function changeOfPass(pass) {
  pass.change ??= countChange(linesOf(pass.before), linesOf(pass.after));
  return pass.change;
}

function countChange(before, after) {
  const pairs = alignLines(before, after, true);
  return { added: after.length - pairs.length, removed: before.length - pairs.length };
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
