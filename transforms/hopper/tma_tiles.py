"""Tiles that the Tensor Memory Accelerator (TMA) copies: what of a tensor, and where it lies.

The limits are those of ``cuTensorMapEncodeTiled`` (CUDA driver API, "Tensor Map Object Managment")
and of cp.async.bulk.tensor (PTX ISA, "Tensor dimensions, interleave, swizzle").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from tvm.ir import Call, PointerType, Range, TensorRegion
from tvm.s_tir import SBlock
from tvm.sym import Analyzer
from tvm.tirx import BufferRegion, Var, const
from tvm.tirx.analysis import undefined_vars
from tvm_ffi import structural_equal, structural_map

from tirstep.tvm_compat import get_op_name

from ..enumeration import tabulate
from ..gpu_limits import MAX_SHARED_BYTES
from ..rewriting import map_elements
from ..schedule import TransformError
from ..tensor_cores.fragments import SCOPE
from ..tir import (
    constant,
    find_all,
    is_among,
    is_used,
    substitute,
)
from .wgmma_intrinsics import SWIZZLES as ROWS_OF_TILES
from .wgmma_intrinsics import begin_with_slabs, place_in_tile

TMA_PREFIX = "tirstep_tma_"
TMA_COPY = "tirstep_tma_copy"
"""Our annotation of a block that the TMA copies, by a `CopyShape`."""
TMA_STAGES = "tirstep_tma_stages"
"""Our annotation of a loop whose tiles go through as many stages, each behind an mbarrier."""
TMA_ROLES = "tirstep_tma_roles"
"""Our annotation of such a loop whose copies warps of their own issue: how many threads these
are, and the registers of a thread of theirs and of the others; 0 for as the compiler chooses."""
TMA_OVERLAP = "tirstep_tma_overlap"
"""Our annotation of such a loop: the last products of an iteration run under the next one."""
TMA_STORE = "tirstep_tma_store"
"""Our annotation of a block that writes a tile which the TMA stores, by a `CopyShape`."""
TMA_PERSISTENT = "tirstep_tma_persistent"
"""Our annotation of such a loop: as many thread blocks go through all tiles of the grid."""
COMPUTES = "tirstep_warps_compute"
COPIES = "tirstep_warps_copy"
"""Keys of our marks: AttrStmts around what warps of a role do, as long as TVM puts barriers in."""
PITCH = 16
"""Bytes that every pitch of a tensor is a multiple of, and the address that it begins at."""
MAX_BOX = 256
"""Elements of a tile along each dimension."""
MAX_RANK, MAX_STRIDE = 5, 8
SWIZZLES = (32, 64, 128)
"""Bytes of the patterns by which chunks of 16 bytes change places with the row."""
ATOM = 1024
"""Bytes of eight rows of the longest pattern, at multiples of which tiles begin."""
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
    """

    source: Any
    target: Any
    start: tuple[Any, ...]
    shape: CopyShape

    @property
    def bytes(self) -> int:
        """What the tile adds to the transaction count, whether it lies inside of the tensor or
        not."""
        return self.shape.panels * math.prod(self.shape.box) * int(self.source.dtype.itemsize)

    def get_start(self, panel: int) -> list[Any]:
        """The first element of a panel."""
        *front, last = self.start
        return [*front, last + panel * self.shape.box[-1] if panel else last]


class CopyShape(NamedTuple):
    """How a copy block copies a tile: what `prefetch_by_tma` notes of it for the pass.

    Attributes
    ----------
    swizzle : bytes of the pattern, of `SWIZZLES`; 0 for none
    panels : how many copies the tile takes, side by side in its rows and one behind the other in
        shared memory, since a row of a copy is no longer than the pattern
    box : the elements of one copy, for each dimension of the tensor
    strides : of these elements along each dimension, where any is more than 1
    """

    swizzle: int
    panels: int
    box: tuple[int, ...]
    strides: tuple[int, ...] = ()

    @property
    def span(self) -> list[int]:
        """What the box spans in the tensor, along each dimension."""
        strides = self.strides or (1,) * len(self.box)
        return [size * stride for size, stride in zip(self.box, strides, strict=True)]

    def to_list(self) -> list[int]:
        """As an annotation: behind a 0, which no box has, come the strides."""
        return [self.swizzle, self.panels, *self.box, *([0, *self.strides] if self.strides else [])]

    @classmethod
    def of_list(cls, values: Any) -> CopyShape:
        """The shape in an annotation."""
        swizzle, panels, *sizes = map(int, values)
        end = sizes.index(0) if 0 in sizes else len(sizes)
        return cls(swizzle, panels, tuple(sizes[:end]), tuple(sizes[end + 1 :]))


