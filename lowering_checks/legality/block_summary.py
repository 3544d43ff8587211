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
    cached_by_node,
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


class _Facts(NamedTuple):
    """Facts about one block."""

    name: str
    written: set[Any]
    read: set[Any]
    large: list[tuple[str, int]]
    points: int
    moved: list[tuple[str, str, str]]
    registers: list[Any]
    has_lanes: bool
    tiles: list[Any]
    is_swizzled: bool
    aligned: list[tuple[Any, str, int]]
    pitches: list[tuple[Any, int]]


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
        every = [_read_facts(block) for block in blocks]
        others = every[1:]  # without the root block
        for facts in every:
            block = prefix + facts.name
            summary.blocks[block] += 1
            written |= facts.written
            read.update(dict.fromkeys(facts.read, block))
            summary.large.update((prefix + name, size) for name, size in facts.large)
            summary.moved.update({f"{block}/{it[0]}": (block, *it) for it in facts.moved})
        parameters = set(function.params)
        summary.outputs.update(prefix + str(item.name) for item in parameters & written)
        for buffer in read.keys() - written - parameters:
            summary.unwritten[prefix + str(buffer.name)] = read[buffer]

        lanes = [(other.name, other.registers, other.has_lanes) for other in others]
        roots = blocks[:1]  # none in a function of statements
        if any(OWN_LANES in it.annotations for it in roots) and any(it.has_lanes for it in others):
            lanes = [
                (name, registers, has_lanes or uses_own_lane(place))
                for (name, registers, has_lanes), place in zip(lanes, places[1:], strict=True)
            ]
        tiles = [(other.name, other.tiles, other.is_swizzled) for other in others]
        # The buffers that blocks of a property use, and blocks without it, with one of each.
        for mixed, uses in ((summary.mixed, lanes), (summary.swizzled, tiles)):
            special = {
                it: name for name, buffers, is_special in uses if is_special for it in buffers
            }
            for name, buffers, is_special in uses if special else []:
                for buffer in buffers:
                    if not is_special and buffer in special:
                        mixed[prefix + str(buffer.name)] = special[buffer], name
        # The tiles of instructions whose rows begin at multiples of too few bytes.
        used = {item[0]: item for facts in others for item in facts.aligned}
        for buffer, step in [it for facts in others if used for it in facts.pitches]:
            _, user, size = used.get(buffer, (buffer, "", 1))
            if step % size:
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
        for facts, place in zip(every, places, strict=True):
            # Of so many points loops can wrap around, and have done so.
            around = [constant(loop.extent) for loop in place.loops]
            runs = math.prod(extent or 0 for extent in around)
            if facts.points > LARGEST_INDEX and None not in around and runs < facts.points:
                summary.short[prefix + facts.name] = runs, facts.points
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


def _find_aligned(block: SBlock) -> list[tuple[Any, str, int]]:
    """The tiles in shared memory that the instruction of a block takes in wholes of some bytes."""
    tiles = {match.buffer: match.source.source for match in block.match_buffers}
    shared = {key: it for key, it in tiles.items() if str(it.scope()).startswith("shared")}
    calls = [get_op_name(call) for call in (find_all(block.body, Call) if shared else ())]
    name = f"in block '{block.name_hint}'" if shared else ""
    if any("ldmatrix" in call for call in calls):
        user = f"ldmatrix {name} reads rows"
        return [(buffer, user, _MATRIX_BYTES) for buffer in shared.values()]
    return [
        (shared[store.buffer], f"the instruction {name} stores vectors", lanes * size)
        for loop in (find_all(block.body, For) if shared else ())
        if loop.kind == ForKind.VECTORIZED and (lanes := constant(loop.extent))
        for store in find_all(loop.body, BufferStore)
        if store.buffer in shared and (size := store.buffer.dtype.itemsize)
    ]


@cached_by_node(512)  # a transform leaves most blocks as they are
def _read_facts(block: SBlock) -> _Facts:
    registers = _find_used(block, "local")
    written = {region.source for region in block.writes}
    written.update(match.buffer for match in block.match_buffers)
    # The elements of those that are indexed with 32 bits.
    sizes = [
        (str(buffer.name), math.prod(constant(extent) or 1 for extent in buffer.shape))
        for buffer in block.alloc_buffers
        if all(extent.ty.dtype.bits == _BITS for extent in buffer.shape)
    ]
    # What its instruction has in one memory, and the schedule in another.
    matched = [(it.source.source, str(it.buffer.scope())) for it in block.match_buffers]
    moved = [
        (str(source.name), str(source.scope()), scope)
        for source, scope in matched
        if str(source.scope()) != scope
    ]
    # Rows that it sets apart: by a multiple of the factor, and the offset, in bytes.
    pitches = []
    for index, axis, factor, offset in block.annotations.get(ALIGNMENT, ()):
        buffer = block.writes[int(index)].source
        if int(axis) % len(buffer.shape) == len(buffer.shape) - 2:
            step = math.gcd(int(factor), int(offset)) * buffer.dtype.itemsize
            pitches.append((buffer, step))
    return _Facts(
        str(block.name_hint),
        written,
        {region.source for region in block.reads},
        [(name, size) for name, size in sizes if size > LARGEST_INDEX],
        math.prod(constant(iterator.dom.extent) or 1 for iterator in block.iter_vars),
        moved,
        registers,
        bool(registers) and any(get_axis(loop) is not None for loop in find_all(block.body, For)),
        _find_used(block, "shared"),
        SWIZZLE in block.annotations,
        _find_aligned(block),
        pitches,
    )


def _find_used(block: SBlock, memory: str) -> list[Any]:
    """The buffers in a memory that a block without others in it uses, or in registers that an
    instruction does, whose statements may be a block.
    """
    used = [region.source for region in (*block.reads, *block.writes)]
    used = [buffer for buffer in used if str(buffer.scope()).startswith(memory)]
    is_whole = memory == "local" and len(block.match_buffers) > 0
    return used if used and (is_whole or not find_all(block.body, SBlock)) else []
