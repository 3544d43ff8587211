"""A simulator that runs a program once on the same arguments: recipes of a ladder begin alike.

What it remembers is what it saw itself, in this process: the simulator takes nothing but a module
and arguments, and tells the same of them each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import tvm
import tvm_ffi

from tirstep.lowering_checks import Counts, print_module
from tirstep.lowering_checks.devices import SimulatorDevice
from tirstep.lowering_checks.devices.device import Arrays, DeviceFinding, Program

MOST_RUNS = 64
"""Runs that are kept, each with its arguments as they were afterwards."""


@dataclass(frozen=True)
class _Run:
    """What came of a run in which nothing went wrong."""

    arguments: Arrays
    counts: Counts | None


_RUNS: dict[tuple[str, str], _Run] = {}


class RepeatingSimulator(SimulatorDevice):
    """`SimulatorDevice`, but that a run without a finding is not made again.

    A run with findings is: they say at which lines they are, which may differ.
    """

    def compile(self, module: tvm.IRModule) -> Program:
        """Lower a module that was not run before; of another one, when it has to run."""
        text = f"{tvm_ffi.structural_hash(module)} {print_module(module)}"
        is_known = any(key[0] == text for key in _RUNS)
        compiled = [] if is_known else [super().compile(module)]

        def run(arguments: Arrays) -> tuple[Arrays, Sequence[DeviceFinding]]:
            key = (text, _name_arguments(arguments, program.in_out))
            if key not in _RUNS:
                if not compiled:
                    compiled.append(super(RepeatingSimulator, self).compile(module))
                compiled[0].in_out = program.in_out
                after = compiled[0](arguments)
                if compiled[0].findings:
                    return after, compiled[0].findings
                while len(_RUNS) >= MOST_RUNS:
                    del _RUNS[next(iter(_RUNS))]
                _RUNS[key] = _Run([array.copy() for array in after], self.counts)
            self.counts = _RUNS[key].counts
            return [array.copy() for array in _RUNS[key].arguments], ()

        program = Program(run)  # what compiled it looks at the arguments
        return program


def _name_arguments(arguments: Arrays, in_out: Collection[int]) -> str:
    """A digest of arguments, and of which are stored to with values before."""
    digest = hashlib.sha256(repr(sorted(in_out)).encode())
    for array in arguments:
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
