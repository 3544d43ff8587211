"""conv2d as a product of matrices, on the tensor-core schedules of matmul: implicit GEMM.

Iterators of a block become rows, columns and steps of k in groups, and what it reads becomes two
matrices of these (`group_iterators`), which other contractions may be read as, too. Here rows are
the pixels of all results, columns the output channels, and k goes through the taps and the input
channels (S. Chetlur and others, cuDNN: Efficient Primitives for Deep Learning, 2014). The matrix of
windows exists in shared memory alone, a tile at a time: what copies a tile gathers it from the
images, with zeros for the rim.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import IndexMap, const

from ..binding import bind_loop
from ..caching import accumulate_in_registers
from ..inlining import inline_producers
from ..loops import fuse_loops, split_loop
from ..queries import find_epilogue
from ..reduction import decompose_reduction_at
from ..schedule import TransformError
from ..tir import constant
from . import mma, wgmma
from .matmul_best import find_gpu, rank_wgmma_gathered
from .products import get_whole_types
from .recipe import Example, recipe
from .rungs import Family, order
from .tiled_product import VECTOR_BYTES, Engine, WholeTail
from .time_model import read_sizes


class Groups(NamedTuple):
    """The iterators of a block, by their places, that make rows, columns and k of a product.

    Attributes
    ----------
    rows, columns : those that the first and those that the second operand has alone
    steps : those that are summed over
    across_k : whether the second operand lies as (k, columns), and not as (columns, k)
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    steps: tuple[int, ...]
    across_k: bool = False


def group_iterators(sch: Schedule, block: SBlockRV, groups: Groups) -> tuple[SBlockRV, SBlockRV]:
    """Make a block the product of two matrices, and the block that stores its results one too.

    Returns the blocks that write the matrices, which may be inlined where tiles are fetched.

    rewrite: ``for i, j, k, l: C[i, j] += A[i, k, l] * B[k, l, j]`` -> ``a[r, s] = A[...]; b[c, s]
        = B[...]; for r, c, s: sums[r, c] += a[r, s] * b[c, s]; C = sums``
    requires: constant sizes, of which more than one element in each group
    """
    extents = [constant(iterator.dom.extent) for iterator in sch.get(block).iter_vars]
    if None in extents:
        raise TransformError(
            "make_product", f"the shape {extents} is not constant", "use constant sizes"
        )
    sizes = [size or 1 for size in extents]
    rows, columns, steps, across_k = groups
    counts = [math.prod(sizes[it] for it in group) for group in (rows, columns, steps)]
    if 1 in counts:
        raise TransformError(
            "make_product",
            f"the product of {' by '.join(map(str, counts))} has a dimension of one element, along "
            "which TVM has no index to tile",
            "use conv2d_naive",
        )
    epilogue = find_epilogue(sch, block)
    copies = []
    for operand, own in enumerate(
        ((rows, steps), (steps, columns) if across_k else (columns, steps))
    ):
        copy = sch.reindex(block, ("read", operand))
        index_map = _join(own, sizes, _find_used(sch, block, copy))
        sch.transform_layout(copy, ("write", 0), index_map)
        inline_producers(sch, copy)
        sch.transform_block_layout(copy, index_map)
        copies.append(copy)
    store = sch.reindex(block, ("write", 0))
    of_result = _join((rows, columns), sizes, _find_used(sch, block, store))
    sch.transform_layout(store, ("read", 0), of_result)
    if epilogue is not None:
        sch.compute_inline(store)
        store = epilogue
        of_result = _join((rows, columns), sizes, sorted([*rows, *columns]))
    sch.transform_block_layout(store, of_result)
    whole = sorted([*rows, *columns, *steps])
    sch.transform_block_layout(block, _join((rows, columns, steps), sizes, whole))
    return copies[0], copies[1]


def _find_used(sch: Schedule, block: SBlockRV, copy: SBlockRV) -> list[int]:
    """The iterators of a block that are a buffer's indices, which TVM made out of them.

    It leaves out those of one iteration that it finds in a sum of others.
    """
    node, buffers = sch.get(block), [*sch.get(copy).reads, *sch.get(copy).writes]
    (region,) = (
        region
        for region in (*node.reads, *node.writes)
        if any(region.source.same_as(other.source) for other in buffers)
    )
    return [
        place
        for index in region.region
        for place, iterator in enumerate(node.iter_vars)
        if iterator.var.same_as(index.min)
    ]


def _join(groups: Sequence[Sequence[int]], sizes: Sequence[int], used: Sequence[int]) -> IndexMap:
    """The map of used iterators to one index for each group of them, the last of which varies
    most.
    """

    def place(*at: Any) -> tuple[Any, ...]:
        values = dict(zip(used, at, strict=True))
        joined = []
        for group in groups:
            index: Any = const(0, "int32")
            for iterator in group:
                index = index * sizes[iterator] + values.get(iterator, 0)
            joined.append(index)
        return tuple(joined)

    return IndexMap.from_func(place, ndim=len(used), index_dtype="int32")


PIXELS, CHANNELS, TAPS = (0, 1, 2), (3,), (4, 5, 6)
"""The iterators of block "Y" that make rows, columns and k."""
FORMS = ("padded Y", "padded Y Y_cast")
IMAGES = Example(
    {"n": 32, "h": 28, "w": 28, "ci": 128, "co": 128, "kh": 3, "kw": 3},
    options={"dtype": "bfloat16", "out": "bfloat16", "padding": 1},
)
SMALL = {"n": 4, "h": 6, "w": 5, "ci": 8, "co": 32, "kh": 3, "kw": 2}


