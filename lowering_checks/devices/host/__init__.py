"""The device `host`: the CUDA source that TVM generates, compiled for this machine's CPU.

It is a second opinion beside the simulator, which runs the lowered module: the source is what a GPU
would get. A header of ours stands in for CUDA's (include/), and a runtime of ours runs each GPU
block with a fiber for each thread (runtime/): a thread runs until it waits, at a barrier or for its
warp, and then another one does, in orders that vary. Shared memory begins as garbage in every
block, registers do in every thread. Each run is made twice, with the opposite order of the threads
and with other garbage: what differs then is a fault, as is an access outside of an array, one that
is not aligned, and a barrier that not all threads come to.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm

from tirstep.transforms.gpu_limits import MAX_EXTENTS, MAX_THREADS

from ...entry import name_main
from ..device import Arrays, DeviceError, Program, Timing, find_unbound_blocks
from ..fault import Fault
from ..launch_limits import find_excess
from .compiler import find_compiler
from .complaints import explain_instructions, find_instructions
from .generated import Generated, HostPart, Launch, generate
from .process import run_program

__all__ = ["Generated", "HostDevice", "generate", "is_host_available"]

TIME_LIMIT = 60.0
_DYNAMIC = re.compile(r"extern __shared__ (__align__\(\d+\)) ([\w ]+) (\w+)\[\];")
_LOCAL = re.compile(r"^ +alignas\(\d+\) [\w ]+ (\w+)\[\d+\];$", re.MULTILINE)


def is_host_available() -> bool:
    """Whether this machine has what the device needs: Linux and a C++ compiler."""
    try:
        find_compiler()
    except DeviceError:
        return False
    return True


class HostDevice:
    """The generated CUDA source on this machine's CPU.

    `time_limit` is in seconds, for compiling as for running; `seed` is of the threads' orders.
    Raises `DeviceError` where there is no C++ compiler.
    """

    name = "host"
    has_clock = False

    def __init__(self, *, time_limit: float = TIME_LIMIT, seed: int = 0) -> None:
        self._compiler = find_compiler()
        self._time_limit = time_limit
        self._seed = seed

    @property
    def description(self) -> str:
        """The compiler, as it calls itself."""
        return f"generated CUDA source on the CPU ({self._compiler.version})"

    def find_obstacle(self, module: tvm.IRModule) -> str | None:
        """Blocks without a thread binding cannot be launched."""
        unbound = find_unbound_blocks(module)
        return f"not bound yet: {', '.join(unbound)}" if unbound else None

    def compile(self, module: tvm.IRModule) -> Program:
        """Generate a module's source and compile it; the program's `faults` are its run's."""
        obstacle = self.find_obstacle(module)
        if obstacle is not None:
            raise DeviceError(f"the module cannot run on a GPU: {obstacle}; bind its loops first")
        return self.compile_generated(generate(name_main(module)))

    def compile_generated(self, generated: Generated) -> Program:
        """Compile what `generate` made, or what somebody changed after that.

        A source with instructions of a GPU in assembly (asynchronous copies, tensor cores) is
        refused.
        """
        if instructions := find_instructions(generated.source):
            raise DeviceError(explain_instructions(instructions))
        text = _complete(generated)
        self._compiler.build(text, self._time_limit)

        def run(arguments: Arrays) -> tuple[Arrays, Sequence[Fault]]:
            program = self._compiler.build(text, self._time_limit)  # kept, unless long ago
            part = HostPart(generated, arguments)
            arrays, reports = run_program(
                program, part, generated, seed=self._seed, seconds=self._time_limit
            )
            faults = [report.explain(part.buffers, generated.source) for report in reports]
            return arrays, [*_find_launch_faults(part.launches), *faults]

        return Program(run, generated.parameters)

    def time(self, module: tvm.IRModule, arguments: Sequence[np.ndarray[Any, Any]]) -> Timing:
        """Refused: fibers on a CPU take no time that says anything about a GPU."""
        raise DeviceError(
            'times on the device "host" say nothing about a GPU; use a machine with CUDA'
        )


def _complete(generated: Generated) -> str:
    """The source as TVM made it, with locals that begin as garbage which each run has anew.

    Behind it stand dynamic shared memory, and the kernels for `call`.
    """
    declared = dict.fromkeys(_DYNAMIC.findall(generated.source))
    shared = [
        f"thread_local {align} {dtype} {name}[{generated.dynamic_bytes} / sizeof({dtype})];"
        for align, dtype, name in declared
    ]
    kernels = ", ".join(f"TIRSTEP_KERNEL({name})" for name in generated.kernels)
    source = _LOCAL.sub(r"\g<0> tirstep::unset(\1);", generated.source)
    return "\n".join(['#line 1 "kernel.cu"', source, *shared, f"TIRSTEP_KERNELS({kernels})", ""])


def _find_launch_faults(launches: Sequence[Launch]) -> list[Fault]:
    """What a GPU would not launch."""
    sentences = []
    for launch in launches:
        sentences += [
            f"'{axis}' has the extent {extent}, and a GPU takes {MAX_EXTENTS[axis]} there at most"
            for axis, extent in launch.extents.items()
            if extent > MAX_EXTENTS[axis]
        ]
        threads = math.prod(size for axis, size in launch.extents.items() if "threadIdx" in axis)
        if threads > MAX_THREADS:
            sentences.append(
                f"a block has {threads} threads, and a GPU takes {MAX_THREADS} at most"
            )
        sentences += find_excess(launch.bytes)
    return [Fault("launch", "", sentence, "", 1) for sentence in dict.fromkeys(sentences)]
