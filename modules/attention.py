"""Attention: the softmax of scaled scores, times values; for many queries, and for one in decoding.

The sizes and layouts are those of PyTorch's scaled_dot_product_attention. What a key counts for is
exp(scale * (score - the maximum of its row)), as A. Milakov and N. Gimelshein (Online normalizer
calculation for softmax, 2018) and T. Dao and others (FlashAttention, 2022) write it.
"""

import functools
import itertools
import math
import operator
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.modules import corners
from tirstep.modules.dtypes import FLOATS_IN_FLOAT32, dtype_facts
from tirstep.modules.error_bounds import DIVISION, EXPONENTIAL, GONE, RESCALING
from tirstep.modules.kernel import DTypes, cast_between, kernel
from tirstep.precision_annotations import EXPONENTS

Mask: TypeAlias = Callable[[Any, Any, Any], Any]
"""At (sequence, query, key): the first value if the key counts, or else the second one."""
MaskOp: TypeAlias = Literal["add", "minimum"]


def find_visible(queries: int, keys: int, *, causal: bool, window: int | None, xp: Any = np) -> Any:
    """Which keys each query sees, as an array of bool (queries, keys) of the module `xp`."""
    ahead = xp.arange(keys) - (xp.arange(queries)[:, None] + keys - queries)
    visible = ahead <= 0 if causal else xp.full((queries, keys), True)
    return visible if window is None else visible & (ahead > -window)


def _count_pairs(queries: int, keys: int, causal: bool, window: int | None) -> int:
    """How many keys all queries of a head see together, by arithmetic: no sequence is too long."""
    if not causal:
        return queries * keys
    first, width = keys - queries + 1, keys if window is None else min(window, keys)
    growing = max(0, min(queries, width - first + 1))  # queries that see all keys up to their own
    return growing * first + growing * (growing - 1) // 2 + (queries - growing) * width


def _find_scale(scale: float | None, dim: int) -> float:
    return 1 / math.sqrt(dim) if scale is None else float(scale)


def _find_factor(scale: float | None, dim: Any) -> Any:
    """The scale in a program, in which the size may be left open."""
    if scale is None and isinstance(dim, tvm.tirx.Var):
        return T.rsqrt(T.Cast("float32", dim))
    return T.float32(_find_scale(scale, int(dim) if scale is None else 1))


def _attention_of(
    q: Any,
    k: Any,
    v: Any,
    a: Any = None,
    *,
    dim: int,
    group: int,
    scale: float | None,
    causal: bool = False,
    window: int | None = None,
    mask_op: MaskOp = "add",
    xp: Any = np,
    **_: Any,
) -> Any:
    visible = find_visible(q.shape[2], k.shape[2], causal=causal, window=window, xp=xp)
    factor = _find_scale(scale, dim)

    def attend(q: Any, k: Any, v: Any, visible: Any, a: Any = None) -> Any:  # of one head
        scores = _apply_mask(factor * (q @ k.T), a, mask_op, xp)
        scores = xp.where(visible, scores, -math.inf)
        powers = xp.exp(scores - xp.amax(scores, axis=1, keepdims=True))
        return powers @ v / powers.sum(axis=1, keepdims=True)

    return _by_rows(attend, (q, k, v), (visible, a), group, xp)


def _apply_mask(scores: Any, a: Any, mask_op: MaskOp, xp: Any) -> Any:
    """Scaled scores under a mask that is data, or None."""
    if a is None:
        return scores
    return scores + a if mask_op == "add" else xp.minimum(scores, a)


BLOCK = 1 << 20
"""Scores that are worked out at once, in a dozen arrays of float64: as many as caches hold."""


