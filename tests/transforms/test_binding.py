"""Thread axes for single loops and for whole tiles."""

import textwrap

import numpy as np
import pytest
from golden_runs import run_golden
from kernels import Matmul, Scale, TwoInOneLoop, parse_kernel
from pairs import assert_dead, check_pair, compile_for_cuda, refuses, run_on_cpu
from tvm.s_tir import Schedule
from tvm.script import ir as I
from tvm.script import tirx as T
from tvm.tirx import ForKind

from tirstep.lowering_checks.devices import SimulatorDevice
from tirstep.modules import matmul
from tirstep.transforms import (
    TransformError,
    bind_loop,
    cache_read_at,
    compute_block_at,
    fetch_cooperatively,
    pad_block,
    reorder_loops,
    split_loop,
    tile_block,
)
from tirstep.transforms.recipes import RECIPES, find_recipe

Symbolic = parse_kernel("""
    A (n, 20), B (n, 20)
    for i, j in T.grid(n, 20):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
""")


def start(module=Matmul, block="C"):
    """A schedule and the loops of one of its blocks."""
    sch = Schedule(module, debug_mask="all")
    return sch, *sch.get_loops(sch.get_sblock(block))


def split_inner(sch, block, threads):
    """The outer and the inner part of a block's last loop."""
    return split_loop(sch, sch.get_loops(sch.get_sblock(block))[-1], inner=threads)


def test_bind_loop_to_blocks_and_threads():
    after = """
        for i in T.thread_binding(6, thread="blockIdx.z"):
            for j in T.thread_binding(20, thread="threadIdx.x"):
                with T.sblock("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * T.float32(2)
    """

    def change(sch):
        i, j = sch.get_loops(sch.get_sblock("B"))
        bind_loop(sch, i, axis="blockIdx.z")
        bind_loop(sch, j, axis="threadIdx.x")
        return i, j

    check_pair(Scale, change, after)


def test_bind_loop_to_a_virtual_thread():
    after = """
        for i in T.thread_binding(6, thread="vthread.y"):
            for j in range(20):
                with T.sblock("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * T.float32(2)
    """

    def change(sch):
        i, _ = sch.get_loops(sch.get_sblock("B"))
        bind_loop(sch, i, axis="vthread.y")

    check_pair(Scale, change, after)


def test_bind_loop_of_symbolic_extent_to_blocks():
    after = """
        for i in T.thread_binding(n, thread="blockIdx.x"):
            for j in T.thread_binding(20, thread="threadIdx.x"):
                with T.sblock("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * T.float32(2)
    """

    def change(sch):
        i, j = sch.get_loops(sch.get_sblock("B"))
        bind_loop(sch, i, axis="blockIdx.x")
        bind_loop(sch, j, axis="threadIdx.x")

    check_pair(Symbolic, change, after)


def test_bind_loop_refuses_what_does_not_fit():
    sch, _, _, k = start()
    with refuses(sch, r"^bind_loop: TVM refuses: .*block 'C'.* block iter .* contains k does not"):
        bind_loop(sch, k, axis="blockIdx.x")
    sch, i, *_ = start(TwoInOneLoop, "B")
    bind_loop(sch, i, axis="blockIdx.x")
    bind_loop(sch, split_inner(sch, "B", 32).inner, axis="threadIdx.x")
    outer, inner = split_inner(sch, "C", 16)
    with refuses(
        sch,
        r"loop 'j_1' runs 16 times, and 'threadIdx.x' has the extent 32 at loop 'j_1' of the same "
        "kernel; split the loop so that both have one extent",
    ):
        bind_loop(sch, inner, axis="threadIdx.x")
    with refuses(sch, "loop 'j_0' runs 4 times, and 'threadIdx.x' has the extent 32"):
        bind_loop(sch, outer, axis="threadIdx.x")
    sch, i, *_ = start(TwoInOneLoop, "B")
    for block, threads in (("B", 32), ("C", 16)):
        outer, inner = split_inner(sch, block, threads)
        bind_loop(sch, outer, axis="blockIdx.x" if block == "B" else "blockIdx.y")
        bind_loop(sch, inner, axis="threadIdx.x")
    with refuses(
        sch, "runs 32 times, and 'threadIdx.x' has the extent 16 at loop 'j_1' of the same kernel"
    ):
        bind_loop(sch, i, axis="blockIdx.z")
    sch, i, j, _ = start()
    bind_loop(sch, i, axis="threadIdx.y", max_threads=16)
    with refuses(
        sch,
        r"loop 'j' would make a block of 192 threads \(threadIdx.x=12 \* threadIdx.y=16\), more "
        "than max_threads=191; split the loop and bind its inner part",
    ):
        bind_loop(sch, j, axis="threadIdx.x", max_threads=191)
    bind_loop(sch, j, axis="threadIdx.x", max_threads=192)
    sch, i, j = make_rows(64, 32)
    bind_loop(sch, i, axis="threadIdx.z")
    with refuses(sch, r"a block of 2048 threads \(threadIdx.x=32 \* threadIdx.z=64\)"):
        bind_loop(sch, j, axis="threadIdx.x")
    sch, i, *_ = start(TwoInOneLoop, "B")
    bind_loop(sch, split_inner(sch, "B", 32).outer, axis="vthread.x")
    with refuses(sch, "block 'C' stands outside of loop 'j_0' on 'vthread.x'"):
        bind_loop(sch, i, axis="blockIdx.x")


