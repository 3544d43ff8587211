"""What a block reads of a buffer must have been written in the same life of it.

Each refused schedule is made by TVM's primitives first, and shown to be wrong.
"""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from kernels import at_block, parse_kernel
from pairs import find_wrong, refuses
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tirstep import transforms as tr
from tirstep.lowering_checks import check_numbers
from tirstep.lowering_checks.devices.simulator.interpreter import Interpreter
from tirstep.lowering_checks.legality.reads import find_lost_reads
from tirstep.modules import Problem, matmul, matmul_bias_relu


class Parts(NamedTuple):
    """A product whose rows and columns are one loop, in parts that cut through its rows."""

    problem: Problem
    sch: Schedule
    block: SBlockRV
    epilogue: SBlockRV
    loop: LoopRV


def cut_rows(columns: int = 20, scope: str | None = None) -> Parts:
    problem = matmul_bias_relu.problem(12, columns, 4)
    sch = Schedule(problem.module)
    block, epilogue = sch.get_sblock("C"), sch.get_sblock("D")
    loop = tr.split_loop(sch, tr.fuse_loops(sch, sch.get_loops(block)[:2]), inner=16).outer
    tr.bind_loop(sch, loop, axis="blockIdx.x")
    return Parts(problem, sch, block, epilogue, loop)


def move_epilogue(parts: Parts) -> None:
    parts.sch.reverse_compute_at(parts.epilogue, parts.loop, preserve_unit_loops=True)


def move_epilogue_of_registers(parts: Parts) -> None:
    parts.sch.set_scope(parts.block, 0, "local")
    move_epilogue(parts)


def move_copy(parts: Parts) -> None:
    copy = parts.sch.cache_write(parts.block, 0, "shared")
    parts.sch.reverse_compute_at(copy, parts.loop, preserve_unit_loops=True)


@pytest.mark.parametrize(
    ("plain", "transform", "options", "read", "why"),
    [
        (
            move_epilogue,
            tr.reverse_compute_block_at,
            {},
            "'D' would read C",
            "nothing orders the accesses of the others on 'blockIdx.x'; place it outside",
        ),
        (
            move_epilogue_of_registers,
            tr.fuse_epilogue_at,
            {},
            "'D' would read C_local",
            "TVM makes a new 'C_local' in each; place it outside of the loops that write",
        ),
        (
            move_epilogue_of_registers,
            tr.accumulate_in_registers,
            {},
            "'D' would read C_local",
            "TVM makes a new 'C_local' in each",
        ),
        (
            move_copy,
            tr.cache_write_at,
            {"scope": "shared"},
            "'C_shared' would read C_shared",
            "TVM makes a new 'C_shared' in each",
        ),
    ],
    ids=lambda function: getattr(function, "__name__", ""),
)
def test_parts_of_rows_whose_reader_takes_whole_rows(
    plain: Callable[[Parts], None],
    transform: Callable[..., object],
    options: dict[str, str],
    read: str,
    why: str,
):
    """TVM takes the box around 16 elements in rows of 20: the other 4 are another iteration's."""
    parts = cut_rows()
    plain(parts)
    assert "elements are wrong" in find_wrong(parts.problem, parts.sch, "cpu")[0]

    def run(parts: Parts) -> None:
        _, sch, block, epilogue, loop = parts
        of = {
            tr.reverse_compute_block_at: (epilogue, loop),
            tr.fuse_epilogue_at: (block, epilogue, loop),
        }
        transform(sch, *of.get(transform, (block, loop)), **options)

    parts = cut_rows()
    with refuses(
        parts.sch,
        rf"{transform.__name__}: block {read}\[0, 16\], which block 'C' has not written by then in "
        f"the same iteration of loop 'i_j_fused_0': {why}",
    ):
        run(parts)
    whole = cut_rows(columns=16)
    run(whole)
    assert find_wrong(whole.problem, whole.sch, "cpu") == []


