"""Every pass of TVM's pipeline can be named: something can stand before and behind it, and it can
be left out.
"""

import pytest
import tvm
from golden_runs import run_golden

from tirstep.experiments import (
    Edit,
    Experiment,
    Subject,
    list_passes,
    list_steps,
    trying,
)
from tirstep.experiments.editing import DEFAULT
from tirstep.experiments.trying import try_change
from tirstep.lowering_checks.compile.passes import Lowering, lower_through_passes
from tirstep.transforms.recipes import RECIPES

CRASHES = "s_tir.LowerOpaqueBlock"
"""Without it, a later pass of TVM ends the process (test_guarding.py)."""


@tvm.transform.module_pass(opt_level=0, name="my.Nothing")
def nothing(module: tvm.IRModule, _context: object) -> tvm.IRModule:
    return module


@pytest.fixture(scope="module")
def subject() -> Subject:
    return list(list_steps(run_golden(RECIPES["relu_bound"]), 0))[-1]


@pytest.fixture(autouse=True)
def lowered_once_without_a_change(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    without = lower_through_passes(subject.module, subject.target, pipeline=DEFAULT, is_run=False)

    def lower(module: tvm.IRModule, target: str, *, pipeline: str, is_run: bool) -> Lowering:
        assert not is_run
        if pipeline == DEFAULT:
            assert (module, target) == (subject.module, subject.target)
            return without
        return lower_through_passes(module, target, pipeline=pipeline, is_run=False)

    monkeypatch.setattr(trying, "lower_through_passes", lower)


def judge(subject: Subject, place: str, anchor: str) -> str:
    edit = Edit(place, anchor, None if place == "drop" else nothing)
    experiment = Experiment("nothing", edit)
    return try_change(experiment, subject).status


@pytest.mark.share(2)
def test_a_pass_that_does_nothing_changes_nothing_at_any_place(subject: Subject):
    names = dict.fromkeys(list_passes())
    assert len(names) > 40
    told = {
        (place, name): judge(subject, place, name)
        for place in ("before", "after")
        for name in names
    }
    assert {place for place, status in told.items() if status != "unchanged"} == set()


def test_a_pass_is_dropped_as_one_that_does_nothing_takes_its_place(subject: Subject):
    names = [name for name in dict.fromkeys(list_passes()) if name != CRASHES]
    dropped = {name: judge(subject, "drop", name) for name in names}
    needed = {name: status for name, status in dropped.items() if status != "unchanged"}
    assert needed == {name: judge(subject, "replace", name) for name in needed}
    assert dropped["tirx.SplitHostDevice"] == dropped["s_tir.ConvertBlocksToOpaque"] == "refused"
    assert dropped["tirx.RemoveNoOp"] == "unchanged"
