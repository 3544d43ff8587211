// Search: the names of steps, and the lines of their TIR and source.

const MOST_HITS = 80;
let hits = [];
let chosen = 0;

function openSearch() {
  const dialog = byId("search");
  if (!dialog.open) dialog.showModal();
  byId("query").select();
  search();
}

function searchDialog() {
  const dialog = h("dialog", { id: "search", class: "search", "aria-label": "Search", onkeydown: searchKeys,
    onclick: (event) => event.target === dialog && dialog.close() },
    h("div", { class: "sheet" },
      h("input", { id: "query", type: "search", placeholder: "Steps and lines of TIR and CUDA", autocomplete: "off", spellcheck: "false",
        role: "combobox", "aria-label": "Search steps and lines", "aria-controls": "hits", "aria-expanded": "true", oninput: search }),
      h("ul", { id: "hits", role: "listbox", "aria-label": "Found" }), h("p", { id: "found", class: "found", role: "status" })));
  return dialog;
}

function search() {
  const query = byId("query").value.trim().toLowerCase();
  chosen = 0;
  hits = query ? findHits(query) : [];
  byId("hits").replaceChildren(...hits.map((hit, at) => hitItem(hit, at, query)));
  byId("found").textContent = !query ? "Type a name or a part of a line." : hits.length === 0 ? "Nothing found."
    : hits.length >= MOST_HITS ? `The first ${MOST_HITS} places.` : plural(hits.length, "place");
  chooseHit(0);
}

function findHits(query) {
  const found = [];
  const matching = new Set();
  (report.lines ?? []).forEach((line, at) => line.toLowerCase().includes(query) && matching.add(at));
  for (const step of steps) {
    if (`${step.recipe.name} ${step.label}`.toLowerCase().includes(query)) found.push({ step, tab: "tir" });
  }
  // The step at hand first, then the others in their order.
  const order = here.step ? [here.step, ...steps.filter((step) => step !== here.step)] : steps;
  for (const step of order) {
    for (const [tab, text] of [["tir", step.tir], ["source", step.device_source.text]]) {
      if (text === undefined) continue;
      report.texts[text].forEach((line, at) => matching.has(line) && found.push({ step, tab, line: at + 1, text: report.lines[line].trim() }));
      if (found.length >= MOST_HITS) return found.slice(0, MOST_HITS);
    }
  }
  return found;
}

function hitItem(hit, at, query) {
  const place = h("span", { class: "where" }, hit.step.recipe.name, " / ", hit.step.label,
    hit.line && ` · ${hit.tab === "tir" ? "TIR" : languageOf(hit.step)} ${hit.line}`);
  const open = () => {
    byId("search").close();
    go({ step: hit.step, tab: hit.tab, line: hit.line });
  };
  return h("li", { role: "option", id: `hit-${at}`, "aria-selected": "false", onclick: open }, place, hit.text && h("code", {}, marked(hit.text, query)));
}

function marked(text, query) {
  const at = text.toLowerCase().indexOf(query);
  if (at < 0) return text;
  const start = Math.max(0, at - 40);
  return [start ? "…" : "", text.slice(start, at), h("mark", {}, text.slice(at, at + query.length)), text.slice(at + query.length, at + 160)];
}

function chooseHit(at) {
  byId(`hit-${chosen}`)?.setAttribute("aria-selected", "false");
  chosen = Math.max(0, Math.min(hits.length - 1, at));
  const item = byId(`hit-${chosen}`);
  item?.setAttribute("aria-selected", "true");
  item?.scrollIntoView({ block: "nearest" });
  const input = byId("query");
  if (item) input.setAttribute("aria-activedescendant", item.id);
  else input.removeAttribute("aria-activedescendant");
}

function searchKeys(event) {
  event.stopPropagation();
  const move = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
  if (move) {
    event.preventDefault();
    chooseHit(chosen + move);
  } else if (event.key === "Escape") { // which would only empty the field first
    event.preventDefault();
    byId("search").close();
  } else if (event.key === "Enter") {
    event.preventDefault();
    byId(`hit-${chosen}`)?.click();
  }
}
