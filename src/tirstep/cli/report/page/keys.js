// Search: the names of steps and passes, and the lines of their texts. Every word has to be there.

const MOST_HITS = 80;
const MOST_NAMES = 40;
let hits = [];
let chosen = 0;

function openSearch() {
  if (!byId("search").open) byId("search").showModal();
  byId("query").select();
  search();
}

function searchDialog() {
  const dialog = h("dialog", { id: "search", class: "search", "aria-label": "Search", onkeydown: searchKeys,
    onclick: (event) => event.target === dialog && dialog.close() },
    h("div", { class: "sheet" },
      h("input", { id: "query", type: "search", placeholder: "Steps, passes, and lines of their texts", autocomplete: "off", spellcheck: "false",
        role: "combobox", "aria-label": "Search steps, passes and lines", "aria-controls": "hits", "aria-expanded": "true", oninput: search }),
      h("ul", { id: "hits", role: "listbox", "aria-label": "Found" }), h("p", { id: "found", class: "found", role: "status" })));
  return dialog;
}

function search() {
  const words = byId("query").value.toLowerCase().split(/\s+/).filter(Boolean);
  hits = words.length ? findHits(words) : [];
  byId("hits").replaceChildren(...hits.map(hitItem));
  byId("found").textContent = !words.length ? "Type a name or parts of a line." : hits.length === 0 ? "Nothing found."
    : hits.length >= MOST_HITS ? `The first ${MOST_HITS} places.` : plural(hits.length, "place");
  chooseHit(0);
}

// Names first, then lines; of both, those of the step at hand before the others.
function findHits(words) {
  const hasAll = (text) => words.every((word) => text.toLowerCase().includes(word));
  const order = here.step ? [here.step, ...steps.filter((step) => step !== here.step)] : steps;
  const names = order.flatMap((step) => hasAll(stepKey(step)) ? [{ step, tab: "tir", where: stepKey(step) }]
    : step.passes.map((pass) => ({ step, pass, where: `${stepKey(step)} · pass ${pass.number} ${pass.name}` })).filter((hit) => hasAll(hit.where)));
  const matching = new Set((report.lines ?? []).flatMap((line, at) => hasAll(line) ? [at] : []));
  const lines = order.flatMap((step) => searched(step).flatMap((place) => (report.texts[place.text] ?? []).flatMap((line, at) =>
    matching.has(line) && !place.known?.has(line)
      ? [{ step, ...place, line: at + 1, where: `${stepKey(step)} · ${place.kind} ${at + 1}`, found: report.lines[line].trim() }] : [])));
  return [...names.slice(0, MOST_NAMES), ...lines].slice(0, MOST_HITS);
}

// The texts of a step; of a pass, the lines that it was not given.
function searched(step) {
  return [
    { tab: "tir", kind: "TIR", text: step.tir },
    { tab: "source", kind: languageOf(step), text: step.device_source.text },
    { tab: "trace", kind: "trace", text: step.trace },
    ...step.passes.map((pass) => ({ pass, kind: pass.name, text: pass.after, known: new Set(report.texts[pass.before]) })),
  ].filter((place) => place.text !== undefined);
}

function hitItem(hit, at) {
  const open = () => {
    byId("search").close();
    go({ step: hit.step, tab: hit.tab, pass: hit.pass, line: hit.line });
  };
  return h("li", { role: "option", id: `hit-${at}`, "aria-selected": "false", onclick: open },
    h("span", { class: "where" }, hit.where), hit.found && h("code", {}, hit.found));
}

function chooseHit(at) {
  byId(`hit-${chosen}`)?.setAttribute("aria-selected", "false");
  chosen = Math.max(0, Math.min(hits.length - 1, at));
  const item = byId(`hit-${chosen}`);
  item?.setAttribute("aria-selected", "true");
  item?.scrollIntoView({ block: "nearest" });
  byId("query").setAttribute("aria-activedescendant", item?.id ?? "");
}

