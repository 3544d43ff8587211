"""What computes any kernel: TVM's default schedules (dlight), NumPy, and TVM without a schedule."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm.s_tir import dlight

from tirstep.lowering_checks.compile.compiling import compile_module
from tirstep.lowering_checks.devices import CpuDevice
from tirstep.lowering_checks.devices.device import blank
from tirstep.modules import Problem
from tirstep.modules.numeric import Array

from .. import PeerMissing


def schedule_by_default(module: tvm.IRModule, target: Any) -> tvm.IRModule:
    """Schedule a module with the first rule that fits it, and dlight's fallback where none does."""
    gpu = dlight.gpu
    rules = (
        gpu.Matmul(),
        gpu.GEMV(),
        gpu.Reduction(),
        gpu.GeneralReduction(),
        gpu.Transpose(),
        gpu.Fallback(),
    )
    with get_plain_target(target):
        # dlight writes what it schedules into the module that it is given, too.
        return dlight.ApplyDefaultSchedule(*rules)(tvm.IRModule(dict(module.functions_items())))


def get_plain_target(target: Any) -> Any:
    """A target with an architecture that dlight knows.

    It does not understand one such as sm_90a, and then leaves the tensor cores out without a word;
    it gets the same one without the letter.
    """
    attributes = dict(target.attrs)
    attributes["arch"] = str(attributes["arch"]).rstrip("af")
    return tvm.target.Target({"kind": "cuda", **attributes})


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
