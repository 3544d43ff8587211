"""A product of matrices in tiles: one skeleton for the engines that multiply them.

The order is that of NVIDIA's CUTLASS (A. Kerr and others, CUTLASS: Fast Linear Algebra in CUDA
C++, 2017): a problem is padded, cut in slices of k and tiled for blocks of threads; sums stay in
registers; tiles of A and B come through shared memory, in a pipeline; and a second kernel adds up
the slices. What multiplies is an `Engine`: threads (`gemm`), mma.sync (`mma`) or wgmma (`wgmma`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import IndexMap, const
from tvm_ffi import structural_equal

from ..binding import bind_loop
from ..caching import accumulate_in_registers, can_inline_producers
from ..inlining import inline_producers
from ..layout import pad_block
from ..loops import fuse_loops, split_loop, suggest_unrolling, unroll_loop
from ..pass_options import set_pipeline
from ..queries import find_epilogue, get_extent, get_outer_loops, get_spatial_loops
from ..reduction import decompose_reduction_at, rfactor_reduction
from ..schedule import TransformError
from ..tir import constant, get_axis
from ..vectorize import MAX_VECTOR_BYTES, vectorize_copy, vectorize_loop
from ..warp_tiling import largest_divisor

WholeTail = Literal["refuse", "pad", "copy"]
"""What happens where a tile does not divide: refuse; pad the whole problem with zeros, as tiles are
fetched; or copy the operands between zeros before, so that tiles are fetched in vectors."""
VECTOR_BYTES = 16
"""Bytes of a vector that is copied, or written from shared memory."""
SUM_THREADS, SUM_VECTOR = 256, 4
"""The second kernel of split-K: threads of a block, and the sums of each thread."""
FEW_THREADS, FEW_SUMS = 32, 1 << 15
"""Threads of a block where there are few vectors of sums, so that they are on many blocks."""
SUMS_AT_ONCE = 16
"""Parts that a thread loads before it adds the first of them."""
COPY_THREADS, COPY_EACH = (256, 128, 64), 8
"""Threads of a block that zero-pads an operand; and most elements of a thread, whose loads are all
in flight at once."""
COPY_LONG = 512
"""Elements of a row that blocks have to themselves, so that no thread divides by its length."""


class Engine:
    """The engine that multiplies the tiles of a matmul, and the steps of its schedule.

    Attributes
    ----------
    config : knobs, with `tile`, `tile_k`, `swizzle`, `split_k` and `tail` among them
    lengths : the elements in a row of A, of B and of the result
    adds_first : whether slices are added up before tiles are staged
    """

    adds_first: ClassVar[bool] = False

    def __init__(self, sch: Schedule, config: Any) -> None:
        self.sch, self.config = sch, config
        self.lengths = (1, 1, 1)

    @classmethod
    def run(cls, sch: Schedule, config: Any) -> Iterator[str]:
        """The steps of a config, on block "C" of matmul."""
        return cls(sch, config).schedule(sch.get_sblock("C"))

    def prepare(self, total: SBlockRV) -> Iterator[str]:
        """Refuse what cannot be multiplied, and fit the config to the operands."""
        yield from ()

    def tile(self, block: SBlockRV, swizzle: int) -> None:
        """Tile a block for blocks of threads, and what they are made of."""
        raise NotImplementedError

    def keep_sums(self) -> None:
        """Keep the sums in registers, and place the block that stores them."""
        raise NotImplementedError

    def split_steps(self) -> LoopRV:
        """The loop over the tiles along k, in which A and B are staged."""
        raise NotImplementedError

    def stage(self, steps: LoopRV, operand: int) -> SBlockRV:
        """The copy of an operand's tile into shared memory."""
        raise NotImplementedError

    def multiply(self, steps: LoopRV, copies: Sequence[SBlockRV]) -> Iterator[str]:
        """Multiply staged tiles, while the next ones are on their way."""
        raise NotImplementedError

    def schedule(self, total: SBlockRV) -> Iterator[str]:
        """The steps on a block that sums products over one loop, of two operands.

        Loops in front of the last two spatial ones are those of a batch. What consumes the sums, a
        bias and a function of them, say, becomes part of the store.
        """
        sch, block = self.sch, total
        self.lengths = get_row_lengths(sch, total)
        yield from self.prepare(total)
        config, batch = self.config, len(sch.get(total).iter_vars) - 3
        if config.tail != "refuse":
            multiples = (*[1] * batch, *config.tile, config.tile_k * config.split_k)
            pad_block(sch, block, multiples=multiples)
            for operand in sch.get_producers(block):
                if can_inline_producers(sch, operand):
                    inline_producers(sch, operand)
            yield "padded"
        if config.tail == "copy":
            copy_operands(sch, block)
            yield "operands_copied"
        if config.split_k > 1:
            partial = rfactor_reduction(sch, block, parts=config.split_k)
            block = partial.block
            bind_loop(sch, partial.parts, axis="blockIdx.y")
            yield "cut_in_parts"
        if batch:
            products = sch.get_loops(block)[-3 - batch : -3]
            bind_loop(sch, fuse_loops(sch, products), axis="blockIdx.z")
            yield "batch_on_blocks"
        rows = get_extent(sch, get_spatial_loops(sch, block)[-2]) or 1
        self.tile(block, largest_divisor(max(1, rows // config.tile[0]), most=config.swizzle))
        yield "tiled"
        if config.split_k > 1 and self.adds_first:
            add_parts(sch, total, config.tail)
            yield "parts_added"
        self.keep_sums()
        yield "accumulated_in_registers"
        steps, copies = self.split_steps(), []
        for operand, name in enumerate("AB"):
            copies.append(self.stage(steps, operand))
            yield f"{name}_in_shared_memory"
        yield from self.multiply(steps, copies)
        if config.split_k > 1 and not self.adds_first:
            add_parts(sch, total, config.tail)
            yield "parts_added"


def get_row_lengths(sch: Schedule, block: SBlockRV) -> tuple[int, int, int]:
    """The elements in a row of A, of B and of the result."""
    node = sch.get(block)
    a, b = (region.source for region in node.reads[-2:])
    lengths = [constant(buffer.shape[-1]) or 1 for buffer in (a, b, node.writes[0].source)]
    return lengths[0], lengths[1], lengths[2]


def copy_operands(sch: Schedule, block: SBlockRV) -> None:
    """Let kernels of their own put the operands between zeros; what needs none is inlined, or has
    been written by a kernel before. Rows of whole vectors get their zeros as tiles are fetched.
    """
    for copy in sch.get_producers(block):
        if any(get_axis(loop) is not None for loop in get_outer_loops(sch, copy)):
            continue
        node = sch.get(copy)
        source, region = node.reads[0].source, node.reads[0].region
        # Of fewer bits than 16 an element TVM's vectors are narrow under a guard.
        row = (constant(source.shape[-1]) or 1) * source.dtype.itemsize
        has_whole_rows = source.dtype.itemsize > 1 and row % MAX_VECTOR_BYTES == 0
        is_plain = len(region) == len(node.iter_vars) and all(
            one.min.same_as(it.var) for one, it in zip(region, node.iter_vars, strict=True)
        )
        if structural_equal(tuple(source.shape), tuple(node.writes[0].source.shape)):
            sch.compute_inline(copy)
        elif not (has_whole_rows and is_plain):
            # Spread a copy over blocks of threads with some elements each, a block of threads
            # apart.
            *rows, columns = sch.get_loops(copy)
            width = get_extent(sch, columns) or 1
            if width < COPY_LONG:
                factors = [None, COPY_EACH, COPY_THREADS[0]]
                blocks, each_loop, lanes = sch.split(fuse_loops(sch, [*rows, columns]), factors)
            else:  # threads of a block and elements of each with few of them beyond the row
                pairs = [
                    (threads, each) for threads in COPY_THREADS for each in range(COPY_EACH, 0, -1)
                ]
                threads, each = min(
                    pairs, key=lambda it: -(-width // (it[0] * it[1])) * it[0] * (it[1] + 1)
                )
                pieces, lanes = split_loop(sch, columns, inner=threads, tail="guard")
                outer, each_loop = split_loop(sch, pieces, inner=each, tail="guard")
                blocks = fuse_loops(sch, [*rows, outer])
            sch.reorder(blocks, lanes, each_loop)
            bind_loop(sch, blocks, axis="blockIdx.x")
            bind_loop(sch, lanes, axis="threadIdx.x")
            unroll_loop(sch, each_loop)


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
        index_map = join_iterators(own, sizes, _find_used(sch, block, copy))
        sch.transform_layout(copy, ("write", 0), index_map)
        inline_producers(sch, copy)
        sch.transform_block_layout(copy, index_map)
        copies.append(copy)
    store = sch.reindex(block, ("write", 0))
    of_result = join_iterators((rows, columns), sizes, _find_used(sch, block, store))
    sch.transform_layout(store, ("read", 0), of_result)
    if epilogue is not None:
        sch.compute_inline(store)
        store = epilogue
        of_result = join_iterators((rows, columns), sizes, sorted([*rows, *columns]))
    sch.transform_block_layout(store, of_result)
    whole = sorted([*rows, *columns, *steps])
    sch.transform_block_layout(block, join_iterators((rows, columns, steps), sizes, whole))
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


def join_iterators(
    groups: Sequence[Sequence[int]], sizes: Sequence[int], used: Sequence[int]
) -> IndexMap:
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
