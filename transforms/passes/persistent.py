"""The kernels of `make_persistent`: thread blocks that go through tiles, one after the other.

Roles stand around the loop over tiles: the warps that copy go on to the next tile while the others
store theirs. Stages and parities follow the steps of all tiles that a block goes through. Until
TVM has put barriers in, roles are marks (`mark_roles`), since it puts none under the condition of
threads; those of the warps that compute are named ones then (`NameBarriersOfRoles`).

Instructions from the PTX ISA, section "Parallel Synchronization and Communication Instructions:
bar". The loop over tiles is that of the persistent kernels of NVIDIA's CUTLASS 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm.script import tirx as T
from tvm.tirx import (
    AttrStmt,
    BufferStore,
    Evaluate,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    Not,
    Select,
    SeqStmt,
    Var,
    const,
    decl_buffer,
)
from tvm.tirx.transform import prim_func_pass

from tirstep.tvm_compat import SBlock, structural_map

from ..errors import TransformError
from ..tir import constant, find_all, get_axis, is_among, replace_fields, substitute
from ..tma_tiles import TMA_PERSISTENT, TMA_ROLES
from .tma_pipeline import ROOM, Pipeline, join
from .uses import SHARED, is_barrier

COMPUTES = "tirstep_warps_compute"
COPIES = "tirstep_warps_copy"
"""Keys of our marks: AttrStmts around what warps of a role do, as long as TVM puts barriers in."""
BARRIER = 8
"""The number of the named barrier of the warps that compute, beyond those of `PingPong`."""


@dataclass(frozen=True)
class Rounds:
    """The tiles of a grid, and the thread blocks that go through them.

    Attributes
    ----------
    axes : the variables and extents of the grid, that of blockIdx.x first
    blocks : how many there are, no more than tiles; along the first axis
    round_ : the variable of the loop over a block's tiles
    steps : of the pipeline for a tile, an expression of its place where a mask ends the loop
    counter : a register that counts steps of earlier tiles; None where each has as many
    """

    axes: list[tuple[Any, int]]
    blocks: int
    round_: Any
    steps: Any
    counter: Any = None

    @classmethod
    def of(cls, body: Any, pipeline: Pipeline) -> Rounds | None:
        """The rounds that `make_persistent` asked for in a kernel; None where it did not."""
        loop = pipeline.loop
        if TMA_PERSISTENT not in loop.annotations:
            return None
        around = {
            axis: outer
            for outer in find_all(body, For)
            if (axis := get_axis(outer) or "").startswith("blockIdx")
            and any(loop.same_as(each) for each in find_all(outer, For))
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
        return cls(known, blocks, Var("round", loop.loop_var.ty), steps, counter)

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
        first, *others = [variable for variable, _ in self.axes]
        if loop.loop_var.same_as(first):
            return self.blocks
        return 1 if is_among(loop.loop_var, others) else None

    def loop_over(self, body: Any, name: str) -> For:
        """The loop over a block's tiles, in which its own tile is the one of the round.

        Its extent says which block has a tile less: barriers may stand in a loop, and under no
        condition.
        """
        round_ = Var(name, self.round_.ty)
        tiles = math.prod(extent for _, extent in self.axes)
        whole, rest = divmod(tiles, self.blocks)
        extent: Any = IntImm("int32", whole)
        if rest:
            extent = FloorDiv(tiles - 1 - self._find_place(whole), self.blocks) + 1
        left, places = round_ * self.blocks + self._find_place(round_), {}
        for variable, size in self.axes[:-1]:
            places[variable] = FloorMod(left, size)
            left = FloorDiv(left, size)
        places[self.axes[-1][0]] = left
        made = substitute(body, {self.round_: round_, **places})
        return For(round_, IntImm("int32", 0), extent, ForKind.SERIAL, made, None, {})

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


def go_through_tiles(kernel: Any, pipeline: Pipeline, consumer: list[Any]) -> For:
    """What warps that compute do in all rounds, of a kernel with theirs in the pipeline's place.

    Buffers of the kernel stand around the loop over tiles.
    """
    assert pipeline.rounds is not None
    variable = pipeline.loop.loop_var
    for kind in (For, IfThenElse):
        for each in find_all(kernel, kind):
            if any(
                it.same_as(pipeline.loop) and not it.same_as(each) for it in find_all(each, For)
            ):
                raise TransformError(
                    f"loop '{variable.name}' stands in a loop, or under a condition, of its tile",
                    "let it be the outermost one of a tile, and pad the problem first",
                )

    def rewrite(loop: For) -> Any:
        return join(consumer) if loop.loop_var.same_as(variable) else loop

    def drop(block: SBlock) -> SBlock:
        kept = [it for it in block.alloc_buffers if not is_lasting(it, pipeline)]
        return replace_fields(block, alloc_buffers=kept) if block.alloc_buffers else block

    computed = structural_map(structural_map(kernel, (SBlock, drop)), (For, rewrite))
    return pipeline.rounds.loop_over(computed, f"{variable.name}_tile")


def is_lasting(buffer: Any, pipeline: Pipeline) -> bool:
    """Whether a kernel's buffer is there in all rounds: all but those of the pipeline's body."""
    return not is_among(buffer, _list_buffers(pipeline.loop))


def find_lasting(kernel: Any, pipeline: Pipeline) -> list[Any]:
    """A kernel's buffers that stand beside the stages in all rounds.

    Memory of theirs is no stage's, which the next tile is copied to while this one is stored.
    """
    return [each for each in _list_buffers(kernel) if is_lasting(each, pipeline)]


def _list_buffers(statement: Any) -> list[Any]:
    return [each for block in find_all(statement, SBlock) for each in block.alloc_buffers]


def measure_room(module: Any, name: str, stages: int) -> int:
    """The bytes of shared memory of a kernel whose blocks stay, before `LowerTmaPipelines`.

    So many stages of the pipeline of a name, the mbarriers, and what the kernel keeps beside them.
    """
    most = 0
    for _, function in module.functions_items():
        for kernel in find_all(function.body, For):
            loops = [loop for loop in find_all(kernel, For) if TMA_ROLES in loop.annotations]
            loops = [loop for loop in loops if loop.loop_var.name == name]
            if get_axis(kernel) != "blockIdx.x" or not loops:
                continue
            own = _list_buffers(loops[0])
            used = sum(count_bytes(it) for it in _list_buffers(kernel) if not is_among(it, own))
            most = max(most, used + stages * sum(map(count_bytes, own)) + ROOM * 8)
    return most


def count_bytes(buffer: Any) -> int:
    """The bytes of a buffer in shared memory; 0 of another one."""
    if str(buffer.scope()) not in SHARED:
        return 0
    shape = [constant(extent) or 1 for extent in buffer.shape]
    pitch = constant(buffer.strides[0]) if buffer.strides else None
    elements = shape[0] * pitch if pitch else math.prod(shape)
    return elements * int(buffer.dtype.itemsize)


def mark_roles(pipeline: Pipeline, computes: Any, consumer: Any, producer: Any) -> list[Any]:
    """Both roles, one behind the other, for `NameBarriersOfRoles`."""
    threads = IntImm("int32", math.prod(count for _, count in pipeline.threads))
    return [
        AttrStmt(threads, COMPUTES, computes, consumer),
        AttrStmt(threads, COPIES, computes, producer),
    ]


@prim_func_pass(opt_level=0, name="tirstep.NameBarriersOfRoles")
def NameBarriersOfRoles(  # noqa: N802 - a pass is named like TVM's
    function: Any, _module: Any, _context: Any
) -> Any:
    """Put roles of a persistent kernel under their condition, and name the barriers there.

    A barrier among warps that compute is one of their threads alone: others never come to it. It
    runs when TVM has put barriers in.

    rewrite: ``barrier`` of the warps that compute -> ``bar.sync 8, threads``
    """
    if not any(node.attr_key == COMPUTES for node in find_all(function.body, AttrStmt)):
        return function
    body = structural_map(function.body, (SeqStmt, _pair))
    return function.with_body(structural_map(body, (AttrStmt, _choose)))


def _pair(sequence: Any) -> Any:
    """A sequence in which roles that follow one another are the two cases of one condition."""
    parts: list[Any] = []
    for part in sequence.seq:
        before: Any = parts[-1] if parts else None
        if _is_role(before, COMPUTES) and _is_role(part, COPIES):
            parts[-1] = IfThenElse(before.value, _name_barriers(before), part.body)
        else:
            parts.append(part)
    return sequence if len(parts) == len(sequence.seq) else join(parts)


def _is_role(statement: Any, key: str) -> bool:
    return isinstance(statement, AttrStmt) and statement.attr_key == key


def _choose(node: Any) -> Any:
    """A role that stands alone, under its condition."""
    if node.attr_key == COMPUTES:
        return IfThenElse(node.value, _name_barriers(node), None)
    return IfThenElse(Not(node.value), node.body, None) if node.attr_key == COPIES else node


def _name_barriers(role: Any) -> Any:
    threads = constant(role.node)
    named = Evaluate(T.ptx.bar.sync(T.uint32(BARRIER), T.uint32(threads)))
    return structural_map(role.body, (Evaluate, lambda it: named if is_barrier(it) else it))
