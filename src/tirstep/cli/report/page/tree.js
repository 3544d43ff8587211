// The ladder at the left: recipes, their steps, and under each step the passes that changed it.

const unfolded = new Set();

function drawTree() {
  const side = byId("side");
  const scroll = side.scrollTop;
  if (here.step) unfolded.add(here.step.recipe.name);
  if (here.pass) unfolded.add(stepKey(here.step));
  side.replaceChildren(h("a", { class: "home", href: "#", "aria-current": here.step ? null : "page" }, "Overview"),
    h("ul", { class: "recipes" }, recipes.map(recipeItem)));
  side.scrollTop = scroll;
  side.querySelector("[aria-current=page]")?.scrollIntoView({ block: "nearest" });
}

const stepKey = (step) => `${step.recipe.name}/${step.label}`;

function foldButton(name, label, id) {
  const flip = () => {
    if (!unfolded.delete(name)) unfolded.add(name);
    drawTree();
    byId(`fold-${id}`)?.focus({ preventScroll: true });
  };
  return h("button", { type: "button", class: "fold", id: `fold-${id}`, "aria-expanded": String(unfolded.has(name)), onclick: flip },
    h("span", { class: "caret", "aria-hidden": "true" }), label);
}

const failedSign = (failed) => failed && sign("✕", "failed", "bad");

function recipeItem(recipe, at) {
  return h("li", { class: `recipe${here.step?.recipe === recipe ? " within" : ""}` },
    foldButton(recipe.name, [h("span", { class: "name" }, recipe.name), failedSign(recipe.status === "failed"),
      h("span", { class: "count" }, recipe.steps.length ? String(recipe.steps.length - 1) : "skipped")], `r${at}`),
    unfolded.has(recipe.name) && h("ul", { class: "steps" }, recipe.steps.map(stepItem)));
}

function stepItem(step) {
  const isHere = here.step === step;
  const passes = isHere && unfolded.has(stepKey(step)) && step.passes.map((pass) => h("li", {},
    h("a", { href: passLink(pass), "aria-current": here.pass === pass ? "page" : null }, h("span", { class: "index" }, String(pass.number)),
      h("span", { class: "name" }, pass.name.replace(/^\w+\./, "")), changeWords(changeOfPass(pass)))));
  return h("li", { class: "step" },
    h("a", { href: stepLink(step), class: isHere ? "here" : null, "aria-current": isHere && !here.pass ? "page" : null },
      h("span", { class: "index" }, String(step.index)), h("span", { class: "name" }, step.name), failedSign(statusOf(step) === "failed"), changeWords(changeOf(step))),
    isHere && step.passes.length > 0 && foldButton(stepKey(step), `${step.passes.length} of ${step.pass_count} passes changed it`, `s${step.place}`),
    passes && h("ul", { class: "passes" }, passes));
}
