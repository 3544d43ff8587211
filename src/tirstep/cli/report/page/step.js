// The page of a step, or of a pass: its head, its tabs, and the panel.

function showStep() {
  const { step, pass } = here;
  byId("main").replaceChildren(step ? h("article", { class: "page" }, pass ? passPage(here) : stepPage(here)) : overviewPage());
  document.title = step ? `${pass ? pass.name : step.label} · ${step.recipe.name} · tirstep` : `${report.title} · tirstep`;
  const code = byId("code");
  if (code) markTarget(code)?.scrollIntoView({ block: "center" });
  if (here.tab === "lines" && !pass) showTarget();
}

function stepPage(route) {
  const { step } = route;
  const { recipe, time, checks } = step;
  const config = Object.entries(recipe.config ?? {}).map(([name, value]) => `${name}=${value}`);
  const settings = [recipe.shape?.replaceAll("x", "×"), recipe.dtype, ...config].filter(Boolean).join("  ");
  return [
    head([h("span", {}, recipe.name), h("span", { class: "dim" }, recipe.about)], [step.index, step.name],
      [steps[step.place - 1], steps[step.place + 1]], stepLink, "step", ["k", "j"],
      [step.source && h("code", {}, step.source), changeWords(changeOf(step)),
        checks && h("span", {}, verdictWord(statusOf(step)), h("span", { class: "dim" }, ` on ${checks.checked_on}`)),
        time && h("span", { class: "time" }, h("b", {}, `${number(time.median)} µs`),
          h("span", { class: "dim" }, ` quartiles ${number(time.lower)} – ${number(time.upper)} µs, ${time.repeats} repeats`)),
        h("span", { class: "dim" }, settings)]),
    missingNotice(), tabList(route), tabPanel(route),
  ];
}

function passPage({ pass, step }) {
  const at = step.passes.indexOf(pass);
  return [
    head([h("a", { href: stepLink(step, "tir") }, stepKey(step)), h("span", { class: "dim" }, `lowered for ${report.target}`)], [pass.number, pass.name],
      [step.passes[at - 1], step.passes[at + 1]], passLink, "pass", ["[", "]"],
      [changeWords(changeOfPass(pass)), h("span", {}, `${number(pass.milliseconds)} ms`),
        h("span", { class: "dim" }, `pass ${pass.number} of ${step.pass_count}; ${step.passes.length} changed the module`)]),
    h("section", { class: "panel", id: "panel", "aria-label": "What the pass changed" }, codePanel(here)),
  ];
}

function head(crumbs, [index, name], [back, on], link, noun, [backKey, onKey], meta) {
  const walk = (to, symbol, words, shortcut) => to
    ? h("a", { href: link(to), "aria-label": words, title: `${words} (${shortcut})` }, symbol)
    : h("span", { class: "end", "aria-hidden": "true" }, symbol);
  return h("header", { class: "head" }, h("p", { class: "crumbs" }, crumbs),
    h("div", { class: "titles" }, h("h1", {}, h("span", { class: "index" }, String(index)), " ", name),
      h("div", { class: "walk" }, walk(back, "‹", `previous ${noun}`, backKey), walk(on, "›", `next ${noun}`, onKey))),
    h("p", { class: "meta" }, meta));
}

function tabList(route) {
  const titles = { tir: "TIR", source: languageOf(route.step), lines: "Lines", facts: "Facts", trace: "Trace", checks: "Checks" };
  const list = h("div", { class: "tabs", role: "tablist", "aria-label": "Views of the step" }, TABS.map((name) =>
    h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-selected": String(name === route.tab), "aria-controls": "panel",
      tabindex: name === route.tab ? "0" : "-1", onclick: () => openTab(name) },
      titles[name], failedSign(name === "checks" && statusOf(route.step) === "failed"))));
  list.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    openTab(TABS.at((TABS.indexOf(here.tab) + by) % TABS.length));
  });
  return list;
}

let focusAfter = null;

function openTab(name) {
  if (!here.step) return;
  focusAfter = document.activeElement?.getAttribute("role") === "tab" ? `tab-${name}` : null;
  go({ ...here, tab: name, pass: null, line: null, pane: null });
}

function tabPanel(route) {
  const panels = { lines: () => linesPanel(route), checks: () => checksPanel(route.step),
    facts: () => factsPanel(route.step, route.against ?? priorStep(route.step, "source")) };
  return h("section", { class: "panel", id: "panel", role: "tabpanel", "aria-labelledby": `tab-${route.tab}`,
    tabindex: panels[route.tab] ? "0" : null }, (panels[route.tab] ?? (() => codePanel(route)))());
}
