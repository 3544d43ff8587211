"""Plans on functions that they were not written for, whose blocks have names of their own."""

from collections.abc import Callable
from typing import Any

import pytest
from kernels import parse_kernel
from pairs import refuses
from relax_functions import find_difference, half, make_functions
from tvm.relax import op
from tvm.s_tir import Schedule
from tvm.script import tirx as T
from tvm.tirx import For, Var

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
from tirstep.transforms.tir import find_all, get_axis

X, Y = (7, 13), (13, 11)
# By name: the plans of its functions, what is computed, and of which tensors.
FUNCTIONS = """
gelu of a product | matmul | op.nn.gelu(op.matmul(x, y)) | X, Y
batch that is repeated | matmul | op.matmul(x, y) | (2, 1, 7, 8), (3, 8, 9)
one row | matmul | op.matmul(x, y) | (1, 64), (64, 48)
transposed weights | matmul flat | op.matmul(x, op.permute_dims(y)) | (10, 16), (24, 16)
sums of integers | matmul | op.matmul(x, y) | (8, 12, "int32"), (12, 16, "int32")
bytes into integers | matmul | op.matmul(x, y, out_dtype="int32")
    | (8, 12, "int8"), (12, 16, "int8")
dequantized weights | flat matmul | op.matmul(x, half(op.astype(y, "float32")))
    | (7, 33), (33, 15, "int8")
product and softmax | matmul rows | op.nn.softmax(op.matmul(x, y)) | X, Y
vector by matrix | rows | op.matmul(x, y) | (64,), (64, 48)
matrix by vector | rows | op.matmul(x, y) | (48, 64), (64,)
layer norm | rows | op.nn.layer_norm(x, y, z, axes=-1) | (2, 5, 48), (48,), (48,)
RMS norm of halves | rows | op.nn.rms_norm(x, y, axes=-1) | (2, 9, 48, "float16"), (48, "float16")
softmax over rows inside | rows | op.nn.softmax(x, axis=1) | (2, 7, 5),
softmax over rows in front | rows | op.nn.softmax(x, axis=0) | (9, 6),
group norm of halves and SiLU | rows
    | op.nn.silu(op.nn.group_norm(x, y, z, num_groups=4, channel_axis=1, axes=[2, 3]))
    | (2, 8, 3, 5, "float16"), (8, "float16"), (8, "float16")
log softmax | rows | op.nn.log_softmax(x, axis=-1) | (6, 40),
mean | rows | op.mean(x, axis=-1) | (4, 6, 33),
mean of a row read in rounds | rows | op.mean(x, axis=-1) | (2, 33000),
mean that keeps its dimension | rows | op.mean(x, axis=-1, keepdims=True) | (4, 6, 33),
standard deviation | rows | op.std(x, axis=1) | (4, 30),
sum of columns | rows | op.sum(x, axis=0) | (9, 6),
sum of two dimensions | rows | op.sum(x, axis=[1, 2]) | (3, 9, 6),
sum of everything | rows | op.sum(x) | (3, 9),
root of a sum of everything | rows flat | op.sqrt(op.sum(x)) | (3, 9),
largest | rows | op.max(x, axis=1) | (3, 70),
rows read in rounds | rows | op.nn.softmax(x) | (2, 40000),
windows | rows | op.nn.max_pool2d(x, (2, 2)) | (1, 3, 8, 8),
gelu | flat | op.nn.gelu(x) | (3, 41),
two tensors side by side | flat | op.concat([x, y], axis=1) | (3, 4), (3, 5)
rows by number | flat | op.take(x, y, axis=0, mode="clip") | (10, 6), (4, "int32")
larger ones | flat | op.where(op.greater(x, y), x, y) | (5, 24), (5, 24)
truths | flat | op.greater(x, y) | (5, 24), (5, 24)
one number | flat | op.exp(x) | (),
halves that are added | flat | op.add(op.split(x, 2, axis=1)[0], op.split(x, 2, axis=1)[1])
    | (4, 30),
"""
TABLE = [row.split(" | ") for row in FUNCTIONS.replace("\n    |", " |").strip().split("\n")]


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("plans", "result", "tensors"), [pytest.param(*row[1:], id=row[0]) for row in TABLE]
)
def test_functions_of_models_are_scheduled_and_right(plans: str, result: str, tensors: str) -> None:
    given = eval(f"({tensors})")
    build = eval(f"lambda {', '.join('xyz'[: len(given)])}: {result}", {"op": op, "half": half})
    used = []
    for function in make_functions(build, *given).values():
        sch = Schedule(function)
        used.append(schedule_function(sch)[0])
        assert find_difference(sch.mod, function) == ""
    assert sorted(used) == sorted(plans.split())


