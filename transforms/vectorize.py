"""Vectors: several elements with one load or store."""

from __future__ import annotations

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.tirx import For

from .errors import TransformError, transform
from .loops import require_constant, require_serial
from .placement import require_aligned_rows
from .queries import find_all, find_blocks_under, find_loop_name, find_regions, find_root

LANES = (2, 4, 8, 16)
MAX_VECTOR_BYTES = 16


@transform
def vectorize_loop(
    sch: Schedule, loop: LoopRV, *, max_vector_bytes: int = MAX_VECTOR_BYTES
) -> None:
    """Vectorize a loop.

    rewrite: ``for v in range(4)`` -> ``for v in T.vectorized(4)``
    consumes: nothing
    requires: a serial innermost loop around one block (with a second one computed inside, TVM
        compiles wrong code); 2, 4, 8 or 16 iterations; vectors of at most `max_vector_bytes`
        bytes; padded rows that keep the vectors aligned
    """
    require_serial(sch, "vectorize_loop", loop)
    lanes = require_constant(sch, "vectorize_loop", loop)
    name = find_loop_name(sch, loop)
    if lanes not in LANES:
        raise TransformError(
            "vectorize_loop",
            f"loop '{name}' runs {lanes} times, and there are vectors of "
            f"{', '.join(map(str, LANES))} elements only",
            "split the loop by one of these first",
        )
    blocks = find_blocks_under(sch, loop)
    if len(blocks) != 1 or find_all(sch.get(loop).body, For):
        names = ", ".join(f"'{block.name_hint}'" for block in blocks)
        raise TransformError(
            "vectorize_loop",
            f"loop '{name}' is not the innermost loop of one block (inside: {names})",
            "vectorize the innermost loop of each block by itself",
        )
    _require_vector_size(sch, loop, lanes, max_vector_bytes)
    require_aligned_rows(find_root(sch, loop), "vectorize_loop", blocks, lanes)
    sch.vectorize(loop)


def _require_vector_size(sch: Schedule, loop: LoopRV, lanes: int, limit: int) -> None:
    for block in find_blocks_under(sch, loop):
        for region in find_regions(block):
            size = lanes * region.source.dtype.itemsize
            if size > limit:
                raise TransformError(
                    "vectorize_loop",
                    f"loop '{find_loop_name(sch, loop)}' makes vectors of {lanes} elements of "
                    f"'{region.source.name}' ({region.source.dtype}), {size} bytes, more than "
                    f"max_vector_bytes={limit}",
                    "split the loop by a smaller size first",
                )
