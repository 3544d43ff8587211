"""Attention in its plain definition: six blocks, for tests of fusion."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

HEADS, QUERIES, KEYS, WIDTH = 2, 8, 12, 6


def make_attention(*, causal: bool, least: Any, divides_first: bool = False) -> tvm.IRModule:
    """Blocks "scores", "max", "exp", "sum", "weighted" and "out"; with `divides_first`, "exp" is
    followed by "share", which divides by the sum, and the weighted sum is the result.

    `least` is what the maximum begins with. Causal: query i sees keys up to i + 2.
    """

    def mask(query: Any, key: Any, score: Any) -> Any:
        low = T.float32(-np.inf)
        return T.if_then_else(key <= query + 2, score, low) if causal else score

    def share(power: Any, total: Any) -> Any:
        return power / total if divides_first else power

    def finish(result: Any, total: Any) -> Any:
        return result if divides_first else result / total

    @I.ir_module
    class Attention:
        @T.prim_func(s_tir=True)
        def main(
            Q: T.Buffer((HEADS, QUERIES, WIDTH), "float32"),
            K: T.Buffer((HEADS, KEYS, WIDTH), "float32"),
            V: T.Buffer((HEADS, KEYS, WIDTH), "float32"),
            out: T.Buffer((HEADS, QUERIES, WIDTH), "float32"),
        ):
            T.func_attr({"tirx.noalias": True})
            score = T.sblock_alloc_buffer((HEADS, QUERIES, KEYS))
            largest = T.sblock_alloc_buffer((HEADS, QUERIES))
            power = T.sblock_alloc_buffer((HEADS, QUERIES, KEYS))
            total = T.sblock_alloc_buffer((HEADS, QUERIES))
            result = T.sblock_alloc_buffer((HEADS, QUERIES, WIDTH))
            for h, i, j, d in T.grid(HEADS, QUERIES, KEYS, WIDTH):
                with T.sblock("scores"):
                    vh, vi, vj, vd = T.axis.remap("SSSR", [h, i, j, d])
                    with T.init():
                        score[vh, vi, vj] = T.float32(0)
                    score[vh, vi, vj] = score[vh, vi, vj] + Q[vh, vi, vd] * K[vh, vj, vd]
            for h, i, j in T.grid(HEADS, QUERIES, KEYS):
                with T.sblock("max"):
                    vh, vi, vj = T.axis.remap("SSR", [h, i, j])
                    with T.init():
                        largest[vh, vi] = least
                    largest[vh, vi] = T.max(largest[vh, vi], mask(vi, vj, score[vh, vi, vj]))
            for h, i, j in T.grid(HEADS, QUERIES, KEYS):
                with T.sblock("exp"):
                    vh, vi, vj = T.axis.remap("SSS", [h, i, j])
                    power[vh, vi, vj] = T.exp(mask(vi, vj, score[vh, vi, vj]) - largest[vh, vi])
            for h, i, j in T.grid(HEADS, QUERIES, KEYS):
                with T.sblock("sum"):
                    vh, vi, vj = T.axis.remap("SSR", [h, i, j])
                    with T.init():
                        total[vh, vi] = T.float32(0)
                    total[vh, vi] = total[vh, vi] + power[vh, vi, vj]
            for h, i, d, j in T.grid(HEADS, QUERIES, WIDTH, KEYS):
                with T.sblock("weighted"):
                    vh, vi, vd, vj = T.axis.remap("SSSR", [h, i, d, j])
                    with T.init():
                        result[vh, vi, vd] = T.float32(0)
                    result[vh, vi, vd] = (
                        result[vh, vi, vd] + share(power[vh, vi, vj], total[vh, vi]) * V[vh, vj, vd]
                    )
            for h, i, d in T.grid(HEADS, QUERIES, WIDTH):
                with T.sblock("out"):
                    vh, vi, vd = T.axis.remap("SSS", [h, i, d])
                    out[vh, vi, vd] = finish(result[vh, vi, vd], total[vh, vi])

    return Attention


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
