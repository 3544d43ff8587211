"""Queries that each find one key that counts: whole numbers in, the same whole numbers out."""

from __future__ import annotations

from typing import Any

import numpy as np

from tirstep.modules import Problem
from tirstep.modules.dtypes import dtype_facts


def plant_places(problem: Problem, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Queries that each find one key that counts, by its number in binary; whole numbers as values.

    All other keys score less by so much that their exponentials are 0; under a mask that is data
    all score the same, and the mask alone finds one. Lengths of sequences are one key, and just
    before, at and behind the edges of ranges of 8 keys.
    """
    shape, options, rng = problem.shape, problem.options, np.random.default_rng(seed)
    keys, (batch, heads, queries) = shape["keys"], problem.inputs[0].shape[:-1]
    codes = 2.0 * (np.arange(keys)[:, None] >> np.arange(shape["dim"]) & 1) - 1
    lengths = np.array([1, 7, 8, 9, 15, 16, 17, 24, 25, keys])[:batch]
    is_masked = bool(options.get("mask"))
    rows = problem.inputs[3].shape[:-1] if is_masked else (batch, heads, queries)
    seen: Any = lengths[:, None, None] if len(problem.inputs) == 4 and not is_masked else keys
    if options.get("causal"):
        seen = (np.arange(queries) + keys - queries + 1)[: rows[-1]]
    found = rng.integers(0, seen, rows)
    wanted = np.broadcast_to(found, (batch, heads, queries))
    v = rng.integers(1, 100, problem.inputs[2].shape)
    hides = np.where(np.arange(keys) == found[..., None], 0, rng.choice([-np.inf, -6e4]))
    q, last = (0 * codes[wanted], hides) if is_masked else (512 * codes[wanted], lengths)
    arrays = q, np.broadcast_to(codes, problem.inputs[1].shape), v, last
    typed = [
        np.array(array, dtype_facts(tensor.dtype).numpy)
        for array, tensor in zip(arrays, problem.inputs, strict=False)
    ]
    head = np.arange(heads)[:, None] // options["group"]
    return typed, v[np.arange(batch)[:, None, None], head, wanted]