@pytest.mark.parametrize("axis", ["threadIdx.x", "vthread.x"])
def test_bind_loop_refuses_threads_of_symbolic_extent(axis):
    sch, i, _ = start(Symbolic, "B")
    with refuses(sch, r"loop 'i' has the symbolic extent n; split it with tail=\"guard\" first"):
        bind_loop(sch, i, axis=axis)


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 0)])
@pytest.mark.parametrize("axis", ["blockIdx.x", "threadIdx.y"])
def test_bind_loop_refuses_the_diagonal(first, second, axis):
    sch, *loops = start()
    bind_loop(sch, loops[first], axis=axis)
    with refuses(
        sch,
        rf"loop '{'ij'[second]}': '{axis}' already drives loop '{'ij'[first]}' of block 'C', "
        "so that only the diagonal would run",
    ):
        bind_loop(sch, loops[second], axis=axis)


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 0)])
def test_bind_loop_refuses_nested_loops_on_one_virtual_thread_axis(first, second):
    sch, *loops = start(Scale, "B")
    bind_loop(sch, loops[first], axis="vthread.x")
    with refuses(
        sch,
        rf"loop '{'ij'[second]}': 'vthread.x' already drives loop '{'ij'[first]}' around or inside",
    ):
        bind_loop(sch, loops[second], axis="vthread.x")
    bind_loop(sch, loops[second], axis="vthread.y")


