// Where the page cannot be shown, it says why instead of showing nothing.

function stop(sentence) {
  const main = document.getElementById("main");
  const words = document.createElement("p");
  words.setAttribute("role", "alert");
  words.textContent = sentence;
  main.replaceChildren(words);
}

// The newest things that the page needs: since Chrome 123, Firefox 120 and Safari 17.5.
const isAble = typeof DecompressionStream === "function" && CSS.supports("color", "light-dark(red, blue)");
if (!isAble) {
  return stop("This browser is too old for the report; it needs Chrome 123, Firefox 120, Safari 17.5 or later.");
}

// Elements, made with text nodes only: nothing of a report is ever parsed as markup.

function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) element.append(child);
  }
  return element;
}

const byId = (id) => document.getElementById(id);

// A symbol that eyes read, with words for ears.
const sign = (symbol, words, name) =>
  h("span", { class: name }, h("span", { "aria-hidden": "true" }, symbol), h("span", { class: "spoken" }, words));

const key = (name) => h("kbd", {}, name);
const plural = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

function number(value) {
  const size = Math.abs(value);
  const digits = Number.isInteger(value) || size >= 1000 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 4;
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

function bytes(value) {
  if (value >= 1 << 20) return `${number(+(value / (1 << 20)).toFixed(1))} MiB`;
  if (value >= 1024) return `${number(+(value / 1024).toFixed(1))} KiB`;
  return `${value} B`;
}

// The theme: the system's until the reader chooses, remembered where the browser lets a file remember.
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
let chosenTheme = null;
try {
  chosenTheme = localStorage.getItem("tirstep.theme");
} catch { /* no storage for this file */ }

function showTheme() {
  const theme = chosenTheme ?? (darkSystem.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  byId("theme")?.setAttribute("aria-pressed", String(theme === "dark"));
  return theme;
}

function turnTheme() {
  chosenTheme = showTheme() === "dark" ? "light" : "dark";
  showTheme();
  try {
    localStorage.setItem("tirstep.theme", chosenTheme);
  } catch { /* it holds for this visit only */ }
}
