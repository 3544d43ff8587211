"""A model of the time that a product of matrices takes on a GPU, tile by tile and wave by wave.

One formula serves all schedules of products; each has tiles and costs of its own, which were
measured (costs/nvidia-h200.json, with their errors). The parts are those of a count of waves, as in
NVIDIA's guide to the performance of matrix multiplication, and a bound by memory, as in the
roofline model (S. Williams, A. Waterman and D. Patterson, Roofline: an insightful visual
performance model for multicore architectures, 2009).

The numbers of GPUs are those of NVIDIA's data sheets and architecture white papers; clocks are the
highest. What tiles and parts of a product cost was fitted to measured times, in a JSON file a GPU:
``{schedule: {"dtype": dtype, "costs": {...}, "fit": {...}, "tiles": [{..., "rate": ..., "crowded":
...}]}}``. There `costs` are fields of `Costs`, tiles those of `TileRate`, but for "matmul", whose
tiles have the config of their schedule; `fit` says on how many times they were fitted and how far
off they are there. `benchmarks/fit_costs.py` writes those of "matmul".
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from ..gpu_limits import REGISTERS, THREADS, WARP
from ..queries import find_epilogue
from ..schedule import TransformError
from ..tensor_cores.mma_tiles import is_along_k
from ..tir import constant
from .rungs import read_pairs
from .tiled_product import VECTOR_BYTES, WholeTail

FILE = Path(__file__).parent / "costs" / "nvidia-h200.json"
_BLOCKS, _OTHER_REGISTERS = 32, 64
"""Blocks per multiprocessor; and registers of a thread besides its accumulators."""
_RESERVED = 1024
"""Bytes of shared memory that the system keeps of each block."""
_SCHEDULERS = 4
"""Schedulers per multiprocessor, each with warps of its own."""
_FASTEST = 2.0
"""Most bandwidth of one multiprocessor, relative to its share when all read."""
_RESULT_BYTES = 4
"""Bytes of an accumulator."""
_WIDE = 4
"""Sums of a vector."""
_LINE = 128
"""Bytes of a line of the L2 cache."""
_STORING_THREADS = 256
"""Threads of a block whose stores have the measured cost."""


@dataclass(frozen=True)
class Gpu:
    """A GPU, as far as a choice of tiles depends on it.

    Attributes
    ----------
    shared_kib : of a multiprocessor, as far as one block may take them
    gigabytes : that its memory moves in a second
    lanes : float32 products of a multiprocessor in a cycle
    architecture : whose instructions it has
    """

    name: str
    multiprocessors: int
    megahertz: int
    shared_kib: int
    gigabytes: int
    lanes: int = 128
    architecture: str = "sm_90a"

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a multiprocessor, as far as one block may use it."""
        return self.shared_kib << 10

    @property
    def lanes_per_us(self) -> float:
        """Float32 products of all multiprocessors in a microsecond."""
        return float(self.multiprocessors * self.lanes * self.megahertz)


H200 = Gpu("NVIDIA H200", 132, 1980, 227, 4800)
GPUS: Mapping[str, Gpu] = MappingProxyType(
    {
        gpu.name: gpu
        for gpu in (
            H200,
            Gpu("NVIDIA H100 80GB HBM3", 132, 1980, 227, 3350),
            Gpu("NVIDIA H100 PCIe", 114, 1755, 227, 2000),
            Gpu("NVIDIA B200", 148, 1965, 227, 8000, architecture="sm_100a"),
            Gpu("NVIDIA A100-SXM4-80GB", 108, 1410, 163, 2039, 64, "sm_80"),
            Gpu("NVIDIA A100-SXM4-40GB", 108, 1410, 163, 1555, 64, "sm_80"),
            Gpu("NVIDIA GeForce RTX 5090", 170, 2407, 99, 1792, architecture="sm_120a"),
            Gpu("NVIDIA GeForce RTX 4090", 128, 2520, 99, 1008, architecture="sm_89"),
            Gpu("NVIDIA GeForce RTX 3090", 82, 1695, 99, 936, architecture="sm_86"),
            Gpu("NVIDIA L40S", 142, 2520, 99, 864, architecture="sm_89"),
            Gpu("NVIDIA L4", 58, 2040, 99, 300, architecture="sm_89"),
            Gpu("NVIDIA A10", 72, 1695, 99, 600, architecture="sm_86"),
        )
    }
)
"""By the name that CUDA gives them."""
_PROPERTIES = ("multiprocessors", "megahertz", "shared_kib", "gigabytes", "lanes", "sm")


