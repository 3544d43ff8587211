// What a reader chose, remembered where the browser lets a file remember.

const PREFIX = "tirstep.";
const memory = new Map();

function recall(name, fallback) {
  try {
    const value = localStorage.getItem(PREFIX + name);
    if (value !== null) return value;
  } catch { /* no storage for this file */ }
  return memory.get(name) ?? fallback;
}

function remember(name, value) {
  memory.set(name, value);
  try {
    localStorage.setItem(PREFIX + name, value);
  } catch { /* it holds for this visit only */ }
}

const darkSystem = matchMedia("(prefers-color-scheme: dark)");
const theme = () => recall("theme", darkSystem.matches ? "dark" : "light");

function showTheme() {
  document.documentElement.dataset.theme = theme();
  const button = byId("theme");
  if (button) button.setAttribute("aria-pressed", String(theme() === "dark"));
}

function turnTheme() {
  remember("theme", theme() === "dark" ? "light" : "dark");
  showTheme();
}
