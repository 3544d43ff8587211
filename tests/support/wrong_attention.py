"""Wrong kernels of attention, in NumPy: most of them tile by tile, as they are fused."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from wrong import Wrong, f32

TILE = 4
"""Keys that are read at once."""
Repair = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Attend:
    """Attention by tiles of keys with a rolling update, and one of its parts wrong.

    Attributes
    ----------
    repair : of the maximum before and after, what corrects the sums so far
    start : the maximum before the first key
    visible : of the places of queries and of keys
    first : of a tile, the key that it is read from
    scale : of dim
    power : of a score and the maximum
    stored : of a power, what values are multiplied by
    head : of the head of queries, that of keys
    """

    group: int = 1
    repair: Repair = lambda old, new: np.exp(old - new)
    start: float = float(np.finfo(np.float32).min)
    visible: Callable[[Any, Any], Any] = lambda query, key: key >= 0
    first: Callable[[int], int] = lambda tile: tile
    scale: Callable[[int], float] = lambda dim: 1 / np.sqrt(dim)
    head: Callable[[int, int], int] = lambda head, group: head // group
    power: Repair = lambda score, top: np.exp(score - top)
    stored: Callable[[Any], Any] = lambda power: power
    last: int = 0
    carried: bool = True
    of_total: Repair | None = None

    def __call__(self, q: Any, k: Any, v: Any, lengths: Any = None) -> Any:
        result = np.empty(q.shape, f32)
        for b, h in np.ndindex(q.shape[:2]):
            shared = self.head(h, self.group)
            count = k.shape[2] if lengths is None else int(lengths[b])
            result[b, h] = self._attend(q[b, h], k[b, shared], v[b, shared], count)
        return result

    def _attend(self, q: Any, k: Any, v: Any, count: int) -> Any:
        queries = np.arange(len(q))[:, None] + len(k) - len(q)
        top, total = np.full((len(q), 1), f32(self.start)), np.zeros((len(q), 1), f32)
        weighted = np.zeros((len(q), v.shape[1]), f32)
        for tile in range(0, count - self.last, TILE):
            keys = np.arange(tile, min(tile + TILE, count - self.last))
            seen = np.broadcast_to(self.visible(queries, keys), (len(q), len(keys)))
            rows = np.clip(keys - tile + self.first(tile), 0, len(k) - 1)
            scores = np.where(seen, q @ k[rows].T * f32(self.scale(q.shape[1])), f32(self.start))
            largest = scores.max(axis=1, keepdims=True)
            new = np.maximum(top, largest) if self.carried else largest
            powers = np.where(seen, self.power(scores, new), f32(0))
            factor = self.repair(top, new)
            of_total = factor if self.of_total is None else self.of_total(top, new)
            total = total * of_total + powers.sum(axis=1, keepdims=True)
            weighted = weighted * factor + self.stored(powers) @ v[keys]
            top = new
        return weighted / total


LOG2_E = f32(1.4426950408889634)


def fuse_exponents(score: Any, top: Any, bits: int = 24) -> Any:
    """Powers whose exponents are one multiply-add, and one product of so many bits."""
    product = np.float64(top) * LOG2_E
    unit = np.exp2(np.floor(np.log2(np.maximum(np.abs(product), 1e-30))) + 1 - bits)
    product = np.clip(np.round(product / unit) * unit, -3e38, 3e38)
    return np.exp2((np.float64(score) * LOG2_E - product).astype(f32))


def _causal(query: Any, key: Any) -> Any:
    return key <= query


CAUSAL: Mapping[str, object] = {"causal": True}
WINDOW: Mapping[str, object] = {"causal": True, "window": 3}
GROUPED: Mapping[str, object] = {"group": 2}
SIZES = ((1, 2, 5, 9, 4), (2, 2, 7, 33, 8))
DECODED = ((2, 2, 9, 4), (3, 2, 33, 8))
RIGHT, RIGHT_CAUSAL = Attend(), Attend(visible=_causal)
RIGHT_WINDOW = Attend(visible=lambda query, key: (key <= query) & (key > query - 3))
_but = functools.partial(replace, RIGHT)


def _keep(old: Any, new: Any) -> Any:
    return np.ones_like(new)


def _unfused(top: Callable[[Any], Any]) -> Any:
    """In passes, with another maximum of scores."""

    def of(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.swapaxes(2, 3) / f32(np.sqrt(q.shape[3]))
        powers = np.exp(scores - top(scores))
        return powers @ v / powers.sum(axis=3, keepdims=True)

    return of


def _most(scores: Any) -> Any:
    return scores.max(axis=3, keepdims=True)


PLAIN = (
    ("the maximum is not subtracted", _unfused(lambda s: f32(0)), "one key"),
    ("the maximum begins at 0", _unfused(lambda s: np.maximum(_most(s), 0)), "low scores"),
    ("the maximum misses the last key", _unfused(lambda s: _most(s[..., :-1])), "last key"),
    ("the maximum misses the first key", _unfused(lambda s: _most(s[..., 1:])), "first key"),
    ("the maximum is not carried", _but(carried=False, repair=_keep), "one key"),
    ("sums are not repaired", _but(repair=_keep), "random floats"),
    ("the repair is inverted", _but(repair=lambda old, new: np.exp(new - old)), "integers"),
    (
        "the repair comes twice",
        _but(repair=lambda old, new: np.exp(2 * (old - new))),
        "random floats",
    ),
    ("the row sum is not repaired", _but(of_total=_keep), "random floats"),
    ("a tile of keys is read one early", _but(first=lambda tile: tile - 1), "one key"),
    ("the last key is left out", _but(last=1), "last key"),
    ("no scale", _but(scale=lambda dim: 1.0), "integers"),
    ("the scale is 1 / dim", _but(scale=lambda dim: 1 / dim), "integers"),
    ("a row of nothing but -inf is 0", lambda q, k, v: np.nan_to_num(RIGHT(q, k, v)), "no key"),
    ("the first key is left out", _but(visible=lambda q, k: k > 0), "first key"),
)
OF_OPTIONS: tuple[tuple[str, Any, str, Mapping[str, object]], ...] = (
    (
        "a bound off by one: a key too many",
        _but(visible=lambda q, k: k <= q + 1),
        "random floats",
        CAUSAL,
    ),
    (
        "a bound off by one: no own key",
        _but(visible=lambda q, k: (k < q) | (k == 0)),
        "one key",
        CAUSAL,
    ),
    (
        "the first query sees the first key alone",
        _but(visible=lambda q, k: k <= q - q.min()),
        "one key",
        CAUSAL,
    ),
    (
        "a window too wide",
        _but(visible=lambda q, k: (k <= q) & (k >= q - 3)),
        "random floats",
        WINDOW,
    ),
    ("no window", RIGHT_CAUSAL, "first key", WINDOW),
    ("the maximum begins at -inf", replace(RIGHT_WINDOW, start=-np.inf), "random floats", WINDOW),
    (
        "heads share keys with their neighbours' group",
        _but(group=2, head=lambda h, g: h % g // 2),
        "integers",
        GROUPED,
    ),
)


def _under(apply: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Attention in passes; `apply` is what a mask that is data does to scaled scores."""

    def of(q: Any, k: Any, v: Any, a: Any) -> Any:
        scores = apply(q @ k.swapaxes(2, 3) / f32(np.sqrt(q.shape[3])), a)
        powers = np.exp(scores - np.maximum(_most(scores), np.finfo(f32).min))
        return powers @ v / powers.sum(axis=3, keepdims=True)

    return of


