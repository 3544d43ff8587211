"""The fast schedule of matmul, its knobs, and the rungs that set one knob after the other.

A tile of C in the registers of each thread is the SGEMM of V. Volkov and J. Demmel (Benchmarking
GPUs to tune dense linear algebra, SC 2008); tiles of blocks, warps and threads, fed by a pipeline
through registers or by asynchronous copies, are the structure of NVIDIA's CUTLASS (A. Kerr and
others, CUTLASS: Fast Linear Algebra in CUDA C++, 2017).
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm_ffi import structural_equal

from ..binding import bind_loop
from ..caching import accumulate_in_registers, cache_read_at
from ..fetching import can_inline_producers, fetch_cooperatively
from ..inlining import inline_producers
from ..layout import pad_block, pad_longer_rows, transpose_tile
from ..loops import fuse_loops, split_loop, suggest_unrolling, unroll_loop
from ..pass_options import set_pipeline
from ..pipelining import prefetch_asynchronously, prefetch_fragments, prefetch_through_registers
from ..queries import find_row_length, get_extent, get_outer_loops, get_spatial_loops
from ..reduction import decompose_reduction_at, rfactor_reduction, split_reduction
from ..streaming import stream_steps
from ..tir import constant, get_axis
from ..vectorize import MAX_VECTOR_BYTES, vectorize_copy, vectorize_loop
from ..warp_tiling import Inner, largest_divisor, tile_in_warps
from .ladder import Family, Pair, knob, pairs
from .recipe import Example

WholeTail = Literal["refuse", "pad", "copy"]
"""What happens where a tile does not divide: refuse; pad the whole problem with zeros, as tiles are
fetched; or copy the operands between zeros before, so that tiles are fetched in vectors."""

STATIC_SHARED_BYTES = 48 << 10
"""What CUDA gives a kernel without being asked; beyond it the scope is ``shared.dyn``."""
SUM_THREADS, SUM_VECTOR = 256, 4
"""The second kernel of split-K: threads of a block, and the sums of each thread."""
FEW_THREADS, FEW_SUMS = 32, 1 << 15
"""Threads of a block where there are few vectors of sums, so that they are on many blocks."""
SUMS_AT_ONCE = 16
"""Parts that a thread loads before it adds the first of them."""
WORD_BYTES = 4
"""Of a bank of shared memory."""
COPY_THREADS, COPY_EACH = (256, 128, 64), 8
"""Of a block that copies an operand between zeros; and elements of a thread, at most, all of whose
loads are in flight at the same time.
"""
COPY_LONG = 512
"""Elements of a row that blocks have to themselves, so that no thread divides by its length."""
INDICES = 4
"""Of 64 bits, as open sizes have them, that CUDA has a vector type for."""
STRIP = 4
"""Elements of a thread's strip, one vector."""
INNER = ("columns", "rows")