@pytest.mark.parametrize(
    ("shape", "threads", "vector", "depth", "element"),
    [((20, 5, 5), (4, 3), 2, 3, "[4, 4]"), ((12, 20, 2), (2, 8), 1, 1, "[0, 16]")],
)
def test_a_fetch_that_is_copied_out_at_its_own_steps(
    shape: tuple[int, int, int], threads: tuple[int, int], vector: int, depth: int, element: str
):
    """A row is copied out in another step than it was fetched in."""
    problem = matmul.problem(*shape)

    sch, block, *_ = at_block(problem.module, "C")
    options = {"operand": 1, "threads": threads, "vector": vector}
    copy = tr.stage_operand_at(sch, block, sch.get_loops(block)[0], **options, tail="guard")
    loop = sch.get_loops(copy)[depth]
    plain = sch.copy()
    plain.reverse_compute_at(plain.cache_write(copy, 0, "shared"), loop, preserve_unit_loops=True)
    found = check_numbers(problem, plain.mod, Interpreter(), where="plain")
    assert "uninitialized read" in found[0].message or "elements are wrong" in found[0].message
    with refuses(sch, f"cache_write_at: block 'B_shared_shared' would read .*\\{element[:-1]}\\]"):
        tr.cache_write_at(sch, copy, loop, scope="shared")


@pytest.mark.parametrize("scope", ["local", "shared"])
def test_a_copy_of_more_than_its_reader_has_a_guard_for(scope: str):
    """Of a guarded loop of 3 steps, of which one runs, TVM copies all: two were never written."""
    problem = matmul.problem(4, 6, 5)

    sch, block, i, j, _ = at_block(problem.module, "C")
    tr.bind_loop(sch, i, axis="blockIdx.x")
    copy = tr.cache_write_at(sch, block, j, scope="local")
    loop = tr.split_loop(sch, sch.get_loops(copy)[-1], inner=3, tail="guard").outer
    plain = sch.copy()
    plain.compute_at(plain.cache_read(copy, 0, scope), loop, preserve_unit_loops=True)
    assert "uninitialized read" in find_wrong(problem, plain)[0]
    with refuses(
        sch,
        rf"cache_read_at: block 'C_local_{scope}' would read C_local\[0, 1\], which block 'C' has "
        "not written by then in the same iteration of loop 'j'",
    ):
        tr.cache_read_at(sch, copy, loop, operand=0, scope=scope)
    if scope == "shared":
        with refuses(sch, r"stage_operand_at: block 'C_local_shared' would read C_local\[0, 1\]"):
            tr.stage_operand_at(sch, copy, loop, operand=0, threads=3)


# What is found in a program, whatever made it.


def make_window(*, read: int = 0, uses_after: bool = True, scope: str = "global", rows: int = 4):
    """A buffer of which iteration i writes P[i], and reads P[i + read] behind it."""

    after = f"""
    for i in range(8):
        with T.sblock("C", "S", i):
            T.where(i < {rows})
            C[vi] = P[vi + 4]
    """
    return parse_kernel(f"""
    A (8,), B (8,), C (8,)
    P = T.sblock_alloc_buffer((16,), scope={scope!r})
    for i in range({rows}):
        with T.sblock("P"):
            vi = T.axis.spatial(8, i)
            P[vi + 4] = A[vi]
        with T.sblock("B"):
            vi = T.axis.spatial(8, i)
            T.where(i + {read} >= 0)
            B[vi] = P[vi + 4 + {read}]
    {after if uses_after else ""}""")


@pytest.mark.parametrize("uses_after", [True, False])
def test_a_later_iteration_never_counts(uses_after: bool):
    lost = find_lost_reads(make_window(read=1, uses_after=uses_after))
    assert "would read P[5]," in lost["B", "P"].problem
    assert ("iteration of loop 'i'" in lost["B", "P"].problem) is not uses_after
    assert find_lost_reads(make_window(uses_after=uses_after)) == {}


def make_copy(width: str):
    """Iterations of i that write P[2 i], P[2 i + 1], and copy some elements out."""
    return parse_kernel(f"""
        A (16,), B (16,)
        P = T.sblock_alloc_buffer((16,))
        for i in range(8):
            for j in range(2):
                with T.sblock("P"):
                    v = T.axis.spatial(16, i * 2 + j)
                    P[v] = A[v]
            for j in range({width}):
                with T.sblock("B"):
                    v = T.axis.spatial(16, i * 2 + j)
                    B[v] = P[v]
    """)


def test_loops_whose_extents_depend_on_others():
    assert find_lost_reads(make_copy("i % 2 + 1")) == {}
    lost = find_lost_reads(make_copy("i % 3 + 1"))
    assert "would read P[6]," in lost["B", "P"].problem
