"""conv2d as a product of matrices, on the tensor-core schedules of matmul: implicit GEMM.

Iterators of a block become rows, columns and steps of k in groups, and what it reads becomes two
matrices of these (`group_iterators`), which other contractions may be read as, too. Here rows are
the pixels of all results, columns the output channels, and k goes through the taps and the input
channels (S. Chetlur and others, cuDNN: Efficient Primitives for Deep Learning, 2014). The matrix of
windows exists in shared memory alone, a tile at a time: what copies a tile gathers it from the
images, with zero padding.

The TMA gathers them, too, where tiles of rows are rectangles of pixels (`tile_windows`): all of the
channels of a pixel lie side by side, whatever the stride and the dilation of the windows are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from ..binding import bind_loop
from ..caching import accumulate_in_registers
from ..hopper.tma_tiles import ATOM, MAX_BOX, PITCH
from ..inlining import inline_producers
from ..loops import fuse_loops, reorder_loops, split_loop, unroll_loop
from ..queries import find_epilogue
from ..reduction import decompose_reduction_at
from ..schedule import TransformError
from ..thread_rows import find_guarded, find_vector
from ..tir import constant
from ..vectorize import vectorize_loop
from ..windows import tile_windows
from . import mma, wgmma
from .matmul_best import (
    COPY_BYTES_PER_US,
    COPY_US,
    ENGINES,
    find_gpu,
    get_whole_types,
    rank_wgmma,
    rank_wgmma_gathered,
)
from .recipe import Example, recipe
from .rungs import Family, order
from .tiled_product import COPY_THREADS, VECTOR_BYTES, Groups, WholeTail, group_iterators
from .time_model import H200, Gpu, Product

PIXELS, CHANNELS, TAPS = (0, 1, 2), (3,), (4, 5, 6)
"""The iterators of block "Y" that make rows, columns and k."""
FORMS = ("padded Y", "padded Y Y_cast")
IMAGES = Example(
    {"n": 32, "h": 28, "w": 28, "ci": 128, "co": 128, "kh": 3, "kw": 3},
    options={"dtype": "bfloat16", "out": "bfloat16", "padding": 1},
)
DEPTH_BYTES, STEP_BYTES, MOST_STAGES = (128, 64, 32), 16, 8
"""Bytes of a tile's channels; bytes that cost as much as one more step; and most stages."""
COPIED_AT_ONCE = 4
"""Vectors of a thread of the kernels that copy operands."""
LINE = 128
"""Bytes of a line of the L2 cache: rows that lie across two of these arrive later."""
SMALL = {"n": 4, "h": 6, "w": 5, "ci": 8, "co": 32, "kh": 3, "kw": 2}


def make_product(sch: Schedule, tail: WholeTail) -> tuple[SBlockRV, WholeTail]:
    """Make block "Y" of conv2d the product of two matrices, and the block that stores it one too.

    Returns the block, and what to do if tiles do not divide. Whole vectors of 16 bytes lie
    in one tap where the input channels are a multiple of that. Elsewhere a kernel of its own writes
    the matrix of windows, padded. Since pixels and taps rarely divide, ``"refuse"`` pads, too.

    rewrite: ``for n, y, x, o, i, j, c: Y[n, y, x, o] += padded[...] * F[o, i, j, c]`` ->
        ``windows = padded[...]; filters = F; for p, o, k: sums[p, o] += windows[p, k] *
        filters[o, k]; Y = sums``, with p for (n, y, x) and k for (i, j, c)
    requires: constant sizes, of which more than one element in p, o and k each
    """
    block = sch.get_sblock("Y")
    group_iterators(sch, block, Groups(PIXELS, CHANNELS, TAPS))
    source = sch.get(sch.get_producers(block)[0]).reads[0].source
    is_whole = (constant(source.shape[-1]) or 1) * source.dtype.itemsize % VECTOR_BYTES == 0
    return block, "pad" if is_whole and tail != "copy" else "copy"


