"""Tiles that the Tensor Memory Accelerator (TMA) copies: what of a tensor, and where it lies.

The limits are those of ``cuTensorMapEncodeTiled`` (CUDA driver API, "Tensor Map Object Managment")
and of cp.async.bulk.tensor (PTX ISA, "Tensor dimensions, interleave, swizzle").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import tvm_ffi
from tvm.ir import Range, TensorLoad
from tvm.sym import Analyzer, detect_linear_equation
from tvm.tirx import LT, And, For

from .errors import TransformError
from .tir import constant, get_operands, is_choice, is_used, substitute

TMA_COPY = "tirstep_tma_copy"
"""Our annotation of a block that the TMA copies; its value is the bytes of the swizzle."""
TMA_STAGES = "tirstep_tma_stages"
"""Our annotation of a loop whose tiles go through as many stages, each behind an mbarrier."""
TMA_ROLES = "tirstep_tma_roles"
"""Our annotation of such a loop whose copies warps of their own ask for: how many threads these
are, and the registers of a thread of theirs and of the others; 0 for as the compiler chooses."""
PITCH = 16
"""Bytes that every pitch of a tensor is a multiple of, and the address that it begins at."""
MAX_BOX = 256
"""Elements of a tile along each dimension."""
MAX_RANK = 5
SWIZZLES = (32, 64, 128)
"""Bytes of the patterns by which chunks of 16 bytes change places with the row."""
_TYPES = (
    "float16",
    "bfloat16",
    "float32",
    "int8",
    "uint8",
    "int32",
    "float8_e4m3fn",
    "float8_e5m2",
)


class TmaTile(NamedTuple):
    """A tile of a tensor, and where it lies in shared memory.

    Attributes
    ----------
    source, target : the tensor in global memory, and the tile's buffer in shared memory
    start : the tile's first element in the tensor, an expression for each dimension
    box : the extents of one copy, for each dimension of the tensor
    swizzle : bytes of the pattern, of `SWIZZLES`; 0 for none
    panels : how many copies the tile takes, side by side in its rows and one behind the other in
        shared memory, since a row of a copy is no longer than the pattern
    panel_dimension : of the tensor, along which they lie side by side
    """

    source: Any
    target: Any
    start: tuple[Any, ...]
    box: tuple[int, ...]
    swizzle: int
    panels: int = 1
    panel_dimension: int = 0

    @property
    def bytes(self) -> int:
        """What the tile adds to the transaction count, whether it lies inside of the tensor or
        not."""
        return self.panels * math.prod(self.box) * int(self.source.dtype.itemsize)

    def get_start(self, panel: int) -> list[Any]:
        """The first element of a panel."""
        start = list(self.start)
        if panel:
            at = self.panel_dimension
            start[at] = start[at] + panel * self.box[at]
        return start

    @property
    def alignment(self) -> int:
        """Bytes that its place in shared memory is a multiple of: of eight rows of the pattern."""
        return max(128, 8 * self.swizzle)


def read_tile(
    store: Any, loops: Sequence[For], values: dict[Any, Any], swizzle: int, name: str
) -> TmaTile:
    """The tile that a copy makes: a store under loops, with values of block iterators.

    Raises `TransformError` for a copy that the TMA cannot do; `name` is that of its block.
    """
    load, conditions = _find_load(store.value, name)
    analyzer, variables = Analyzer(), [loop.loop_var for loop in loops]
    for loop in loops:
        analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
    indices = [analyzer.simplify(substitute(index, values)) for index in load.indices]
    _require_bounds_alone(conditions, load, values, analyzer, name)
    reads = [_read_index(index, loops, variables, name) for index in indices]
    start = tuple(analyzer.simplify(read.first) for read in reads)
    box = tuple(read.extent for read in reads)
    tile = TmaTile(load.source, store.buffer, start, box, swizzle)
    outer = [(at, read) for at, read in enumerate(reads) if read.outer is not None]
    for at, read in outer:
        panels = constant(loops[read.outer or 0].extent) or 1
        tile = tile._replace(panels=panels, panel_dimension=at)
    into = [analyzer.simplify(substitute(index, values)) for index in store.indices]
    stored = [_read_index(index, loops, variables, name).inner for index in into]
    taken = [read.outer for _, read in outer] + [read.inner for read in reads]
    order = [at for at in taken if at is not None]
    if len(outer) > 1 or order != sorted(order) or order != [at for at in stored if at is not None]:
        raise TransformError(
            f"block '{name}' transposes its tile, and the TMA copies rows as rows",
            "copy it as it lies, and read it transposed",
        )
    _require_addressable(tile, name)
    _require_box(tile, name)
    return tile


def _find_load(value: Any, name: str) -> tuple[Any, list[Any]]:
    """The one element that a copy loads, and what must hold for that; else it stores zero."""
    conditions = []
    if is_choice(value) and getattr(value.args[2], "value", None) == 0:
        conditions, value = list(get_operands(value.args[0], And)), value.args[1]
    if not isinstance(value, TensorLoad) or str(value.source.scope()) != "global":
        raise TransformError(
            f"block '{name}' does more than to copy from global memory, with zeros at most outside "
            "of the tensor",
            "convert or compute after the copy",
        )
    return value, conditions


def _require_bounds_alone(
    conditions: list[Any], load: Any, values: dict[Any, Any], analyzer: Analyzer, name: str
) -> None:
    """Zeros must stand exactly outside of the tensor, where the TMA puts them."""
    for condition in conditions:
        is_end = isinstance(condition, LT) and any(
            tvm_ffi.structural_equal(
                analyzer.simplify(substitute(condition.a, values)),
                analyzer.simplify(substitute(index, values)),
            )
            and constant(condition.b) == constant(size)
            for index, size in zip(load.indices, load.source.shape, strict=True)
        )
        if not is_end:
            raise TransformError(
                f"block '{name}' stores zeros where not '{condition}', and the TMA does that "
                "outside of the tensor",
                "pad at the end of a dimension only, or fetch by threads",
            )


class _Read(NamedTuple):
    """An index ``first + outer * extent + inner``, of two loops, one or none, by their numbers."""

    first: Any
    extent: int
    inner: int | None
    outer: int | None = None


def _read_index(index: Any, loops: Sequence[For], variables: list[Any], name: str) -> _Read:
    used = [at for at, variable in enumerate(variables) if is_used(variable, index)]
    if not used:
        return _Read(index, 1, None)
    linear = detect_linear_equation(index, [variables[at] for at in used])
    extents = [constant(loops[at].extent) for at in used]
    steps = [constant(factor) for factor in linear[:-1]]
    if len(steps) == len(used) <= 2 and steps[-1] == 1 and extents[-1] is not None:
        if len(used) == 1:
            return _Read(linear[-1], extents[-1], used[0])
        if steps[0] == extents[-1]:
            return _Read(linear[-1], extents[-1], used[1], used[0])
    raise TransformError(
        f"block '{name}' takes '{index}' of a dimension, and the TMA copies neighbours",
        "place a plain copy of a rectangle there, that no loop is bound of",
    )


def _require_addressable(tile: TmaTile, name: str) -> None:
    source, dtype = tile.source, str(tile.source.dtype)
    if dtype not in _TYPES:
        raise TransformError(f"the TMA has no elements of {dtype}", f"use {', '.join(_TYPES)}")
    shape = [constant(size) for size in source.shape]
    if None in shape or len(shape) > MAX_RANK or len(source.strides):
        raise TransformError(
            f"'{source.name}' of shape {list(source.shape)} is no dense tensor of constant sizes "
            f"and {MAX_RANK} dimensions at most, which a tensor map describes",
            "fetch it by threads",
        )
    sizes = [size or 1 for size in shape]
    for dimension in range(1, len(sizes)):
        pitch = math.prod(sizes[dimension:]) * source.dtype.itemsize
        if pitch % PITCH:
            raise TransformError(
                f"'{source.name}', which block '{name}' copies, has a pitch of {pitch} bytes, and "
                f"the TMA takes multiples of {PITCH}",
                "pad its rows by a copy first, or fetch it by threads",
            )


def _require_box(tile: TmaTile, name: str) -> None:
    row = tile.box[-1] * tile.source.dtype.itemsize
    if max(tile.box) > MAX_BOX:
        raise TransformError(
            f"the tile of block '{name}' is {tile.box}, and the TMA copies {MAX_BOX} elements "
            "along a dimension at most",
            "use a smaller tile",
        )
    if row % PITCH:
        raise TransformError(
            f"the tile of block '{name}' has rows of {row} bytes, and the TMA copies multiples of "
            f"{PITCH}",
            "use a longer tile",
        )
    if tile.swizzle and (tile.swizzle not in SWIZZLES or row != tile.swizzle):
        raise TransformError(
            f"the tile of block '{name}' has rows of {row} bytes, and the TMA swizzles rows of "
            f"{' or '.join(map(str, SWIZZLES))}",
            'use a shorter tile, or layout="rows"',
        )
