// The page of a step, or of a pass: its head, its tabs, and the panel.

function showStep() {
  const main = byId("main");
  setStatus([]);
  if (here.print) {
    main.replaceChildren(h("article", { class: "page printed" }, printPage(here.print)));
    document.title = `${here.print.name} · tirstep`;
    return;
  }
  if (!here.step) {
    main.replaceChildren(overviewPage());
    document.title = `${report.title} · tirstep`;
    return;
  }
  const place = here.pass ? passPage(here) : stepPage(here);
  main.replaceChildren(h("article", { class: "page" }, place));
  document.title = `${here.pass ? here.pass.name : here.step.label} · ${here.step.recipe.name} · tirstep`;
  const code = byId("code");
  if (code) markTarget(code)?.scrollIntoView({ block: "center" });
  if (here.tab === "lines" && !here.pass) showTarget();
}

function stepPage(route) {
  const { step } = route;
  const [back, on] = [steps[step.place - 1], steps[step.place + 1]];
  return [
    h("header", { class: "head" },
      h("p", { class: "crumbs" }, h("span", {}, step.recipe.name), h("span", { class: "dim" }, step.recipe.about)),
      h("div", { class: "titles" }, h("h1", {}, h("span", { class: "index" }, String(step.index)), " ", step.name),
        walk(back && stepLink(back), on && stepLink(on), "step", ["k", "j"])),
      h("p", { class: "meta" }, step.source && h("code", {}, step.source), changeWords(changeOf(step)), verdictOf(step), settings(step.recipe),
        h("a", { href: printLink(step.recipe), class: "to-print" }, "Print the recipe"))),
    here.missing && h("p", { class: "notice", role: "alert" }, `This report has no '${here.missing}'.`),
    tabList(route), tabPanel(route),
  ];
}

function verdictOf(step) {
  if (!step.checks) return null;
  return h("span", {}, verdictWord(statusOf(step)), h("span", { class: "dim" }, ` on ${step.checks.checked_on}`));
}

function settings(recipe) {
  const config = Object.entries(recipe.config ?? {}).map(([name, value]) => `${name}=${value}`);
  return h("span", { class: "dim" }, [recipe.shape?.replaceAll("x", "×"), recipe.dtype, ...config].filter(Boolean).join("  "));
}

function passPage(route) {
  const { pass, step } = route;
  const at = step.passes.indexOf(pass);
  const [back, on] = [step.passes[at - 1], step.passes[at + 1]];
  return [
    h("header", { class: "head" },
      h("p", { class: "crumbs" }, h("a", { href: stepLink(step, "tir") }, `${step.recipe.name} / ${step.label}`),
        h("span", { class: "dim" }, `lowered for ${report.target}`)),
      h("div", { class: "titles" }, h("h1", {}, h("span", { class: "index" }, String(pass.number)), " ", pass.name),
        walk(back && passLink(back), on && passLink(on), "pass", ["[", "]"])),
      h("p", { class: "meta" }, changeWords(changeOfPass(pass)), h("span", {}, `${number(pass.milliseconds)} ms`),
        h("span", { class: "dim" }, `pass ${pass.number} of ${step.pass_count}; ${step.passes.length} changed the module`))),
    h("section", { class: "panel", id: "panel", "aria-label": "What the pass changed" }, codePanel(route)),
  ];
}

function walk(back, on, noun, [backKey, onKey]) {
  const link = (href, symbol, text, shortcut) => href
    ? h("a", { href, "aria-label": text, title: `${text} (${shortcut})` }, symbol)
    : h("span", { class: "end", "aria-hidden": "true" }, symbol);
  return h("div", { class: "walk" }, link(back, "‹", `previous ${noun}`, backKey), link(on, "›", `next ${noun}`, onKey));
}
