"""The arithmetic that TVM's CUDA is compiled to, at its worst: each operation is as far off as
NVIDIA's documents allow, in a random direction, and subnormal numbers are taken for zeros.
"""

from typing import Any

import numpy as np

U = 2.0**-24
TINY = float(np.finfo(np.float32).smallest_normal)


class FastMath:
    """float32 with errors of a GPU's fast operations; sums in a random order, or a given one."""

    def __init__(self, seed: int, *, order: str = "random") -> None:
        self.rng = np.random.default_rng(seed)
        self.order = order

    def flush(self, values: Any) -> Any:
        values = np.asarray(values, np.float32)
        return np.where(
            np.abs(values) < np.float32(TINY), np.copysign(np.float32(0), values), values
        )

    def exp(self, x: Any) -> Any:
        """__expf: 2 + floor(1.173 |x|) units in the last place, and exp(0) is 1."""
        x = self.flush(x).astype(np.float64)
        return self._off(np.exp(x), np.where(x == 0, 0.0, 2 + np.floor(1.173 * np.abs(x))))

    def divide(self, a: Any, b: Any) -> Any:
        """__fdividef: 2 units in the last place, of 1 none; 0 for a divisor beyond 2^126."""
        a, b = (self.flush(operand).astype(np.float64) for operand in (a, b))
        quotient = self._off(a / b, np.where(b == 1, 0.0, 2.0))
        far = (np.abs(b) > 2.0**126) & np.isfinite(b) & np.isfinite(a)
        return np.where(far, np.float32(0), quotient)

    def rsqrt(self, x: Any) -> Any:
        """rsqrtf: 2 units in the last place."""
        return self._off(1 / np.sqrt(self.flush(x).astype(np.float64)), 2.0)

    def sum(self, terms: Any) -> Any:
        """Of the rows, one by one or in pairs, in an order of chance."""
        terms = self.flush(terms)[:, self.rng.permutation(terms.shape[1])]
        if self.order == "serial":
            return self.flush(np.add.accumulate(terms, axis=1, dtype=np.float32)[:, -1:])
        while terms.shape[1] > 1:
            if terms.shape[1] % 2:
                terms = np.concatenate([terms, np.zeros_like(terms[:, :1])], axis=1)
            terms = self.flush(terms[:, ::2] + terms[:, 1::2])
        return terms

    def _off(self, exact: Any, ulps: Any) -> Any:
        """As many units off as allowed, up or down."""
        _, exponents = np.frexp(exact)
        sign = self.rng.choice((-1.0, 1.0), np.shape(exact))
        moved = exact + sign * ulps * np.ldexp(1.0, exponents - 24)
        rounded = moved.astype(np.float32)
        # What comes out is a float32: the next one towards the true value where this is too far.
        unit = np.ldexp(1.0, exponents - 24)
        is_far = np.abs(rounded.astype(np.float64) - exact) > np.maximum(ulps, 0.5) * unit
        rounded = np.where(is_far, np.nextafter(rounded, exact.astype(np.float32)), rounded)
        return self.flush(np.where(np.isfinite(exact) & (exact != 0), rounded, exact))


def softmax(m: FastMath, a: Any) -> Any:
    powers = m.exp(a - a.max(axis=1, keepdims=True))
    return m.divide(powers, m.sum(powers))


def online_softmax(m: FastMath, a: Any) -> Any:
    """Parts of the row for each of 4 threads, and their maxima and sums put together."""
    tops, powers = [], []
    for part in np.array_split(a, min(4, a.shape[1]), axis=1):
        top = np.full((len(a), 1), np.finfo(np.float32).min)
        power = np.zeros((len(a), 1), np.float32)
        for column in np.split(part, part.shape[1], axis=1):
            new = np.maximum(top, column)
            power = m.flush(power * m.exp(top - new) + m.exp(column - new))
            top = new
        tops.append(top)
        powers.append(power)
    top, power = tops[0], powers[0]
    for other, more in zip(tops[1:], powers[1:], strict=True):
        new = np.maximum(top, other)
        power = m.flush(power * m.exp(top - new) + more * m.exp(other - new))
        top = new
    return m.divide(m.exp(a - top), power)


