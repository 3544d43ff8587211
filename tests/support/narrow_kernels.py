"""Kernels in NumPy that round somewhere to a type with fewer bits than they should: an operand, a
product, a sum or what is passed of it between threads, or the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tirstep.lowering_checks.devices import Program
from tirstep.modules import Problem
from tirstep.modules.dtypes import dtype_facts

Function = Callable[[Any], Any]
BITS = {"tf32": 11, "float16": 11, "bfloat16": 8, "float8_e4m3fn": 4, "float8_e5m2": 3}
"""Of the types that are rounded to: their significant bits."""
THREADS = 32


@dataclass(frozen=True)
class Narrowing:
    """Where a kernel rounds, to which type, and in which order it sums.

    Attributes
    ----------
    stage : "" for a right kernel; "operand 0", "products", "sum", "result" and others
    order : "one by one", "in pairs", or "over threads", whose partial sums alone are narrow
    """

    stage: str = ""
    dtype: str = "float32"
    order: str = "in pairs"

    def __str__(self) -> str:
        return f"{self.stage} {self.order} in {self.dtype}" if self.stage else self.order

    def at(self, stage: str, otherwise: Function = np.asarray) -> Function:
        return round_to(self.dtype) if stage == self.stage else otherwise


def round_to(dtype: str) -> Function:
    """Values of float32 or float64, rounded to another type; tf32 is cut off as a GPU does it."""
    if dtype != "tf32":
        return lambda values: values.astype(dtype_facts(dtype).numpy).astype(values.dtype)

    def cut_off(values: Any) -> Any:
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        return (bits & np.uint32(0xFFFFE000)).view(np.float32)

    return cut_off


def as_program(problem: Problem, narrowing: Narrowing) -> Program:
    """A kernel that rounds where it is told, as a program that checks can run."""
    out = dtype_facts(problem.outputs[0].dtype).numpy
    compute = _ROWS.get(problem.kernel.name, _sum_terms)

    def run(arguments: list[np.ndarray]) -> tuple[list[np.ndarray], tuple[()]]:
        inputs = [np.array(array) for array in arguments[:-1]]
        with np.errstate(all="ignore"):
            wide = [
                narrowing.at(f"operand {place}")(array.astype(np.float32))
                for place, array in enumerate(inputs)
            ]
            result = narrowing.at("result")(compute(problem, wide, narrowing)).astype(out)
        assert result.shape == arguments[-1].shape
        return [*inputs, result], ()

    return Program(run)


def add_up(terms: Any, narrowing: Narrowing, own: Function = np.asarray) -> Any:
    """Sums over the last axis; `own` rounds to what sums are formed in."""
    round_sum = narrowing.at("sum", own)
    if narrowing.order == "one by one":
        total = np.zeros(terms.shape[:-1], terms.dtype)
        for index in range(terms.shape[-1]):
            total = round_sum(total + terms[..., index])
        return total
    if narrowing.order == "in pairs":
        return _add_pairs(terms, round_sum)
    rest = np.zeros((*terms.shape[:-1], -terms.shape[-1] % THREADS), terms.dtype)
    of_threads = np.concatenate([terms, rest], axis=-1).reshape(*terms.shape[:-1], THREADS, -1)
    return _add_pairs(round_sum(_add_pairs(of_threads, own)), own)


def _add_pairs(terms: Any, round_sum: Function) -> Any:
    while terms.shape[-1] > 1:
        if terms.shape[-1] % 2:
            terms = np.concatenate([terms, np.zeros_like(terms[..., :1])], axis=-1)
        terms = round_sum(terms[..., ::2] + terms[..., 1::2])
    return terms[..., 0]


def _sum_terms(problem: Problem, inputs: list[Any], narrowing: Narrowing) -> Any:
    acc = problem.accumulator
    own = np.asarray if acc == "float32" else round_to(acc)
    terms, bias = _find_terms(problem, inputs)
    if isinstance(terms, tuple):
        terms = narrowing.at("products")(own(terms[0] * terms[1]))
    total = add_up(terms, narrowing, own)
    return total if bias is None else np.maximum(own(total + bias), 0)


def _find_terms(problem: Problem, inputs: list[Any]) -> tuple[Any, Any]:
    """What each output sums along the last axis, or a pair whose products it sums; and a bias."""
    a, *others = inputs
    match problem.kernel.name:
        case "row_sum":
            return a, None
        case "matvec":
            return (a, others[0][None]), None
        case "matmul":
            return (a[:, None, :], others[0].T[None]), None
        case "matmul_bias_relu":
            return (a[:, None, :], others[0].T[None]), others[1]
        case "conv1d":
            size = others[0].size
            windows = sliding_window_view(np.pad(a, size - 1), size)[:, ::-1]
            return (windows, others[0][None]), None
        case "window_sum":
            return sliding_window_view(a, problem.options["width"])[: problem.shape["n"]], None
    k = problem.shape["k"]
    rim = (k // 2, k // 2)
    windows = sliding_window_view(np.pad(a, ((0, 0), (0, 0), rim, rim)), (k, k), axis=(2, 3))
    channels = len(others[0])
    return (windows.reshape(*a.shape, k * k), others[0].reshape(1, channels, 1, 1, k * k)), None


def _softmax(problem: Problem, inputs: list[Any], narrowing: Narrowing) -> Any:
    (a,) = inputs
    shifted = narrowing.at("differences")(a - a.max(axis=1, keepdims=True))
    powers = narrowing.at("powers")(np.exp(shifted))
    total = add_up(narrowing.at("powers summed")(powers), narrowing)
    return powers / narrowing.at("total")(total)[:, None]


def _mean(terms: Any, narrowing: Narrowing) -> Any:
    return (add_up(terms, narrowing) / np.float32(terms.shape[1]))[:, None]


def _rms_norm(problem: Problem, inputs: list[Any], narrowing: Narrowing) -> Any:
    a, gain = inputs
    squared = narrowing.at("A squared")(a)
    mean = _mean(narrowing.at("squares")(squared * squared), narrowing)
    inverse = 1 / np.sqrt(narrowing.at("mean")(mean) + np.float32(1e-5))
    return a * narrowing.at("inverse")(inverse) * gain


def _layer_norm(problem: Problem, inputs: list[Any], narrowing: Narrowing) -> Any:
    a, gain, shift = inputs
    centered = a - narrowing.at("mean")(_mean(narrowing.at("A summed")(a), Narrowing()))
    squared = narrowing.at("differences squared")(centered)
    variance = _mean(narrowing.at("squares")(squared * squared), narrowing)
    inverse = 1 / np.sqrt(narrowing.at("variance")(variance) + np.float32(1e-5))
    return centered * narrowing.at("inverse")(inverse) * gain + shift


_ROWS: dict[str, Callable[[Problem, list[Any], Narrowing], Any]] = {
    "softmax": _softmax,
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
}
_STAGES = {
    "softmax": ("differences", "powers", "powers summed", "total"),
    "rms_norm": ("A squared", "squares", "mean", "inverse"),
    "layer_norm": ("A summed", "mean", "squares", "variance", "inverse"),
}
RIGHT = (Narrowing(order="one by one"), Narrowing(), Narrowing(order="over threads"))


def narrowings(problem: Problem) -> Iterator[Narrowing]:
    """What may be rounded in a kernel, to each type that has fewer bits than stand there."""
    operands = [dtype_facts(tensor.dtype).mantissa_bits for tensor in problem.inputs]
    acc = dtype_facts(problem.accumulator).mantissa_bits
    out = dtype_facts(problem.outputs[0].dtype).mantissa_bits
    stages = _STAGES.get(problem.kernel.name, ())
    is_product = not stages and problem.kernel.name not in ("row_sum", "window_sum")
    for dtype, bits in BITS.items():
        for place, wide in enumerate(operands):
            if bits < wide:
                yield Narrowing(f"operand {place}", dtype)
        if bits < acc:
            for order in ("one by one", "in pairs", "over threads"):
                yield Narrowing("sum", dtype, order)
        if is_product and bits < min(acc, operands[0] + operands[1]):
            yield Narrowing("products", dtype)
        if bits < out:
            yield Narrowing("result", dtype)
        for stage in stages:
            if bits < (operands[0] if stage.startswith("A ") else acc):
                yield Narrowing(stage, dtype)
