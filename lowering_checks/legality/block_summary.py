"""What there is in a module, block by block: what is lost, of which size, and in which memory."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, NamedTuple

from tvm.ir import Call, IRModule
from tvm.s_tir import SBlock
from tvm.tirx import BufferStore, For, ForKind, PrimFunc

from tirstep.transforms.annotations import ALIGNMENT, OWN_LANES, SWIZZLE
from tirstep.transforms.tensor_cores.fragments import uses_own_lane
from tirstep.transforms.tir import (
    LARGEST_INDEX,
    bind_ranges,
    cached_by_module,
    constant,
    find_all,
    get_axis,
    get_places,
    is_among,
)
from tirstep.tvm_compat import get_op_name

_BITS = 32
_MATRIX_BYTES = 16
"""Bytes of a row that ldmatrix reads."""


class Summary(NamedTuple):
    """What there is in a module; names are ``function.name`` where there are several functions."""

    blocks: Counter[str]
    outputs: set[str]
    unwritten: dict[str, str]
    extents: dict[str, int]
    short: dict[str, tuple[int, int]]
    beyond: dict[str, tuple[str, int]]
    large: dict[str, int]
    moved: dict[str, tuple[str, str, str, str]]
    unrolled: dict[str, str]
    mixed: dict[str, tuple[str, str]]
    swizzled: dict[str, tuple[str, str]]
    skewed: dict[str, tuple[int, str, int]]


@cached_by_module(2)  # what one transform leaves behind, the next one finds
def summarize(module: IRModule) -> Summary:
    functions = [(v, f) for v, f in module.functions_items() if isinstance(f, PrimFunc)]
    summary = Summary(Counter(), set(), *({} for _ in range(10)))
    for variable, function in functions:
        prefix = f"{variable.name_hint}." if len(functions) > 1 else ""
        places, loops = get_places(function.body), find_all(function.body, For)
        blocks = [place.block for place in places]
        written: set[Any] = set()
        read: dict[Any, str] = {}
        for each in blocks:
            block = prefix + str(each.name_hint)
            summary.blocks[block] += 1
            written.update(region.source for region in each.writes)
            written.update(match.buffer for match in each.match_buffers)
            read.update((region.source, block) for region in each.reads)
            # The elements of those that are indexed with 32 bits.
            for buffer in each.alloc_buffers:
                elements = math.prod(constant(extent) or 1 for extent in buffer.shape)
                is_indexed = all(extent.ty.dtype.bits == _BITS for extent in buffer.shape)
                if is_indexed and elements > LARGEST_INDEX:
                    summary.large[prefix + str(buffer.name)] = elements
            # What its instruction has in one memory, and the schedule in another.
            for match in each.match_buffers:
                name, scope = str(match.source.source.name), str(match.source.source.scope())
                if scope != str(match.buffer.scope()):
                    moved = block, name, scope, str(match.buffer.scope())
                    summary.moved[f"{block}/{name}"] = moved
        parameters = set(function.params)
        summary.outputs.update(prefix + str(item.name) for item in parameters & written)
        for buffer in read.keys() - written - parameters:
            summary.unwritten[prefix + str(buffer.name)] = read[buffer]

        # Of all but the root block: what uses registers, some over the lanes of a warp; tiles in
        # shared memory, some swizzled; and the tiles of instructions that take them in wholes.
        lanes, tiles, used = list[Any](), list[Any](), dict[Any, tuple[str, int]]()
        for each in blocks[1:]:
            name, registers = str(each.name_hint), _find_used(each, "local")
            has_lanes = bool(registers) and any(map(get_axis, find_all(each.body, For)))
            lanes.append((name, registers, has_lanes))
            tiles.append((name, _find_used(each, "shared"), SWIZZLE in each.annotations))
            used.update(_find_aligned(each))
        is_own = any(OWN_LANES in it.annotations for it in blocks[:1])
        if is_own and any(has_lanes for *_, has_lanes in lanes):
            lanes = [
                (name, registers, has_lanes or uses_own_lane(place))
                for (name, registers, has_lanes), place in zip(lanes, places[1:], strict=True)
            ]
        # The buffers that blocks of a property use, and blocks without it, with one of each.
        for mixed, uses in ((summary.mixed, lanes), (summary.swizzled, tiles)):
            special = {
                it: name for name, buffers, is_special in uses if is_special for it in buffers
            }
            for name, buffers, is_special in uses if special else []:
                for buffer in buffers:
                    if not is_special and buffer in special:
                        mixed[prefix + str(buffer.name)] = special[buffer], name
        # Rows that a block sets apart: by a multiple of the factor, and the offset, in bytes.
        for each in blocks[1:] if used else ():
            for index, axis, factor, offset in each.annotations.get(ALIGNMENT, ()):
                buffer = each.writes[int(index)].source
                user, size = used.get(buffer, ("", 1))
                step = math.gcd(int(factor), int(offset)) * buffer.dtype.itemsize
                if int(axis) % len(buffer.shape) == len(buffer.shape) - 2 and step % size:
                    summary.skewed[prefix + str(buffer.name)] = step, user, size

        within: list[For] = []  # of a kernel; loops come in pre-order
        for loop in loops if any(it.kind == ForKind.UNROLLED for it in loops) else ():
            if is_among(loop, within):
                continue
            bound = [one for one in find_all(loop, For) if "Idx" in (get_axis(one) or "")]
            if loop.kind == ForKind.UNROLLED and bound:
                name = prefix + str(loop.loop_var.name)
                summary.unrolled[name] = str(bound[0].loop_var.name)
            if "Idx" in (get_axis(loop) or ""):
                within += find_all(loop, For)
        for loop in loops:
            extent = constant(loop.extent)
            if extent is not None and extent < 1:
                summary.extents[prefix + str(loop.loop_var.name)] = extent
        for place in places:
            # Of so many points loops can wrap around, and have done so.
            points = math.prod(constant(it.dom.extent) or 1 for it in place.block.iter_vars)
            around = [constant(loop.extent) for loop in place.loops]
            runs = math.prod(extent or 0 for extent in around)
            if points > LARGEST_INDEX and None not in around and runs < points:
                summary.short[prefix + place.name] = runs, points
            # Iterators that loops bring beyond 32 bits, round up on round up: guards that stop them
            # are asked with the number that has wrapped around.
            most = math.prod(extent or 1 for extent in around)
            if not place.guards or most < LARGEST_INDEX:
                continue
            analyzer = bind_ranges(place.loops)
            for iterator in place.block.iter_vars:
                largest = int(analyzer.const_int_bound(place.values[iterator.var]).max_value)
                if largest >= LARGEST_INDEX and iterator.var.ty.dtype.bits == _BITS:
                    summary.beyond[prefix + place.name] = str(iterator.var.name), largest
    return summary


def _find_aligned(block: SBlock) -> dict[Any, tuple[str, int]]:
    """The tiles in shared memory that the instruction of a block takes in wholes of some bytes,
    with what takes them.
    """
    tiles = {match.buffer: match.source.source for match in block.match_buffers}
    shared = {key: it for key, it in tiles.items() if str(it.scope()).startswith("shared")}
    calls = [get_op_name(call) for call in (find_all(block.body, Call) if shared else ())]
    name = f"in block '{block.name_hint}'" if shared else ""
    if any("ldmatrix" in call for call in calls):
        return dict.fromkeys(shared.values(), (f"ldmatrix {name} reads rows", _MATRIX_BYTES))
    return {
        shared[store.buffer]: (f"the instruction {name} stores vectors", lanes * size)
        for loop in (find_all(block.body, For) if shared else ())
        if loop.kind == ForKind.VECTORIZED and (lanes := constant(loop.extent))
        for store in find_all(loop.body, BufferStore)
        if store.buffer in shared and (size := store.buffer.dtype.itemsize)
    }


def _find_used(block: SBlock, memory: str) -> list[Any]:
    """The buffers in a memory that a block without others in it uses, or in registers that an
    instruction does, whose statements may be a block.
    """
    used = [region.source for region in (*block.reads, *block.writes)]
    used = [buffer for buffer in used if str(buffer.scope()).startswith(memory)]
    is_whole = memory == "local" and len(block.match_buffers) > 0
    return used if used and (is_whole or not find_all(block.body, SBlock)) else []
