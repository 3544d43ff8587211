"""Attention on tensor cores at other sizes, with bugs planted, and what it refuses."""

from typing import Any

import numpy as np
import pytest
from golden_runs import run_golden
from one_key import plant_places
from tvm.script import from_source

from tirstep.lowering_checks import Finding, check_numbers, get_device, run_recipe
from tirstep.lowering_checks.device import run
from tirstep.transforms import TransformError, mask_bounds, quads
from tirstep.transforms.passes import mask_loops
from tirstep.transforms.recipes import LADDERS, RECIPES

SHAPE = {"batch": 1, "heads": 2, "queries": 64, "keys": 96, "dim": 32}
SMALL = {"warps": 2, "rows": 16, "keys": 32}
TALL = {"rows": 32, "queries": "shared", "layout": "padded"}
PREVIOUS, NOW = "largest_previous[vb, vh, vi]", "largest[vb, vh, vi]"
SCALE = "T.float32(0.17677669529663687)"
FACTOR = f"T.exp(({PREVIOUS} - {NOW}) * {SCALE})"
KEYS, VALUES = "K[vb, vh, vj, vd]", "V[vb, vh, vj_0 * 32 + vj_1, vd]"
EARLY = "K[vb, vh, T.max({} - 1, 0), {}]"
TILE = "largest_tile[vb, vh, vi, vj_0]"


@pytest.mark.parametrize(
    ("name", "options", "config"),
    [
        ("attention_mma_exp2", {"dtype": "float16", "out": "float32"}, {"queries": "shared"}),
        ("attention_mma_exp2", {"dtype": "bfloat16", "group": 2}, TALL),
        ("attention_mma_causal_parted", {"dtype": "float16", "out": "float16"}, TALL),
        ("attention_mma_causal_parted", {"dtype": "bfloat16", "window": 40}, {"keys": 16}),
    ],
    ids=str,
)
def test_types_masks_and_tiles(name: str, options: dict, config: dict) -> None:
    made = run_recipe(RECIPES[name], SHAPE, options=options, config={**SMALL, **config})
    module = made.steps[-1].module
    assert check_numbers(made.problem, module, get_device("simulator"), where=name) == []


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("attention_mma", FACTOR, "T.float32(1)"),
        ("attention_mma", FACTOR, f"T.exp(({NOW} - {PREVIOUS}) * {SCALE})"),
        ("attention_mma", FACTOR, f"({FACTOR} * {FACTOR})"),
        ("attention_mma", f"T.max({NOW}, {TILE})", TILE),
        ("attention_mma", KEYS, EARLY.format("vj", "vd")),
        ("attention_mma", VALUES, EARLY.format("vj_0 * 32 + vj_1", "vd").replace("K[", "V[")),
        ("attention_mma_causal", "<= vi,", "<= vi + 1,"),
        ("attention_mma_causal", "<= vi,", "< vi,"),
    ],
    ids=[
        "factor left out",
        "factor inverted",
        "factor twice",
        "not carried",
        "keys one early",
        "values one early",
        "one key too many",
        "no own key",
    ],
)
def test_planted_bugs_are_found_without_a_gpu(name: str, right: str, wrong: str) -> None:
    made = run_golden(RECIPES[name])
    (fused,) = (step.module for step in made.steps if step.name == "fused")
    text = fused.script()
    assert right in text
    device = get_device("cpu")
    assert check_numbers(made.problem, from_source(text), device, where=name) == []
    planted = from_source(text.replace(right, wrong))
    assert check_numbers(made.problem, planted, device, where=name) != []


def find_wrong(name: str) -> list[Finding]:
    """Two tiles on the diagonal, of which the last one is behind the pipeline's loop.

    Compiled anew: what passes make is not what they made before.
    """
    shape = {"batch": 1, "heads": 1, "queries": 64, "keys": 128, "dim": 32}
    options = {"dtype": "bfloat16", "causal": True}
    config = {"warps": 2, "rows": 32, "keys": 32}
    made = run_recipe(RECIPES[name], shape, options=options, config=config)
    module = from_source(made.steps[-1].module.script())
    return check_numbers(made.problem, module, get_device("simulator"), where=name)


@pytest.mark.parametrize(
    ("name", "at", "what", "more"),
    [
        ("attention_mma_causal_ended", mask_bounds.Masks, "_find_bound", -1),
        ("attention_mma_causal_parted", mask_loops, "_count_whole", 1),
    ],
    ids=["the last tile left out", "a tile on the diagonal not masked"],
)
def test_a_bound_of_tiles_off_by_one_is_found(
    name: str, at: Any, what: str, more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_wrong(name) == []
    right = getattr(at, what)

    def off_by_one(*given: Any) -> Any:
        bound = right(*given)
        return None if bound is None else bound + more

    monkeypatch.setattr(at, what, off_by_one)
    assert find_wrong(name) != []


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


def test_a_fragment_that_is_transposed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = quads.place_in_fragment
    monkeypatch.setattr(
        quads, "place_in_fragment", lambda role, i, j, *, bits: right(role, j, i, bits=bits)
    )
    with pytest.raises(TransformError):
        run_recipe(RECIPES["attention_mma"], SHAPE, config=SMALL)


@pytest.mark.parametrize(
    ("shape", "options", "config", "sentence"),
    [
        ({**SHAPE, "queries": 72}, {}, SMALL, "loop 'i' runs 72 times"),
        ({**SHAPE, "keys": 100}, {}, SMALL, "loop 'j' runs 100 times"),
        ({**SHAPE, "dim": 24}, {}, SMALL, "dim=24 is no multiple of a fragment's 16"),
        (SHAPE, {}, {**SMALL, "splits_at_mask": True}, "no condition under loop 'j_0' holds"),
    ],
)
def test_what_does_not_fit_is_refused(
    shape: dict, options: dict, config: dict, sentence: str
) -> None:
    with pytest.raises(TransformError, match=sentence):
        run_recipe(RECIPES["attention_mma_exp2"], shape, options=options, config=config)
