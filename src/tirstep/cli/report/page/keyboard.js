// The keys, and the sheet that names them.

const KEYS = [
  ["j", "k", "next, previous step", () => walkSteps(1), () => walkSteps(-1)],
  ["]", "[", "next, previous pass of the step", () => walkPasses(1), () => walkPasses(-1)],
  ["1", "8", "the tabs, from TIR to times"],
  ["d", null, "diff or whole text", () => here.step && choose("diff")],
  ["s", null, "side by side or unified", () => here.step && choose("split")],
  ["i", null, "hide or show re-indentation", () => here.step && choose("indentation")],
  ["b", null, "blame: who wrote each line", () => here.step && choose("blame")],
  ["w", null, "wrap long lines", () => here.step && choose("wrap")],
  ["p", null, "the recipe's Python", () => here.step && choose("python")],
  ["c", null, "into the code, then arrow keys", () => byId("code")?.focus()],
  ["o", null, "overview", () => go({})],
  ["t", null, "dark or light", turnTheme],
  ["/", null, "search", openSearch],
  ["?", null, "this help", () => openHelp()],
  ["Esc", null, "close, or from a pass back to its step"],
];

function walkSteps(by) {
  const to = here.step ? steps[here.step.place + by] : steps[by > 0 ? 0 : steps.length - 1];
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
  if (event.key === "Escape") return leave();
  const action = KEYS.flatMap(([first, second, , one, two]) => [[first, one], [second, two]])
    .find(([name, act]) => name === event.key && act)?.[1];
  const tab = /^[1-9]$/.test(event.key) && TABS[Number(event.key) - 1];
  if (action || (tab && here.step)) {
    event.preventDefault();
    if (action) action();
    else openTab(tab);
  }
}

function leave() {
  if (document.body.classList.contains("drawer")) setDrawer(false);
  else if (here.print) go({ step: here.print.steps.at(-1) ?? null });
  else if (here.pass) go({ step: here.step, tab: "tir" });
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
