"""The sizes of a product's block, and what tensor cores make of its types and rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tirstep.allowances import OPERANDS, SUMS

from ..errors import TransformError
from ..gpu_limits import MAX_SHARED_BYTES
from ..queries import find_epilogue
from ..tir import constant, is_used
from .gemm import WholeTail
from .ladder import Pair
from .time_model import Product

VECTOR_BYTES = 16
"""Of a vector that is copied, or written from shared memory."""


class Sizes(NamedTuple):
    """A matmul of (m, k) by (k, n), the data type of its operands, and the sizes of its batch.

    Attributes
    ----------
    stored : bytes of an element of the result; 0 as of the operands
    across_k : whether neighbours in memory of B are of one step of k
    """

    m: int
    n: int
    k: int
    dtype: Any
    outer: tuple[int, ...] = ()
    stored: int = 0
    across_k: bool = False

    @property
    def product(self) -> Product:
        """What the model of time knows of it."""
        return Product(
            self.m, self.n, self.k, self.dtype.itemsize, math.prod(self.outer), self.stored
        )

    @property
    def has_whole_rows(self) -> bool:
        """Whether rows along n and along k are whole vectors of 16 bytes."""
        return all(it * self.dtype.itemsize % VECTOR_BYTES == 0 for it in (self.n, self.k))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the kernel."""
        return (*self.outer, self.m, self.n, self.k)

    @property
    def type_name(self) -> str:
        """Of the operands, as tensor cores multiply them."""
        return "tf32" if str(self.dtype) == "float32" else str(self.dtype)


def read_sizes(sch: Schedule, total: SBlockRV, recipe: str, instead: str) -> Sizes:
    """The sizes of a product's block, the outer ones those of a batch; refuses those that are left
    open, and names a recipe instead.
    """
    block = sch.get(total)
    sizes = [constant(iterator.dom.extent) for iterator in block.iter_vars]
    if len(sizes) < 3:
        what = f"block '{block.name_hint}' has {len(sizes)} sizes, and a product three or more"
        raise TransformError(recipe, what, "give it a product")
    if None in sizes:
        raise TransformError(recipe, f"the shape {sizes} is not constant", f"use {instead}")
    *outer, m, n, k = (size or 1 for size in sizes)
    operand = block.reads[-1]
    across = not is_used(block.iter_vars[-1].var, operand.region[-1].min)
    result = sch.get(find_epilogue(sch, total) or total).writes[0].source.dtype.itemsize
    return Sizes(m, n, k, operand.source.dtype, tuple(outer), result, across)


def require_operands(sch: Schedule, block: SBlockRV, types: Sequence[str]) -> None:
    """Refuse a block that multiplies none of some types.

    Of these tf32 is a float32 in memory of a block whose annotation allows to round it, as matmul
    with ``dtype="tf32"`` has it.
    """
    node = sch.get(block)
    dtype = str(node.reads[-1].source.dtype)
    is_tf32 = dtype == "float32" and node.annotations.get(OPERANDS) == "tf32"
    if ("tf32" if is_tf32 else dtype) not in types:
        raise TransformError(
            "schedule", f"tensor cores do not multiply {dtype} as it is", f"use {', '.join(types)}"
        )


def require_narrow_sums(sch: Schedule, block: SBlockRV) -> None:
    """Refuse a block of float8 whose sums may not keep 14 bits alone, as those of wgmma do.

    An annotation allows it, as matmul with ``acc="fp22"`` has it.
    """
    node = sch.get(block)
    dtype = str(node.reads[-1].source.dtype)
    if dtype.startswith("float8") and node.annotations.get(SUMS) != "fp22":
        raise TransformError(
            "schedule",
            f"wgmma keeps 14 bits in sums of {dtype}, and the kernel asks for float32",
            'use acc="fp22", which allows that, or mma.sync',
        )


def choose_tail(sizes: Sizes, tile: Pair, depth: int) -> WholeTail:
    """What happens where a tile of so many steps of k does not divide."""
    if sizes.m % tile[0] == sizes.n % tile[1] == sizes.k % depth == 0:
        return "refuse"
    return (
        "pad" if sizes.has_whole_rows else "copy"
    )  # without copies: whole vectors lie inside or outside


def choose_vector(dtype: Any, length: int, tail: WholeTail, *, is_async: bool) -> int:
    """The elements of a vector that copies rows of some length into shared memory.

    TVM's vectors have four elements of float8 at most, and of int8 where there is a guard;
    asynchronous copies of float8 have no type. Under a padding whole vectors lie in or outside.
    """
    size = dtype.itemsize
    is_narrow = size == 1 and (tail != "refuse" if "int" in str(dtype) else not is_async)
    widest = 4 if is_narrow else VECTOR_BYTES // size
    return math.gcd(widest, length) if tail == "pad" else widest


def require_shared_room(tile: Pair, tile_k: int, stages: int, size: int) -> None:
    """Refuse stages of elements of `size` bytes that no GPU has the shared memory for."""
    tiles = sum(tile) * tile_k * size * stages
    if tiles > MAX_SHARED_BYTES["shared.dyn"]:
        raise TransformError(
            "schedule",
            f"{stages} stages of tiles of {tile} by tile_k={tile_k} take "
            f"{tiles >> 10} KiB of shared memory, and a block has "
            f"{MAX_SHARED_BYTES['shared.dyn'] >> 10} KiB at most",
            "use fewer stages, or a smaller tile",
        )
