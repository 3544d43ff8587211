"""Problems of kernels: small ones, and whole fragments of tensor cores."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from tirstep.modules import Problem, get_kernel, kernels
from tirstep.transforms.recipes.mma import TYPES

from .drawn_programs import Choice

Choices = Mapping[str, Sequence[Any]]
SMALL = (1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 20, 24, 32)
FEW = (1, 3, 4, 8)
ROWS = (1, 4, 7, 16, 32, 40)
FLAT: Choices = {"n": (1, 5, 16, 37, 64)}
REDUCED: Choices = {"m": FEW, "n": ROWS}
PRODUCT: Choices = {"m": SMALL, "n": SMALL, "k": SMALL}
SIZES: dict[str, Choices] = {
    **{it.name: dict.fromkeys(it.size_names, FEW) for it in kernels().values()},
    **dict.fromkeys(("vector_add", "window_sum", "relu", "gelu"), FLAT),
    **dict.fromkeys(("matvec", "row_sum", "softmax", "layer_norm", "rms_norm"), REDUCED),
    **dict.fromkeys(("matmul", "matmul_bias_relu", "matmul_bias_gelu"), PRODUCT),
    **dict.fromkeys(("mlp_swiglu", "rms_norm_matmul"), PRODUCT),
    "transpose": {"m": SMALL, "n": SMALL},
    "row_argmax": REDUCED,
    "batched_matmul": {"batch": (1, 2, 3), **PRODUCT},
    "conv1d": {"m": SMALL, "n": (1, 2, 3, 5, 8)},
    "conv2d": {
        "n": (1, 2),
        "h": (3, 4, 6),
        "w": (3, 5, 8),
        "ci": (1, 2, 4),
        "co": (1, 3, 4),
        "kh": (1, 3),
        "kw": (1, 2, 3),
    },
    "depthwise_conv2d": {"b": (1, 2), "c": (1, 2), "h": (1, 3, 6), "w": (1, 4, 8), "k": (1, 3)},
    "attention": {
        "batch": (1, 1, 2),
        "heads": (1, 2),
        "queries": (1, 4, 7, 8),
        "keys": (8, 8, 12, 13),
        "dim": (1, 3, 4, 8),
    },
    "decode_attention": {"batch": (1, 2), "heads": (1, 2, 4), "keys": (1, 8, 13), "dim": (1, 4, 8)},
}
"""Of each kernel."""
OPTIONS: dict[str, Choices] = {
    "matmul": {"transpose_b": (False, False, True)},
    "batched_matmul": {"transpose_b": (False, True)},
    "softmax": {"online": (False, True)},
    "conv1d": {"over": ("filter", "filter", "output", "padded")},
    "conv2d": {"stride": (1, 1, 2), "padding": (0, 1, 2), "dilation": (1, 1)},
    "attention": {"causal": (False, True, True), "scale": (None, None, 0.25)},
    "decode_attention": {"full": (False, False, True), "scale": (None, 0.25)},
    "window_sum": {"width": (1, 2, 3, 5)},
}
DTYPES = ("float32", "float32", "float32", "float16", "bfloat16", "int8", "int32", "float8_e4m3fn")
HALVES: Choices = {
    "dtype": ("float16", "bfloat16"),
    "out": (None, "float32"),
    "causal": (False, True, True),
    "scale": (None, None, 0.25),
}
MULTIPLIED: Choices = {"dtype": ("float16", "float16", *TYPES), "transpose_b": (False, True)}
PARTS: dict[str, tuple[str, Choices, Choices]] = {
    "fragments": (
        "matmul",
        {"m": (16, 32, 32, 64, 20), "n": (16, 32, 48, 64, 24), "k": (16, 32, 64, 96, 40)},
        MULTIPLIED,
    ),
    "warpgroups": (
        "matmul",
        {"m": (64, 64, 128), "n": (8, 32, 64, 64), "k": (128, 192, 256)},
        MULTIPLIED,
    ),
    "quads": (
        "attention",
        {"batch": (1,), "heads": (1, 2), "queries": (32,), "keys": (32, 64), "dim": (16, 32)},
        HALVES,
    ),
    "rows": (
        "attention",
        {
            "batch": (1,),
            "heads": (1, 2, 3),
            "queries": (64, 64, 128, 192),
            "keys": (32, 64, 96, 128),
            "dim": (16, 32, 48),
        },
        {**HALVES, "fused_exponents": (False, True)},
    ),
}
"""Problems that tensor cores are for: kernel, sizes and options."""


class Dice:
    """Drawn by Python's `random`."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def one(self, values: Sequence[Any], label: str) -> Any:
        return self._random.choice(values)


def _draw(choice: Choice, choices: Choices) -> dict[str, Any]:
    return {name: choice.one(values, name) for name, values in choices.items()}


def draw_problem(choice: Choice, name: str) -> Problem:
    """A small problem of a kernel: sizes of one element and odd ones among them.

    One in four of matmul's is of whole fragments of tensor cores, in a type that they multiply, and
    one in eight of whole tiles of a warpgroup; one in three of attention's is of whole fragments.
    """
    parts = {
        "matmul": (*["fragments"] * 2, "warpgroups", *[None] * 5),
        "attention": (None, None, "quads"),
    }
    part = choice.one(parts[name], "whole parts") if name in parts else None
    return draw_part(choice, part) if part else draw_kernel(choice, name, SIZES)


def draw_kernel(choice: Choice, name: str, sizes: Mapping[str, Choices]) -> Problem:
    """A problem of a kernel, of some sizes, and its options."""
    kernel = get_kernel(name)
    shape, drawn = _draw(choice, sizes[name]), _draw(choice, OPTIONS.get(name, {}))
    if drawn.get("causal"):
        drawn["window"] = choice.one((None, None, 1, 3, 8), "window")
    if "heads" in shape:
        drawn["group"] = choice.one([n for n in (1, 2, 4) if shape["heads"] % n == 0], "group")
    dtype = choice.one([dtype for dtype in DTYPES if dtype in kernel.dtypes], "dtype")
    return kernel.problem(**shape, dtype=dtype, **drawn)


def draw_part(choice: Choice, part: str) -> Problem:
    """A problem of `PARTS`: whole fragments, tiles of warpgroups, or rows of these."""
    name, sizes, options = PARTS[part]
    shape, drawn = _draw(choice, sizes), _draw(choice, options)
    dtype = str(drawn.get("dtype"))
    if part == "fragments" and dtype in HALVES["dtype"]:
        drawn["out"] = choice.one((None, dtype), "out")
    if part == "warpgroups":
        if dtype not in HALVES["dtype"]:  # which alone may lie across k
            drawn["transpose_b"] = choice.one((True, True, True, False), "along k")
        if dtype.startswith("float8"):
            drawn["acc"] = choice.one(("fp22", "fp22", "float32"), "acc")
    if part == "rows" and drawn["causal"]:
        shape["keys"] = shape["queries"] + choice.one((0, 32, 64), "more keys")
        drawn["window"] = choice.one((None, None, None, 20, 70), "window")
    return get_kernel(name).problem(**shape, **drawn)
