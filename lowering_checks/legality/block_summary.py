"""What there is in a module, block by block: what is lost, of which size, and in which memory."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from tvm.ir import Call, IRModule
from tvm.s_tir import SBlock
from tvm.tirx import BufferStore, For, ForKind, PrimFunc, Var
from tvm_ffi import structural_walk

from tirstep.transforms.annotations import ALIGNMENT, OWN_LANES, SWIZZLE
from tirstep.transforms.tensor_cores.fragments import uses_own_lane
from tirstep.transforms.tir import (
    LARGEST_INDEX,
    Place,
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
        _count_function(function, prefix, summary)
    return summary


def _count_function(function: PrimFunc, prefix: str, summary: Summary) -> None:
    places = get_places(function.body)
    blocks = [place.block for place in places]
    loops = find_all(function.body, For)
    written: set[Any] = set()
    read: dict[Any, str] = {}
    # The root block is another after each change; the others mostly stay what they were.
    others = [_read_block(block) for block in blocks[1:]]
    every = [*map(_read_facts, blocks[:1]), *others]
    for facts in every:
        summary.blocks[prefix + facts.name] += 1
        written |= facts.written
        read.update(dict.fromkeys(facts.read, prefix + facts.name))
        summary.large.update((prefix + name, size) for name, size in facts.large)
        for name, scope, needed in facts.moved:
            block = prefix + facts.name
            summary.moved[f"{block}/{name}"] = (block, name, scope, needed)
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
    for mixed, uses in ((summary.mixed, lanes), (summary.swizzled, tiles)):
        mixed.update((prefix + str(buffer.name), two) for buffer, two in _find_mixed(uses))
    summary.skewed.update((prefix + str(it.name), two) for it, two in _find_skewed(others))
    summary.unrolled.update(_find_unrolled_kernels(loops, prefix))
    if any(facts.points > LARGEST_INDEX for facts in every):
        _count_points(blocks, loops, prefix, summary)
    _count_iterations(loops, places, prefix, summary)


def _count_iterations(loops: list[Any], places: list[Place], prefix: str, summary: Summary) -> None:
    for loop in loops:
        extent = constant(loop.extent)
        if extent is not None and extent < 1:
            summary.extents[prefix + str(loop.loop_var.name)] = extent
    for place in places[1:]:
        if place.guards:
            summary.beyond.update(_find_wrapped(place, prefix))


def _find_skewed(
    blocks: list[_Facts],
) -> Iterator[tuple[Any, tuple[int, str, int]]]:
    """The tiles of instructions whose rows begin at multiples of too few bytes."""
    used = {item[0]: item for facts in blocks for item in facts.aligned}
    for facts in blocks if used else []:
        for buffer, step in facts.pitches:
            _, user, size = used.get(buffer, (buffer, "", 1))
            if step % size:
                yield buffer, (step, user, size)


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


def _find_pitches(block: SBlock) -> list[tuple[Any, int]]:
    """The buffers that a block writes whose rows it sets apart, and what divides their places.

    In bytes: rows are apart by a multiple of the factor, and the offset.
    """
    found = []
    for index, axis, factor, offset in block.annotations.get(ALIGNMENT, ()):
        buffer = block.writes[int(index)].source
        size = buffer.dtype.itemsize
        if int(axis) % len(buffer.shape) == len(buffer.shape) - 2:
            found.append((buffer, math.gcd(int(factor), int(offset)) * size))
    return found


@cached_by_node(512)
def _read_block(block: SBlock) -> _Facts:
    return _read_facts(block)


def _read_facts(block: SBlock) -> _Facts:
    registers = _find_used(block, "local")
    written = {region.source for region in block.writes}
    written.update(match.buffer for match in block.match_buffers)
    sizes = [(str(buffer.name), _count_elements(buffer)) for buffer in block.alloc_buffers]
    return _Facts(
        str(block.name_hint),
        written,
        {region.source for region in block.reads},
        [(name, size) for name, size in sizes if size > LARGEST_INDEX],
        math.prod(constant(iterator.dom.extent) or 1 for iterator in block.iter_vars),
        _find_moved(block),
        registers,
        bool(registers) and any(get_axis(loop) is not None for loop in find_all(block.body, For)),
        _find_used(block, "shared"),
        SWIZZLE in block.annotations,
        _find_aligned(block),
        _find_pitches(block),
    )


def _find_used(block: SBlock, memory: str) -> list[Any]:
    """The buffers in a memory that a block without others in it uses, or in registers that an
    instruction does, whose statements may be a block.
    """
    used = [region.source for region in (*block.reads, *block.writes)]
    used = [buffer for buffer in used if str(buffer.scope()).startswith(memory)]
    is_whole = memory == "local" and len(block.match_buffers) > 0
    return used if used and (is_whole or not find_all(block.body, SBlock)) else []


def _find_mixed(
    uses: list[tuple[str, list[Any], bool]],
) -> Iterator[tuple[Any, tuple[str, str]]]:
    """The buffers that blocks of a property use, and blocks without it, with one of each.

    `uses` are the names of the blocks, their buffers, and whether they have the property.
    """
    special = {
        buffer: name for name, buffers, is_special in uses if is_special for buffer in buffers
    }
    for name, buffers, is_special in uses if special else []:
        for buffer in buffers:
            if not is_special and buffer in special:
                yield buffer, (special[buffer], name)


def _find_unrolled_kernels(loops: list[For], prefix: str) -> Iterator[tuple[str, str]]:
    """The loops that are unrolled around a kernel, each with its first bound loop; in pre-order."""
    if not any(loop.kind == ForKind.UNROLLED for loop in loops):
        return
    within: list[For] = []
    for loop in loops:
        if is_among(loop, within):
            continue
        bound = [one for one in find_all(loop, For) if "Idx" in (get_axis(one) or "")]
        if loop.kind == ForKind.UNROLLED and bound:
            yield prefix + str(loop.loop_var.name), str(bound[0].loop_var.name)
        if "Idx" in (get_axis(loop) or ""):
            within += find_all(loop, For)


def _find_moved(block: SBlock) -> list[tuple[str, str, str]]:
    """The buffers that a block's instruction has in one memory, and the schedule in another."""
    found = []
    for match in block.match_buffers:
        source, scope = match.source.source, str(match.buffer.scope())
        if str(source.scope()) != scope:
            found.append((str(source.name), str(source.scope()), scope))
    return found


