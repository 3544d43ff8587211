"""A wrong kernel, and how checks run what is written in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tirstep.lowering_checks.devices import Program
from tirstep.modules import Problem, get_kernel
from tirstep.modules.dtypes import dtype_facts

f32 = np.float32
Function = Callable[..., Any]


@dataclass(frozen=True)
class Wrong:
    """A wrong kernel: its kernel's name, what is wrong, and by which inputs it must be seen.

    Attributes
    ----------
    of : of all inputs, widened to float32, by place; of the raw inputs with `is_raw`
    seen_by : the name of a corner case, or "integers", "random floats" or "random bits"
    dtypes : in which it must be seen
    """

    kernel: str
    text: str
    of: Function
    seen_by: str
    sizes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...] = ("float32", "bfloat16")
    options: Mapping[str, object] = field(default_factory=dict)
    is_raw: bool = False

    def __str__(self) -> str:
        return f"{self.kernel}: {self.text}"

    def problem(self, sizes: tuple[int, ...], dtype: str) -> Problem:
        return get_kernel(self.kernel).problem(*sizes, dtype=dtype, **self.options)


def as_program(problem: Problem, function: Function, *, is_raw: bool = False) -> Program:
    """What a function computes of a problem's inputs, as a program that checks can run."""

    def run(arguments: list[np.ndarray]) -> tuple[list[np.ndarray], tuple[()]]:
        count = len(problem.outputs)
        inputs = [np.array(array) for array in arguments[:-count]]
        with np.errstate(all="ignore"):
            widened = inputs if is_raw else [array.astype(f32) for array in inputs]
            computed = function(*widened)
        results = computed if isinstance(computed, tuple) else (computed,)
        stored = [
            np.asarray(result).astype(dtype_facts(tensor.dtype).numpy)
            for result, tensor in zip(results, problem.outputs, strict=True)
        ]
        assert [each.shape for each in stored] == [each.shape for each in problem.outputs]
        return [*inputs, *stored], ()

    return Program(run)
