"""Sums of rows in parts, for the tests of what becomes of their steps."""

from __future__ import annotations

import kernels
import tvm
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV

from tirstep.transforms import (
    bind_loop,
    decompose_reduction_at,
    rfactor_reduction,
    split_loop,
    split_reduction,
)

ROWS, DEPTH = 4, 2
"""Rows of a tile, and terms of a step."""


def make_row_sums(tiles: int, steps: int) -> tvm.IRModule:
    """B = sums over the rows of A, of so many tiles and steps."""
    return kernels.make_row_sums(tiles * ROWS, steps * DEPTH)


def cut_row_sums(sch: Schedule, parts: int, *, decompose: bool = True) -> LoopRV:
    """A tile of rows and a part of their sums for each GPU block; the loop over its steps."""
    total = sch.get_sblock("B")
    partial = rfactor_reduction(sch, total, parts=parts)
    bind_loop(sch, partial.parts, axis="blockIdx.y")
    rows = sch.get_loops(partial.block)[1]
    tiles, threads = split_loop(sch, rows, inner=ROWS)
    bind_loop(sch, tiles, axis="blockIdx.x")
    bind_loop(sch, threads, axis="threadIdx.x")
    steps = split_reduction(sch, partial.block, inner=DEPTH).outer
    if decompose:
        decompose_reduction_at(sch, partial.block, steps)
    bind_loop(sch, sch.get_loops(total)[0], axis="threadIdx.x")
    return steps
