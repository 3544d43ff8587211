"""Rows of any length and number: the config of a kernel over rows, by rules.

The rules are those of 255 measurements of 38 problems on an H200, from 65536 rows of 128 elements
to two of 1048576, of softmax, row_sum and layer_norm in float32 and float16.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tvm.s_tir import Schedule

from ..errors import TransformError
from ..gpu_limits import MAX_THREADS, WARP
from ..rows import find_vector
from ..tir import constant
from ..vectorize import WIDEST
from .gpus import read_gpu
from .ladder import Ladder
from .recipe import Example, Recipe, get_sblocks, recipe
from .rows import KERNELS, MATRIX, SMALL, THREADS, RowConfig, schedule_rows

REGISTER_BYTES = 128
"""Of a row, for each thread that keeps its share of it in registers, about: what was fastest."""
LONG = 32768
"""Elements of a row from which on it is read in rounds: registers of so many threads are full."""
FULL_THREADS = 128
"""So many threads several short rows of a block have together, if there are rows enough."""
FEW_WAVES, MOST_PARTS = 4, 128
"""Blocks of a multiprocessor that do not fill it; and parts of a row, at most."""


def _make_best(kernel: str, names: str) -> Recipe:
    """The recipe ``<kernel>_best``, whose config rules choose that were found by measurement."""

    def best(sch: Schedule, *, device: str = "NVIDIA H200") -> Iterator[str]:
        yield from schedule_rows(sch, choose_rows(sch, f"{kernel}_best", device))

    best.__name__ = f"{kernel}_best"
    best.__doc__ = (
        "Threads, rows of a block and rounds by the length of a row and their number.\n\n"
        "Any shape: rows that vectors do not divide are read element by element. Knobs: device, a "
        "GPU by\nits name or its properties (transforms/recipes/gpus.py)."
    )
    return recipe(
        kernel=kernel,
        blocks=(names,),
        default_example=MATRIX,
        golden=Example(SMALL),
        expects={"unrolled": ("scalar_loads == 0",)},
    )(best)


def choose_rows(sch: Schedule, recipe_name: str, device: str) -> RowConfig:
    """The config for the rows of a kernel; refuses sizes that are left open."""
    blocks = get_sblocks(sch)
    total = sch.get(blocks[0])
    height, length = (constant(iterator.dom.extent) for iterator in total.iter_vars[:2])
    if height is None or length is None:
        raise TransformError(
            recipe_name,
            f"the shape ({height or 'm'}, {length or 'n'}) is not constant",
            "give the kernel its sizes",
        )
    return choose_config(
        height, length, total.reads[0].source.dtype, is_single=len(blocks) == 1, device=device
    )


def choose_config(
    height: int, length: int, dtype: Any, *, is_single: bool, device: str
) -> RowConfig:
    """The config for so many rows of a length; `is_single` where one block is all there is."""
    vector = find_vector(length, dtype, most=WIDEST)
    single = is_single and vector > 1
    multiprocessors = read_gpu(device).multiprocessors
    # Elements that are read one by one take an instruction each, however short they are.
    size = max(dtype.itemsize, 2) if vector > 1 else 4
    wanted = 1 << max(round(math.log2(max(length * size, 1) / REGISTER_BYTES)), 0)
    if height <= FEW_WAVES * multiprocessors:
        wanted = max(wanted, WARP)
    threads = min(max(wanted, THREADS[0]), MAX_THREADS)
    if length >= LONG:
        parts = _choose_parts(height, length // vector, multiprocessors) if single else 1
        return RowConfig(
            threads=MAX_THREADS // 2 if parts > 1 else threads,
            vector=WIDEST,
            each=2,
            parts=parts,
            tail="guard",
        )
    most = max(height // (2 * multiprocessors), WARP // threads, 1)
    rows = max(min(1 << (most.bit_length() - 1), FULL_THREADS // threads), 1)
    if threads > WARP and height % rows:
        rows = 1  # barriers may stand in no guard
    return RowConfig(threads=threads, in_registers=True, vector=WIDEST, rows=rows, tail="guard")


def _choose_parts(height: int, vectors: int, multiprocessors: int) -> int:
    """As many parts as give each multiprocessor a block or two, and threads enough vectors."""
    parts = 1
    while (
        height * parts * 2 <= FEW_WAVES // 2 * multiprocessors
        and parts < MOST_PARTS
        and vectors % (parts * 2) == 0
        and vectors // (parts * 2) >= MAX_THREADS
    ):
        parts *= 2
    return parts


ROWS_BEST = tuple(
    Ladder(
        f"{kernel}_best",
        kernel,
        "rows of any length and number",
        (_make_best(kernel, names),),
        MATRIX.shape,
    )
    for kernel, names, *_ in KERNELS
)
"""For each kernel over rows the recipe that chooses for any shape."""
