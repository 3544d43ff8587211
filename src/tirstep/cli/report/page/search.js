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