def read_gpu(text: str) -> Gpu:
    """The GPU of a name that CUDA gives it, or of a description, "multiprocessors=84
    megahertz=1695 shared_kib=99 gigabytes=936 lanes=128 sm=86", whose shared memory is that of a
    block, and which is as an H200 where nothing is said.

    Raises `TransformError` for an unknown name, and for a word or a number that is none.
    """
    if text in GPUS:
        return GPUS[text]
    if "=" not in text:
        near = difflib.get_close_matches(text, GPUS, n=1)
        hint = f"use '{near[0]}'" if near else f"use one of {', '.join(GPUS)}"
        raise TransformError(
            "read_gpu",
            f"the properties of '{text}' are not known",
            f'{hint}, or describe it: "multiprocessors=84 megahertz=1695 shared_kib=99 '
            'gigabytes=936"',
        )
    found: dict[str, Any] = {}
    for word in re.split(r"[\s,]+", text.strip()):
        name, _, number = word.partition("=")
        if name not in _PROPERTIES or not re.fullmatch(r"[1-9]\d{0,8}", number, re.ASCII):
            raise TransformError(
                "read_gpu",
                f"'{word}' is not a property of a GPU",
                f"give {', '.join(f'{known}=N' for known in _PROPERTIES)}, N >= 1",
            )
        found[name] = int(number)
    if sm := found.pop("sm", 0):
        found["architecture"] = f"sm_{sm}{'a' if sm >= 90 else ''}"
    return replace(H200, name=text, **found)


class Product(NamedTuple):
    """A product of (m, k) by (k, n), so many of them, of elements of `size` bytes, and results of
    `stored` bytes, 0 where they are as wide as operands.

    Attributes
    ----------
    dtype, outer : of the operands of a kernel, and the sizes of its batch; None and () of others
    across_k : whether neighbours in memory of B are of one step of k
    pitch : elements from a row of an operand to the next; 0 where these are k and n
    """

    m: int
    n: int
    k: int
    size: int
    batch: int = 1
    stored: int = 0
    dtype: Any = None
    outer: tuple[int, ...] = ()
    across_k: bool = False
    pitch: int = 0

    @property
    def cells(self) -> int:
        """Elements of the results."""
        return self.batch * self.m * self.n

    @property
    def result_bytes(self) -> int:
        """Bytes of an element of the result."""
        return self.stored or self.size

    @property
    def has_whole_rows(self) -> bool:
        """Whether rows along n and along k are whole vectors of 16 bytes."""
        return all(it * self.size % VECTOR_BYTES == 0 for it in (self.n, self.k))

    @property
    def is_by_vector(self) -> bool:
        """Whether one operand is a vector, and the rows of the other, the matrix, lie along k."""
        return self.n == 1 < self.m or (self.m == 1 < self.n and not self.across_k)

    @property
    def shape(self) -> tuple[int, ...]:
        """The kernel's shape."""
        return (*self.outer, self.m, self.n, self.k)


def read_sizes(sch: Schedule, total: SBlockRV, recipe: str, instead: str) -> Product:
    """The sizes of a product's block, the outer ones those of a batch; refuses those that are left
    open, and names a recipe instead.
    """
    block = sch.get(total)
    sizes = [constant(iterator.dom.extent) for iterator in block.iter_vars]
    if len(sizes) < 3:
        what = f"block '{block.name_hint}' has {len(sizes)} sizes, and a product three or more"
        raise TransformError(recipe, what, "give it a product")
    if None in sizes:
        raise TransformError(recipe, f"the shape {sizes} is not constant", f"use {instead}")
    *outer, m, n, k = (size or 1 for size in sizes)
    operand, across = block.reads[-1], not is_along_k(block, -1)
    result = sch.get(find_epilogue(sch, total) or total).writes[0].source.dtype.itemsize
    dtype = operand.source.dtype
    batch = math.prod(outer)
    return Product(m, n, k, dtype.itemsize, batch, result, dtype, tuple(outer), across)


