"""Rows that several blocks share: a model of time says in how many parts to cut them.

A block of threads reads a part in rounds, each of which waits for memory once; so few rows of many
elements take long on few blocks. Cut in parts they take a second kernel, which adds these up. What
a round, that kernel and a step of it cost are those of products, what DRAM gives and what a kernel
takes else was fitted to 16 times of row_sum and matvec on one H200
(benchmarks/results/bench-nvidia-h200.json): the error there is 4 %.
"""

from __future__ import annotations

from typing import NamedTuple

from ..gpu_limits import MAX_THREADS, WARP
from ..vectorize import MAX_VECTOR_BYTES, WIDEST
from .costs import read_table
from .gpus import H200, Gpu

RESIDENT = 2048
"""Threads that a multiprocessor has at a time."""
FLIGHT_BYTES = 2 * MAX_VECTOR_BYTES
"""Of a part, that each thread asks for at once, by as many vectors as it takes, up to eight."""
WHOLE_EACH, MOST_EACH = 2, 8
"""Vectors of a whole row that a thread asks for at once; and of a part, at most."""
FEW_WAVES, MOST_PARTS = 4, 128
"""Blocks of a multiprocessor that do not fill it; and parts by powers of two, at most."""
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
    reading : of all rounds of a multiprocessor's blocks, each of which waits for memory
    memory : of DRAM, for all elements
    sums : of the kernel that adds up the parts
    """

    parts: int
    threads: int
    each: int
    length: int
    us: float
    reading: float
    memory: float
    sums: float


def rank_cuts(rows: Rows, gpu: Gpu, threads: int) -> list[Cut]:
    """Ways to cut rows, the one to take first, and then the fastest; `threads` are those of a
    whole row.

    First is the one by a rule that was measured, where the model expects no other one to be a tenth
    faster: as many parts as give each multiprocessor a block or two, and threads enough vectors.
    """
    most = FEW_WAVES * gpu.multiprocessors
    powers = [1 << power for power in range(1, MOST_PARTS.bit_length())]
    counts = [*powers, *(n * gpu.multiprocessors // rows.height for n in range(1, FEW_WAVES + 1))]
    each = min(MOST_EACH, FLIGHT_BYTES // (rows.vector * rows.size))
    cuts = {1: _estimate(rows, gpu, 1, threads, WHOLE_EACH)}
    for parts in counts:
        if 1 < parts <= most // rows.height:
            cut = _estimate(rows, gpu, parts, MAX_THREADS // 2, each)
            cuts.setdefault(cut.parts, cut)
    ranked = sorted(cuts.values(), key=lambda cut: (cut.us, cut.parts))
    vectors = rows.length // rows.vector
    measured = [
        parts
        for parts in powers
        if rows.vector > 1 and rows.height * parts <= most // 2
        if vectors % parts == 0 and vectors // parts >= MAX_THREADS
    ]
    first = cuts.get(max(measured, default=1))
    if first and first.us <= MODEL_ERROR * ranked[0].us:
        ranked.sort(key=lambda cut: cut != first)
    return ranked


def find_guarded(size: int) -> int:
    """The most elements of so many bytes in a vector that CUDA has a type for under a guard."""
    return WIDEST if size > 1 else 4


def has_whole_parts(length: int, parts: int, vector: int, at_once: int) -> bool:
    """Whether rows divide into so many parts of whole vectors, each of which fills a round; others
    are padded until all parts are whole rounds.
    """
    return length % (parts * vector) == 0 and length // parts >= at_once


def _estimate(rows: Rows, gpu: Gpu, parts: int, threads: int, each: int) -> Cut:
    """What is expected of about so many parts: fewer, where these would leave none for the last."""
    costs, at_once = read_table("rows")["costs"], threads * rows.vector * each
    length = rows.length // parts
    if not has_whole_parts(rows.length, parts, rows.vector, at_once):
        length = -(-rows.length // (parts * at_once)) * at_once
        parts = -(-rows.length // length)
        length = -(-rows.length // (parts * at_once)) * at_once
    resident = gpu.multiprocessors * max(1, RESIDENT // threads)
    waves = -(-rows.height * parts // resident)
    reading = waves * -(-length // at_once) * costs["step_us"]
    bytes_per_us = costs["dram_bytes_per_us"] * gpu.gigabytes / H200.gigabytes
    memory = rows.height * rows.length * rows.size / bytes_per_us
    sums = costs["sums_us"] + -(-parts // WARP) * costs["sums_step_us"] if parts > 1 else 0.0
    hidden = costs["hidden"] * min(reading, memory)
    us = costs["launch_us"] + max(reading, memory) + hidden + sums
    return Cut(parts, threads, each, length, us, reading, memory, sums)
