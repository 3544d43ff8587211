"""Diffs, verdicts and facts as static HTML, for notebooks: no script, nothing fetched, every text
escaped.

The colours are washes over the notebook's own, so that they hold on a dark page and on a light one.
"""

from __future__ import annotations

import difflib
import html
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from .judgement import Status
from .steps import CONTEXT, Diff, Run, print_module, step_label

if TYPE_CHECKING:
    from .facts import Facts
    from .verdict import Verdict

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
"""


class Row(NamedTuple):
    """A row of a diff.

    Attributes
    ----------
    kind : ``"same"``, ``"moved"`` (in its indentation), ``"add"``, ``"del"`` or ``"gap"``
    text : the line; of a gap, what it stands for
    """

    kind: str
    text: str


def render_run(run: Run) -> str:
    """Every step of a run, folded, with what it changed; the last is open."""
    texts = [print_module(step.module).splitlines() for step in run.steps]
    parts = []
    for step, text in zip(run.steps, texts, strict=True):
        rows = [Row("same", line) for line in text]
        if step.index:
            rows = diff_rows(texts[step.index - 1], text)
        head = f"<b>{html.escape(step_label(step))}</b> {_counts(rows) if step.index else ''}"
        head = f"<summary>{head} <i>{html.escape(step.location)}</i></summary>"
        is_open = " open" * (step is run.steps[-1])
        parts.append(f"<details{is_open}>{head}{_block(rows)}</details>")
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


def render_verdict(verdict: Verdict) -> str:
    """The word, where it was judged, why not or why no more, and each finding."""
    style = {Status.RIGHT: "plus", Status.CLEAN: "plus", Status.WRONG: "minus"}
    word = f'<a class="{style.get(verdict.status, "gap")}">{verdict.status}</a>'
    step = f"{verdict.run.recipe.name}/{step_label(verdict.step)}"
    where = html.escape(" ".join(filter(None, [verdict.part, "on", verdict.checked_on])))
    parts = [f"<div><b>{html.escape(step)}</b> {word} <i>{where}</i></div>"]
    parts += [f"<div>{html.escape(verdict.reason)}</div>"] if verdict.reason else []
    found = [Row("del", line) for each in verdict.findings for line in str(each).splitlines()]
    return _page("".join([*parts, _block(found) if found else ""]))


def render_facts(facts: Facts) -> str:
    """A row for each fact, under the headings of their groups."""
    title = f"<div><b>facts for {html.escape(facts.target)}</b></div>"
    if facts.refusal is not None:
        return _page(f"{title}<div>{html.escape(facts.refusal)}</div>")
    rows = []
    for group, own in itertools.groupby(facts.rows(), key=lambda fact: fact.group):
        rows.append(f"<tr><th>{html.escape(group)}</th><th></th></tr>")
        for fact in own:
            name = f"{fact.name}, {fact.unit}" if fact.unit else fact.name
            value = f"{fact.value:,}" if isinstance(fact.value, int) else str(fact.value)
            cells = (f"<td>{html.escape(it)}</td>" for it in (name, value))
            rows.append(f"<tr>{''.join(cells)}</tr>")
    return _page(f"{title}<table>{''.join(rows)}</table>")


def diff_rows(before: Sequence[str], after: Sequence[str], context: int = CONTEXT) -> list[Row]:
    """The rows of a diff that leaves changes of the indentation alone: a loop that is put around a
    block writes one line, and moves the others to the right.
    """
    old, new = ([line.strip() for line in lines] for lines in (before, after))
    rows: list[Row] = []
    for code, a, b, c, d in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        if code == "equal":
            pairs = zip(before[a:b], after[c:d], strict=True)
            rows += [Row("same" if one == other else "moved", other) for one, other in pairs]
        else:
            rows += [Row("del", line) for line in before[a:b]]
            rows += [Row("add", line) for line in after[c:d]]
    # Only rows near a change; a gap row counts those left out.
    changes = [at for at, row in enumerate(rows) if row.kind in ("add", "del")]
    near = {at + off for at in changes for off in range(-context, context + 1)}
    kept: list[Row] = []
    for is_near, group in itertools.groupby(enumerate(rows), lambda pair: pair[0] in near):
        found = [row for _, row in group]
        line = "line" if len(found) == 1 else "lines"
        kept += found if is_near else [Row("gap", f"⋯ {len(found)} equal {line}")]
    return kept


def _counts(rows: Sequence[Row]) -> str:
    added, removed = (sum(row.kind == kind for row in rows) for kind in ("add", "del"))
    return f'<a class="plus">+{added}</a> <a class="minus">−{removed}</a>'


def _block(rows: Sequence[Row]) -> str:
    return f"<pre>{''.join(map(_line, rows))}</pre>"


def _line(row: Row) -> str:
    sign = {"add": "+ ", "del": "− ", "moved": "⇥ ", "gap": ""}.get(row.kind, "  ")
    return f'<span class="{row.kind}">{sign}{html.escape(row.text)}</span>'


def _page(content: str) -> str:
    return f'<div class="tirstep"><style>{STYLE}</style>{content}</div>'
