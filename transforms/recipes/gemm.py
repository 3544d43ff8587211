"""The fast schedule of matmul, its knobs, and the rungs that set one knob after the other.

A tile of C in the registers of each thread is the SGEMM of V. Volkov and J. Demmel (Benchmarking
GPUs to tune dense linear algebra, SC 2008); tiles of blocks, warps and threads are the structure
of NVIDIA's CUTLASS (see `tiled_product`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tvm.s_tir.schedule import LoopRV, SBlockRV

from ..caching import (
    accumulate_in_registers,
    cache_read_at,
    can_inline_producers,
    fetch_cooperatively,
)
from ..gpu_limits import MAX_SHARED_BYTES
from ..inlining import inline_producers
from ..layout import pad_longer_rows, transpose_tile
from ..loops import suggest_unrolling
from ..pass_options import set_pipeline
from ..pipelining import prefetch_asynchronously, prefetch_through_registers
from ..queries import find_row_length, get_extent
from ..reduction import decompose_reduction_at, split_reduction
from ..tir import constant
from ..vectorize import vectorize_copy
from ..warp_tiling import STRIP, Inner, tile_in_warps
from .recipe import Example
from .rungs import Family, Pair, knob, pairs
from .tiled_product import Engine, WholeTail

WORD_BYTES = 4
"""Bytes per shared-memory bank."""
INDICES = 4
"""Most 64-bit indices, as symbolic sizes have them, in a CUDA vector type."""
INNER = ("columns", "rows")


@dataclass(frozen=True, kw_only=True)
class GemmConfig:
    """Knobs of a matmul whose operands go through shared memory into registers.

    With tail="refuse" the tile must divide m and n, and tile_k * split_k must divide k. The
    pipeline has fewer stages if the reduction has fewer steps, and at most two for types that are
    not 4 bytes wide, since their transposed tiles cannot be copied asynchronously.
    """

    threads: Pair = knob(
        (16, 16), "rows and columns of threads in a block", choices=pairs((4, 8, 16), (8, 16, 32))
    )
    thread_tile: Pair = knob(
        (8, 8), "rows and columns of C that a thread computes", choices=pairs((4, 8), (4, 8, 16))
    )
    tile_k: int = knob(8, "the depth of the tiles of A and B", choices=(8, 16, 32))
    strided: bool = knob(False, "whether a thread's tile is in strips of 4, a thread block apart")
    strip: int = knob(
        STRIP, "columns of a strip; 1 spreads unaligned rows over the lanes", choices=(1, 4)
    )
    padding: int = knob(0, "4-byte words by which the rows of A's tile are padded", least=0)
    warp: Pair | None = knob(
        None, "rows and columns of a warp's 32 lanes, by default a row", choices=((2, 16), (4, 8))
    )
    interleave: int = knob(
        1, "rows of a warp that are numbered together, column by column", choices=(1, 2)
    )
    swizzle: int = knob(
        1, "most rows of tiles that blocks go through column by column", choices=(1, 4, 8, 16)
    )
    stages: int = knob(
        1,
        "tiles in flight: 1 no pipeline, 2 registers, 3 and more cp.async",
        choices=(2, 3, 4),
    )
    inner: Inner = knob(
        "columns",
        "whether the innermost loop of a strip goes through columns or rows",
        choices=INNER,
    )
    inner_strips: Inner = knob(
        "columns", "the same for loops over a thread's strips", choices=INNER
    )
    split_k: int = knob(1, "split-K slices, each on its own blocks", choices=(1, 2, 4, 8, 16))
    tail: WholeTail = knob("refuse", "what to do if tiles do not divide")

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


class GemmEngine(Engine):
    """Threads that multiply fragments of both operands in registers."""

    config: GemmConfig

    def tile(self, block: SBlockRV, swizzle: int) -> None:
        config, self.block = self.config, block
        self.threads = tile_in_warps(
            self.sch,
            block,
            threads=config.threads,
            per_thread=config.thread_tile,
            strips=config.strips,
            warp=config.warp,
            interleave=config.interleave,
            inner=config.inner,
            inner_strips=config.inner_strips,
            swizzle=swizzle,
        ).threads

    def keep_sums(self) -> None:
        sch, config = self.sch, self.config
        result = accumulate_in_registers(sch, self.block, self.threads)
        # Slices are as wide as the padding; else whole vectors lie inside or outside.
        if config.tail == "refuse" or config.split_k > 1:
            vectorize_copy(sch, result)
        elif (vector := math.gcd(self.lengths[2], STRIP)) > 1:
            set_pipeline(sch)  # whose passes keep vectors under the guard of a crop
            vectorize_copy(sch, result, vector=vector)

    def split_steps(self) -> LoopRV:
        steps = split_reduction(self.sch, self.block, inner=self.config.tile_k)
        self.inner = steps.inner
        most = get_extent(self.sch, steps.outer) or 1
        if self.sch.get(self.block).reads[-1].source.dtype.itemsize != 4:
            most = min(most, 2)
        self.config = replace(self.config, stages=min(self.config.stages, most))
        return steps.outer

    def stage(self, steps: LoopRV, operand: int) -> SBlockRV:
        """A's tile is kept transposed, so that a thread's rows lie side by side."""
        sch, config = self.sch, self.config
        dtype = sch.get(self.block).reads[-1].source.dtype
        padding = config.padding * WORD_BYTES // dtype.itemsize
        width = config.tile[0] + padding + config.tile[1]
        used = width * config.tile_k * config.stages * dtype.itemsize
        # Asynchronous copies and more than 48 KiB want the dynamic shared memory.
        scope = "shared.dyn" if config.stages > 2 or used > MAX_SHARED_BYTES["shared"] else "shared"
        copy = cache_read_at(sch, self.block, steps, operand=operand, scope=scope)
        is_guarded = config.tail == "pad"
        if config.tail != "copy":
            inline_producers(sch, copy)
        elif can_inline_producers(sch, copy):
            inline_producers(sch, copy)
            is_guarded = True
        length = find_row_length(sch, copy) or 1
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
        if is_guarded:  # whole vectors of rows lie inside or outside
            widest = math.gcd(widest, self.lengths[operand])
        if operand == 0 and constant(sch.get(copy).writes[0].source.shape[-1]) is None:
            widest = min(widest, INDICES)  # a transposed vector is stored at as many indices
        vector = widest if length % widest == 0 and not (operand == 0 and together) else 1
        if vector > 1 and is_guarded:
            set_pipeline(sch)
        threads = config.threads[0] * config.threads[1]
        fetch_cooperatively(sch, copy, threads=threads, vector=vector, tail="guard")
        return copy

    def multiply(self, steps: LoopRV, copies: Sequence[SBlockRV]) -> Iterator[str]:
        sch, config = self.sch, self.config
        for operand in range(2):
            fragment = cache_read_at(sch, self.block, self.inner, operand=operand, scope="local")
            vectorize_copy(sch, fragment)
        suggest_unrolling(sch, self.inner)
        yield "fragments_in_registers"
        decompose_reduction_at(sch, self.block, steps)
        yield "decomposed"
        if config.stages == 2:
            prefetch_through_registers(sch, steps, copies)
            yield "next_tiles_through_registers"
            set_pipeline(sch)
            yield "barriers_dropped"
        elif config.stages > 2:
            prefetch_asynchronously(sch, steps, copies, stages=config.stages)
            yield "next_tiles_asynchronously"


GEMM = Family(
    kernel="matmul",
    config=GemmConfig,
    schedule=GemmEngine.run,
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
    "strips",
    strided=True,
    why="Adjacent threads read adjacent vectors; sets up warp tiles",
)
deeper = strips.plus(
    "deeper", tile_k=16, why="Half as many barriers per multiply-add", golden={"tile_k": 8}
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
    why="The next tiles are loaded into registers while these are multiplied; one barrier per step",
    expects={"barriers_dropped": ("barriers_per_step == 1", "spills == 0 on sm_90a")},
)
inner_rows = prefetched.plus(
    "inner_rows",
    inner="rows",
    why="A value of B stays in its register from one multiply-add to the next",
)
split = inner_rows.plus(
    "split_k",
    split_k=4,
    why="Split-K: even few tiles fill the GPU, and a second kernel adds up the slices; slower "
    "if there are enough tiles without it",
    golden={"split_k": 2},
    searched=("inner_strips",),
    expects={"parts_added": ("kernels == 2", "barriers_per_step == 1")},
)
