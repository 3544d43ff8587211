"""How much larger the bounds are than the errors that are made, for docs/bounds.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tirstep.lowering_checks import Device, get_device, run_recipe
from tirstep.lowering_checks.devices import CpuDevice
from tirstep.lowering_checks.devices.device import run
from tirstep.modules import Problem, kernels
from tirstep.transforms.recipes import RECIPES

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
"""A bound so many times the largest error seen is listed, and said why."""
ORDERS, BITS, NARROW = "orders", "bits", "narrow"
REASONS = f"""
- **{ORDERS}**: any order of n terms may be off by n u of the sum of their magnitudes, and the bound
  must hold for all. An order of chance is off by about sqrt(n) u of partial sums, which cancel.
- **{BITS}**: products and sums of so few bits were exact here, which the bound does not presume.
- **{NARROW}**: what is multiplied may be rounded to the narrow type first, as tensor cores take it,
  and TVM's code for a CPU keeps it in float32.

The others sum products, and there the random floats are the lesser check: whole numbers as large
as every order sums exactly come first, and nothing is tolerated of them (`Problem.integer_inputs`,
`Problem.integer_rounds`), so that one lost or doubled term shows at any length. The kernels that
have no such numbers (softmax, attention, the normalizations, gelu) have rows that sum exactly among
their corner cases (zeros, few, balanced, sparse), where the bound is some u whatever the length.
"""


@dataclass(frozen=True)
class Ratio:
    """Of one kernel in one type: the largest error over its bound, both before what is stored.

    Attributes
    ----------
    floats : on random floats; 0 where no error was made
    corners : on the inputs that sum exactly, or else on the kernel's corner cases; None without
    """

    problem: Problem
    floats: float
    corners: float | None

    @property
    def reason(self) -> str:
        """Why the bound is loose; empty where it is not, or where nothing is rounded."""
        if not self.problem.terms or self.floats * LOOSE >= 1:
            return ""
        if not self.problem.is_exact and self.problem.options["dtype"] != "float32":
            return NARROW
        return ORDERS if self.floats else BITS


def measure(dtypes: tuple[str, ...] | None = None) -> Iterator[Ratio]:
    """The ratios of every kernel's first output in every type of floats, as its plain form runs.

    float8, which TVM's LLVM code reads wrongly, is run by the simulator, after a recipe.
    """
    for name, kernel in kernels().items():
        shape = SHAPES.get(name, (1024,))
        for dtype in kernel.dtypes:
            if "float" not in dtype or (dtypes and dtype not in dtypes):
                continue
            sums = kernel.meaning.accumulators[dtype] if "acc" in kernel.options else ()
            halves = dtype == "float16" and "float16" in sums
            for options in ({}, {"acc": "float16"}) if halves else ({},):
                problem = kernel.problem(*shape, dtype=dtype, **options)
                yield _measure(problem)


def _measure(problem: Problem) -> Ratio:
    device: Device = CpuDevice()
    module = problem.module
    if device.find_obstacle(module) is not None:
        device = get_device("simulator")
        known = (recipe for recipe in RECIPES.values() if recipe.kernel == problem.kernel.name)
        recipe = next(recipe for recipe in known if not recipe.dtypes)
        tail = "guard" if "guard" in recipe.tails else "pad"
        sizes = {"tail": tail} if recipe.tails else {}
        options = dict(problem.options)
        module = (
            run_recipe(recipe, dict(problem.shape), options=options, config=sizes).steps[-1].module
        )
    program = device.compile(module)

    def ratio(inputs: list[np.ndarray]) -> float:
        got, *_ = run(program, inputs, problem.outputs)
        (right, *_), (bound, *_) = problem.reference(inputs), problem.error_bound(inputs)
        finite = np.isfinite(right) & np.isfinite(bound) & (bound > 0)
        errors = np.abs(got.astype(np.float64)[finite] - right[finite])
        return float(np.max(errors / bound[finite], initial=0.0))

    if problem.is_exact:
        return Ratio(problem, ratio(problem.float_inputs(0)), None)
    corners = max(ratio(inputs) for _, inputs in problem.corner_inputs(0))
    return Ratio(problem, ratio(problem.float_inputs(0)), corners)


def render(ratios: list[Ratio]) -> str:
    """The whole document."""
    lines = ["| kernel | shape | dtype | sums in | error / bound, floats | corner cases | loose |"]
    lines.append("|---|---|---|---|--:|--:|---|")
    for ratio in ratios:
        corners = "" if ratio.corners is None else f"{ratio.corners:.1e}"
        cells = (*_name(ratio.problem), f"{ratio.floats:.1e}", corners, ratio.reason)
        lines.append("| " + " | ".join(cells) + " |")
    return INTRODUCTION + "\n".join(lines) + "\n\n## Why loose\n" + REASONS


def _name(problem: Problem) -> tuple[str, str, str, str]:
    shape = "x".join(map(str, problem.shape.values()))
    return problem.kernel.name, shape, str(problem.options["dtype"]), problem.accumulator


INTRODUCTION = f"""# How tight the bounds are

Generated by `make mutants`; do not edit.

Results on random floats and on corner cases are held against float64 within a bound that follows
from the algorithm: it must hold for every order of a sum, and for CUDA's fast arithmetic
(modules/roundings.py, `Problem.error_bound`). Here is how near the plain kernels come to it on a
CPU: 1 would be at the bound. Bounds more than {LOOSE} times the error have a word in the last
column, which is explained below the table; kernels that round nothing have no such bound. What is
in a narrow type is held tighter than this says: it must lie between the two ends of what float32
may have computed, each rounded (`Problem.error_interval`), which mostly are one number.

"""
