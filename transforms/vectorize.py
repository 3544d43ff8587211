"""Vectors: several elements with one load or store."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import For

from .arguments import Int64
from .errors import TransformError, composite, transform
from .loops import require_constant, require_serial
from .neighbours import find_taken_apart
from .placement import require_aligned_rows
from .queries import (
    find_all,
    find_block_name,
    find_blocks_under,
    find_loop_name,
    find_own_loops,
    find_regions,
    find_root,
)

LANES = (2, 4, 8, 16)
MAX_VECTOR_BYTES = 16


@transform
def vectorize_loop(
    sch: Schedule, loop: LoopRV, *, max_vector_bytes: Int64 = MAX_VECTOR_BYTES
) -> None:
    """Vectorize a loop.

    rewrite: ``for v in range(4)`` -> ``for v in T.vectorized(4)``
    consumes: nothing
    requires: a serial innermost loop around one block (with a second one computed inside, TVM
        compiles wrong code); 2, 4, 8 or 16 iterations; vectors of at most `max_vector_bytes`
        bytes; padded rows that keep the vectors aligned; float8 elements
        that are neighbours, or one repeated (CUDA's vectors of them cannot be taken apart)
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
    if fault := find_float8_fault(sch, loop):
        raise TransformError(
            "vectorize_loop",
            f"loop '{name}' makes vectors of {lanes} elements that {fault}, and CUDA does not "
            "compile them",
            "leave the loop as it is, or keep the layout",
        )
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


def find_float8_fault(sch: Schedule, loop: LoopRV) -> str:
    """How vectors of float8 that a loop would make lie, where CUDA does not compile them, or "".

    TVM takes apart what does not lie as a vector does: it reads elements by their names, which
    CUDA's vectors of float8 do not have.
    """
    (block,) = find_blocks_under(sch, loop)
    if not any(_is_float8(region.source) for region in find_regions(block)):
        return ""
    trial = sch.copy()
    trial.vectorize(loop)
    apart = find_taken_apart(trial, trial.get_sblock(block.name_hint))
    faults = (f"{how} in '{of.name}' ({of.dtype})" for how, of in apart if _is_float8(of))
    return next(faults, "")


def _is_float8(buffer: Any) -> bool:
    return str(buffer.dtype).startswith("float8")


@composite
def vectorize_copy(sch: Schedule, block: SBlockRV, *, vector: int = 4) -> int:
    """Vectorize the innermost own loop of a block by the widest vector up to `vector` that fits.

    A vector fits if it divides the loop and has at most 16 bytes of each buffer.

    rewrite: ``for i in range(8): A_local[i] = A_shared[i]`` ->
        ``for i_0 in range(2): for i_1 in T.vectorized(4): A_local[...] = A_shared[...]``
    consumes: the block's innermost loop, where it is split
    returns: the elements of a vector; 1 where the block is left as it is
    requires: a block with a serial loop of its own, of constant extent; `vector` at least 1; what
        `vectorize_loop` requires
    """
    if vector < 1:
        raise TransformError(
            "vectorize_copy", f"vector={vector} is no size", "use an integer from 1 up"
        )
    own = find_own_loops(sch, block)
    if not own:
        raise TransformError(
            "vectorize_copy",
            f"block '{find_block_name(sch, block)}' has no loop of its own",
            "vectorize the loop that it shares with vectorize_loop",
        )
    require_serial(sch, "vectorize_copy", own[-1])
    extent = require_constant(sch, "vectorize_copy", own[-1])
    size = max(region.source.dtype.itemsize for region in find_regions(sch.get(block)))
    widest = min(vector, MAX_VECTOR_BYTES // size)
    fitting = [lanes for lanes in LANES if lanes <= widest and extent % lanes == 0]
    if not fitting:
        return 1
    inner = own[-1] if extent == fitting[-1] else sch.split(own[-1], [None, fitting[-1]])[1]
    vectorize_loop(sch, inner)
    return fitting[-1]
