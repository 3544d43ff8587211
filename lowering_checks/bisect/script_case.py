"""What a reproducer's script runs on: whole numbers that it draws itself, and how near is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm

from tirstep.modules import AnyProblem, KernelError, Problem
from tirstep.modules.dtypes import dtype_facts
from tirstep.modules.numeric import Array, fits
from tirstep.modules.problem import Tensor

from ..compile.compiling import MAIN
from ..devices import CpuDevice, DeviceError
from ..devices.device import is_scalar
from ..numeric import find_wrong, get_default_bound
from ..reference import ModuleProblem
from .first_bad import FirstBad

REACH = 3
"""Up to which whole numbers are drawn for floats: most sums of them are exact."""
FAR = 4000
"""Where those show nothing: numbers that no narrower float than float32 holds."""
SEEDS = 3
Range = tuple[int, int]


@dataclass(frozen=True)
class ScriptCase:
    """The arguments of a script.

    Attributes
    ----------
    tensors : what the arguments are, in the function's order
    drawn : from which to which whole number each is; None for what is only written
    outputs : the places of what is compared
    bounds : how far off each output may be, in absolute numbers
    """

    tensors: tuple[Tensor, ...]
    drawn: tuple[Range | None, ...]
    outputs: tuple[int, ...]
    seed: int = 0
    bounds: tuple[float, ...] = ()

    def write(self) -> str:
        """The statements that say so in the script."""
        names = [self.tensors[place].name for place in self.outputs]
        return (
            "\nSEED = " + repr(self.seed) + "\n"
            "# Of each argument: from which to which whole number it is; None for a mere output.\n"
            f"DRAWN = {list(self.drawn)}\n"
            f"SHAPES = {[list(each.shape) for each in self.tensors]}\n"
            f"OUTPUTS, NAMES = {list(self.outputs)}, {names}\n"
        )

    def make_arguments(self) -> list[Array]:
        """Those that the script makes; a scalar is an array of shape ()."""
        random = np.random.default_rng(self.seed)
        arrays = []
        for tensor, drawn in zip(self.tensors, self.drawn, strict=True):
            low, high = drawn or (0, 0)
            array = np.asarray(random.integers(low, high + 1, tensor.shape))
            arrays.append(array.astype(dtype_facts(tensor.dtype).numpy))
        return arrays

    def take_inputs(self, problem: AnyProblem) -> list[Array]:
        """The inputs among them."""
        return problem.take_inputs(self.make_arguments())

    def run(self, module: tvm.IRModule) -> list[Array]:
        """The outputs, by LLVM; raises `DeviceError`."""
        after = CpuDevice().compile(module)(self.make_arguments())
        return [after[place].astype(np.float64) for place in self.outputs]

    def find_wrong(self, got: Sequence[Array], right: Sequence[Array]) -> bool:
        """Whether any element is farther off than it may be."""
        return any(
            bool(find_wrong(ours, theirs, (theirs - bound, theirs + bound)).any())
            for ours, theirs, bound in zip(got, right, self.bounds, strict=True)
        )


def plan_case(bad: FirstBad) -> ScriptCase:
    """The plainest case."""
    return next(_plan_cases(bad))


def _plan_cases(bad: FirstBad) -> Iterator[ScriptCase]:
    """Small whole numbers: for floats up to `REACH`, for integers of the range that was searched
    with, since they may be indices; for a scalar what it was.
    """
    if bad.run is None:
        yield _plan_of(bad, bad.arguments)
        return
    problem = bad.run.problem
    blanks = [np.zeros(each.shape) for each in problem.outputs]
    for inputs in (*problem.integer_rounds(bad.seed), *problem.planted_inputs(bad.seed)):
        yield _plan_of(bad, problem.make_arguments(inputs, blanks))


def _plan_of(bad: FirstBad, arguments: Sequence[Array]) -> ScriptCase:
    tensors = tuple(
        _describe(parameter, np.asarray(array))
        for parameter, array in zip(bad.module[MAIN].params, arguments, strict=True)
    )
    if bad.run is None:
        outputs = bad.outputs
        written = {place for place in outputs if _is_of_one_value(arguments[place])}
    else:
        problem = bad.run.problem
        names = [each.name for each in problem.outputs]
        outputs = tuple(place for place, each in enumerate(tensors) if each.name in names)
        written = set(outputs) - set(problem.in_out)
    drawn = tuple(
        None if place in written else _find_range(tensor, np.asarray(array))
        for place, (tensor, array) in enumerate(zip(tensors, arguments, strict=True))
    )
    return set_bounds(bad, ScriptCase(tensors, drawn, outputs))


def _list_cases(bad: FirstBad) -> Iterator[ScriptCase]:
    """What may show it, the plainest first."""
    plans = list(dict.fromkeys(_plan_cases(bad)))
    for seed in range(SEEDS):
        for plan in plans:
            yield set_bounds(bad, replace(plan, seed=seed))
    far = tuple((-FAR, FAR) if each == (-REACH, REACH) else each for each in plans[0].drawn)
    if far != plans[0].drawn:
        yield set_bounds(bad, replace(plans[0], drawn=far))


def find_case(
    bad: FirstBad, module: tvm.IRModule, find_right: Callable[[ScriptCase], Sequence[Array]]
) -> tuple[ScriptCase, bool]:
    """The first case that shows on a CPU that a module is wrong, and whether there is one; the
    plainest without one.
    """
    for case in _list_cases(bad):
        try:
            if case.find_wrong(case.run(module), find_right(case)):
                return case, True
        except (DeviceError, KernelError):
            break
    return plan_case(bad), False


def set_bounds(bad: FirstBad, case: ScriptCase) -> ScriptCase:
    """The case with the bounds that hold between two right modules."""
    try:
        bounds = _find_bounds(bad, case)
    except (DeviceError, KernelError):
        bounds = [0.0] * len(case.outputs)
    return replace(case, bounds=tuple(bounds))


def _find_bounds(bad: FirstBad, case: ScriptCase) -> list[float]:
    if bad.run is None:
        after = CpuDevice().compile(bad.kernel)(case.make_arguments())
        return [get_default_bound(after[place]) for place in case.outputs]
    problem = bad.run.problem
    inputs = case.take_inputs(problem)
    if isinstance(problem, ModuleProblem):
        is_exact = problem.answer(inputs).is_exact
    else:
        is_small = isinstance(problem, Problem) and fits(problem, inputs)
        is_exact = problem.is_exact and is_small
    if is_exact:
        return [0.0] * len(case.outputs)
    return [2 * float(np.max(bound, initial=0)) for bound in problem.error_bound(inputs)]


def _describe(parameter: Any, array: Array) -> Tensor:
    """A parameter, whose shape may have open sizes, as it is in a call with an array."""
    name = str(parameter.name)
    if is_scalar(parameter):
        return Tensor(name, (), str(parameter.ty), is_scalar=True)
    return Tensor(name, array.shape, str(parameter.dtype))


def _is_of_one_value(array: Array) -> bool:
    values = np.asarray(array).astype(np.float64).ravel()
    return bool(np.isnan(values).all() or (values == values[:1]).all())


def _find_range(tensor: Tensor, array: Array) -> Range:
    values = array.astype(np.float64)
    if tensor.is_scalar and np.isfinite(values):
        value = round(values.item()) or int(dtype_facts(tensor.dtype).is_float)
        return value, value
    if dtype_facts(tensor.dtype).is_float or not array.size:
        return -REACH, REACH
    return int(array.min()), int(array.max())
