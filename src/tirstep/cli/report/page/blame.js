// Who wrote a line: in a column beside the code, and of the line at hand in the bar below.

function blameCell(program, at) {
  if (!isOn("blame") || !program.authors) return null;
  const author = program.authors[at];
  if (author === undefined) return h("td", { class: "blame" });
  const isFirst = at === 0 || program.authors[at - 1] !== author;
  const wrote = authorOf(program.step, author);
  const age = wrote.kind === "pass" ? 1 : (wrote.index + 1) / (program.step.index + 1);
  return h("td", { class: `blame ${wrote.kind}${isFirst ? " first" : ""}`, style: { "--age": age.toFixed(2) } },
    h("span", {}, wrote.label), h("span", { class: "spoken" }, ` ${wrote.source}`));
}

let lineAtHand = null;

function watchLines(box, compared) {
  lineAtHand = null;
  const show = (row, side) => showLine(box, compared, row, side);
  box.addEventListener("mouseover", (event) => {
    const row = event.target.closest("tr");
    const side = event.target.closest("td")?.dataset.side;
    if (row && !row.classList.contains("fold")) show(row, side);
  });
  box.addEventListener("click", (event) => {
    const cell = event.target.closest("td.ln");
    if (cell?.textContent && cell.dataset.side === "fresh") {
      stay({ line: Number(cell.textContent) });
      markTarget(box);
    }
  });
  box.addEventListener("keydown", (event) => {
    if (event.target !== box || event.ctrlKey || event.metaKey || event.altKey) return;
    const move = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -1e9, End: 1e9 }[event.key];
    if (move === undefined) return;
    event.preventDefault();
    const rows = [...box.querySelectorAll("tr")];
    const at = lineAtHand && lineAtHand.isConnected ? rows.indexOf(lineAtHand) + move : move > 1e8 ? move : 0;
    const row = rows[Math.max(0, Math.min(rows.length - 1, at))];
    if (!row) return;
    row.scrollIntoView({ block: "nearest" });
    if (row.classList.contains("fold")) {
      setLine(row);
      setStatus([`${row.textContent}; Enter shows them`]);
    } else show(row);
  });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target === box && lineAtHand?.classList.contains("fold")) {
      lineAtHand.querySelector("button").click();
    }
  });
}

function setLine(row) {
  lineAtHand?.classList.remove("at-hand");
  lineAtHand = row;
  row.classList.add("at-hand");
}

function showLine(box, compared, row, side) {
  const which = side && row.dataset[side] !== undefined ? side : row.dataset.fresh !== undefined ? "fresh" : "old";
  const at = Number(row.dataset[which]);
  if (row === lineAtHand && row.dataset.shown === which) return;
  setLine(row);
  row.dataset.shown = which;
  const program = which === "old" ? compared.before : compared.after;
  const place = h("span", { class: "place" }, which === "old" ? `removed line ${at + 1}` : `line ${at + 1}`);
  if (!program.authors?.length) return setStatus([place]);
  const wrote = authorOf(program.step, program.authors[at]);
  const link = wrote.pass ? passLink(wrote.pass) : wrote.step && stepLink(wrote.step);
  setStatus([place, h("span", { class: "by" }, wrote.kind === "pass" ? "written by TVM's pass" : "written by step"),
    h("a", { href: link, class: "who" }, wrote.label), h("span", { class: "source" }, wrote.source)]);
}

function setStatus(parts) {
  byId("status").replaceChildren(...parts);
}

// The line of the address, marked and in view.
function markTarget(box) {
  box.querySelectorAll("tr.target").forEach((row) => row.classList.remove("target"));
  if (!here.line) return null;
  const find = () => box.querySelector(`tr[data-fresh="${here.line - 1}"]`);
  for (const button of box.querySelectorAll("tr.fold button")) {
    if (find()) break;
    button.click();
  }
  const row = find();
  row?.classList.add("target");
  return row;
}
