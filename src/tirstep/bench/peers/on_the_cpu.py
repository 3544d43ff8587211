"""What computes any kernel on the CPU, from arrays: its NumPy meaning, and the kernel itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tvm

from tirstep.lowering_checks.compile.compiling import compile_module
from tirstep.lowering_checks.devices import CpuDevice
from tirstep.lowering_checks.devices.device import blank
from tirstep.modules import Problem
from tirstep.modules.numeric import Array

from .. import PeerMissing


def compute_reference(inputs: Sequence[Array], out: Any, problem: Problem) -> Callable[[], Any]:
    """The kernel's NumPy meaning, in the kernel's own types."""
    settings = {**problem.shape, **problem.options}
    return functools.partial(problem.kernel.meaning.reference, *inputs, **settings)


def run_unscheduled(inputs: Sequence[Array], out: Any, problem: Problem) -> Callable[[], Any]:
    """The kernel as it was written, compiled by TVM for one thread of the CPU.

    Raises `PeerMissing` for a type that TVM computes wrongly there.
    """
    if obstacle := CpuDevice().find_obstacle(problem.module):
        raise PeerMissing(obstacle)
    function = compile_module(problem.module, "llvm")["main"]
    arrays = problem.make_arguments(inputs, [blank(output) for output in problem.outputs])
    arguments = [tvm.runtime.tensor(array) for array in arrays]

    def launch() -> Any:
        function(*arguments)
        results = [tensor.numpy() for tensor in problem.take_outputs(arguments)]
        return results[0] if len(results) == 1 else results

    return launch
