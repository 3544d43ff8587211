// From two texts to the rows of a diff: lines that occur once on both sides are aligned first, and
// what repeats between them.

const LARGEST_TABLE = 4_000_000;
const LARGEST_BLOCK = 120;
const ALIKE = 0.45;
const CONTEXT = 4;
const SHORTEST_FOLD = 6;

// Pairs of places, rising in both texts.
function alignLines(before, after, ignoreIndentation) {
  const ids = new Map();
  const number = (line) => {
    const name = ignoreIndentation ? line.trim() : line;
    if (!ids.has(name)) ids.set(name, name === "" ? -1 : ids.size);
    return ids.get(name);
  };
  const pairs = [];
  alignRange(before.map(number), after.map(number), [0, before.length], [0, after.length], pairs);
  return pairs;
}

function alignRange(old, fresh, [low, high], [start, stop], pairs) {
  while (low < high && start < stop && old[low] === fresh[start]) pairs.push([low++, start++]);
  let tail = 0;
  while (low < high - tail && start < stop - tail && old[high - tail - 1] === fresh[stop - tail - 1]) tail++;
  high -= tail;
  stop -= tail;
  const anchors = findAnchors(old, fresh, [low, high], [start, stop]);
  if (anchors.length) {
    for (const [at, to] of anchors) {
      alignRange(old, fresh, [low, at], [start, to], pairs);
      pairs.push([at, to]);
      [low, start] = [at + 1, to + 1];
    }
    alignRange(old, fresh, [low, high], [start, stop], pairs);
  } else {
    pairs.push(...heaviestPairs(old.slice(low, high), fresh.slice(start, stop), (a, b) => a === b)
      .map(([at, to]) => [low + at, start + to]));
  }
  for (let offset = 0; offset < tail; offset++) pairs.push([high + offset, stop + offset]);
}

function findAnchors(old, fresh, oldRange, freshRange) {
  const there = findUnique(old, ...oldRange);
  const here = findUnique(fresh, ...freshRange);
  const pairs = [];
  for (const [line, at] of there) if (here.has(line)) pairs.push([at, here.get(line)]);
  return longestRising(pairs.sort((a, b) => a[0] - b[0]));
}

function findUnique(lines, start, stop) {
  const places = new Map();
  for (let at = start; at < stop; at++) places.set(lines[at], places.has(lines[at]) ? -1 : at);
  for (const [line, at] of places) if (at < 0 || line < 0) places.delete(line);
  return places;
}

function longestRising(pairs) {
  const piles = [];
  const below = pairs.map(() => -1);
  pairs.forEach(([, to], at) => {
    let [low, high] = [0, piles.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pairs[piles[middle]][1] < to) low = middle + 1;
      else high = middle;
    }
    below[at] = low ? piles[low - 1] : -1;
    piles[low] = at;
  });
  const chain = [];
  for (let at = piles.at(-1) ?? -1; at >= 0; at = below[at]) chain.push(pairs[at]);
  return chain.reverse();
}

// Pairs of places, rising in both, whose weights add up to the most; a weight of 0 or false makes no
// pair. Too large a table finds nothing in common.
function heaviestPairs(first, second, weight) {
  const width = second.length + 1;
  if (!first.length || !second.length || first.length * second.length > LARGEST_TABLE) return [];
  const table = new Float64Array((first.length + 1) * width);
  for (let i = first.length - 1; i >= 0; i--) {
    for (let j = second.length - 1; j >= 0; j--) {
      const at = i * width + j;
      const own = weight(first[i], second[j]);
      table[at] = Math.max(own && own + table[at + width + 1], table[at + width], table[at + 1]);
    }
  }
  const pairs = [];
  for (let i = 0, j = 0; i < first.length && j < second.length; ) {
    const at = i * width + j;
    const own = weight(first[i], second[j]);
    if (own && table[at] === own + table[at + width + 1]) pairs.push([i++, j++]);
    else if (table[at + width] >= table[at + 1]) i++;
    else j++;
  }
  return pairs;
}

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
  const pairs = heaviestPairs(before, after, (a, b) => a.text === b.text);
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

// Rows { kind, old, fresh }: places of lines, null where a side has none. `same` rows have both
// (`moved` where only the indentation differs), and `edit` rows a removed and an added line that
// look like each other.
function diffRows(before, after, ignoreIndentation) {
  const rows = [];
  let [low, start] = [0, 0];
  for (const [at, to] of [...alignLines(before, after, ignoreIndentation), [before.length, after.length]]) {
    rows.push(...changedRows(before, after, [low, at], [start, to]));
    if (at < before.length && to < after.length) {
      rows.push({ kind: "same", old: at, fresh: to, moved: before[at] !== after[to] });
    }
    [low, start] = [at + 1, to + 1];
  }
  return rows;
}

function changedRows(before, after, [low, high], [start, stop]) {
  const rows = [];
  const removed = (end) => { while (low < end) rows.push({ kind: "del", old: low++, fresh: null }); };
  const added = (end) => { while (start < end) rows.push({ kind: "add", old: null, fresh: start++ }); };
  const [top, left] = [low, start];
  for (const [at, to] of pairLines(before.slice(low, high), after.slice(start, stop))) {
    removed(top + at);
    added(left + to);
    rows.push({ kind: "edit", old: low++, fresh: start++ });
  }
  removed(high);
  added(stop);
  return rows;
}

// Long stretches of equal lines become one row { kind: "fold", rows }.
function foldRows(rows) {
  const folded = [];
  let run = [];
  const close = (isLast) => {
    const first = folded.length === 0 ? 0 : CONTEXT;
    const last = isLast ? 0 : CONTEXT;
    if (run.length >= first + last + SHORTEST_FOLD) {
      folded.push(...run.slice(0, first));
      folded.push({ kind: "fold", rows: run.slice(first, run.length - last) });
      folded.push(...run.slice(run.length - last));
    } else folded.push(...run);
    run = [];
  };
  for (const row of rows) {
    if (row.kind === "same" && !row.moved) run.push(row);
    else {
      close(false);
      folded.push(row);
    }
  }
  close(true);
  return folded;
}

// Unified order: within a change, what was removed comes before what was added.
function unifyRows(rows) {
  const unified = [];
  let added = [];
  for (const row of rows) {
    if (row.kind === "del") unified.push(row);
    else if (row.kind === "add") added.push(row);
    else if (row.kind === "edit") {
      unified.push({ kind: "del", old: row.old, fresh: null, twin: row });
      added.push({ kind: "add", old: null, fresh: row.fresh, twin: row });
    } else {
      unified.push(...added, row);
      added = [];
    }
  }
  return [...unified, ...added];
}
