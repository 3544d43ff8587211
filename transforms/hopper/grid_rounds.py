"""Rounds in which the thread blocks of `make_persistent` go through the tiles of a grid.

The loop over tiles is that of the persistent kernels of NVIDIA's CUTLASS 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
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
from ..tir import constant, find_all, get_axis, get_loops_around, is_among, substitute
from .tma_tiles import TMA_PERSISTENT, TMA_ROLES, TMA_TURNS


@dataclass(frozen=True)
class GridRounds:
    """The tiles of a grid, and the thread blocks that go through them; or one tile for each block.

    Attributes
    ----------
    axes : the variables and extents of the grid, that of blockIdx.x first; none for one tile
    blocks : how many there are, no more than tiles; along the first axis
    round_ : the variable of the loop over a block's tiles
    steps : of the pipeline for a tile, an expression of its place where a mask ends the loop
    counter : a register that counts steps of earlier tiles; None where each has as many
    turns : warpgroups that compute a tile each, in turn
    """

    axes: list[tuple[Any, int]]
    blocks: int
    round_: Any
    steps: Any
    counter: Any = None
    turns: int = 1

    @classmethod
    def of(cls, loop: For, body: Any) -> GridRounds:
        """The rounds that `make_persistent` asked for; of one tile where it did not."""
        if TMA_PERSISTENT not in loop.annotations or TMA_ROLES not in loop.annotations:
            return cls([], 1, IntImm("int32", 0), 0)
        around = {
            axis: outer
            for outer in get_loops_around(loop, find_all(body, For))
            if (axis := get_axis(outer) or "").startswith("blockIdx")
        }
        axes = [(around[axis].loop_var, constant(around[axis].extent)) for axis in sorted(around)]
        known = [(variable, extent) for variable, extent in axes if extent is not None]
        if not known or len(known) < len(axes):
            raise TransformError(
                f"loop '{loop.loop_var.name}' has no known number of tiles around it",
                "lower the module as make_persistent left it",
            )
        steps, counter = constant(loop.extent), None
        if steps is None:
            steps, counter = loop.extent, decl_buffer((1,), "int32", "tma_steps", scope="local")
        tiles = math.prod(extent for _, extent in known)
        blocks = min(int(loop.annotations[TMA_PERSISTENT]), tiles)
        turns = int(loop.annotations.get(TMA_TURNS, 1))
        if turns > 1 and counter is not None:
            raise TransformError(
                f"loop '{loop.loop_var.name}' has another number of steps in each tile, and "
                "warpgroups that take tiles in turn do not count those of others",
                "lower the module as alternate_tiles left it",
            )
        return cls(known, blocks, Var("round", loop.loop_var.ty), steps, counter, turns)

    @property
    def is_persistent(self) -> bool:
        """Whether thread blocks stay, and go through tiles."""
        return bool(self.axes)

    def count(self, step: Any) -> Any:
        """The number of a tile's step of the pipeline among those of all tiles of a block."""
        return self.before + step if self.is_persistent else step

    @property
    def before(self) -> Any:
        """The steps of the pipeline in earlier rounds."""
        return self.round_ * self.steps if self.counter is None else self.counter[0]

    def begin(self) -> list[Any]:
        """In front of all rounds."""
        return [] if self.counter is None else [BufferStore(self.counter, const(0), [0])]

    def end_tile(self) -> list[Any]:
        """Behind a tile's steps, in each role."""
        if self.counter is None:
            return []
        return [BufferStore(self.counter, self.counter[0] + self.steps, [0])]

    @property
    def buffers(self) -> list[Any]:
        """Those that stand around all rounds."""
        return [] if self.counter is None else [self.counter]

    def find_extent(self, loop: For) -> int | None:
        """The extent of an axis of the grid; None of another loop."""
        variables = [variable for variable, _ in self.axes]
        if not is_among(loop.loop_var, variables):
            return None
        return self.blocks if loop.loop_var.same_as(variables[0]) else 1

    def count_tiles(self) -> Any:
        """The tiles that a block goes through: of some blocks one more than of the others."""
        tiles = math.prod(extent for _, extent in self.axes)
        whole, rest = divmod(tiles, self.blocks)
        if not rest:
            return IntImm("int32", whole)
        return FloorDiv(tiles - 1 - self._find_place(whole), self.blocks) + 1

    def loop_over(self, body: Any, name: str, turn: Any = None) -> Any:
        """The loop over a block's tiles, in which its own tile is the one of the round; over those
        of a `turn` alone where there is one.

        Its extent says which block has a tile less: barriers may stand in a loop, and under no
        condition. Where each block has one tile, there is no loop.
        """
        if not self.is_persistent:
            return body
        variable = Var(name, self.round_.ty)
        round_, extent = variable, self.count_tiles()
        if turn is not None:
            round_ = variable * self.turns + turn
            extent = FloorDiv(extent + self.turns - 1 - turn, self.turns)
        left, places = round_ * self.blocks + self._find_place(round_), {}
        for axis, size in self.axes[:-1]:
            places[axis] = FloorMod(left, size)
            left = FloorDiv(left, size)
        places[self.axes[-1][0]] = left
        made = substitute(body, {self.round_: round_, **places})
        return For(variable, IntImm("int32", 0), extent, ForKind.SERIAL, made, None, {})

    def _find_place(self, round_: Any) -> Any:
        """The place of a block among those of a round.

        Where tiles take different times, long and short ones lie in the order of the grid: every
        other round goes back, so that no block has all of the long ones.
        """
        block, back = self.axes[0][0], self.blocks - 1 - self.axes[0][0]
        if self.counter is None:
            return block
        if isinstance(round_, int):
            return back if round_ % 2 else block
        return Select(FloorMod(round_, 2).equal(1), back, block)
