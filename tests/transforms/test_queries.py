"""Questions about a schedule."""

import inspect

import pytest
import tvm_ffi
from kernels import Nested, ScaleOne, parse_kernel
from tvm.s_tir import SBlockRealize, Schedule
from tvm.script import ir as I
from tvm.script import tirx as T
from tvm.tirx.analysis import undefined_vars

from tirstep.transforms import (
    bind_loop,
    decompose_reduction_at,
    find_epilogue,
    fuse_loops,
    get_reduction_loops,
    get_spatial_loops,
    pad_shared_rows,
    queries,
    split_loop,
    tile_block,
    tir,
    unroll_loop,
    vectorize_loop,
)

# Two reductions and a result that two blocks read.
Attention = parse_kernel("""
    A (4, 16, 6), B (4, 6, 12), D (4, 16), E (4, 16, 12)
    C = T.sblock_alloc_buffer((4, 16, 12))
    for b, i, j, k in T.grid(4, 16, 12, 6):
        with T.sblock("scores"):
            vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
            C[vb, vi, vj] += A[vb, vi, vk] * B[vb, vk, vj]
    for b, i, j in T.grid(4, 16, 12):
        with T.sblock("sums"):
            vb, vi, vj = T.axis.remap("SSR", [b, i, j])
            D[vb, vi] += C[vb, vi, vj]
    for b, i, j in T.grid(4, 16, 12):
        with T.sblock("shares"):
            vb, vi, vj = T.axis.remap("SSS", [b, i, j])
            E[vb, vi, vj] = C[vb, vi, vj] / D[vb, vi]
""")


def start(module=Attention):
    return Schedule(module, debug_mask="all")


def name_loops(sch, loops):
    return [queries.get_loop_name(sch, loop) for loop in loops]


def test_spatial_and_reduction_loops():
    sch = start()
    block = sch.get_sblock("scores")
    assert name_loops(sch, get_spatial_loops(sch, block)) == ["b", "i", "j"]
    assert name_loops(sch, get_reduction_loops(sch, block)) == ["k"]
    _, i, _, k = sch.get_loops(block)
    split_loop(sch, k, inner=2)
    split_loop(sch, i, inner=4)
    assert name_loops(sch, get_spatial_loops(sch, block)) == ["b", "i_0", "i_1", "j"]
    assert name_loops(sch, get_reduction_loops(sch, block)) == ["k_0", "k_1"]


def test_a_fused_loop_that_feeds_both_is_a_reduction_loop():
    sch = start()
    block = sch.get_sblock("scores")
    *_, j, k = sch.get_loops(block)
    fuse_loops(sch, [j, k])
    assert name_loops(sch, get_reduction_loops(sch, block)) == ["j_k_fused"]


def test_a_decomposed_reduction_keeps_its_reduction_loops():
    sch = start()
    block = sch.get_sblock("scores")
    init = decompose_reduction_at(sch, block, sch.get_loops(block)[-1])
    assert name_loops(sch, get_reduction_loops(sch, block)) == ["k"]
    assert get_reduction_loops(sch, init) == []


def test_a_block_without_loops_has_neither():
    sch = start(ScaleOne)
    block = sch.get_sblock("B")
    assert get_spatial_loops(sch, block) == []
    assert get_reduction_loops(sch, block) == []
    assert find_epilogue(sch, block) is None


def test_an_epilogue_is_the_one_consumer_of_an_intermediate_buffer():
    sch = start()
    scores, sums, shares = (sch.get_sblock(name) for name in ("scores", "sums", "shares"))
    assert find_epilogue(sch, scores) is None  # two consumers
    assert find_epilogue(sch, sums) is None  # D is an output
    assert find_epilogue(sch, shares) is None  # no consumer
    copy = sch.cache_write(sums, 0, "global")
    assert sch.get(find_epilogue(sch, sums)).same_as(sch.get(copy))


