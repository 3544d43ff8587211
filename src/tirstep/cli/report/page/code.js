// Tokens of a line of TVMScript or CUDA, each with its class.

const GRAMMARS = {
  tvmscript: [
    ["com", /#.*/y],
    ["str", /"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?/y],
    ["dec", /@[\w.]+/y],
    ["api", /\b[TIRX]\.\w+(?:\.\w+)*/y],
    ["key", /\b(?:and|as|class|def|else|elif|False|for|from|if|import|in|is|lambda|None|not|or|pass|return|True|while|with)\b/y],
    ["fun", /\b(?:range|min|max|sch\.\w+)\b(?=\()/y],
    ["num", /\b\d[\w.]*(?:[eE][-+]?\d+)?/y],
    ["", /\w+/y],
    ["", /\s+/y],
    ["", /\/\/|==|<=|>=|!=|->|[^\w\s]/y],
  ],
  cuda: [
    ["com", /\/\/.*|\/\*.*?(?:\*\/|$)/y],
    ["dec", /^\s*#.*/y],
    ["str", /"(?:[^"\\]|\\.)*"?/y],
    ["api", /\b(?:threadIdx|blockIdx|blockDim|gridDim)\.[xyz]|\b__\w+|\b(?:float|half|double|int|uint|uchar|ushort)[2348]\b|\bnv_\w+/y],
    ["key", /\b(?:alignas|asm|auto|bool|break|case|char|const|continue|default|do|double|else|extern|float|for|half|if|int|long|namespace|return|short|signed|sizeof|static|struct|switch|typedef|uint|unsigned|using|void|volatile|while)\b/y],
    ["num", /\b(?:0[xX][\da-fA-F.]+(?:[pP][-+]?\d+)?|\d[\d.]*(?:[eE][-+]?\d+)?)[fFuUlL]*/y],
    ["", /\w+/y],
    ["", /\s+/y],
    ["", /->|<<|>>|==|<=|>=|&&|\|\||\+\+|[^\w\s]/y],
  ],
};

function tokensOf(line, language) {
  const tokens = [];
  const body = line.trimStart();
  let at = 0;
  while (at < body.length) {
    for (const [name, pattern] of GRAMMARS[language] ?? GRAMMARS.cuda) {
      pattern.lastIndex = at;
      const found = pattern.exec(body);
      if (!found || !found[0]) continue;
      tokens.push({ name, text: found[0] });
      at = pattern.lastIndex;
      break;
    }
  }
  return tokens;
}

// The cell of a line: its indentation, which may be drawn narrower, and its tokens.
function codeCell(line, tokens, properties = {}) {
  const indent = line.length - line.trimStart().length;
  const cell = h("td", { ...properties, class: `code ${properties.class ?? ""}`, style: { "--indent": indent } });
  if (indent) cell.append(h("span", { class: "indent" }, line.slice(0, indent)));
  appendTokens(cell, tokens);
  return cell;
}

function appendTokens(element, tokens) {
  let run = "";
  for (const token of tokens) {
    if (!token.name && !token.changed) {
      run += token.text;
      continue;
    }
    element.append(run);
    run = "";
    if (token.changed && token.parts) {
      const mark = h("mark");
      appendTokens(mark, token.parts.map((part) => ({ ...part, changed: false })));
      element.append(mark);
    } else element.append(h("span", { class: `t-${token.name}` }, token.text));
  }
  element.append(run);
}

// The code panel: a text as a whole, or its diff, unified or side by side.

// What is compared with what: { before, after, name }; before may be null.
function comparison(route) {
  if (route.pass) {
    const text = (name) => ({ language: "tvmscript", lines: linesOf(route.pass[name]) });
    return { before: text("before"), after: text("after"), name: "what the pass was given", title: route.pass.name };
  }
  const other = route.against ?? priorStep(route.step, route.tab);
  const before = other && programOf(other, route.tab);
  return { after: programOf(route.step, route.tab), before: before?.missing ? null : before, name: other?.label, other, title: route.step.label };
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
  const label = `${compared.title}${asDiff ? `, diff against ${compared.name}` : ""}`;
  const box = codeBox(label, asDiff ? diffTable(compared) : wholeTable(compared), { id: "code" });
  box.addEventListener("click", (event) => {
    const cell = event.target.closest("td.ln");
    if (!cell?.textContent || cell.dataset.side !== "fresh") return;
    stay({ line: Number(cell.textContent) });
    markTarget(box);
  });
  return [codeBar(route, compared, asDiff), !route.pass && pythonBox(route.step), box];
}

const codeBox = (label, table, more = {}) =>
  h("div", { class: "codebox", tabindex: "0", role: "region", "aria-label": label, ...more }, table);

// The line of the address, marked, and the folds opened that hide it.
function markTarget(box) {
  box.querySelectorAll("tr.target").forEach((row) => row.classList.remove("target"));
  if (!here.line) return null;
  const find = () => box.querySelector(`tr[data-fresh="${here.line - 1}"]`);
  for (const button of box.querySelectorAll("tr.fold button")) {
    if (find()) break;
    button.click();
  }
  find()?.classList.add("target");
  return find();
}

// How the text is shown, and what it is compared with.
function codeBar(route, compared, asDiff) {
  return h("div", { class: "codebar", role: "group", "aria-label": "How the text is shown" },
    segmented("Show", [["diff", "Diff", isOn("diff")], ["diff", "Whole text", !isOn("diff")]], "d"),
    asDiff && segmented("Layout", [["split", "Unified", !isOn("split")], ["split", "Side by side", isOn("split")]], "s"),
    asDiff && choiceButton("indentation", "Hide re-indentation", isOn("indentation"), "i", { class: "chip" }),
    copyButton(() => compared.after.lines), h("span", { class: "grow" }),
    asDiff && !route.pass && compareSelect(route, compared));
}

const segmented = (label, options, shortcut) => h("div", { class: "segments", role: "group", "aria-label": label },
  options.map(([name, text, on]) => choiceButton(name, text, on, shortcut, { onclick: () => on || choose(name) })));

const choiceButton = (name, text, on, shortcut, more) =>
  h("button", { type: "button", "aria-pressed": String(on), title: `${text} (${shortcut})`, onclick: () => choose(name), ...more }, text);

// Turn a choice and show the same place again; the control keeps the focus.
function choose(name) {
  const label = document.activeElement?.textContent;
  stay({ view: turned(name) });
  drawTree(); // its links carry the view
  showStep();
  [...document.querySelectorAll(".codebar button")].find((one) => one.textContent === label)?.focus({ preventScroll: true });
}

// A page on disk may copy in most browsers, but not in all.
function copyButton(linesNow) {
  const copy = async ({ currentTarget: button }) => {
    const told = (words) => button.replaceChildren(words);
    await navigator.clipboard.writeText(linesNow().join("\n") + "\n").then(() => told("Copied"), () => told("This browser does not let pages copy"));
  };
  return h("button", { type: "button", class: "chip", onclick: copy }, "Copy text");
}

function compareSelect(route, compared) {
  const groups = recipes.filter((recipe) => recipe.steps.length).map((recipe) =>
    h("optgroup", { label: recipe.name }, recipe.steps.filter((step) => step !== route.step).map((step) =>
      h("option", { value: `${recipe.name}/${step.label}`, selected: step === compared.other }, step.label))));
  const pick = (event) => {
    const [recipe, step] = event.target.value.split("/");
    const chosen = stepNamed(recipeNamed(recipe), step);
    go({ ...route, line: null, against: chosen === priorStep(route.step, route.tab) ? null : chosen });
  };
  return h("label", { class: "compare" }, h("span", {}, "against"), h("select", { id: "against", onchange: pick }, groups));
}

// The lines of the recipe that make a step; the rest of their function is folded around them.
function pythonBox(step) {
  const { python } = step;
  if (!python) return null;
  const rows = linesOf(python.text).map((line, at) =>
    h("tr", {}, h("td", { class: "ln" }, String(python.first + at)), codeCell(line, tokensOf(line, "tvmscript"))));
  const [from, to] = [python.start - python.first, python.stop - python.first + 1];
  const fold = (part, words) => part.length > 0 && foldRow(`${plural(part.length, "line")} of ${python.function} ${words}`, () => part);
  return h("details", { class: "python", open: true },
    h("summary", {}, h("code", {}, `${python.path}:${python.start}`), h("span", { class: "dim" }, ` in ${python.function}`)),
    codeBox(`${step.label}: ${python.function}, lines ${python.start} to ${python.stop}`,
      h("table", { class: "lines whole" }, h("tbody", {}, fold(rows.slice(0, from), "before"), rows.slice(from, to), fold(rows.slice(to), "after")))));
}

function diffTable(compared) {
  const rows = diffRows(compared.before.lines, compared.after.lines, isOn("indentation"));
  const isSame = rows.every((row) => row.kind === "same" && !row.moved);
  const arrange = (some) => (isOn("split") ? some : unifyRows(some));
  const makeRow = (row) => (isOn("split") ? splitRow : unifiedRow)(row, compared);
  const kernels = { old: firstKernel(compared.before), fresh: firstKernel(compared.after) };
  const isKernel = (row) => ["old", "fresh"].some((side) => row[side] !== null && row[side] >= kernels[side]);
  const head = kernels.fresh ? rows.splice(0, rows.findIndex(isKernel)) : [];
  const shown = foldRows(arrange(rows));
  return h("table", { class: `lines ${isOn("split") ? "split" : "unified"}` },
    isSame && h("caption", {}, compared.other ? `Nothing differs from ${compared.name}.` : "The texts are the same: what the pass changed does not show in them."),
    h("tbody", {}, headFold(head, () => arrange(head).map(makeRow)), shown.map((row) => row.kind !== "fold" ? makeRow(row)
      : foldRow(plural(row.rows.length, "equal line"), () => row.rows.map(makeRow)))));
}

function wholeTable({ before, after }) {
  const changed = before ? diffRows(before.lines, after.lines, true) : [];
  const fresh = new Set(changed.filter((row) => ["add", "edit"].includes(row.kind)).map((row) => row.fresh));
  return wholeLines(after, (line, at) => h("tr", { class: fresh.has(at) ? "fresh" : null, "data-fresh": at },
    numberCell(at, "fresh"), codeCell(line, tokensOf(line, after.language))));
}

// All lines of a text; what TVM writes in front of the first kernel of every source is folded.
function wholeLines(text, makeRow) {
  const rows = text.lines.map(makeRow);
  const head = rows.splice(0, firstKernel(text));
  return h("table", { class: "lines whole" }, h("tbody", {}, headFold(head, () => head), rows));
}

// How many lines stand in front of the first kernel of a source; 0 where these are few.
function firstKernel({ lines, language }) {
  const first = language === "cuda" ? lines.findIndex((line) => /^(extern "C" __global__|__kernel) /.test(line)) : 0;
  return first >= SHORTEST_FOLD ? first : 0;
}

const headFold = (head, makeRows) => head.length > 0 && foldRow(`${plural(head.length, "line")} in front of the kernels`, makeRows);

function foldRow(words, makeRows) {
  const open = (event) => {
    const row = event.currentTarget.closest("tr");
    const box = row.closest(".codebox");
    row.replaceWith(...makeRows());
    box?.focus({ preventScroll: true });
  };
  return h("tr", { class: "fold" }, h("td", { colspan: 4 }, h("button", { type: "button", onclick: open }, h("span", {}, `⋯ ${words}`))));
}

// The tokens of a row's two lines; those of an edit tell what changed.
function rowTokens(row, { before, after }) {
  const old = row.old === null ? [] : tokensOf(before.lines[row.old], before.language);
  const fresh = row.fresh === null ? [] : tokensOf(after.lines[row.fresh], after.language);
  row.tokens ??= row.kind === "edit" ? compareTokens(old, fresh) : [old, fresh];
  return row.tokens;
}

function unifiedRow(row, compared) {
  const side = row.kind === "del" ? "old" : "fresh";
  const tokens = rowTokens(row.twin ?? row, compared)[side === "old" ? 0 : 1];
  const line = (side === "old" ? compared.before : compared.after).lines[row[side]];
  const mark = { del: sign("−", "removed"), add: sign("+", "added") }[row.kind];
  return h("tr", { class: row.moved ? "same moved" : row.kind, [`data-${side}`]: row[side] },
    numberCell(row.old, "old"), numberCell(row.fresh, "fresh"),
    h("td", { class: "sign" }, mark || (row.moved && sign("⇥", "indentation changed"))), codeCell(line, tokens));
}

function splitRow(row, compared) {
  const [old, fresh] = rowTokens(row, compared);
  const changed = row.kind !== "same";
  const cell = (program, at, tokens, kind) => at === null ? h("td", { class: "code none" })
    : codeCell(program.lines[at], tokens, { class: changed ? kind : "" });
  return h("tr", { class: row.moved ? "same moved" : row.kind, "data-old": row.old, "data-fresh": row.fresh },
    numberCell(row.old, "old"), cell(compared.before, row.old, old, "del"),
    numberCell(row.fresh, "fresh"), cell(compared.after, row.fresh, fresh, "add"));
}

const numberCell = (at, side) =>
  h("td", { class: "ln", "data-side": side, "aria-hidden": at === null }, at === null ? "" : String(at + 1));
