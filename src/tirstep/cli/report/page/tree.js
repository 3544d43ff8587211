// The ladder at the left: recipes, their steps, and under each step the passes that changed it.

const unfolded = new Set();

function drawTree() {
  const side = byId("side");
  const scroll = side.scrollTop;
  if (here.step) unfolded.add(here.step.recipe.name);
  if (here.pass) unfolded.add(stepKey(here.step));
  side.replaceChildren(
    h("a", { class: "home", href: "#", "aria-current": here.step || here.print ? null : "page" }, "Overview"),
    h("ul", { class: "recipes" }, recipes.map(recipeItem)));
  side.scrollTop = scroll;
  const current = side.querySelector("[aria-current=page]");
  if (current && !isInView(current, side)) current.scrollIntoView({ block: "center" });
}

function isInView(element, box) {
  const [inner, outer] = [element.getBoundingClientRect(), box.getBoundingClientRect()];
  return inner.top >= outer.top && inner.bottom <= outer.bottom;
}

const stepKey = (step) => `${step.recipe.name}/${step.label}`;

function foldButton(name, label, id) {
  const open = unfolded.has(name);
  const flip = () => {
    if (!unfolded.delete(name)) unfolded.add(name);
    drawTree();
    byId(`fold-${id}`)?.focus({ preventScroll: true });
  };
  return h("button", { type: "button", class: "fold", id: `fold-${id}`, "aria-expanded": String(open), onclick: flip },
    h("span", { class: "caret", "aria-hidden": "true" }), label);
}

function recipeItem(recipe, at) {
  const open = unfolded.has(recipe.name);
  const failed = recipe.status === "failed" && sign("✕", "failed", "bad");
  return h("li", { class: `recipe${here.step?.recipe === recipe ? " within" : ""}` },
    foldButton(recipe.name, [h("span", { class: "name" }, recipe.name), failed,
      h("span", { class: "count" }, recipe.steps.length ? String(recipe.steps.length - 1) : "skipped")], `r${at}`),
    open && h("ul", { class: "steps" }, recipe.steps.map(stepItem)));
}

function stepItem(step) {
  const isHere = here.step === step;
  const open = unfolded.has(stepKey(step));
  const status = statusOf(step) === "failed" ? sign("✕", "failed", "bad") : null;
  return h("li", { class: "step" },
    h("a", { href: stepLink(step), class: isHere ? "here" : null, "aria-current": isHere && !here.pass ? "page" : null },
      h("span", { class: "index" }, String(step.index)), h("span", { class: "name" }, step.name), status, changeWords(changeOf(step))),
    isHere && step.passes.length > 0 && foldButton(stepKey(step), `${step.passes.length} of ${step.pass_count} passes changed it`, `s${step.place}`),
    isHere && open && h("ul", { class: "passes" }, step.passes.map(passItem)));
}

function passItem(pass) {
  return h("li", {}, h("a", { href: passLink(pass), "aria-current": here.pass === pass ? "page" : null },
    h("span", { class: "index" }, String(pass.number)), h("span", { class: "name" }, shortPass(pass)), changeWords(changeOfPass(pass))));
}

const shortPass = (pass) => pass.name.replace(/^\w+\./, "");

// Arrow keys go through what is there; right and left open and close.
function treeKeys(event) {
  const items = [...byId("side").querySelectorAll("a, button")];
  const at = items.indexOf(document.activeElement);
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && at >= 0) {
    event.preventDefault();
    items[at + step]?.focus();
  }
  const expanded = document.activeElement?.getAttribute("aria-expanded");
  if ((event.key === "ArrowRight" && expanded === "false") || (event.key === "ArrowLeft" && expanded === "true")) {
    event.preventDefault();
    document.activeElement.click();
  }
}

const setDrawer = (open) => {
  document.body.classList.toggle("drawer", open);
  byId("menu")?.setAttribute("aria-expanded", String(open));
};
