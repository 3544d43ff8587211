"""Rounds in which the thread blocks of `make_persistent` go through the tiles of a grid.

The loop over tiles is that of the persistent kernels of NVIDIA's CUTLASS 3.
"""

from __future__ import annotations

import math
from typing import Any

from tvm.tirx import (
    BufferStore,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    IntImm,
    Select,
    Var,
    const,
    decl_buffer,
)

from ..schedule import TransformError
from ..tir import constant, find_all, get_axis, get_loops_around, substitute
from .tma_tiles import TMA_PERSISTENT, TMA_ROLES


class GridRounds:
    """The tiles of a grid, and the thread blocks that go through them; or one tile for each block.

    Attributes
    ----------
    axes : the variables and extents of the grid, that of blockIdx.x first; none for one tile
    blocks : how many there are, no more than tiles; along the first axis
    round_ : the variable of the loop over a block's tiles
    steps : of the pipeline for a tile, an expression of its place where a mask ends the loop
    counters : a register that counts steps of earlier tiles; none where each has as many
    """

    def __init__(self, loop: For, body: Any) -> None:
        self.axes, self.blocks = list[tuple[Any, int]](), 1
        self.round_, self.steps, self.counters = IntImm("int32", 0), loop.extent, list[Any]()
        if TMA_PERSISTENT not in loop.annotations or TMA_ROLES not in loop.annotations:
            return
        around = {
            axis: outer
            for outer in get_loops_around(loop, find_all(body, For))
            if (axis := get_axis(outer) or "").startswith("blockIdx")
        }
        axes = [(around[axis].loop_var, constant(around[axis].extent)) for axis in sorted(around)]
        self.axes = [(variable, extent) for variable, extent in axes if extent is not None]
        if not self.axes or len(self.axes) < len(axes):
            raise TransformError(
                f"loop '{loop.loop_var.name}' has no known number of tiles around it",
                "lower the module as make_persistent left it",
            )
        if constant(loop.extent) is None:
            self.counters = [decl_buffer((1,), "int32", "tma_steps", scope="local")]
        else:
            self.steps = constant(loop.extent)
        self.round_ = Var("round", loop.loop_var.ty)
        self.tiles = math.prod(extent for _, extent in self.axes)
        self.blocks = min(int(loop.annotations[TMA_PERSISTENT]), self.tiles)

    @property
    def is_persistent(self) -> bool:
        """Whether thread blocks stay, and go through tiles."""
        return bool(self.axes)

    def count(self, step: Any) -> Any:
        """The number of a tile's step of the pipeline among those of all tiles of a block."""
        if not self.is_persistent:
            return step
        before = self.counters[0][0] if self.counters else self.round_ * self.steps
        return before + step

    def begin(self) -> list[Any]:
        """In front of all rounds."""
        return [BufferStore(it, const(0), [0]) for it in self.counters]

    def end_tile(self) -> list[Any]:
        """Behind a tile's steps, in each role."""
        return [BufferStore(it, it[0] + self.steps, [0]) for it in self.counters]

    def loop_over(self, body: Any, name: str) -> Any:
        """The loop over a block's tiles, in which its own tile is the one of the round.

        Its extent says which block has a tile less: barriers may stand in a loop, and under no
        condition. Where each block has one tile, there is no loop. Where tiles take different
        times, long and short ones lie in the order of the grid: every other round goes back, so
        that no block has all of the long ones.
        """
        if not self.is_persistent:
            return body
        variable, block = Var(name, self.round_.ty), self.axes[0][0]
        whole, rest = divmod(self.tiles, self.blocks)
        place, last = block, block  # among the tiles of a round, and of the last one
        if self.counters:
            back = self.blocks - 1 - block
            place = Select(FloorMod(variable, 2).equal(1), back, block)
            last = back if whole % 2 else block
        extent = IntImm("int32", whole)
        if rest:
            extent = FloorDiv(self.tiles - 1 - last, self.blocks) + 1
        left, places = variable * self.blocks + place, {}
        for axis, size in self.axes[:-1]:
            places[axis] = FloorMod(left, size)
            left = FloorDiv(left, size)
        places[self.axes[-1][0]] = left
        made = substitute(body, {self.round_: variable, **places})
        return For(variable, IntImm("int32", 0), extent, ForKind.SERIAL, made, None, {})