def find_box(
    indices: Sequence[Any], extents: dict[Any, int], aligned: Sequence[Any]
) -> tuple[list[int], list[int], list[Any]] | None:
    """The rectangle that indices go through, of iterators with these extents in a tile: how many
    elements along each dimension, the strides between them, and the iterators, in order of the
    dimensions. None where it is no rectangle.

    An iterator goes along one dimension, or along several as the digits of a number do, the last of
    which varies most: those of an iterator whose tiles begin at multiples of its extent.
    """
    analyzer, inner, places = Analyzer(), dict[Any, Any](), dict[Any, Any]()
    for iterator, extent in extents.items():
        tile, inner[iterator] = Var("tile", "int32"), Var("at", "int32")
        analyzer.bind(inner[iterator], Range(0, extent))
        analyzer.bind(tile, Range(0, 1 << 20))
        first = tile * extent if is_among(iterator, aligned) else tile
        places[iterator] = first + inner[iterator]
    box, strides, rows = [1] * len(indices), [1] * len(indices), list[Any]()
    digits = dict.fromkeys(extents, 1)  # the iterations from one value of a digit to the next
    for dimension, index in reversed([*enumerate(indices)]):
        moved = substitute(index, places)
        first = substitute(moved, {at: const(0, "int32") for at in inner.values()})
        offset = analyzer.simplify(moved - first)
        own = [it for it, at in inner.items() if is_used(at, offset)]
        if not own and constant(offset) == 0:
            rows = [*(it for it in extents if it.same_as(index)), *rows]
            continue
        if len(own) != 1 or len(undefined_vars(offset)) != 1:
            return None
        (iterator,) = own
        steps, digit = np.arange(extents[iterator]), digits[iterator]
        table = tabulate([offset], [], {inner[iterator]: steps})
        if table is None or digit == len(steps):
            return None
        values = table[:, 0]
        stride = max(int(values[digit]), 1)
        box[dimension], strides[dimension] = int(values.max()) // stride + 1, stride
        if (values != steps // digit % box[dimension] * stride).any():
            return None
        digits[iterator] *= box[dimension]
        rows = [iterator, *(it for it in rows if not it.same_as(iterator))]
    is_whole = all(digits[it] == extents[it] for it in rows if digits[it] > 1)
    return (box, strides, rows) if is_whole and strides[-1:] == [1] else None


def find_slabs(
    block: SBlock, stored: list[Any], rows: list[Any], bits: int, length: int = 1
) -> int:
    """The bytes of a row of a tile that lies as `place_in_tile` has it, whose rows have so many
    elements; 0 where it does not.
    """
    analyzer = Analyzer()
    for iterator in block.iter_vars:
        analyzer.bind(iterator.var, iterator.dom)
    if len(rows) < 2 or len(stored) != len(rows) + 2:
        return 0
    for swizzle in ROWS_OF_TILES:
        for is_one in (False, True):
            line, at = rows[-2], begin_with_slabs(rows[-1], length, bits=bits, swizzle=swizzle)
            place = place_in_tile(line, at, bits=bits, swizzle=swizzle, is_one_slab=is_one)
            wanted = [*rows[:-2], *place]
            pairs = zip(stored, wanted, strict=True)
            if all(analyzer.can_prove_equal(one, other) for one, other in pairs):
                return swizzle
    return 0


def find_tile(
    source: Any, target: Any, indices: Any, shape: CopyShape, inner: list[Any]
) -> TmaTile:
    """The tile of a lowered copy, of or to a tensor `source` at indices, whose first element is
    that where variables `inner` are 0.
    """
    first = {variable: const(0, variable.ty.dtype) for variable in inner}
    analyzer = Analyzer()
    start = tuple(analyzer.simplify(substitute(index, first)) for index in indices)
    return TmaTile(source, target, start, shape)


def require_addressable(source: Any, copied: CopyShape, name: str) -> None:
    """Refuse a tensor that no tensor map describes, and a copy that is larger than it may be."""
    dtype = str(source.dtype)
    if dtype not in _TYPES:
        raise TransformError(f"the TMA has no elements of {dtype}", f"use {', '.join(_TYPES)}")
    shape = [constant(size) for size in source.shape]
    if None in shape or len(shape) > MAX_RANK or len(source.strides):
        raise TransformError(
            f"'{source.name}' of shape {list(source.shape)} is not a dense tensor of constant "
            f"sizes and {MAX_RANK} dimensions at most, which a tensor map describes",
            "let threads copy it",
        )
    sizes = [size or 1 for size in shape]
    for dimension in range(1, len(sizes)):
        pitch = math.prod(sizes[dimension:]) * source.dtype.itemsize
        if pitch % PITCH:
            raise TransformError(
                f"'{source.name}', which block '{name}' copies, has a pitch of {pitch} bytes, and "
                f"the TMA takes multiples of {PITCH}",
                "pad its rows by a copy first, or let threads copy it",
            )

    if max(copied.strides, default=1) > MAX_STRIDE:
        raise TransformError(
            f"block '{name}' copies elements {max(copied.strides)} apart, and the TMA takes "
            f"strides of {MAX_STRIDE} at most",
            "let threads copy it",
        )
    if max(copied.span) > MAX_BOX:
        raise TransformError(
            f"the tile of block '{name}' is {copied.span}, and the TMA copies {MAX_BOX} elements "
            "along a dimension at most",
            "use a smaller tile",
        )


def count_bytes(buffer: Any) -> int:
    """The bytes of a buffer in shared memory; 0 of another one."""
    if str(buffer.scope()) not in ("shared", "shared.dyn"):
        return 0
    shape = [constant(extent) or 1 for extent in buffer.shape]
    pitch = constant(buffer.strides[0]) if buffer.strides else None
    elements = shape[0] * pitch if pitch else math.prod(shape)
    return elements * int(buffer.dtype.itemsize)


SLOTS = 2
"""Slabs in shared memory where the whole tile does not fit: one is stored to while the TMA reads
the other."""
SLAB = -4
"""The dimension of a tile that counts slabs; those before it have one element."""


def count_slots(tile: Any, used: int) -> int:
    """The slots of a tile's slabs where shared memory holds `used` bytes with all of it; 0 where
    there is room, or where a tile has too few slabs to save any.
    """
    slabs = constant(tile.shape[SLAB]) or 1
    is_full = used > MAX_SHARED_BYTES[SCOPE]
    return SLOTS if is_full and slabs > SLOTS and slabs % SLOTS == 0 else 0


def count_saved(module: Any, used: int) -> int:
    """The bytes that slots save in a module of one kernel with stores by the TMA."""
    blocks = [each for _, it in module.functions_items() for each in find_all(it.body, SBlock)]
    tiles = [each.reads[0].source for each in blocks if TMA_STORE in each.annotations]
    sizes = [(tile, constant(tile.shape[SLAB]) or 1) for tile in tiles]
    return sum(
        count_bytes(tile) // slabs * (slabs - (count_slots(tile, used) or slabs))
        for tile, slabs in sizes
    )


def redirect(
    statement: Any,
    buffer: Any,
    made: Any,
    *,
    index: Callable[[Any], list[Any]],
    cover: Callable[[Any], list[Any]],
    offset: Any,
) -> Any:
    """A statement that uses another buffer in the place of one.

    `index` makes the new indices of the old ones, `cover` the new region of the old one, and
    pointers move by `offset` elements.
    """

    def point(call: Any) -> Any:
        if not points_into(call, buffer):
            return call
        args = [call.args[0], made.data, call.args[2] + offset, *call.args[3:]]
        return Call(call.op, args, ret_ty=PointerType(call.ty.element_type, str(made.scope())))

    def move(own: Any, indices: Any) -> Any:
        return (made, index(indices)) if own.same_as(buffer) else None

    def move_region(node: Any) -> Any:
        return BufferRegion(made, cover(node.region)) if node.source.same_as(buffer) else node

    others = structural_map(statement, [(TensorRegion, move_region), (Call, point)])
    return map_elements(others, move)


def points_into(call: Any, buffer: Any) -> bool:
    """Whether a call is a pointer into a buffer."""
    is_pointer = get_op_name(call) == "tirx.tvm_access_ptr"
    return is_pointer and bool(structural_equal(call.args[1], buffer.data))