def test_an_extent_is_a_number_or_none():
    @I.ir_module
    class Symbolic:
        @T.prim_func(s_tir=True)
        def main(a: T.handle):
            n = T.int64()
            A = T.match_buffer(a, (n, 20), "float32")
            for i, j in T.grid(n, T.int64(20)):
                with T.sblock("A"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    A[vi, vj] = T.float32(0)

    sch = start(Symbolic)
    loops = sch.get_loops(sch.get_sblock("A"))
    assert [queries.get_extent(sch, loop) for loop in loops] == [None, 20]


def test_kinds_of_loops_have_words():
    sch = start()
    block = sch.get_sblock("shares")
    b, i, j = sch.get_loops(block)
    outer, inner = split_loop(sch, j, inner=4)
    bind_loop(sch, b, axis="blockIdx.x")
    unroll_loop(sch, i)
    sch.parallel(outer)
    vectorize_loop(sch, inner)
    kinds = [tir.get_kind(sch.get(loop)) for loop in sch.get_loops(block)]
    assert kinds == ["thread-bound", "unrolled", "parallel", "vectorized"]
    assert tir.get_axis(sch.get(b)) == "blockIdx.x"
    assert tir.get_axis(sch.get(i)) is None


def test_loops_around_a_block_end_at_the_block_around_it():
    sch = start(Nested)
    inner = sch.get_sblock("inner")
    outside = [loop.loop_var.name for loop in queries.get_outer_loops(sch, inner)]
    around = [loop.loop_var.name for loop in queries.get_enclosing_loops(sch, inner)]
    assert outside == ["x", "y"]
    assert around == ["i", "j", "x", "y"]
    i, _ = sch.get_loops(sch.get_sblock("outer"))
    assert not queries.is_around(sch, i, inner)


def test_a_kernel_begins_at_its_outermost_bound_loop():
    sch = start()
    block = sch.get_sblock("scores")
    b, *_ = sch.get_loops(block)
    tile = tile_block(sch, block, threads=(4, 3))
    innermost = sch.get_loops(block)[-1]
    assert queries.get_enclosing_kernel(sch, innermost).same_as(sch.get(tile.blocks[0]))
    assert queries.get_enclosing_kernel(sch, b).same_as(sch.get(b))
    bind_loop(sch, b, axis="blockIdx.z")
    assert queries.get_enclosing_kernel(sch, innermost).same_as(sch.get(b))


def test_own_loops_enclose_one_block_only():
    sch = start()
    scores, shares = sch.get_sblock("scores"), sch.get_sblock("shares")
    _, i, *_ = sch.get_loops(scores)
    copy = sch.cache_read(scores, 0, "shared")
    sch.compute_at(copy, i, preserve_unit_loops=True)
    assert name_loops(sch, queries.get_own_loops(sch, copy)) == ["ax0", "ax1", "ax2"]
    assert name_loops(sch, queries.get_own_loops(sch, scores)) == ["j", "k"]
    assert name_loops(sch, queries.get_own_loops(sch, shares)) == ["b", "i", "j"]


def test_a_row_is_as_long_as_the_loop_along_it():
    sch = start()
    block = sch.get_sblock("scores")
    _, i, *_ = sch.get_loops(block)
    copy = sch.cache_read(block, 1, "shared")
    sch.compute_at(copy, i, preserve_unit_loops=True)
    assert queries.find_row_length(sch, copy) == 12
    _, _, ax0, ax1, ax2 = sch.get_loops(copy)
    sch.reorder(ax2, ax1)
    assert queries.find_row_length(sch, copy) == 12
    pad_shared_rows(sch, copy, elements=3)
    root = queries.get_root(sch, copy)
    buffer = sch.get(copy).writes[0].source
    assert tir.find_row_stride(root, buffer) == 15
    assert tir.find_row_stride(root, sch.get(copy).reads[0].source) is None
    split_loop(sch, ax2, inner=4)
    assert queries.find_row_length(sch, copy) is None
    assert sch.get(ax0)


def test_values_of_iterators_in_nested_blocks_are_in_loops_alone():
    sch = start(Nested)
    root = queries.get_root(sch, sch.get_sblock("inner"))
    inner = tir.find_all(root, SBlockRealize)[1].block
    values = tir.get_iterator_values(root)
    row = tir.substitute(inner.writes[0].region[0].min, values)
    assert str(row) == "i * 4 + x"
    assert {var.name for var in undefined_vars(row)} == {"i", "x"}
    assert tvm_ffi.structural_equal(values[inner.iter_vars[0].var], inner_loop(sch, 0))


def inner_loop(sch, index):
    return sch.get(sch.get_loops(sch.get_sblock("inner"))[index]).loop_var


@pytest.mark.parametrize("query", [get_spatial_loops, get_reduction_loops, find_epilogue])
def test_a_query_changes_no_module(query):
    sch = start()
    before = sch.mod.script()
    query(sch, sch.get_sblock("scores"))
    assert sch.mod.script() == before


def test_the_public_queries_are_all_there_and_say_what_they_answer():
    public = [
        name
        for name, value in vars(queries).items()
        if inspect.isfunction(value)
        and not name.startswith("_")
        and value.__module__ == queries.__name__
    ]
    assert sorted(queries.__all__) == sorted(set(public))
    assert all(inspect.getdoc(getattr(queries, name)) for name in queries.__all__)
