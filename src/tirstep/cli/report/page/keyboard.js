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
