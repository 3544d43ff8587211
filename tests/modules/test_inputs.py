"""Inputs are exact where they claim to be, and the bounds are neither too small nor empty."""

import numpy as np
import pytest

from tirstep.modules import (
    Problem,
    conv1d,
    conv2d,
    depthwise_conv2d,
    gelu,
    get_kernel,
    layer_norm,
    matmul,
    matmul_bias_relu,
    matvec,
    relu,
    rms_norm,
    row_sum,
    softmax,
    transpose,
    vector_add,
    window_sum,
)
from tirstep.modules.dtypes import dtype_facts
from tirstep.modules.elementwise import compute_gelu
from tirstep.modules.error_bounds import Rounded
from tirstep.modules.rows import EPSILON


def products(problem: Problem, inputs: list[np.ndarray]) -> np.ndarray:
    """The terms of each element of a matmul's output, along the last axis."""
    a, b = (array.astype(np.float64) for array in inputs)
    return a[:, None, :] * b.T[None, :, :]


@pytest.mark.parametrize(
    ("dtype", "acc", "k"),
    [
        ("float32", "float32", 4096),
        ("float16", "float32", 4096),
        ("float16", "float16", 40),
        ("float16", "float16", 1000),
        ("float16", "float16", 20000),
        ("bfloat16", "float32", 4096),
        ("int8", "int32", 4096),
    ],
)
def test_whole_numbers_sum_exactly_in_any_order(dtype: str, acc: str, k: int) -> None:
    problem = matmul.problem(3, 2, k, dtype=dtype, acc=acc)
    inputs = problem.integer_inputs(5)
    (exact,) = problem.reference(inputs)
    terms = products(problem, inputs)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(k)
        summed_in = dtype_facts(acc).numpy
        in_acc = np.add.accumulate(terms[..., order].astype(summed_in), -1, dtype=summed_in)
        in_double = np.add.accumulate(terms[..., order], axis=-1)
        np.testing.assert_array_equal(in_acc.astype(np.float64), in_double)
        np.testing.assert_array_equal(in_double[..., -1], exact)


@pytest.mark.share(2)
def test_whole_numbers_fit_and_are_never_all_zeros(problem: Problem) -> None:
    inputs = problem.integer_inputs(6)
    for array, tensor in zip(inputs, problem.inputs, strict=True):
        assert array.shape == tensor.shape
        assert array.dtype == dtype_facts(tensor.dtype).numpy
        values = array.astype(np.float64)
        assert values.any()
        assert (values == np.round(values)).all()
    (sums,) = problem.reference([np.abs(array.astype(np.float64)) for array in inputs])
    assert sums.max() <= dtype_facts(problem.accumulator).exact_integers
    assert sums.max() <= dtype_facts(problem.outputs[0].dtype).largest


def test_whole_numbers_are_as_various_as_fits() -> None:
    (_, b) = matmul.problem(32, 32, 32).integer_inputs(0)
    assert np.abs(b).max() > 1024
    assert 0.1 < np.mean(np.abs(b) < 32) < 0.9
    (_, b) = matmul.problem(32, 32, 32, dtype="float8_e5m2").integer_inputs(0)
    assert np.unique(b.astype(int)).tolist() == [-8, -7, -6, -5, -4, -3, -2, -1, *range(1, 9)]
    (_, b) = matmul.problem(32, 32, 64, dtype="int8").integer_inputs(0)
    assert np.abs(b.astype(int)).max() > 100
    (a, b) = matmul.problem(32, 2, 2048, dtype="float16", acc="float16").integer_inputs(0)
    assert np.unique(b).tolist() == [-1, 1]
    assert np.unique(a[0]).tolist() == [-1, 1]
    (a, _) = matmul.problem(32, 2, 8192, dtype="float16", acc="float16").integer_inputs(0)
    assert np.unique(a).tolist() == [-1, 0, 1]
    assert 0.1 < np.count_nonzero(a) / a.size < 0.9
    assert vector_add.problem(1).integer_inputs(0)[0] != 0


