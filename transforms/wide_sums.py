"""Sums of products in a wider type than a kernel declares, rounded once."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import BufferLoad, BufferStore, Cast, Mul, const

from .fusion.factoring import read_lone_sum
from .queries import get_realize
from .rewriting import replace_blocks
from .schedule import TransformError, transform
from .tir import constant, replace_fields

WIDE = "float32"
HALVES = ("float16", "bfloat16")


@transform
def widen_sums(sch: Schedule, block: SBlockRV) -> SBlockRV:
    """Keep sums of half precision in float32, and round each of them once.

    A sum of n terms in float16 is off by up to n * 2^-11 of the sum of their magnitudes, in float32
    by 2^-11 of itself and n * 2^-24 of that; in bfloat16 it is 2^-8 for 2^-11. Models declare
    float16, and libraries of vendors sum in float32 all the same. A product of two halves is exact
    in float32. Numbers change: what is compared with sums in half precision needs the tolerance of
    those. The trace does not replay what this makes, and says so: no primitive of TVM does.

    rewrite: ``for i, j, k: C[i, j] += A[i, k] * B[k, j]`` -> ``for i, j, k: C_global[i, j] +=
        float32(A[i, k]) * float32(B[k, j])`` and ``for i, j: C[i, j] = float16(C_global[i, j])``
    consumes: nothing
    returns: the block that rounds
    requires: a block of float16 or bfloat16 that adds one term, which reads no sums, to its sum,
        and begins at zero, with its initialization; each of its spatial iterators one index of the
        sums; no predicate; serial loops around it, which hold no other block: one could use a
        sum before it is rounded
    """
    reduction = read_lone_sum(sch, block)
    if reduction.dtype not in HALVES:
        raise TransformError(
            f"block '{reduction.name}' is a sum of {reduction.dtype}, not of {' or '.join(HALVES)}",
            "leave its sums as they are",
        )
    if constant(get_realize(sch, block).predicate) != 1:
        raise TransformError(
            f"block '{reduction.name}' runs under a predicate, which leaves elements as they were",
            "widen sums before loops are split",
        )
    rounded = sch.cache_write(block, 0, "global")
    sch.unsafe_set_dtype(block, 0, WIDE)
    node = sch.get(block)
    (region,) = node.writes
    wide, place = region.source, list(node.body.indices)
    store = BufferStore(wide, BufferLoad(wide, place) + _widen(reduction.term), place)
    zero = BufferStore(wide, const(0, WIDE), list(node.init.indices))
    made = replace_fields(node, body=store, init=zero)
    replace_blocks(sch, block, {node: made}, [], who="widen_sums")
    return rounded


def _widen(term: Any) -> Any:
    """A term in float32: a product of halves by its factors."""
    if isinstance(term, Mul):
        return _widen(term.a) * _widen(term.b)
    return Cast(WIDE, term)
