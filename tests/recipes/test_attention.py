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


@pytest.mark.share(4)
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


SMALL = {"warps": 2, "rows": 16, "keys": 32}
MMA = {"batch": 1, "heads": 2, "queries": 64, "keys": 96, "dim": 32}
WGMMA = {"batch": 1, "heads": 1, "queries": 128, "keys": 96, "dim": 32}
ONE = {"warpgroups": 1, "keys": 32}
SPLIT = {"batch": 2, "heads": 2, "keys": 32, "dim": 8}
RANGES = {"lanes": 2, "keys": 4, "groups": 2, "ranges": 2}
HALF = {"dtype": "float16", "out": "float16"}
WIDE = {"dtype": "float32", "out": "float32"}
REFUSED = [
    # A recipe, its shape, options, config, and what the sentence says.
    ("padded", {**TILED, "queries": 9}, {}, WHOLE, "loop 'i' runs 9 times"),
    ("padded", {**TILED, "keys": 13}, {}, WHOLE, "loop 'j' runs 13 times"),
    ("padded", {**TILED, "dim": 5}, {}, WHOLE, "dim=5 does not divide among 2 columns of threads"),
    ("padded", TILED, {}, {**WHOLE, "ends_at_mask": True}, "no condition under loop 'j_0' hides"),
    ("mma_exp2", {**MMA, "queries": 72}, {}, SMALL, "loop 'i' runs 72 times"),
    ("mma_exp2", {**MMA, "keys": 100}, {}, SMALL, "loop 'j' runs 100 times"),
    ("mma_exp2", {**MMA, "dim": 24}, {}, SMALL, "dim=24 is no multiple of a fragment's 16"),
    ("mma_exp2", MMA, {}, {**SMALL, "splits_at_mask": True}, "no condition under loop 'j_0' holds"),
    *(
        ("wgmma_overlap", {**WGMMA, **shape}, options, {**ONE, **config}, sentence)
        for shape, options, config, sentence in (
            ({"queries": 96}, HALF, {}, "loop 'i' runs 96 times"),
            ({"keys": 100}, HALF, {}, "loop 'j' runs 100 times"),
            ({"dim": 24}, HALF, {}, "dim=24 is no multiple of a fragment's 16"),
            ({}, WIDE, {}, "values of float32 are not of 16 bits"),
            ({}, HALF, {"keys": 24}, "a tile of 24 columns has no whole fragments"),
            ({"dim": 16}, HALF, {"keys": 16}, "copies a part of its tile only, under a predicate"),
            ({"dim": 256, "keys": 512}, HALF, {"keys": 128}, "of shared memory"),
            ({"keys": 64}, HALF, {"ends_at_mask": True}, "no condition under loop 'j_0' hides all"),
        )
    ),
    *(
        ("split", {**SPLIT, **shape}, {}, {**RANGES, **config}, sentence)
        for shape, config, sentence in (
            ({"keys": 34}, {}, "loop 'j' runs 17 times, which parts=2 does not divide"),
            ({"keys": 33}, {}, "loop 'j' runs 33 times, which parts=2 does not divide"),
            ({"keys": 24}, {}, "loop 'j' runs 6 times"),
            ({"dim": 12}, {}, "12"),
            ({}, {"ranges": 0}, "parts=0 is no number of ranges; use 2 or more"),
        )
    ),
]


@pytest.mark.share(4)
@pytest.mark.parametrize(("name", "shape", "options", "config", "sentence"), REFUSED)
def test_what_does_not_fit_is_refused(
    name: str, shape: dict, options: dict, config: dict, sentence: str
) -> None:
    recipe = RECIPES[f"decode_attention_{name}" if name == "split" else f"attention_{name}"]
    with pytest.raises(TransformError, match=sentence):
        run_recipe(recipe, shape, options=options, config=config)
