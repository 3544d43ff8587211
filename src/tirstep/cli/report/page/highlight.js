// Tokens of a line of TVMScript or CUDA, each with its class.

const GRAMMARS = {
  tvmscript: [
    ["com", /#.*/y],
    ["str", /"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?/y],
    ["dec", /@[\w.]+/y],
    ["api", /\b[TIRX]\.\w+(?:\.\w+)*/y],
    ["key", /\b(?:and|as|class|def|else|elif|False|for|from|if|import|in|is|lambda|None|not|or|pass|return|True|while|with)\b/y],
    ["fun", /\b(?:range|min|max|sch\.\w+)\b(?=\()/y],
    ["num", /\b\d[\w.]*(?:[eE][-+]?\d+)?/y],
    ["", /\w+/y],
    ["", /\s+/y],
    ["", /\/\/|==|<=|>=|!=|->|[^\w\s]/y],
  ],
  cuda: [
    ["com", /\/\/.*|\/\*.*?(?:\*\/|$)/y],
    ["dec", /^\s*#.*/y],
    ["str", /"(?:[^"\\]|\\.)*"?/y],
    ["api", /\b(?:threadIdx|blockIdx|blockDim|gridDim)\.[xyz]|\b__\w+|\b(?:float|half|double|int|uint|uchar|ushort)[2348]\b|\bnv_\w+/y],
    ["key", /\b(?:alignas|asm|auto|bool|break|case|char|const|continue|default|do|double|else|extern|float|for|half|if|int|long|namespace|return|short|signed|sizeof|static|struct|switch|typedef|uint|unsigned|using|void|volatile|while)\b/y],
    ["num", /\b(?:0[xX][\da-fA-F.]+(?:[pP][-+]?\d+)?|\d[\d.]*(?:[eE][-+]?\d+)?)[fFuUlL]*/y],
    ["", /\w+/y],
    ["", /\s+/y],
    ["", /->|<<|>>|==|<=|>=|&&|\|\||\+\+|[^\w\s]/y],
  ],
};

function tokensOf(line, language) {
  const tokens = [];
  const body = line.trimStart();
  let at = 0;
  while (at < body.length) {
    for (const [name, pattern] of GRAMMARS[language] ?? GRAMMARS.cuda) {
      pattern.lastIndex = at;
      const found = pattern.exec(body);
      if (!found || !found[0]) continue;
      tokens.push({ name, text: found[0] });
      at = pattern.lastIndex;
      break;
    }
  }
  return tokens;
}

// The cell of a line: its indentation, which may be drawn narrower, and its tokens.
function codeCell(line, tokens, properties = {}) {
  const indent = line.length - line.trimStart().length;
  const cell = h("td", { ...properties, class: `code ${properties.class ?? ""}`, style: { "--indent": indent } });
  if (indent) cell.append(h("span", { class: "indent" }, line.slice(0, indent)));
  appendTokens(cell, tokens);
  return cell;
}

function appendTokens(element, tokens) {
  let run = "";
  for (const token of tokens) {
    if (!token.name && !token.changed) {
      run += token.text;
      continue;
    }
    element.append(run);
    run = "";
    if (token.changed && token.parts) {
      const mark = h("mark");
      appendTokens(mark, token.parts.map((part) => ({ ...part, changed: false })));
      element.append(mark);
    } else element.append(h("span", { class: `t-${token.name}` }, token.text));
  }
  element.append(run);
}
