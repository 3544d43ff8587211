"""Rows that several blocks share: a model of time says in how many parts to cut them.

A block of threads reads a part in rounds, each of which waits for memory once; so few rows of many
elements take long on few blocks. Cut in parts they take a second kernel, which adds these up. What
a round, that kernel and a step of it cost are those of products (costs/matmul.json), what DRAM
gives and what a kernel takes else was fitted to 16 times of row_sum and matvec on one H200
(benchmarks/results/bench-nvidia-h200.json): the error there is 4 %.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import NamedTuple

from ..gpu_limits import MAX_THREADS, WARP
from ..vectorize import MAX_VECTOR_BYTES, WIDEST
from .costs import read_costs
from .gpus import Gpu
from .time_model import Costs

START_US = 5.55
"""Of a kernel that reads a row in one round, without what it reads."""
READ_BYTES_PER_US = 4.73e6
"""Of DRAM, by kernels that read."""
RESIDENT = 2048
"""Threads that a multiprocessor has at a time."""
FLIGHT_BYTES = 2 * MAX_VECTOR_BYTES
"""Of a part, that each thread asks for at once, by as many vectors as it takes, up to eight."""
WHOLE_EACH, MOST_EACH = 2, 8
"""Vectors of a whole row that a thread asks for at once; and of a part, at most."""
FEW_WAVES, MOST_PARTS = 4, 128
"""Blocks of a multiprocessor that do not fill it; and parts by the rule that was measured."""
MODEL_ERROR = 1.1
"""The model has to expect so much less, or the rule that was measured is right."""


class Rows(NamedTuple):
    """What is read: so many rows of a length, of elements of so many bytes, by vectors."""

    height: int
    length: int
    size: int
    vector: int


class Cut(NamedTuple):
    """A way to cut rows, and what is expected of it; times in us.

    Attributes
    ----------
    threads : of a block
    each : vectors that a thread asks for at once
    length : elements of a part, of which the last one of a row may have fewer
    blocks : of the kernel that reads
    rounds : of a block, each of which waits for memory
    reading : of all rounds of a multiprocessor's blocks
    memory : of DRAM, for all elements
    sums : of the kernel that adds up the parts
    launch : of the kernel that reads
    """

    parts: int
    threads: int
    each: int
    length: int
    blocks: int
    rounds: int
    us: float
    reading: float
    memory: float
    sums: float
    launch: float


def rank_cuts(rows: Rows, gpu: Gpu, threads: int) -> list[Cut]:
    """Ways to cut rows, the one to take first, and then the fastest; `threads` are those of a
    whole row.

    First is the one by a rule that was measured, where the model expects no other one to be a tenth
    faster.
    """
    most = gpu.multiprocessors
    counts = [1 << power for power in range(1, MOST_PARTS.bit_length())]
    counts += [blocks * most // rows.height for blocks in range(1, FEW_WAVES + 1)]
    cuts = {1: _estimate(rows, gpu, 1, threads, WHOLE_EACH)}
    each = min(MOST_EACH, FLIGHT_BYTES // (rows.vector * rows.size))
    for parts in counts:
        if parts > 1 and rows.height * parts <= FEW_WAVES * most:
            cut = _estimate(rows, gpu, parts, MAX_THREADS // 2, each)
            if cut.parts > 1:
                cuts.setdefault(cut.parts, cut)
    ranked = sorted(cuts.values(), key=lambda cut: (cut.us, cut.parts))
    measured = cuts.get(_count_measured(rows, most))
    if measured and measured.us <= MODEL_ERROR * ranked[0].us:
        ranked.remove(measured)
        ranked.insert(0, measured)
    return ranked


def find_guarded(size: int) -> int:
    """The most elements of so many bytes in a vector that CUDA has a type for under a guard."""
    return WIDEST if size > 1 else 4


def has_whole_parts(length: int, parts: int, vector: int, at_once: int) -> bool:
    """Whether rows divide into so many parts of whole vectors, each of which fills a round; others
    are padded until all parts are whole rounds.
    """
    return length % (parts * vector) == 0 and length // parts >= at_once


def _count_measured(rows: Rows, multiprocessors: int) -> int:
    """As many parts as give each multiprocessor a block or two, and threads enough vectors.

    Of rows of whole vectors alone, which were measured.
    """
    parts, vectors = 1, rows.length // rows.vector
    while (
        rows.vector > 1
        and rows.height * parts * 2 <= FEW_WAVES // 2 * multiprocessors
        and parts < MOST_PARTS
        and vectors % (parts * 2) == 0
        and vectors // (parts * 2) >= MAX_THREADS
    ):
        parts *= 2
    return parts


def _estimate(rows: Rows, gpu: Gpu, parts: int, threads: int, each: int) -> Cut:
    """What is expected of about so many parts: fewer, where these would leave none for the last."""
    costs = _get_costs(gpu)
    at_once = threads * rows.vector * each
    if not has_whole_parts(rows.length, parts, rows.vector, at_once):
        parts = -(-rows.length // _round_up(rows.length, parts, at_once))
    length = rows.length // parts
    if not has_whole_parts(rows.length, parts, rows.vector, at_once):
        length = _round_up(rows.length, parts, at_once)
    rounds, blocks = -(-length // at_once), rows.height * parts
    together = max(1, RESIDENT // threads)
    waves = -(-blocks // (gpu.multiprocessors * together))
    reading = waves * rounds * costs.step_us
    memory = rows.height * rows.length * rows.size / costs.dram_bytes_per_us
    sums = costs.sums_us + -(-parts // WARP) * costs.sums_step_us if parts > 1 else 0.0
    longer, shorter = max(reading, memory), min(reading, memory)
    us = costs.launch_us + longer + costs.hidden * shorter + sums
    return Cut(
        parts, threads, each, length, blocks, rounds, us, reading, memory, sums, costs.launch_us
    )


def _round_up(length: int, parts: int, at_once: int) -> int:
    return -(-length // (parts * at_once)) * at_once


@functools.lru_cache
def _get_costs(gpu: Gpu) -> Costs:
    products = read_costs("matmul").costs
    own = replace(
        products,
        launch_us=START_US - products.step_us,
        dram_bytes_per_us=READ_BYTES_PER_US,
    )
    return own.scale(gpu)
