"""The devices that need no GPU, each given a program: what they say, and whether they are right."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from planted.subjects import REST
from programs import RIGHT, Program

from tirstep.lowering_checks import DeviceError
from tirstep.lowering_checks.devices import DeviceFinding
from tirstep.lowering_checks.devices.host import HostDevice, generate
from tirstep.lowering_checks.devices.simulator import (
    UnknownFunctionError,
    UnsupportedError,
    simulate_lowered,
)

SIMULATOR, HOST = "simulator", "host"
CAUGHT, MISSED, OK, FALSE_ALARM, REFUSED = "caught", "missed", "ok", "false alarm", "refused"
HANGS, NUMBERS, INPUT = "hangs", "wrong numbers", "input changed"
RUN_SECONDS = 3.0
"""Of one program on host; without a hang it takes some milliseconds."""


@dataclass(frozen=True)
class Verdict:
    """What a device says of a program.

    Attributes
    ----------
    outcome : `CAUGHT` or `MISSED` for a wrong program, `OK` or `FALSE_ALARM` for a right one, or
        `REFUSED`
    says : the kinds of its faults and what is wrong with its numbers, or why it refuses
    """

    outcome: str
    says: str = ""

    def __str__(self) -> str:
        return f"{self.outcome}: {self.says}" if self.says else self.outcome


@functools.cache
def judge(program: Program, device: str) -> Verdict:
    """What a device says of a program, run once."""
    try:
        said = _simulate(program) if device == SIMULATOR else _run_on_host(program)
    except (DeviceError, UnknownFunctionError, UnsupportedError) as error:
        if "does not end within" not in str(error):
            return Verdict(REFUSED, str(error))
        said = [HANGS]
    if program.status == RIGHT:
        return Verdict(FALSE_ALARM if said else OK, ", ".join(said))
    return Verdict(CAUGHT if said else MISSED, ", ".join(said))


def compare(program: Program, arrays: Sequence[np.ndarray]) -> list[str]:
    """What is wrong with the arguments after a run."""
    said, count = [], len(program.inputs)
    pairs = zip(arrays[count:], program.expected or (), strict=False)
    if not all(np.array_equal(_widen(got), _widen(want), equal_nan=True) for got, want in pairs):
        said.append(NUMBERS)
    inputs = zip(arrays, program.inputs.values(), strict=False)
    if not all(np.array_equal(_widen(got), _widen(was), equal_nan=True) for got, was in inputs):
        said.append(INPUT)
    return said


def _widen(array: np.ndarray) -> np.ndarray:
    """In a type that holds all values of the programs: int8 and what its author meant compare."""
    return array.astype("float64")


def _simulate(program: Program) -> list[str]:
    simulation = simulate_lowered(program.module, program.make_arguments())
    return [*_find_kinds(simulation.findings), *compare(program, simulation.arguments)]


def _run_on_host(program: Program) -> list[str]:
    generated = generate(program.module, pipeline=REST)
    HostDevice().compile_generated(generated)  # as long as it takes; below it is in the cache
    compiled = HostDevice(time_limit=RUN_SECONDS).compile_generated(generated)
    arrays = compiled(program.make_arguments())
    return [*_find_kinds(compiled.findings), *compare(program, arrays)]


def _find_kinds(faults: Sequence[DeviceFinding]) -> list[str]:
    return list(dict.fromkeys(fault.kind for fault in faults))
