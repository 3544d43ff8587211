"""The device `cuda`: the GPU.

Stores just outside of a tensor land in a guard zone, and are findings. Times are taken without
guard zones.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm

from ..compile.compiling import MAIN, compile_module, name_main
from ..device import (
    Array,
    Arrays,
    Device,
    DeviceError,
    DeviceFinding,
    Program,
    Timing,
    convert_tvm_errors,
    is_scalar,
    require_launchable,
)
from .guard_zones import run_in_guard_zones

REPEATS, FEWEST_REPEATS = 20, 3
SHORTEST_REPEAT_MS = 2
LONGEST_SECONDS = 1.0
"""What all repeats of a slow function may take together, but for the fewest."""


@functools.cache
def is_cuda_available() -> bool:
    """Whether this machine has a GPU that TVM can use."""
    try:
        return bool(tvm.cuda(0).exist)
    except RuntimeError:  # InternalError is one
        return False


class CudaDevice(Device):
    """The first CUDA device of this machine. Raises `DeviceError` where there is none.

    Tensors are placed between guard zones that reveal stray stores, unless `has_guard_zones` is
    False: under a tool that checks all accesses itself, they would hide loads outside of a tensor.
    """

    name = "cuda"
    has_clock = True

    def __init__(self, *, has_guard_zones: bool = True) -> None:
        if not is_cuda_available():
            raise DeviceError(
                "this machine has no CUDA device that TVM can use; choose the device "
                '"simulator", which runs the same threads without a GPU, or "auto"'
            )
        self._has_guard_zones = has_guard_zones
        self._device = tvm.cuda(0)
        self._target = tvm.target.Target.from_device(self._device)

    @property
    def description(self) -> str:
        return f"{self._device.device_name} ({self._target.attrs['arch']})"

    def compile(self, module: tvm.IRModule) -> Program:
        """Compile with TVM's CUDA code generator and NVIDIA's compiler."""
        module = name_main(module)
        executable = self._compile(module)
        parameters = module[MAIN].params
        names = [None if is_scalar(it) else str(it.name) for it in parameters]

        def call(*tensors: Any) -> None:
            executable[MAIN](*tensors)
            self._device.sync()

        def run(arguments: Arrays) -> tuple[Arrays, Sequence[DeviceFinding]]:
            with convert_tvm_errors("the kernel does not run"):
                if self._has_guard_zones:
                    return run_in_guard_zones(call, names, arguments, self._device)
                given = upload(arguments, parameters, self._device)
                call(*given)
                return download(given), ()

        return Program(run, parameters)

    def time(self, module: tvm.IRModule, arguments: Sequence[Array]) -> Timing:
        """Time the function on the GPU, with events around many calls; inputs as they are given.

        The inputs stay in the L2 cache from call to call where they fit.
        """
        module = name_main(module)
        executable = self._compile(module)
        with convert_tvm_errors("the kernel cannot be timed"):
            tensors = upload(arguments, module[MAIN].params, self._device)
            return measure(executable.mod, self._device, tensors)

    def _compile(self, module: tvm.IRModule) -> Any:
        require_launchable(self, module)
        with convert_tvm_errors("CUDA does not compile the module", module):
            return compile_module(module, self._target)


def upload(arguments: Sequence[Array], parameters: Sequence[Any], device: Any) -> list[Any]:
    """Tensors on TVM's device; numbers as they are."""
    return [
        array.item()
        if is_scalar(parameter)
        else tvm.runtime.tensor(np.asarray(array, order="C"), device)
        for array, parameter in zip(arguments, parameters, strict=True)
    ]


def download(tensors: Sequence[Any]) -> Arrays:
    """What `upload` made, as arrays again."""
    return [np.asarray(each.numpy() if hasattr(each, "numpy") else each) for each in tensors]


def measure(module: Any, device: Any, tensors: Sequence[Any]) -> Timing:
    """Time the function of a module of TVM's runtime, on the device where its tensors are.

    A function that takes long is timed less often.
    """
    brief = module.time_evaluator(MAIN, device, number=1, repeat=1)
    most = int(LONGEST_SECONDS / max(brief(*tensors).results[0], 1e-9))
    timer = module.time_evaluator(
        MAIN,
        device,
        number=1,
        repeat=min(max(most, FEWEST_REPEATS), REPEATS),
        min_repeat_ms=SHORTEST_REPEAT_MS,
    )
    results = np.array(timer(*tensors).results)
    lower, median, upper = np.percentile(results, [25, 50, 75])
    return Timing(float(median), float(lower), float(upper), len(results))