function searchKeys(event) {
  event.stopPropagation();
  const move = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
  if (move) chooseHit(chosen + move);
  else if (event.key === "Escape") byId("search").close(); // which would only empty the field first
  else if (event.key === "Enter") byId(`hit-${chosen}`)?.click();
  else return;
  event.preventDefault();
}

// The keys, the sheet that names them, and the page put together.

const KEYS = [
  ["j", "k", "next, previous step", () => walkSteps(1), () => walkSteps(-1)],
  ["]", "[", "next, previous pass of the step", () => walkPasses(1), () => walkPasses(-1)],
  ["1", "6", "the tabs, from TIR to checks"],
  ["d", null, "diff or whole text", () => here.step && choose("diff")],
  ["s", null, "side by side or unified", () => here.step && choose("split")],
  ["i", null, "hide or show re-indentation", () => here.step && choose("indentation")],
  ["o", null, "overview", () => go({})],
  ["t", null, "dark or light", turnTheme],
  ["/", null, "search", openSearch],
  ["?", null, "this help", () => openHelp()],
  ["Esc", null, "close, or from a pass back to its step"],
];

function walkSteps(by) {
  const to = here.step ? steps[here.step.place + by] : steps.at(by > 0 ? 0 : -1);
  if (to) go({ step: to, tab: here.tab });
}

function walkPasses(by) {
  if (!here.step?.passes.length) return;
  const at = here.pass ? here.step.passes.indexOf(here.pass) + by : by > 0 ? 0 : here.step.passes.length - 1;
  if (here.step.passes[at]) go({ step: here.step, pass: here.step.passes[at], tab: here.tab });
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches?.("input, select, textarea")) return;
  if (event.key === "Escape" && here.pass) return go({ step: here.step, tab: "tir" });
  const action = KEYS.flatMap(([first, second, , one, two]) => [[first, one], [second, two]])
    .find(([name, act]) => name === event.key && act)?.[1];
  const tab = here.step && /^[1-9]$/.test(event.key) && TABS[Number(event.key) - 1];
  if (!action && !tab) return;
  event.preventDefault();
  if (action) action();
  else openTab(tab);
}

function helpDialog() {
  const rows = KEYS.map(([first, second, words]) =>
    h("div", {}, h("dt", {}, key(first), second && [first === "1" ? " – " : " ", key(second)]), h("dd", {}, words)));
  const dialog = h("dialog", { id: "help", class: "help", "aria-labelledby": "help-title", onclick: (event) => event.target === dialog && dialog.close() },
    h("div", { class: "sheet" }, h("h2", { id: "help-title" }, "Keys"), h("dl", {}, rows),
      h("button", { type: "button", onclick: () => dialog.close() }, "Close")));
  return dialog;
}

function openHelp() {
  if (!byId("help").open) byId("help").showModal();
}

function drawTop() {
  const button = (id, label, action, text, more) => h("button", { type: "button", id, "aria-label": label, title: label, onclick: action, ...more }, text);
  byId("top").append(h("a", { class: "brand", href: "#" }, "tirstep"), h("span", { class: "title" }, report.title),
    h("button", { type: "button", id: "find", onclick: openSearch }, h("span", {}, "Search"), key("/")),
    button("theme", "Dark theme (t)", turnTheme, "◐", { "aria-pressed": "false" }), button("keys", "Keys (?)", openHelp, "?"));
}

function arrive() {
  here = readRoute(location.hash);
  const focused = document.activeElement?.id;
  drawTree();
  showStep();
  // What had the focus was drawn anew.
  const again = byId(focusAfter ?? "") ?? (["code", "panel"].includes(focused) ? byId(focused) : null);
  again?.focus({ preventScroll: true });
  focusAfter = null;
  if (!here.line) window.scrollTo(0, 0);
}

document.body.append(searchDialog(), helpDialog());
drawTop();
showTheme();
arrive();
addEventListener("hashchange", arrive);
addEventListener("keydown", pressed);
darkSystem.addEventListener("change", showTheme);
