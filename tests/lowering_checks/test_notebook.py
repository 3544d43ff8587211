"""Diffs in notebooks: what they show, and that nothing in them is markup of its own."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from golden_runs import run_golden
from hypothesis import given
from hypothesis import strategies as st

from tirstep.lowering_checks import Finding, diff_steps, judge_run
from tirstep.lowering_checks.devices import SimulatorDevice
from tirstep.lowering_checks.facts import get_facts
from tirstep.lowering_checks.judgement import Status
from tirstep.lowering_checks.notebook import diff_rows, render_diff
from tirstep.lowering_checks.steps import diff_texts
from tirstep.transforms.recipes import RECIPES

RUN = run_golden(RECIPES["window_sum_shared"])


class Reader(HTMLParser):
    """Collects tags, and the text of the rows by their class; every tag must be closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.rows: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.open.append(tag)
        if tag == "span":
            self.rows.append((dict(attrs)["class"], ""))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "span" in self.open:
            kind, text = self.rows[-1]
            self.rows[-1] = kind, text + data


def kinds(before: str, after: str, context: int = 9) -> list[str]:
    rows = diff_rows(before.split("/"), after.split("/"), context)
    return [f"{row.kind} {row.text}" for row in rows]


def test_rows_leave_indentation_alone():
    assert kinds("for i/  body", "for i/  for j/    body") == [
        "same for i",
        "add   for j",
        "moved     body",
    ]


def test_gaps_say_what_they_stand_for():
    assert kinds("a/b/c/d/e", "a/b/c/d/x", context=1) == [
        "gap ⋯ 3 equal lines",
        "same d",
        "del e",
        "add x",
    ]
    assert kinds("a/b", "a/b") == ["gap ⋯ 2 equal lines"]


LINES = st.lists(st.sampled_from(["a", "  a", "b", "end", "", "c"]), max_size=12)


@given(LINES, LINES)
def test_rows_make_both_texts_but_for_indentation(before: list[str], after: list[str]):
    rows = diff_rows([*before, "old"], [*after, "new"], context=99)
    assert [row.text for row in rows if row.kind != "del"] == [*after, "new"]
    had = [row.text.strip() for row in rows if row.kind != "add"]
    assert had == [line.strip() for line in (*before, "old")]


def test_a_run_shows_every_step_with_its_diff():
    read = Reader(RUN._repr_html_())
    assert read.tags <= {"div", "style", "details", "summary", "b", "i", "a", "pre", "span"}
    page = RUN._repr_html_()
    for step in RUN.steps:
        assert f"<b>{step.index:02d}_{step.name}</b>" in page
        assert step.location in page
    added = [text for kind, text in read.rows if kind == "add"]
    assert any("A_shared = T.sblock_alloc_buffer" in text for text in added)
    assert page.count("<details open>") == 1


def test_a_diff_shows_its_lines_in_order():
    diff = diff_steps(RUN.steps[0], RUN.steps[1])
    signs = {"add": "+", "del": "-", "same": " ", "gap": ""}
    shown = [
        signs[kind] + text[2 if kind != "gap" else 0 :]
        for kind, text in Reader(diff._repr_html_()).rows
    ]
    assert shown == list(diff.lines[2:])


@pytest.mark.parametrize(
    "hostile", ["</pre><script>taken()</script>", "<img src=x onerror=taken()>", "&lt;b&gt;"]
)
def test_texts_are_escaped(hostile: str):
    read = Reader(render_diff(diff_texts("a\n", f"{hostile}\n", names=(hostile, "b"))))
    assert ("add", f"+ {hostile}") in read.rows
    assert "script" not in read.tags
    assert "img" not in read.tags


def test_nothing_is_fetched_and_nothing_runs():
    page = RUN._repr_html_()
    assert not re.search(r"https?:|url\(|@import|src=|<script|\bon\w+=", page)


def test_a_step_shows_its_tir():
    page = RUN.steps[-1]._repr_html_()
    assert "T.sblock" in page
    assert Reader(page).tags == {"b", "i", "pre"}


def test_a_verdict_shows_its_word_and_findings():
    right, *_ = judge_run(RUN, SimulatorDevice())
    assert ">right<" in right._repr_html_()
    finding = Finding("simulator", "here", "race: A < B & C")
    wrong = replace(right, status=Status.WRONG, numbers=(finding,), reason="a <reason>")
    reader = Reader(wrong._repr_html_())
    assert reader.rows == [("del", "− here: race: A < B & C")]
    assert "reason" not in reader.tags


def test_facts_show_each_row():
    facts = get_facts(RUN.steps[-1].module, "cuda", problem=RUN.problem)
    page = facts._repr_html_()
    Reader(page)
    assert all(f"<td>{fact.name}" in page for fact in facts.rows())
    assert "<td>shared memory, bytes</td>" in page
    refused = replace(facts, kernels=(), refusal="it has <no> kernel")
    assert "it has &lt;no&gt; kernel" in refused._repr_html_()
