"""Planted bugs are killed by the checks that must kill them, and their originals by none."""

from __future__ import annotations

from collections import Counter

import pytest
import tvm_ffi
from planted import LOWERED, Bug, judge, parse, read_bugs, read_original

BUGS = read_bugs()
FOR_GPUS = ("matmul_by_one_warp", "matmul_mma_short_sum")


@pytest.mark.share(2)
@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.killers], ids=lambda bug: bug.name)
def test_a_bug_is_killed_by_what_must_kill_it(bug: Bug) -> None:
    said = judge(bug.original, bug.plant())
    silent = sorted(check for check in bug.killers if not said.get(check))
    assert not silent, f"{', '.join(silent)} said nothing; others said {said}"


@pytest.mark.parametrize("bug", [it for it in BUGS if not it.killers], ids=lambda bug: bug.name)
def test_what_alters_no_result_is_killed_by_nothing(bug: Bug) -> None:
    said = judge(bug.original, bug.plant())
    assert not any(said.values()), f"a check has become better, or the argument is wrong: {said}"


@pytest.mark.share(2)
@pytest.mark.parametrize("name", sorted({bug.original for bug in BUGS}))
def test_an_original_is_killed_by_nothing(name: str) -> None:
    said = judge(name, read_original(name).text)
    if name in FOR_GPUS:
        said = {check: text for check, text in said.items() if not check.startswith("cpu")}
    assert not any(said.values()), said


def test_each_bug_is_one() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    assert Counter(bug.original.endswith(LOWERED) for bug in BUGS) == {False: 85, True: 92}
    equivalent = [bug for bug in BUGS if not bug.killers]
    assert len(equivalent) == 10
    for bug in equivalent:  # of the others each is killed, and its original by nothing
        original = read_original(bug.original).module
        assert not tvm_ffi.structural_equal(parse(bug.plant()), original), bug.name