# A linear layer of weights in four bits, by rows, for any number of rows of x.
quantized = parse_kernel("""
    words (48, 8) uint32, scale (48, 2) float16, X (1, n, 64) float16, bias (48,) float16,
    Y (1, n, 48) float16
    bits = T.sblock_alloc_buffer((48, 64), "float16")
    weights = T.sblock_alloc_buffer((48, 64), "float16")
    sums = T.sblock_alloc_buffer((1, n, 48), "float16")
    for i, j in T.grid(48, 64):
        with T.sblock("bits", "SS", i, j):
            shift: T.let[T.uint32] = T.Cast("uint32", vj % 8 * 4)
            bits[vi, vj] = T.Cast(
                "float16",
                T.bitwise_and(T.shift_right(words[vi, vj // 8], shift), T.uint32(15)),
            )
    for i, j in T.grid(48, 64):
        with T.sblock("weights", "SS", i, j):
            weights[vi, vj] = (bits[vi, vj] - T.float16(7)) * scale[vi, vj // 32]
    for b, i, j, k in T.grid(1, n, 48, 64):
        with T.sblock("sums", "SSSR", b, i, j, k):
            sums[vb, vi, vj] += X[vb, vi, vk] * weights[vj, vk]
    for b, i, j in T.grid(1, n, 48):
        with T.sblock("biased", "SSS", b, i, j):
            Y[vb, vi, vj] = sums[vb, vi, vj] + bias[vj]
""")["main"]


# A product, and what is positive of it: the sums are a result, too. Loops in another order.
two_results = parse_kernel("""
    A (32, 16), B (16, 24), C (32, 24), D (32, 24)
    for k, j, i in T.grid(16, 24, 32):
        with T.sblock("product", "SSR", i, j, k):
            C[vi, vj] += A[vi, vk] * B[vk, vj]
    for i, j in T.grid(32, 24):
        with T.sblock("positive", "SS", i, j):
            D[vi, vj] = T.max(C[vi, vj], T.float32(0))
""")["main"]


@pytest.mark.parametrize("function", [quantized, two_results])
def test_functions_written_by_hand(function: Any) -> None:
    sch = Schedule(function)
    assert schedule_function(sch)[0] == "matmul"
    for rows in (5, 40):
        assert find_difference(sch.mod, function, rows) == ""


# Weights in four bits, eight rows of them to a row of words.
packed_along_columns = parse_kernel("""
    words (8, 48) uint32, scale (2, 48) float16, X (40, 64) float16, Y (40, 48) float16
    weights = T.sblock_alloc_buffer((64, 48), "float16")
    for i, j in T.grid(64, 48):
        with T.sblock("weights", "SS", i, j):
            shifted = T.meta_var(T.shift_right(words[vi // 8, vj], T.Cast("uint32", vi % 8 * 4)))
            number = T.meta_var(T.Cast("float16", T.bitwise_and(shifted, T.uint32(15))))
            weights[vi, vj] = (number - T.float16(7)) * scale[vi // 32, vj]
    for i, j, k in T.grid(40, 48, 64):
        with T.sblock("sums", "SSR", i, j, k):
            Y[vi, vj] += X[vi, vk] * weights[vk, vj]
""")["main"]


def test_tensor_cores_take_weights_packed_along_columns() -> None:
    sch = Schedule(packed_along_columns)
    assert isinstance(schedule_function(sch, tensor_cores=True)[1], MmaConfig)
    assert sch.mod.script().count('thread="blockIdx.x"') == 2
    assert find_difference(sch.mod, packed_along_columns) == ""


