"""Transforms on other people's kernels: names, numbers of loops, types, shapes and functions."""

import numpy as np
import pytest
import tvm
from kernels import Nested, OpenMatmul, ScaleOne, parse_kernel
from pairs import check_trace, compile_for_cuda, find_block_names, refuses, run_on_cpu
from tvm.s_tir import Schedule
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.transforms import (
    accumulate_in_registers,
    bind_loop,
    cache_read_at,
    decompose_reduction_at,
    fetch_cooperatively,
    fuse_loops,
    pad_block,
    pad_shared_rows,
    reorder_loops,
    split_loop,
    split_reduction,
    stage_operand_at,
    tile_block,
    vectorize_loop,
)

# A batched product with a transposed operand and names of its own.
Attention = parse_kernel("""
    heads (3, 20, 12), keys (3, 28, 12), scores (3, 20, 28)
    for head, query, key, depth in T.grid(3, 20, 28, 12):
        with T.sblock("attention_scores"):
            vh, vq, vk, vd = T.axis.remap("SSSR", [head, query, key, depth])
            scores[vh, vq, vk] += heads[vh, vq, vd] * keys[vh, vk, vd]
""")


def make_product(dtype, total, shape=(12, 8, 20)):
    """A product with sums of another type."""
    m, n, k = shape

    @I.ir_module
    class Product:
        @T.prim_func(s_tir=True)
        def main(
            A: T.Buffer((m, k), dtype),
            B: T.Buffer((k, n), dtype),
            C: T.Buffer((m, n), total),
        ):
            for i, j, x in T.grid(m, n, k):
                with T.sblock("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, x])
                    with T.init():
                        C[vi, vj] = T.Cast(total, 0)
                    C[vi, vj] = C[vi, vj] + T.Cast(total, A[vi, vk]) * T.Cast(total, B[vk, vj])

    return Product


def draw_integers(seed, *shape, dtype="float32"):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def schedule_product(sch, block, tail="refuse", vector=1):
    """Tile, registers and shared memory for the last two spatial loops of a product."""
    tile = tile_block(sch, block, threads=(2, 4), per_thread=(2, 1), tail=tail)
    accumulate_in_registers(sch, block, tile.threads[1])
    steps = split_reduction(sch, block, inner=4, tail=tail)
    for operand in (0, 1):
        stage_operand_at(sch, block, steps.outer, operand=operand, threads=(2, 4), vector=vector)
    decompose_reduction_at(sch, block, steps.outer)
    return tile


def test_a_batched_product_with_names_of_its_own():
    sch = Schedule(Attention, debug_mask="all")
    block = sch.get_sblock("attention_scores")
    head, *_ = sch.get_loops(block)
    bind_loop(sch, head, axis="blockIdx.z")
    schedule_product(sch, block)
    check_trace(sch, Attention)
    heads, keys = draw_integers(1, 3, 20, 12), draw_integers(2, 3, 28, 12)
    result = run_on_cpu(sch.mod, heads, keys, output=(3, 20, 28), dtype="float32")
    np.testing.assert_array_equal(result, heads @ keys.transpose(0, 2, 1))
    assert "__launch_bounds__(8)" in compile_for_cuda(sch.mod)


def test_a_batched_product_with_three_tiled_loops_and_padded_rows():
    sch = Schedule(Attention, debug_mask="all")
    block = sch.get_sblock("attention_scores")
    tile = tile_block(sch, block, threads=(1, 4, 7), axes=("z", "y", "x"))
    steps = split_reduction(sch, block, inner=4)
    for operand in (0, 1):
        copy = cache_read_at(sch, block, steps.outer, operand=operand, scope="shared.dyn")
        pad_shared_rows(sch, copy, elements=1)
        fetch_cooperatively(sch, copy, threads=(1, 4, 7), tail="guard")
    assert [int(sch.get(loop).extent) for loop in tile.threads] == [1, 4, 7]
    heads, keys = draw_integers(1, 3, 20, 12), draw_integers(2, 3, 28, 12)
    result = run_on_cpu(sch.mod, heads, keys, output=(3, 20, 28), dtype="float32")
    np.testing.assert_array_equal(result, heads @ keys.transpose(0, 2, 1))
    assert "__launch_bounds__(28)" in compile_for_cuda(sch.mod)


def test_a_kernel_of_one_loop():
    Saxpy = parse_kernel("""
        x (96,), y (96,)
        for n in range(96):
            with T.sblock("update"):
                v = T.axis.spatial(96, n)
                y[v] = x[v] * T.float32(3)
    """)

    sch = Schedule(Saxpy, debug_mask="all")
    tile = tile_block(sch, sch.get_sblock("update"), threads=(8,), per_thread=(4,))
    vectorize_loop(sch, tile.locals[0])
    numbers = draw_integers(3, 96)
    result = run_on_cpu(sch.mod, numbers, output=(96,), dtype="float32")
    np.testing.assert_array_equal(result, 3 * numbers)
    assert "*(float4*)(y_ptr" in compile_for_cuda(sch.mod)


@pytest.mark.parametrize(
    ("dtype", "total", "vector", "word"),
    [
        ("float16", "float32", 4, "half4"),
        ("int8", "int32", 4, "int"),
        ("float64", "float64", 2, "double2"),
    ],
)
def test_products_of_other_types(dtype, total, vector, word):
    module = make_product(dtype, total)
    sch = Schedule(module, debug_mask="all")
    schedule_product(sch, sch.get_sblock("C"), vector=vector)
    check_trace(sch, module)
    a, b = draw_integers(4, 12, 20, dtype=dtype), draw_integers(5, 20, 8, dtype=dtype)
    result = run_on_cpu(sch.mod, a, b, output=(12, 8), dtype=total)
    np.testing.assert_array_equal(result, a.astype(total) @ b.astype(total))
    assert f"*({word}*)(B_shared_ptr" in compile_for_cuda(sch.mod)


def test_a_symbolic_product_is_refused_with_what_to_do():
    sch = Schedule(OpenMatmul, debug_mask="all")
    block = sch.get_sblock("C")
    with refuses(
        sch,
        r"tile_block: loop 'i' has the symbolic extent m, of which threads=2 \* per_thread=1 may be"
        r" no divisor; pass tail=\"guard\", or pad the block first with pad_block",
    ):
        tile_block(sch, block, threads=(2, 4))
    with refuses(sch, "split_reduction: loop 'x' has the symbolic extent k, of which inner=4 may"):
        split_reduction(sch, block, inner=4)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (7, 5, 3), (8, 8, 8), (13, 17, 11)])
