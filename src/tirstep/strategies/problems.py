"""Problems for players: small ones, whole fragments of tensor cores, and huge ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tirstep.modules import Problem, get_kernel
from tirstep.transforms.recipes.mma import TYPES

from .expressions import Choice

SMALL = (1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 20, 24, 32)
FEW = (1, 3, 4, 8)
ROWS = (1, 4, 7, 16, 32, 40)
SIZES: dict[str, dict[str, Sequence[int]]] = {
    "vector_add": {"n": (1, 5, 16, 37, 64)},
    "window_sum": {"n": (1, 5, 16, 37, 64)},
    "transpose": {"m": SMALL, "n": SMALL},
    "matmul": {"m": SMALL, "n": SMALL, "k": SMALL},
    "matmul_bias_relu": {"m": SMALL, "n": SMALL, "k": SMALL},
    "conv1d": {"m": SMALL, "n": (1, 2, 3, 5, 8)},
    "matvec": {"m": FEW, "n": ROWS},
    "row_sum": {"m": FEW, "n": ROWS},
    "softmax": {"m": FEW, "n": ROWS},
    "layer_norm": {"m": FEW, "n": ROWS},
    "rms_norm": {"m": FEW, "n": ROWS},
    "attention": {
        "batch": (1, 1, 2),
        "heads": (1, 2),
        "queries": (1, 4, 7, 8),
        "keys": (8, 8, 12, 13),
        "dim": (1, 3, 4, 8),
    },
    "depthwise_conv2d": {"b": (1, 2), "c": (1, 2), "h": (1, 3, 6), "w": (1, 4, 8), "k": (1, 3)},
}
RARE: dict[str, dict[str, Sequence[int]]] = {
    "relu": {"n": (1, 5, 16, 37, 64)},
    "gelu": {"n": (1, 5, 16, 37)},
    "row_argmax": {"m": FEW, "n": ROWS},
    "matmul_bias_gelu": {"m": SMALL, "n": SMALL, "k": SMALL},
    "mlp_swiglu": {"m": SMALL, "n": SMALL, "k": SMALL},
    "rms_norm_matmul": {"m": SMALL, "n": SMALL, "k": SMALL},
    "batched_matmul": {"batch": (1, 2, 3), "m": SMALL, "n": SMALL, "k": SMALL},
    "conv2d": {
        "n": (1, 2),
        "h": (3, 4, 6),
        "w": (3, 5, 8),
        "ci": (1, 2, 4),
        "co": (1, 3, 4),
        "kh": (1, 3),
        "kw": (1, 2, 3),
    },
    "attention": SIZES["attention"],
    "decode_attention": {"batch": (1, 2), "heads": (1, 2, 4), "keys": (1, 8, 13), "dim": (1, 4, 8)},
}
"""Kernels that the long fuzzer draws as well; the tests have those of `SIZES`."""
HUGE: tuple[tuple[str, dict[str, int]], ...] = (
    ("vector_add", {"n": 2**31 - 8}),
    ("vector_add", {"n": 2**31 - 1}),
    ("transpose", {"m": 46340, "n": 46340}),
    ("matmul", {"m": 1625, "n": 1625, "k": 1625}),
    ("matmul", {"m": 2048, "n": 2048, "k": 1024}),
    ("row_sum", {"m": 1, "n": 2**31 - 1}),
    ("depthwise_conv2d", {"b": 32, "c": 512, "h": 112, "w": 112, "k": 7}),
)
"""Nests of about 2**31 iterations and more: they are scheduled, and not run."""
OPTIONS: dict[str, dict[str, Sequence[Any]]] = {
    "matmul": {"transpose_b": (False, False, True)},
    "softmax": {"online": (False, True)},
    "conv1d": {"over": ("filter", "filter", "output", "padded")},
    "attention": {"causal": (False, True, True), "scale": (None, None, 0.25)},
    "window_sum": {"width": (1, 2, 3, 5)},
}
RARE_OPTIONS: dict[str, dict[str, Sequence[Any]]] = {
    "batched_matmul": {"transpose_b": (False, True)},
    "conv2d": {"stride": (1, 1, 2), "padding": (0, 1, 2), "dilation": (1, 1)},
    "attention": {"causal": (True,), "window": (None, 1, 3, 8), "scale": (None, 0.25)},
    "decode_attention": {"full": (False, False, True), "scale": (None, 0.25)},
}
RARE_DTYPES = ("float32", "float32", "float16", "bfloat16", "int8", "int32", "float8_e4m3fn")
WHOLE = {"m": (16, 32, 32, 64, 20), "n": (16, 32, 48, 64, 24), "k": (16, 32, 64, 96, 40)}
OF_FRAGMENTS: dict[str, Sequence[Any]] = {
    "dtype": ("float16", "float16", *TYPES),
    "transpose_b": (False, True),
}
WARPGROUPS = {"m": (64, 64, 128), "n": (8, 32, 64, 64), "k": (128, 192, 256)}
OF_QUADS: dict[str, Sequence[Any]] = {
    "dtype": ("float16", "bfloat16"),
    "out": (None, "float32"),
    "causal": (False, True, True),
    "scale": (None, None, 0.25),
}
OF_ROWS: dict[str, Sequence[Any]] = {**OF_QUADS, "fused_exponents": (False, True)}
OF_WARPGROUPS = {
    "batch": (1,),
    "heads": (1, 2, 3),
    "queries": (64, 64, 128, 192),
    "keys": (32, 64, 96, 128),
    "dim": (16, 32, 48),
}
"""Of attention whose queries are whole rows of a warpgroup."""
ATTENDED = {"batch": (1,), "heads": (1, 2), "queries": (32,), "keys": (32, 64), "dim": (16, 32)}
STREAMED, SUMS = (1, 5, 8, 13, 24), (12, 16, 24, 36, 48)
"""Sizes of results, and of sums of several parts."""
DTYPES = ("float32", "float32", "float32", "float16", "int8")


class Dice:
    """Drawn by Python's `random`."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def one(self, values: Sequence[Any], label: str) -> Any:
        return self._random.choice(values)


