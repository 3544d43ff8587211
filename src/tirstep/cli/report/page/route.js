// Where the reader is, kept in the address: #recipe/04_step/tab?against=recipe/step&line=12,
// and #recipe/04_step/pass-42 for a pass. Back and forward work, and every place can be sent.

const TABS = ["tir", "loops", "source", "facts", "trace", "checks", "time"];
const CODE_TABS = ["tir", "source", "trace"];

const recipeNamed = (name) => recipes.find((recipe) => recipe.name === name) ?? null;

function stepNamed(recipe, name) {
  return recipe?.steps.find((step) => [step.label, step.name, String(step.index)].includes(name)) ?? null;
}

function readRoute(hash) {
  const [path, query] = hash.replace(/^#/, "").split("?");
  const [recipeName, stepName, part] = path.split("/").map(decode);
  const route = { step: null, pass: null, tab: "tir", against: null, line: null, missing: null };
  if (!recipeName) return route;
  const recipe = recipeNamed(recipeName);
  route.step = stepName ? stepNamed(recipe, stepName) : recipe?.steps.at(-1) ?? null;
  if (!route.step) return { ...route, missing: decode(path) };
  const pass = /^pass-(\d+)$/.exec(part ?? "");
  if (pass) {
    route.pass = route.step.passes.find((one) => one.number === Number(pass[1])) ?? null;
    if (!route.pass) route.missing = decode(path);
  } else if (TABS.includes(part)) route.tab = part;
  for (const [name, value] of new URLSearchParams(query ?? "")) {
    if (name === "line" && /^\d+$/.test(value)) route.line = Number(value);
    const [otherRecipe, otherStep] = value.split("/");
    if (name === "against") route.against = stepNamed(recipeNamed(otherRecipe), otherStep);
  }
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
  return `#${path}${query.length ? `?${query.join("&")}` : ""}`;
}

let here = readRoute("");

const stepLink = (step, tab = here.tab) => writeRoute({ step, tab });
const passLink = (pass) => writeRoute({ step: pass.step, pass });

function go(route) {
  const hash = writeRoute(route);
  if (hash === (location.hash || "#")) arrive();
  else location.hash = hash;
}
