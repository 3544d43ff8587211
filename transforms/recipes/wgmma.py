"""Matmul on the tensor cores of compute capability 9.0 by wgmma: one schedule, and the ladder that
sets one knob after the other.

The instruction, its descriptors and its fragments are those of the PTX ISA (see
`hopper.wgmma_intrinsics`). Swizzled tiles, a pipeline of asynchronous copies and a group of
products in flight, tiles by the TMA and roles of warpgroups are the structure of NVIDIA's CUTLASS 3
(V. Thakkar and others, 2023).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tvm.s_tir.schedule import LoopRV, SBlockRV

from tirstep.precision_annotations import SUMS

from ..caching import accumulate_in_registers
from ..gpu_limits import MAX_SHARED_BYTES
from ..hopper.tma_loads import prefetch_by_tma, specialize_warps
from ..hopper.tma_stores import store_by_tma, store_through_tiles
from ..hopper.tma_tiles import ATOM, PITCH, SLOTS
from ..hopper.warp_roles import make_persistent
from ..hopper.warpgroup_tiles import (
    WarpgroupTile,
    stage_swizzled_at,
    tensorize_warpgroups,
    tile_in_warpgroups,
)
from ..hopper.wgmma_intrinsics import ROWS, THREADS
from ..pass_options import set_pipeline
from ..pipelining import prefetch_asynchronously
from ..queries import find_epilogue
from ..reduction import decompose_reduction_at
from ..schedule import TransformError
from ..tensor_cores.fragments import get_depth
from ..tensor_cores.mma_tiles import is_along_k
from ..tir import constant
from .element_ladders import TransposeConfig, schedule_transpose
from .mma import TYPES, Store, TensorCoreEngine
from .recipe import Example
from .rungs import Family, Pair, knob
from .tiled_product import VECTOR_BYTES, WholeTail, get_row_lengths

Copies = Literal["threads", "tma"]
"""How tiles are copied into shared memory: by all threads, or by the Tensor Memory Accelerator."""
WgmmaStore = Literal["registers", "shared", "tma"]
"""From where a result is written: registers, shared memory, or that by the TMA."""
_SLAB_BYTES = 128
"""Bytes of a row in a slab of a tile that the TMA stores."""
SLAB = _SLAB_BYTES // 2
"""Columns of B, of 16 bits, in a slab."""
Transpose = Literal["tile", "kernel"]
"""Where an operand is transposed that wgmma reads along k alone."""
MAX_SUMS = 192
"""Registers of a thread for its sums: beyond, addresses and descriptors are spilled."""

_REGISTERS = {2: (40, 232), 3: (32, 160), 4: (24, 112)}
"""Registers of a producer's and a consumer's thread, by the number of consumer warpgroups; with
one, each thread already has as many as it can use."""


@dataclass(frozen=True, kw_only=True)
class WgmmaConfig:
    """Knobs of a matmul by wgmma, whose operands lie in shared memory as descriptors read them.

    With a tail of "refuse" the tile divides m and n, and tile_k * split_k divides k; a padded
    problem and its crop are written through shared memory. The pipeline has fewer stages where the
    reduction has fewer steps, and no group in flight with fewer than three. With a tail of "pad"
    the TMA brings the zeros, and where rows are no multiples of 16 bytes, operands are copied
    between zeros before, as with "copy", and threads write such rows of a result. Tiles that are
    transposed, of B of 8 bits as (k, columns), are copied by threads whatever `copies` says, since
    the TMA copies rows as rows.
    """

    tile: Pair = knob(
        (128, 128),
        "rows and columns of C that a thread block computes",
        choices=((64, 64), (64, 128), (128, 128), (64, 256), (128, 256), (256, 128)),
    )
    warpgroups: Pair = knob(
        (2, 1),
        "warpgroups of a block, at most, along the rows of its tile (64 or more each) and "
        "along its columns",
        choices=((2, 1), (1, 2)),
    )
    tile_k: int = knob(64, "the depth of the tiles of A and B", choices=(64, 128))
    row_bytes: int = knob(
        16,
        "bytes of a tile's row that the swizzle permutes: 16 for none, at most 128",
        choices=(128,),
    )
    stages: int = knob(1, "tiles in flight: 1 no pipeline, more by cp.async", choices=(3, 4, 5, 6))
    copies: Copies = knob(
        "threads", "what copies tiles into shared memory, if there are several stages"
    )
    roles: bool = knob(
        False,
        "whether a warpgroup of its own issues TMA copies, while the others compute",
        choices=(False, True),
    )
    persistent: int = knob(
        0,
        "persistent CTAs over all tiles, with warp specialization; 0 for one block per tile",
        choices=(0, 132),
        least=0,
    )
    in_flight: int = knob(
        0, "groups of products that run while the next one is issued", choices=(0, 1), least=0
    )
    swizzle: int = knob(
        1, "most rows of tiles that blocks go through column by column", choices=(1, 4, 8, 16)
    )
    store: WgmmaStore = knob(
        "registers",
        "where the result is written from, and by what: by threads, or from shared memory by the "
        "TMA, in its own type",
    )
    transpose: Transpose = knob(
        "tile",
        "where B as (k, columns) of 8 or 32 bits is transposed: in tiles as threads copy them, or, "
        "where there is one product, by a kernel of its own, after which the TMA may copy tiles",
    )
    split_k: int = knob(1, "split-K slices, each on its own blocks", choices=(1, 2, 4))
    tail: WholeTail = knob("refuse", "what to do if tiles do not divide")

    @property
    def warpgroup(self) -> Pair:
        """Rows and columns of C that a warpgroup computes."""
        return self.tile[0] // self.warpgroups[0], self.tile[1] // self.warpgroups[1]

    @property
    def groups(self) -> int:
        """Warpgroups of a block of threads."""
        return self.warpgroups[0] * self.warpgroups[1]


class WgmmaEngine(TensorCoreEngine):
    """Warpgroups that multiply tiles in shared memory by wgmma.

    Slices are added up before tiles are swizzled, of which TVM cannot tell what they hold.
    """

    config: WgmmaConfig
    tiled: WarpgroupTile
    adds_first = True

    def prepare(self, total: SBlockRV) -> Iterator[str]:
        sch, config, node = self.sch, self.config, self.sch.get(total)
        dtype = node.reads[-1].source.dtype
        self.require_operands(total)
        if str(dtype).startswith("float8") and node.annotations.get(SUMS) != "fp22":
            raise TransformError(
                "schedule",
                f"wgmma keeps 14 bits in sums of {dtype}, and the kernel asks for float32",
                'use acc="fp22", which allows that, or mma.sync',
            )
        if str(node.writes[0].source.dtype) == "float16":
            raise TransformError("schedule", "wgmma sums in float16 are not here", "sum in float32")
        down, across = config.warpgroups
        config = replace(config, warpgroups=(min(down, max(1, config.tile[0] // ROWS)), across))
        for size, parts in zip(config.tile, config.warpgroups, strict=True):
            if size % parts:
                raise TransformError(
                    "schedule",
                    f"warpgroups={config.warpgroups} do not divide tile={config.tile}",
                    "choose divisors, along rows and columns each",
                )
        sums = config.tile[0] * config.tile[1] // (config.groups * THREADS)
        if sums > MAX_SUMS:
            raise TransformError(
                "schedule",
                f"tile={config.tile} on {config.groups} warpgroups keeps {sums} sums in the "
                f"registers of each thread, which hold {MAX_SUMS} beside addresses",
                "use a smaller tile, or more warpgroups",
            )
        self.require_room(dtype.itemsize)

        def is_across_k() -> bool:
            return dtype.bits != 16 and not is_along_k(sch.get(total), -1)

        # B must be transposed, whose elements wgmma reads along k alone.
        if config.transpose == "kernel" and len(node.iter_vars) == 3 and is_across_k():
            # A kernel of its own transposes B, through tiles in shared memory.
            copy = sch.cache_read(total, 1, "global")
            sch.transform_layout(copy, ("write", 0), lambda row, column: (column, row))
            row, column = sch.get_loops(copy)
            sch.reorder(column, row)  # as rows of the result lie, which threads write side by side
            by_squares = TransposeConfig(tile=64, padding=1, vector=2, tail="guard")
            for _ in schedule_transpose(sch, by_squares, copy):
                pass
            yield "B_transposed"
        self.lengths = get_row_lengths(sch, total)
        self.rows_of_threads = config.groups, THREADS
        if is_across_k():
            config = replace(config, copies="threads", roles=False)
        # CUDA does not compile TVM's vectors of float8 under a guard: zeros come before, then.
        needs_copies = str(dtype).startswith("float8")
        if config.copies == "tma":
            needs_copies = any(it * dtype.itemsize % PITCH for it in self.lengths[:2])
        if config.tail == "pad" and needs_copies:
            config = replace(config, tail="copy")
        self.config = replace(config, tile_k=max(config.tile_k, get_depth(dtype.bits)))
        # Threads write a result where the TMA cannot address its rows. Where blocks stay, shared
        # memory must hold it beside the stages, or it is written from registers if nothing else is
        # to be done with it.
        config, (rows, columns) = self.config, self.config.tile
        epilogue = find_epilogue(sch, total) if config.split_k == 1 else None
        result = sch.get(epilogue or total).writes[0].source
        pitch = (constant(result.shape[-1]) or 1) * result.dtype.itemsize
        by_tma = config.store == "tma" and pitch % PITCH == 0 and constant(result.shape[-2]) != 1
        wanted: Store = "shared" if config.store == "tma" else config.store
        if config.persistent and config.roles and config.copies == "tma":
            depth = config.tile_k * config.stages * dtype.itemsize
            stored = rows * columns * node.writes[0].source.dtype.itemsize + rows * 2 * VECTOR_BYTES
            if by_tma:  # slab by slab, where one warpgroup stores all columns
                row = columns * result.dtype.itemsize
                stored = rows * (row if config.warpgroups[1] > 1 else count_slot_bytes(row))
            if dtype.bits == 16 and not is_along_k(sch.get(total), -1):
                columns += -columns % SLAB
            if (rows + columns) * depth + stored + ATOM > MAX_SHARED_BYTES["shared.dyn"]:
                by_tma, wanted = False, "registers"
        store = "tma" if by_tma else self.choose_store(total, wanted)
        self.config = replace(config, store=store)

    def tile(self, block: SBlockRV, swizzle: int) -> None:
        config = self.config
        self.tiled = tile_in_warpgroups(
            self.sch,
            block,
            tile=config.tile,
            warpgroup=config.warpgroup,
            tile_k=config.tile_k,
            swizzle=swizzle,
        )

    def keep_sums(self) -> None:
        sch, (block, grid, warpgroups, _) = self.sch, self.tiled
        self.write: SBlockRV | None = None
        if self.config.store == "registers":
            self.store = accumulate_in_registers(sch, block, warpgroups)
        elif self.config.store == "tma":
            set_pipeline(sch)  # whose passes keep vectors under the guard of a crop
            size = sch.get(find_epilogue(sch, block) or block).writes[0].source.dtype.itemsize
            vector, groups = math.gcd(VECTOR_BYTES // size, self.lengths[2]), self.config.groups
            self.store, self.write = store_through_tiles(
                sch, block, grid, warpgroups, vector=vector, warps=groups, lanes=THREADS
            )
        else:
            size = sch.get(block).writes[0].source.dtype.itemsize
            self.store = self.store_through_shared(warpgroups, size).store

    def stage(self, steps: LoopRV, operand: int) -> SBlockRV:
        config, vector = self.config, self.find_vector(operand)
        if config.copies == "tma":  # which takes the place of threads that share a tile evenly
            share = config.tile[operand] * config.tile_k // (config.groups * THREADS)
            vector = math.gcd(vector, share) or vector
        return stage_swizzled_at(
            self.sch,
            self.tiled.block,
            steps,
            operand=operand,
            warpgroups=config.groups,
            vector=vector,
            swizzle=config.row_bytes,
            tail="guard",
        )

    def multiply(self, steps: LoopRV, copies: Sequence[SBlockRV]) -> Iterator[str]:
        sch, config, block, stages = self.sch, self.config, self.tiled.block, self.count_stages()
        zeros = decompose_reduction_at(sch, block, steps)
        yield "decomposed"
        flying = config.in_flight if stages > 2 else 0
        by_tma = config.copies == "tma" and stages > 1
        if by_tma:
            prefetch_by_tma(sch, steps, copies, stages=stages, in_flight=flying)
            yield "next_tiles_by_tma"
        elif stages > 1:
            prefetch_asynchronously(sch, steps, copies, stages=stages, products_first=flying > 0)
            yield "next_tiles_asynchronously"
        # Where operands or sums lose bits the kernel allows it, or they were refused.
        tensorize_warpgroups(sch, block, zeros, self.store, in_flight=flying, tf32=True, fp22=True)
        set_pipeline(sch)
        yield "tensorized"
        if self.write is not None:
            store_by_tma(sch, self.write)
            yield "stored_by_tma"
        if by_tma and config.roles:
            specialize_warps(sch, steps, registers=_REGISTERS.get(config.groups))
            yield "warps_specialized"
            if config.persistent:
                make_persistent(sch, steps, blocks=config.persistent, stages=config.stages)
                yield "blocks_stay"


def count_slot_bytes(row: int) -> int:
    """Bytes of the slots that a tile with rows of so many bytes needs for its slabs, at least."""
    slabs, is_even = row // _SLAB_BYTES, row % (SLOTS * _SLAB_BYTES) == 0
    return SLOTS * _SLAB_BYTES if slabs > SLOTS and is_even else row


WGMMA = Family(
    kernel="matmul",
    config=WgmmaConfig,
    schedule=WgmmaEngine.run,
    blocks=("C", "C C_cast"),
    default_example=Example({"m": 1024, "n": 512, "k": 2048}, options={"dtype": "float16"}),
    small=Example(
        {"m": 128, "n": 256, "k": 192}, options={"dtype": "float16"}, config={"tile": (64, 32)}
    ),
    tiles=("tile", "warpgroups", "tile_k"),
    dtypes=TYPES,
    arch="sm_90a",
)

ON_TENSOR_CORES = ("wgmma > 0", "HGMMA > 0 on sm_90a", "spills == 0 on sm_90a")

plain = WGMMA.root(
    "wgmma",
    why="A warpgroup multiplies tiles of 64 rows in shared memory, and keeps sums in registers",
    expects={"tensorized": ON_TENSOR_CORES},
)
swizzled = plain.plus(
    "wgmma_swizzled",
    row_bytes=128,
    why="Tiles lie in the 128-byte swizzle, so that neither copies nor wgmma meet bank conflicts",
)
piped = swizzled.plus(
    "wgmma_async",
    stages=4,
    why="The next tiles are copied asynchronously, several in flight",
    golden={"stages": 3},
    expects={"tensorized": ("cp_async_bytes == 16", *ON_TENSOR_CORES)},
)
flying = piped.plus(
    "wgmma_in_flight",
    in_flight=1,
    why="The next wgmmas are issued before those of a tile are done",
)
wide = flying.plus(
    "wgmma_wide",
    tile=(128, 256),
    why="Each instruction multiplies 256 columns: fewer bytes of shared memory per multiply-add",
    golden={"tile": (64, 64)},
)
block_swizzle = wide.plus(
    "wgmma_block_swizzle",
    swizzle=8,
    why="Blocks that run at the same time share rows of A and columns of B in the L2 cache",
    golden={"swizzle": 2},
)
rows = block_swizzle.plus(
    "wgmma_rows", store="shared", why="Whole rows of the result are written, from shared memory"
)
split = rows.plus(
    "wgmma_split_k",
    split_k=4,
    why="Split-K: even few tiles fill the GPU, and a second kernel adds up the slices; slower "
    "if there are enough tiles without it",
    golden={"split_k": 3},
    expects={"tensorized": ("kernels == 2", *ON_TENSOR_CORES)},
)

BY_TMA = (*ON_TENSOR_CORES, "UTMALDG > 0 on sm_90a")
tma = rows.plus(
    "wgmma_tma",
    copies="tma",
    why="One elected thread has the TMA copy whole tiles (cp.async.bulk.tensor) into the swizzle "
    "that wgmma reads; the others spend no registers, instructions or fences on copies",
    expects={"tensorized": BY_TMA},
)
roles = tma.plus(
    "wgmma_roles",
    roles=True,
    why="Warp specialization: a producer warpgroup copies, and consumers wait only for tiles",
    expects={"warps_specialized": BY_TMA},
)
tma_store = roles.plus(
    "wgmma_tma_store",
    store="tma",
    why="Sums are converted in registers, half as many bytes go to shared memory, and one thread "
    "has the TMA write whole tiles from there",
    expects={"warps_specialized": (*BY_TMA, "UTMASTG > 0 on sm_90a")},
)
tma_store.plus(
    "wgmma_persistent",
    persistent=132,
    why="Persistent CTAs, one for each multiprocessor: the next tile is copied and multiplied "
    "while this one is stored",
    golden={"persistent": 3},
    expects={"blocks_stay": (*BY_TMA, "UTMASTG > 0 on sm_90a")},
)
REUSED = 512
"""Rows of A from which on a kernel that transposes B is worth it: at 256x4096x2048 in TF32 it was
not on an H100, 41.7 us for 36.9."""
