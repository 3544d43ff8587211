// The tabs of a step.

const TAB_TITLES = { tir: "TIR", loops: "Loops", source: "CUDA", lines: "Lines", facts: "Facts", trace: "Trace", checks: "Checks", time: "Time" };

function tabTitle(name, step) {
  if (name === "source") return languageOf(step);
  return name === "time" && !isTimed && isCounted ? "Counts" : TAB_TITLES[name];
}

function tabList(route) {
  const list = h("div", { class: "tabs", role: "tablist", "aria-label": "Views of the step" }, TABS.map((name) => {
    const isHere = name === route.tab;
    const failed = name === "checks" && statusOf(route.step) === "failed";
    return h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-selected": String(isHere), "aria-controls": "panel",
      tabindex: isHere ? "0" : "-1", onclick: () => openTab(name) }, tabTitle(name, route.step), failed && sign("✕", "failed", "bad"));
  }));
  list.addEventListener("keydown", (event) => {
    const at = TABS.indexOf(here.tab);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: TABS.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    openTab(TABS[(to + TABS.length) % TABS.length]);
    focusAfter = `tab-${TABS[(to + TABS.length) % TABS.length]}`;
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
  const panels = { loops: () => loopsPanel(route.step), lines: () => linesPanel(route), facts: () => factsPanel(route.step, route.against ?? priorStep(route.step, "source")),
    checks: () => checksPanel(route.step), time: () => timePanel(route.step) };
  const make = panels[route.tab] ?? (() => codePanel(route));
  return h("section", { class: "panel", "data-tab": route.tab, id: "panel", role: "tabpanel", "aria-labelledby": `tab-${route.tab}`,
    tabindex: panels[route.tab] ? "0" : null }, make());
}
