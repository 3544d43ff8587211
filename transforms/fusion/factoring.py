"""Factors that are the same for all terms of a sum, taken out of it by the distributive law."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import BufferLoad, BufferStore, Cast, Div, Mul, const

from ..decorators import composite
from ..errors import TransformError
from ..legality.net import inlines
from ..loops import require_serial
from ..queries import get_sblock_name, get_sblocks_under
from ..rewriting import replace_blocks
from ..tir import substitute
from .blocks import make_block
from .reductions import Reduction, read_reduction, uses_any


@composite
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
    reduction = read_reduction(sch.get(block))
    _require_sum(reduction)
    _require_alone(sch, block)
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
    _write_both(sch, block, copy, parts)
    return copy


def _write_both(sch: Schedule, block: SBlockRV, copy: SBlockRV, parts: Parts) -> None:
    """The sum without the factor, and the copy of its results with it."""
    reduction, scaled = read_reduction(sch.get(block)), sch.get(copy)
    dtype = reduction.dtype
    rest = const(1, dtype) if parts.rest is None else parts.rest.astype(dtype)
    own = BufferLoad(reduction.buffer, reduction.indices)
    update = BufferStore(reduction.buffer, own + rest, reduction.indices)
    pairs = zip(reduction.indices, scaled.iter_vars, strict=True)
    factor = substitute(parts.factor, {ours: theirs.var for ours, theirs in pairs})
    product = _multiply(scaled.body.value, factor).astype(dtype)
    store = BufferStore(scaled.body.buffer, product, scaled.body.indices)
    old = sch.get(block)
    made = {
        old: make_block(reduction.name, old.iter_vars, update, old.init, old),
        scaled: make_block(str(scaled.name_hint), scaled.iter_vars, store, None, scaled),
    }
    replace_blocks(sch, block, made, [], who="factor_out_of_sum")


def _require_alone(sch: Schedule, block: SBlockRV) -> None:
    """Refuse a block that shares loops with others, or whose loops are bound."""
    loops, name = sch.get_loops(block), get_sblock_name(sch, block)
    for loop in loops:
        require_serial(sch, loop)
    others = get_sblocks_under(sch, loops[0]) if loops else []
    for other in others:
        if not other.same_as(sch.get(block)):
            raise TransformError(
                f"blocks '{name}' and '{other.name_hint}' stand in one loop, behind which the "
                "factor would be applied",
                "take the factor out before blocks are placed there",
            )


def _require_sum(reduction: Reduction) -> None:
    if reduction.kind != "sum" or "float" not in reduction.dtype:
        raise TransformError(
            f"block '{reduction.name}' is a {reduction.kind} of {reduction.dtype}, out of which a "
            "factor comes only if its sign is known and nothing wraps around",
            "pass a block that sums floats",
        )
    if not (hasattr(reduction.identity, "value") and reduction.identity.value == 0):
        raise TransformError(
            f"block '{reduction.name}' begins with {reduction.identity}, which the factor would "
            "change, too",
            "let the sum begin with 0, and add the rest to its result",
        )
    rows = [item.var for item in reduction.iterators(reduced=False)]
    indices = list(reduction.indices)
    if len(indices) != len(rows) or not all(any(row.same_as(at) for at in indices) for row in rows):
        raise TransformError(
            f"block '{reduction.name}' does not sum to one element for each of its rows",
            "let each spatial iterator be one index of what it sums to",
        )


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
    if isinstance(term, Mul):
        first, second = (split_factor(part, varies) for part in (term.a, term.b))
        return Parts(_times(first.factor, second.factor), _times(first.rest, second.rest))
    if isinstance(term, Div):
        above, below = (split_factor(part, varies) for part in (term.a, term.b))
        return Parts(_over(above.factor, below.factor), _over(above.rest, below.rest))
    if isinstance(term, Cast) and all("float" in str(it.ty.dtype) for it in (term, term.value)):
        inner = split_factor(term.value, varies)
        if inner.factor is None:
            return Parts(None, term)
        is_wider = term.ty.dtype.bits > inner.rest.ty.dtype.bits
        return Parts(inner.factor, inner.rest.astype(term.ty.dtype) if is_wider else inner.rest)
    return Parts(None, term)


def _times(first: Any, second: Any) -> Any:
    if first is None or second is None:
        return second if first is None else first
    return _multiply(first, second)


def _over(above: Any, below: Any) -> Any:
    if below is None:
        return above
    return _in_wider(
        lambda a, b: a / b, const(1, below.ty.dtype) if above is None else above, below
    )


def _multiply(first: Any, second: Any) -> Any:
    return _in_wider(lambda a, b: a * b, first, second)


def _in_wider(combine: Callable[[Any, Any], Any], first: Any, second: Any) -> Any:
    """Of two floats in the wider type of both."""
    wider = max(first.ty.dtype, second.ty.dtype, key=lambda dtype: dtype.bits)
    return combine(first.astype(wider), second.astype(wider))
