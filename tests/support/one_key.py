"""Queries that each find one key that counts: whole numbers in, the same whole numbers out."""

from __future__ import annotations

import numpy as np

from tirstep.modules import Problem
from tirstep.modules.dtypes import dtype_facts


def plant_places(problem: Problem, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Queries that each find one key that counts, by its number in binary; whole numbers as values.

    All other keys score less by so much that their exponentials are 0.
    """
    shape, rng = problem.shape, np.random.default_rng(seed)
    queries, keys = shape["queries"], shape["keys"]
    codes = 2.0 * (np.arange(keys)[:, None] >> np.arange(shape["dim"]) & 1) - 1
    seen = np.full(queries, keys)
    if problem.options["causal"]:
        seen = np.arange(queries) + keys - queries + 1
    wanted = rng.integers(0, seen, (shape["batch"], shape["heads"], queries))
    v = rng.integers(1, 100, problem.inputs[2].shape)
    arrays = 512 * codes[wanted], np.broadcast_to(codes, problem.inputs[1].shape), v
    typed = [
        np.array(array, dtype_facts(tensor.dtype).numpy)
        for array, tensor in zip(arrays, problem.inputs, strict=True)
    ]
    return typed, np.take_along_axis(v, wanted[..., None], axis=2)
