// What changed within a line: removed and added lines are paired, and their tokens compared.

const LARGEST_BLOCK = 120;
const ALIKE = 0.45;

// Pairs of removed and added lines that look like each other, in order.
function pairLines(removed, added) {
  if (removed.length * added.length > LARGEST_BLOCK * LARGEST_BLOCK) return [];
  return heaviestPairs(removed.map(wordCounts), added.map(wordCounts), (left, right) => {
    const alike = dice(left, right);
    return alike >= ALIKE ? alike : 0;
  });
}

function wordCounts(line) {
  const counts = new Map();
  for (const word of line.match(/\w+|[^\w\s]/g) ?? []) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}

function dice(left, right) {
  let [shared, all] = [0, 0];
  for (const [word, count] of left) {
    shared += Math.min(count, right.get(word) ?? 0);
    all += count;
  }
  for (const count of right.values()) all += count;
  return all ? (2 * shared) / all : 0;
}

// The tokens of two lines, each marked whether the other line has it too.
function compareTokens(before, after) {
  const pairs = longestCommon(before, after, (a, b) => a.text === b.text);
  const [kept, came] = [new Set(pairs.map(([at]) => at)), new Set(pairs.map(([, to]) => to))];
  const mark = (tokens, same) => tokens.map((token, at) => ({ ...token, changed: !same.has(at) && token.text.trim() !== "" }));
  return [joinMarks(mark(before, kept)), joinMarks(mark(after, came))];
}

// A space between two changed words is a part of the change.
function joinMarks(tokens) {
  tokens.forEach((token, at) => {
    if (!token.text.trim() && tokens[at - 1]?.changed && tokens[at + 1]?.changed) token.changed = true;
  });
  const joined = [];
  for (const token of tokens) {
    const last = joined.at(-1);
    if (token.changed && last?.changed) last.parts.push(token);
    else joined.push(token.changed ? { changed: true, text: "", parts: [token] } : token);
  }
  return joined;
}