def make_rows(*extents):
    """A kernel that doubles a tensor of these extents, and its schedule, block and loops."""

    @I.ir_module
    class Rows:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer(extents, "float32"), B: T.Buffer(extents, "float32")):
            with T.sblock("root"):
                for i, j in T.grid(*extents):
                    with T.sblock("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] * T.float32(2)

    return start(Rows, "B")


@pytest.mark.parametrize(
    ("axis", "limit", "advice"),
    [
        ("blockIdx.y", 65535, "put the larger loop on blockIdx.x, or split it and bind the inner"),
        ("blockIdx.z", 65535, "put the larger loop on blockIdx.x, or split it and bind the inner"),
        ("blockIdx.x", 2**31 - 1, "split it and bind the inner part"),
        ("threadIdx.z", 64, "put the larger loop on threadIdx.x, or split it and bind the inner"),
        ("threadIdx.x", 1024, None),
        ("threadIdx.y", 1024, None),
    ],
)
def test_bind_loop_takes_of_each_axis_what_a_gpu_takes(axis, limit, advice):
    sch, i, _ = make_rows(limit, 2)
    bind_loop(sch, i, axis=axis)
    sch, i, _ = make_rows(T.int64(limit + 1), 2)
    more = f"loop 'i' runs {limit + 1} times, and a GPU takes {limit} on '{axis}' at most; {advice}"
    if advice is None:
        more = f"would make a block of {limit + 1} threads"
    with refuses(sch, more):
        bind_loop(sch, i, axis=axis)
    if advice is None:
        with refuses(sch, f"a GPU takes {limit} on '{axis}' at most; split it and bind the inner"):
            bind_loop(sch, i, axis=axis, max_threads=2048)


def test_a_gpu_s_limits_are_those_of_the_simulator():
    sch, i, _ = make_rows(65536, 2)
    sch.bind(i, "blockIdx.y")
    sch.bind(sch.get_loops(sch.get_sblock("B"))[1], "threadIdx.x")
    program = SimulatorDevice().compile(sch.mod)
    zeros = np.zeros((65536, 2), "float32")
    program([zeros, zeros])
    assert "exceeds a GPU's limit of 65535" in str(program.findings[0])


def test_a_recipe_refuses_more_rows_than_a_grid_has():
    sentence = "loop 'i' runs 65536 times, and a GPU takes 65535 on 'blockIdx.y' at most"
    with pytest.raises(TransformError, match=sentence):
        find_recipe("matmul_naive")(Schedule(matmul(65536, 8, 8)))


def test_kernels_of_one_host_loop_have_threads_of_their_own():
    sch, *_ = start(TwoInOneLoop, "B")
    for block, threads in (("B", 32), ("C", 16)):
        outer, inner = split_inner(sch, block, threads)
        bind_loop(sch, outer, axis="blockIdx.x")
        bind_loop(sch, inner, axis="threadIdx.x")
    source = compile_for_cuda(sch.mod)
    assert "__launch_bounds__(32)" in source
    assert "__launch_bounds__(16)" in source


def test_kernels_of_one_host_loop_have_virtual_threads_of_their_own():
    sch, *_ = start(TwoInOneLoop, "B")
    outer, inner = split_inner(sch, "B", 8)
    bind_loop(sch, split_loop(sch, outer, inner=4).inner, axis="vthread.x")
    bind_loop(sch, inner, axis="threadIdx.x")
    outer, inner = split_inner(sch, "C", 16)
    bind_loop(sch, outer, axis="blockIdx.x")
    bind_loop(sch, inner, axis="threadIdx.x")
    source = compile_for_cuda(sch.mod)
    assert "__launch_bounds__(8)" in source
    assert "__launch_bounds__(16)" in source


def test_extents_of_other_integer_types_are_equal():
    Wide = parse_kernel("""
        A (4, 64), C (4, 64)
        B = T.sblock_alloc_buffer((4, 64))
        for i in range(4):
            for j in range(T.int64(64)):
                with T.sblock("B"):
                    vi = T.axis.spatial(4, i)
                    vj = T.axis.spatial(T.int64(64), j)
                    B[vi, vj] = A[vi, vj] * T.float32(2)
            for j in range(64):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] + T.float32(1)
    """)

    sch, i, wide = start(Wide, "B")
    bind_loop(sch, i, axis="blockIdx.x")
    bind_loop(sch, wide, axis="threadIdx.x")
    bind_loop(sch, sch.get_loops(sch.get_sblock("C"))[-1], axis="threadIdx.x")
    assert sch.mod.script().count('thread="threadIdx.x"') == 2
    ones = np.ones((4, 64), "float32")
    assert (run_on_cpu(sch.mod, ones, output=(4, 64), dtype="float32") == 3).all()


def test_a_cooperative_fetch_may_nest_its_threads():
    sch, i, j, k = start()
    block = sch.get_sblock("C")
    reorder_loops(sch, [j, k, i])
    bind_loop(sch, j, axis="threadIdx.x")
    copy = cache_read_at(sch, block, k, operand=0)
    row, _ = sch.get_loops(copy)[-2:]
    bind_loop(sch, split_loop(sch, row, inner=12, tail="guard").inner, axis="threadIdx.x")
    assert "__launch_bounds__(12)" in compile_for_cuda(sch.mod)


GRID, THREADS = "i_0 8 blockIdx.y, j_0 4 blockIdx.x, ", "i_1 2 threadIdx.y, j_1 3 threadIdx.x, k 6"


@pytest.mark.parametrize(
    ("options", "loops", "row", "column", "levels"),
    [
        ({}, GRID + THREADS, "i_0 * 2 + i_1", "j_0 * 3 + j_1", (2, 2, 0)),
        (
            {"threads": (3,)},
            "i 16, j_0 4 blockIdx.x, j_1 3 threadIdx.x, k 6",
            "i",
            "j_0 * 3 + j_1",
            (1, 1, 0),
        ),
        (
            {"per_thread": (4, 2)},
            f"i_0 2 blockIdx.y, j_0 2 blockIdx.x, {THREADS}, i_2 4, j_2 2",
            "i_0 * 8 + i_1 * 4 + i_2",
            "j_0 * 6 + j_1 * 2 + j_2",
            (2, 2, 2),
        ),
        (
            {"axes": ("x", "z")},
            "i_0 8 blockIdx.x, j_0 4 blockIdx.z, i_1 2 threadIdx.x, j_1 3 threadIdx.z, k 6",
            "i_0 * 2 + i_1",
            "j_0 * 3 + j_1",
            (2, 2, 0),
        ),
        (
            {"fuse_threads": True},
            f"{GRID} t 6 threadIdx.x, k 6",
            "i_0 * 2 + t // 3",
            "j_0 * 3 + t % 3",
            (2, 1, 0),
        ),
        (
            {"threads": (5, 7), "tail": "guard"},
            "i_0 4 blockIdx.y, j_0 2 blockIdx.x, i_1 5 threadIdx.y, j_1 7 threadIdx.x, k 6",
            "i_0 * 5 + i_1",
            "j_0 * 7 + j_1",
            (2, 2, 0),
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_tile_block_of_a_product(options, loops, row, column, levels):
    """Loops are given as name, extent and thread axis."""
    guard = f"T.where({row} < 16 and {column} < 12)" if "tail" in options else "pass"
    block = (
        f"vi = T.axis.spatial(16, {row})\nvj = T.axis.spatial(12, {column})\n"
        f"vk = T.axis.reduce(6, k)\n{guard}\nC[vi, vj] += A[vi, vk] * B[vk, vj]"
    )
    after = 'with T.sblock("C"):\n' + textwrap.indent(block, "    ")
    for name, extent, *axis in map(str.split, reversed(loops.split(","))):
        bound = f"T.thread_binding({extent}, thread='{axis[0]}')" if axis else f"range({extent})"
        after = f"for {name} in {bound}:\n" + textwrap.indent(after, "    ")

    def change(sch):
        block = sch.get_sblock("C")
        i, j, k = sch.get_loops(block)
        tile = tile_block(sch, block, **{"threads": (2, 3), **options})
        assert tuple(len(level) for level in tile) == levels
        assert_dead(sch, *([i, j] if levels[0] == 2 else [j]))
        return tile, k, block

    check_pair(Matmul, change, after)


def test_tile_block_refuses_what_does_not_fit():
    for threads in [(), (2, 3, 2), (2, 2, 2, 2)]:
        sch = Schedule(Matmul)
        block = sch.get_sblock("C")
        with refuses(
            sch,
            rf"tile_block: threads has {len(threads)} entries, and block 'C' has 2 spatial loops; "
            "give one entry for each loop to be tiled, at most three",
        ):
            tile_block(sch, block, threads=threads)
    sch = Schedule(Matmul)
    block = sch.get_sblock("C")
    with refuses(
        sch,
        r"tile_block: bind_loop: loop 'j_1' would make a block of 1088 threads "
        r"\(threadIdx.x=34 \* threadIdx.y=32\), more than max_threads=1024",
    ):
        tile_block(sch, block, threads=(32, 34), tail="guard")
    tile_block(sch, block, threads=(32, 32), tail="guard")
    sch, i, *_ = start()
    bind_loop(sch, i, axis="blockIdx.x")
    block = sch.get_sblock("C")
    with refuses(sch, r"tile_block: loop 'i' is already bound to 'blockIdx.x'"):
        tile_block(sch, block, threads=(2, 3))
    sch = Schedule(TwoInOneLoop)
    block = sch.get_sblock("B")
    with refuses(sch, r"^tile_block: TVM refuses: The loops are not in a chain because there is"):
        tile_block(sch, block, threads=(2, 4))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"per_thread": (4,)}, "per_thread has 1 entries and threads has 2"),
        ({"axes": ("y", "x", "z")}, "axes has 3 entries and threads has 2"),
        ({"axes": ("x", "x")}, "'blockIdx.x' already drives loop 'i_0' of block 'C'"),
        ({"axes": ("x", "w")}, "thread axis 'blockIdx.w' does not exist"),
        ({"per_thread": (4, 0)}, "per_thread=0 must be >= 1"),
        ({"tail": "pad"}, "tail='pad' is unknown"),
        ({"per_thread": (3, 1)}, r"'i' runs 16 times, which threads=2 \* per_thread=3 does not"),
    ],
)
def test_tile_block_refuses_options_that_do_not_fit(options, sentence):
    sch = Schedule(Matmul)
    block = sch.get_sblock("C")
    with refuses(sch, rf"^tile_block: .*{sentence}"):
        tile_block(sch, block, threads=(2, 3), **options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"threads": 64},
            r"tile_block: threads=64 is no tuple of integers; pass a tuple, as "
            r"threads=\(16, 16\)$",
        ),
        ({"threads": "64"}, "threads='64' is no tuple of integers"),
        ({"threads": (2, 3), "per_thread": 2}, "per_thread=2 is no tuple of integers"),
        (
            {"threads": (2, 3), "axes": 1},
            r"axes=1 is no tuple of letters; pass a tuple, as axes=\(\"y\", \"x\"\)$",
        ),
        ({"threads": (2.0, 3)}, r"threads\[0\]=2.0 is not an integer; pass an integer$"),
        ({"threads": (2, 3), "axes": (1, 2)}, r"axes\[0\]=1 is not a string"),
    ],
)
def test_tile_block_refuses_what_is_no_tuple(options, sentence):
    sch = Schedule(Matmul)
    block = sch.get_sblock("C")
    with refuses(sch, sentence):
        tile_block(sch, block, **options)