def test_a_symbolic_product_with_guards(m, n, k):
    sch = Schedule(OpenMatmul)
    tile_block(sch, sch.get_sblock("C"), threads=(2, 4), per_thread=(2, 1), tail="guard")
    split_reduction(sch, sch.get_sblock("C"), inner=4, tail="guard")
    check_trace(sch, OpenMatmul)
    a, b = draw_integers(6, m, k), draw_integers(7, k, n)
    result = run_on_cpu(sch.mod, a, b, output=(m, n), dtype="float32")
    np.testing.assert_array_equal(result, a @ b)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (7, 5, 3), (8, 8, 8), (13, 17, 11)])
def test_a_symbolic_product_that_is_padded_needs_no_guards(m, n, k):
    sch = Schedule(OpenMatmul)
    block = sch.get_sblock("C")
    pad_block(sch, block, multiples=(4, 4, 4))
    schedule_product(sch, block)
    a, b = draw_integers(6, m, k), draw_integers(7, k, n)
    result = run_on_cpu(sch.mod, a, b, output=(m, n), dtype="float32")
    np.testing.assert_array_equal(result, a @ b)
    assert "__launch_bounds__(8)" in compile_for_cuda(sch.mod)


def make_functions():
    """Two functions with blocks of the same names."""
    texts = [
        Attention.script().replace("def main(", f"def {name}(") for name in ("first", "second")
    ]
    functions = [tvm.script.from_source(text).functions_items()[0] for text in texts]
    return tvm.IRModule(dict(functions))


def test_the_function_that_is_worked_on():
    sch = Schedule(make_functions(), debug_mask="all")
    sch.work_on("second")
    block = sch.get_sblock("attention_scores")
    pad_block(sch, block, multiples=(1, 8, 4, 4))
    schedule_product(sch, block)
    names = find_block_names(sch.mod)
    assert names["first"] == ["root", "attention_scores"]
    assert names["second"][1:] == [
        "attention_scores_init",
        "heads_pad_shared",
        "keys_shared",
        "attention_scores_update",
        "scores_pad",
    ]