def test_thinning_leaves_something_of_every_input() -> None:
    problem = matmul_bias_relu.problem(1, 1, 20000, dtype="float16", acc="float16")
    for seed in range(8):
        assert all(array.any() for array in problem.integer_inputs(seed))


@pytest.mark.parametrize(
    ("kernel", "sizes"),
    [
        (row_sum, (2, 8192)),
        (matvec, (64, 8192)),
        (matmul, (16, 16, 4096)),
        (matmul, (2, 2, 8191)),
        (matmul_bias_relu, (3, 16, 4099)),
    ],
    ids=str,
)
def test_every_term_of_a_sum_in_half_counts_in_some_round(kernel, sizes) -> None:
    """A sum of ones is exact up to 2048 of them: rows and rounds share the columns."""
    problem = kernel.problem(*sizes, dtype="float16", acc="float16")
    rounds = problem.integer_rounds(0)
    for inputs in rounds:
        (sums,) = problem.reference([np.abs(array) for array in inputs])
        assert sums.max() <= 2048
    columns = [(inputs[0] != 0).reshape(-1, inputs[0].shape[-1]).any(axis=0) for inputs in rounds]
    assert np.any(columns, axis=0).all()
    places = np.random.default_rng(1).integers(0, len(columns[0]), 22)
    for place in (0, len(columns[0]) - 1, *places):
        lost = [[a * (np.arange(a.shape[-1]) != place), *others] for a, *others in rounds]
        pairs = zip(map(problem.reference, lost), map(problem.reference, rounds), strict=True)
        assert any(not np.array_equal(*pair) for pair in pairs), place


def test_one_round_is_enough_where_ones_fit() -> None:
    for problem in (
        matmul.problem(2, 2, 4096),
        matmul.problem(2, 2, 2000, dtype="float16", acc="float16"),
        softmax.problem(2, 4096),
    ):
        assert len(problem.integer_rounds(0)) == 1


@pytest.mark.share(3)
def test_an_interval_is_the_bound_rounded_to_the_output(problem: Problem) -> None:
    for inputs in (problem.float_inputs(4), *(it for _, it in problem.planted_inputs(4))):
        with np.errstate(invalid="ignore"):
            (exact,), (bound,) = problem.reference(inputs), problem.error_bound(inputs)
        ((low, high),) = problem.error_interval(inputs)
        facts = dtype_facts(problem.outputs[0].dtype)
        stored = exact.astype(facts.numpy).astype(np.float64)
        assert ((low <= stored) & (stored <= high) | np.isnan(exact)).all()
        finite = np.isfinite(exact) & np.isfinite(bound) & np.isfinite(high)
        slack = facts.unit_roundoff * (np.abs(exact) + bound)
        assert (high[finite] - exact[finite] <= (bound + slack)[finite]).all()
        for end in (low, high):
            np.testing.assert_array_equal(end, end.astype(facts.numpy).astype(np.float64))


def test_a_narrow_output_has_mostly_one_right_value() -> None:
    for kernel in (softmax, rms_norm, layer_norm):
        problem = kernel.problem(8, 64, dtype="bfloat16")
        ((low, high),) = problem.error_interval(problem.float_inputs(0))
        assert (low == high).mean() > 0.95


def test_what_only_moves_or_chooses_is_exact() -> None:
    for problem in (
        transpose.problem(5, 7, dtype="float8_e4m3fn"),
        transpose.problem(5, 7),
        relu.problem(9, dtype="float16"),
    ):
        inputs = problem.float_inputs(0)
        ((low, high),) = problem.error_interval(inputs)
        tiny = dtype_facts(problem.accumulator).underflow
        assert (high - low <= 2 * tiny).all()


def test_bits_come_back_as_they_are() -> None:
    problem = transpose.problem(16, 33, dtype="float16")
    ((_, (drawn,)),) = problem.planted_inputs(0)
    values = drawn.astype(np.float64)
    assert np.isnan(values).any()
    assert (np.signbit(values) & (values == 0)).any()
    assert len(np.unique(drawn.view(np.uint16))) > 300
    assert np.array_equal(drawn, problem.planted_inputs(0)[0][1][0], equal_nan=True)


