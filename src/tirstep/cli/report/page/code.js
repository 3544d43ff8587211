// The code panel: a text as a whole, or its diff, unified or side by side.

const narrow = matchMedia("(max-width: 860px)");
const isSplit = () => isOn("split") && !narrow.matches;

// What is compared with what: { after, before, name } of the reader's place; before may be null.
function comparison(route) {
  if (route.pass) {
    return { ...programsOfPass(route.pass), name: "what the pass was given", title: route.pass.name };
  }
  const after = programOf(route.step, route.tab);
  const other = route.against ?? priorStep(route.step, route.tab);
  const before = other && programOf(other, route.tab);
  return { after, before: before?.missing ? null : before, name: other?.label, other, title: route.step.label };
}

// The step before; for sources the last one before that has a source.
function priorStep(step, tab) {
  let prior = previousStep(step);
  while (prior && tab === "source" && prior.device_source.text === undefined) prior = previousStep(prior);
  return prior;
}

function codePanel(route) {
  const compared = comparison(route);
  if (compared.after.missing) return h("p", { class: "empty" }, `No device source: ${compared.after.missing}.`);
  const asDiff = isOn("diff") && compared.before !== null;
  const table = asDiff ? diffTable(compared) : wholeTable(compared);
  const label = `${compared.title}${asDiff ? `, diff against ${compared.name}` : ""}; arrow keys go from line to line`;
  const box = h("div", { class: "codebox", tabindex: "0", role: "region", "aria-label": label, id: "code" }, table);
  watchLines(box, compared);
  return [codeBar(route, compared, asDiff), !route.pass && isOn("python") && pythonBox(route.step), box];
}

// The lines of the recipe that make a step; the rest of their function is folded around them.
function pythonBox(step) {
  const { python } = step;
  if (!python) return null;
  const lines = linesOf(python.text);
  const row = (line, at) => h("tr", {}, h("td", { class: "ln" }, String(python.first + at)), codeCell(line, tokensOf(line, "tvmscript")));
  const rows = lines.map(row);
  const [from, to] = [python.start - python.first, python.stop - python.first + 1];
  const fold = (part, words) => part.length > 0 && foldRow(`${plural(part.length, "line")} of ${python.function} ${words}`, () => part);
  return h("section", { class: "python", "aria-label": `The Python of ${step.label}` },
    h("p", { class: "path" }, h("code", {}, `${python.path}:${python.start}`), h("span", { class: "dim" }, ` in ${python.function}`)),
    h("div", { class: "codebox", tabindex: "0", role: "region", "aria-label": `${step.label}: ${python.function}, lines ${python.start} to ${python.stop}` },
      h("table", { class: "lines whole" }, h("tbody", {}, fold(rows.slice(0, from), "before"), rows.slice(from, to), fold(rows.slice(to), "after")))));
}

function diffTable(compared) {
  const { before, after } = compared;
  const rows = diffRows(before.lines, after.lines, isOn("indentation"));
  const isSame = rows.every((row) => row.kind === "same" && !row.moved);
  const table = h("table", { class: `lines ${isSplit() ? "split" : "unified"}${wrapped()}` });
  if (isSame) table.append(h("caption", {}, compared.other
    ? `Nothing differs from ${compared.name}.` : "The texts are the same: what the pass changed does not show in them."));
  const body = h("tbody");
  const shown = foldRows(isSplit() ? rows : unifyRows(rows));
  for (const row of shown) {
    body.append(row.kind !== "fold" ? lineRow(row, compared)
      : foldRow(plural(row.rows.length, "equal line"), () => row.rows.map((one) => lineRow(one, compared))));
  }
  table.append(body);
  return table;
}

function wholeTable(compared) {
  const { after } = compared;
  const fresh = new Set();
  if (compared.before) {
    for (const row of diffRows(compared.before.lines, after.lines, true)) {
      if (row.kind === "add" || row.kind === "edit") fresh.add(row.fresh);
    }
  }
  const row = (line, at) => h("tr", { class: fresh.has(at) ? "fresh" : null, "data-fresh": at },
    blameCell(after, at), numberCell(at, "fresh"),
    codeCell(line, tokensOf(line, after.language), { "data-side": "fresh" }));
  const rows = after.lines.map(row);
  const head = rows.splice(0, preambleOf(after));
  const fold = head.length > 0 && foldRow(`${plural(head.length, "line")} in front of the kernels`, () => head);
  return h("table", { class: `lines whole${wrapped()}` }, h("tbody", {}, fold, rows));
}

const wrapped = () => isOn("wrap") ? " wrap" : "";

// How many lines stand in front of the first kernel: TVM writes the same into every source.
function preambleOf({ lines, language }) {
  const first = language === "cuda" ? lines.findIndex((line) => /^(extern "C" __global__|__kernel) /.test(line)) : 0;
  return first >= SHORTEST_FOLD ? first : 0;
}

function foldRow(words, makeRows) {
  const open = (event) => {
    const row = event.currentTarget.closest("tr");
    const box = row.closest(".codebox");
    row.replaceWith(...makeRows());
    box?.focus({ preventScroll: true });
  };
  const width = isOn("blame") ? 5 : 4;
  return h("tr", { class: "fold" }, h("td", { colspan: width },
    h("button", { type: "button", onclick: open }, h("span", {}, `⋯ ${words}`))));
}

function lineRow(row, compared) {
  return isSplit() ? splitRow(row, compared) : unifiedRow(row, compared);
}

// The tokens of a row's two lines; those of an edit tell what changed.
function rowTokens(row, { before, after }) {
  row.tokens ??= (() => {
    const old = row.old === null ? [] : tokensOf(before.lines[row.old], before.language);
    const fresh = row.fresh === null ? [] : tokensOf(after.lines[row.fresh], after.language);
    return row.kind === "edit" ? compareTokens(old, fresh) : [old, fresh];
  })();
  return row.tokens;
}

function unifiedRow(row, compared) {
  const side = row.kind === "del" ? "old" : "fresh";
  const program = side === "old" ? compared.before : compared.after;
  const at = row[side];
  const tokens = rowTokens(row.twin ?? row, compared)[side === "old" ? 0 : 1];
  const mark = { del: sign("−", "removed", "mark"), add: sign("+", "added", "mark") }[row.kind];
  const moved = row.moved && sign("⇥", "indentation changed", "mark");
  return h("tr", { class: row.moved ? "same moved" : row.kind, [`data-${side}`]: at },
    blameCell(program, at), numberCell(row.old, "old"), numberCell(row.fresh, "fresh"),
    h("td", { class: "sign" }, mark || moved),
    codeCell(program.lines[at], tokens, { "data-side": side }));
}

function splitRow(row, compared) {
  const [old, fresh] = rowTokens(row, compared);
  const cell = (program, at, tokens, side, kind) => at === null
    ? h("td", { class: "code none" })
    : codeCell(program.lines[at], tokens, { "data-side": side, class: kind });
  const changed = row.kind !== "same";
  return h("tr", { class: row.moved ? "same moved" : row.kind, "data-old": row.old, "data-fresh": row.fresh },
    row.fresh === null ? blameCell(compared.before, row.old) : blameCell(compared.after, row.fresh),
    numberCell(row.old, "old"), cell(compared.before, row.old, old, "old", changed && "del"),
    numberCell(row.fresh, "fresh"), cell(compared.after, row.fresh, fresh, "fresh", changed && "add"));
}

function numberCell(at, side) {
  return h("td", { class: "ln", "data-side": side, "aria-hidden": at === null }, at === null ? "" : String(at + 1));
}
