"""Factors that are the same for all terms of a sum, taken out of it by the distributive law."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import BufferLoad, BufferStore, Cast, Div, Mul, Var, const

from ..loops import require_serial
from ..queries import get_sblocks_under
from ..rewriting import replace_blocks
from ..schedule import TransformError, inlines, transform
from ..tir import constant, is_among, substitute
from .blocks import Point
from .factors import in_wider
from .reductions import Reduction, read_reduction, uses_any


@transform
@inlines
def factor_out_of_sum(sch: Schedule, block: SBlockRV) -> SBlockRV:
    """Multiply a sum by what all its terms are multiplied by, in place of each term.

    A sum that waited for another reduction because of such a factor, as a product behind a
    normalization does, waits no longer: both may stand under one loop, and nothing is repaired.

    This is the distributive law, which floats keep up to rounding. Where the factor stood inside of
    a rounding to a narrower type, that is left out: the factor may be what keeps the value in the
    type's range. What is left of a term may be beyond the range of the sum's type where term and
    factor are not, and a sum that is infinite or a NaN may be another of these.

    The trace does not replay what this makes, and says so: no primitive of TVM does.

    rewrite: ``for i, k: C[i] += float32(float16(x[i, k] * s[i])) * w[k]`` ->
        ``for i, k: C_global[i] += x[i, k] * w[k]`` and ``for i: C[i] = C_global[i] * s[i]``
    consumes: nothing
    returns: the new block, which multiplies the sums by the factor
    requires: a block that sums floats from 0 on, each of its spatial iterators one index of the
        sums; serial loops around it, which hold no other block: one could use a sum before it is
        multiplied, or change the factor; sums of all elements that a guard lets it reach; a factor
        or a divisor of the term that depends on none of the iterators it reduces over, in products,
        quotients and casts between floats
    """
    reduction = read_lone_sum(sch, block)
    reduced = [item.var for item in reduction.iterators(reduced=True)]
    parts = split_factor(reduction.term, lambda it: uses_any(it, reduced))
    if parts.factor is None:
        names = ", ".join(f"'{variable.name}'" for variable in reduced)
        raise TransformError(
            f"each factor of the term {reduction.term} of block '{reduction.name}' depends on "
            f"{names}, over which it is summed",
            "inline what the block reads first, or leave the sum as it is",
        )
    copy = sch.cache_write(block, 0, str(reduction.buffer.scope()))
    reduction, old, scaled = read_reduction(sch.get(block)), sch.get(block), sch.get(copy)
    rest = const(1, reduction.dtype) if parts.rest is None else parts.rest.astype(reduction.dtype)
    own = BufferLoad(reduction.buffer, reduction.indices)
    update = BufferStore(reduction.buffer, own + rest, reduction.indices)
    pairs = zip(reduction.indices, scaled.iter_vars, strict=True)
    rows = {ours: theirs.var for ours, theirs in pairs if isinstance(ours, Var)}
    product = in_wider(operator.mul, scaled.body.value, substitute(parts.factor, rows))
    value = product.astype(reduction.dtype)
    store = BufferStore(scaled.body.buffer, value, scaled.body.indices)
    name = str(scaled.name_hint)
    made = {
        old: Point(list(old.iter_vars)).make_block(reduction.name, update, old.init, old),
        scaled: Point(list(scaled.iter_vars)).make_block(name, store, like=scaled),
    }
    replace_blocks(sch, block, made, [], who="factor_out_of_sum")
    return copy


def read_lone_sum(sch: Schedule, block: SBlockRV) -> Reduction:
    """A block's sum of floats from 0 on, which something is to be done to where it is complete.

    Refuses a block that shares loops with others, or whose loops are bound.
    """
    reduction, loops = read_reduction(sch.get(block)), sch.get_loops(block)
    name, identity = reduction.name, reduction.identity
    is_zero = getattr(identity, "value", None) == 0
    if reduction.kind != "sum" or "float" not in reduction.dtype or not is_zero:
        raise TransformError(
            f"block '{name}' is a {reduction.kind} of {reduction.dtype} that begins with "
            f"{identity}, and no sum of floats that begins with 0",
            "add what it begins with to the result of such a sum, or leave it as it is",
        )
    rows = [item.var for item in reduction.iterators(reduced=False)]
    indices = [index for index in reduction.indices if constant(index) is None]
    if len(indices) != len(rows) or not all(is_among(index, rows) for index in indices):
        raise TransformError(
            f"block '{name}' does not sum to one element for each of its rows",
            "let each spatial iterator be one index of what it sums to",
        )
    for loop in loops:
        require_serial(sch, loop)
    for other in get_sblocks_under(sch, loops[0]) if loops else []:
        if not other.same_as(sch.get(block)):
            raise TransformError(
                f"blocks '{name}' and '{other.name_hint}' stand in one loop, behind which its sums "
                "would be complete",
                "change the sum before blocks are placed there",
            )
    return reduction


class Parts(NamedTuple):
    """A term as ``factor * rest``; None for a 1.

    Attributes
    ----------
    factor : what does not vary from term to term
    rest : what does
    """

    factor: Any
    rest: Any


def split_factor(term: Any, varies: Callable[[Any], bool]) -> Parts:
    """A term taken apart; `varies` says whether an expression changes from term to term."""
    if not varies(term):
        return Parts(term, None)
    if isinstance(term, (Mul, Div)):
        combine = operator.truediv if isinstance(term, Div) else operator.mul
        first, second = (split_factor(part, varies) for part in (term.a, term.b))
        return Parts(*(_join(combine, *pair) for pair in zip(first, second, strict=True)))
    if isinstance(term, Cast) and all("float" in str(it.ty.dtype) for it in (term, term.value)):
        inner = split_factor(term.value, varies)
        if inner.factor is None:
            return Parts(None, term)
        is_wider = term.ty.dtype.bits > inner.rest.ty.dtype.bits
        return Parts(inner.factor, inner.rest.astype(term.ty.dtype) if is_wider else inner.rest)
    return Parts(None, term)


def _join(combine: Callable[[Any, Any], Any], first: Any, second: Any) -> Any:
    if second is None:
        return first
    if first is None:
        return second if combine is operator.mul else combine(const(1, second.ty.dtype), second)
    return in_wider(combine, first, second)