def test_other_transforms_refuse_what_is_no_tuple():
    sch = Schedule(Matmul)
    block = sch.get_sblock("C")
    with refuses(sch, "pad_block: multiples=8 is no tuple of integers; pass a tuple"):
        pad_block(sch, block, multiples=8)
    tile = tile_block(sch, block, threads=(2, 3))
    copy = cache_read_at(sch, block, tile.threads[-1], operand=0, scope="shared")
    for threads in ("8", None, 8.0):
        with refuses(
            sch, rf"threads={threads!r} is neither an integer nor a tuple of integers; pass a"
        ):
            fetch_cooperatively(sch, copy, threads=threads)
    with refuses(sch, r"fetch_cooperatively: threads=\(2, '3'\) is neither an integer nor a tuple"):
        fetch_cooperatively(sch, copy, threads=(2, "3"))


def test_a_producer_under_a_tile_takes_threads_of_its_own():
    Blur = parse_kernel("""
        A (130,), C (128,)
        B = T.sblock_alloc_buffer((130,), scope="shared")
        for i in range(130):
            with T.sblock("B"):
                vi = T.axis.spatial(130, i)
                B[vi] = A[vi] * T.float32(2)
        for i in range(128):
            with T.sblock("C"):
                vi = T.axis.spatial(128, i)
                C[vi] = B[vi] + B[vi + 1] + B[vi + 2]
    """)

    sch = Schedule(Blur, debug_mask="all")
    tile = tile_block(sch, sch.get_sblock("C"), threads=(32,))
    block = sch.get_sblock("B")
    compute_block_at(sch, block, tile.blocks[0])
    own = sch.get_loops(block)[-1]
    with refuses(sch, "runs 34 times, and 'threadIdx.x' has the extent 32 at loop 'i_1'"):
        bind_loop(sch, own, axis="threadIdx.x")
    bind_loop(sch, split_loop(sch, own, inner=32, tail="guard").inner, axis="threadIdx.x")
    assert "__launch_bounds__(32)" in compile_for_cuda(sch.mod)


def test_refuses_a_loop_around_an_instruction_of_the_same_threads() -> None:
    """A split with a guard makes 32 iterations of one; bound, one lane of 32 would come."""
    tensorized = next(
        it for it in run_golden(RECIPES["batched_matmul_mma"]).steps if "tensor" in it.name
    )
    sch = Schedule(tensorized.module)
    loops = sch.get_loops(sch.get_sblock("C_acc_shared.dyn_local_o"))
    serial = next(loop for loop in loops if sch.get(loop).kind == ForKind.SERIAL)
    _, inner = split_loop(sch, serial, inner=32, tail="guard")
    with refuses(sch, "is an instruction of all threads on 'threadIdx.x', of which each would do"):
        bind_loop(sch, inner, axis="threadIdx.x")
