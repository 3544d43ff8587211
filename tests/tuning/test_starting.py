"""A tuning of the product starts from what is known to be fast."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from inline_workers import make_plan
from tvm.s_tir import Schedule
from tvm_ffi import structural_equal

from tirstep.bench.results import summarize
from tirstep.bench.search import Trials
from tirstep.modules import get_kernel
from tirstep.transforms.recipes import find_recipe
from tirstep.transforms.recipes.matmul_best import choose, make_forecast
from tirstep.transforms.recipes.time_model import GPUS
from tirstep.tuning.tuner import EXPECTED, Tuner

H100 = "NVIDIA H100 80GB HBM3"
PROBLEM = get_kernel("matmul").problem(1024, 256, 2048)
RECIPE = find_recipe("matmul_split_k")
SCHEDULE = Schedule(PROBLEM.module)


@pytest.mark.share(2)
@pytest.mark.parametrize("device", [H100, "a GPU of tomorrow"])
def test_the_config_of_matmul_best_comes_first(device: str) -> None:
    found = make_plan(RECIPE, PROBLEM, device=device).promising
    known = device if "NVIDIA" in device else "NVIDIA H200"
    configs = [{**RECIPE.config, **it} for it in found]
    assert configs[0] == vars(choose(SCHEDULE, "matmul_best", known).config)
    forecast = make_forecast(RECIPE, PROBLEM, GPUS[known])
    assert forecast is not None
    assert forecast.list_best(2)[1] in configs
    assert len(found) == len({tuple(each.values()) for each in found})
    assert len(found) == EXPECTED
    expected = [forecast.predict(config) for config in configs[-40:]]
    assert expected == sorted(expected)


def test_what_the_space_has_not_is_left_out() -> None:
    prefetched = find_recipe("matmul_prefetched")
    plan = make_plan(prefetched, PROBLEM, device=H100)  # known ones have slices of k
    assert len(plan.promising) == EXPECTED
    assert all(plan.find_config(each) == each for each in plan.promising)
    softmax = get_kernel("softmax").problem(64, 64)
    assert make_plan(find_recipe("softmax_vectors"), softmax, device=H100).promising == ()


@pytest.mark.share(6)
def test_four_trials_are_no_slower_than_the_chosen_config(tmp_path: Path) -> None:
    best = find_recipe("matmul_best").steps(PROBLEM.module, device=H100)[-1].module

    fast: list[bool] = []

    class Noted:
        """Which candidates are the program of `matmul_best`, which takes 50 us; all others take a
        millisecond.
        """

        def build(self, modules: Sequence[Any], target: Any) -> list[tuple[str, str]]:
            fast.extend(structural_equal(it["main"].body, best["main"].body) for it in modules)
            return [(str(len(fast) - len(modules) + place), "") for place in range(len(modules))]

        def run(self, path: str, kind: str) -> tuple[tuple[float, ...], str]:
            return (5e-5 if fast[int(path)] else 1e-3,), ""

    plan = make_plan(RECIPE, PROBLEM, target="nvidia/nvidia-h100", device=H100)
    found = Tuner(plan, Noted(), Trials(tmp_path, plan.describe()), print).run()
    assert found.config is not None
    assert {**RECIPE.config, **found.config} == vars(choose(SCHEDULE, "matmul_best", H100).config)
    assert (found.times, found.default) == ((5e-5,) * 3, summarize([1e-3] * 3))