def test_handles_of_a_function_that_is_not_worked_on():
    sch = Schedule(make_functions(), debug_mask="all")
    sch.work_on("first")
    block = sch.get_sblock("attention_scores", func_name="second")
    padding = pad_block(sch, block, multiples=(1, 8, 4, 4))
    assert [sch.get(copy).name_hint for copy in padding.operands] == ["heads_pad"]
    tile = tile_block(sch, block, threads=(4, 4))
    copy = cache_read_at(sch, block, tile.threads[1], operand=1)
    pad_shared_rows(sch, copy, elements=1)
    with refuses(sch, "rows of 'keys_shared' are padded to 13 elements, so that vectors of 4"):
        fetch_cooperatively(sch, copy, threads=(4, 4), vector=4, tail="guard")
    with refuses(sch, "accumulate_in_registers: .*'scores_pad_local'"):
        accumulate_in_registers(sch, block, tile.threads[0])
    assert find_block_names(sch.mod)["first"] == ["root", "attention_scores"]


def test_a_block_without_loops():
    sch = Schedule(ScaleOne)
    block = sch.get_sblock("B")
    with refuses(sch, "threads has 1 entries, and block 'B' has 0 spatial loops"):
        tile_block(sch, block, threads=(1,))
    with refuses(sch, "block 'B' has 0 reduction loops, not one"):
        split_reduction(sch, block, inner=1)
    with refuses(sch, "block 'B' does not have one loop for each of its 1 iterators"):
        pad_block(sch, block, multiples=(4,))


def test_a_block_inside_of_another():
    sch = Schedule(Nested, debug_mask="all")
    i, j = sch.get_loops(sch.get_sblock("outer"))
    x, y = sch.get_loops(sch.get_sblock("inner"))
    bind_loop(sch, i, axis="blockIdx.x")
    bind_loop(sch, j, axis="threadIdx.y")
    with refuses(sch, "'threadIdx.y' already drives loop 'j' of block 'inner', so that only the"):
        bind_loop(sch, y, axis="threadIdx.y")
    with refuses(
        sch, "runs 4 times, and 'blockIdx.x' has the extent 8|'blockIdx.x' already drives"
    ):
        bind_loop(sch, x, axis="blockIdx.x")
    bind_loop(sch, y, axis="threadIdx.x")
    numbers = draw_integers(8, 32, 20)
    result = run_on_cpu(sch.mod, numbers, output=(32, 20), dtype="float32")
    np.testing.assert_array_equal(result, numbers)
    assert "__launch_bounds__(20)" in compile_for_cuda(sch.mod)


def test_fused_blocks_of_a_grid():
    sch = Schedule(Attention, debug_mask="all")
    block = sch.get_sblock("attention_scores")
    head, query, key, _ = sch.get_loops(block)
    outer, inner = split_loop(sch, key, inner=7)
    grid = fuse_loops(sch, [head, query, outer])
    bind_loop(sch, grid, axis="blockIdx.x")
    bind_loop(sch, inner, axis="threadIdx.x")
    heads, keys = draw_integers(1, 3, 20, 12), draw_integers(2, 3, 28, 12)
    result = run_on_cpu(sch.mod, heads, keys, output=(3, 20, 28), dtype="float32")
    np.testing.assert_array_equal(result, heads @ keys.transpose(0, 2, 1))


def test_strided_tiles_of_virtual_threads():
    module = make_product("float32", "float32", (32, 32, 16))
    sch = Schedule(module, debug_mask="all")
    block = sch.get_sblock("C")
    i, j, k = sch.get_loops(block)
    i_block, i_virtual, i_thread, i_own = sch.split(i, [None, 2, 4, 2])
    j_block, j_virtual, j_thread, j_own = sch.split(j, [None, 2, 4, 2])
    reorder_loops(
        sch, [i_block, j_block, i_virtual, j_virtual, i_thread, j_thread, k, i_own, j_own]
    )
    bind_loop(sch, i_block, axis="blockIdx.y")
    bind_loop(sch, j_block, axis="blockIdx.x")
    bind_loop(sch, fuse_loops(sch, [i_virtual, j_virtual]), axis="vthread.x")
    thread = fuse_loops(sch, [i_thread, j_thread])
    bind_loop(sch, thread, axis="threadIdx.x")
    accumulate_in_registers(sch, block, thread)
    steps = split_reduction(sch, block, inner=8)
    for operand in (0, 1):
        stage_operand_at(sch, block, steps.outer, operand=operand, threads=16, vector=4)
        cache_read_at(sch, block, steps.inner, operand=operand, scope="local")
    decompose_reduction_at(sch, block, steps.outer)
    check_trace(sch, module)
    a, b = draw_integers(4, 32, 16), draw_integers(5, 16, 32)
    result = run_on_cpu(sch.mod, a, b, output=(32, 32), dtype="float32")
    np.testing.assert_array_equal(result, a @ b)
    assert "__launch_bounds__(16)" in compile_for_cuda(sch.mod)
