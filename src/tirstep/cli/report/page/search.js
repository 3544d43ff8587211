// Search: the names of steps and passes, and the lines of their texts. Every word has to be there;
// words in quotes belong together.

const MOST_HITS = 80;
const MOST_NAMES = 40;
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
      h("input", { id: "query", type: "search", placeholder: "Steps, passes, and lines of their texts", autocomplete: "off", spellcheck: "false",
        role: "combobox", "aria-label": "Search steps, passes and lines", "aria-controls": "hits", "aria-expanded": "true", oninput: search }),
      h("ul", { id: "hits", role: "listbox", "aria-label": "Found" }), h("p", { id: "found", class: "found", role: "status" })));
  return dialog;
}

const wordsOf = (query) => [...query.toLowerCase().matchAll(/"([^"]+)"?|([^\s"]+)/g)].map((found) => found[1] ?? found[2]);

function search() {
  const words = wordsOf(byId("query").value);
  chosen = 0;
  hits = words.length ? findHits(words) : [];
  byId("hits").replaceChildren(...hits.map((hit, at) => hitItem(hit, at, words)));
  byId("found").textContent = !words.length ? "Type a name or parts of a line." : hits.length === 0 ? "Nothing found."
    : hits.length >= MOST_HITS ? `The first ${MOST_HITS} places.` : plural(hits.length, "place");
  chooseHit(0);
}

function findHits(words) {
  const hasAll = (text) => words.every((word) => text.includes(word));
  const matching = new Set();
  (report.lines ?? []).forEach((line, at) => hasAll(line.toLowerCase()) && matching.add(at));
  const found = steps.filter((step) => hasAll(`${step.recipe.name} ${step.label}`.toLowerCase())).map((step) => ({ step, tab: "tir" }));
  // The step at hand first, then the others in their order.
  const order = here.step ? [here.step, ...steps.filter((step) => step !== here.step)] : steps;
  for (const step of order) {
    for (const pass of step.passes) {
      if (hasAll(`${step.recipe.name} ${step.label} ${pass.number} ${pass.name}`.toLowerCase()) && !found.some((hit) => hit.step === step && !hit.pass)) found.push({ step, pass });
    }
  }
  found.splice(MOST_NAMES);
  for (const step of order) {
    for (const place of searched(step)) {
      (report.texts[place.text] ?? []).forEach((line, at) => {
        if (matching.has(line) && (place.wrote?.(at) ?? true)) found.push({ step, ...place, line: at + (place.first ?? 1), found: report.lines[line].trim() });
      });
    }
    if (found.length >= MOST_HITS) break;
  }
  return found.slice(0, MOST_HITS);
}

// The texts of a step; of a pass, the lines that it wrote.
function searched(step) {
  return [
    { tab: "tir", kind: "TIR", text: step.tir },
    { tab: "source", kind: languageOf(step), text: step.device_source.text },
    { tab: "lines", pane: "sass", kind: "SASS", text: step.machine_code?.text },
    { tab: "trace", kind: "trace", text: step.trace },
    ...step.passes.map((pass) => ({ pass, kind: pass.name, text: pass.after, wrote: (at) => pass.authors?.[at] === -pass.number })),
  ].filter((place) => place.text !== undefined);
}

function hitItem(hit, at, words) {
  const kind = hit.line ? ` · ${hit.kind} ${hit.line}` : hit.pass && ` · pass ${hit.pass.number} ${hit.pass.name}`;
  const place = h("span", { class: "where" }, marked(`${hit.step.recipe.name} / ${hit.step.label}${kind || ""}`, hit.line ? [] : words));
  const open = () => {
    byId("search").close();
    go({ step: hit.step, tab: hit.tab, pass: hit.pass, pane: hit.pane, line: hit.line });
  };
  return h("li", { role: "option", id: `hit-${at}`, "aria-selected": "false", onclick: open }, place, hit.found && h("code", {}, marked(shortened(hit.found, words), words)));
}

function shortened(text, words) {
  const at = text.toLowerCase().indexOf(words[0]);
  return at > 60 ? `…${text.slice(at - 40, at + 160)}` : text.slice(0, 200);
}

// A text with the words in it marked, wherever they stand.
function marked(text, words) {
  const lower = text.toLowerCase();
  const parts = [];
  let from = 0;
  for (let at = 0; at < text.length; ) {
    const word = words.find((one) => lower.startsWith(one, at));
    if (word === undefined) at++;
    else {
      parts.push(text.slice(from, at), h("mark", {}, text.slice(at, at + word.length)));
      at = from = at + word.length;
    }
  }
  return [...parts, text.slice(from)];
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
