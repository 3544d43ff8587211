"""Matmul on tensor cores by mma.sync: one schedule, and the ladder that sets one knob after the
other.

The instruction and its fragments are those of the PTX ISA (see `tensor_cores.fragments`). Tiles of
blocks and warps, swizzled shared memory, a pipeline of asynchronous copies and fragments that are
loaded ahead are the structure of NVIDIA's CUTLASS on its architecture of 2020 (A. Kerr and others,
CUTLASS: Fast Linear Algebra in CUDA C++, 2017; V. Thakkar and others, CUTLASS 3, 2023).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tvm.s_tir.schedule import LoopRV, SBlockRV

from tirstep.precision_annotations import OPERANDS

from ..caching import accumulate_in_registers, cache_read_at
from ..gpu_limits import MAX_SHARED_BYTES, WARP
from ..hopper.warpgroup_tiles import WarpgroupTile
from ..loops import suggest_unrolling
from ..pass_options import set_pipeline
from ..pipelining import prefetch_asynchronously, prefetch_fragments
from ..queries import find_epilogue, get_extent
from ..reduction import decompose_reduction_at
from ..schedule import TransformError
from ..tensor_cores.fragments import get_depth
from ..tensor_cores.mma_tiles import (
    FragmentTile,
    SharedStore,
    TileLayout,
    stage_fragments_at,
    store_through_shared,
    tensorize_fragments,
    tile_in_fragments,
)
from .recipe import Example
from .rungs import Family, Pair, knob
from .tiled_product import VECTOR_BYTES, Engine, WholeTail

Store = Literal["registers", "shared"]
"""From where a result is written: registers, or shared memory, in whole rows."""
TYPES = ("float16", "bfloat16", "int8", "float8_e4m3fn", "float8_e5m2", "tf32")


@dataclass(frozen=True, kw_only=True)
class MmaConfig:
    """Knobs of a matmul on tensor cores, whose operands go through shared memory into fragments.

    With a tail of "refuse" the tile divides m and n, and tile_k * split_k divides k; a padded
    problem and its crop are written through shared memory. The pipeline has fewer stages where the
    reduction has fewer steps.
    """

    tile: Pair = knob(
        (128, 128),
        "rows and columns of C that a thread block computes",
        choices=((64, 64), (64, 128), (128, 128), (128, 256)),
    )
    warp: Pair = knob(
        (64, 64),
        "rows and columns of C that a warp computes",
        choices=((32, 32), (32, 64), (64, 32), (64, 64)),
    )
    tile_k: int = knob(32, "the depth of the tiles of A and B", choices=(32, 64))
    layout: TileLayout = knob("rows", "how the rows of a tile lie in shared memory")
    stages: int = knob(1, "tiles in flight: 1 no pipeline, more by cp.async", choices=(2, 3, 4, 5))
    prefetch_fragments: bool = knob(
        False, "whether fragments are loaded one step ahead, too", choices=(False, True)
    )
    fragments_first: bool = knob(
        False,
        "whether the next tile's first fragments are loaded before this tile's last products",
        choices=(False, True),
    )
    swizzle: int = knob(
        1, "most rows of tiles that blocks go through column by column", choices=(1, 4, 8)
    )
    store: Store = knob("registers", "where the result is written from")
    split_k: int = knob(1, "split-K slices, each on its own blocks", choices=(1, 2, 4))
    tail: WholeTail = knob("refuse", "what to do if tiles do not divide")

    @property
    def warps(self) -> int:
        """Warps per thread block."""
        return self.tile[0] // self.warp[0] * (self.tile[1] // self.warp[1])


class TensorCoreEngine(Engine):
    """Shared by both tensor-core instructions: their types, and the vectors of copies."""

    tiled: FragmentTile | WarpgroupTile
    rows_of_threads: tuple[int, int]
    """In a thread block: warps or warpgroups, and the threads of each."""

    def require_operands(self, total: SBlockRV) -> None:
        """Refuse operands that tensor cores do not multiply.

        Of the types tf32 is a float32 in memory of a block whose annotation allows to round it, as
        matmul with ``dtype="tf32"`` has it.
        """
        node = self.sch.get(total)
        operand = node.reads[-1].source.dtype
        is_tf32 = str(operand) == "float32" and node.annotations.get(OPERANDS) == "tf32"
        if ("tf32" if is_tf32 else str(operand)) not in TYPES:
            raise TransformError(
                "schedule",
                f"tensor cores do not multiply {operand} as it is",
                f"use {', '.join(TYPES)}",
            )

    def require_room(self, size: int) -> None:
        """Refuse stages of elements of so many bytes that no GPU has the shared memory for."""
        config = self.config
        tiles = sum(config.tile) * config.tile_k * size * config.stages
        if tiles > MAX_SHARED_BYTES["shared.dyn"]:
            raise TransformError(
                "schedule",
                f"{config.stages} stages of tiles of {config.tile} by tile_k={config.tile_k} take "
                f"{tiles >> 10} KiB of shared memory, and a block has "
                f"{MAX_SHARED_BYTES['shared.dyn'] >> 10} KiB at most",
                "use fewer stages, or a smaller tile",
            )

    def choose_store(self, total: SBlockRV, store: Store) -> Store:
        """From where a result is written: shared memory where it is cropped, or computed with."""
        epilogue = find_epilogue(self.sch, total)
        has_more = epilogue is not None and len(self.sch.get(epilogue).reads) > 1
        return "shared" if has_more or self.config.tail != "refuse" else store

    def split_steps(self) -> LoopRV:
        """The loop that is there since the block was tiled."""
        return self.tiled.outer

    def count_stages(self) -> int:
        """Tiles in flight, of which there are no more than steps."""
        return min(self.config.stages, get_extent(self.sch, self.tiled.outer) or 1)

    def find_vector(self, operand: int) -> int:
        """The elements of a vector that copies an operand's tile, of 16 bytes where it can.

        TVM's vectors have four elements of float8 at most, and of int8 where there is a guard;
        asynchronous copies of float8 have no type. Under a padding whole vectors lie in or outside.
        """
        config, dtype = self.config, self.sch.get(self.tiled.block).reads[operand].source.dtype
        is_async = config.stages > 1 and get_extent(self.sch, self.tiled.outer) != 1
        size = dtype.itemsize
        is_guarded = config.tail != "refuse" if "int" in str(dtype) else not is_async
        vector = 4 if size == 1 and is_guarded else VECTOR_BYTES // size
        if config.tail == "pad":
            vector = math.gcd(vector, self.lengths[operand])
        return vector

    def store_through_shared(self, loop: LoopRV, size: int) -> SharedStore:
        """Have sums go through shared memory, in vectors of elements of so many bytes."""
        set_pipeline(self.sch)  # whose passes keep vectors under the guard of a crop
        warps, lanes = self.rows_of_threads
        vector = math.gcd(VECTOR_BYTES // size, self.lengths[2])
        columns, tiled = self.config.tile[1], self.tiled
        return store_through_shared(
            self.sch,
            tiled.block,
            tiled.grid,
            loop,
            columns=columns,
            warps=warps,
            lanes=lanes,
            vector=vector,
        )


class MmaEngine(TensorCoreEngine):
    """Warps that multiply fragments in registers by mma.sync."""

    config: MmaConfig
    tiled: FragmentTile

    def prepare(self, total: SBlockRV) -> Iterator[str]:
        config, dtype = self.config, self.sch.get(total).reads[-1].source.dtype
        self.require_operands(total)
        self.require_room(dtype.itemsize)
        tile_k, store = max(config.tile_k, get_depth(dtype.bits)), config.store
        self.config = replace(config, tile_k=tile_k, store=self.choose_store(total, store))
        self.depth, self.rows_of_threads = get_depth(dtype.bits), (config.warps, WARP)
        yield from ()

    def tile(self, block: SBlockRV, swizzle: int) -> None:
        config = self.config
        self.tiled = tile_in_fragments(
            self.sch,
            block,
            tile=config.tile,
            warp=config.warp,
            tile_k=config.tile_k,
            depth=self.depth,
            swizzle=swizzle,
        )

    def keep_sums(self) -> None:
        sch, block, warps = self.sch, self.tiled.block, self.tiled.warps
        if self.config.store == "registers":
            self.store = accumulate_in_registers(sch, block, warps)
        else:
            stores = [it for it in (block, find_epilogue(sch, block)) if it is not None]
            widest = max(sch.get(it).writes[0].source.dtype.itemsize for it in stores)
            self.store = self.store_through_shared(warps, widest).store

    def stage(self, steps: LoopRV, operand: int) -> SBlockRV:
        config, dtype = self.config, self.sch.get(self.tiled.block).reads[operand].source.dtype
        layout = config.layout if dtype.itemsize == 2 or config.layout == "rows" else "padded"
        return stage_fragments_at(
            self.sch,
            self.tiled.block,
            steps,
            operand=operand,
            warps=config.warps,
            vector=self.find_vector(operand),
            layout=layout,
            tail="guard",
        )

    def multiply(self, steps: LoopRV, copies: Sequence[SBlockRV]) -> Iterator[str]:
        sch, config, (block, _, _, _, inner) = self.sch, self.config, self.tiled
        loads = [cache_read_at(sch, block, inner, operand=at, scope="local") for at in range(2)]
        suggest_unrolling(sch, inner)
        yield "fragments_in_registers"
        zeros = decompose_reduction_at(sch, block, steps)
        yield "decomposed"
        # Of float32 operands the kernel allows it, or they were refused.
        tensorize_fragments(sch, block, loads, zeros, self.store, tf32=True)
        yield "tensorized"
        ahead = config.prefetch_fragments and (get_extent(sch, inner) or 1) > 1
        if ahead:
            prefetch_fragments(sch, inner)
            yield "fragments_ahead"
        stages = self.count_stages()
        if stages > 1:
            first = config.fragments_first and ahead and stages > 2
            prefetch_asynchronously(sch, steps, copies, stages=stages, fragments_first=first)
            set_pipeline(sch)
            yield "next_tiles_asynchronously"


MMA = Family(
    kernel="matmul",
    config=MmaConfig,
    schedule=MmaEngine.run,
    blocks=("C", "C C_cast"),
    default_example=Example({"m": 1024, "n": 512, "k": 2048}, options={"dtype": "float16"}),
    small=Example(
        {"m": 32, "n": 64, "k": 96},
        options={"dtype": "float16"},
        config={"tile": (16, 32), "warp": (16, 16)},
    ),
    tiles=("tile", "warp", "tile_k"),
    dtypes=TYPES,
    arch="sm_80",
)

ON_TENSOR_CORES = (
    "HMMA > 0 on sm_80",
    "LDSM > 0 on sm_80",
    "spills == 0 on sm_80",
    "spills == 0 on sm_90a",
)

plain = MMA.root(
    "mma",
    why="Tensor cores multiply fragments of 16x16x16, which ldmatrix loads",
    expects={"tensorized": ON_TENSOR_CORES},
)
swizzled = plain.plus(
    "mma_swizzled",
    layout="swizzled",
    why="The eight rows that ldmatrix reads at once lie in different banks",
)
piped = swizzled.plus(
    "mma_async",
    stages=4,
    why="The next tiles are copied asynchronously, several in flight",
    expects={"next_tiles_asynchronously": ("cp_async_bytes == 16", *ON_TENSOR_CORES)},
    golden={"stages": 3},
)
ahead = piped.plus(
    "mma_fragments",
    prefetch_fragments=True,
    why="The next fragments are loaded while these are multiplied",
)
first = ahead.plus(
    "mma_fragments_first",
    fragments_first=True,
    why="Products need not wait for shared memory at the start of each tile",
)
rows = first.plus(
    "mma_rows",
    swizzle=8,
    store="shared",
    why="Whole rows of the result are written, from shared memory, and blocks that run at the same "
    "time share rows of A and columns of B in the L2 cache",
    golden={"swizzle": 2},
)
split = rows.plus(
    "mma_split_k",
    split_k=4,
    why="Split-K: even few tiles fill the GPU, and a second kernel adds up the slices; slower "
    "if there are enough tiles without it",
    golden={"split_k": 3},
    expects={"parts_added": ("kernels == 2", *ON_TENSOR_CORES)},
)
