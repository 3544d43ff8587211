"""Thread axes for single loops and for whole tiles."""

import textwrap

import numpy as np
import pytest
from golden_runs import run_golden
from kernels import Matmul, Scale, TwoInOneLoop, at_block, parse_kernel
from pairs import assert_dead, check_pair, refuses
from tvm.s_tir import Schedule
from tvm.script import tirx as T
from tvm.tirx import ForKind

from tirstep import transforms as tr
from tirstep.lowering_checks.devices import SimulatorDevice
from tirstep.modules import matmul
from tirstep.transforms.recipes import RECIPES, find_recipe

Symbolic = parse_kernel("""
    A (n, 20), B (n, 20)
    for i, j in T.grid(n, 20):
        with T.sblock("B", "SS", i, j):
            B[vi, vj] = A[vi, vj] * T.float32(2)
""")


def start(module=Matmul, block="C"):
    """A schedule and the loops of one of its blocks."""
    sch = Schedule(module, debug_mask="all")
    return sch, *sch.get_loops(sch.get_sblock(block))


def test_bind_loop_to_blocks_and_threads():
    after = """
        for i in T.thread_binding(6, thread="blockIdx.z"):
            for j in T.thread_binding(20, thread="threadIdx.x"):
                with T.sblock("B", "SS", i, j):
                    B[vi, vj] = A[vi, vj] * T.float32(2)
    """

    def change(sch):
        i, j = sch.get_loops(sch.get_sblock("B"))
        tr.bind_loop(sch, i, axis="blockIdx.z")
        tr.bind_loop(sch, j, axis="threadIdx.x")
        return i, j

    check_pair(Scale, change, after)


@pytest.mark.parametrize("axis", ["threadIdx.x", "vthread.x"])
def test_bind_loop_refuses_threads_of_symbolic_extent(axis):
    sch, i, _ = start(Symbolic, "B")
    with refuses(sch, r"loop 'i' has the symbolic extent n; split it with tail=\"guard\" first"):
        tr.bind_loop(sch, i, axis=axis)


def make_rows(*extents):
    """A kernel that doubles a tensor of these extents, and its schedule, block and loops."""
    rows = parse_kernel(f"""
        A {extents}, B {extents}
        for i, j in T.grid{extents}:
            with T.sblock("B", "SS", i, j):
                B[vi, vj] = A[vi, vj] * T.float32(2)
    """)
    return start(rows, "B")


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
    tr.bind_loop(sch, i, axis=axis)
    sch, i, _ = make_rows(T.int64(limit + 1), 2)
    more = f"loop 'i' runs {limit + 1} times, and a GPU takes {limit} on '{axis}' at most; {advice}"
    if advice is None:
        more = f"would make a block of {limit + 1} threads"
    with refuses(sch, more):
        tr.bind_loop(sch, i, axis=axis)
    if advice is None:
        with refuses(sch, f"a GPU takes {limit} on '{axis}' at most; split it and bind the inner"):
            tr.bind_loop(sch, i, axis=axis, max_threads=2048)


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
    with pytest.raises(tr.TransformError, match=sentence):
        find_recipe("matmul_naive")(Schedule(matmul(65536, 8, 8)))


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
        tile = tr.tile_block(sch, block, **{"threads": (2, 3), **options})
        assert tuple(len(level) for level in tile) == levels
        assert_dead(sch, *([i, j] if levels[0] == 2 else [j]))
        return tile, k, block

    check_pair(Matmul, change, after)


def test_tile_block_refuses_what_does_not_fit():
    for threads in [(), (2, 3, 2), (2, 2, 2, 2)]:
        sch, block, *_ = at_block(Matmul, "C")
        with refuses(
            sch,
            rf"tile_block: threads has {len(threads)} entries, and block 'C' has 2 spatial loops; "
            "give one entry for each loop to be tiled, at most three",
        ):
            tr.tile_block(sch, block, threads=threads)
    sch, block, *_ = at_block(Matmul, "C")
    with refuses(
        sch,
        r"tile_block: bind_loop: loop 'j_1' would make a block of 1088 threads "
        r"\(threadIdx.x=34 \* threadIdx.y=32\), more than max_threads=1024",
    ):
        tr.tile_block(sch, block, threads=(32, 34), tail="guard")
    tr.tile_block(sch, block, threads=(32, 32), tail="guard")
    sch, i, *_ = start()
    tr.bind_loop(sch, i, axis="blockIdx.x")
    block = sch.get_sblock("C")
    with refuses(sch, r"tile_block: loop 'i' is already bound to 'blockIdx.x'"):
        tr.tile_block(sch, block, threads=(2, 3))
    sch, block, *_ = at_block(TwoInOneLoop, "B")
    with refuses(sch, r"^tile_block: TVM refuses: The loops are not in a chain because there is"):
        tr.tile_block(sch, block, threads=(2, 4))


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
    sch, block, *_ = at_block(Matmul, "C")
    with refuses(sch, rf"^tile_block: .*{sentence}"):
        tr.tile_block(sch, block, threads=(2, 3), **options)


def test_refuses_a_loop_around_an_instruction_of_the_same_threads() -> None:
    """A split with a guard makes 32 iterations of one; bound, one lane of 32 would come."""
    tensorized = next(
        it for it in run_golden(RECIPES["batched_matmul_mma"]).steps if "tensor" in it.name
    )
    sch, _, *loops = at_block(tensorized.module, "C_acc_shared.dyn_local_o")
    serial = next(loop for loop in loops if sch.get(loop).kind == ForKind.SERIAL)
    _, inner = tr.split_loop(sch, serial, inner=32, tail="guard")
    with refuses(sch, "is one instruction of all threads on 'threadIdx.x', and each of them"):
        tr.bind_loop(sch, inner, axis="threadIdx.x")
