"""A tile that goes to the tensor slab by slab, through a few slots of shared memory.

A block that goes through several tiles has stages beside the tile that it stores. Where there is no
room for all of that, threads store a slab of the tile, the TMA takes it from there, and meanwhile
they store the next one to another slot.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from tvm.ir import Call, Range, TensorRegion
from tvm.s_tir import SBlock
from tvm.sym import Analyzer
from tvm.tirx import (
    AttrStmt,
    BufferRegion,
    BufferStore,
    FloorDiv,
    For,
    IntImm,
    SeqStmt,
    const,
    decl_buffer,
)
from tvm_ffi import structural_map

from ..gpu_limits import MAX_SHARED_BYTES
from ..rewriting import open_loops
from ..schedule import TransformError
from ..tensor_cores.fragments import SCOPE
from ..tir import (
    constant,
    find_all,
    get_axis,
    is_among,
    list_allocated,
    replace_fields,
    substitute,
)
from .tma_tiles import COMPUTES, TMA_STORE, count_bytes, points_into, redirect

SLOTS = 2
"""Of slabs, where a tile has no room: one is stored to while the TMA reads the other."""
SLAB = -4
"""The dimension of a tile that counts slabs; those before it have one element."""


def count_slots(tile: Any, used: int) -> int:
    """The slots of a tile's slabs where shared memory holds `used` bytes with all of it; 0 where
    there is room, or where a tile has too few slabs to save any.
    """
    slabs = constant(tile.shape[SLAB]) or 1
    is_full = used > MAX_SHARED_BYTES[SCOPE]
    return SLOTS if is_full and slabs > SLOTS and slabs % SLOTS == 0 else 0


def count_saved(tile: Any, used: int) -> int:
    """The bytes that slots save of a tile."""
    slabs = constant(tile.shape[SLAB]) or 1
    slots = count_slots(tile, used) or slabs
    return count_bytes(tile) // slabs * (slabs - slots)


def find_slots(path: list[Any], tile: Any) -> int:
    """The slots of a tile in the kernel around its store."""
    kernel = next(each for each in path if isinstance(each, For) and get_axis(each))
    return count_slots(tile, sum(map(count_bytes, list_allocated(kernel))))


def measure_saved(module: Any, used: int) -> int:
    """The bytes that slots save in a module of one kernel with stores by the TMA."""
    blocks = [each for _, it in module.functions_items() for each in find_all(it.body, SBlock)]
    stores = [each for each in blocks if TMA_STORE in each.annotations]
    return sum(count_saved(each.reads[0].source, used) for each in stores)


def find_condition(path: list[Any]) -> Any:
    """Which threads compute, of a kernel around a store."""
    marks = [each for each in path if isinstance(each, AttrStmt) and each.attr_key == COMPUTES]
    return marks[0].value if marks else const(True)


def make_slots(tile: Any, slots: int) -> Any:
    """The buffer of the slots."""
    shape = [*tile.shape[:SLAB], slots, *tile.shape[SLAB + 1 :]]
    return decl_buffer(shape, tile.dtype, str(tile.name), scope=SCOPE)


def cut_in_slabs(
    statement: Any, tile: Any, made: Any, ranges: list[tuple[Any, int]], condition: Any
) -> list[Any]:
    """What stores a tile's slabs, one after the other, each to its slot.

    `ranges` are those of threads, of which those store that a condition says. Loops over the pieces
    of a store are unrolled.
    """
    loops, statement = open_loops(statement)
    size = math.prod(constant(it) or 1 for it in tile.shape[SLAB + 1 :])
    slabs: list[list[Any]] = [[] for _ in range(constant(tile.shape[SLAB]) or 1)]
    for place in itertools.product(*(range(constant(loop.extent) or 1) for loop in loops)):
        values = {loop.loop_var: IntImm("int32", at) for loop, at in zip(loops, place, strict=True)}
        piece = substitute(statement, values)
        # The one slab that a piece of a store is stored to.
        analyzer = Analyzer()
        for variable, extent in ranges:
            analyzer.bind(variable, Range(0, extent))
        stores = [
            it.indices[SLAB] for it in find_all(piece, BufferStore) if it.buffer.same_as(tile)
        ]
        pointers = [
            FloorDiv(it.args[2], size) for it in find_all(piece, Call) if points_into(it, tile)
        ]
        with analyzer.constraint_scope(condition):
            found = {constant(analyzer.simplify(each)) for each in (*stores, *pointers)}
        if len(found) != 1 or None in found:
            raise TransformError(
                f"'{tile.name}' is not stored slab by slab, and there is no room for all of it",
                "use fewer stages, or smaller tiles",
            )
        slab = int(found.pop() or 0)
        slabs[slab].append(_move(piece, tile, made, slab, size))
    return [SeqStmt(pieces) if len(pieces) > 1 else pieces[0] for pieces in slabs]


def _move(piece: Any, tile: Any, made: Any, slab: int, size: int) -> Any:
    """A piece of a store that goes to its slab's slot."""
    slot = slab % (constant(made.shape[SLAB]) or 1)

    def index(indices: Any) -> list[Any]:
        return [*indices[:SLAB], slot, *indices[SLAB + 1 :]]

    offset = (slot - slab) * size
    return redirect(piece, tile, made, index=index, cover=lambda _: _cover(made), offset=offset)


def _cover(made: Any) -> list[Any]:
    return [Range(0, size) for size in made.shape]


def allocate_slots(kernel: Any, tile: Any, made: Any) -> Any:
    """A kernel that allocates the slots in the place of a tile."""

    def rewrite(block: Any) -> Any:
        if not is_among(tile, block.alloc_buffers):
            return block
        kept = [made if it.same_as(tile) else it for it in block.alloc_buffers]
        return replace_fields(block, alloc_buffers=kept)

    def cover(region: Any) -> Any:
        return BufferRegion(made, _cover(made)) if region.source.same_as(tile) else region

    def name(call: Any) -> Any:
        return made.access_ptr(int(call.args[4])) if points_into(call, tile) else call

    callbacks: list[tuple[type, Callable[[Any], Any]]] = [
        (SBlock, rewrite),
        (TensorRegion, cover),
        (Call, name),  # what keeps a tile's memory its own
    ]
    return structural_map(kernel, callbacks)
