"""Attention on tensor cores at other sizes, and what it refuses."""

import numpy as np
import pytest
from golden_runs import require_right
from one_key import plant_places

from tirstep.lowering_checks import get_device, run_recipe
from tirstep.lowering_checks.device import run
from tirstep.transforms.recipes import LADDERS, RECIPES

SHAPE = {"batch": 1, "heads": 2, "queries": 64, "keys": 96, "dim": 32}
SMALL = {"warps": 2, "rows": 16, "keys": 32}
TALL = {"rows": 32, "queries": "shared", "layout": "padded"}


DIAGONAL = {"heads": 1, "keys": 128}
"""Two tiles on the diagonal, of which the last one is behind the pipeline's loop."""


@pytest.mark.share(9)
@pytest.mark.parametrize(
    ("name", "options", "config"),
    [
        ("attention_mma_exp2", {"dtype": "float16", "out": "float32"}, {"queries": "shared"}),
        ("attention_mma_exp2", {"dtype": "bfloat16", "group": 2}, TALL),
        ("attention_mma_causal_parted", {"dtype": "float16", "out": "float16"}, TALL),
        ("attention_mma_causal_parted", {"dtype": "bfloat16", "window": 40}, {"keys": 16}),
        ("attention_mma_causal_ended", {"dtype": "bfloat16", "causal": True}, {"rows": 32}),
        ("attention_mma_causal_parted", {"dtype": "bfloat16", "causal": True}, {"rows": 32}),
    ],
    ids=str,
)
def test_types_masks_and_tiles(name: str, options: dict, config: dict) -> None:
    shape = {**SHAPE, **DIAGONAL} if options.get("causal") else SHAPE
    made = run_recipe(RECIPES[name], shape, options=options, config={**SMALL, **config})
    require_right(made)


@pytest.mark.share(9)
@pytest.mark.parametrize(
    "name",
    [it.name for ladder in ("attention_mma", "attention_mma_causal") for it in LADDERS[ladder]],
)
def test_one_key_takes_all_and_nothing_is_tolerated(name: str) -> None:
    """Whole numbers in, the same whole numbers out."""
    options = {"dtype": "bfloat16", "out": "bfloat16", "causal": "causal" in name}
    shape = {**SHAPE, "heads": 1}
    made = run_recipe(RECIPES[name], shape, options=options, config={"warps": 2, "keys": 32})
    inputs, right = plant_places(made.problem, 0)
    program = get_device("simulator").compile(made.steps[-1].module)
    (got,) = run(program, inputs, made.problem.outputs)
    np.testing.assert_array_equal(got.astype(np.float32), right)
