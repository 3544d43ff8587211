"""Attention and its decode form at chosen shapes, on the simulator and on a GPU."""

import re

import numpy as np
import pytest
from golden_runs import DEVICES, require_right, run_golden
from one_key import plant_places
from tvm.script import from_source

from tirstep.lowering_checks import check_numbers, get_device, run_recipe
from tirstep.lowering_checks.device import run
from tirstep.lowering_checks.numeric import check_program
from tirstep.transforms import TransformError
from tirstep.transforms.recipes import LADDERS, RECIPES

FUSED = ["attention_fused", "attention_staged", "attention_padded", "attention_causal_ended"]
FUSED += [it.name for name in ("attention_mma", "attention_mma_causal") for it in LADDERS[name]]
TILED = {"batch": 1, "heads": 4, "queries": 8, "keys": 12, "dim": 6}
WHOLE = {"threads": (2, 2), "thread_tile": (2, 2)}
HALF = {"dtype": "float16", "out": "float16"}
BRAIN = {"dtype": "bfloat16", "out": "bfloat16", "group": 2}
CAUSAL = {**HALF, "causal": True}
FUSED_POWERS = {**HALF, "fused_exponents": True}
SMALL = {"warps": 2, "rows": 16, "keys": 32}
ONE = {"warpgroups": 1, "keys": 32}
TWO = {"warpgroups": 2, "keys": 32}
GUARDED = {"threads": 4, "keys": 4, "tail": "guard"}
LINES = {"threads": (2, 2), "thread_tile": (2, 2), "tile_k": 2, "tail": "guard"}
STAYS = {**ONE, "persistent": 2, "powers": "two"}
MINIMUM = {"mask": "hqk", "mask_op": "minimum", "mask_dtype": "float32"}