ADDED: Mapping[str, object] = {"mask": "bhqk"}
LEAST: Mapping[str, object] = {"mask": "bhqk", "mask_op": "minimum"}
_MASKED = (
    ("no mask", _under(lambda s, a: s), "random floats", ADDED),
    ("a mask one key late", _under(lambda s, a: s + np.roll(a, 1, 3)), "random floats", ADDED),
    ("the first head's mask", _under(lambda s, a: s + a[:, :1]), "random floats", ADDED),
    ("the first query's mask", _under(lambda s, a: s + a[:, :, :1]), "integers", ADDED),
    ("a mask that is scaled", _under(lambda s, a: s + a / 2), "integers", ADDED),
    ("no infinite mask", _under(lambda s, a: s + np.maximum(a, -8)), "low scores", ADDED),
    ("added in place of a minimum", _under(lambda s, a: s + a), "random floats", LEAST),
    ("a maximum", _under(np.maximum), "integers", LEAST),
)
FUSED: Mapping[str, object] = {"fused_exponents": True}
RIGHT_FUSED = _but(power=fuse_exponents)
_FUSED = (
    (
        "the product of the maximum has 8 bits",
        _but(power=functools.partial(fuse_exponents, bits=8)),
        "random floats",
    ),
    *((text, of, seen_by) for text, of, seen_by in PLAIN if isinstance(of, Attend)),
)
_DECODED = (
    ("all keys count, whatever the length", lambda q, k, v, n: RIGHT(q, k, v), "one key"),
    (
        "a key beyond the length counts",
        lambda q, k, v, n: RIGHT(q, k, v, np.minimum(n + 1, k.shape[2])),
        "random floats",
    ),
    (
        "the last key is left out",
        lambda q, k, v, n: RIGHT(q, k, v, np.maximum(n - 1, 1)),
        "last key",
    ),
    (
        "a row of nothing but -inf is 0",
        lambda q, k, v, n: np.nan_to_num(RIGHT(q, k, v, n)),
        "no key",
    ),
    *((text, of, seen_by) for text, of, seen_by in PLAIN[4:] if isinstance(of, Attend)),
)
WRONG_ATTENTION = [
    *(Wrong("attention", text, of, seen_by, SIZES) for text, of, seen_by in PLAIN),
    *(
        Wrong("attention", text, of, seen_by, ((1, 4, 5, 9, 4),), options=options)
        for text, of, seen_by, options in (*OF_OPTIONS, *_MASKED)
    ),
    *(
        Wrong("attention", f"{text}, exponents fused", of, seen_by, SIZES, options=FUSED)
        for text, of, seen_by in _FUSED
    ),
    *(Wrong("decode_attention", text, of, seen_by, DECODED) for text, of, seen_by in _DECODED),
]
