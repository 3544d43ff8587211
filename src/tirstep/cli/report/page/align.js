// Which lines two texts share: those that occur once first, and what repeats between them.
// It is what lowering_checks/diff.py does, so that diff and blame agree.

const LARGEST_TABLE = 4_000_000;

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
    pairs.push(...longestCommon(old.slice(low, high), fresh.slice(start, stop), (a, b) => a === b)
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

// The longest common subsequence; too large a table finds nothing in common.
const longestCommon = (first, second, same) => heaviestPairs(first, second, (a, b) => Number(same(a, b)));

// Pairs of places, rising in both, whose weights add up to the most; a weight of 0 makes no pair.
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