@pytest.mark.share(9)
@DEVICES
@pytest.mark.parametrize(
    ("name", "sizes", "options", "config"),
    [
        # Heads, queries, keys and elements of a head; fewer than 8 queries are cropped.
        ("padded", (4, 8, 12, 6), {"causal": True, "window": 3, "scale": 2.0}, WHOLE),
        ("causal_ended", (4, 8, 12, 6), {**BRAIN, "causal": True}, WHOLE),
        ("staged", (4, 8, 12, 6), {"group": 2, "causal": True}, {"threads": 4, "keys": 4}),
        ("inlined", (4, 8, 12, 6), {"group": 2, "causal": True, "window": 5}, {"tail": "guard"}),
        ("registers", (4, 8, 12, 6), {}, {"threads": (2, 3), "thread_tile": (4, 1)}),
        ("fused", (2, 7, 11, 5), {}, GUARDED),
        ("staged", (2, 7, 11, 5), {}, GUARDED),
        ("padded", (4, 9, 13, 5), {"group": 2}, WHOLE),
        ("padded", (1, 1, 7, 3), {"window": 3, "causal": True}, WHOLE),
        ("padded", (2, 3, 1, 6), HALF, WHOLE),
        ("causal_ended", (4, 9, 13, 5), {"causal": True, "group": 4, "window": 5}, WHOLE),
        ("causal_ended", (1, 7, 7, 6), {"causal": True}, WHOLE),
        ("mma_exp2", (2, 77, 45, 40), BRAIN, {**SMALL, "rows": 32, "layout": "padded"}),
        ("mma_exp2", (1, 1, 33, 72), HALF, SMALL),
        ("mma_causal_parted", (2, 40, 77, 40), {**CAUSAL, "window": 30}, {**SMALL, "keys": 16}),
        # Two tiles on the diagonal, of which the last one is behind the pipeline's loop.
        ("mma_causal_parted", (1, 64, 128, 32), CAUSAL, {**SMALL, "rows": 32}),
        ("mma_causal_ended", (1, 64, 128, 32), CAUSAL, {**SMALL, "rows": 32}),
        ("mma_causal_parted", (1, 9, 9, 24), CAUSAL, SMALL),
        ("wgmma_async", (1, 7, 50, 72), HALF, ONE),
        ("wgmma_tma", (2, 70, 77, 40), BRAIN, ONE),
        ("wgmma_roles", (1, 3, 45, 72), HALF, ONE),
        ("wgmma_overlap", (1, 129, 100, 24), HALF, TWO),
        ("wgmma_overlap", (1, 1, 1, 8), HALF, ONE),
        ("wgmma_overlap", (1, 128, 96, 16), HALF, {"warpgroups": 1, "keys": 16}),
        ("wgmma_causal_parted", (2, 70, 101, 40), {**CAUSAL, "window": 40}, ONE),
        ("wgmma_causal_parted", (1, 7, 77, 40), CAUSAL, ONE),
        ("wgmma_persistent", (3, 70, 50, 40), FUSED_POWERS, {**ONE, "persistent": 2}),
        ("wgmma_best", (2, 150, 250, 72), {**CAUSAL, "group": 2}, {}),
        ("wgmma_best", (2, 9, 1, 72), FUSED_POWERS, {}),
        ("wgmma_best", (1, 1, 131, 104), CAUSAL, {}),
        # Under a mask that is data, of some axes, in its own type.
        ("rows", (4, 8, 12, 6), {**BRAIN, "mask": "bhqk", "mask_op": "minimum"}, LINES),
        ("staged", (2, 7, 11, 5), {"mask": "k", "mask_dtype": "float16"}, GUARDED),
        ("padded", (4, 9, 13, 5), {**BRAIN, "mask": "qk"}, WHOLE),
        ("causal_ended", (4, 9, 13, 5), {"causal": True, "mask": "hk"}, WHOLE),
        ("mma_exp2", (2, 77, 45, 40), {**BRAIN, "mask": "hqk"}, {**SMALL, "rows": 32}),
        ("mma_causal_parted", (2, 40, 77, 40), {**CAUSAL, "mask": "k"}, {**SMALL, "keys": 16}),
        ("wgmma_async", (1, 7, 50, 72), {**HALF, **MINIMUM}, ONE),
        ("wgmma_roles", (2, 70, 77, 40), {**BRAIN, "mask": "qk"}, ONE),
        ("wgmma_overlap", (2, 129, 100, 24), {**HALF, "mask": "hqk"}, TWO),
        ("wgmma_overlap", (2, 64, 96, 16), {**HALF, **MINIMUM}, {**ONE, "keys": 16}),
        ("wgmma_persistent", (3, 70, 50, 40), {**FUSED_POWERS, **MINIMUM}, STAYS),
        ("wgmma_best", (2, 150, 250, 72), {**FUSED_POWERS, "mask": "qk", "group": 2}, {}),
        ("wgmma_best", (2, 9, 131, 40), {**CAUSAL, "mask": "bhk"}, {}),
    ],
    ids=str,
)
def test_options_types_and_sizes(
    name: str, sizes: tuple, options: dict, config: dict, device: str
) -> None:
    """And where each query finds one key, whole numbers come out as they went in."""
    shape = dict(zip(("heads", "queries", "keys", "dim"), sizes, strict=True))
    recipe = RECIPES[f"attention_{name}"]
    made = run_recipe(recipe, {"batch": 1, **shape}, options=options, config=config)
    program = get_device(device).compile(made.steps[-1].module)
    assert check_program(made.problem, program, device, where=str(made.config)) == []
    if "window" not in options:
        inputs, right = plant_places(made.problem, 0)
        (got,) = run(program, inputs, made.problem.outputs)
        np.testing.assert_array_equal(got.astype(np.float32), right)


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("name", "config"), [("padded", WHOLE), ("mma_exp2", SMALL), ("wgmma_overlap", ONE)]
)
@pytest.mark.parametrize(
    ("lines", "old", "new"),
    [
        pytest.param(r"T\.max\(.*", "< 45", "< 64", id="the maximum of the padding"),
        pytest.param(r"T\.exp2?\(.*", "< 45", "< 64", id="the exponentials of the padding"),
        pytest.param(r"T\.(max|exp2?)\(.*", "< 45", "<= 45", id="a key too many"),
        pytest.param(r"T\.(max|exp2?)\(.*", "< 45", "< 44", id="a key too few"),
        pytest.param(r"T\.where\(.*", "< 280", "< 320", id="a row too many is cropped"),
        pytest.param(r"T\.where\(.*", "< 280", "< 240", id="a row too few is cropped"),
    ],
)
def test_what_counts_beyond_the_end_is_found(
    name: str, config: dict, lines: str, old: str, new: str
) -> None:
    shape = {"batch": 1, "heads": 1, "queries": 7, "keys": 45, "dim": 40}
    made = run_recipe(RECIPES[f"attention_{name}"], shape, options=HALF, config=config)
    text = made.steps[-1].module.script()
    planted = re.sub(rf".*{lines}", lambda line: line[0].replace(old, new), text)
    assert planted != text
    assert check_numbers(made.problem, from_source(planted), get_device("simulator"), where=new)


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("name", "config"), [("padded", WHOLE), ("mma_exp2", SMALL), ("wgmma_overlap", ONE)]
)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(r"(vj[^,]*)\]", r"(\1 + 1) % 45]", id="a key late"),
        pytest.param(r" vh, ", " 0, ", id="of the first head"),
        pytest.param(r" vi, ", " 0, ", id="of the first query"),
        pytest.param(r"(?<= )(vj[^,]*) < 45,", r"\1 < 32,", id="not in the last tile"),
    ],
)
def test_a_mask_that_is_read_wrong_is_found(name: str, config: dict, old: str, new: str) -> None:
    shape = {"batch": 1, "heads": 2, "queries": 7, "keys": 45, "dim": 40}
    options = {**HALF, "mask": "hqk"}
    made = run_recipe(RECIPES[f"attention_{name}"], shape, options=options, config=config)
    text = made.steps[-1].module.script()
    load = r"(vi < 7 and [^,]*, )?A\[[^]]*\](?=, T\.float16)"
    planted = re.sub(load, lambda found: re.sub(old, new, found[0]), text)
    assert planted != text
    assert check_numbers(made.problem, from_source(planted), get_device("simulator"), where=new)