def _by_rows(
    of: Callable[..., Any], tensors: tuple[Any, Any, Any], masks: Any, group: int, xp: Any
) -> Any:
    """Apply a function of rows of queries, keys, values and masks to all heads."""
    (q, k, v), (visible, a) = tensors, masks
    result, size = xp.empty_like(q), max(1, BLOCK // max(1, k.shape[2]))

    starts = range(0, q.shape[2], size)
    for b, h, start in itertools.product(range(q.shape[0]), range(q.shape[1]), starts):
        rows, own = slice(start, start + size), list[Any]()
        if a is not None:  # an axis of one element is that of all
            here = a[b if a.shape[0] > 1 else 0, h if a.shape[1] > 1 else 0]
            own.append(here[rows] if here.shape[0] > 1 else here)
        of_head = q[b, h, rows], k[b, h // group], v[b, h // group], visible[rows]
        result[b, h, rows] = of(*of_head, *own)
    return result


def _attention_error(
    q: Any,
    k: Any,
    v: Any,
    a: Any = None,
    *,
    group: int,
    causal: bool = False,
    window: int | None = None,
    xp: Any = np,
    **options: Any,
) -> Any:
    visible = find_visible(q.shape[2], k.shape[2], causal=causal, window=window, xp=xp)
    bound = functools.partial(_bound, xp=xp, **options)
    return _by_rows(bound, (q, k, v), (visible, a), group, xp)


def _mark_keys(q: Any, k: Any, v: Any, *rest: Any, mask: str = "", **_: Any) -> list[Any]:
    """Keys that begin with a 1, and after it with marks of the last and of the first, for the
    corner cases of queries (corners.py). A mask that is data hides keys between, and half of the
    scores of some queries, by -inf and by the lowest number.
    """
    if mask:
        hides = rest[0].copy()
        hides[..., 1:-1:4], lowest = -np.inf, dtype_facts(str(hides.dtype)).smallest
        hides[..., 2::4, : hides.shape[-1] // 2] = lowest
        rest = (hides,)
    marked, keys = k.copy(), np.arange(k.shape[2])
    for component, mark in enumerate((keys >= 0, keys == len(keys) - 1, keys == 0)[: k.shape[3]]):
        marked[..., component] = mark.astype(k.dtype)
    return [q, marked, v, *rest]


def _refuse_options(heads: int, group: Any, scale: Any, **_: Any) -> str | None:
    if type(group) is not int or group < 1 or heads % group:
        return (
            f"group={group!r} heads of queries share a head of keys, and there are {heads}; choose "
            f"a divisor of {heads}"
        )
    if scale is None:
        return None
    if type(scale) not in (int, float) or not 0 < scale < math.inf:
        return f"scale={scale!r} must be above 0; give such a number, or None for 1/sqrt(dim)"
    return None


def _refuse_masks(
    queries: int, keys: int, causal: bool, window: Any, mask_dtype: Any, **given: Any
) -> str | None:
    if mask_dtype not in (None, *FLOATS_IN_FLOAT32):
        listed = ", ".join(map(repr, FLOATS_IN_FLOAT32))
        return f"mask_dtype={mask_dtype!r} is no type of masks; give one of {listed}, or None"
    if causal and queries > keys:
        return (
            f"causal=True with {queries} queries and {keys} keys leaves the first "
            f"{queries - keys} queries without a key; give at least as many keys as queries"
        )
    if window is not None and (type(window) is not int or window < 1):
        return f"window={window!r} is not a number of keys; give an int >= 1, or None for all"
    if window is not None and not causal:
        return f"window={window} counts back from a query's own key; give causal=True as well"
    return _refuse_options(**given)


@kernel(
    reference=_attention_of,
    error=_attention_error,
    corners=corners.QUERIES,
    beside=_mark_keys,
    has_matrices=True,
    flops=lambda batch, heads, queries, keys, dim, *, causal, window, **_: (
        4 * batch * heads * dim * _count_pairs(queries, keys, causal, window)
    ),
    elements=lambda batch, heads, queries, keys, dim, *, group, mask, **_: max(
        batch * dim * max(heads * queries, heads // group * keys),
        math.prod(_get_mask_shape(mask, (batch, heads, queries, keys))),
    ),  # and the scores, where a schedule keeps them in global memory, which it asks itself
    accumulators=FLOATS_IN_FLOAT32,
    choices={
        "causal": (False, True),
        "fused_exponents": (False, True),
        "mask": ("", *(f"{front}{q}k" for front in ("", "h", "b", "bh") for q in ("", "q"))),
        "mask_op": ("add", "minimum"),
    },
    refuse=_refuse_masks,
)
def attention(
    batch: int,
    heads: int,
    queries: int,
    keys: int,
    dim: int,
    *,
    dtype: str = "float32",
    acc: str | None = None,
    out: str | None = None,
    causal: bool = False,
    window: int | None = None,
    group: int = 1,
    scale: float | None = None,
    fused_exponents: bool = False,
    mask: str = "",
    mask_dtype: str | None = None,
    mask_op: MaskOp = "add",
) -> tvm.IRModule:
    """Y = softmax(scale Q K^T) V for each of batch * heads; scale is 1 / sqrt(dim) by default.

    Q and Y are (batch, heads, queries, dim); K and V are (batch, heads / group, keys, dim), where
    `group` heads of queries share a head of keys and values (grouped queries). With `causal` query
    i sees the keys up to i + keys - queries alone, so that the last query sees all; with `window`
    the last so many of these.

    Blocks "scores", "max", "exp", "sum", "weighted" and "Y"; where a key is hidden, "max" and "exp"
    pass it over. What is between is float32, but for what "weighted" multiplies, which is rounded
    to the type of V, as tensor cores take it. A row of scores that all are -inf has no softmax,
    and is NaN. `out` is as for `matmul`.

    With `fused_exponents` an exponent may be c * score - c * maximum by one fused multiply-add,
    whose result is off by as much as the other product is rounded: by up to 2^-24 of c * maximum,
    where the difference of equal scores would be 0. It is an annotation of block "exp" that changes
    nothing else.

    With `mask`, the axes of a mask that is data ("qk" for one of queries and keys that all heads
    share, "bhqk" for all), there is a tensor A before Y, whose other axes have one element: block
    "mask", after "scores", repeats it. Block "masked" scales scores in float32, and adds the mask,
    or takes the minimum with it, as `mask_op` says. A is of `mask_dtype`, by default V's type.

    4 * dim operations for each key that a query sees: those of the two products, as attention is
    measured. Raises `KernelError` for bad sizes, dtype, acc, out, causal, window, group, scale or
    mask.
    """
    ahead = keys - queries

    def hide(place: Any, value: Any, other: Any) -> Any:
        if not causal:
            return value
        _, query, key = place
        is_visible = key <= query + ahead
        if window is not None:
            is_visible = T.And(is_visible, key > query + ahead - window)
        return T.if_then_else(is_visible, value, other)

    sizes = (batch, heads, queries, keys, dim, group)
    factor = _find_factor(scale, dim)
    own = T.float32(1) if mask else factor
    blocks = _write_blocks(sizes, (dtype, acc, out), hide, own, fused_exponents)
    if mask:
        types = (dtype, str(out), mask_dtype or dtype)
        return _masked_attention(sizes, types, factor, (mask, mask_op), blocks)
    return _attention(sizes, dtype, str(out), blocks)


Sizes: TypeAlias = tuple[int, int, int, int, int, int]
"""batch, heads, queries, keys, dim and group."""
Parts: TypeAlias = tuple[Callable[..., Any], Callable[..., Any]]
"""The first product, and what follows it: blocks that are written inline into a program."""


def _attention(sizes: Sizes, dtype: str, out: str, blocks: Parts) -> tvm.IRModule:
    B, H, M, N, D, group = sizes
    add_scores, add_softmax = blocks

    @I.ir_module
    class Attention:
        @T.prim_func(s_tir=True)
        def main(
            Q: T.Buffer((B, H, M, D), dtype),
            K: T.Buffer((B, H // group, N, D), dtype),
            V: T.Buffer((B, H // group, N, D), dtype),
            Y: T.Buffer((B, H, M, D), out),
        ):
            T.func_attr({"tirx.noalias": True})
            scores = T.sblock_alloc_buffer((B, H, M, N))
            add_scores(Q, K, scores)
            add_softmax(scores, V, Y)

    return Attention


def _get_mask_shape(axes: str, sizes: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(size if axis in axes else 1 for axis, size in zip("bhqk", sizes, strict=True))


def _masked_attention(sizes: Sizes, types: Any, factor: Any, given: Any, blocks: Parts) -> Any:
    (B, H, M, N, D, group), (dtype, out, own), (axes, mask_op) = sizes, types, given
    add_scores, add_softmax = blocks
    widen, apply = cast_between(own, "float32"), T.min if mask_op == "minimum" else operator.add
    shape = _get_mask_shape(axes, (B, H, M, N))

    def place(*at: Any) -> tuple[Any, ...]:
        return tuple(it if axis in axes else 0 for axis, it in zip("bhqk", at, strict=True))

    @I.ir_module
    class MaskedAttention:
        @T.prim_func(s_tir=True)
        def main(
            Q: T.Buffer((B, H, M, D), dtype),
            K: T.Buffer((B, H // group, N, D), dtype),
            V: T.Buffer((B, H // group, N, D), dtype),
            A: T.Buffer(shape, own),
            Y: T.Buffer((B, H, M, D), out),
        ):
            T.func_attr({"tirx.noalias": True})
            scores = T.sblock_alloc_buffer((B, H, M, N))
            mask = T.sblock_alloc_buffer((B, H, M, N), own)
            masked = T.sblock_alloc_buffer((B, H, M, N))
            add_scores(Q, K, scores)
            for b, h, i, j in T.grid(B, H, M, N):
                with T.sblock("mask"):
                    vb, vh, vi, vj = T.axis.remap("SSSS", [b, h, i, j])
                    mask[vb, vh, vi, vj] = A[place(vb, vh, vi, vj)]
            for b, h, i, j in T.grid(B, H, M, N):
                with T.sblock("masked"):
                    vb, vh, vi, vj = T.axis.remap("SSSS", [b, h, i, j])
                    masked[vb, vh, vi, vj] = apply(
                        scores[vb, vh, vi, vj] * factor, widen(mask[vb, vh, vi, vj])
                    )
            add_softmax(masked, V, Y)

    return MaskedAttention


def _write_blocks(
    sizes: Sizes, dtypes: DTypes, mask: Mask, factor: Any, is_fused: bool = False
) -> Parts:
    """The blocks that kernels share; a score counts by a factor, and what `mask` takes beside a
    place comes after Y.
    """
    (B, H, M, N, D, group), (dtype, _, out) = sizes, dtypes
    widen, narrow = cast_between(dtype, "float32"), cast_between("float32", dtype)
    store, hidden = cast_between("float32", out), T.min_value("float32")
    attributes = {EXPONENTS: "fused"} if is_fused else {}

    @T.inline
    def add_scores(Q, K, scores):
        for b, h, i, j, d in T.grid(B, H, M, N, D):
            with T.sblock("scores"):
                vb, vh, vi, vj, vd = T.axis.remap("SSSSR", [b, h, i, j, d])
                with T.init():
                    scores[vb, vh, vi, vj] = T.float32(0)
                scores[vb, vh, vi, vj] = scores[vb, vh, vi, vj] + widen(Q[vb, vh, vi, vd]) * widen(
                    K[vb, vh // group, vj, vd]
                )

    @T.inline
    def add_softmax(scores, V, Y, *seen):
        largest = T.sblock_alloc_buffer((B, H, M))
        power = T.sblock_alloc_buffer((B, H, M, N))
        total = T.sblock_alloc_buffer((B, H, M))
        weighted = T.sblock_alloc_buffer((B, H, M, D))
        for b, h, i, j in T.grid(B, H, M, N):
            with T.sblock("max"):
                vb, vh, vi, vj = T.axis.remap("SSSR", [b, h, i, j])
                with T.init():
                    largest[vb, vh, vi] = hidden
                largest[vb, vh, vi] = T.max(
                    largest[vb, vh, vi],
                    mask((vb, vi, vj, *seen), scores[vb, vh, vi, vj], hidden),
                )
        for b, h, i, j in T.grid(B, H, M, N):
            with T.sblock("exp"):
                vb, vh, vi, vj = T.axis.remap("SSSS", [b, h, i, j])
                T.sblock_attr(attributes)
                power[vb, vh, vi, vj] = mask(
                    (vb, vi, vj, *seen),
                    T.exp((scores[vb, vh, vi, vj] - largest[vb, vh, vi]) * factor),
                    T.float32(0),
                )
        for b, h, i, j in T.grid(B, H, M, N):
            with T.sblock("sum"):
                vb, vh, vi, vj = T.axis.remap("SSSR", [b, h, i, j])
                with T.init():
                    total[vb, vh, vi] = T.float32(0)
                total[vb, vh, vi] = total[vb, vh, vi] + power[vb, vh, vi, vj]
        for b, h, i, d, j in T.grid(B, H, M, D, N):
            with T.sblock("weighted"):
                vb, vh, vi, vd, vj = T.axis.remap("SSSSR", [b, h, i, d, j])
                with T.init():
                    weighted[vb, vh, vi, vd] = T.float32(0)
                weighted[vb, vh, vi, vd] = weighted[vb, vh, vi, vd] + widen(
                    narrow(power[vb, vh, vi, vj])
                ) * widen(V[vb, vh // group, vj, vd])
        for b, h, i, d in T.grid(B, H, M, D):
            with T.sblock("Y"):
                vb, vh, vi, vd = T.axis.remap("SSSS", [b, h, i, d])
                Y[vb, vh, vi, vd] = store(weighted[vb, vh, vi, vd] / total[vb, vh, vi])

    return add_scores, add_softmax


def _cut(of: Callable[..., Any]) -> Callable[..., Any]:
    """Apply a function of attention to each sequence, cut to its length."""

    def by_batch(q: Any, k: Any, v: Any, lengths: Any, *, xp: Any = np, **options: Any) -> Any:
        rows = [
            of(q[b : b + 1], k[b : b + 1, :, :end], v[b : b + 1, :, :end], xp=xp, **options)
            for b, end in enumerate(map(int, lengths))
        ]
        return xp.concatenate(rows)

    return by_batch


@kernel(
    reference=_cut(_attention_of),
    error=_cut(_attention_error),
    corners=corners.QUERIES,
    beside=_mark_keys,
    ranges=lambda keys, *, full, **_: {3: (keys if full else 1, keys)},
    may_be_large=True,
    has_matrices=True,
    flops=lambda batch, heads, keys, dim, **_: 4 * batch * heads * keys * dim,
    elements=lambda batch, heads, keys, dim, *, group, **_: (
        batch * max(heads * max(keys, dim), heads // group * keys * dim)
    ),
    accumulators=FLOATS_IN_FLOAT32,
    refuse=_refuse_options,
    choices={"full": (False, True)},
)
def decode_attention(
    batch: int,
    heads: int,
    keys: int,
    dim: int,
    *,
    dtype: str = "float32",
    acc: str | None = None,
    out: str | None = None,
    group: int = 1,
    scale: float | None = None,
    full: bool = False,
) -> tvm.IRModule:
    """Y = softmax(scale Q K^T) V of one query for each head, the next token's of a sequence.

    Q and Y are (batch, heads, 1, dim), K and V (batch, heads / group, keys, dim). Of the keys of
    sequence b the first lengths(b) count: int32, from 1 to `keys`; with `full` all lengths are
    `keys`, and no key is masked. Blocks and the other options are those of `attention`. Tensors may
    be larger than indices of 32 bits, which are int64 then.

    4 * dim operations for each head and key, as if all sequences were of full length. Raises
    `KernelError` for bad sizes, dtype, acc, out, group or scale.
    """

    def mask(place: Any, value: Any, other: Any) -> Any:
        if full:
            return value
        sequence, _, key, lengths = place
        return T.if_then_else(key < lengths[sequence], value, other)

    one: Any = 1 if isinstance(keys, int) else T.IntImm("int64", 1)  # as the other sizes
    sizes = (batch, heads, one, keys, dim, group)
    blocks = _write_blocks(sizes, (dtype, acc, out), mask, _find_factor(scale, dim))
    return _decode(sizes, dtype, str(out), blocks)


def _decode(sizes: Sizes, dtype: str, out: str, blocks: Parts) -> tvm.IRModule:
    B, H, M, N, D, group = sizes
    add_scores, add_softmax = blocks

    @I.ir_module
    class DecodeAttention:
        @T.prim_func(s_tir=True)
        def main(
            Q: T.Buffer((B, H, M, D), dtype),
            K: T.Buffer((B, H // group, N, D), dtype),
            V: T.Buffer((B, H // group, N, D), dtype),
            lengths: T.Buffer((B,), "int32"),
            Y: T.Buffer((B, H, M, D), out),
        ):
            T.func_attr({"tirx.noalias": True})
            scores = T.sblock_alloc_buffer((B, H, M, N))
            add_scores(Q, K, scores)
            add_softmax(scores, V, Y, lengths)

    return DecodeAttention


SAFETY = 2.0
"""For the terms of higher order."""


def _bound(
    q: Any,
    k: Any,
    v: Any,
    visible: Any,
    a: Any = None,
    *,
    dim: int,
    scale: float | None,
    dtype: str,
    u: float,
    tiny: float,
    fused_exponents: bool = False,
    mask_op: MaskOp = "add",
    xp: Any,
    **_: Any,
) -> Any:
    """How far off softmax(scale q k^T) v of one head may be, in any order of keys and however often
    rescaled: for q (queries, dim), k and v (keys, dim), visible (queries, keys): (queries, dim).

    Powers are rounded to `dtype`, the values', before they are multiplied. With `fused_exponents`
    one may be c x - c m of a score x and the maximum m, by one multiply-add.

    Maxima cancel. A row of equal scores sums ones; a key that leaves no other any power has the
    power 1, and its value is the result: to the bit of whole numbers, and of others but for a
    product with a power that is nearly 1, and the quotient by that. Where scores may be so far off
    that the first order says nothing, the result still lies among the values. Where exponents are
    fused, powers of equal scores are equal, but no ones.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        factor = _find_scale(scale, dim)
        scaled = factor * (q @ k.T)
        scores = xp.where(visible, _apply_mask(scaled, a, mask_op, xp), -math.inf)
        maximum = _largest(scores, xp)
        shifted = scores - maximum
        # How far off scores are, and so the logarithms of powers.
        magnitudes = xp.abs(q) @ xp.abs(k).T
        is_exact = magnitudes == 0
        if _are_whole(q, xp) and _are_whole(k, xp):
            is_exact |= magnitudes <= 1 / u
        rounded = factor * (q.shape[1] * (u * magnitudes + tiny))
        off = xp.where(visible, xp.where(is_exact, 0.0, rounded), 0.0)
        if a is not None:  # the scale, the product with it, and the sum, are rounded before
            own = u * (2 * xp.abs(scaled) + xp.where(scaled == 0, 0.0, xp.abs(scores)))
            off = xp.where(xp.isfinite(scores), off + own, 0.0)
        if fused_exponents:  # the maximum so far, when a power is computed, may be another one
            off = xp.where(visible, off + u * (xp.abs(maximum) - 2 * shifted), 0.0)
        counts = shifted + off - _largest(shifted - off, xp) > GONE
        powers = xp.exp(shifted)
        is_alone = counts.sum(axis=1, keepdims=True) == 1
        # To first order in u, doubled.
        distance = xp.where(counts, xp.abs(shifted), 0.0)
        terms = counts.sum(axis=1, keepdims=True)
        is_equal = ~(distance > 0).any(axis=1, keepdims=True)
        of_power = off / u + 3 * distance + xp.where(distance == 0, 0.0, 4 + EXPONENTIAL * distance)
        of_power = xp.where(counts, of_power, 0.0) + xp.where(is_equal, 0, RESCALING * terms)
        total = powers.sum(axis=1, keepdims=True)
        of_values = powers @ xp.abs(v) / total
        of_sum = (powers * of_power) @ xp.abs(v) / total + terms * of_values
        of_total = (powers * of_power).sum(axis=1, keepdims=True) / total
        of_result = xp.abs(powers @ v / total) * (of_total + DIVISION)
        # What powers lose in the type of the values: of themselves, and at least.
        facts, narrow, least = dtype_facts(dtype), 0.0, 0.0
        if facts.unit_roundoff > u:
            narrow, least = facts.unit_roundoff, facts.smallest_subnormal / 2
        counted = xp.where(counts, 1.0, xp.zeros_like(powers))
        stored = narrow * of_values + least * (counted @ xp.abs(v)) / total
        # Equal powers, which are ones where they are stored so.
        if fused_exponents or a is not None:
            is_equal &= _largest(xp.where(counts, off, 0.0), xp) < narrow / 4
        stored = xp.where(is_equal, 0.0, stored)
        first_order = SAFETY * (u * (of_sum + of_result) + stored)
        largest = _find_largest(counts, xp.abs(v), xp)
        among, alone = 2.1 * largest, 0.0 if _are_whole(v, xp) else 2 * u * largest
        if fused_exponents:
            alone = xp.minimum(alone + first_order, among)
        is_far = (xp.where(counts, off, 0.0) > 0.25).any(axis=1, keepdims=True)
        rounding = xp.where(is_far, among, xp.minimum(first_order, among))
        most = 1 + xp.amax(xp.abs(v), axis=0)
        return xp.where(is_alone, alone, rounding) + 2 * (len(k) + 2) * tiny * most


RUN = 64
"""Keys that are looked at together."""


def _are_whole(array: Any, xp: Any) -> bool:
    return bool((array == xp.round(array)).all())


def _largest(rows: Any, xp: Any) -> Any:
    return xp.amax(rows, axis=1, keepdims=True)


def _find_largest(counts: Any, magnitudes: Any, xp: Any) -> Any:
    """The largest of the values (keys, dim) that count for each query (queries, keys).

    Keys that count for all queries are looked at once for all of them. Of most runs of the others
    all or none count for a query: one key after the other are only those looked at that do not.
    """
    largest = xp.where(counts[:, :1], 0.0, xp.zeros_like(magnitudes[:1]))
    of_all = counts.all(axis=0)
    if bool(of_all.any()):
        largest = xp.maximum(largest, xp.amax(magnitudes[of_all], axis=0))
    of_some = counts.any(axis=0) & ~of_all
    counts, magnitudes = counts[:, of_some], magnitudes[of_some]
    for start in range(0, len(magnitudes), RUN):
        here, values = counts[:, start : start + RUN], magnitudes[start : start + RUN]
        is_whole = here.all(axis=1)
        is_part = here.any(axis=1) & ~is_whole
        largest[is_whole] = xp.maximum(largest[is_whole], xp.amax(values, axis=0))
        if bool(is_part.any()):
            counted = xp.where(here[is_part][:, :, None], values, 0.0)
            largest[is_part] = xp.maximum(largest[is_part], xp.amax(counted, axis=1))
    return largest
