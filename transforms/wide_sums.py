"""Sums of products in a wider type than a kernel declares, rounded once."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import Add, BufferLoad, BufferStore, Cast, Mul, const

from tirstep.tvm_compat import TensorLoad

from .decorators import composite
from .errors import TransformError
from .queries import get_sblock_name, is_reduction
from .rewriting import replace_blocks
from .tir import replace_fields

WIDE = "float32"
HALVES = ("float16", "bfloat16")


@composite
def widen_sums(sch: Schedule, block: SBlockRV) -> SBlockRV:
    """Keep sums of half precision in float32, and round each of them once.

    A sum of n terms in float16 is off by up to n * 2^-11 of the sum of their magnitudes, in float32
    by 2^-11 of itself and n * 2^-24 of that. Models declare float16, and libraries of vendors sum
    in float32 all the same. A product of two halves is exact in float32. Numbers change: what is
    compared with sums in half precision needs the tolerance of those.

    rewrite: ``for i, j, k: C[i, j] += A[i, k] * B[k, j]`` -> ``for i, j, k: C_global[i, j] +=
        float32(A[i, k]) * float32(B[k, j])`` and ``for i, j: C[i, j] = float16(C_global[i, j])``
    consumes: nothing
    returns: the block that rounds
    requires: a block of float16 or bfloat16 that adds one term to its sum, and begins at zero, with
        its initialization
    """
    node, name = sch.get(block), get_sblock_name(sch, block)
    if not is_reduction(sch, block) or node.init is None:
        raise TransformError(
            f"block '{name}' is no sum with its initialization",
            "pass a block with T.init, before it is decomposed",
        )
    term = _find_term(node)
    if term is None:
        raise TransformError(
            f"block '{name}' does not add one term to a sum of {' or '.join(HALVES)} that begins "
            "at zero",
            "leave its sums as they are",
        )
    rounded = sch.cache_write(block, 0, "global")
    sch.unsafe_set_dtype(block, 0, WIDE)
    node = sch.get(block)
    (region,) = node.writes
    wide, place = region.source, list(node.body.indices)
    store = BufferStore(wide, BufferLoad(wide, place) + _widen(term), place)
    zero = BufferStore(wide, const(0, WIDE), list(node.init.indices))
    made = replace_fields(node, body=store, init=zero)
    replace_blocks(sch, block, {node: made}, [], who="widen_sums")
    return rounded


def _find_term(node: Any) -> Any:
    """What a block adds to its sum of half precision, which begins at zero; None of another one."""
    store, zero = node.body, node.init
    if len(node.writes) != 1 or not all(isinstance(it, BufferStore) for it in (store, zero)):
        return None
    if str(store.buffer.dtype) not in HALVES or getattr(zero.value, "value", None) != 0:
        return None
    if not isinstance(store.value, Add):
        return None
    parts = [store.value.a, store.value.b]
    terms = [it for it in parts if not _is_load(it, store.buffer)]
    return terms[0] if len(terms) == 1 else None


def _is_load(value: Any, buffer: Any) -> bool:
    return isinstance(value, TensorLoad) and value.source.same_as(buffer)


def _widen(term: Any) -> Any:
    """A term in float32: a product of halves by its factors."""
    if isinstance(term, Cast) and str(term.value.ty.dtype) == WIDE:
        return term.value
    if isinstance(term, Mul):
        return _widen(term.a) * _widen(term.b)
    return Cast(WIDE, term)