# Scores that are repeated, over more dimensions than the product has.
repeated = parse_kernel("""
    A (9, 16), B (7, 16), D (2, 3, 9, 7)
    C = T.sblock_alloc_buffer((9, 7), "float32")
    for i, j, k in T.grid(9, 7, 16):
        with T.sblock("scores", "SSR", i, j, k):
            C[vi, vj] += A[vi, vk] * B[vj, vk]
    for a, b, i, j in T.grid(2, 3, 9, 7):
        with T.sblock("repeated", "SSSS", a, b, i, j):
            D[va, vb, vi, vj] = C[vi, vj] * T.float32(2)
""")["main"]


def test_a_product_whose_results_are_repeated_is_two_kernels() -> None:
    sch = Schedule(repeated)
    assert schedule_function(sch)[0] == "matmul"
    assert find_difference(sch.mod, repeated) == ""


def make_moments(rows: int, length: int) -> Any:
    return parse_kernel(f"""
        X ({rows}, {length}) float16, first ({rows}, 1), second ({rows}, 1)
        for i, k in T.grid({rows}, {length}):
            with T.sblock("moments", "SR", i, k):
                with T.init():
                    first[vi, 0] = T.float32(0)
                    second[vi, 0] = T.float32(0)
                one: T.let[T.float32] = first[vi, 0] + T.cast(X[vi, vk], "float32")
                two: T.let[T.float32] = second[vi, 0] + T.cast(X[vi, vk] * X[vi, vk], "float32")
                first[vi, 0] = one
                second[vi, 0] = two
    """)["main"]


@pytest.mark.parametrize("sizes", [(3, 33), (300, 64), (2, 20000)])  # the last in parts
def test_two_sums_at_a_time(sizes: tuple[int, int]) -> None:
    function = make_moments(*sizes)
    sch = Schedule(function)
    assert schedule_function(sch)[0] == "rows"
    assert find_difference(sch.mod, function) == ""


@pytest.mark.parametrize(
    ("build", "shapes"),
    [
        (op.nn.softmax, [(1, 2, 40000)]),
        (op.nn.softmax, [(1, 2, 1, 33001)]),
        (lambda x, y, z: op.nn.layer_norm(x, y, z, axes=-1), [(2, 1, 40000), (40000,), (40000,)]),
        (lambda x: op.mean(x, axis=-1), [(1, 2, 70000)]),
    ],
)
def test_long_rows_of_several_dimensions_in_parts(build: Callable, shapes: list) -> None:
    function = get_only(build, *shapes)
    sch = Schedule(function)
    assert schedule_function(sch)[0] == "rows"
    kernels = [
        each for each in find_all(sch.mod["main"].body, For) if get_axis(each) == "blockIdx.x"
    ]
    assert len(kernels) == 2
    names = {str(loop.loop_var.name) for loop in find_all(sch.mod["main"].body, For)}
    assert all(map(str.isidentifier, names)), "CUDA has no such name"
    assert find_difference(sch.mod, function) == ""


def make_logarithm(wanted: int) -> Any:
    """The finish goes over a dimension of one more, which is no row."""
    return parse_kernel(f"""
        A (5, 40), B (5,)
        sums = T.sblock_alloc_buffer((5,), "float32")
        for i, k in T.grid(5, 40):
            with T.sblock("sums", "SR", i, k):
                sums[vi] += T.exp(A[vi, vk])
        for i, k in T.grid(5, {wanted}):
            with T.sblock("logarithm", "SS", i, k):
                B[vi] = T.log(sums[vi])
    """)["main"]


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


backwards = parse_kernel("""
    A (8, 16), B (8,)
    for i, k in T.grid(8, 16):
        with T.sblock("B", "SR", i, k):
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = A[vi, vk] + B[vi]
""")["main"]


def test_a_sum_that_tvm_does_not_know_over_threads_is_left_alone() -> None:
    assert "with x first" in str(match_rows(Schedule(backwards)))


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
    with pytest.raises(TransformError, match="gathers vectors of 8 elements of 16 bits from"):
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
