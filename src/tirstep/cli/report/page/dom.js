// Elements, made with text nodes only: nothing of a report is ever parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
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

const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
const s = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);
const byId = (id) => document.getElementById(id);

// A symbol that eyes read, with words for ears.
const sign = (symbol, words, name) =>
  h("span", { class: name }, h("span", { "aria-hidden": "true" }, symbol), h("span", { class: "spoken" }, words));

const key = (name) => h("kbd", {}, name);
const plural = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

function number(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  const digits = Number.isInteger(value) || size >= 1000 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 4;
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

function bytes(value) {
  if (value >= 1 << 20) return `${number(+(value / (1 << 20)).toFixed(1))} MiB`;
  if (value >= 1024) return `${number(+(value / 1024).toFixed(1))} KiB`;
  return `${value} B`;
}