def cover(lengths: Sequence[int], sides: Sequence[int]) -> int:
    """The pixels of all rectangles that lie in images or go beyond them."""
    return math.prod(-(-length // side) * side for length, side in zip(lengths, sides, strict=True))


def choose_rectangle(lengths: Sequence[int], rows: int) -> tuple[int, ...]:
    """The rectangle of so many pixels, a power of two, that covers images with the fewest others.

    `lengths` are how many images there are, and their rows and columns of pixels. Of rectangles
    that cover as much the first is the longest one along a row.
    """
    powers = [1 << power for power in range(rows.bit_length())]
    pairs = ((down, across) for down in powers for across in powers if down * across <= rows)
    found = [(rows // (down * across), down, across) for down, across in pairs]
    fitting = [sides for sides in found if max(sides) <= MAX_BOX]
    return min(fitting, key=lambda sides: (cover(lengths, sides), -sides[2], -sides[1]))


def make_tiled_product(
    sch: Schedule, config: wgmma.WgmmaConfig, block: SBlockRV, *, inlines: bool = True
) -> None:
    """Make a convolution a product whose tiles the TMA copies, as `tile_windows` does.

    Where slices are added up, what is computed with the sums becomes part of the kernel that does.
    """
    lengths = [constant(it.dom.extent) or 1 for it in sch.get(block).iter_vars[:3]]
    rectangle = choose_rectangle(lengths, config.tile[0])
    tile_windows(
        sch,
        block,
        tile=rectangle,
        columns=config.tile[1],
        depth=config.tile_k,
        copies=config.tail == "copy",
        inlines=inlines,
    )
    for matrix in sch.get_producers(block):
        for copy in sch.get_producers(matrix) if config.tail == "copy" else ():
            source = sch.get(copy).reads[0].source
            row, dtype = source.shape[-1], source.dtype
            lanes = find_vector(constant(row) or 1, dtype, most=find_guarded(dtype.itemsize))
            vectors, each = split_loop(sch, fuse_loops(sch, sch.get_loops(copy)), inner=lanes)
            rest, threads = split_loop(sch, vectors, inner=COPY_THREADS[0], tail="guard")
            blocks, several = split_loop(sch, rest, inner=COPIED_AT_ONCE, tail="guard")
            reorder_loops(sch, [threads, several])
            bind_loop(sch, blocks, axis="blockIdx.x")
            bind_loop(sch, threads, axis="threadIdx.x")
            unroll_loop(sch, several)
            if lanes > 1:
                vectorize_loop(sch, each)
    if config.split_k > 1:
        (convert,) = sch.get_consumers(block)
        sch.compute_inline(convert)


def schedule(sch: Schedule, config: Any) -> Iterator[str]:
    """The steps of a config of a product, on block "Y" of conv2d."""
    if isinstance(config, wgmma.WgmmaConfig) and config.copies == "tma":
        block, tail = sch.get_sblock("Y"), "refuse"
        make_tiled_product(sch, config, block)
    else:
        block, tail = make_product(sch, config.tail)
    yield "product_of_matrices"
    yield from ENGINES[type(config)](sch, replace(config, tail=tail)).schedule(block)


def _make_family(of: Family) -> Family:
    """The family of conv2d on the schedule of one of matmul."""
    return replace(
        of,
        kernel="conv2d",
        schedule=schedule,
        blocks=FORMS,
        default_example=IMAGES,
        small=Example(SMALL, options=IMAGES.options, config=of.small.config),
        dtypes=get_whole_types(of),
    )


BY_MMA = _make_family(mma.MMA)
BY_WGMMA = _make_family(wgmma.WGMMA)
_GATHERED = "cp_async_bytes == 16"


@recipe(
    kernel="conv2d",
    blocks=FORMS,
    default_example=IMAGES,
    golden=Example(SMALL, options={"padding": 1, "stride": 2}),
    expects={"bound": ("barriers == 0",)},
)
def conv2d_naive(sch: Schedule, *, threads: int = 128) -> Iterator[str]:
    """One element of the result per thread; adjacent threads have adjacent channels.

    Sums are accumulated in memory, or in a register if the result has another type.

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
    why="Implicit GEMM by mma.sync: asynchronous copies gather the windows, with zero padding",
    expects={"next_tiles_asynchronously": (_GATHERED, *mma.ON_TENSOR_CORES)},
    golden=mma.rows.golden.config,
    **mma.rows.config,
)
of_wgmma = BY_WGMMA.root(
    "wgmma",
    why="Implicit GEMM by wgmma: asynchronous copies gather the windows, with zero padding",
    expects={"tensorized": (_GATHERED, *wgmma.ON_TENSOR_CORES)},
    golden={**wgmma.rows.golden.config, "tile_k": 16},
    **{**wgmma.rows.config, "tile": (128, 128)},
)


by_tma = of_wgmma.plus(
    "wgmma_tma",
    copies="tma",
    roles=True,
    store="tma",
    why="The TMA copies tiles that are rectangles of pixels, with zero padding, and writes "
    "such tiles of the result",
    expects={"warps_specialized": wgmma.BY_TMA},
)


@recipe(
    kernel="conv2d",
    blocks=FORMS,
    default_example=IMAGES,
    golden=Example(SMALL, options=IMAGES.options),
    expects={"tensorized": wgmma.BY_TMA},
    dtypes=BY_WGMMA.dtypes,
    arch=wgmma.WGMMA.arch,
)
def conv2d_wgmma_best(sch: Schedule, *, device: str = "NVIDIA H200") -> Iterator[str]:
    """The knobs that the time model predicts to be fastest.

    The matmul is of pixels by output channels, over filter positions and input channels. The TMA
    copies its tiles; threads gather them if the output channels are not a multiple of 16 bytes.
    Knobs: device, the name of a GPU that the model knows; others count as an H200.
    """
    yield from schedule(sch, choose_config(sch, sch.get_sblock("Y"), find_gpu(device)))


def choose_config(sch: Schedule, block: SBlockRV, gpu: Gpu) -> wgmma.WgmmaConfig:
    """The config by wgmma that is expected to be fastest for a convolution of images."""
    node, result = sch.get(block), sch.get(find_epilogue(sch, block) or block).writes[0].source
    extents = [constant(it.dom.extent) for it in node.iter_vars]
    if None in extents:
        raise TransformError(
            "conv2d_wgmma_best", f"the shape {extents} is not constant", "use constant sizes"
        )
    sizes = [size or 1 for size in extents]
    pixels, channels, taps = (
        math.prod(sizes[it] for it in group) for group in (PIXELS, CHANNELS, TAPS)
    )
    size, stored = (it.dtype.itemsize for it in (node.reads[-1].source, result))
    product, inner = Product(pixels, channels, taps, size, 1, stored), sizes[-1]
    if channels * stored % PITCH:
        (best, *_) = rank_wgmma_gathered(product, gpu)
        return replace(best.config, tail="pad", copies="threads", roles=False, store="shared")
    # A tile has pixels of a rectangle and channels of one tap; others are computed for nothing.
    taps, found = taps // inner, list[tuple[float, wgmma.WgmmaConfig]]()
    images = math.prod(constant(it) or 1 for it in node.reads[-2].source.shape[:-1])
    for rows, row_bytes, copies in itertools.product((64, 128, 256), DEPTH_BYTES, (False, True)):
        depth = row_bytes // size
        if (inner * size % PITCH and not copies) or (copies and inner * size % LINE == 0):
            continue
        whole, padded = cover(sizes[:3], choose_rectangle(sizes[:3], rows)), -(-inner // depth)
        covered = product._replace(m=whole, k=taps * padded * depth, pitch=0 if copies else inner)
        us = 0.0
        if copies:
            moved = (images + channels * taps) * (inner + padded * depth) * size
            us = 2 * COPY_US + moved * H200.gigabytes / gpu.gigabytes / COPY_BYTES_PER_US
        for config, it in rank_wgmma(covered, gpu, narrows=True):
            fits = (taps * padded % config.split_k, config.tile[1] * row_bytes % ATOM) == (0, 0)
            if config.copies == "tma" and config.tile[0] == rows and fits:
                stages = min(MOST_STAGES, config.stages * config.tile_k // depth)
                tail: WholeTail = "copy" if copies else "refuse"
                config = replace(config, tile_k=depth, stages=stages, tail=tail)
                found.append((it.us * (1 + STEP_BYTES / row_bytes) + us, config))
                break
    return min(found, key=lambda it: it[0])[1]


LADDERS = (
    order("implicit GEMM by mma.sync", of_mma, name="conv2d_mma"),
    order(
        "implicit GEMM by Hopper's wgmma", of_wgmma, by_tma, conv2d_wgmma_best, name="conv2d_wgmma"
    ),
    order("one element for each thread", conv2d_naive),
)
