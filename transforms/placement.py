"""Placement: where a block is computed."""

from __future__ import annotations

from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import ForKind

from .binding import require_own_registers
from .errors import TransformError, composite, transform
from .queries import (
    find_block_name,
    find_kind,
    find_loop_name,
    find_outer_loops,
    find_regions,
    find_row_stride,
)


@transform
def compute_block_at(sch: Schedule, block: SBlockRV, loop: LoopRV) -> None:
    """Move a producer under a loop of its consumers, so that it computes what one iteration needs.

    rewrite: ``for i: P[i]`` and ``for j: C[j] = f(P[j])``
        -> ``for j: (for ax: P[j + ax]); C[j] = f(P[j])``
    consumes: the loops of `block`
    requires: a loop that is not vectorized nor inside of a vectorized one (TVM accepts that and
        computes wrong values); all consumers under the loop
    """
    require_scalar_place(sch, "compute_block_at", loop)
    sch.compute_at(block, loop, preserve_unit_loops=True)


@transform
def reverse_compute_block_at(sch: Schedule, block: SBlockRV, loop: LoopRV) -> None:
    """Move a consumer under a loop of its producers, so that it uses what one iteration made.

    rewrite: ``for i: P[i]`` and ``for j: C[j] = f(P[j])`` -> ``for i: P[i]; C[i] = f(P[i])``
    consumes: the loops of `block`
    requires: a loop that is not vectorized nor inside of a vectorized one; all producers under it
    """
    require_scalar_place(sch, "reverse_compute_block_at", loop)
    sch.reverse_compute_at(block, loop, preserve_unit_loops=True)


@composite
def fuse_epilogue_at(sch: Schedule, block: SBlockRV, epilogue: SBlockRV, loop: LoopRV) -> SBlockRV:
    """Keep a block's result in registers and let its consumer finish it there (bias, relu, cast).

    rewrite: ``C[i, j] += ...`` and ``D[i, j] = relu(C[i, j] + bias[j])``
        -> under `loop`: ``C_registers[...] += ...; D[...] = relu(C_registers[...] + bias[...])``
    consumes: the loops of `epilogue`
    requires: `epilogue` is the only consumer of the one intermediate buffer that `block` writes;
        a loop of `block` outside of its reductions
    """
    consumers = [find_block_name(sch, consumer) for consumer in sch.get_consumers(block)]
    if consumers != [find_block_name(sch, epilogue)]:
        raise TransformError(
            "fuse_epilogue_at",
            f"block '{find_block_name(sch, block)}' has the consumers {consumers}, "
            f"not just '{find_block_name(sch, epilogue)}'",
            "inline or cache the other consumers first",
        )
    require_scalar_place(sch, "fuse_epilogue_at", loop)
    sch.set_scope(block, 0, "local")
    sch.reverse_compute_at(epilogue, loop, preserve_unit_loops=True)
    require_own_registers(sch, "fuse_epilogue_at")
    return epilogue


@composite
def inline_producers(sch: Schedule, block: SBlockRV) -> None:
    """Inline the blocks that a block reads from, e.g. a padding stage into a shared-memory fetch.

    rewrite: ``P[i] = f(A[i])`` and ``C[i] = g(P[i])`` -> ``C[i] = g(f(A[i]))``
    consumes: the producers
    requires: producers that do not reduce and whose only consumer is `block`; a block that reads
        nothing but the kernel's arguments is left as it is
    """
    for producer in sch.get_producers(block):
        sch.compute_inline(producer)


def require_scalar_place(sch: Schedule, who: str, loop: LoopRV) -> None:
    """Refuse to place a block at or inside a vectorized loop."""
    for node in [*find_outer_loops(sch, loop), sch.get(loop)]:
        if node.kind == ForKind.VECTORIZED:
            raise TransformError(
                who,
                f"loop '{find_loop_name(sch, loop)}' is at or inside of the {find_kind(node)} loop "
                f"'{node.loop_var.name}', where TVM would compute wrong values without an error",
                "place the block at a loop outside of it, or vectorize afterwards",
            )


def require_aligned_rows(sch: Schedule, who: str, blocks: list[SBlock], lanes: int) -> None:
    """Refuse vectors in padded rows that do not begin at multiples of the vector's length."""
    for block in blocks:
        for region in find_regions(block):
            stride = find_row_stride(sch, region.source)
            if stride is not None and stride % lanes:
                raise TransformError(
                    who,
                    f"the rows of '{region.source.name}' are padded to {stride} elements, so that "
                    f"vectors of {lanes} would be misaligned",
                    f"pad to a multiple of {lanes}, or use shorter vectors",
                )
