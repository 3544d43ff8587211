"""Attention: what is seen, what is refused, and rows that one key takes, to the bit."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from one_key import plant_places
from wrong_attention import RIGHT_FUSED

from tirstep.modules import KernelError, attention, decode_attention
from tirstep.modules.attention import _find_largest, find_visible


@pytest.mark.parametrize("keys", [1, 5, 9])
@pytest.mark.parametrize("window", [None, 1, 3, 50])
def test_operations_are_those_of_the_keys_that_are_seen(keys: int, window: int | None) -> None:
    for queries in range(1, keys + 1):
        problem = attention.problem(2, 3, queries, keys, 4, causal=True, window=window)
        seen = find_visible(queries, keys, causal=True, window=window)
        assert problem.flops == 2 * 3 * 4 * 4 * int(seen.sum())
        assert seen[-1, -1]
        assert seen.any(axis=1).all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"group": 3}, r"group=3 heads of queries share .* are 4; choose a divisor of 4$"),
        ({"group": True}, "group=True heads"),
        ({"scale": 0}, "scale=0 must be above 0; give such a number, or None"),
        ({"scale": "1"}, "scale='1' must be above 0; give such a number"),
        ({"scale": float("nan")}, "scale=nan must be above 0; give such a number"),
        ({"window": 2}, "window=2 counts back from a query's own key; give causal=True as well"),
        ({"window": 0, "causal": True}, "window=0 is not a number of keys; give an int >= 1"),
        ({"causal": 1}, r"causal=1 is not possible; choose False or True$"),
        ({"causal": True, "queries": 9}, "leaves the first 2 queries without a key; give at least"),
        ({"mask": "kq"}, "mask='kq' is not possible; choose '', 'k', 'qk'"),
        ({"mask": "qk", "mask_dtype": "int8"}, "mask_dtype='int8' is no type of masks; give one"),
        ({"mask": "qk", "mask_op": "max"}, "mask_op='max' is not possible; choose 'add' or"),
        ({"dtype": "int8"}, "dtype='int8' is not possible"),
        ({"out": "bfloat16"}, "out='bfloat16' is not possible"),
    ],
)
def test_what_cannot_be_is_refused(options: dict, sentence: str) -> None:
    sizes = {"batch": 1, "heads": 4, "queries": 5, "keys": 7, "dim": 4}
    with pytest.raises(KernelError, match=sentence):
        attention.problem(**{**sizes, **options})


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("group", [1, 2])
def test_one_key_takes_all_and_nothing_is_tolerated(run, dtype: str, group: int) -> None:
    problem = attention.problem(2, 4, 6, 29, 5, dtype=dtype, out=dtype, group=group)
    inputs, right = plant_places(problem, 0)
    (got,) = run(problem.module, problem, inputs)
    np.testing.assert_array_equal(got, right)
    np.testing.assert_array_equal(problem.reference(inputs)[0], right)
    ((low, high),) = problem.error_interval(inputs)
    assert (high - low).max() < 1e-30


def test_lengths_are_whole_numbers_of_keys() -> None:
    problem = decode_attention.problem(64, 2, 7, 4)
    drawn = [problem.integer_inputs(0), problem.float_inputs(1), problem.planted_inputs(2)[-1][1]]
    for *_, lengths in drawn:
        assert lengths.dtype == np.int32
        assert set(lengths.tolist()) == set(range(1, 8))


def test_keys_have_marks_beside_corner_cases_of_queries() -> None:
    problem = attention.problem(1, 2, 5, 6, 4)
    (_, plain), (names, (q, k, _)) = problem.planted_inputs(0)
    assert len(names) == 10
    assert q.reshape(10, 4)[names.index("no key"), 0] == -np.inf
    marks = [[1] * 6, [0, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, 0]]
    assert k[0, 0].astype(int).T[:3].tolist() == marks
    assert np.array_equal(plain[1], problem.float_inputs(0)[1])


@pytest.mark.parametrize("window", [None, 3])
def test_blocks_of_rows_are_the_whole(monkeypatch: pytest.MonkeyPatch, window: int | None) -> None:
    """Long sequences are worked out in blocks, by threads."""
    problem = attention.problem(2, 4, 13, 17, 8, causal=True, window=window, group=2)
    inputs = problem.float_inputs(3)
    (right,), (bound,) = problem.reference(inputs), problem.error_bound(inputs)
    # Blocks of five rows, the last of three.
    monkeypatch.setattr(sys.modules["tirstep.modules.attention"], "BLOCK", 5 * 17)
    (parts,), (part_bounds,) = problem.reference(inputs), problem.error_bound(inputs)
    np.testing.assert_allclose(parts, right, rtol=1e-12)
    np.testing.assert_allclose(part_bounds, bound, rtol=1e-9)


@pytest.mark.parametrize("keys", [1, 33, 150])
def test_the_largest_of_the_values_that_count(keys: int) -> None:
    """Of keys that all queries see, that none sees, and that some do, whole runs of them or not."""
    rng = np.random.default_rng(keys)
    values = rng.uniform(0, 1, (keys, 3))
    places = np.arange(keys)
    for counts in (
        np.full((7, keys), True),
        np.full((7, keys), False),
        places <= np.arange(7)[:, None] * keys // 6,
        np.tile(rng.random(keys) < 0.5, (7, 1)),
        rng.random((7, keys)) < 0.9,
    ):
        plain = np.where(counts[:, :, None], values, 0).max(axis=1)
        np.testing.assert_array_equal(_find_largest(counts, values, np), plain)


def test_a_key_alone_may_be_multiplied_and_divided_by_what_is_nearly_one() -> None:
    """As kernels do whose powers are exp2(x * log2(e) - m * log2(e)); of whole numbers, not."""
    problem = attention.problem(1, 1, 3, 3, 64, causal=True)
    q, k, v = problem.float_inputs(0)
    power = np.float32(1 - 3 * 2.0**-24)
    (right,), (bound,) = problem.reference([q, k, v]), problem.error_bound([q, k, v])
    first = power * v[..., :1, :] * (np.float32(1) / power)
    assert (first != v[..., :1, :]).any()
    assert (abs(first - right[..., :1, :]) <= bound[..., :1, :]).all()
    assert (bound[..., :1, :] <= 2.0**-21).all()
    values = np.round(4 * v)
    (whole,) = problem.error_bound([q, k, values])
    half_a_unit = 2.0**-24 * abs(values[..., :1, :]) + 1e-30
    assert (whole[..., :1, :] <= half_a_unit).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("sizes", [(1, 2, 9, 33, 8), (2, 2, 7, 130, 64)])
def test_exponents_may_be_fused_where_the_kernel_allows_it(dtype: str, sizes: tuple) -> None:
    """A power of nearly 1 is stored as 1, and divided by what it was."""
    kinds = {"dtype": dtype, "out": "float32"}
    allowed = attention.problem(*sizes, **kinds, fused_exponents=True)
    exact = attention.problem(*sizes, **kinds)
    fused = replace(RIGHT_FUSED, stored=lambda power: power.astype(dtype).astype("float32"))
    drawn = [allowed.float_inputs(seed) for seed in range(3)]
    drawn += [inputs for _, inputs in allowed.planted_inputs(1)] + [allowed.integer_inputs(2)]
    drawn.append(plant_places(allowed, 0)[0])
    refused = 0
    for inputs in drawn:
        with np.errstate(all="ignore"):
            got = fused(*(each.astype("float32") for each in inputs))
        for problem in (allowed, exact):
            ((low, high),) = problem.error_interval(inputs)
            is_within = (got >= low) & (got <= high) | (np.isnan(got) & np.isnan(low))
            refused += problem is exact and not is_within.all()
            assert problem is exact or is_within.all()
    # In float32 the last bit of exp decides, and NumPy's differs from processor to processor.
    assert refused or dtype == "float32"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_fused_exponents_may_lose_is_what_the_maximum_has(dtype: str) -> None:
    """A maximum of a thousand loses a thousand units, one of 1 none that shows."""
    problem = attention.problem(1, 1, 4, 16, 8, dtype=dtype, fused_exponents=True, scale=1.0)
    exact = attention.problem(1, 1, 4, 16, 8, dtype=dtype, scale=1.0)
    q, k, v = (np.abs(each) for each in problem.float_inputs(0))
    (near,), (far,) = problem.error_bound([q, k, v]), problem.error_bound([256 * q, 16 * k, v])
    (plain,) = exact.error_bound([q, k, v])
    assert (near <= 3 * plain + 1e-5).all()
    assert (far > near).any()
