"""Decode attention by ranges of keys: drawn shapes, lengths at their edges, planted bugs."""

import functools

import numpy as np
import pytest
from golden_runs import run_golden
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm.script import from_source

from tirstep.lowering_checks import check_numbers, get_device, run_recipe
from tirstep.lowering_checks.device import run
from tirstep.lowering_checks.steps import Run
from tirstep.modules import Problem, validation
from tirstep.modules.dtypes import dtype_facts
from tirstep.transforms import TransformError
from tirstep.transforms.recipes import LADDERS, RECIPES
from tirstep.transforms.recipes.decoding import RangesConfig

DEVICES = pytest.mark.parametrize(
    "device", ["simulator", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
)
NAMES = [
    recipe.name for recipe in LADDERS["decode_attention"] if recipe.family.config is RangesConfig
]
BY_NAME = pytest.mark.parametrize("name", NAMES)
SPLIT = "decode_attention_split"
SHAPE = {"batch": 2, "heads": 2, "keys": 32, "dim": 8}
WHOLE = {"lanes": 2, "keys": 4, "groups": 2, "ranges": 2}


def check(made: Run, device: str, seed: int = 0) -> None:
    module, where = made.steps[-1].module, made.recipe.name
    assert check_numbers(made.problem, module, get_device(device), where=where, seed=seed) == []


@BY_NAME
@settings(max_examples=settings.default.max_examples // 2)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_numbers_at_drawn_shapes(name: str, data: st.DataObject, seed: int) -> None:
    """Whatever divides, in each type, with heads that share keys and with one key a range."""
    recipe, few = RECIPES[name], st.integers(1, 3)
    dtype = data.draw(st.sampled_from(["float32", "float16", "bfloat16"]), label="dtype")
    group, batch = data.draw(few, label="group"), data.draw(few, label="batch")
    lanes = data.draw(st.sampled_from([2, 4]), label="lanes")
    config = {"lanes": lanes, "keys": data.draw(few, label="keys")}
    at_least = 1
    for knob in ("groups", "ranges"):
        if recipe.config[knob] != 1:
            config[knob] = data.draw(st.integers(2, 3), label=knob)
            at_least = 2  # elements of a range
    tile = config["keys"] * config.get("groups", 1) * config.get("ranges", 1)
    shape = {
        "batch": batch,
        "heads": group * data.draw(st.integers(1, 2), label="heads of keys"),
        "keys": tile * data.draw(st.integers(at_least, 3), label="steps"),
        "dim": config["lanes"] * 8,
    }
    options = {"dtype": dtype, "group": group, "full": data.draw(st.booleans(), label="full")}
    made = run_recipe(recipe, shape, options=options, config=config)
    check(made, data.draw(st.sampled_from(["simulator", "cpu"]), label="device"), seed)


def plant_places(problem: Problem, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Queries that each find one key that counts, by its number in binary; whole numbers as values.

    Lengths are those at the edges of ranges: one key, and just before, at and behind each edge.
    """
    shape, rng = problem.shape, np.random.default_rng(seed)
    keys, batch = shape["keys"], shape["batch"]
    lengths = np.array([1, 7, 8, 9, 15, 16, 17, 24, 25, keys])[:batch]
    codes = 2.0 * (np.arange(keys)[:, None] >> np.arange(shape["dim"]) & 1) - 1
    wanted = rng.integers(0, lengths[:, None, None], problem.inputs[0].shape[:-1])
    v = rng.integers(1, 100, problem.inputs[2].shape)
    arrays = (2048 * codes[wanted], np.broadcast_to(codes, problem.inputs[1].shape), v, lengths)
    typed = [
        np.array(array, dtype_facts(tensor.dtype).numpy)
        for array, tensor in zip(arrays, problem.inputs, strict=True)
    ]
    at, heads = (np.arange(shape[name]) for name in ("batch", "heads"))
    return typed, v[at[:, None, None], heads[:, None], wanted]


@DEVICES
@BY_NAME
def test_one_key_takes_all_at_lengths_on_the_edges_of_ranges(name: str, device: str) -> None:
    """Whole numbers in, the same whole numbers out: ranges behind a length count for nothing."""
    shape = {**SHAPE, "batch": 10}
    config = {knob: value for knob, value in WHOLE.items() if RECIPES[name].config[knob] != 1}
    made = run_recipe(RECIPES[name], shape, config=config)
    program = get_device(device).compile(made.steps[-1].module)
    for seed in range(2):
        inputs, right = plant_places(made.problem, seed)
        (got,) = run(program, inputs, made.problem.outputs)
        np.testing.assert_array_equal(got, right)


@DEVICES
@BY_NAME
def test_numbers_at_the_golden_example(name: str, device: str) -> None:
    check(run_golden(RECIPES[name]), device)


@DEVICES
def test_sequences_of_full_length(device: str) -> None:
    """Both sums find the same scores in the tiles of a range, by indices of several iterators."""
    options = {"full": True, "dtype": "bfloat16"}
    check(run_recipe(RECIPES[SPLIT], {**SHAPE, "dim": 16}, options=options, config=WHOLE), device)


@DEVICES
@pytest.mark.parametrize("options", [{}, {"group": 2, "dtype": "bfloat16", "out": "bfloat16"}])
def test_indices_beyond_32_bits(
    options: dict, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a tensor of 64 elements were too large for them."""
    monkeypatch.setattr(validation, "_TOO_MANY_ELEMENTS", 64)
    shape = {**SHAPE, "batch": 5, "dim": 16}  # of no other test: modules are kept by problem
    made = run_recipe(RECIPES[SPLIT], shape, options=options, config=WHOLE)
    assert 'T.int64(32), T.int64(16)), "' in made.problem.module.script()
    check(made, device)


MOVED = "T.exp((largest_part_global[vb, vh, vi, vpart] - largest_local[vb, vh, vi]) * T.float32("
PLANTED = {
    "factor left out of the weighted sum": (
        f"weighted_part_global[vb, vh, vi, vpart, vd] * {MOVED}",
        "weighted_part_global[vb, vh, vi, vpart, vd] * T.exp(T.float32(0) * T.float32(",
    ),
    "factor left out of the sum": (
        f"total_part_global[vb, vh, vi, vpart] * {MOVED}",
        "total_part_global[vb, vh, vi, vpart] * T.exp(T.float32(0) * T.float32(",
    ),
    "factor inverted": (
        f"weighted_part_global[vb, vh, vi, vpart, vd] * {MOVED}",
        "weighted_part_global[vb, vh, vi, vpart, vd] * T.exp((largest_local[vb, vh, vi] - "
        "largest_part_global[vb, vh, vi, vpart]) * T.float32(",
    ),
    "factor twice": (
        f"weighted_part_global[vb, vh, vi, vpart, vd] * {MOVED}",
        "weighted_part_global[vb, vh, vi, vpart, vd] * T.exp((largest_part_global[vb, vh, vi, "
        "vpart] - largest_local[vb, vh, vi]) * T.float32(2) * T.float32(",
    ),
    "factor left out among groups": (
        "weighted_part_part_shared[vb, vh, vi, vpart, vpart_1, vd] * T.exp(",
        "weighted_part_part_shared[vb, vh, vi, vpart, vpart_1, vd] * T.exp(T.float32(0) * ",
    ),
    "maximum of a range is another one's": (
        "T.max(largest_local[vb, vh, vi], largest_part_global[vb, vh, vi, vpart])",
        "T.max(largest_local[vb, vh, vi], largest_part_global[vb, vh, vi, 0])",
    ),
    "maximum of a group is not used": (
        "T.max(largest_part_local[vb, vh, vi, vpart], "
        "largest_part_part_shared[vb, vh, vi, vpart, vpart_1])",
        "T.max(largest_part_local[vb, vh, vi, vpart], "
        "largest_part_part_shared[vb, vh, vi, vpart, 0])",
    ),
    "keys of ranges read one early": (
        "= K[v0, v1, v2, v3]",
        "= K[v0, v1, T.max(v2 - 1, 0), v3]",
    ),
    "values of ranges read one early": (
        "= V[v0, v1, v2, v3]",
        "= V[v0, v1, T.max(v2 - 1, 0), v3]",
    ),
    "a key behind the length counts": (
        " < lengths[vb], T.exp(",
        " <= lengths[vb], T.exp(",
    ),
}


@functools.cache
def make_split() -> tuple[Run, str, list[tuple[list[np.ndarray], np.ndarray]]]:
    """A run, the text of its last module, and two inputs with what comes of each."""
    made = run_recipe(RECIPES[SPLIT], {**SHAPE, "batch": 10}, config=WHOLE)
    inputs, right = plant_places(made.problem, 0)
    cases = [(inputs, right), soften(made.problem, inputs)]
    return made, made.steps[-1].module.script(), cases


def is_right(text: str) -> bool:
    made, _, cases = make_split()
    program = get_device("simulator").compile(from_source(text))
    got = [run(program, given, made.problem.outputs)[0] for given, _ in cases]
    return all(
        np.allclose(it, wanted, rtol=1e-4) for it, (_, wanted) in zip(got, cases, strict=True)
    )


@pytest.mark.xdist_group("decoding by ranges")
def test_what_bugs_are_planted_in_is_right() -> None:
    assert is_right(make_split()[1])


@pytest.mark.xdist_group("decoding by ranges")
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_dies_without_a_gpu(bug: str) -> None:
    (_, text, _), (old, new) = make_split(), PLANTED[bug]
    assert text.count(old) == 1
    assert not is_right(text.replace(old, new))


def soften(problem: Problem, inputs: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
    """The same with scores that differ by less, so that all keys count, and what comes of it."""
    softer = [inputs[0] / 2048, *inputs[1:]]
    options = {**problem.shape, **problem.options}
    return softer, problem.kernel.ask("reference", *softer, **options)


@pytest.mark.parametrize(
    ("shape", "config", "sentence"),
    [
        ({**SHAPE, "keys": 34}, WHOLE, "loop 'j' runs 17 times, which parts=2 does not divide"),
        ({**SHAPE, "keys": 33}, WHOLE, "loop 'j' runs 33 times, which parts=2 does not divide"),
        ({**SHAPE, "keys": 24}, WHOLE, "loop 'j' runs 6 times"),
        ({**SHAPE, "dim": 12}, WHOLE, "12"),
        (SHAPE, {**WHOLE, "ranges": 0}, "parts=0 is no number of ranges; use 2 or more"),
    ],
)
def test_what_does_not_divide_is_refused(shape: dict, config: dict, sentence: str) -> None:
    with pytest.raises(TransformError, match=sentence):
        run_recipe(RECIPES[SPLIT], shape, config=config)
