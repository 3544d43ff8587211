"""Attention and its decode form at chosen shapes, on the simulator and on a GPU."""

import numpy as np
import pytest
from golden_runs import DEVICES, require_right, run_golden
from one_key import plant_places

from tirstep.lowering_checks import get_device, run_recipe
from tirstep.lowering_checks.device import run
from tirstep.transforms import TransformError
from tirstep.transforms.recipes import RECIPES

FUSED = ("attention_fused", "attention_staged", "attention_padded", "attention_causal_ended")
TILED = {"batch": 1, "heads": 4, "queries": 8, "keys": 12, "dim": 6}
WHOLE = {"threads": (2, 2), "thread_tile": (2, 2)}


@DEVICES
@pytest.mark.parametrize(
    ("name", "options", "config"),
    [
        ("attention_padded", {"causal": True, "window": 3, "scale": 2.0}, WHOLE),
        ("attention_padded", {"dtype": "float16", "out": "float16"}, WHOLE),
        ("attention_causal_ended", {"causal": True, "group": 4, "dtype": "bfloat16"}, WHOLE),
        ("attention_staged", {"group": 2, "causal": True}, {"threads": 4, "keys": 4}),
        ("attention_inlined", {"group": 2, "causal": True, "window": 5}, {"tail": "guard"}),
        ("attention_registers", {}, {"threads": (2, 3), "thread_tile": (4, 1)}),
    ],
    ids=str,
)
def test_options_types_and_tiles(name: str, options: dict, config: dict, device: str) -> None:
    require_right(run_recipe(RECIPES[name], TILED, options=options, config=config), device)


@DEVICES
@pytest.mark.parametrize("name", FUSED[:2])
def test_no_size_divides(name: str, device: str) -> None:
    shape = {"batch": 1, "heads": 2, "queries": 7, "keys": 11, "dim": 5}
    config = {"threads": 4, "keys": 4, "tail": "guard"}
    require_right(run_recipe(RECIPES[name], shape, config=config), device)


@DEVICES
def test_lengths_of_sequences(device: str) -> None:
    shape = {"batch": 7, "heads": 4, "keys": 37, "dim": 5}
    config = {"threads": (2, 4), "tail": "guard"}
    require_right(
        run_recipe(RECIPES["decode_attention_warps"], shape, options={"group": 2}, config=config),
        device,
    )


@DEVICES
@pytest.mark.parametrize("name", FUSED)
def test_one_key_takes_all_and_nothing_is_tolerated(name: str, device: str) -> None:
    """Whole numbers in, the same whole numbers out, wherever in the tiles a key stands."""
    made = run_golden(RECIPES[name])
    program = get_device(device).compile(made.steps[-1].module)
    for seed in range(3):
        inputs, right = plant_places(made.problem, seed)
        (got,) = run(program, inputs, made.problem.outputs)
        np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize(
    ("shape", "config", "sentence"),
    [
        ({**TILED, "queries": 9}, WHOLE, "loop 'i' runs 9 times"),
        ({**TILED, "keys": 13}, WHOLE, "loop 'j' runs 13 times"),
        ({**TILED, "dim": 5}, WHOLE, "dim=5 does not divide among 2 columns of threads"),
        (TILED, {**WHOLE, "ends_at_mask": True}, "no condition under loop 'j_0' hides"),
    ],
)
def test_tiles_that_do_not_divide_are_refused(shape: dict, config: dict, sentence: str) -> None:
    with pytest.raises(TransformError, match=sentence):
        run_recipe(RECIPES["attention_padded"], shape, config=config)
