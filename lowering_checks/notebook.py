"""Diffs as static HTML, for notebooks: no script, nothing fetched, every text escaped.

The colours are washes over the notebook's own, so that they hold on a dark page and on a light one.
"""

from __future__ import annotations

import difflib
import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tirstep.transforms.recipes import Step

from .diff import CONTEXT, Diff, align_lines
from .steps import Run, print_module, step_label

ALIKE = 0.5  # how much of two lines must agree for their words to be compared

STYLE = """
.tirstep{font:12px/1.6 ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace}
.tirstep summary{cursor:pointer;padding:.25em 0}
.tirstep summary b{font-weight:600}
.tirstep i{font-style:normal;opacity:.65}
.tirstep .plus{color:#2f9e57}.tirstep .minus{color:#d0574b}
.tirstep pre{margin:.3em 0 1em;padding:.4em 0;overflow-x:auto;font:inherit;line-height:1.6;
border:1px solid rgba(128,128,128,.3);border-radius:8px;background:none;color:inherit}
.tirstep span{display:block;width:max-content;min-width:100%;padding:0 1em;box-sizing:border-box}
.tirstep .add{background:rgba(46,160,87,.16)}.tirstep .del{background:rgba(224,82,70,.16)}
.tirstep .gap{opacity:.6;background:rgba(128,128,128,.12)}
.tirstep mark{color:inherit;border-radius:3px;background:rgba(46,160,87,.38)}
.tirstep .del mark{background:rgba(224,82,70,.38)}
"""


@dataclass(frozen=True)
class Row:
    """A row of a diff.

    Attributes
    ----------
    kind : ``"same"``, ``"moved"`` (in its indentation), ``"add"``, ``"del"`` or ``"gap"``
    text : the line; of a gap, what it stands for
    words : the places in `text` that differ from the row's twin, as ranges
    """

    kind: str
    text: str
    words: tuple[tuple[int, int], ...] = ()


def render_run(run: Run) -> str:
    """Every step of a run, folded, with what it changed; the last is open."""
    texts = [print_module(step.module).splitlines() for step in run.steps]
    parts = []
    for step, text in zip(run.steps, texts, strict=True):
        rows = [Row("same", line) for line in text]
        if step.index:
            rows = diff_rows(texts[step.index - 1], text)
        parts.append(_fold(step, rows, is_open=step is run.steps[-1]))
    title = f"<b>{html.escape(run.recipe.name)}</b> <i>{html.escape(str(run.problem))}</i>"
    return _page(f"<div>{title}</div>{''.join(parts)}")


def render_diff(diff: Diff) -> str:
    """A unified diff."""
    kinds = {"+": "add", "-": "del", "@": "gap"}
    rows = [
        Row(kinds.get(line[:1], "same"), line if line.startswith("@") else line[1:])
        for line in diff.lines[2:]
    ]
    names = f"<b>{html.escape(diff.before)} → {html.escape(diff.after)}</b>"
    return _page(f"<div>{names} {_counts(rows)}</div>{_block(rows)}")


def diff_rows(before: Sequence[str], after: Sequence[str], context: int = CONTEXT) -> list[Row]:
    """The rows of a diff that leaves changes of the indentation alone."""
    rows: list[Row] = []
    low = start = 0
    for at, to in [*align_lines(before, after), (len(before), len(after))]:
        rows += _changed(before[low:at], after[start:to])
        if to < len(after):
            rows.append(Row("same" if before[at] == after[to] else "moved", after[to]))
        low, start = at + 1, to + 1
    return _leave_out(rows, context)


def _changed(removed: Sequence[str], added: Sequence[str]) -> Iterator[Row]:
    """Removed before added; lines that look like each other have their words compared."""
    words: dict[tuple[str, int], tuple[tuple[int, int], ...]] = {}
    free = list(range(len(added)))
    for place, line in enumerate(removed):
        for other in free:
            old, new = _compare_words(line, added[other])
            if old is not None and new is not None:
                words["del", place], words["add", other] = old, new
                free = [later for later in free if later > other]
                break
    for kind, lines in (("del", removed), ("add", added)):
        for place, line in enumerate(lines):
            yield Row(kind, line, words.get((kind, place), ()))


_Ranges = tuple[tuple[int, int], ...]


def _compare_words(before: str, after: str) -> tuple[_Ranges, _Ranges] | tuple[None, None]:
    """The ranges that differ, or None where the lines are too far from each other."""
    old, new = (re.findall(r"\s+|\w+|\W", line) for line in (before, after))
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < ALIKE:
        return None, None
    changed = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    ranges = ([(a, b) for _, a, b, _, _ in changed], [(a, b) for _, _, _, a, b in changed])
    first, second = (
        tuple((sum(map(len, words[:a])), sum(map(len, words[:b]))) for a, b in part if a < b)
        for words, part in zip((old, new), ranges, strict=True)
    )
    return first, second


def _leave_out(rows: list[Row], context: int) -> list[Row]:
    """Only rows near a change; a gap row counts those left out."""
    changes = [at for at, row in enumerate(rows) if row.kind in ("add", "del")]
    near = {at + off for at in changes for off in range(-context, context + 1)}
    kept: list[Row] = []
    left_out = 0
    for at, row in enumerate([*rows, None]):
        if row is not None and at not in near:
            left_out += 1
            continue
        if left_out:
            kept.append(Row("gap", f"⋯ {left_out} equal line{'s' * (left_out > 1)}"))
        left_out = 0
        if row is not None:
            kept.append(row)
    return kept


def _fold(step: Step, rows: list[Row], *, is_open: bool) -> str:
    counts = _counts(rows) if step.index else ""
    head = f"<b>{html.escape(step_label(step))}</b> {counts} <i>{html.escape(step.location)}</i>"
    return f"<details{' open' * is_open}><summary>{head}</summary>{_block(rows)}</details>"


def _counts(rows: Sequence[Row]) -> str:
    added, removed = (sum(row.kind == kind for row in rows) for kind in ("add", "del"))
    return f'<a class="plus">+{added}</a> <a class="minus">−{removed}</a>'


def _block(rows: Sequence[Row]) -> str:
    return f"<pre>{''.join(map(_line, rows))}</pre>"


def _line(row: Row) -> str:
    sign = {"add": "+ ", "del": "− ", "moved": "⇥ ", "gap": ""}.get(row.kind, "  ")
    text, end = "", 0
    for start, stop in row.words:
        marked = html.escape(row.text[start:stop])
        text += f"{html.escape(row.text[end:start])}<mark>{marked}</mark>"
        end = stop
    return f'<span class="{row.kind}">{sign}{text}{html.escape(row.text[end:])}</span>'


def _page(content: str) -> str:
    return f'<div class="tirstep"><style>{STYLE}</style>{content}</div>'
