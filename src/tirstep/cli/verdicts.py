"""Verdicts and findings for people."""

from __future__ import annotations

from collections.abc import Sequence

from tirstep.lowering_checks import Finding, Verdict
from tirstep.lowering_checks.verdict import golden_word, numbers_word

from .judge import Judge
from .screen import WORD_STYLES, Part, Screen
from .selection import GOLDEN_DIR


def say_where(screen: Screen, judge: Judge) -> None:
    """The lines above verdicts: which device was taken, and whether there are goldens."""
    screen.line(("device  ", "dim"), judge.device.description)
    if judge.golden_dir is None:
        text = f"skipped: there is no {GOLDEN_DIR} below the current folder; give --golden-dir"
        screen.line(("golden  ", "dim"), text)
    else:
        screen.line(("golden  ", "dim"), judge.golden_dir)


def verdict_words(verdict: Verdict) -> list[Part]:
    """``golden ok   numbers ok on cpu 64x48x32``, and the time where there is one."""
    golden, numbers = golden_word([verdict]) or "none", numbers_word([verdict]) or "none"
    words: list[Part] = [
        ("golden ", "dim"),
        (f"{golden:<9}", WORD_STYLES[golden]),
        ("numbers ", "dim"),
        (numbers, WORD_STYLES[numbers]),
        (f" on {verdict.checked_on}", "dim"),
    ]
    if verdict.timing is not None:
        words += [("   time ", "dim"), f"{verdict.timing.median * 1e6:.1f} us"]
    return words


def show_findings(screen: Screen, findings: Sequence[Finding]) -> None:
    """Findings in full: the sentence, and the diff or whatever there is to look at."""
    for finding in findings:
        screen.line((f"{finding.place}: ", "bold red"), finding.message, wrap=True)
        if finding.detail:
            screen.diff(finding.detail.splitlines())
