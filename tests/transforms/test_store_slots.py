"""Tiles that go to the tensor slab by slab: numbers, bugs that die, and the memory they take."""

import pytest

from tirstep.lowering_checks import check_numbers, get_device, run_recipe
from tirstep.lowering_checks.devices.simulator import lower
from tirstep.lowering_checks.facts import get_facts
from tirstep.lowering_checks.steps import Run
from tirstep.transforms.recipes import RECIPES

SIMULATOR = get_device("simulator")
STAYS, BATCHES = RECIPES["matmul_wgmma_persistent"], RECIPES["batched_matmul_wgmma"]
HALF = {"dtype": "bfloat16", "out": "bfloat16"}
WIDE = {"tile": (64, 256), "store": "tma", "persistent": 1, "stages": 5}
"""Stages beside which there is no room for a tile of 32 KiB, but for two of its slabs."""


def make_run(shape: tuple[int, ...], options: dict, config: dict, recipe=STAYS) -> Run:
    sizes = dict(zip(recipe.golden.shape, shape, strict=True))
    return run_recipe(
        recipe, sizes, options=options, config={**recipe.golden.config, **WIDE, **config}
    )


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("recipe", "shape", "options", "config"),
    [
        (STAYS, (64, 512, 128), HALF, {}),
        (STAYS, (60, 264, 128), HALF, {"tail": "pad"}),
        (STAYS, (64, 256, 128), {"dtype": "float16"}, {}),
        (BATCHES, (1, 64, 512, 128), HALF, {"persistent": 2}),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_every_slab_arrives(recipe, shape, options: dict, config: dict) -> None:
    run = make_run(shape, options, config, recipe)
    last = run.steps[-1].module
    assert check_numbers(run.problem, last, SIMULATOR, where=str(config)) == []
    assert lower(last).script().count('"wait_group", "read"') > 1


@pytest.fixture(scope="module")
def run() -> Run:
    return make_run((64, 512, 128), HALF, {})


def test_slots_take_the_memory_of_two_slabs(run: Run) -> None:
    (kernel,) = get_facts(run.steps[-1].module, "cuda", problem=run.problem).kernels
    stages, slots, mbarriers = 5 * (64 + 256) * 64 * 2, 2 * 64 * 128, 1024
    assert kernel.dynamic_shared_bytes == stages + slots + mbarriers
