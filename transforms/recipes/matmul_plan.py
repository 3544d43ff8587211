"""What the fast recipes of matmul share: one plan of sizes, and the steps that carry it out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from ..binding import bind_loop
from ..caching import accumulate_in_registers, cache_read_at
from ..fetching import fetch_cooperatively
from ..gpu_limits import WARP
from ..layout import pad_block, pad_longer_rows, transpose_tile
from ..loops import fuse_loops, split_loop, suggest_unrolling
from ..pass_options import set_pipeline
from ..pipelining import prefetch_asynchronously, prefetch_fragments, prefetch_through_registers
from ..placement import inline_producers
from ..queries import find_row_length
from ..queries import get_extent as find_extent
from ..queries import get_spatial_loops as find_spatial_loops
from ..reduction import decompose_reduction_at, rfactor_reduction, split_reduction
from ..vectorize import vectorize_copy, vectorize_loop
from ..warp_tiling import Inner, find_group, tile_in_warps

WholeTail = Literal["refuse", "pad", "copy"]
"""What happens where a tile does not divide: refuse; pad the whole problem with zeros, as tiles are
fetched; or copy the operands between zeros before, so that tiles are fetched in vectors."""

STATIC_SHARED_BYTES = 48 << 10
"""What CUDA gives a kernel without being asked; beyond it the scope is ``shared.dyn``."""
SUM_THREADS, SUM_VECTOR = 256, 4
"""The second kernel of split-K: threads of a block, and the sums of each thread."""
WORD_BYTES = 4
"""Of a bank of shared memory."""
COPY_THREADS = 256
"""Of a block that copies an operand between zeros."""


class Plan(NamedTuple):
    """Sizes of a matmul whose operands go through shared memory into registers.

    Attributes
    ----------
    threads, per_thread : rows and columns of threads in a block, and of the result of each
    tile_k : the depth of the tiles of A and B
    strips, warp, interleave, inner, inner_strips, group : as `tile_in_warps` takes them
    padding : words of 4 bytes that the rows of A's tile are padded by
    stages : 1 without a pipeline, 2 through registers, more with asynchronous copies; fewer where
        the reduction has fewer steps, and 2 at most for types that are not of 4 bytes, of which a
        transposed tile takes no asynchronous copies
    ahead : whether fragments are loaded one step ahead, too
    parts : of the reduction, each on blocks of its own (split-K)
    tail : what happens where a tile does not divide
    """

    threads: tuple[int, int]
    per_thread: tuple[int, int]
    tile_k: int
    strips: tuple[int, int] = (1, 1)
    warp: tuple[int, int] | None = None
    interleave: int = 1
    inner: Inner = "columns"
    inner_strips: Inner = "columns"
    group: int = 1
    padding: int = 0
    stages: int = 1
    ahead: bool = False
    parts: int = 1
    tail: WholeTail = "refuse"

    @property
    def tile(self) -> tuple[int, int]:
        """The rows and columns of C that one block of threads computes."""
        (rows, columns), (each_row, each_column) = self.threads, self.per_thread
        return rows * each_row, columns * each_column

    def in_strips(self) -> Plan:
        """The plan with a thread's share in strips of four elements, one vector each."""
        rows, columns = self.per_thread
        return self._replace(strips=(max(1, rows // 4), max(1, columns // 4)))

    def in_warps(self, rows: int, *, interleave: int = 1) -> Plan:
        """The plan in strips and in warps of so many rows, with padded rows of A's tile."""
        warp = (rows, WARP // max(1, rows))
        return self.in_strips()._replace(warp=warp, interleave=interleave, padding=4)


def schedule_plan(sch: Schedule, plan: Plan) -> Iterator[str]:
    """The steps of a plan on block "C" of matmul."""
    block = total = sch.get_sblock("C")
    if plan.tail != "refuse":
        pad_block(sch, block, multiples=(*plan.tile, plan.tile_k * plan.parts))
        yield "padded"
    if plan.tail == "copy":
        _copy_operands(sch, block)
        yield "operands_copied"
    if plan.parts > 1:
        partial = rfactor_reduction(sch, block, parts=plan.parts)
        block = partial.block
        bind_loop(sch, partial.parts, axis="blockIdx.y")
        yield "cut_in_parts"
    rows = find_extent(sch, find_spatial_loops(sch, block)[-2]) or 1
    tile = tile_in_warps(
        sch,
        block,
        threads=plan.threads,
        per_thread=plan.per_thread,
        strips=plan.strips,
        warp=plan.warp,
        interleave=plan.interleave,
        inner=plan.inner,
        inner_strips=plan.inner_strips,
        group=find_group(max(1, rows // plan.tile[0]), most=plan.group),
    )
    yield "tiled"
    result = accumulate_in_registers(sch, block, tile.threads)
    if plan.tail == "refuse" or plan.parts > 1:  # parts are as wide as the padding
        vectorize_copy(sch, result)
    yield "accumulated_in_registers"
    yield from _feed(sch, block, plan)
    if plan.parts > 1:
        _add_parts(sch, total, plan.tail)
        yield "parts_added"


def _feed(sch: Schedule, block: SBlockRV, plan: Plan) -> Iterator[str]:
    """Bring the operands through shared memory into registers, in a pipeline."""
    steps = split_reduction(sch, block, inner=plan.tile_k)
    plan = _limit_stages(sch, block, steps.outer, plan)
    scope = _choose_scope(sch, block, plan)
    copies = []
    for operand, name in enumerate("AB"):
        copies.append(_stage(sch, block, steps.outer, plan, operand, scope))
        yield f"{name}_in_shared_memory"
    for operand in range(2):
        fragment = cache_read_at(sch, block, steps.inner, operand=operand, scope="local")
        vectorize_copy(sch, fragment)
    suggest_unrolling(sch, steps.inner)
    yield "fragments_in_registers"
    decompose_reduction_at(sch, block, steps.outer)
    yield "decomposed"
    if plan.ahead:
        prefetch_fragments(sch, steps.inner)
        yield "fragments_ahead"
    if plan.stages == 2:
        prefetch_through_registers(sch, steps.outer, copies)
        yield "next_tiles_through_registers"
        set_pipeline(sch)
        yield "barriers_dropped"
    elif plan.stages > 2:
        prefetch_asynchronously(sch, steps.outer, copies, stages=plan.stages)
        yield "next_tiles_asynchronously"


def _copy_operands(sch: Schedule, block: SBlockRV) -> None:
    """Let kernels of their own put the operands between zeros; what needs none is inlined."""
    for copy in sch.get_producers(block):
        node = sch.get(copy)
        before, after = (region[0].source.shape for region in (node.reads, node.writes))
        if [int(size) for size in before] == [int(size) for size in after]:
            sch.compute_inline(copy)
            continue
        cells = fuse_loops(sch, sch.get_loops(copy))
        blocks, threads = sch.split(cells, [None, COPY_THREADS])
        bind_loop(sch, blocks, axis="blockIdx.x")
        bind_loop(sch, threads, axis="threadIdx.x")


def _limit_stages(sch: Schedule, block: SBlockRV, loop: LoopRV, plan: Plan) -> Plan:
    most = find_extent(sch, loop) or 1
    if sch.get(block).reads[-1].source.dtype.itemsize != 4:
        most = min(most, 2)
    return plan._replace(stages=min(plan.stages, most))


def _choose_scope(sch: Schedule, block: SBlockRV, plan: Plan) -> str:
    """Asynchronous copies and more than 48 KiB want the dynamic shared memory."""
    size = sch.get(block).reads[-1].source.dtype.itemsize
    width = plan.tile[0] + plan.padding * WORD_BYTES // size + plan.tile[1]
    cells = width * plan.tile_k * plan.stages
    return "shared.dyn" if plan.stages > 2 or cells * size > STATIC_SHARED_BYTES else "shared"


def _stage(
    sch: Schedule, block: SBlockRV, loop: LoopRV, plan: Plan, operand: int, scope: str
) -> SBlockRV:
    """A's tile is kept transposed, so that a thread's rows lie side by side."""
    copy = cache_read_at(sch, block, loop, operand=operand, scope=scope)
    if plan.tail != "copy":
        inline_producers(sch, copy)
    length = find_row_length(sch, copy) or 1
    threads = plan.threads[0] * plan.threads[1]
    dtype = sch.get(copy).writes[0].source.dtype
    size = dtype.itemsize
    if operand == 0:
        transpose_tile(sch, copy)
        pad_longer_rows(sch, copy, elements=plan.padding * WORD_BYTES // size)
    # TVM has CUDA's types for four elements of float8 at most, and for fewer than 16 indices.
    widest = 16 // size if size > 1 else 4
    # An asynchronous copy must find neighbours in the tile, too, and CUDA's vectors of float8
    # cannot be taken apart.
    together = plan.stages > 2 or "float8" in str(dtype)
    whole = plan.tail != "pad" and length % widest == 0
    vector = widest if whole and not (operand == 0 and together) else 1
    fetch_cooperatively(sch, copy, threads=threads, vector=vector, tail="guard")
    return copy


def _add_parts(sch: Schedule, total: SBlockRV, tail: WholeTail) -> None:
    """The second kernel: each thread adds up the parts of neighbouring sums."""
    rows, columns = find_spatial_loops(sch, total)
    parts = sch.get_loops(total)[-1]
    # A tile is SUM_VECTOR columns wide at least, so that it divides.
    vectors, each = split_loop(sch, columns, inner=SUM_VECTOR)
    blocks, threads = sch.split(fuse_loops(sch, [rows, vectors]), [None, SUM_THREADS])
    bind_loop(sch, blocks, axis="blockIdx.x")
    bind_loop(sch, threads, axis="threadIdx.x")
    sch.reorder(parts, each)
    result = accumulate_in_registers(sch, total, threads)
    if tail == "refuse":
        vectorize_copy(sch, result, vector=SUM_VECTOR)
    vectorize_loop(sch, each)  # TVM vectorizes a reduction only while it is one block
    decompose_reduction_at(sch, total, parts)
