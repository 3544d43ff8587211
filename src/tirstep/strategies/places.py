"""What moves are made of: drawn blocks, loops, scopes, threads and tails of a play."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tvm.tirx import ForKind

from tirstep.transforms import tir

from .expressions import Choice
from .plays import Block, Call, Loop, Play, bound_loops, find_sequences


class Places:
    """Draws places and options for the next call of a play.

    Attributes
    ----------
    at : the block that the call is about
    """

    def __init__(self, choice: Choice, play: Play) -> None:
        self.choice, self.play = choice, play
        self.at = play.blocks()[0]

    def one(self, values: Iterable[Any], label: str) -> Any:
        return self.choice.one(list(values), label)

    def block(self, label: str = "other") -> Block:
        return self.one(self.play.blocks(), label)

    def loop(self, block: Block | None = None, *, serial: bool = False) -> Loop:
        """A loop of the block; now and then one of another block."""
        at = block or self.at
        if block is None and self.one([False] * 15 + [True], "elsewhere"):
            at = self.block()
        loops = self.play.loops(at)
        if not loops:
            at, loops = self.at, self.play.loops(self.at)
        indices = list(range(len(loops)))
        if serial:
            kinds = [self.play.sch.get(loop).kind for loop in loops]
            indices = [i for i in indices if kinds[i] == ForKind.SERIAL] or indices
        return Loop(at, self.one(indices, "loop"))

    def sequence(self) -> Loop:
        """A loop for a pipeline: of several statements, where there is one."""
        found = find_sequences(self.play, self.at)
        return self.one(found, "sequence") if found else self.loop()

    def tail(self) -> str:
        return self.one(("refuse", "guard", "guard"), "tail")

    def scope(self) -> str:
        return self.one(("shared", "shared", "shared.dyn", "local", "local"), "scope")

    def extents(self) -> dict[str, int]:
        """The thread axes that there are."""
        found = bound_loops(self.play.module["main"].body)
        axes = {tir.get_axis(loop): tir.constant(loop.extent) for loop in found}
        return {str(a): e for a, e in axes.items() if e and str(a).startswith("threadIdx")}

    def threads(self) -> Any:
        """Extents for a fetch: mostly those of the kernel."""
        extents = self.extents()
        if extents and self.one((True, True, True, False), "known"):
            count = next((n for n, a in ((3, "z"), (2, "y")) if f"threadIdx.{a}" in extents), 1)
            shape = [extents.get(f"threadIdx.{letter}", 1) for letter in "zyx"[3 - count :]]
            return shape[0] if count == 1 else tuple(shape)
        return self.one((2, 4, 8, 32, (2, 2), (4, 2), (4, 4), (2, 2, 2)), "threads")

    def warps(self) -> int:
        """Of a fetch by warps: mostly those of the kernel."""
        return self.one([self.extents().get("threadIdx.y", 1)] * 9 + [1, 2, 4], "warps")

    def of_block(self, name: str, **options: Any) -> Call:
        return Call(name, (self.at,), options)
