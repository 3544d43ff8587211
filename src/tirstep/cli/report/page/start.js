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
  return stop("This browser is too old for the report; it takes Chrome 123, Firefox 120 or Safari 17.5, or a later one.");
}