@DEVICES
def test_lengths_of_sequences(device: str) -> None:
    shape = {"batch": 7, "heads": 4, "keys": 37, "dim": 5}
    config = {"threads": (2, 4), "tail": "guard"}
    require_right(
        run_recipe(RECIPES["decode_attention_warps"], shape, options={"group": 2}, config=config),
        device,
    )


@pytest.mark.gpu
@pytest.mark.parametrize("mask_dtype", ["float16", "float32"])
@pytest.mark.parametrize("sizes", [(1, 32, 512, 1024, 128), (2, 8, 777, 1001, 64)])
def test_a_mask_at_a_model_s_sizes(sizes: tuple, mask_dtype: str) -> None:
    shape = dict(zip(("batch", "heads", "queries", "keys", "dim"), sizes, strict=True))
    options = {**HALF, "group": 4, "mask": "qk", "mask_dtype": mask_dtype}
    made = run_recipe(RECIPES["attention_wgmma_best"], shape, options=options)
    program = get_device("cuda").compile(made.steps[-1].module)
    assert check_program(made.problem, program, "cuda", where=str(sizes)) == []


@pytest.mark.share(3)
@DEVICES
@pytest.mark.parametrize("name", FUSED)
def test_one_key_takes_all_and_nothing_is_tolerated(name: str, device: str) -> None:
    """Whole numbers in, the same whole numbers out, wherever in the tiles a key stands."""
    made = run_golden(RECIPES[name])
    program = get_device(device).compile(made.steps[-1].module)
    for seed in range(3):
        inputs, right = plant_places(made.problem, seed)
        (got,) = run(program, inputs, made.problem.outputs)
        np.testing.assert_array_equal(got.astype(np.float32), right)


MMA = {"batch": 1, "heads": 2, "queries": 64, "keys": 96, "dim": 32}
WGMMA = {"batch": 1, "heads": 1, "queries": 128, "keys": 96, "dim": 32}
SPLIT = {"batch": 2, "heads": 2, "keys": 32, "dim": 8}
RANGES = {"lanes": 2, "keys": 4, "groups": 2, "ranges": 2}
WIDE = {"dtype": "float32", "out": "float32"}
REFUSED = [
    # A recipe, its shape, options, config, and what the sentence says.
    ("padded", TILED, {}, {**WHOLE, "ends_at_mask": True}, "no condition under loop 'j_0' hides"),
    ("mma_exp2", {**MMA, "dim": 20}, {}, SMALL, "rows of dim=20 must be a multiple of 8"),
    ("mma_exp2", MMA, {}, {**SMALL, "splits_at_mask": True}, "no condition under loop 'j_0' holds"),
    *(
        ("wgmma_overlap", {**WGMMA, **shape}, options, {**ONE, **config}, sentence)
        for shape, options, config, sentence in (
            ({"dim": 20}, HALF, {}, "rows of dim=20 must be a multiple of 8"),
            ({}, WIDE, {}, "values of float32 are not of 16 bits"),
            ({}, HALF, {"keys": 24}, "a tile of 24 columns is not made of whole fragments"),
            ({"dim": 256, "keys": 512}, HALF, {"keys": 128}, "of shared memory"),
            (
                {"keys": 64},
                HALF,
                {"ends_at_mask": True},
                "no condition under loop 'j_0' hides everything",
            ),
        )
    ),
    ("split", SPLIT, {}, {**RANGES, "ranges": 0}, "multiple=0 is not a size; use 1 or more"),
]


@pytest.mark.share(4)
@pytest.mark.parametrize(("name", "shape", "options", "config", "sentence"), REFUSED)
def test_what_does_not_fit_is_refused(
    name: str, shape: dict, options: dict, config: dict, sentence: str
) -> None:
    recipe = RECIPES[f"decode_attention_{name}" if name == "split" else f"attention_{name}"]
    with pytest.raises(TransformError, match=sentence):
        run_recipe(recipe, shape, options=options, config=config)
