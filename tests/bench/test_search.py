"""The search: its candidates and its contest."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_machine import FakeMachine
from fake_pool import compile_here, search_here

from tirstep.bench import BenchError
from tirstep.bench.compile_pool import CompileJob
from tirstep.bench.results import Time
from tirstep.bench.search import (
    SearchPlan,
    SearchResult,
    classify,
)
from tirstep.bench.session import Settings, Tell
from tirstep.modules import get_kernel, matmul
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.recipes.matmul_best import make_forecast
from tirstep.transforms.recipes.time_model import H200

RECIPE = dataclasses.replace(
    RECIPES["matmul_tiled"], choices={"tile": (4, 8, 16, 32), "rows_per_thread": (1, 2, 4)}
)


def test_candidates_are_all_or_a_sample():
    recipe = RECIPES["matmul_shared_blocking"]
    plan = SearchPlan(recipe, PROBLEM)
    every, total = plan.list_configs(None, 0), plan.count_configs()
    assert len(every) == total == 4 * 4 * 3 * 3 * 3 * 3
    assert len({tuple(config.items()) for config in every}) == total
    # The recipe's own sizes come first.
    assert every[0] == {name: recipe.config[name] for name in recipe.choices}
    some = plan.list_configs(20, 1)
    assert some[0] == every[0]
    assert 20 <= len(some) <= 21
    assert all(config in every for config in some)
    assert some == plan.list_configs(20, 1)
    assert some != plan.list_configs(20, 2)
    vectors = SearchPlan(recipe, PROBLEM, {"tail": "guard", "vector": 2})
    fixed = vectors.list_configs(None, 0)
    assert len(fixed) == vectors.count_configs() == total // 3
    assert all(config["tail"] == "guard" and config["vector"] == 2 for config in fixed)
    among = {"vector": (1, 16), "tail": ("pad",)}
    plan = SearchPlan(recipe, PROBLEM, {"tail": "guard"}, among)
    assert len(few := plan.list_configs(None, 0)) == plan.count_configs()
    assert {config["vector"] for config in few} == {1, 16}


BLOCKING = dataclasses.replace(RECIPES["matmul_shared_blocking"], choices={"local_y": (2, 4)})
FIXED = {"local_x": 2, "block_y": 4, "block_x": 8, "tile_k": 4, "vector": 1}
PLAN = SearchPlan(BLOCKING, matmul.problem(32, 32, 16), FIXED)


def run_search(
    machine: FakeMachine, plan: SearchPlan = PLAN, tell: Tell = lambda line: None
) -> SearchResult:
    return search_here(plan, machine, Settings(rounds=3), tell)


@pytest.mark.usefixtures("no_farm")
def test_the_fastest_wins(machine: FakeMachine):
    # local_y is 8 (the recipe's own), 2, 4; then the peer is recorded.
    machine.seconds = [4e-3, 1e-3, 2e-3, 1.5e-3]
    found = run_search(machine)
    assert (found.config, found.tried) == ({"local_y": 2, **FIXED}, 3)
    assert found.best == Time(1000, 1000, 1000, 3)
    assert found.default == Time(4000, 4000, 4000, 3)
    assert found.ratio == pytest.approx(1.5)
    assert not found.skipped


@pytest.mark.usefixtures("no_farm")
def test_a_candidate_that_is_almost_right_cannot_win(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
):
    right = machine.compile
    made: list[int] = []

    def compile_wrongly(module: Any, arguments: Any) -> Any:
        launch, number = right(module, arguments), len(made)
        made.append(number)

        def almost() -> None:
            launch()
            if number == 1:
                arguments[-1][5, 7] *= 1 + 2**-20  # far below what random floats may be off

        return almost

    monkeypatch.setattr(machine, "compile", compile_wrongly)
    machine.seconds = [4e-3, 1e-3, 2e-3]
    found = run_search(machine)
    assert found.config == {"local_y": 4, **FIXED}
    assert found.skipped == {"wrong": 1}


@pytest.mark.usefixtures("no_farm")
def test_what_does_not_run_is_counted(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch):
    def fail(module: Any, arguments: Any) -> Any:
        raise RuntimeError("too many resources requested for launch")

    monkeypatch.setattr(machine, "compile", fail)
    found = run_search(machine)
    assert (found.best, found.config, found.ratio) == (None, None, None)
    kind, sentence = "does not run: RuntimeError", "too many resources requested for launch"
    assert (found.skipped, found.samples) == ({kind: 3}, {kind: f"RuntimeError: {sentence}"})

    machine.is_gone = True
    spoilt = (
        r"^matmul_\w+ with --set local_y=8 .* left the device unusable \(RuntimeError: too many "
        r"resources requested for launch\); leave it out, or find what is wrong with tirstep check"
    )
    with pytest.raises(BenchError, match=spoilt):
        run_search(machine)


def test_what_does_not_compile_is_counted(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch):
    reasons = ["", "refused: split_loop: loop 'i' runs 7 times", "took longer than 1 s to compile"]
    compile_here(monkeypatch, lambda job, left=[*reasons]: left.pop(0))
    found = run_search(machine)
    assert found.config == {"local_y": 8, **FIXED}
    assert found.skipped == {
        "refused by split_loop": 1,
        "took longer than 1 s to compile": 1,
    }
    assert classify("failed: RuntimeError: 99 bytes too much") == "failed: RuntimeError"


def test_what_another_process_compiled_is_loaded(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
):
    def compile_some(job: CompileJob) -> str:
        if job.config["local_y"] != 8:
            Path(job.library).write_text(str(job.config["local_y"]))
        return ""

    def load(library: Path, arguments: Any) -> Any:
        loaded.append(library.read_text())
        a, b, c = arguments
        return lambda: np.matmul(a, b, out=c)

    loaded: list[str] = []
    compile_here(monkeypatch, compile_some)
    monkeypatch.setattr(machine, "load", load)
    machine.seconds = [4e-3, 1e-3, 2e-3]
    found = run_search(machine)
    assert loaded == ["2", "4"]  # the recipe's own sizes left no file, and are compiled here
    assert found.config == {"local_y": 2, **FIXED}
    assert not found.skipped


def test_too_little_memory_is_told(machine: FakeMachine):
    machine.free = 10
    with pytest.raises(
        BenchError, match=r"GiB on the device, and 0\.0 are free; search at a small"
    ):
        run_search(machine)


# ---- With a model of time

PREFETCHED = RECIPES["matmul_prefetched"]
PROBLEM = matmul.problem(256, 256, 64)
FORECAST = make_forecast(PREFETCHED, PROBLEM, H200)
EVERY = SearchPlan(PREFETCHED, PROBLEM).list_configs(None, 0)
FEW = {"thread_tile": (4, 4), "tile_k": 8, "warp": (4, 8), "interleave": 1, "stages": 2}


def plan_with_a_model(**changes: Any) -> SearchPlan:
    fixed = {**FEW, "swizzle": 1}
    return SearchPlan(PREFETCHED, PROBLEM, fixed, forecast=FORECAST, **changes)


def test_the_most_promising_come_first_and_a_limit_leaves_the_others_out():
    assert FORECAST is not None
    plan = SearchPlan(PREFETCHED, PROBLEM, forecast=FORECAST)
    every = plan.list_candidates(3)
    assert every[0] == EVERY[0]
    assert {repr(it) for it in EVERY} <= {repr(it) for it in every}
    expected = sorted(map(FORECAST.predict, every[1:]))
    assert [*map(FORECAST.predict, every[1:])] == expected
    some = dataclasses.replace(plan, limit=41).list_candidates(3)
    assert some[:31] == every[:31]
    assert len({tuple(config.items()) for config in some}) == 41
    assert max(map(FORECAST.predict, some[31:])) > expected[60]  # the drawn ones


@pytest.mark.usefixtures("no_farm")
def test_the_model_s_own_configs_are_candidates_and_it_says_what_it_expected(
    machine: FakeMachine,
):
    plan = plan_with_a_model(among={"threads": ((8, 8), (16, 16))})
    found = run_search(machine, plan)
    assert FORECAST is not None
    assert found.tried == 2
    assert found.expected_us == FORECAST.predict(found.config or {})
    tile = FORECAST.list_best(1)[0]["threads"]
    own = SearchPlan(PREFETCHED, PROBLEM, {"threads": tile}, forecast=FORECAST).list_candidates(0)
    assert any(it not in EVERY and it["threads"] == tile for it in own[1:])


def test_of_convolutions_there_is_no_model():
    problem = RECIPES["conv2d_wgmma"]
    small = get_kernel("conv2d").problem(**problem.golden.shape, **problem.golden.options)
    assert make_forecast(problem, small, H200) is None
    assert make_forecast(RECIPE, PROBLEM, H200) is None