def choose_tail(sizes: Product, tile: tuple[int, int], depth: int) -> WholeTail:
    """The tail for a tile of so many steps of k."""
    if sizes.m % tile[0] == sizes.n % tile[1] == sizes.k % depth == 0:
        return "refuse"
    # Without copies whole vectors lie inside or outside.
    return "pad" if sizes.has_whole_rows else "copy"


class TileRate(NamedTuple):
    """A tile of the result, how it goes along k, and the rates of multiprocessors full of it.

    Attributes
    ----------
    part : rows and columns of a warp, or the warpgroups along them
    rate : in parts of the highest, where each multiprocessor has one tile at a time
    threads : of a block
    row_bytes : of a tile along k, of which so many stages are in flight
    crowded : the rate where a multiprocessor has more than one; 0 where it is the same
    registers : of a thread; 0 where they are those of the sums and some more
    padding : elements of a stage beside the two tiles, at each k
    is_staged : whether the result goes through shared memory
    strip : neighbouring elements of the result that a thread has
    copies : who copies tiles of operands
    roles : whether warps of their own do
    stays : blocks of a multiprocessor that stay and go through tiles; 0 where each tile has its own
    store : of a family's cost of a store, the part that is not hidden
    """

    tile: tuple[int, int]
    part: tuple[int, int]
    rate: float
    threads: int
    row_bytes: int = 128
    stages: int = 4
    crowded: float = 0.0
    registers: int = 0
    padding: int = 0
    is_staged: bool = True
    strip: int = _WIDE
    copies: Literal["threads", "tma"] = "threads"
    roles: bool = False
    stays: int = 0
    store: float = 1.0

    def count_together(self, steps: int, gpu: Gpu = H200) -> int:
        """How many of these tiles, of so many steps of k, a multiprocessor has at a time; 0 where
        its shared memory is too small for one.
        """
        flying = self.stages if self.stays else min(self.stages, steps)
        stages = flying * (sum(self.tile) + self.padding) * self.row_bytes
        if self.stays:
            return self.stays if self.stays * stages <= gpu.shared_bytes else 0
        sums = self.tile[0] * self.tile[1]
        result = 4 * self.tile[0] * (self.tile[1] + 8)  # which lies where the stages were
        registers = self.registers * self.threads or sums + _OTHER_REGISTERS * self.threads
        shared = max(stages, result) if self.is_staged else stages + _RESERVED
        room = gpu.shared_bytes // shared
        together = min(room, REGISTERS // registers, THREADS // self.threads, _BLOCKS)
        return max(together, 1) if room else 0


@dataclass(frozen=True)
class Costs:
    """Costs of a matmul's parts on the GPU on which they were measured; times in us.

    Attributes
    ----------
    flops_per_us : of all multiprocessors, with a tile of rate 1
    sums_bytes_per_us : that partial sums are written and read with, to the L2 cache mostly
    dram_bytes_per_us : that tensors are read with, each once
    fill_us : of a tile's first copies, while nothing is computed
    store_us : of an element of a tile's result, on its way to memory
    hidden : what is left of the shorter one of computing and moving, behind the longer one
    sums_us : of the launch of the kernel that adds up the slices of split-K
    launch_us, tma_us : of the kernel itself; and more where the TMA has to be set up
    crowd : how much longer first copies take for each other tile of a multiprocessor
    l2_bytes_per_us : that tiles are read with from the L2 cache, by all multiprocessors
    step_us : from asking for a tile of a step to having it, over the stages in flight
    load_flops : of a load of one vector or one element, in flops that the time would do for
    sums_step_us : of adding up 16 parts, one round after the other
    begun : what is left of filling and storing where tiles share a multiprocessor
    scatter : how much longer a result takes to store whose rows are no whole vectors
    astride : how many times as long the L2 cache takes for rows of a tile that lie across its lines
    sharp : how sharply the longer of a tile's own time and that of all tiles of a multiprocessor
        is the time; infinite where the shorter one adds nothing to it
    """

    flops_per_us: float
    sums_bytes_per_us: float
    dram_bytes_per_us: float
    fill_us: float
    store_us: float
    hidden: float
    sums_us: float
    launch_us: float = 0.0
    tma_us: float = 0.0
    crowd: float = 0.0
    l2_bytes_per_us: float = math.inf
    step_us: float = 0.0
    load_flops: float = 0.0
    sums_step_us: float = 0.0
    begun: float = 0.0
    scatter: float = 0.0
    astride: float = 1.0
    sharp: float = math.inf
    gpu: Gpu = field(default=H200)

    def scale(self, gpu: Gpu) -> Costs:
        """What they would be on another GPU: rates go with its lanes and clock, the L2 cache with
        the clock and multiprocessors, memory with its bandwidth; latencies stay as they are.
        """
        own = self.gpu
        caches = gpu.multiprocessors * gpu.megahertz / (own.multiprocessors * own.megahertz)
        return replace(
            self,
            flops_per_us=self.flops_per_us * gpu.lanes_per_us / own.lanes_per_us,
            sums_bytes_per_us=self.sums_bytes_per_us * caches,
            dram_bytes_per_us=self.dram_bytes_per_us * gpu.gigabytes / own.gigabytes,
            l2_bytes_per_us=self.l2_bytes_per_us * caches,
            store_us=self.store_us * own.megahertz / gpu.megahertz,
            gpu=gpu,
        )


class Estimate(NamedTuple):
    """The time of a product in microseconds, what it is of, and its parts.

    Attributes
    ----------
    parts : slices of the reduction
    waves : of tiles that a multiprocessor computes at a time
    compute : of the waves
    memory : of the tensors and the tiles, through DRAM and the L2 cache
    sums : of the kernel that adds up the slices of split-K
    together : tiles that a multiprocessor has at a time
    """

    rate: TileRate
    parts: int
    us: float
    waves: int
    compute: float
    memory: float
    sums: float
    launch: float
    tiles: int
    together: int


class Ranked(NamedTuple):
    """A config of a family, with what is expected of it."""

    config: Any
    choice: Estimate


def estimate(product: Product, tile: TileRate, parts: int, costs: Costs) -> Estimate:
    """The time of a matmul: waves of tiles, or memory traffic, and what split-K adds."""
    gpu = costs.gpu
    step = tile.row_bytes // product.size
    tiles = count_tiles(product, tile, parts)
    steps = -(-product.k // (step * parts))
    together = tile.count_together(steps, gpu)
    if not together:
        times = math.inf, 0, math.inf, math.inf, 0.0, costs.launch_us
        return Estimate(tile, parts, *times, tiles, together)
    # Products of a step of a tile, and what its loads take: of vectors of 16 bytes, or of fewer
    # where rows are odd.
    (rows, columns), lengths = tile.tile, (product.pitch or product.k, product.pitch or product.n)
    wide = VECTOR_BYTES // product.size
    pairs = zip(lengths, tile.tile, strict=True)
    loads = sum(extent * step / math.gcd(length, wide) for length, extent in pairs)
    full = steps * (2 * rows * columns * step + costs.load_flops * loads)
    full /= costs.flops_per_us / gpu.multiprocessors
    waiting = steps * costs.step_us / max(1, min(tile.stages, steps) - 1)
    alone, crowded = max(full / tile.rate, waiting), full / (tile.crowded or tile.rate)
    # A tile's result, or a slice of it, on its way to memory: through shared memory all of it, and
    # else in proportion to what each thread stores. Neighbouring threads may store elements that
    # lie apart: none do where these are neighbours or whole vectors, and all where each has a
    # vector of its own, which it stores one by one. Slices are whole vectors.
    stored = float(rows * columns)
    if not tile.is_staged:
        stored = min(product.m, rows) * min(product.n, columns) * _STORING_THREADS / tile.threads
    apart = max(0.0, tile.strip / math.gcd(product.n, _WIDE) - 1) / (_WIDE - 1)
    scattered = 1 + costs.scatter * apart * (parts == 1)
    store, warps = costs.store_us * tile.store * stored * scattered, max(1, tile.threads // WARP)

    def run(count: int) -> float:
        """So many tiles on each multiprocessor: the longer one of a tile's own time and that of
        all, and some of the shorter one, the less the further they are apart.

        Of several tiles one scheduler may have more warps than another; of one tile that is in its
        own rate.
        """
        begin = costs.fill_us * (1 + costs.crowd * (count - 1)) + store
        each = -(-count * warps // _SCHEDULERS) * _SCHEDULERS / warps if count > 1 else 1.0
        own, shared = alone + begin, each * crowded + costs.begun * begin
        longer, sharp = max(own, shared), costs.sharp if count > 1 else math.inf
        return longer * (1 + (min(own, shared) / longer) ** sharp) ** (1 / sharp)

    waves, rest = divmod(-(-tiles // gpu.multiprocessors), together)
    if tile.stays:  # the next tile's first copies are on their way while this one is stored
        waves, rest = waves + (rest > 0), 0
        compute = costs.fill_us + waves * max(alone + store, together * crowded)
    else:
        compute = waves * run(together) + (run(rest) if rest else 0.0)
    # Each tensor once from DRAM, or all tiles through the L2 cache; the TMA fetches whole slabs.
    read = product.size * product.batch * (product.m + product.n) * product.k
    fetched = float(tile.padding) if tile.copies == "tma" else 0.0
    for extent, size, length in zip((product.m, product.n), tile.tile, lengths, strict=True):
        fetched += min(extent, size) * (costs.astride if length * product.size % _LINE else 1.0)
    fetched *= count_tiles(product, tile, 1) * product.k * product.size
    least = (read + product.result_bytes * product.cells) / costs.dram_bytes_per_us
    if least > compute and not tile.stays:
        # Few blocks, the last of several waves, read no faster than so many multiprocessors do.
        full, left = divmod(tiles, gpu.multiprocessors * together)
        busy = -(-left // gpu.multiprocessors) / together
        last = max(left / (gpu.multiprocessors * together), busy / _FASTEST)
        least *= (full + last) * gpu.multiprocessors * together / tiles
    memory, sums = max(least, fetched / costs.l2_bytes_per_us), 0.0
    if parts > 1:
        moved = 2 * _RESULT_BYTES * product.cells * parts / costs.sums_bytes_per_us
        sums = costs.sums_us + moved + costs.sums_step_us * -(-parts // 16)
    launch = costs.launch_us + costs.tma_us * (tile.copies == "tma")
    us = launch + max(compute, memory) + costs.hidden * min(compute, memory) + sums
    times = us, waves + (rest > 0), compute, memory, sums, launch
    return Estimate(tile, parts, *times, tiles, together)


def list_parts(product: Product, tile: TileRate, costs: Costs) -> Iterator[int]:
    """Slices of k worth a look: all that fill the multiprocessors up to twice, of at least two
    steps each, and numbers that are no more waves than the next smaller ones.
    """
    steps = -(-product.k // (tile.row_bytes // product.size))
    places = 2 * costs.gpu.multiprocessors
    together = tile.count_together(2, costs.gpu)
    most = min(steps // 2, places, places * together // count_tiles(product, tile, 1))
    # No fewer slices than these have as few steps.
    yield from dict.fromkeys(
        -(-steps // -(-steps // parts)) for parts in range(1, max(most, 1) + 1)
    )


def count_tiles(product: Product, tile: TileRate, parts: int) -> int:
    """The blocks of threads."""
    rows, columns = tile.tile
    return -(-product.m // rows) * -(-product.n // columns) * parts * product.batch


@cache
def read_table(schedule: str) -> dict[str, Any]:
    """The file's entry for a schedule."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))[schedule]
    return found


@cache
def read_costs(schedule: str) -> Costs:
    """Costs of a matmul's parts with a schedule."""
    return Costs(**read_table(schedule)["costs"])


@cache
def read_tiles(schedule: str) -> tuple[TileRate, ...]:
    """The tiles of a schedule of tensor cores."""
    return tuple(TileRate(**read_pairs(tile)) for tile in read_table(schedule)["tiles"])  # type: ignore[arg-type]
