"""The device `host`: the CUDA source that TVM generates, compiled for this machine's CPU.

It is a second opinion beside the simulator, which runs the lowered module: the source is what a GPU
would get. A header of ours stands in for CUDA's (include/), and a runtime of ours runs each thread
block with a fiber for each thread (runtime/): a thread runs until it waits, at a barrier or for its
warp, and then another one does, in orders that vary. Shared memory begins as garbage in every
block, registers do in every thread. Each run is made twice, with the opposite order of the threads
and with other garbage: what differs then is a finding, as is an access outside of an array, one
that is not aligned, and a barrier that not all threads reach.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import tvm

from ...compile.compiling import name_main
from ..device import (
    Arrays,
    Device,
    DeviceError,
    DeviceFinding,
    Program,
    find_excess_extents,
    find_excess_memory,
    is_scalar,
    require_launchable,
)
from .cxx_compiler import describe_instructions, find_instructions, get_cxx_compiler
from .generated import Generated, HostPart, Launch, generate
from .process import run_built

__all__ = ["Generated", "HostDevice", "generate", "is_host_available"]

TIME_LIMIT = 60.0
_DYNAMIC = re.compile(r"extern __shared__ (__align__\(\d+\)) ([\w ]+) (\w+)\[\];")
_LOCAL = re.compile(r"^ +alignas\(\d+\) [\w ]+ (\w+)\[\d+\];$", re.MULTILINE)


def is_host_available() -> bool:
    """Whether this machine has what the device needs: Linux and a C++ compiler."""
    try:
        get_cxx_compiler()
    except DeviceError:
        return False
    return True


class HostDevice(Device):
    """The generated CUDA source on this machine's CPU.

    `time_limit` is in seconds, for compiling as for running; `seed` is of the threads' orders.
    Raises `DeviceError` where there is no C++ compiler.
    """

    name = "host"

    def __init__(self, *, time_limit: float = TIME_LIMIT, seed: int = 0) -> None:
        self._compiler = get_cxx_compiler()
        self._time_limit = time_limit
        self._seed = seed

    @property
    def description(self) -> str:
        return f"generated CUDA source on the CPU ({self._compiler.version})"

    def compile(self, module: tvm.IRModule) -> Program:
        """Generate a module's source and compile it; the program's `findings` are its run's."""
        require_launchable(self, module)
        return self.compile_generated(generate(name_main(module)))

    def compile_generated(self, generated: Generated) -> Program:
        """Compile what `generate` made, or what was changed after that.

        A source with instructions of a GPU in assembly (asynchronous copies, tensor cores) is
        refused.
        """
        if instructions := find_instructions(generated.source):
            raise DeviceError(describe_instructions(instructions))
        source = _complete(generated)
        self._compiler.build(source, self._time_limit)

        def run(arguments: Arrays) -> tuple[Arrays, Sequence[DeviceFinding]]:
            program = self._compiler.build(source, self._time_limit)  # kept, unless long ago
            part = HostPart(generated, arguments)
            arrays, findings = run_built(
                program, part, generated, seed=self._seed, seconds=self._time_limit
            )
            rest = iter(arrays)  # of the buffers alone
            after = [
                given if is_scalar(parameter) else next(rest)
                for parameter, given in zip(generated.parameters, arguments, strict=True)
            ]
            return after, [*_check_launches(part.launches), *findings]

        return Program(run, generated.parameters)


def _complete(generated: Generated) -> str:
    """The source as TVM made it, with locals that begin as garbage, another in each run.

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


def _check_launches(launches: Sequence[Launch]) -> list[DeviceFinding]:
    """What a GPU would not launch."""
    sentences = [
        sentence
        for launch in launches
        for check, limited in (
            (find_excess_extents, launch.extents),
            (find_excess_memory, launch.bytes),
        )
        for sentence in check(limited)
    ]
    return [DeviceFinding("launch", "", sentence, "", 1) for sentence in dict.fromkeys(sentences)]
