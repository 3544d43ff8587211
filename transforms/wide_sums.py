"""Sums of products in a wider type than a kernel declares, rounded once."""

from __future__ import annotations

from typing import Any

from tvm.ir import TensorLoad
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import Add, BufferLoad, BufferStore, Cast, IterVar, Mul, const
from tvm_ffi import structural_equal

from .decorators import composite
from .errors import TransformError
from .loops import require_serial
from .queries import get_realize, get_sblock_name, get_sblocks_under, is_reduction
from .rewriting import replace_blocks
from .tir import constant, find_all, is_among, replace_fields

WIDE = "float32"
HALVES = ("float16", "bfloat16")


@composite
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
    _require_alone(sch, block)
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
    if not isinstance(store.value, Add) or not structural_equal(zero.indices, store.indices):
        return None
    parts = [store.value.a, store.value.b]
    terms = [it for it in parts if not _is_sum(it, store)]
    reads = [load.source for term in terms for load in find_all(term, TensorLoad)]
    return terms[0] if len(terms) == 1 and not is_among(store.buffer, reads) else None


def _is_sum(value: Any, store: BufferStore) -> bool:
    """Whether a value is the sum that a store goes on with."""
    is_load = isinstance(value, TensorLoad) and value.source.same_as(store.buffer)
    return is_load and structural_equal(value.indices, store.indices)


def _require_alone(sch: Schedule, block: SBlockRV) -> None:
    """Refuse a block whose sums others could use, or write, before they are rounded."""
    loops, node, name = sch.get_loops(block), sch.get(block), get_sblock_name(sch, block)
    for loop in loops:
        require_serial(sch, loop)
    for other in get_sblocks_under(sch, loops[0]) if loops else []:
        if not other.same_as(node):
            raise TransformError(
                f"blocks '{name}' and '{other.name_hint}' stand in one loop, behind which sums "
                "would be rounded",
                "widen sums before blocks are placed there",
            )
    if constant(get_realize(sch, block).predicate) != 1:
        raise TransformError(
            f"block '{name}' runs under a predicate, which leaves elements as they were",
            "widen sums before loops are split",
        )
    spatial = [it.var for it in node.iter_vars if it.iter_type == IterVar.DataPar]
    indices = [index for index in node.body.indices if constant(index) is None]
    if len(indices) != len(spatial) or not all(is_among(index, spatial) for index in indices):
        raise TransformError(
            f"block '{name}' does not sum to one element for each of its rows and columns",
            "let each spatial iterator be one index of what it sums to",
        )


def _widen(term: Any) -> Any:
    """A term in float32: a product of halves by its factors."""
    if isinstance(term, Mul):
        return _widen(term.a) * _widen(term.b)
    return Cast(WIDE, term)
