// Puts the page together, and follows the address.

function drawTop() {
  const button = (id, text, label, action, more = {}) =>
    h("button", { type: "button", id, "aria-label": label, title: label, onclick: action, ...more }, text);
  byId("top").append(
    button("menu", "☰", "Recipes and steps", () => setDrawer(!document.body.classList.contains("drawer")), { "aria-expanded": "false", "aria-controls": "side" }),
    h("a", { class: "brand", href: "#" }, "tirstep"),
    h("span", { class: "title" }, report.title),
    h("button", { type: "button", id: "find", onclick: openSearch }, h("span", {}, "Search"), key("/")),
    button("theme", "◐", "Dark theme (t)", turnTheme, { "aria-pressed": "false" }),
    button("keys", "?", "Keys (?)", openHelp));
}

function arrive() {
  here = readRoute(location.hash);
  setDrawer(false);
  const focused = document.activeElement?.id;
  drawTree();
  showStep();
  // What had the focus was drawn anew.
  const again = byId(focusAfter ?? "") ?? (["code", "panel"].includes(focused) ? byId(focused) : null);
  again?.focus({ preventScroll: true });
  focusAfter = null;
  if (!here.line || here.print) window.scrollTo(0, 0);
}

document.body.append(searchDialog(), helpDialog());
drawTop();
showTheme();
arrive();
addEventListener("hashchange", arrive);
addEventListener("keydown", pressed);
byId("side").addEventListener("keydown", treeKeys);
byId("side").addEventListener("click", (event) => event.target.closest("a") && setDrawer(false));
byId("shade").addEventListener("click", () => setDrawer(false));
darkSystem.addEventListener("change", showTheme);
narrow.addEventListener("change", () => showStep());
