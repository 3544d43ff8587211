"""Recipes of matmul that follow a text, step by step, as the text has them: docs/tutorials.md.

They are v0 to v4 of "TVM: GEMM GPU Optimization"; the three steps of the blog "TVM Matrix
Multiplication Optimization"; and, for matmul_bias_relu too, the two of "TVM Learning (8)-GPU and
Hardware Acceleration, Part 1": local blocking (the tile of C in registers) and shared memory
blocking (the tiles of A and B in shared memory as well).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace

from tvm.s_tir import Schedule

from ..binding import bind_loop, tile_block
from ..caching import accumulate_in_registers, place_copy_at, stage_operand_at
from ..layout import pad_block
from ..loops import PaddedTail, Tail, fuse_loops, reorder_loops, split_loop, unroll_loop
from ..queries import get_own_loops, get_reduction_loops
from ..reduction import decompose_reduction_at, split_reduction
from .recipe import Example, SourcePattern, read_expectations, recipe
from .rungs import order

GEMM = Example({"m": 1024, "n": 512, "k": 2048})
SQUARE = Example({"m": 512, "n": 512, "k": 512})
SMALL = {"m": 64, "n": 48, "k": 32}
TILE = (4, 8, 16, 32)
MNK, MK = ("m", "n", "k"), ("m", "k")
ONE, ROW = {"bound": ("threads == 1",)}, {"bound": ("threads == 512",)}  # expected of a block


gemm_tutorial = functools.partial(
    recipe,
    kernel="matmul",
    blocks=("C",),
    default_example=GEMM,
    golden=Example(SMALL),
    symbolic=MNK,
)
step_by_step = functools.partial(gemm_tutorial, default_example=SQUARE)


@gemm_tutorial(expects=ONE)
def matmul_naive(sch: Schedule) -> Iterator[str]:
    """One element of C for each block of one thread (v0).

    Text: "TVM: GEMM GPU Optimization", 2.1.1.
    """
    block = sch.get_sblock("C")
    i, j, k = sch.get_loops(block)
    bind_loop(sch, i, axis="blockIdx.y")
    bind_loop(sch, j, axis="blockIdx.x")
    decompose_reduction_at(sch, block, k)
    yield "bound"


@gemm_tutorial(
    golden=Example(SMALL, config={"threads": 16}),
    choices={"threads": (8, 16, 32, 64)},
    expects={"bound": ("threads == 32", "shared_bytes == 0")},
)
def matmul_threads_1d(sch: Schedule, *, threads: int = 32, tail: Tail = "refuse") -> Iterator[str]:
    """Rows of C in tiles, one thread for each row of a tile; columns on blockIdx.y (v1).

    Text: "TVM: GEMM GPU Optimization", 2.1.2.

    Knobs: threads of a block, which is also the tile of rows.
    """
    block = sch.get_sblock("C")
    i, j, k = sch.get_loops(block)
    row_tile, row = split_loop(sch, i, inner=threads, tail=tail)
    reorder_loops(sch, [row_tile, j, row])
    yield "rows_tiled"
    bind_loop(sch, row_tile, axis="blockIdx.x")
    bind_loop(sch, j, axis="blockIdx.y")
    bind_loop(sch, row, axis="threadIdx.x")
    decompose_reduction_at(sch, block, k)
    yield "bound"


@gemm_tutorial(
    golden=Example(SMALL, config={"rows": 16, "columns": 8}),
    choices={"rows": TILE, "columns": TILE},
    expects={"tiled_and_bound": ("threads == 1024", "shared_bytes == 0")},
)
def matmul_threads_2d(
    sch: Schedule, *, rows: int = 32, columns: int = 32, tail: Tail = "refuse"
) -> Iterator[str]:
    """One element of C for each thread, rows on x and columns on y as in the tutorial (v2).

    Adjacent threads work on adjacent rows, whose elements are far apart in memory: the
    step-by-step recipes have it the other way round, and are faster for it.

    Text: "TVM: GEMM GPU Optimization", 2.1.3.

    Knobs: rows and columns of a tile, which are the threads of a block.
    """
    block = sch.get_sblock("C")
    tile_block(sch, block, threads=(rows, columns), axes=("x", "y"), tail=tail)
    decompose_reduction_at(sch, block, *get_reduction_loops(sch, block))
    yield "tiled_and_bound"


@gemm_tutorial(
    blocks=("C", "C C_cast"),
    choices={"rows": TILE, "columns": TILE, "tile_k": (4, 8, 16)},
    expects={"decomposed": ("barriers_per_step == 2", "shared_bytes <= 48 KiB")},
)
def matmul_shared(
    sch: Schedule,
    *,
    rows: int = 16,
    columns: int = 16,
    tile_k: int = 8,
    tail: PaddedTail = "refuse",
) -> Iterator[str]:
    """Tiles of A and B in shared memory, fetched by all threads of a block together (v3).

    threadIdx.x goes over the rows of a tile and threadIdx.y over its columns, as they do of C, and
    those beyond its end fetch nothing. Adjacent threads read a row apart: `fetch_cooperatively`,
    which the fast ladder has, lets them read side by side.

    Text: "TVM: GEMM GPU Optimization", 2.1.4.

    Knobs: rows and columns of a tile of C, which are the threads of a block; tile_k, the depth of
    the tiles of A and B.
    """
    block = sch.get_sblock("C")
    if tail == "pad":
        pad_block(sch, block, multiples=(rows, columns, tile_k))
        yield "padded"
    rest: Tail = "refuse" if tail == "pad" else tail
    tile = tile_block(sch, block, threads=(rows, columns), axes=("x", "y"), tail=rest)
    steps = split_reduction(sch, block, inner=tile_k, tail=rest)
    yield "tiled_and_bound"
    if sch.get_consumers(block):
        accumulate_in_registers(sch, block, tile.threads[1])
        yield "epilogue_fused"
    for operand, name in enumerate("AB"):
        copy = place_copy_at(sch, block, steps.outer, operand=operand, scope="shared", inlines=True)
        for own, threads, axis in zip(get_own_loops(sch, copy), (rows, columns), "xy", strict=True):
            bind_loop(sch, sch.split(own, [threads, None])[0], axis=f"threadIdx.{axis}")
        yield f"{name}_in_shared_memory"
    decompose_reduction_at(sch, block, steps.outer)
    yield "decomposed"


@gemm_tutorial(
    blocks=("C", "C C_cast"),
    golden=Example(SMALL, config={"rows": 16, "columns": 8}),
    choices={"rows": TILE, "columns": TILE, "tile_k": (2, 4, 8)},
    expects={"decomposed": ("barriers_per_step == 2", "scalar_loads == 2", "scalar_stores == 1")},
)
def matmul_registers(
    sch: Schedule,
    *,
    rows: int = 32,
    columns: int = 32,
    tile_k: int = 4,
    tail: PaddedTail = "refuse",
) -> Iterator[str]:
    """Tiles in shared memory, and the sum of each thread in a register, written once (v4).

    A tile is divided by threadIdx.y first, and each share by threadIdx.x: the 128 elements of the
    tutorial's tiles are 4 for each threadIdx.y, so that 28 of 32 lanes fetch nothing.

    Text: "TVM: GEMM GPU Optimization", 2.1.5.

    Knobs: rows and columns of a tile of C, which are the threads of a block; tile_k, the depth of
    the tiles of A and B.
    """
    block = sch.get_sblock("C")
    if tail == "pad":
        pad_block(sch, block, multiples=(rows, columns, tile_k))
        yield "padded"
    rest: Tail = "refuse" if tail == "pad" else tail
    tile = tile_block(sch, block, threads=(rows, columns), axes=("x", "y"), tail=rest)
    yield "tiled_and_bound"
    accumulate_in_registers(sch, block, tile.threads[1])
    yield "accumulated_in_registers"
    steps = split_reduction(sch, block, inner=tile_k, tail=rest)
    for operand, name in enumerate("AB"):
        copy = place_copy_at(sch, block, steps.outer, operand=operand, scope="shared", inlines=True)
        share, rest = sch.split(fuse_loops(sch, get_own_loops(sch, copy)), [columns, None])
        bind_loop(sch, share, axis="threadIdx.y")
        bind_loop(sch, sch.split(rest, [rows, None])[0], axis="threadIdx.x")
        yield f"{name}_in_shared_memory"
    decompose_reduction_at(sch, block, steps.outer)
    yield "decomposed"


@step_by_step(symbolic=MK, expects=ROW)
def matmul_rows_on_blocks(sch: Schedule) -> Iterator[str]:
    """One row of C for each block, one element of the row for each thread (step 1).

    The blog shows it for any n; a block has at most 1024 threads, so it runs for n up to 1024
    and is refused beyond.

    Text: "TVM 행렬 곱셈 최적화 - Step 1: Simple GPU Binding".
    """
    i, j, _ = sch.get_loops(sch.get_sblock("C"))
    bind_loop(sch, i, axis="blockIdx.x")
    bind_loop(sch, j, axis="threadIdx.x")
    yield "bound"


@step_by_step(
    golden=Example(SMALL, config={"rows": 4, "columns": 8, "per_thread": 2}),
    choices={"rows": (1, 4, 8), "columns": (16, 32), "per_thread": (1, 2, 4, 32)},
    expects={"tiled_and_bound": ("threads == 32", "shared_bytes == 0")},
)
def matmul_tiled(
    sch: Schedule, *, rows: int = 1, columns: int = 32, per_thread: int = 32, tail: Tail = "refuse"
) -> Iterator[str]:
    """A 32×32 tile of C for each block of 32 threads, one element after the other (step 2).

    It is step 2 as step 3 describes it: 32 threads with 32 elements each, and k innermost.

    Text: "TVM Matrix Multiplication Optimization - Step 3: Shared Memory".

    Knobs: rows and columns of threads in a block; per_thread, the rows of C of one thread.
    """
    block = sch.get_sblock("C")
    tile = tile_block(sch, block, threads=(rows, columns), per_thread=(per_thread, 1), tail=tail)
    reorder_loops(sch, [*tile.locals, *get_reduction_loops(sch, block)])
    yield "tiled_and_bound"


@step_by_step(
    blocks=("C", "C C_cast"),
    golden=Example(SMALL, config={"rows": 4, "columns": 8, "per_thread": 2, "tile_k": 16}),
    choices={
        "rows": (1, 4, 8),
        "columns": (16, 32),
        "per_thread": (1, 2, 4, 32),
        "tile_k": (8, 16, 32),
    },
    expects={"decomposed": ("barriers_per_step == 2", "scalar_stores == 1", "guards == 0")},
)
def matmul_tiled_shared(
    sch: Schedule,
    *,
    rows: int = 1,
    columns: int = 32,
    per_thread: int = 32,
    tile_k: int = 32,
    tail: PaddedTail = "refuse",
) -> Iterator[str]:
    """32×32 tiles of A and B in shared memory, each thread fetching a share (step 3).

    The blog's 32 threads fetch 32 elements each, side by side: adjacent threads read a row apart.

    Text: "TVM Matrix Multiplication Optimization - Step 3: Shared Memory".

    Knobs: rows and columns of threads in a block; per_thread, the rows of C of one thread;
    tile_k, the depth of the tiles of A and B.
    """
    block = sch.get_sblock("C")
    if tail == "pad":
        pad_block(sch, block, multiples=(rows * per_thread, columns, tile_k))
        yield "padded"
    rest: Tail = "refuse" if tail == "pad" else tail
    threads = (rows, columns)
    tile = tile_block(sch, block, threads=threads, per_thread=(per_thread, 1), tail=rest)
    yield "tiled_and_bound"
    accumulate_in_registers(sch, block, tile.threads[1])
    yield "accumulated_in_registers"
    steps = split_reduction(sch, block, inner=tile_k, tail=rest)
    reorder_loops(sch, [*tile.locals, steps.inner])
    for operand, name in enumerate("AB"):
        copy = place_copy_at(sch, block, steps.outer, operand=operand, scope="shared", inlines=True)
        fused = fuse_loops(sch, get_own_loops(sch, copy))
        row, column, _ = sch.split(fused, [*threads, None])
        bind_loop(sch, row, axis="threadIdx.y")
        bind_loop(sch, column, axis="threadIdx.x")
        yield f"{name}_in_shared_memory"
    decompose_reduction_at(sch, block, steps.outer)
    yield "decomposed"


NOTES = Example({"m": 1024, "n": 1024, "k": 1024})
SMALL_BLOCKS = Example(
    {"m": 64, "n": 48, "k": 32}, config={"local_y": 4, "local_x": 2, "block_y": 4, "block_x": 8}
)
CHOICES = {
    "local_y": (1, 2, 4, 8),
    "local_x": (1, 2, 4, 8),
    "block_y": (4, 8, 16),
    "block_x": (4, 8, 16),
    "tile_k": (2, 4, 8),
}

TILES_BETWEEN_BARRIERS = SourcePattern(
    """
    CHECK: for (int k_0
    CHECK-NOT: _shared_ptr
    CHECK: __syncthreads();
    CHECK: *(float4*)(A_shared_ptr
    CHECK: *(float4*)(B_shared_ptr
    CHECK: __syncthreads();
    CHECK: A_shared_ptr[{{.*}} * B_shared_ptr[
    CHECK-NOT: __syncthreads();
    """
)


blocking = functools.partial(
    recipe,
    kernel="matmul",
    blocks=("C", "C C_cast"),
    default_example=NOTES,
    golden=SMALL_BLOCKS,
    choices=CHOICES,
    symbolic=("m", "n", "k"),
)


@blocking(
    expects={"decomposed": ("unrolled_loops == 1", "shared_bytes == 0", "spills == 0 on sm_90a")}
)
def matmul_local_blocking(
    sch: Schedule,
    *,
    local_y: int = 8,
    local_x: int = 8,
    block_y: int = 8,
    block_x: int = 8,
    tile_k: int = 4,
    tail: Tail = "refuse",
) -> Iterator[str]:
    """A tile of C in the registers of each thread; A and B from global memory.

    Text: "TVM Learning (8)-GPU and Hardware Acceleration, Part 1".

    Knobs: local_y, local_x, the tile of a thread; block_y, block_x, the threads of a block;
    tile_k, the unrolled steps of the reduction.
    """
    block = sch.get_sblock("C")
    tile = tile_block(
        sch, block, threads=(block_y, block_x), per_thread=(local_y, local_x), tail=tail
    )
    yield "tiled_and_bound"
    accumulate_in_registers(sch, block, tile.threads[1])
    yield "accumulated_in_registers"
    steps = split_reduction(sch, block, inner=tile_k, tail=tail)
    unroll_loop(sch, steps.inner)
    yield "reduction_unrolled"
    decompose_reduction_at(sch, block, steps.outer)
    yield "decomposed"


@blocking(
    choices={**CHOICES, "vector": (1, 2, 4)},
    expects={
        "decomposed": (
            "vector_loads == 2",
            "scalar_loads == 0",
            "load_bytes == 16",
            "barriers_per_step == 2",
            "shared_bytes <= 48 KiB",
            "guards == 0",
            "spills == 0 on sm_90a",
            TILES_BETWEEN_BARRIERS,
        )
    },
)
def matmul_shared_blocking(
    sch: Schedule,
    *,
    local_y: int = 8,
    local_x: int = 8,
    block_y: int = 8,
    block_x: int = 8,
    tile_k: int = 4,
    vector: int = 4,
    tail: PaddedTail = "refuse",
) -> Iterator[str]:
    """A tile of C in the registers of each thread; tiles of A and B in shared memory.

    All threads of a block lie on threadIdx.x and fetch the tiles together, with vectors.

    Text: "TVM Learning (8)-GPU and Hardware Acceleration, Part 1".

    Knobs: local_y, local_x, the tile of a thread; block_y, block_x, the threads of a block;
    tile_k, the depth of the tiles of A and B; vector, the elements of one load.
    """
    block = sch.get_sblock("C")
    if tail == "pad":
        pad_block(sch, block, multiples=(local_y * block_y, local_x * block_x, tile_k))
        yield "padded"
    rest: Tail = "refuse" if tail == "pad" else tail
    tile = tile_block(
        sch,
        block,
        threads=(block_y, block_x),
        per_thread=(local_y, local_x),
        fuse_threads=True,
        tail=rest,
    )
    yield "tiled_and_bound"
    accumulate_in_registers(sch, block, tile.threads[0])
    yield "accumulated_in_registers"
    steps = split_reduction(sch, block, inner=tile_k, tail=rest)
    for operand, name in enumerate("AB"):
        threads = block_y * block_x
        stage_operand_at(sch, block, steps.outer, operand=operand, threads=threads, vector=vector)
        yield f"{name}_in_shared_memory"
    decompose_reduction_at(sch, block, steps.outer)
    yield "decomposed"


matmul_bias_relu_shared_blocking = replace(
    matmul_shared_blocking,
    name="matmul_bias_relu_shared_blocking",
    doc="""Shared memory blocking whose threads add the bias and apply relu to their tiles of C.

The steps are those of matmul_shared_blocking; the epilogue D is what accumulate_in_registers finds
after C.

Knobs: local_y, local_x, the tile of a thread; block_y, block_x, the threads of a block;
tile_k, the depth of the tiles of A and B; vector, the elements of one load.""",
    kernel="matmul_bias_relu",
    blocks=("C D",),
    expects=read_expectations(
        {"decomposed": ("vector_loads == 2", "barriers_per_step == 2", "spills == 0 on sm_90a")}
    ),
)
LADDERS = (
    order(
        '"TVM: GEMM GPU Optimization", v0 to v4',
        matmul_naive,
        matmul_threads_1d,
        matmul_threads_2d,
        matmul_shared,
        matmul_registers,
        name="gemm-tutorial",
    ),
    order(
        '"TVM Matrix Multiplication Optimization", steps 1 to 3',
        matmul_rows_on_blocks,
        matmul_tiled,
        matmul_tiled_shared,
        name="step-by-step",
    ),
    order(
        'the blocking of "TVM Learning (8)-GPU and Hardware Acceleration, Part 1"',
        matmul_local_blocking,
        matmul_shared_blocking,
        name="blocking",
    ),
)