def layer_norm(m: FastMath, a: Any, gain: Any, shift: Any) -> Any:
    n = np.float32(a.shape[1])
    centered = m.flush(m.flush(a) - m.divide(m.sum(a), n))
    variance = m.divide(m.sum(centered * centered), n)
    scaled = m.flush(centered * m.rsqrt(variance + np.float32(1e-5)))
    return m.flush(scaled * gain + shift)


def rms_norm(m: FastMath, a: Any, gain: Any) -> Any:
    square = m.divide(m.sum(a * a), np.float32(a.shape[1]))
    return m.flush(m.flush(a) * m.rsqrt(square + np.float32(1e-5)) * gain)


def gelu(m: FastMath, a: Any) -> Any:
    slope = np.float32(-2 * np.sqrt(2 / np.pi))
    power = m.exp(slope * (a + np.float32(0.044715) * a * a * a))
    return m.divide(m.flush(a), np.float32(1) + power)


def mlp_swiglu(m: FastMath, x: Any, gate: Any, up: Any) -> Any:
    gates = multiply(m, x, gate)
    return m.flush(m.divide(gates, np.float32(1) + m.exp(-gates)) * multiply(m, x, up))


def rms_norm_matmul(m: FastMath, x: Any, gain: Any, w: Any) -> Any:
    return multiply(m, rms_norm(m, x, gain), w)


def multiply(m: FastMath, a: Any, b: Any) -> Any:
    """A (m, k) times B (k, n)."""
    columns = [m.sum(m.flush(a) * m.flush(column)) for column in b.T]
    return np.concatenate(columns, axis=1)


def attention(m: FastMath, q: Any, k: Any, v: Any) -> Any:
    return _by_head(m, q, k, v, _attend)


def fused_attention(m: FastMath, q: Any, k: Any, v: Any) -> Any:
    return _by_head(m, q, k, v, _attend_by_tiles)


def _by_head(m: FastMath, q: Any, k: Any, v: Any, attend: Any) -> Any:
    heads = [attend(m, q[place], k[place], v[place]) for place in np.ndindex(q.shape[:2])]
    return np.reshape(heads, q.shape)


def _attend(m: FastMath, q: Any, k: Any, v: Any) -> Any:
    scores, scale = multiply(m, q, k.T), np.float32(1 / np.sqrt(q.shape[1]))
    top = np.maximum(scores.max(axis=1, keepdims=True), np.finfo(np.float32).min)
    powers = m.exp((scores - top) * scale)
    return m.divide(multiply(m, powers, v), m.sum(powers))


def _attend_by_tiles(m: FastMath, q: Any, k: Any, v: Any) -> Any:
    """By tiles of 2 keys, with a rolling update."""
    scale, top = np.float32(1 / np.sqrt(q.shape[1])), np.finfo(np.float32).min
    total, weighted = np.zeros((len(q), 1), np.float32), np.zeros((len(q), v.shape[1]), np.float32)
    for tile in range(0, len(k), 2):
        scores = multiply(m, q, k[tile : tile + 2].T)
        new = np.maximum(top, scores.max(axis=1, keepdims=True))
        powers, repair = m.exp((scores - new) * scale), m.exp((top - new) * scale)
        total = m.flush(total * repair + m.sum(powers))
        weighted = m.flush(weighted * repair + multiply(m, powers, v[tile : tile + 2]))
        top = new
    return m.divide(weighted, total)


RIGHT = {
    "mlp_swiglu": mlp_swiglu,
    "rms_norm_matmul": rms_norm_matmul,
    "attention": attention,
    "fused attention": fused_attention,
    "softmax": softmax,
    "online softmax": online_softmax,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "gelu": gelu,
}
