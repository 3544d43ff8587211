"""How the recipes of tensor cores choose a config: by a search, or else by a model of time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tirstep.allowances import OPERANDS, SUMS

from ..errors import TransformError
from ..gpu_limits import MAX_SHARED_BYTES
from ..queries import find_epilogue
from ..tir import constant, is_used
from .gemm import WholeTail
from .gpus import GPUS, H200, Gpu
from .ladder import Pair, read_pairs
from .time_model import Costs, Product, Rank, TileChoice, TileRate, choose
from .tuned import find_tuned, measure_distance

Config = TypeVar("Config")
VECTOR_BYTES = 16
"""Of a vector that is copied, or written from shared memory."""
PARTS = (1, 2, 4, 8, 16)
"""Slices of the reduction that are tried."""
_NEAR = 1.0
"""How far a shape may be that a search found something for: one size twice as large, say."""

_SIZES = {
    **dict.fromkeys(("int8", "float8_e4m3fn", "float8_e5m2"), 1),
    **dict.fromkeys(("float16", "bfloat16"), 2),
    "tf32": 4,
}
"""Bytes of an element."""


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
    def batch(self) -> int:
        """How many products there are."""
        return math.prod(self.outer)

    @property
    def product(self) -> Product:
        """What the model of time knows of it."""
        return Product(self.m, self.n, self.k, self.dtype.itemsize, self.batch, self.stored)

    @property
    def has_whole_rows(self) -> bool:
        """Whether rows along n and along k are whole vectors of 16 bytes."""
        return all(it * self.dtype.itemsize % VECTOR_BYTES == 0 for it in (self.n, self.k))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the kernel."""
        return (*self.outer, self.m, self.n, self.k)


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


def choose_config(make: type[Config], rank: Rank, sizes: Sizes, table: str, device: str) -> Config:
    """A family's config that a search found near a shape, or else the fastest by its model of time.

    A GPU that the model does not know is taken for an H200.
    """
    dtype = "tf32" if sizes.dtype.bits == 32 else str(sizes.dtype)
    try:
        tuned = find_tuned(table, device=device, dtype=dtype, shape=sizes.shape)
    except TransformError:  # of a batch, for which the table has no shapes
        tuned = None
    # A tile of other elements takes other bytes.
    is_alike = tuned is not None and _SIZES.get(tuned.dtype) == sizes.dtype.itemsize
    if tuned is not None and is_alike and measure_distance(tuned.shape, sizes.shape) <= _NEAR:
        return make(**read_pairs(tuned.config))
    config: Config = rank(sizes.product, GPUS.get(device, H200))[0].config
    return config


def rank_tiles(
    product: Product,
    rates: Sequence[TileRate],
    costs: Costs,
    gpu: Gpu,
    parts: Sequence[int] = PARTS,
) -> list[TileChoice]:
    """The tiles and slices of k, those first whose waves take least on a GPU.

    Costs are those on an H200, and `parts` the slices of k that are tried.
    """
    scaled = costs.scale(gpu)
    choices = [
        choose(product, rate, count, scaled)
        for rate in rates
        for count in parts
        if count == 1 or not rate.stays  # few tiles, which are cut, leave nothing to stay for
    ]
    return sorted(choices, key=lambda choice: choice.estimate.us)


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
