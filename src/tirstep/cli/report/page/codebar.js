// The bar above the code: how it is shown, and what it is compared with.

function codeBar(route, compared, asDiff) {
  const choices = [
    segmented("Show", [["diff", "Diff", isOn("diff")], ["diff", "Whole text", !isOn("diff")]], "d"),
    asDiff && !narrow.matches &&
      segmented("Layout", [["split", "Unified", !isSplit()], ["split", "Side by side", isSplit()]], "s"),
  ];
  const chips = [
    asDiff && chip("indentation", "Hide re-indentation", "i"),
    compared.after.authors && chip("blame", "Blame", "b"),
    !isSplit() && chip("wrap", "Wrap", "w"),
    !route.pass && route.step.python && chip("python", "Python", "p"),
  ];
  return h("div", { class: "codebar", role: "group", "aria-label": "How the text is shown" },
    choices, chips, copyButtons(() => compared.after.lines), h("span", { class: "grow" }),
    asDiff && !route.pass && compareSelect(route, compared));
}

function copyButtons(linesNow) {
  return [h("button", { type: "button", class: "chip", onclick: () => copy(linesNow().join("\n") + "\n", "text") }, "Copy text"),
    h("button", { type: "button", class: "chip", onclick: () => copy(document.URL.split("#")[0] + writeRoute(here), "link") }, "Copy link")];
}

// A page on disk may copy in most browsers, but not in all.
async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    setStatus([`The ${what} is copied.`]);
  } catch {
    setStatus([`This browser lets no page on disk copy a ${what}: mark it and copy it yourself.`]);
  }
}

function segmented(label, options, shortcut) {
  return h("div", { class: "segments", role: "group", "aria-label": label }, options.map(([name, text, on]) =>
    h("button", { type: "button", "aria-pressed": String(on), title: `${text} (${shortcut})`,
      onclick: () => on || choose(name) }, text)));
}

function chip(name, text, shortcut) {
  const on = isOn(name);
  return h("button", { type: "button", class: "chip", "aria-pressed": String(on), title: `${text} (${shortcut})`,
    onclick: () => choose(name) }, text);
}

// Turn a choice and show the same place again; the control keeps the focus.
function choose(name) {
  const label = document.activeElement?.textContent;
  const code = document.activeElement?.id === "code";
  stay({ view: turned(name) });
  drawTree(); // its links carry the view
  showStep();
  const again = [...document.querySelectorAll(".codebar button")].find((one) => one.textContent === label);
  (code ? byId("code") : again)?.focus({ preventScroll: true });
}

function compareSelect(route, compared) {
  const groups = recipes.filter((recipe) => recipe.steps.length).map((recipe) =>
    h("optgroup", { label: recipe.name }, recipe.steps.filter((step) => step !== route.step).map((step) =>
      h("option", { value: `${recipe.name}/${step.label}`, selected: step === compared.other }, step.label))));
  const pick = (event) => {
    const [recipe, step] = event.target.value.split("/");
    const chosen = stepNamed(recipeNamed(recipe), step);
    go({ ...route, line: null, against: chosen === priorStep(route.step, route.tab) ? null : chosen });
  };
  return h("label", { class: "compare" }, h("span", {}, "against"),
    h("select", { id: "against", onchange: pick }, groups));
}
