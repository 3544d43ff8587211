"""Plans on functions that they were not written for, whose blocks have names of their own."""

from collections.abc import Callable
from typing import Any

import pytest
from pairs import refuses
from relax_functions import find_difference, half, make_functions
from tvm.relax import op
from tvm.s_tir import Schedule
from tvm.script import tirx as T
from tvm.tirx import Var

from tirstep.transforms import TransformError
from tirstep.transforms.plans import (
    FlatConfig,
    GemmConfig,
    MmaConfig,
    RowConfig,
    match_flat,
    match_matmul,
    match_rows,
    schedule_flat,
    schedule_function,
    schedule_matmul,
    schedule_rows,
)

X, Y = (7, 13), (13, 11)
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    # What is computed, of which tensors, and the plans of its functions.
    "gelu of a product": (lambda x, y: op.nn.gelu(op.matmul(x, y)), (X, Y), "matmul"),
    "batch that is repeated": (op.matmul, ((2, 1, 7, 8), (3, 8, 9)), "matmul"),
    "one row": (op.matmul, ((1, 64), (64, 48)), "matmul"),
    "transposed weights": (
        lambda x, y: op.matmul(x, op.permute_dims(y)),
        ((10, 16), (24, 16)),
        "matmul flat",
    ),
    "sums of integers": (op.matmul, ((8, 12, "int32"), (12, 16, "int32")), "matmul"),
    "bytes into integers": (
        lambda x, y: op.matmul(x, y, out_dtype="int32"),
        ((8, 12, "int8"), (12, 16, "int8")),
        "matmul",
    ),
    "dequantized weights": (
        lambda x, y: op.matmul(x, half(op.astype(y, "float32"))),
        ((7, 33), (33, 15, "int8")),
        "flat matmul",
    ),
    "product and softmax": (
        lambda x, y: op.nn.softmax(op.matmul(x, y)),
        (X, Y),
        "matmul rows",
    ),
    "vector by matrix": (op.matmul, ((64,), (64, 48)), "rows"),
    "matrix by vector": (op.matmul, ((48, 64), (64,)), "rows"),
    "layer norm": (
        lambda x, g, b: op.nn.layer_norm(x, g, b, axes=-1),
        ((2, 5, 48), (48,), (48,)),
        "rows",
    ),
    "RMS norm of halves": (
        lambda x, g: op.nn.rms_norm(x, g, axes=-1),
        ((2, 9, 48, "float16"), (48, "float16")),
        "rows",
    ),
    "softmax over rows inside": (lambda x: op.nn.softmax(x, axis=1), ((2, 7, 5),), "rows"),
    "softmax over rows in front": (lambda x: op.nn.softmax(x, axis=0), ((9, 6),), "rows"),
    "group norm of halves and SiLU": (
        lambda x, g, b: op.nn.silu(
            op.nn.group_norm(x, g, b, num_groups=4, channel_axis=1, axes=[2, 3])
        ),
        ((2, 8, 3, 5, "float16"), (8, "float16"), (8, "float16")),
        "rows",
    ),
    "log softmax": (lambda x: op.nn.log_softmax(x, axis=-1), ((6, 40),), "rows"),
    "mean": (lambda x: op.mean(x, axis=-1), ((4, 6, 33),), "rows"),
    "mean of a row read in rounds": (lambda x: op.mean(x, axis=-1), ((2, 33000),), "rows"),
    "mean that keeps its dimension": (
        lambda x: op.mean(x, axis=-1, keepdims=True),
        ((4, 6, 33),),
        "rows",
    ),
    "standard deviation": (lambda x: op.std(x, axis=1), ((4, 30),), "rows"),
    "sum of columns": (lambda x: op.sum(x, axis=0), ((9, 6),), "rows"),
    "sum of two dimensions": (lambda x: op.sum(x, axis=[1, 2]), ((3, 9, 6),), "rows"),
    "sum of everything": (op.sum, ((3, 9),), "rows"),
    "root of a sum of everything": (lambda x: op.sqrt(op.sum(x)), ((3, 9),), "rows flat"),
    "largest": (lambda x: op.max(x, axis=1), ((3, 70),), "rows"),
    "rows read in rounds": (op.nn.softmax, ((2, 40000),), "rows"),
    "windows": (lambda x: op.nn.max_pool2d(x, (2, 2)), ((1, 3, 8, 8),), "rows"),
    "gelu": (op.nn.gelu, ((3, 41),), "flat"),
    "two tensors side by side": (
        lambda x, y: op.concat([x, y], axis=1),
        ((3, 4), (3, 5)),
        "flat",
    ),
    "rows by number": (
        lambda x, y: op.take(x, y, axis=0, mode="clip"),
        ((10, 6), (4, "int32")),
        "flat",
    ),
    "larger ones": (lambda x, y: op.where(op.greater(x, y), x, y), ((5, 24), (5, 24)), "flat"),
    "truths": (op.greater, ((5, 24), (5, 24)), "flat"),
    "one number": (op.exp, ((),), "flat"),
    "halves that are added": (
        lambda x: op.add(op.split(x, 2, axis=1)[0], op.split(x, 2, axis=1)[1]),
        ((4, 30),),
        "flat",
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_models_are_scheduled_and_right(name: str) -> None:
    build, tensors, plans = FUNCTIONS[name]
    used = []
    for function in make_functions(build, *tensors).values():
        sch = Schedule(function)
        used.append(schedule_function(sch)[0])
        assert find_difference(sch.mod, function) == ""
    assert sorted(used) == sorted(plans.split())


@T.prim_func(private=True, s_tir=True)
def quantized(
    words: T.Buffer((T.int64(48), T.int64(8)), "uint32"),
    scale: T.Buffer((T.int64(48), T.int64(2)), "float16"),
    x: T.handle,
    bias: T.Buffer((T.int64(48),), "float16"),
    out: T.handle,
):
    """A linear layer of weights in four bits, by rows, for any number of rows of x."""
    n = T.int64()
    X = T.match_buffer(x, (T.int64(1), n, T.int64(64)), "float16")
    Y = T.match_buffer(out, (T.int64(1), n, T.int64(48)), "float16")
    bits = T.sblock_alloc_buffer((T.int64(48), T.int64(64)), "float16")
    weights = T.sblock_alloc_buffer((T.int64(48), T.int64(64)), "float16")
    sums = T.sblock_alloc_buffer((T.int64(1), n, T.int64(48)), "float16")
    for i, j in T.grid(T.int64(48), T.int64(64)):
        with T.sblock("bits"):
            vi, vj = T.axis.remap("SS", [i, j])
            shift: T.let[T.uint32] = T.Cast("uint32", vj % T.int64(8) * T.int64(4))
            bits[vi, vj] = T.Cast(
                "float16",
                T.bitwise_and(T.shift_right(words[vi, vj // T.int64(8)], shift), T.uint32(15)),
            )
    for i, j in T.grid(T.int64(48), T.int64(64)):
        with T.sblock("weights"):
            vi, vj = T.axis.remap("SS", [i, j])
            weights[vi, vj] = (bits[vi, vj] - T.float16(7)) * scale[vi, vj // T.int64(32)]
    for b, i, j, k in T.grid(T.int64(1), n, T.int64(48), T.int64(64)):
        with T.sblock("sums"):
            vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
            with T.init():
                sums[vb, vi, vj] = T.float16(0)
            sums[vb, vi, vj] = sums[vb, vi, vj] + X[vb, vi, vk] * weights[vj, vk]
    for b, i, j in T.grid(T.int64(1), n, T.int64(48)):
        with T.sblock("biased"):
            vb, vi, vj = T.axis.remap("SSS", [b, i, j])
            Y[vb, vi, vj] = sums[vb, vi, vj] + bias[vj]


@T.prim_func(private=True, s_tir=True)
def two_results(
    A: T.Buffer((32, 16), "float32"),
    B: T.Buffer((16, 24), "float32"),
    C: T.Buffer((32, 24), "float32"),
    D: T.Buffer((32, 24), "float32"),
):
    """A product, and what is positive of it: the sums are a result, too. Loops in another order."""
    for k, j, i in T.grid(16, 24, 32):
        with T.sblock("product"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(32, 24):
        with T.sblock("positive"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.max(C[vi, vj], T.float32(0))


@pytest.mark.parametrize("function", [quantized, two_results])
def test_functions_written_by_hand(function: Any) -> None:
    sch = Schedule(function)
    assert schedule_function(sch)[0] == "matmul"
    for rows in (5, 40):
        assert find_difference(sch.mod, function, rows) == ""


@T.prim_func(private=True, s_tir=True)
def packed_along_columns(
    words: T.Buffer((8, 48), "uint32"),
    scale: T.Buffer((2, 48), "float16"),
    X: T.Buffer((40, 64), "float16"),
    Y: T.Buffer((40, 48), "float16"),
):
    """Weights in four bits, eight rows of them to a row of words."""
    weights = T.sblock_alloc_buffer((64, 48), "float16")
    for i, j in T.grid(64, 48):
        with T.sblock("weights"):
            vi, vj = T.axis.remap("SS", [i, j])
            weights[vi, vj] = (
                T.Cast(
                    "float16",
                    T.bitwise_and(
                        T.shift_right(words[vi // 8, vj], T.Cast("uint32", vi % 8 * 4)),
                        T.uint32(15),
                    ),
                )
                - T.float16(7)
            ) * scale[vi // 32, vj]
    for i, j, k in T.grid(40, 48, 64):
        with T.sblock("sums"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                Y[vi, vj] = T.float16(0)
            Y[vi, vj] = Y[vi, vj] + X[vi, vk] * weights[vk, vj]


def test_tensor_cores_take_weights_packed_along_columns() -> None:
    sch = Schedule(packed_along_columns)
    assert isinstance(schedule_function(sch, tensor_cores=True)[1], MmaConfig)
    assert sch.mod.script().count('thread="blockIdx.x"') == 2
    assert find_difference(sch.mod, packed_along_columns) == ""


@T.prim_func(private=True, s_tir=True)
def repeated(
    A: T.Buffer((9, 16), "float32"),
    B: T.Buffer((7, 16), "float32"),
    D: T.Buffer((2, 3, 9, 7), "float32"),
):
    """Scores that are repeated, over more dimensions than the product has."""
    C = T.sblock_alloc_buffer((9, 7), "float32")
    for i, j, k in T.grid(9, 7, 16):
        with T.sblock("scores"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
    for a, b, i, j in T.grid(2, 3, 9, 7):
        with T.sblock("repeated"):
            va, vb, vi, vj = T.axis.remap("SSSS", [a, b, i, j])
            D[va, vb, vi, vj] = C[vi, vj] * T.float32(2)


def test_a_product_whose_results_are_repeated_is_two_kernels() -> None:
    sch = Schedule(repeated)
    assert schedule_function(sch)[0] == "matmul"
    assert find_difference(sch.mod, repeated) == ""


def make_moments(rows: int, length: int) -> Any:
    @T.prim_func(private=True, s_tir=True)
    def moments(
        X: T.Buffer((rows, length), "float16"),
        first: T.Buffer((rows, 1), "float32"),
        second: T.Buffer((rows, 1), "float32"),
    ):
        for i, k in T.grid(rows, length):
            with T.sblock("moments"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    first[vi, 0] = T.float32(0)
                    second[vi, 0] = T.float32(0)
                one: T.let[T.float32] = first[vi, 0] + T.cast(X[vi, vk], "float32")
                two: T.let[T.float32] = second[vi, 0] + T.cast(X[vi, vk] * X[vi, vk], "float32")
                first[vi, 0] = one
                second[vi, 0] = two

    return moments


@pytest.mark.parametrize("sizes", [(3, 33), (300, 64), (2, 20000)])  # the last in parts
def test_two_sums_at_a_time(sizes: tuple[int, int]) -> None:
    function = make_moments(*sizes)
    sch = Schedule(function)
    assert schedule_function(sch)[0] == "rows"
    assert find_difference(sch.mod, function) == ""


def make_logarithm(wanted: int) -> Any:
    @T.prim_func(private=True, s_tir=True)
    def logarithm(A: T.Buffer((5, 40), "float32"), B: T.Buffer((5,), "float32")):
        """The finish goes over a dimension of one more, which is no row."""
        sums = T.sblock_alloc_buffer((5,), "float32")
        for i, k in T.grid(5, 40):
            with T.sblock("sums"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    sums[vi] = T.float32(0)
                sums[vi] = sums[vi] + T.exp(A[vi, vk])
        for i, k in T.grid(5, wanted):
            with T.sblock("logarithm"):
                vi, vk = T.axis.remap("SS", [i, k])
                B[vi] = T.log(sums[vi])

    return logarithm


def test_a_dimension_of_one_is_no_row() -> None:
    sch = Schedule(make_logarithm(1))
    assert schedule_function(sch)[0] == "rows"
    assert find_difference(sch.mod, make_logarithm(1)) == ""
    assert not match_rows(Schedule(make_logarithm(2)))


def test_a_function_without_a_root_block_is_left_with_reasons() -> None:
    @T.prim_func(private=True, s_tir=True)
    def library(A: T.Buffer((8,), "float32")):
        with T.sblock("library"):
            T.reads()
            T.writes()
            T.evaluate(T.call_packed("no.library", A.data))

    with pytest.raises(TransformError, match="no blocks under a root block"):
        schedule_function(Schedule(library))


@T.prim_func(private=True, s_tir=True)
def backwards(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 16):
        with T.sblock("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = A[vi, vk] + B[vi]


def test_a_sum_that_tvm_does_not_know_over_threads_is_left_alone() -> None:
    assert "with x in front" in str(match_rows(Schedule(backwards)))


def get_only(build: Callable[..., Any], *tensors: Any) -> Any:
    (function,) = make_functions(build, *tensors).values()
    return function


N, M = Var("n", "int64"), Var("m", "int64")
OPEN: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "product over an open size": (op.matmul, ((N, M), (M, 12))),
    "softmax of open rows": (op.nn.softmax, ((M, N),)),
    "norm of rows without number": (
        lambda x, g, b: op.nn.layer_norm(x, g, b, axes=-1),
        ((M, N, 48), (48,), (48,)),
    ),
    "mean over a dimension inside": (lambda x: op.mean(x, axis=1), ((M, N, 5),)),
    "sum of two open tensors": (op.add, ((M, N), (N,))),
}


@pytest.mark.parametrize("name", OPEN)
def test_sizes_may_be_left_open(name: str) -> None:
    build, tensors = OPEN[name]
    function = get_only(build, *tensors)
    sch = Schedule(function)
    schedule_function(sch)
    for sizes in ({"m": 1, "n": 1}, {"m": 3, "n": 70}):
        assert find_difference(sch.mod, function, **sizes) == ""


def test_a_convolution_is_left_to_others() -> None:
    sch = Schedule(get_only(op.nn.conv2d, (1, 3, 8, 8), (4, 3, 3, 3)))
    with pytest.raises(TransformError, match="several tensors again for other results"):
        schedule_function(sch)


def test_vectors_that_cuda_does_not_compile_are_not_made() -> None:
    """Eight halves that lie apart: TVM calls make_uint4 with eight of them."""
    function = get_only(lambda x: op.permute_dims(x, [0, 2, 1]), (2, 16, 24, "float16"))
    sch = Schedule(function)
    config = FlatConfig(vector=8, tail="guard")
    with pytest.raises(TransformError, match="gathers vectors of 8 elements of 16 bits out of"):
        schedule_flat(sch, match_flat(sch).blocks[0], config=config)
    sch = Schedule(function)
    assert schedule_function(sch)[1].vector == 1
    assert find_difference(sch.mod, function) == ""


def test_a_function_that_no_plan_takes_is_refused_with_all_reasons() -> None:
    sch = Schedule(get_only(lambda x: op.argmax(x, axis=1), (3, 70)))
    before = sch.mod.script()
    with pytest.raises(TransformError, match=r"no matmul: .*; no rows: .*; no flat: .*; schedule"):
        schedule_function(sch)
    assert sch.mod.script() == before


def test_schedule_matmul_refuses_a_tile_that_does_not_divide() -> None:
    sch = Schedule(get_only(op.matmul, X, Y))
    block = match_matmul(sch).blocks[0]
    with refuses(sch, "schedule_matmul: tile_in_warps: loop 'i0' runs 7 times"):
        schedule_matmul(sch, block, config=GemmConfig())


def test_schedule_rows_refuses_blocks_that_are_not_all() -> None:
    sch = Schedule(get_only(lambda x: op.nn.softmax(x, axis=-1), (6, 40)))
    blocks = list(match_rows(sch).blocks)
    with refuses(sch, "schedule_rows: of the function's blocks .* are left, and 2 are to share"):
        schedule_rows(sch, blocks[2:], config=RowConfig(threads=32, tail="guard"))


def test_schedule_flat_refuses_a_reduction() -> None:
    sch = Schedule(get_only(lambda x: op.sum(x, axis=1), (6, 40)))
    block = match_rows(sch).blocks[0]
    with refuses(sch, "schedule_flat: block '.*' reduces; use schedule_rows or schedule_matmul"):
        schedule_flat(sch, block, config=FlatConfig())
