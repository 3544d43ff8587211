"""Recipes of matmul and matmul_bias_relu with a tile of C for each thread, from the notes.

The "GPU and hardware acceleration" notes call them local blocking (the tile of C in registers)
and shared memory blocking (the tiles of A and B in shared memory as well).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from tvm.s_tir import Schedule

from ..binding import tile_block
from ..caching import accumulate_in_registers
from ..fetching import stage_operand_at
from ..layout import pad_block
from ..loops import PaddedTail, Tail, unroll_loop
from ..reduction import decompose_reduction_at, split_reduction
from .expected_facts import SourcePattern
from .recipe import Example, recipe

NOTES = Example({"m": 1024, "n": 1024, "k": 1024})
SMALL = Example(
    {"m": 64, "n": 48, "k": 32},
    config={"local_y": 4, "local_x": 2, "block_y": 4, "block_x": 8},
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
    golden=SMALL,
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

    Sizes: local_y, local_x, the tile of a thread; block_y, block_x, the threads of a block;
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

    Sizes: local_y, local_x, the tile of a thread; block_y, block_x, the threads of a block;
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


@blocking(
    kernel="matmul_bias_relu",
    blocks=("C D",),
    choices=matmul_shared_blocking.choices,
    expects={
        "decomposed": ("vector_loads == 2", "barriers_per_step == 2", "spills == 0 on sm_90a")
    },
)
def matmul_bias_relu_shared_blocking(
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
    """Shared memory blocking whose threads add the bias and apply relu to their tiles of C.

    The steps are those of matmul_shared_blocking; the epilogue D is what
    accumulate_in_registers finds after C.

    Sizes: local_y, local_x, the tile of a thread; block_y, block_x, the threads of a block;
    tile_k, the depth of the tiles of A and B; vector, the elements of one load.
    """
    yield from matmul_shared_blocking.body(
        sch,
        local_y=local_y,
        local_x=local_x,
        block_y=block_y,
        block_x=block_x,
        tile_k=tile_k,
        vector=vector,
        tail=tail,
    )
