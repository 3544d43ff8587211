"""Decode attention by ranges of keys: drawn shapes, lengths at their edges."""

import sys

import numpy as np
import pytest
from golden_runs import require_right
from hypothesis import given, settings
from hypothesis import strategies as st
from one_key import plant_places
from tvm.script import from_source

from tirstep.lowering_checks import check_numbers, get_device, run_recipe
from tirstep.lowering_checks.device import run
from tirstep.modules import Kernel
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.recipes.decoding import BY_RANGES

DEVICES = pytest.mark.parametrize(
    "device", ["simulator", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
)
NAMES = [recipe.name for recipe in BY_RANGES.rungs]
BY_NAME = pytest.mark.parametrize("name", NAMES)
SPLIT, BEST = "decode_attention_split", "decode_attention_best"
SHAPE = {"batch": 2, "heads": 2, "keys": 32, "dim": 8}
WHOLE = {"lanes": 2, "keys": 4, "groups": 2, "ranges": 2}


@pytest.mark.share(3)
@BY_NAME
@settings(max_examples=settings.default.max_examples // 2)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_numbers_at_drawn_shapes(name: str, data: st.DataObject, seed: int) -> None:
    """Of any length, in each type, with heads that share keys and with one key a range."""
    recipe, few = RECIPES[name], st.integers(1, 3)
    dtype = data.draw(st.sampled_from(["float32", "float16", "bfloat16"]), label="dtype")
    group, batch = data.draw(few, label="group"), data.draw(few, label="batch")
    lanes = data.draw(st.sampled_from([2, 4]), label="lanes")
    config: dict = {"lanes": lanes, "keys": data.draw(few, label="keys")}
    config |= {"ends": data.draw(st.booleans(), label="ends"), "heads": data.draw(few, label="of")}
    config["at_once"] = data.draw(few, label="ranges at once")
    at_least = 1
    for knob in ("groups", "ranges"):
        if recipe.config[knob] != 1:
            config[knob] = data.draw(st.integers(2, 3), label=knob)
            at_least = 2  # elements of a range
    tile = config["keys"] * config.get("groups", 1) * config.get("ranges", 1)
    steps = data.draw(st.integers(at_least, 3), label="steps")
    shape = {
        "batch": batch,
        "heads": group * data.draw(st.integers(1, 2), label="heads of keys"),
        "keys": tile * steps - data.draw(st.integers(0, tile - 1), label="beyond the end"),
        "dim": data.draw(st.integers(1, config["lanes"] + 1), label="vectors") * 8,
    }
    options = {"dtype": dtype, "group": group, "full": data.draw(st.booleans(), label="full")}
    made = run_recipe(recipe, shape, options=options, config=config)
    require_right(made, data.draw(st.sampled_from(["simulator", "cpu"]), label="device"), seed)


@pytest.mark.share(9)
@DEVICES
@pytest.mark.parametrize(("keys", "ends"), [(32, False), (32, True), (29, False), (29, True)])
@BY_NAME
def test_one_key_takes_all_at_lengths_on_the_edges_of_ranges(
    name: str, keys: int, ends: bool, device: str
) -> None:
    """Whole numbers in, the same whole numbers out: ranges behind a length count for nothing."""
    shape = {**SHAPE, "batch": 10, "keys": keys}
    config = {knob: value for knob, value in WHOLE.items() if RECIPES[name].config[knob] != 1}
    made = run_recipe(RECIPES[name], shape, config={**config, "ends": ends})
    program = get_device(device).compile(made.steps[-1].module)
    for seed in range(2):
        inputs, right = plant_places(made.problem, seed)
        (got,) = run(program, inputs, made.problem.outputs)
        np.testing.assert_array_equal(got, right)


@DEVICES
def test_sequences_of_full_length(device: str) -> None:
    """Both sums find the same scores in the tiles of a range, by indices of several iterators."""
    options = {"full": True, "dtype": "bfloat16"}
    require_right(
        run_recipe(RECIPES[SPLIT], {**SHAPE, "dim": 16}, options=options, config=WHOLE), device
    )


@pytest.mark.share(2)
@DEVICES
@pytest.mark.parametrize("options", [{}, {"group": 2, "dtype": "bfloat16", "out": "bfloat16"}])
def test_indices_beyond_32_bits(
    options: dict, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a tensor of 64 elements were too large for them."""
    monkeypatch.setattr(sys.modules[Kernel.__module__], "MOST_ELEMENTS", 64)
    shape = {**SHAPE, "batch": 5, "dim": 16}  # of no other test: modules are kept by problem
    made = run_recipe(RECIPES[SPLIT], shape, options=options, config=WHOLE)
    assert 'T.int64(32), T.int64(16)), "' in made.problem.module.script()
    require_right(made, device)


@pytest.mark.share(4)
@DEVICES
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((1, 1, 1, 64), {}),
        ((2, 4, 131, 80), {"group": 2, "full": True}),
        ((3, 8, 77, 72), {"group": 8}),
        ((1, 48, 65, 64), {"group": 48}),
        ((1, 2, 2501, 24), {"full": True}),
        ((2, 1, 2501, 256), {}),
    ],
    ids=str,
)
def test_what_a_model_chooses_is_right_at_any_size(
    sizes: tuple[int, ...], options: dict, dtype: str, device: str
) -> None:
    shape = dict(zip(("batch", "heads", "keys", "dim"), sizes, strict=True))
    made = run_recipe(RECIPES[BEST], shape, options={"dtype": dtype, **options})
    require_right(made, device)


AT = "vpart * 32 + ((vj * 2 + vpart_1) * 4 + vj_run)"
PARTIAL = "total_part_global[vb, vh, vi, vpart_1]"
BUGS = {
    "a length off by one: a key more": (f"{AT} < lengths[vb]", f"{AT} < lengths[vb] + 1", {}),
    "a length off by one: a key less": (f"{AT} < lengths[vb]", f"{AT} < lengths[vb] - 1", {}),
    "the last tile is not masked": (f"{AT} < 61", f"{AT} < 64", {"full": True}),
    "the last tile is read whole": ("v2 < 61", "v2 < 64", {"full": True}),
    "a key is not read": ("v2 < 61", "v2 < 60", {"full": True}),
    "groups read the same tile": (
        "part * 32 + j * 8 + part_1 * 4 + ax2",
        "part * 32 + j * 8 + ax2",
        {"full": True},
    ),
    "a partial sum is combined twice": (
        f"+ {PARTIAL} *",
        f"+ T.float32(2) * {PARTIAL} *",
        {"full": True},
    ),
    "a partial sum comes in the place of another": (
        f"+ {PARTIAL} *",
        "+ total_part_global[vb, vh, vi, vpart_0] *",
        {},
    ),
    "ranges are combined without a repair": (
        f"{PARTIAL} * T.exp((largest_part_global[vb, vh, vi, vpart_1] - largest_local[vb, vh, vi])",
        f"{PARTIAL} * T.exp((largest_local[vb, vh, vi] - largest_local[vb, vh, vi])",
        {},
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_die_without_a_gpu(bug: str) -> None:
    right, wrong, options = BUGS[bug]
    shape = {"batch": 3, "heads": 2, "keys": 61, "dim": 40}
    config = {**WHOLE, "lanes": 4, "at_once": 2, "ends": True}
    made = run_recipe(RECIPES[SPLIT], shape, options=options, config=config)
    text = made.steps[-1].module.script()
    assert right in text
    assert not check_numbers(
        made.problem, from_source(text), get_device("simulator"), where="simulator"
    )
    planted = from_source(text.replace(right, wrong))
    assert check_numbers(made.problem, planted, get_device("simulator"), where="simulator")