def make_product(sch: Schedule) -> SBlockRV:
    """Make block "Y" of conv2d the product of two matrices, and the block that stores it one too.

    rewrite: ``for n, y, x, o, i, j, c: Y[n, y, x, o] += padded[...] * F[o, i, j, c]`` ->
        ``windows = padded[...]; filters = F; for p, o, k: sums[p, o] += windows[p, k] *
        filters[o, k]; Y = sums``, with p for (n, y, x) and k for (i, j, c)
    requires: constant sizes, of which more than one element in p, o and k each
    """
    block = sch.get_sblock("Y")
    group_iterators(sch, block, Groups(PIXELS, CHANNELS, TAPS))
    return block


def _begin(sch: Schedule, tail: WholeTail) -> tuple[SBlockRV, WholeTail]:
    """The block of the product, and what happens where a tile does not divide.

    Whole vectors of 16 bytes lie in one tap where the input channels are a multiple of that.
    Elsewhere a kernel of its own writes the matrix of windows, padded. Since pixels and taps rarely
    divide, ``"refuse"`` pads, too.
    """
    block = make_product(sch)
    source = sch.get(sch.get_producers(block)[0]).reads[0].source
    is_whole = (constant(source.shape[-1]) or 1) * source.dtype.itemsize % VECTOR_BYTES == 0
    return block, "pad" if is_whole and tail != "copy" else "copy"


def _make_family(of: Family, engine: type[Engine]) -> Family:
    """The family of conv2d on the schedule of one of matmul."""

    def schedule(sch: Schedule, config: Any) -> Iterator[str]:
        block, tail = _begin(sch, config.tail)
        yield "product_of_matrices"
        yield from engine(sch, replace(config, tail=tail)).schedule(block)

    return replace(
        of,
        kernel="conv2d",
        schedule=schedule,
        blocks=FORMS,
        default_example=IMAGES,
        small=Example(SMALL, options=IMAGES.options, config=of.small.config),
        dtypes=get_whole_types(of),
    )


BY_MMA = _make_family(mma.MMA, mma.MmaEngine)
BY_WGMMA = _make_family(wgmma.WGMMA, wgmma.WgmmaEngine)
_GATHERED = "cp_async_bytes == 16"


@recipe(
    kernel="conv2d",
    blocks=FORMS,
    default_example=IMAGES,
    golden=Example(SMALL, options={"padding": 1, "stride": 2}),
    expects={"bound": ("barriers == 0",)},
)
def conv2d_naive(sch: Schedule, *, threads: int = 128) -> Iterator[str]:
    """One element of the result for each thread, of neighbouring channels on neighbouring threads.

    It adds up in memory, or in a register where the result has another type.

    Knobs: threads of a block.
    """
    block = sch.get_sblock("Y")
    inline_producers(sch, block)
    cells = fuse_loops(sch, sch.get_loops(block)[:4])
    outer, inner = split_loop(sch, cells, inner=threads, tail="guard")
    yield "fused"
    bind_loop(sch, outer, axis="blockIdx.x")
    bind_loop(sch, inner, axis="threadIdx.x")
    if find_epilogue(sch, block) is not None:
        accumulate_in_registers(sch, block, inner)
    decompose_reduction_at(sch, block, sch.get_loops(block)[2])
    yield "bound"


of_mma = BY_MMA.root(
    "mma",
    why="Implicit GEMM by mma.sync: asynchronous copies gather the windows, with zeros for the rim",
    expects={"next_tiles_asynchronously": (_GATHERED, *mma.ON_TENSOR_CORES)},
    golden=mma.rows.golden.config,
    **mma.rows.config,
)
of_wgmma = BY_WGMMA.root(
    "wgmma",
    why="Implicit GEMM by wgmma: asynchronous copies gather the windows, with zeros for the rim",
    expects={"tensorized": (_GATHERED, *wgmma.ON_TENSOR_CORES)},
    golden={**wgmma.rows.golden.config, "tile_k": 16},
    **{**wgmma.rows.config, "tile": (128, 128)},
)


@recipe(
    kernel="conv2d",
    blocks=FORMS,
    default_example=IMAGES,
    golden=Example(SMALL, options=IMAGES.options),
    expects={"tensorized": (_GATHERED, *wgmma.ON_TENSOR_CORES)},
    dtypes=BY_WGMMA.dtypes,
    arch=wgmma.WGMMA.arch,
)
def conv2d_wgmma_best(sch: Schedule, *, device: str = "NVIDIA H200") -> Iterator[str]:
    """The config that a model of time expects to be fastest.

    The product is that of pixels by output channels by taps and input channels. Knobs: device, the
    name of a GPU that the model knows, or as for an H200.
    """
    block, tail = _begin(sch, "pad")
    yield "product_of_matrices"
    sizes = read_sizes(sch, block, "conv2d_wgmma_best", "constant sizes")
    (best, *_) = rank_wgmma_gathered(sizes.product, find_gpu(device))
    # The copies gather pixels of windows, which the TMA does not.
    config = replace(best.config, tail=tail, copies="threads", roles=False, store="shared")
    yield from wgmma.WgmmaEngine(sch, config).schedule(block)


CONV2D = (
    order("implicit GEMM by mma.sync", of_mma, name="conv2d_mma"),
    order("implicit GEMM by Hopper's wgmma", of_wgmma, conv2d_wgmma_best, name="conv2d_wgmma"),
    order("one element for each thread", conv2d_naive),
)
