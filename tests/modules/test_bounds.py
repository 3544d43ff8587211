"""The bounds of the numeric checks hold, and only those of sums that integers check are loose."""

from __future__ import annotations

import numpy as np

from tirstep.lowering_checks.device import run
from tirstep.lowering_checks.devices import CpuDevice
from tirstep.modules import Problem, kernels

SHAPES: dict[str, tuple[int, ...]] = {
    "matmul": (32, 24, 512),
    "matmul_bias_relu": (32, 24, 512),
    "matmul_bias_gelu": (32, 24, 512),
    "batched_matmul": (2, 16, 12, 512),
    "conv2d": (1, 6, 8, 16, 4, 3, 3),
    "matvec": (16, 1024),
    "row_sum": (16, 1024),
    "row_argmax": (16, 1024),
    "softmax": (16, 1024),
    "layer_norm": (16, 1024),
    "rms_norm": (16, 1024),
    "transpose": (64, 48),
    "conv1d": (500, 32),
    "depthwise_conv2d": (1, 2, 8, 16, 3),
    "mlp_swiglu": (32, 24, 16),
    "rms_norm_matmul": (32, 24, 16),
    "attention": (1, 2, 64, 4, 4),
    "decode_attention": (8, 4, 8, 4),
}
LOOSE = 100
"""A bound so many times the largest error is loose: that of a sum, in any order, over many terms
that cancel. Integers as large as every order sums exactly are compared first, with no tolerance.
"""


def measure(problem: Problem) -> tuple[float, float]:
    """Largest error over its bound in the first output: on floats, and on corner cases if any."""
    program = CpuDevice().compile(problem.module)

    def find_ratio(inputs: list[np.ndarray]) -> float:
        got, *_ = run(program, inputs, problem.outputs)
        (right, *_), (bound, *_) = problem.reference(inputs), problem.error_bound(inputs)
        finite = np.isfinite(right) & np.isfinite(bound) & (bound > 0)
        errors = np.abs(got.astype(np.float64)[finite] - right[finite])
        return float(np.max(errors / bound[finite], initial=0.0))

    corners = [] if problem.is_exact else [inputs for _, inputs in problem.planted_inputs(0)]
    return find_ratio(problem.float_inputs(0)), max(map(find_ratio, corners), default=0.0)


def test_loose_bounds_are_those_of_sums_that_integers_check() -> None:
    for name, kernel in kernels().items():
        problem = kernel.problem(*SHAPES.get(name, (1024,)), dtype="float32")
        floats, corners = measure(problem)
        assert max(floats, corners) <= 1, name
        if problem.terms and floats * LOOSE < 1:
            assert problem.is_exact, name