def draw_problem(choice: Choice, name: str) -> Problem:
    """A small problem of a kernel: sizes of one element and odd ones among them.

    One in four of matmul's is of whole fragments of tensor cores, in a type that they multiply, and
    one in eight of whole tiles of a warpgroup; one in three of attention's is of whole fragments.
    """
    if name == "matmul":
        parts = choice.one([*[draw_fragments] * 2, draw_warpgroups, *[None] * 5], "whole parts")
        if parts is not None:
            return parts(choice)
    if name == "attention" and choice.one((False, False, True), "whole fragments"):
        return draw_quads(choice)
    kernel = get_kernel(name)
    sizes = {size: choice.one(values, size) for size, values in SIZES[name].items()}
    drawn = {key: choice.one(values, key) for key, values in OPTIONS.get(name, {}).items()}
    dtype = choice.one([dtype for dtype in DTYPES if dtype in kernel.dtypes], "dtype")
    return kernel.problem(**sizes, dtype=dtype, **drawn)


def draw_rare(choice: Choice, name: str) -> Problem:
    """A small problem of a kernel or form that the tests do not draw, in more types."""
    kernel = get_kernel(name)
    sizes = {size: choice.one(values, size) for size, values in RARE[name].items()}
    drawn = {key: choice.one(values, key) for key, values in RARE_OPTIONS.get(name, {}).items()}
    if "heads" in sizes:
        drawn["group"] = choice.one([n for n in (1, 2, 4) if sizes["heads"] % n == 0], "group")
    dtype = choice.one([dtype for dtype in RARE_DTYPES if dtype in kernel.dtypes], "dtype")
    return kernel.problem(**sizes, dtype=dtype, **drawn)


def draw_fragments(choice: Choice) -> Problem:
    """A product of whole fragments of 16x16 mostly, in one of the types of tensor cores."""
    sizes = {size: choice.one(values, size) for size, values in WHOLE.items()}
    drawn = {key: choice.one(values, key) for key, values in OF_FRAGMENTS.items()}
    if drawn["dtype"] in ("float16", "bfloat16"):
        drawn["out"] = choice.one((None, drawn["dtype"]), "out")
    return get_kernel("matmul").problem(**sizes, **drawn)


def draw_warpgroups(choice: Choice) -> Problem:
    """A product of whole tiles of a warpgroup, of 64 rows, in one of the types of wgmma."""
    sizes = {size: choice.one(values, size) for size, values in WARPGROUPS.items()}
    drawn = {key: choice.one(values, key) for key, values in OF_FRAGMENTS.items()}
    if drawn["dtype"] not in ("float16", "bfloat16"):  # which alone may lie across k
        drawn["transpose_b"] = choice.one((True, True, True, False), "along k")
    if str(drawn["dtype"]).startswith("float8"):
        drawn["acc"] = choice.one(("fp22", "fp22", "float32"), "acc")
    return get_kernel("matmul").problem(**sizes, **drawn)


def draw_quads(choice: Choice) -> Problem:
    """Attention of whole fragments, in half precision."""
    sizes = {size: choice.one(values, size) for size, values in ATTENDED.items()}
    drawn = {key: choice.one(values, key) for key, values in OF_QUADS.items()}
    return get_kernel("attention").problem(**sizes, **drawn)


def draw_rows(choice: Choice) -> Problem:
    """Attention whose queries are whole rows of a warpgroup, in half precision."""
    sizes = {size: choice.one(values, size) for size, values in OF_WARPGROUPS.items()}
    drawn = {key: choice.one(values, key) for key, values in OF_ROWS.items()}
    if drawn["causal"]:
        sizes["keys"] = sizes["queries"] + choice.one((0, 32, 64), "more keys")
        drawn["window"] = choice.one((None, None, None, 20, 70), "window")
    return get_kernel("attention").problem(**sizes, **drawn)


def draw_streams(choice: Choice) -> Problem:
    """A sum that parts divide, for GPU blocks that share its steps."""
    if choice.one((True, False), "rows"):
        return get_kernel("row_sum").problem(m=choice.one(STREAMED, "m"), n=choice.one(SUMS, "n"))
    sizes = {size: choice.one(STREAMED, size) for size in "mn"}
    return get_kernel("matmul").problem(**sizes, k=choice.one(SUMS, "k"))


def draw_huge(choice: Choice) -> Problem:
    name, sizes = choice.one(HUGE, "huge")
    return get_kernel(name).problem(**sizes)
