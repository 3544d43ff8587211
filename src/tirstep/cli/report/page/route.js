// Where the reader is and how it is shown, kept in the address:
// #recipe/04_step/tab?against=recipe/step&line=12&view=whole,split, or #recipe/04_step/pass-42 for a
// pass. Back and forward work, and every view can be sent.

const TABS = ["tir", "source", "lines", "facts", "trace", "checks"];
// How a text is shown, by the word that the address has where it is not as at first.
const VIEWS = { diff: "whole", split: "split", indentation: "exact" };
const ON_AT_FIRST = ["diff", "indentation"];

const recipeNamed = (name) => recipes.find((recipe) => recipe.name === name) ?? null;

function stepNamed(recipe, name) {
  return recipe?.steps.find((step) => [step.label, step.name, String(step.index)].includes(name)) ?? null;
}

function readRoute(hash) {
  const [path, query] = hash.replace(/^#/, "").split("?");
  const [recipeName, stepName, part] = path.split("/").map(decode);
  const route = { step: null, pass: null, tab: "tir", against: null, line: null, pane: null, view: [], missing: null };
  for (const [name, value] of new URLSearchParams(query ?? "")) {
    if (name === "line" && /^\d+$/.test(value)) route.line = Number(value);
    if (name === "in" && PANES.includes(value)) route.pane = value;
    if (name === "view") route.view = Object.values(VIEWS).filter((word) => value.split(",").includes(word));
    const [otherRecipe, otherStep] = value.split("/");
    if (name === "against") route.against = stepNamed(recipeNamed(otherRecipe), otherStep);
  }
  if (!recipeName) return route;
  const recipe = recipeNamed(recipeName);
  route.step = stepName ? stepNamed(recipe, stepName) : recipe?.steps.at(-1) ?? null;
  if (!route.step) return { ...route, missing: decode(path) };
  const pass = /^pass-(\d+)$/.exec(part ?? "");
  if (pass) {
    route.pass = route.step.passes.find((one) => one.number === Number(pass[1])) ?? null;
    if (!route.pass) route.missing = decode(path);
  } else if (TABS.includes(part)) route.tab = part;
  return route;
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function writeRoute(route) {
  if (!route.step) return "#";
  const part = route.pass ? `pass-${route.pass.number}` : route.tab ?? "tir";
  const path = [route.step.recipe.name, route.step.label, part].map(encodeURIComponent).join("/");
  const query = [];
  if (route.against) {
    query.push(`against=${encodeURIComponent(route.against.recipe.name)}/${encodeURIComponent(route.against.label)}`);
  }
  if (route.line) query.push(`line=${route.line}`);
  if (route.line && route.pane) query.push(`in=${route.pane}`);
  const view = route.view ?? here.view;
  if (view.length) query.push(`view=${view.join(",")}`);
  return `#${path}${query.length ? `?${query.join("&")}` : ""}`;
}

let here = readRoute("");

const stepLink = (step, tab = here.tab) => writeRoute({ step, tab });
const passLink = (pass) => writeRoute({ step: pass.step, pass });

const isOn = (name) => here.view.includes(VIEWS[name]) !== ON_AT_FIRST.includes(name);

// The view with one choice turned, in the order of VIEWS.
function turned(name) {
  const words = here.view.includes(VIEWS[name]) ? here.view.filter((word) => word !== VIEWS[name]) : [...here.view, VIEWS[name]];
  return Object.values(VIEWS).filter((word) => words.includes(word));
}

// Change the address of this place, which adds nothing to go back to.
function stay(change) {
  Object.assign(here, change);
  history.replaceState(null, "", writeRoute(here));
}

function go(route) {
  const hash = writeRoute(route);
  if (hash === (location.hash || "#")) arrive();
  else location.hash = hash;
}
