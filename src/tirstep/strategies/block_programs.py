"""Draws programs of blocks, as schedules have them, and schedules these with TVM's own primitives.

What a primitive accepts may compute something else; the program is taken as it stands behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import tvm
from tvm.s_tir import Schedule, ScheduleError

from .expressions import CAP, LIMITS, Choice, Index, Store
from .program_text import ProgramWriter, parse_program

PRIMITIVES = (
    *("split", "split", "fuse", "reorder", "vectorize", "unroll", "parallel"),
    *(
        "cache_read",
        "cache_write",
        "compute_at",
        "compute_inline",
        "decompose",
        "reverse_compute_at",
    ),
)


class BlockWriter(ProgramWriter):
    """Writes blocks, one behind the other: maps and sums, with guards, some bound to a GPU."""

    def __init__(self, choice: Choice) -> None:
        super().__init__(choice)
        self.is_kernel = self.is_so(2, "kernel")

    def write(self) -> str:
        """The whole text."""
        return super().write().replace("@T.prim_func\n", "@T.prim_func(s_tir=True)\n")

    def body(self, outputs: Sequence[Store]) -> None:
        """Blocks that store to buffers in between, then to the outputs."""
        for _ in range(self.pick((0, 1, 1, 2), "between")):
            made = Store(self.fresh("E"), self.dtype(), self.shape(), CAP)
            self.say(f'{made.name} = T.sblock_alloc_buffer({made.shape}, "{made.dtype}")')
            self.sblock(made)
            self.stores.append(made)
        for output in outputs:
            self.sblock(output)
            self.stores.append(output)

    def sblock(self, output: Store) -> None:
        """Loops and a block in them."""
        terms = self.pick((None, None, 2, 4, 5), "terms")
        depth = self.depth
        bindings, guards = self.around(output.shape)
        reduction = self.fresh("k")
        if terms is not None:
            self.say(f"for {reduction} in range({terms}):")
            self.depth += 1
        self.say(f'with T.sblock("{self.fresh(output.name)}"):')
        self.depth += 1
        with self.scoped():
            self.in_block(output, bindings, guards, reduction, terms)
        self.depth = depth

    def around(self, shape: Sequence[int]) -> tuple[list[str], list[str]]:
        """Open loops over a shape; the value of each axis of the block, and the guards."""
        bindings, guards = [], []
        for at, extent in enumerate(shape):
            names = self.fresh("o"), self.fresh("n")
            inner = self.pick((1, 2, 4, 8), "by") if self.is_kernel or self.is_so(3, "split") else 0
            if inner == 0:
                self.say(f"for {names[0]} in range({extent}):")
                self.depth += 1
                bindings.append(names[0])
                continue
            outer = -(-extent // inner)
            kinds = [f"range({outer})", f"range({inner})"]
            if self.is_kernel and at < 2:
                letter = "xy"[at]
                kinds = [
                    f'T.thread_binding({outer}, thread="blockIdx.{letter}")',
                    f'T.thread_binding({inner}, thread="threadIdx.{letter}")',
                ]
            for name, kind in zip(names, kinds, strict=True):
                self.say(f"for {name} in {kind}:")
                self.depth += 1
            bindings.append(f"{names[0]} * {inner} + {names[1]}")
            if outer * inner != extent:
                guards.append(f"{bindings[-1]} < {extent}")
        return bindings, guards

    def in_block(
        self,
        output: Store,
        bindings: Sequence[str],
        guards: Sequence[str],
        reduction: str,
        terms: int | None,
    ) -> None:
        """The axes of a block, and what it stores."""
        axes = []
        for extent, binding in zip(output.shape, bindings, strict=True):
            axes.append(self.fresh("v"))
            self.say(f"{axes[-1]} = T.axis.spatial({extent}, {binding})")
            self.indices.append(Index(axes[-1], extent))
        target = f"{output.name}[{', '.join(axes)}]"
        if guards:
            self.say(f"T.where({' and '.join(guards)})")
        if terms is None:
            self.store(output, ", ".join(axes))
            return
        axis = self.fresh("v")
        at = len(self.lines) - bool(guards)
        self.lines.insert(at, "    " * self.depth + f"{axis} = T.axis.reduce({terms}, {reduction})")
        self.say("with T.init():")
        self.say(f"    {target} = {self.constant(output.dtype).text}")
        self.indices.append(Index(axis, terms))
        value = self.capped(
            self.expression(output.dtype, 2), max(1, min(CAP, LIMITS[output.dtype] // 9))
        )
        self.say(f"{target} = {target} {self.pick(('+', '-'), 'sign')} {value.text}")


def draw_block_program(choice: Choice) -> tvm.IRModule:
    """A program of blocks, scheduled by some primitives."""
    module = parse_program(BlockWriter(choice).write())
    sch = Schedule(module, error_render_level="none")
    for _ in range(choice.one(range(6), "primitives")):
        before = sch.mod
        # What TVM refuses changes nothing; some refusals are ValueErrors.
        with suppress(ScheduleError, ValueError, TypeError, tvm.error.InternalError):
            _apply(choice, sch)
            continue
        sch = Schedule(before, error_render_level="none")
    return sch.mod


def _apply(choice: Choice, sch: Schedule) -> None:
    name = choice.one(PRIMITIVES, "primitive")
    block = choice.one(list(sch.get_child_blocks(sch.get_sblock("root"))), "block")
    loops = list(sch.get_loops(block))
    if name in ("split", "unroll", "parallel", "vectorize") and loops:
        loop = loops[-1] if name == "vectorize" else choice.one(loops, "loop")
        if name == "split":
            sch.split(loop, [None, choice.one((2, 3, 4), "inner")])
        else:
            getattr(sch, name)(loop)
    elif name == "fuse" and len(loops) > 1:
        at = choice.one(range(len(loops) - 1), "loop")
        sch.fuse(loops[at], loops[at + 1])
    elif name == "reorder" and len(loops) > 1:
        at = choice.one(range(len(loops) - 1), "loop")
        sch.reorder(loops[at + 1], loops[at])
    elif name == "decompose" and loops:
        sch.decompose_reduction(block, choice.one(loops, "loop"))
    elif name == "compute_inline":
        sch.compute_inline(block)
    else:
        _move(choice, sch, name, block, loops)


def _move(choice: Choice, sch: Schedule, name: str, block: Any, loops: list[Any]) -> None:
    if name in ("compute_at", "reverse_compute_at"):
        other = choice.one(list(sch.get_child_blocks(sch.get_sblock("root"))), "other")
        around = list(sch.get_loops(other))
        if around:
            getattr(sch, name)(block, choice.one(around, "loop"))
    elif name in ("cache_read", "cache_write") and loops:
        scope = choice.one(("global", "local", "shared"), "scope")
        copy = getattr(sch, name)(block, 0, scope)
        at = sch.compute_at if name == "cache_read" else sch.reverse_compute_at
        at(copy, choice.one(loops, "loop"))
