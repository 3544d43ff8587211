"""Attention in its plain definition: six blocks, for tests of fusion."""

from __future__ import annotations

import numpy as np
import tvm
from kernels import parse_kernel

HEADS, QUERIES, KEYS, WIDTH = 2, 8, 12, 6


def make_attention(*, causal: bool, least: str, divides_first: bool = False) -> tvm.IRModule:
    """Blocks "scores", "max", "exp", "sum", "weighted" and "out"; with `divides_first`, "weighted"
    divides by the sum, and "out" copies.

    `least` is what the maximum begins with. Causal: query i sees keys up to i + 2.
    """
    score = "score[vh, vi, vj]"
    if causal:
        score = f"T.if_then_else(vj <= vi + 2, {score}, T.float32('-inf'))"
    shares = ("/ total[vh, vi]", "") if divides_first else ("", "/ total[vh, vi]")
    return parse_kernel(f"""
        Q ({HEADS}, {QUERIES}, {WIDTH}), K ({HEADS}, {KEYS}, {WIDTH}), V ({HEADS}, {KEYS}, {WIDTH}),
        out ({HEADS}, {QUERIES}, {WIDTH})
        T.func_attr({{"tirx.noalias": True}})
        score = T.sblock_alloc_buffer(({HEADS}, {QUERIES}, {KEYS}))
        largest = T.sblock_alloc_buffer(({HEADS}, {QUERIES}))
        power = T.sblock_alloc_buffer(({HEADS}, {QUERIES}, {KEYS}))
        total = T.sblock_alloc_buffer(({HEADS}, {QUERIES}))
        result = T.sblock_alloc_buffer(({HEADS}, {QUERIES}, {WIDTH}))
        for h, i, j, d in T.grid({HEADS}, {QUERIES}, {KEYS}, {WIDTH}):
            with T.sblock("scores", "SSSR", h, i, j, d):
                score[vh, vi, vj] += Q[vh, vi, vd] * K[vh, vj, vd]
        for h, i, j in T.grid({HEADS}, {QUERIES}, {KEYS}):
            with T.sblock("max", "SSR", h, i, j):
                with T.init():
                    largest[vh, vi] = {least}
                largest[vh, vi] = T.max(largest[vh, vi], {score})
        for h, i, j in T.grid({HEADS}, {QUERIES}, {KEYS}):
            with T.sblock("exp", "SSS", h, i, j):
                power[vh, vi, vj] = T.exp({score} - largest[vh, vi])
        for h, i, j in T.grid({HEADS}, {QUERIES}, {KEYS}):
            with T.sblock("sum", "SSR", h, i, j):
                total[vh, vi] += power[vh, vi, vj]
        for h, i, d, j in T.grid({HEADS}, {QUERIES}, {WIDTH}, {KEYS}):
            with T.sblock("weighted", "SSSR", h, i, d, j):
                result[vh, vi, vd] += power[vh, vi, vj] {shares[0]} * V[vh, vj, vd]
        for h, i, d in T.grid({HEADS}, {QUERIES}, {WIDTH}):
            with T.sblock("out", "SSS", h, i, d):
                out[vh, vi, vd] = result[vh, vi, vd] {shares[1]}
    """)


def draw_attention() -> list[np.ndarray]:
    """Q, K and V."""
    generator = np.random.default_rng(0)
    rows = (QUERIES, KEYS, KEYS)
    return [generator.standard_normal((HEADS, n, WIDTH)).astype("float32") for n in rows]


def compute_attention(inputs: list[np.ndarray], *, causal: bool) -> np.ndarray:
    """What it means, in float64."""
    queries, keys, values = (each.astype("float64") for each in inputs)
    scores = queries @ keys.transpose(0, 2, 1)
    if causal:
        seen = np.arange(KEYS) <= np.arange(QUERIES)[:, None] + 2
        scores = np.where(seen, scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ values