@dataclass(frozen=True, kw_only=True)
class GemmConfig:
    """Knobs of a matmul whose operands go through shared memory into registers.

    With a tail of "refuse" the tile divides m and n, and tile_k * split_k divides k. The pipeline
    has fewer stages where the reduction has fewer steps, and two at most for types that are not of
    4 bytes, of which a transposed tile takes no asynchronous copies. Workers share slices of two
    steps or more alone.
    """

    threads: Pair = knob(
        (16, 16), "rows and columns of threads in a block", choices=pairs((4, 8, 16), (8, 16, 32))
    )
    thread_tile: Pair = knob(
        (8, 8), "rows and columns of C that a thread computes", choices=pairs((4, 8), (4, 8, 16))
    )
    tile_k: int = knob(8, "the depth of the tiles of A and B", choices=(8, 16, 32))
    strided: bool = knob(
        False, "whether a thread's tile is in strips of 4, a block of threads apart"
    )
    strip: int = knob(
        STRIP, "columns of a strip; 1 spreads odd rows over the lanes", choices=(1, 4)
    )
    padding: int = knob(0, "words of 4 bytes that the rows of A's tile are padded by", least=0)
    warp: Pair | None = knob(
        None, "rows and columns of a warp's 32 lanes, by default a row", choices=((2, 16), (4, 8))
    )
    interleave: int = knob(
        1, "rows of a warp that are numbered together, column by column", choices=(1, 2)
    )
    swizzle: int = knob(
        1, "rows of tiles, at most, that blocks go through column by column", choices=(1, 4, 8, 16)
    )
    stages: int = knob(
        1, "tiles in flight: 1 no pipeline, 2 registers, more cp.async", choices=(2, 3, 4)
    )
    prefetch_fragments: bool = knob(
        False, "whether fragments are loaded one step ahead, too", choices=(False, True)
    )
    inner: Inner = knob(
        "columns",
        "whether the innermost loop of a strip goes through columns or rows",
        choices=INNER,
    )
    inner_strips: Inner = knob(
        "columns", "the same of the loops over a thread's strips", choices=INNER
    )
    split_k: int = knob(
        1, "slices of the reduction, each on blocks of its own", choices=(1, 2, 4, 8, 16)
    )
    workers: int = knob(
        0,
        "GPU blocks with equal shares of the steps of all tiles, up to split_k of them in a tile; "
        "0 has slices of one length",
        least=0,
    )
    tail: WholeTail = knob("refuse", "what happens where a tile does not divide")

    @property
    def tile(self) -> Pair:
        """The rows and columns of C that one block of threads computes."""
        (rows, columns), (each_row, each_column) = self.threads, self.thread_tile
        return rows * each_row, columns * each_column

    @property
    def strips(self) -> Pair:
        """The pieces of a thread's tile, by rows and by columns."""
        rows, columns = self.thread_tile
        return (max(1, rows // STRIP), max(1, columns // self.strip)) if self.strided else (1, 1)


def schedule(sch: Schedule, config: GemmConfig) -> Iterator[str]:
    """The steps of a config, on block "C" of matmul."""
    yield from schedule_product(sch, sch.get_sblock("C"), config)


def schedule_product(sch: Schedule, total: SBlockRV, config: GemmConfig) -> Iterator[str]:
    """The steps of a config, on a block that sums products over one loop, of two operands.

    Loops in front of the last two spatial ones are those of a batch, and what consumes the sums
    becomes part of the store.
    """
    lengths = get_row_lengths(sch, total)
    block = yield from cut_matmul(
        sch, total, (*config.tile, config.tile_k), split_k=config.split_k, tail=config.tail
    )
    tile = tile_in_warps(
        sch,
        block,
        threads=config.threads,
        per_thread=config.thread_tile,
        strips=config.strips,
        warp=config.warp,
        interleave=config.interleave,
        inner=config.inner,
        inner_strips=config.inner_strips,
        swizzle=fit_swizzle(sch, block, config.tile[0], most=config.swizzle),
    )
    yield "tiled"
    result = accumulate_in_registers(sch, block, tile.threads)
    # Slices are as wide as the padding; else whole vectors lie inside or outside.
    if config.tail == "refuse" or config.split_k > 1:
        vectorize_copy(sch, result)
    elif (vector := math.gcd(lengths[2], STRIP)) > 1:
        set_pipeline(sch)  # whose passes keep vectors under the guard of a crop
        vectorize_copy(sch, result, vector=vector)
    yield "accumulated_in_registers"
    yield from _feed(sch, block, config, lengths)
    if config.split_k > 1:
        add_parts(sch, total, config.tail)
        yield "parts_added"


def cut_matmul(
    sch: Schedule, block: SBlockRV, tile: tuple[int, int, int], *, split_k: int, tail: WholeTail
) -> Generator[str, None, SBlockRV]:
    """The steps before the tiles of m, n and k: padding, copies of the operands, slices of k, and
    the batch of products, where there is one, on blocks of its own.

    Returns the block to tile, which is that of the slices where there are any.
    """
    batch = len(sch.get(block).iter_vars) - 3
    if tail != "refuse":
        pad_block(sch, block, multiples=(*[1] * batch, *tile[:2], tile[2] * split_k))
        for operand in sch.get_producers(block):
            if can_inline_producers(sch, operand):
                inline_producers(sch, operand)
        yield "padded"
    if tail == "copy":
        _copy_operands(sch, block)
        yield "operands_copied"
    if split_k > 1:
        partial = rfactor_reduction(sch, block, parts=split_k)
        block = partial.block
        bind_loop(sch, partial.parts, axis="blockIdx.y")
        yield "cut_in_parts"
    if batch:
        products = sch.get_loops(block)[-3 - batch : -3]
        bind_loop(sch, fuse_loops(sch, products), axis="blockIdx.z")
        yield "batch_on_blocks"
    return block


def fit_swizzle(sch: Schedule, block: SBlockRV, height: int, *, most: int) -> int:
    """The most rows of tiles of a height, up to `most`, that divide those of a matmul."""
    rows = get_extent(sch, get_spatial_loops(sch, block)[-2]) or 1
    return largest_divisor(max(1, rows // height), most=most)


def get_row_lengths(sch: Schedule, block: SBlockRV) -> tuple[int, int, int]:
    """The elements in a row of A, of B and of the result."""
    node = sch.get(block)
    a, b = (region.source for region in node.reads[-2:])
    lengths = [constant(buffer.shape[-1]) or 1 for buffer in (a, b, node.writes[0].source)]
    return lengths[0], lengths[1], lengths[2]


def _feed(
    sch: Schedule, block: SBlockRV, config: GemmConfig, lengths: tuple[int, int, int]
) -> Iterator[str]:
    """Bring the operands through shared memory into registers, in a pipeline."""
    steps = split_reduction(sch, block, inner=config.tile_k)
    config = _limit_stages(sch, block, steps.outer, config)
    scope = _choose_scope(sch, block, config)
    copies = []
    for operand, name in enumerate("AB"):
        copies.append(_stage(sch, block, steps.outer, config, operand, scope, lengths[operand]))
        yield f"{name}_in_shared_memory"
    for operand in range(2):
        fragment = cache_read_at(sch, block, steps.inner, operand=operand, scope="local")
        vectorize_copy(sch, fragment)
    suggest_unrolling(sch, steps.inner)
    yield "fragments_in_registers"
    decompose_reduction_at(sch, block, steps.outer)
    yield "decomposed"
    if config.prefetch_fragments:
        prefetch_fragments(sch, steps.inner)
        yield "fragments_ahead"
    if config.stages == 2:
        prefetch_through_registers(sch, steps.outer, copies)
        yield "next_tiles_through_registers"
        set_pipeline(sch)
        yield "barriers_dropped"
    elif config.stages > 2:
        prefetch_asynchronously(sch, steps.outer, copies, stages=config.stages)
        yield "next_tiles_asynchronously"
    if config.workers and config.split_k > 1 and get_extent(sch, steps.outer) != 1:
        stream_steps(sch, steps.outer, workers=config.workers)
        yield "steps_shared"


def _copy_operands(sch: Schedule, block: SBlockRV) -> None:
    """Let kernels of their own put the operands between zeros; what needs none is inlined, or has
    been written by a kernel before. Rows of whole vectors get their zeros as tiles are fetched.
    """
    for copy in sch.get_producers(block):
        if any(get_axis(loop) is not None for loop in get_outer_loops(sch, copy)):
            continue
        node = sch.get(copy)
        before, after = (region[0].source.shape for region in (node.reads, node.writes))
        if structural_equal(tuple(before), tuple(after)):
            sch.compute_inline(copy)
        elif not _pads_whole_rows(node):
            _copy_on_blocks(sch, copy)


def _pads_whole_rows(node: SBlock) -> bool:
    """Whether a block puts rows of whole vectors between zeros, of 16 bits an element or more.

    Of fewer bits TVM's vectors are narrow under a guard.
    """
    (region,) = node.reads
    source = region.source
    is_plain = len(region.region) == len(node.iter_vars) and all(
        one.min.same_as(it.var) for one, it in zip(region.region, node.iter_vars, strict=True)
    )
    row = (constant(source.shape[-1]) or 1) * source.dtype.itemsize
    return is_plain and source.dtype.itemsize > 1 and row % MAX_VECTOR_BYTES == 0


def _copy_on_blocks(sch: Schedule, copy: SBlockRV) -> None:
    """Spread a copy over blocks of threads with some elements each, a block of threads apart."""
    *rows, columns = sch.get_loops(copy)
    width = get_extent(sch, columns) or 1
    if width < COPY_LONG:
        threads, each = COPY_THREADS[0], COPY_EACH
        blocks, each_loop, lanes = sch.split(
            fuse_loops(sch, [*rows, columns]), [None, each, threads]
        )
    else:
        threads, each = _share_row(width)
        pieces, lanes = split_loop(sch, columns, inner=threads, tail="guard")
        outer, each_loop = split_loop(sch, pieces, inner=each, tail="guard")
        blocks = fuse_loops(sch, [*rows, outer])
    sch.reorder(blocks, lanes, each_loop)
    bind_loop(sch, blocks, axis="blockIdx.x")
    bind_loop(sch, lanes, axis="threadIdx.x")
    unroll_loop(sch, each_loop)


def _share_row(width: int) -> tuple[int, int]:
    """The threads of a block and the elements of each for a row, with few of them beyond it."""
    pairs = [(threads, each) for threads in COPY_THREADS for each in range(COPY_EACH, 0, -1)]
    return min(pairs, key=lambda it: -(-width // (it[0] * it[1])) * it[0] * (it[1] + 1))


def _limit_stages(sch: Schedule, block: SBlockRV, loop: LoopRV, config: GemmConfig) -> GemmConfig:
    most = get_extent(sch, loop) or 1
    if sch.get(block).reads[-1].source.dtype.itemsize != 4:
        most = min(most, 2)
    return replace(config, stages=min(config.stages, most))


def _choose_scope(sch: Schedule, block: SBlockRV, config: GemmConfig) -> str:
    """Asynchronous copies and more than 48 KiB want the dynamic shared memory."""
    size = sch.get(block).reads[-1].source.dtype.itemsize
    width = config.tile[0] + config.padding * WORD_BYTES // size + config.tile[1]
    cells = width * config.tile_k * config.stages
    return "shared.dyn" if config.stages > 2 or cells * size > STATIC_SHARED_BYTES else "shared"


def _stage(
    sch: Schedule,
    block: SBlockRV,
    loop: LoopRV,
    config: GemmConfig,
    operand: int,
    scope: str,
    row: int,
) -> SBlockRV:
    """A's tile is kept transposed, so that a thread's rows lie side by side.

    Under a padding, whole vectors of rows of `row` elements lie inside or outside.
    """
    copy = cache_read_at(sch, block, loop, operand=operand, scope=scope)
    is_guarded = config.tail == "pad"
    if config.tail != "copy":
        inline_producers(sch, copy)
    elif can_inline_producers(sch, copy):
        inline_producers(sch, copy)
        is_guarded = True
    length = find_row_length(sch, copy) or 1
    threads = config.threads[0] * config.threads[1]
    dtype = sch.get(copy).writes[0].source.dtype
    size = dtype.itemsize
    if operand == 0:
        transpose_tile(sch, copy)
        pad_longer_rows(sch, copy, elements=config.padding * WORD_BYTES // size)
    # TVM has CUDA's types for four elements of float8 at most, and for fewer than 16 indices.
    widest = 16 // size if size > 1 else 4
    # An asynchronous copy must find neighbours in the tile, too, and CUDA's vectors of float8
    # cannot be taken apart.
    together = config.stages > 2 or "float8" in str(dtype)
    if is_guarded:
        widest = math.gcd(widest, row)
    if operand == 0 and constant(sch.get(copy).writes[0].source.shape[-1]) is None:
        widest = min(widest, INDICES)  # a transposed vector is stored at as many indices
    vector = widest if length % widest == 0 and not (operand == 0 and together) else 1
    if vector > 1 and is_guarded:
        set_pipeline(sch)
    fetch_cooperatively(sch, copy, threads=threads, vector=vector, tail="guard")
    return copy


def add_parts(sch: Schedule, total: SBlockRV, tail: WholeTail) -> None:
    """The second kernel: each thread adds up the parts of neighbouring sums."""
    *rows, columns = get_spatial_loops(sch, total)
    parts = sch.get_loops(total)[-1]
    # A tile is SUM_VECTOR columns wide at least, so that it divides.
    vectors, each = split_loop(sch, columns, inner=SUM_VECTOR)
    fused = fuse_loops(sch, [*rows, vectors])
    few = (get_extent(sch, fused) or 0) < FEW_SUMS
    blocks, threads = sch.split(fused, [None, FEW_THREADS if few else SUM_THREADS])
    bind_loop(sch, blocks, axis="blockIdx.x")
    bind_loop(sch, threads, axis="threadIdx.x")
    sch.reorder(parts, each)
    count = get_extent(sch, parts) or 1
    if count > SUMS_AT_ONCE:
        parts, together = split_loop(sch, parts, inner=largest_divisor(count, most=SUMS_AT_ONCE))
        suggest_unrolling(sch, together)
    result = accumulate_in_registers(sch, total, threads)
    if (constant(sch.get(result).writes[0].source.shape[-1]) or 1) % SUM_VECTOR == 0:
        if tail != "refuse":
            set_pipeline(sch)  # whose passes keep vectors under the guard of a crop
        vectorize_copy(sch, result, vector=SUM_VECTOR)
    vectorize_loop(sch, each)  # TVM vectorizes a reduction only while it is one block
    decompose_reduction_at(sch, total, parts)


GEMM = Family(
    kernel="matmul",
    config=GemmConfig,
    schedule=schedule,
    blocks=("C", "C C_cast"),
    default_example=Example({"m": 1024, "n": 512, "k": 2048}),
    small=Example(
        {"m": 64, "n": 48, "k": 32}, config={"threads": (4, 8), "thread_tile": (8, 2), "tile_k": 4}
    ),
    tiles=("threads", "thread_tile", "tile_k"),
)
VECTORS = ("scalar_loads == 0", "scalar_shared_loads == 0")

fragments = GEMM.root(
    "fragments",
    why="A thread's rows of A lie side by side in a transposed tile, so that loads are vectors",
    expects={"decomposed": VECTORS},
)
strips = fragments.plus(
    "strips", strided=True, why="Adjacent threads read adjacent vectors; sets up warps"
)
deeper = strips.plus(
    "deeper", tile_k=16, why="Half as many barriers per product", golden={"tile_k": 8}
)
padded = deeper.plus(
    "padded", padding=4, why="The transposed stores of A's tile fall into different banks"
)
warps = padded.plus(
    "warps", warp=(4, 8), why="A warp's tile is almost square, so it reads less shared memory"
)
interleaved = warps.plus(
    "interleaved",
    interleave=2,
    why="Pairs of adjacent lanes read the same vector, which halves shared-memory wavefronts",
    expects={"decomposed": (*VECTORS, "spills == 0 on sm_90a")},
)
swizzled = interleaved.plus(
    "swizzled",
    swizzle=8,
    why="Blocks that run at the same time share rows of A and columns of B in the L2 cache",
    golden={"swizzle": 2},
    expects={"decomposed": ("scalar_loads == 0", "blocks == 32")},
)
prefetched = swizzled.plus(
    "prefetched",
    stages=2,
    why="The next tiles are loaded into registers during the products; one barrier a step",
    expects={"barriers_dropped": ("barriers_per_step == 1", "spills == 0 on sm_90a")},
)
copied = prefetched.plus(
    "async",
    stages=4,
    why="The next tiles are copied to shared memory asynchronously, several in flight; slower "
    "than through registers here",
    golden={"stages": 3},
    expects={"next_tiles_asynchronously": ("cp_async_bytes == 16", "vector_loads == 0")},
)
inner_rows = prefetched.plus(
    "inner_rows",
    inner="rows",
    why="The column's value of B stays in its register from product to product",
)
split = inner_rows.plus(
    "split_k",
    split_k=4,
    why="Few tiles fill the GPU, too, in slices of K, which a second kernel adds up; slower "
    "where tiles are many, as here",
    golden={"split_k": 2},
    searched=("prefetch_fragments", "inner_strips"),
    expects={"parts_added": ("kernels == 2", "barriers_per_step == 1")},
)
stream = split.plus(
    "stream_k",
    workers=264,
    why="Blocks have equal shares of the steps of all tiles, whole ones and the ends of others, so "
    "that none waits for a last wave; slower where waves are full, as here",
    golden={"workers": 5},
    searched=("prefetch_fragments", "inner_strips"),
    expects={"steps_shared": ("barriers_per_step == 1",), "parts_added": ("kernels == 2",)},
)
RUNGS = (
    fragments,
    strips,
    deeper,
    padded,
    warps,
    interleaved,
    swizzled,
    prefetched,
    copied,
    inner_rows,
    split,
    stream,
)
"""The fast ladder of matmul, slow to fast; `matmul_best` puts the recipe behind it that chooses."""