def test_sums_that_are_exact_are_known() -> None:
    rows = np.array([[1, 2, 3, 4], [2.0**-20, 1, 1, 1], [2.0**-30, 1, 1, 1], [0, 0, 0, 0]])
    for values, dtype, exact in (
        (rows, "float32", [True, True, False, True]),
        (np.full((1, 4096), 4096.0), "float32", [True]),
        (np.full((1, 4096), 4095.0), "float16", [False]),
    ):
        total = Rounded(values, dtype_facts(dtype)).sum(axis=1).closed
        assert (total.error == 0).tolist() == exact


def test_a_row_of_zeros_allows_softmax_no_lost_term_however_long() -> None:
    problem = softmax.problem(2, 100_000)
    (bound,) = problem.error_bound([np.zeros((2, 100_000), np.float32)])
    assert (bound < 1e-5 * 1e-5).all()


def test_whole_numbers_fit_an_output_narrower_than_the_sums() -> None:
    sums = {}
    for out in ("float32", "float16"):
        problem = matmul.problem(2, 2, 20000, dtype="float16", out=out)
        (sums[out],) = problem.reference([np.abs(array) for array in problem.integer_inputs(0)])
    assert sums["float16"].max() <= 65504 < sums["float32"].max()


@pytest.mark.parametrize("draw", ["integer_inputs", "float_inputs"])
def test_inputs_depend_on_the_seed_and_on_nothing_else(draw: str) -> None:
    first, again, other = (getattr(matmul.problem(9, 8, 7), draw)(seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_random_inputs_fill_their_range(problem: Problem) -> None:
    for array, tensor in zip(problem.float_inputs(7), problem.inputs, strict=True):
        facts = dtype_facts(tensor.dtype)
        assert array.shape == tensor.shape
        assert array.dtype == facts.numpy
        values = array.astype(np.float64)
        if facts.is_float:
            assert values.min() >= -1
            assert values.max() < 1
        if array.size > 50:
            spread = 1.0 if facts.is_float else facts.largest / 128
            assert values.min() < -spread / 2
            assert values.max() > spread / 2


def test_random_integers_do_not_overflow() -> None:
    """Not even where the least int8 is drawn, whose absolute value is no int8."""
    problem = vector_add.problem(1, dtype="int8")
    drawn = [problem.float_inputs(seed) for seed in range(2000)]
    assert all(-128 <= int(a[0]) + int(b[0]) <= 127 for a, b in drawn)


def test_the_bound_is_that_of_the_book() -> None:
    """gamma_k |A| |B|, the rounding of the output, and underflow, written out again."""
    problem = matmul.problem(3, 4, 50, dtype="float16", out="float16")
    a, b = problem.float_inputs(1)
    u, u_out = 2.0**-24, 2.0**-11
    a, b = a.astype(np.float64), b.astype(np.float64)
    summing = 50 * u / (1 - 50 * u) * (np.abs(a) @ np.abs(b)) + 50 * 2.0**-149
    storing = u_out * (np.abs(a @ b) + summing) + 2.0**-24
    (bound,) = problem.error_bound(problem.float_inputs(1))
    np.testing.assert_allclose(bound, summing + storing, rtol=1e-12)


def test_tf32_allows_what_tensor_cores_cut_off_and_no_more() -> None:
    """Whole numbers keep all of their bits in it, and not in bfloat16, whose error floats show."""
    problem = matmul.problem(16, 16, 64, dtype="tf32")
    whole, floats = problem.integer_inputs(0), problem.float_inputs(0)

    def cut(array: np.ndarray, bits: int) -> np.ndarray:
        return (array.view(np.uint32) & np.uint32(2**32 - 2**bits)).view(np.float32)

    assert max(np.abs(array).max() for array in whole) in range(1024, 2049)
    for array in whole:
        np.testing.assert_array_equal(cut(array, 13), array)
        assert (cut(array, 16) != array).any()
    (right,), (bound,) = problem.reference(floats), problem.error_bound(floats)
    off = np.abs(problem.reference([cut(it, 13) for it in floats])[0] - right)
    assert (off > 0).all()
    assert (off < bound).all()
    like = matmul.problem(16, 16, 64).error_bound(floats)[0]
    magnitudes = problem.reference([np.abs(it) for it in floats])[0]
    np.testing.assert_allclose(bound - like, 2**-9 * magnitudes, rtol=1e-2)


def test_sums_in_fp22_keep_14_bits() -> None:
    problem = matmul.problem(16, 16, 64, dtype="float8_e5m2", acc="fp22")
    assert [tensor.dtype for tensor in problem.outputs] == ["float32"]
    inputs = problem.integer_inputs(0)
    assert problem.reference([np.abs(it.astype("f8")) for it in inputs])[0].max() <= 2**13
    wide = matmul.problem(16, 16, 64, dtype="float8_e5m2")
    floats = problem.float_inputs(0)
    ratio = problem.error_bound(floats)[0] / wide.error_bound(floats)[0]
    assert ratio.max() > 2**9


def test_integers_have_no_error() -> None:
    problem = matmul.problem(3, 4, 50, dtype="int8")
    (bound,) = problem.error_bound(problem.float_inputs(1))
    assert bound.shape == (3, 4)
    assert not bound.any()


def test_the_bound_is_infinite_where_nothing_can_be_promised() -> None:
    short = matmul.problem(2, 2, 2047, dtype="float16", acc="float16")
    long = matmul.problem(2, 2, 2048, dtype="float16", acc="float16")
    assert np.isfinite(short.error_bound(short.float_inputs(0))[0]).all()
    assert np.isinf(long.error_bound(long.float_inputs(0))[0]).all()
    nothing = [np.zeros(tensor.shape) for tensor in long.inputs]
    assert not np.isnan(long.error_bound(nothing)[0]).any()


def test_an_error_of_a_hundred_bounds_is_caught(problem: Problem) -> None:
    inputs = problem.float_inputs(3)
    (exact,), (bound,) = problem.reference(inputs), problem.error_bound(inputs)
    if np.isinf(bound).any():
        pytest.skip(f"no bound holds for {problem.terms} terms in {problem.accumulator}")
    (sums,) = problem.reference([np.abs(array.astype(np.float64)) for array in inputs])
    # Relative to the results: those that are not mostly cancelled must show it.
    relative = 100 * bound / np.maximum(sums, 1e-300)
    planted = exact * (1 + np.where(relative > 0, relative, 1e-9))
    if exact.any():
        assert (np.abs(planted - exact) > bound).any()


@pytest.mark.parametrize(
    ("kernel", "sizes", "options", "dropped"),
    [
        (vector_add, (251,), {}, 1),
        (relu, (9,), {}, 0),
        (row_sum, (16, 2048), {}, 0),
        (softmax, (3, 512), {}, 0),
        (rms_norm, (3, 512), {}, 0),
        (layer_norm, (3, 512), {}, 0),
        (layer_norm, (3, 64), {"dtype": "float16"}, 2),
        (matvec, (3, 2048), {}, 1),
        (window_sum, (251,), {"width": 64}, 0),
        (conv1d, (16384, 32), {}, 1),
        (matmul, (16, 16, 2048), {}, 0),
        (matmul, (16, 16, 256), {"dtype": "bfloat16", "out": "bfloat16"}, 0),
        (matmul, (16, 16, 64), {"dtype": "float16", "acc": "float16"}, 0),
        (matmul, (16, 16, 2048), {"dtype": "int8"}, 0),
        (matmul_bias_relu, (16, 16, 512), {}, 2),
        (depthwise_conv2d, (3, 4, 16, 32, 7), {}, 1),
    ],
    ids=str,
)
def test_one_lost_term_is_caught(kernel, sizes, options, dropped: int) -> None:
    problem = kernel.problem(*sizes, **options)
    inputs = problem.float_inputs(4)
    (exact,), (bound,) = problem.reference(inputs), problem.error_bound(inputs)
    inputs[dropped] = inputs[dropped].copy()
    inputs[dropped].flat[inputs[dropped].size // 2] = 0
    (without,) = problem.reference(inputs)
    assert (np.abs(without - exact) > bound).any()


def test_operations_and_bytes_by_hand() -> None:
    for problem, flops, size in [
        (vector_add.problem(10), 10, 3 * 10 * 4),
        (relu.problem(10), 10, 2 * 10 * 4),
        (gelu.problem(10, dtype="float16"), 80, 2 * 10 * 2),
        (transpose.problem(3, 5, dtype="int8"), 0, 2 * 15),
        (row_sum.problem(3, 5, dtype="float16"), 15, 15 * 2 + 3 * 4),
        (softmax.problem(3, 5), 60, 2 * 15 * 4),
        (rms_norm.problem(3, 5), 60, (2 * 15 + 5) * 4),
        (layer_norm.problem(3, 5, dtype="bfloat16"), 120, (2 * 15 + 2 * 5) * 2),
        (matvec.problem(3, 5), 30, (15 + 5 + 3) * 4),
        (window_sum.problem(10), 20, (13 + 10) * 4),
        (conv1d.problem(10, 3), 60, (10 + 3 + 12) * 4),
        (matmul.problem(2, 3, 4), 48, (8 + 12 + 6) * 4),
        (matmul_bias_relu.problem(2, 3, 4), 60, (8 + 12 + 3 + 6) * 4),
        (depthwise_conv2d.problem(2, 3, 4, 5, 3), 2160, (120 + 27 + 120) * 4),
    ]:
        assert (problem.flops, problem.bytes) == (flops, size), problem


def test_references_by_hand() -> None:
    (full,) = conv1d.problem(3, 2).reference([np.array([1, 2, 3]), np.array([10, 1])])
    assert full.tolist() == [10, 21, 32, 3]
    (sums,) = window_sum.problem(2, width=3).reference([np.array([1, 2, 4, 8, 99])])
    assert sums.tolist() == [7, 14]
    a, b, bias = np.array([[1, 2]]), np.array([[3, -3], [4, -4]]), np.array([5, 5])
    (relu,) = matmul_bias_relu.problem(1, 2, 2).reference([a, b, bias])
    assert relu.tolist() == [[16, 0]]
    (turned,) = matmul.problem(1, 2, 2, transpose_b=True).reference([a, b])
    assert turned.tolist() == [[-3, -4]]
    # A filter with a single one moves the image; it is not turned round.
    filters = np.zeros((1, 1, 3, 3))
    filters[0, 0, 0, 1] = 1
    (moved,) = depthwise_conv2d.problem(1, 1, 2, 2, 3).reference(
        [np.array([[[[1, 2], [3, 4]]]]), filters]
    )
    assert moved.tolist() == [[[[0, 0], [1, 2]]]]


def test_references_of_kernels_over_memory_by_hand() -> None:
    def of(kernel, *inputs):
        arrays = [np.array(array, float) for array in inputs]
        (out,) = kernel.problem(*arrays[0].shape).reference(arrays)
        return out.tolist()

    assert of(relu, [-2, 0, 3]) == [0, 0, 3]
    assert of(transpose, [[1, 2, 3], [4, 5, 6]]) == [[1, 4], [2, 5], [3, 6]]
    assert of(row_sum, [[1, 2], [3, -4]]) == [3, -1]
    assert of(matvec, [[1, 2], [3, -4]], [10, 1]) == [12, 26]
    assert of(softmax, [[0, 0, 0, 0]]) == [[0.25] * 4]
    quarters = of(softmax, [[1000, 1000 + np.log(3)]])
    np.testing.assert_allclose(quarters, [[0.25, 0.75]], rtol=1e-12)
    root = np.sqrt(12.5 + EPSILON)
    np.testing.assert_allclose(of(rms_norm, [[3, 4]], [1, 2]), [[3 / root, 8 / root]])
    root = np.sqrt(4 + EPSILON)
    np.testing.assert_allclose(
        of(layer_norm, [[1, 5]], [1, 10], [7, 0]), [[7 - 2 / root, 20 / root]]
    )
    np.testing.assert_allclose(of(gelu, [0, 1, -1]), [0, 0.841192, -0.158808], atol=1e-6)


def test_inputs_of_kernels_that_are_no_sums_of_products() -> None:
    problem = softmax.problem(8, 32)
    assert not problem.is_exact
    assert row_sum.problem(8, 32).is_exact
    (drawn,) = problem.integer_inputs(0)
    assert sorted(np.unique(drawn)) == [-4, -3, -2, -1, 1, 2, 3, 4]
    (one,) = softmax.problem(1, 1).integer_inputs(0)
    assert abs(one.item()) in range(1, 5)


@pytest.mark.parametrize("kernel", [softmax, rms_norm, layer_norm, gelu], ids=str)
def test_an_error_of_its_own_holds_and_is_not_much_too_large(kernel) -> None:
    """NumPy's float32, whose sums are of another order, is within the bound; bfloat16 is not."""
    problem = kernel.problem(*((64,) if kernel is gelu else (8, 64)))
    inputs = problem.float_inputs(5)
    (exact,), (bound,) = problem.reference(inputs), problem.error_bound(inputs)
    single = kernel.meaning.reference(*inputs, **problem.shape)
    assert (np.abs(single - exact) <= bound).all()
    narrow = [array.astype(dtype_facts("bfloat16").numpy).astype(float) for array in inputs]
    rough = kernel.meaning.reference(*narrow, **problem.shape)
    assert (np.abs(rough - exact) > bound).mean() > 0.5
    assert (bound < 1e-3 * np.abs(exact).max()).all()


@pytest.mark.parametrize("dtype", ["float8_e5m2", "float8_e4m3fn"])
def test_a_float8_that_overflows_may_be_the_largest_or_infinite(dtype: str) -> None:
    """CUDA's conversion saturates, and NumPy's does not."""
    problem = matmul.problem(1, 2, 1, dtype=dtype, out=dtype)
    facts = dtype_facts(dtype)
    most = np.array([[facts.largest]]).astype(facts.numpy)
    ((low, high),) = problem.error_interval([most, np.array([[2.0, -2.0]]).astype(facts.numpy)])
    assert (low[0, 0], high[0, 0]) == (facts.largest, np.inf)
    assert (low[0, 1], high[0, 1]) == (-np.inf, -facts.largest)
    ((low, high),) = problem.error_interval([most, np.array([[1.0, -0.5]]).astype(facts.numpy)])
    assert low[0, 0] <= facts.largest <= high[0, 0]
    assert -facts.largest < low[0, 1] <= high[0, 1] < 0


@pytest.mark.parametrize(("h", "w"), [(3, 3), (3, 2), (4, 3)])
def test_the_one_output_of_a_convolution_is_no_sum_of_zeros(h: int, w: int) -> None:
    """It raised a ValueError: the zeros of the first output were all that any output adds up."""
    problem = conv2d.problem(n=1, h=h, w=w, ci=2, co=3, kh=3, kw=2, stride=2, padding=0)
    for inputs in problem.integer_rounds(0):
        (sums,) = problem.reference(inputs)
        assert sums.all()


def test_a_convolution_that_sees_nothing_but_its_padding_has_whole_numbers() -> None:
    """One pixel, between two windows of one tap each."""
    problem = get_kernel("conv2d").problem(2, 3, 1, 2, 2, 1, 1, stride=3, padding=4)
    assert not np.any(problem.reference(problem.integer_inputs(0))[0])
    assert all(np.any(array) for array in problem.integer_inputs(0))


def test_gelu_of_a_sum_whose_sign_is_not_known_may_be_anything():
    """Its exponential is 0 or infinite; in a product of 4096 each way two of 16 million were so."""
    sums = Rounded(np.array([-1e28, -5.0]), dtype_facts("float32"), np.array([2e28, 0.0]))
    with np.errstate(over="ignore", invalid="ignore"):
        assert np.isinf(compute_gelu(sums).closed.error).tolist() == [True, False]
