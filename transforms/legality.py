"""What must hold after every transform, whichever it was: a net behind their own checks.

A transform may fail in a way that nobody thought of. So the function before it and after it are
compared: no block is lost, every buffer that is read is written, every loop runs at least once.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import tvm_ffi
from tvm.ir import IRModule
from tvm.s_tir import SBlock
from tvm.tirx import For, PrimFunc, Var

_Function = TypeVar("_Function", bound=Callable[..., Any])
_RENAMED = "_update"
"""How TVM renames a block whose initialization becomes a block of its own."""
_LARGEST = 2**31 - 1


class Fault(NamedTuple):
    """What a transform did to a function: the problem and the advice of a refusal."""

    problem: str
    advice: str


class _Census(NamedTuple):
    """What there is in a module; names are ``function.name`` where there are several functions."""

    blocks: Counter[str]
    outputs: set[str]
    unwritten: dict[str, str]
    extents: dict[str, int]
    short: dict[str, tuple[int, int]]
    large: dict[str, int]


class _Facts(NamedTuple):
    """What is asked of one block."""

    name: str
    written: set[Any]
    read: set[Any]
    large: list[tuple[str, int]]
    points: int


def inlines(function: _Function) -> _Function:
    """Declare that a transform puts blocks into the expressions of others, so that they vanish."""
    function.inlines = True  # type: ignore[attr-defined]
    return function


def find_fault(function: Callable[..., Any], before: IRModule, after: IRModule) -> Fault | None:
    """What a transform lost or broke between two modules, or None."""
    if before.same_as(after):
        return None
    old, new = _count(before), _count(after)
    lost = [] if hasattr(function, "inlines") else _find_lost(old.blocks, new.blocks)
    report = "report it, with the steps that led here"
    if lost:
        return Fault(f"block '{lost[0]}' would be gone", f"{report}, or do this step earlier")
    for name in old.outputs - new.outputs:
        return Fault(f"the tensor '{name}' would not be written any more", report)
    for name, reader in new.unwritten.items():
        if name not in old.unwritten:
            return Fault(f"block '{reader}' would read '{name}', which no block writes", report)
    return _find_broken_sizes(old, new)


def _find_broken_sizes(old: _Census, new: _Census) -> Fault | None:
    advice = "choose smaller sizes, or give the kernel int64 loops"
    for name, extent in new.extents.items():
        if name not in old.extents:
            return Fault(f"loop '{name}' would run {extent} times", advice)
    for name, (runs, points) in new.short.items():
        if name not in old.short:
            return Fault(f"block '{name}' of {points} points would run {runs} times", advice)
    for name, elements in new.large.items():
        if name not in old.large:
            return Fault(
                f"'{name}' would have {elements} elements, and indices of 32 bits end at "
                f"{_LARGEST}",
                advice,
            )
    return None


def _find_lost(old: Counter[str], new: Counter[str]) -> list[str]:
    return [
        name
        for name, count in old.items()
        if new[name] + new[name + _RENAMED] - old[name + _RENAMED] < count
    ]


@functools.lru_cache(maxsize=2)  # what one transform leaves behind, the next one finds
def _count(module: IRModule) -> _Census:
    functions = [(v, f) for v, f in module.functions_items() if isinstance(f, PrimFunc)]
    census = _Census(Counter(), set(), {}, {}, {}, {})
    for variable, function in functions:
        prefix = f"{variable.name_hint}." if len(functions) > 1 else ""
        _count_function(function, prefix, census)
    return census


def _count_function(function: PrimFunc, prefix: str, census: _Census) -> None:
    blocks: list[Any] = []
    loops: list[Any] = []
    kinds = [(SBlock, blocks.append), (For, loops.append)]
    tvm_ffi.structural_walk(function.body, kinds, order="pre")
    written: set[Any] = set()
    read: dict[Any, str] = {}
    large = False
    # The root block is another after each change; the others mostly stay what they were.
    for facts in [_read_block.__wrapped__(block) for block in blocks[:1]] + list(
        map(_read_block, blocks[1:])
    ):
        census.blocks[prefix + facts.name] += 1
        written |= facts.written
        read.update(dict.fromkeys(facts.read, prefix + facts.name))
        census.large.update((prefix + name, size) for name, size in facts.large)
        large = large or facts.points > _LARGEST
    parameters = set(function.params)
    census.outputs.update(prefix + str(one.name) for one in parameters & written)
    for buffer in read.keys() - written - parameters:
        census.unwritten[prefix + str(buffer.name)] = read[buffer]
    for loop in loops:
        extent = _constant(loop.extent)
        if extent is not None and extent < 1:
            census.extents[prefix + str(loop.loop_var.name)] = extent
    if large:
        _count_points(blocks, loops, prefix, census)


@functools.lru_cache(maxsize=64)
def _read_block(block: SBlock) -> _Facts:
    written = {region.source for region in block.writes}
    written.update(match.buffer for match in block.match_buffers)
    sizes = [(str(buffer.name), _count_elements(buffer)) for buffer in block.alloc_buffers]
    return _Facts(
        str(block.name_hint),
        written,
        {region.source for region in block.reads},
        [(name, size) for name, size in sizes if size > _LARGEST],
        math.prod(_constant(iterator.dom.extent) or 1 for iterator in block.iter_vars),
    )


@functools.lru_cache(maxsize=256)
def _count_elements(buffer: Var) -> int:
    """The elements of a buffer that is indexed with 32 bits; 0 where there are more bits."""
    if any(extent.ty.dtype.bits != 32 for extent in buffer.shape):
        return 0
    return math.prod(_constant(extent) or 1 for extent in buffer.shape)


def _count_points(blocks: list[Any], loops: list[Any], prefix: str, census: _Census) -> None:
    """Note blocks of so many points that loops over them can wrap around, and have done so."""
    for block in blocks:
        points = _read_block(block).points
        around = [_constant(loop.extent) for loop in loops if _holds(loop, block)]
        runs = math.prod(extent or 0 for extent in around)
        if points > _LARGEST and None not in around and runs < points:
            census.short[prefix + str(block.name_hint)] = (runs, points)


def _holds(loop: For, block: SBlock) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(loop, [(SBlock, found.append)], order="pre")
    return any(block.same_as(one) for one in found)


def _constant(extent: Any) -> int | None:
    """As `queries.constant`, which this file cannot import: the decorators come before it."""
    value = getattr(extent, "value", extent)
    return int(value) if isinstance(value, int) else None