@functools.lru_cache(maxsize=256)
def _count_elements(buffer: Var) -> int:
    """The elements of a buffer that is indexed with 32 bits; 0 where there are more bits."""
    if any(extent.ty.dtype.bits != _BITS for extent in buffer.shape):
        return 0
    return math.prod(constant(extent) or 1 for extent in buffer.shape)


def _count_points(blocks: list[Any], loops: list[Any], prefix: str, summary: Summary) -> None:
    """Note blocks of so many points that loops over them can wrap around, and have done so."""
    for block in blocks:
        points = _read_block(block).points
        around = [constant(loop.extent) for loop in loops if _holds(loop, block)]
        runs = math.prod(extent or 0 for extent in around)
        if points > LARGEST_INDEX and None not in around and runs < points:
            summary.short[prefix + str(block.name_hint)] = (runs, points)


def _find_wrapped(place: Place, prefix: str) -> Iterator[tuple[str, tuple[str, int]]]:
    """The iterators of a guarded block that its loops bring beyond 32 bits, round up on round up.

    Guards that stop them are asked with the number that has wrapped around.
    """
    if math.prod(constant(loop.extent) or 1 for loop in place.loops) < LARGEST_INDEX:
        return
    analyzer = bind_ranges(place.loops)
    for iterator in place.block.iter_vars:
        largest = int(analyzer.const_int_bound(place.values[iterator.var]).max_value)
        if largest >= LARGEST_INDEX and iterator.var.ty.dtype.bits == _BITS:
            yield prefix + place.name, (str(iterator.var.name), largest)


def _holds(loop: For, block: SBlock) -> bool:
    found: list[Any] = []
    structural_walk(loop, [(SBlock, found.append)], order="pre")
    return any(block.same_as(item) for item in found)
