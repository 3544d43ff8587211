"""What is compiled ahead takes part as it is; what is not is compiled in its turn."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_machine import FakeMachine

from tirstep.bench import BenchError
from tirstep.bench.cases import PlannedCase
from tirstep.bench.compile_pool import CompileJob
from tirstep.bench.peers import PEERS
from tirstep.bench.session import compile_ahead, list_candidates
from tirstep.modules import matmul
from tirstep.transforms.recipes import RECIPES

NAMES = ("matmul_naive", "matmul_tiled", "matmul_shared")
PEERS_OF_WORK = (PEERS["torch"], PEERS["dlight"])
EVEN, ODD = matmul.problem(64, 64, 64), matmul.problem(7, 5, 3)


class Farm:
    """Compiles nothing; refuses shapes that are odd without a tail, and fails for one recipe."""

    def __init__(self) -> None:
        self.jobs: list[CompileJob] = []

    def __call__(self, jobs: Sequence[CompileJob], *rest: Any, **named: Any) -> list[str]:
        self.jobs += jobs
        return [self._compile(job) for job in jobs]

    def _compile(self, job: CompileJob) -> str:
        if job.recipe == "matmul_shared":
            return "failed: CompileError: ptxas"
        if job.recipe == "matmul_tiled" and job.shape["m"] == 7 and "tail" not in job.config:
            return "refused: split_loop: 7 is no multiple"
        Path(job.library).touch()
        return ""


@pytest.fixture
def farm(monkeypatch: pytest.MonkeyPatch) -> Farm:
    farm = Farm()
    monkeypatch.setattr("tirstep.bench.session.compile_all", farm)
    return farm


def make_work(problem: Any, suite: str = "matmul", names: Sequence[str] = NAMES) -> PlannedCase:
    return PlannedCase(suite, problem, tuple(RECIPES[name] for name in names), PEERS_OF_WORK)


def test_sizes_that_do_not_divide_give_way_to_tails(farm: Farm, machine: FakeMachine):
    cases = [make_work(EVEN), make_work(ODD), make_work(EVEN, "tutorial")]
    built = compile_ahead(cases, machine, lambda line: None)
    tails = [tail for tail in RECIPES["matmul_tiled"].tails if tail != "refuse"]
    assert [it.get("tail") for it in built[ODD, "matmul_tiled"].values()] == tails
    assert [*built[EVEN, "matmul_tiled"].values()] == [{}]
    # What failed takes part without a library, to be compiled again and say why.
    ((library, config),) = built[EVEN, "matmul_shared"].items()
    assert (library.exists(), config) == (False, {})
    # One problem in two suites is compiled once.
    assert len(farm.jobs) == 2 * len(NAMES) + len(tails)


def test_a_farm_that_does_not_start_leaves_all_to_their_turn(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
):
    def fail(*rest: Any, **named: Any) -> list[str]:
        raise BenchError("the process that compiles candidates does not start")

    monkeypatch.setattr("tirstep.bench.session.compile_all", fail)
    told: list[str] = []
    cases = [make_work(EVEN), make_work(ODD)]
    assert compile_ahead(cases, machine, told.append) == {}
    assert told == ["the process that compiles candidates does not start"]


@pytest.mark.usefixtures("farm")
def test_few_candidates_are_not_compiled_ahead(machine: FakeMachine):
    planned = make_work(EVEN, names=NAMES[:1])
    assert compile_ahead([planned], machine, lambda line: None) == {}


def test_candidates_load_what_is_built(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """A tail that failed ahead takes part all the same."""
    loaded: list[Path] = []
    monkeypatch.setattr(machine, "load", lambda library, arguments: loaded.append(library))
    there = tmp_path / "guard"
    there.touch()
    built = {(ODD, "matmul_tiled"): {there: {"tail": "guard"}, tmp_path / "pad": {"tail": "pad"}}}
    candidates = list(list_candidates(make_work(ODD, names=("matmul_tiled",)), built))
    names = ["matmul_tiled tail=guard", "matmul_tiled tail=pad", "torch", "dlight"]
    assert [outcome.candidate for outcome, _ in candidates] == names
    candidates[0][1](machine, ODD, [])
    assert loaded == [there]
