// The loop nest of a step: loops with what they are bound to, blocks, and the buffers they use.

const BINDINGS = { serial: "serial", unrolled: "unrolled", vectorized: "vector", parallel: "parallel" };

function bindingClass(binding) {
  if (binding.startsWith("blockIdx")) return "grid";
  if (binding.startsWith("threadIdx")) return "thread";
  if (binding.startsWith("vthread")) return "vthread";
  return BINDINGS[binding] ?? "serial";
}

function loopsPanel(step) {
  const root = h("div", { class: "loops" },
    h("section", { class: "nest", "aria-label": "Loop nest" }, step.nests.map(nestRoot)),
    h("section", { class: "memory", "aria-label": "Buffers" }, memoryLanes(step)));
  root.addEventListener("mouseover", (event) => lightUp(root, event.target));
  root.addEventListener("focusin", (event) => lightUp(root, event.target));
  return [loopsLegend(step), root];
}

function nestRoot(nest) {
  const name = h("p", { class: "function" }, h("span", { class: "t-key" }, "def "), nest.name);
  return [name, h("ul", { class: "nodes" }, (nest.children ?? []).map(nestNode))];
}

function nestNode(nest) {
  const children = nest.children ?? [];
  const inner = children.length ? h("ul", { class: "nodes" }, children.map(nestNode)) : null;
  return { loop: loopNode, block: blockNode, guard: guardNode, function: nestRoot }[nest.kind](nest, inner);
}

function loopNode(nest, inner) {
  const kind = bindingClass(nest.binding);
  return h("li", { class: `node loop ${kind}${nest.reduces ? " reduces" : ""}` },
    h("div", { class: "label" },
      h("span", { class: "var" }, nest.name), h("span", { class: "extent" }, "× ", nest.extent),
      h("span", { class: "tag" }, nest.binding), nest.reduces && h("span", { class: "tag sum" }, "reduction")),
    inner);
}

function blockNode(nest, inner) {
  const [reads, writes] = [nest.reads ?? [], nest.writes ?? []];
  if (nest.allocates && nest.name === "root") return h("li", { class: "plain" }, inner);
  const names = (list) => list.map((name, at) => [at ? ", " : "", h("span", { class: "buffer" }, name)]);
  return h("li", { class: "node block", tabindex: "0", "data-buffers": [...reads, ...writes].join(" ") },
    h("div", { class: "label" }, h("strong", {}, nest.name),
      h("span", { class: "flow" }, reads.length ? [names(reads), " → "] : "→ ", names(writes))),
    inner);
}

function guardNode(nest, inner) {
  return h("li", { class: "node guard" }, h("div", { class: "label" }, h("code", {}, nest.name)), inner);
}

const LANES = [["global", "Global memory", "of the GPU"], ["shared", "Shared memory", "of a GPU block"],
  ["local", "Registers", "of a thread"]];

function memoryLanes(step) {
  const others = [...new Set(step.buffers.map((one) => one.scope))].filter((scope) => !LANES.some(([name]) => scope === name));
  return [...LANES, ...others.map((scope) => [scope, scope, ""])].map(([scope, title, whose]) => {
    const buffers = step.buffers.filter((one) => one.scope === scope);
    if (!buffers.length) return null;
    return h("div", { class: `lane ${scope}` }, h("h2", {}, title, whose && h("small", {}, ` ${whose}`)),
      buffers.map(bufferCard));
  });
}

function bufferCard(buffer) {
  const size = buffer.size === undefined ? "symbolic size" : bytes(buffer.size);
  return h("div", { class: "card", tabindex: "0", "data-buffer": buffer.name },
    h("div", {}, h("strong", {}, buffer.name), h("span", { class: "dtype" }, buffer.dtype)),
    h("div", { class: "shape" }, (buffer.shape ?? []).join(" × ") || "scalar", h("span", { class: "size" }, size)),
    buffer.kept !== undefined && h("div", { class: "kept" }, `${bytes(buffer.kept)} after TVM compacts it`));
}

// A buffer lights up the blocks that use it, and a block its buffers.
function lightUp(root, target) {
  const card = target.closest("[data-buffer]");
  const block = target.closest("[data-buffers]");
  const names = card ? [card.dataset.buffer] : block ? block.dataset.buffers.split(" ") : [];
  for (const one of root.querySelectorAll("[data-buffer]")) one.classList.toggle("lit", names.includes(one.dataset.buffer));
  for (const one of root.querySelectorAll("[data-buffers]")) {
    one.classList.toggle("lit", card !== null && one.dataset.buffers.split(" ").includes(card.dataset.buffer));
  }
}

function loopsLegend(step) {
  const extents = new Map();
  const visit = (nest) => {
    if (nest.kind === "loop" && /Idx/.test(nest.binding)) extents.set(nest.binding, nest.extent);
    (nest.children ?? []).forEach(visit);
  };
  step.nests.forEach(visit);
  const along = (axis) => ["x", "y", "z"].map((one) => extents.get(`${axis}.${one}`)).filter(Boolean).join(" × ");
  const [grid, block] = [along("blockIdx"), along("threadIdx")];
  if (!grid && !block) return h("p", { class: "legend" }, "No loop is bound to the GPU yet.");
  return h("p", { class: "legend" }, h("span", {}, "Grid ", h("b", {}, grid || "1")), h("span", {}, "Block ", h("b", {}, block || "1"), " threads"),
    h("span", { class: "dim" }, "x first"));
}
