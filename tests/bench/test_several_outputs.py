"""Programs of several outputs are timed, each held against its reference; what cannot be is refused
before anything is.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_machine import FakeMachine
from fake_pool import search_here
from foreign_modules import MODULES
from own_files import ARGMAX

from tirstep.bench import BenchError
from tirstep.bench.cases import CaseChoice, PlannedCase, plan_cases
from tirstep.bench.peers import Peer
from tirstep.bench.search import SearchPlan
from tirstep.bench.session import Settings, require_timeable, run_case
from tirstep.lowering_checks.reference import ModuleKernel
from tirstep.modules import KernelError
from tirstep.programs.benching import plan_program

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of the user's, whose files import `foreign_modules`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(SUPPORT)])


@pytest.fixture
def planned() -> PlannedCase:
    """A user's recipe of the kernel with two outputs, and its peers."""
    Path("argmax.py").write_text(ARGMAX)
    (case,), _ = plan_program("argmax.py")
    return case


def find_largest(a: Any) -> tuple[Any, Any]:
    return a.max(axis=1), a.argmax(axis=1)


@pytest.mark.parametrize(
    ("peer", "status", "note"),
    [
        (find_largest, "ok", ""),
        (lambda a: (a.max(axis=1), a.argmin(axis=1)), "wrong", "index["),
        (lambda a: (a.min(axis=1), a.argmax(axis=1)), "wrong", "value[0] is "),
        (
            lambda a: a.max(axis=1),
            "wrong",
            "it returns 1 results, and the outputs are value, index; return them all",
        ),
    ],
)
def test_each_output_is_checked(
    planned: PlannedCase, machine: FakeMachine, peer: Callable[..., Any], status: str, note: str
) -> None:
    assert [each.name for each in planned.peers] == ["torch", "dlight"]
    machine.peers = {"torch": peer, "dlight": find_largest}
    outcomes = run_case(planned, machine, Settings(2), lambda line: None).outcomes
    assert [each.candidate for each in outcomes] == ["argmax_rows", *machine.peers]
    recipe, torch, *others = outcomes
    assert (torch.status, torch.note[: len(note)]) == (status, note)
    assert {each.status for each in (recipe, *others)} == {"ok"}


def test_a_recipe_that_forgets_an_output_is_wrong(
    planned: PlannedCase, machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = machine.compile

    def forget(module: Any, arguments: Any) -> Any:
        values = np.zeros_like(arguments[1])
        return right(module, [arguments[0], values, arguments[2]])

    monkeypatch.setattr(machine, "compile", forget)
    outcome, *_ = run_case(planned, machine, Settings(2), lambda line: None).outcomes
    assert (outcome.status, outcome.note[:12]) == ("wrong", "value[0] is ")


def test_outputs_stand_anywhere(machine: FakeMachine) -> None:
    Path("own.py").write_text("import foreign_modules\n\nOwn = foreign_modules.Argmax\n")
    (planned,), _ = plan_program("own.py")
    assert [tensor.name for tensor in planned.problem.outputs] == ["index", "value"]
    own = Peer("own", "own", functions=lambda a, out, p: lambda: find_largest(*a)[::-1])
    planned = dataclasses.replace(planned, peers=(own,))
    plain, peer = run_case(planned, machine, Settings(2), lambda line: None).outcomes
    assert (peer.status, peer.note) == ("ok", "")
    assert plain.status == "missing"
    assert plain.note == "no schedule binds best to a GPU; give a function of a schedule"


def test_what_changes_its_input_is_refused_and_left_out() -> None:
    sentence = "it cannot be timed: it reads and writes Y, which each run would change; check it"
    text = """import tvm
from tvm.script import ir as I, tirx as T

import foreign_modules

@T.prim_func(s_tir=True)
def Mine(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("Y"):
            vi = T.axis.spatial(8, i)
            Y[vi] = Y[vi] + X[vi]
"""
    Path("in_place.py").write_text(text)
    with pytest.raises(KernelError, match=f"Mine: {sentence}"):
        plan_program("in_place.py")
    Path("both.py").write_text(text + '\n\nOther = foreign_modules.MODULES["MatmulRelu"]\n')
    (case,), left_out = plan_program("both.py")
    assert (case.problem.kernel.name, len(left_out)) == ("Other", 1)
    assert left_out[0].startswith(f"Mine: {sentence}")
    require_timeable(ModuleKernel(MODULES["Int8Conv"], "Int8Conv").problem())


@pytest.mark.usefixtures("no_farm")
def test_a_search_holds_each_output(
    planned: PlannedCase, machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.peers = {"torch": find_largest}
    plan = SearchPlan(planned.recipes[0], planned.problem)
    found = search_here(plan, machine, Settings(2))
    assert (found.config, found.tried, found.peer is not None) == ({"threads": 2}, 2, True)
    assert not found.skipped
    write_first = machine.compile

    def forget(module: Any, arguments: Any) -> Any:
        return write_first(module, [*arguments[:2], np.zeros_like(arguments[2])])

    monkeypatch.setattr(machine, "compile", forget)
    found = search_here(plan, machine, Settings(2))
    assert (found.best, dict(found.skipped)) == (None, {"wrong": 2})


def test_a_kernel_without_a_recipe_is_named_in_a_file() -> None:
    with pytest.raises(BenchError, match="row_argmax has no recipe to time; give a file"):
        plan_cases(CaseChoice(["row_argmax"]))
    (case,), _ = plan_program("tirstep.modules:row_argmax", [(6, 40)])
    assert [peer.name for peer in case.peers] == ["torch", "dlight"]
