"""The problems that the tests go through, and the CPU that they run on."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tvm

from tirstep.modules import Problem, get_kernel
from tirstep.modules.dtypes import dtype_facts

HALF_SUMS = [
    {"dtype": "float32"},
    {"dtype": "float16"},
    {"dtype": "float16", "acc": "float16"},
    {"dtype": "bfloat16"},
    {"dtype": "int8"},
]
HALF_OUTPUTS = [
    {"dtype": "float16", "out": "float16"},
    {"dtype": "bfloat16", "out": "bfloat16"},
]
OWN_TYPE = [{"dtype": name} for name in ("float32", "float16", "bfloat16", "int32", "int8")]

FLOATS = OWN_TYPE[:3]

# kernel, sizes, and what of it to try: primes and ones, and the tutorials' sizes where cheap.
CASES: list[tuple[str, tuple[int, ...], list[dict[str, Any]]]] = [
    ("vector_add", (1,), OWN_TYPE[:1]),
    ("vector_add", (251,), OWN_TYPE),
    ("vector_add", (1024,), OWN_TYPE[:1]),
    ("relu", (1,), OWN_TYPE[:1]),
    ("relu", (251,), OWN_TYPE),
    ("gelu", (1,), FLOATS[:1]),
    ("gelu", (251,), FLOATS),
    ("transpose", (1, 1), OWN_TYPE[:1]),
    ("transpose", (7, 13), OWN_TYPE),
    *(
        (name, sizes, FLOATS[:tried])
        for name in ("softmax", "rms_norm", "layer_norm")
        for sizes, tried in (((1, 1), 1), ((7, 13), 3), ((3, 1021), 1))
    ),
    ("softmax", (7, 13), [{"online": True, **types} for types in FLOATS]),
    ("softmax", (3, 1021), [{"online": True}]),
    *(
        (name, sizes, HALF_SUMS[:tried])
        for name in ("row_sum", "matvec")
        for sizes, tried in (((1, 1), 1), ((7, 13), 5), ((3, 1021), 1))
    ),
    ("window_sum", (1,), OWN_TYPE[:1]),
    ("window_sum", (251,), OWN_TYPE),
    ("window_sum", (83,), [{"width": width} for width in (1, 2, 7, 64)]),
    ("window_sum", (83,), [{"width": 64, "dtype": dtype} for dtype in ("bfloat16", "int8")]),
    ("window_sum", (1024,), OWN_TYPE[:1]),
    *(
        ("conv1d", sizes, [{"over": over, **types} for types in HALF_SUMS[:tried]])
        for over in ("filter", "output", "padded")
        for sizes, tried in (((1, 1), 1), ((1, 7), 1), ((7, 1), 1), ((13, 5), 5), ((5, 13), 1))
    ),
    ("conv1d", (16384, 32), [{"over": "filter"}, {"over": "output"}]),
    ("matmul", (1, 1, 1), HALF_SUMS[:1] + HALF_OUTPUTS[:1]),
    ("matmul", (7, 5, 13), HALF_SUMS + HALF_OUTPUTS),
    ("matmul", (7, 5, 13), [{"transpose_b": True, **types} for types in HALF_SUMS[:2]]),
    ("matmul", (7, 5, 13), [{"transpose_b": True, **HALF_OUTPUTS[1]}]),
    ("matmul", (3, 2, 4099), HALF_SUMS),
    ("matmul", (128, 64, 256), HALF_SUMS[:1]),
    ("matmul_bias_relu", (1, 1, 1), HALF_SUMS[:1]),
    ("matmul_bias_relu", (7, 5, 13), HALF_SUMS + HALF_OUTPUTS),
    ("depthwise_conv2d", (1, 1, 1, 1, 1), HALF_SUMS[:1]),
    ("depthwise_conv2d", (1, 2, 2, 3, 7), HALF_SUMS[:1]),
    ("depthwise_conv2d", (2, 3, 5, 7, 3), HALF_SUMS),
    ("depthwise_conv2d", (3, 4, 16, 32, 7), HALF_SUMS[:1]),
    *(
        (name, sizes, [*FLOATS[:tried], *HALF_OUTPUTS[:tried]])
        for name in ("mlp_swiglu", "rms_norm_matmul")
        for sizes, tried in (((1, 1, 1), 1), ((7, 5, 13), 3))
    ),
    ("rms_norm_matmul", (3, 2, 1021), FLOATS[:1]),
    ("attention", (1, 1, 1, 1, 1), FLOATS[:1]),
    ("attention", (2, 3, 5, 7, 4), [*FLOATS, *HALF_OUTPUTS]),
    ("attention", (1, 4, 5, 11, 3), [{"group": 2, "scale": 0.5}]),
    ("attention", (1, 2, 5, 11, 3), [{"causal": True}, {"causal": True, "window": 3}]),
    ("decode_attention", (1, 1, 1, 1), FLOATS[:1]),
    ("decode_attention", (5, 4, 67, 8), [{"group": 2}, *FLOATS[1:], *HALF_OUTPUTS]),
]
PROBLEMS = [
    get_kernel(name).problem(*sizes, **options)
    for name, sizes, several in CASES
    for options in several
]


@pytest.fixture(
    params=[pytest.param(it, marks=pytest.mark.xdist_group(f"{it}")) for it in PROBLEMS], ids=str
)
def problem(request: pytest.FixtureRequest) -> Problem:
    return request.param


Run = Callable[[tvm.IRModule, Problem, Sequence[np.ndarray]], list[np.ndarray]]


@pytest.fixture(scope="session")
def run() -> Run:
    """Builds a module for LLVM and gives its outputs, in float64, which were NaN before."""
    return _run


@functools.lru_cache(maxsize=256)
def _compile(module: tvm.IRModule) -> tvm.runtime.Executable:
    """For the tests of a problem, which has one module."""
    return tvm.compile(module, target="llvm")


def _run(module: tvm.IRModule, problem: Problem, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    executable = _compile(module)
    facts = [dtype_facts(tensor.dtype) for tensor in problem.outputs]
    nothing = [np.nan if fact.is_float else fact.smallest for fact in facts]
    outputs = [
        tvm.runtime.tensor(np.full(tensor.shape, value, fact.numpy))
        for tensor, value, fact in zip(problem.outputs, nothing, facts, strict=True)
    ]
    executable["main"](*(tvm.runtime.tensor(array) for array in inputs), *outputs)
    return [output.numpy().astype(np.float64) for output in outputs]
