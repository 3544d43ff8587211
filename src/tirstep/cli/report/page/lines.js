// TIR, device source and machine code side by side: lines that belong together are marked.

const PANES = ["tir", "source", "sass"];
const TINTS = 6;

function paneTexts(step) {
  const code = step.machine_code ?? {};
  const source = step.device_source;
  return {
    tir: { title: "TIR", lines: linesOf(step.tir), language: "tvmscript" },
    source: { title: languageOf(step), lines: linesOf(source.text), language: "cuda", missing: source.text === undefined ? source.missing : null },
    sass: { title: "SASS", lines: linesOf(code.text), language: "sass", note: code.made_by,
      missing: code.text === undefined ? code.missing ?? "it was not asked for" : null },
  };
}

// What belongs to a line of a pane, as sets of line numbers by pane.
function relatedLines(step, pane, line) {
  const links = step.links ?? [];
  const places = step.machine_code?.source_lines ?? [];
  const found = { tir: new Set(), source: new Set(), sass: new Set() };
  found[pane].add(line);
  if (pane === "sass" && places[line - 1]) found.source.add(places[line - 1]);
  if (pane === "tir") links.forEach((at, index) => at === line && found.source.add(index + 1));
  else for (const each of found.source) if (links[each - 1]) found.tir.add(links[each - 1]);
  if (pane !== "sass") places.forEach((at, index) => found.source.has(at) && found.sass.add(index + 1));
  return found;
}

// The TIR line that a line of a pane comes from, or 0.
function originOf(step, pane, line) {
  const links = step.links ?? [];
  if (pane === "tir") return links.includes(line) ? line : 0;
  const at = pane === "source" ? line : step.machine_code?.source_lines?.[line - 1];
  return (at && links[at - 1]) || 0;
}

function linesPanel({ step }) {
  const texts = paneTexts(step);
  const order = [...new Set(step.links ?? [])].filter(Boolean).sort((a, b) => a - b);
  const tint = new Map(order.map((line, at) => [line, at % TINTS]));
  const there = PANES.filter((pane) => !texts[pane].missing).length;
  const panes = h("div", { class: `panes of-${there}` }, PANES.map((pane) => paneBox(step, pane, texts[pane], tint)));
  panes.addEventListener("mouseover", (event) => tieLines(panes, step, event.target.closest("tr[data-line]")));
  panes.addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-line]");
    if (!row) return;
    stay({ line: Number(row.dataset.line), pane: row.dataset.pane });
    showTarget(row);
  });
  panes.addEventListener("keydown", (event) => walkLines(panes, event));
  return [h("div", { class: "codebar", role: "group", "aria-label": "How the text is shown" }, chip("wrap", "Wrap", "w"),
    copyButtons(() => texts[here.pane ?? "tir"].lines), h("span", { class: "dim" }, linkedWords(step, texts))), panes];
}

function linkedWords(step, texts) {
  if (texts.source.missing) return "Nothing belongs together yet: there is no device source.";
  const linked = (step.links ?? []).filter(Boolean).length;
  if (!linked) return "Which lines belong together is not known here: TVM's code generator writes this source otherwise with marks in it.";
  return `${plural(linked, "line")} of ${texts.source.title} ${linked === 1 ? "comes" : "come"} from a line of the step; the others are TVM's own. Click a line for its address.`;
}

function paneBox(step, pane, text, tint) {
  const title = h("h2", {}, text.title, text.note && h("small", {}, ` ${text.note}`));
  if (text.missing) return h("section", { class: "pane missing" }, title, h("p", { class: "empty" }, `No ${text.title}: ${text.missing}.`));
  const rows = text.lines.map((line, at) => {
    const origin = originOf(step, pane, at + 1);
    return h("tr", { "data-line": at + 1, "data-pane": pane, class: origin ? `tied tint-${tint.get(origin)}` : null },
      numberCell(at, "fresh"), codeCell(line, tokensOf(line, text.language)));
  });
  const head = rows.splice(0, preambleOf(text));
  const fold = head.length > 0 && foldRow(`${plural(head.length, "line")} in front of the kernels`, () => head);
  return h("section", { class: "pane", "data-pane": pane }, title,
    h("div", { class: "codebox", tabindex: "0", role: "region", "aria-label": `${text.title}; arrow keys go from line to line` },
      h("table", { class: `lines whole${wrapped()}` }, h("tbody", {}, fold, rows))));
}

// Mark what belongs to a row, and bring it into view in the other panes.
function tieLines(panes, step, row, scroll = false) {
  if (!row) return;
  const found = relatedLines(step, row.dataset.pane, Number(row.dataset.line));
  for (const one of panes.querySelectorAll("tr.tie")) one.classList.remove("tie");
  for (const pane of PANES) {
    const box = panes.querySelector(`.pane[data-pane="${pane}"] .codebox`);
    const rows = [...found[pane]].map((line) => box?.querySelector(`tr[data-line="${line}"]`)).filter(Boolean);
    for (const one of rows) one.classList.add("tie");
    if (scroll && rows.length && pane !== row.dataset.pane) box.scrollTop = rows[0].offsetTop - box.clientHeight / 3;
  }
  const count = (pane, name) => found[pane].size && pane !== row.dataset.pane ? [`${plural(found[pane].size, "line")} of ${name}`] : [];
  const others = [...count("tir", "TIR"), ...count("source", languageOf(step)), ...count("sass", "SASS")];
  setStatus([h("span", { class: "place" }, `line ${row.dataset.line}`), others.length ? `belongs to ${others.join(" and ")}` : "belongs to no line of the others"]);
}

// The line of the address, in its pane and with all that belongs to it.
function showTarget(clicked = null) {
  const panes = document.querySelector(".panes");
  if (!panes || !here.line) return;
  const find = () => panes.querySelector(`tr[data-pane="${here.pane ?? "tir"}"][data-line="${here.line}"]`);
  if (!find()) panes.querySelector(`.pane[data-pane="${here.pane ?? "tir"}"] tr.fold button`)?.click();
  const row = clicked ?? find();
  if (!row) return;
  for (const one of panes.querySelectorAll("tr.target")) one.classList.remove("target");
  row.classList.add("target");
  if (!clicked) row.closest(".codebox").scrollTop = row.offsetTop - 80;
  tieLines(panes, here.step, row, true);
}

function walkLines(panes, event) {
  const box = event.target.closest(".codebox");
  const move = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -1e9, End: 1e9 }[event.key];
  if (!box || event.target !== box || move === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  const rows = [...box.querySelectorAll("tr[data-line]")];
  const at = rows.findIndex((row) => row.classList.contains("target"));
  const row = rows[Math.max(0, Math.min(rows.length - 1, at + move))];
  stay({ line: Number(row.dataset.line), pane: row.dataset.pane });
  showTarget(row);
  row.scrollIntoView({ block: "nearest" });
}
