// From two texts to the rows of a diff.

const CONTEXT = 4;
const SHORTEST_FOLD = 6;

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
