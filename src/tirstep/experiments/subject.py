"""A module that a pass is tried on, with what it must compute."""

from __future__ import annotations

import contextlib
import functools
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

from tirstep.lowering_checks import CheckError, Finding
from tirstep.lowering_checks.compile.compiling import MAIN, TARGET
from tirstep.lowering_checks.device import (
    Arrays,
    DeviceError,
    Program,
    blank,
    find_unbound_sblocks,
    is_scalar,
)
from tirstep.lowering_checks.devices.simulator import UnsupportedError
from tirstep.lowering_checks.devices.simulator.interpreter import Interpreter
from tirstep.lowering_checks.numeric import check_case, compare_outputs, make_cases
from tirstep.modules import AnyProblem
from tirstep.modules.dtypes import dtype_facts
from tirstep.transforms.passes.serial import make_threads_serial
from tirstep.transforms.tir import find_all, get_axis

HOST = "llvm"
WRONG_AS_IT_STANDS = "it is wrong as it stands"
SMALLEST, LARGEST = -4, 4
"""The inputs of a drawn program: whole numbers, with which it computes exactly in all its types."""


@dataclass(frozen=True, eq=False)
class ProblemOracle:
    """A kernel's meaning in NumPy: whole numbers first, then floats within the kernel's bound."""

    problem: AnyProblem
    seed: int

    @property
    def arguments(self) -> Arrays:
        case = make_cases(self.problem, self.seed).exact[0]
        return self.problem.make_arguments(
            case.inputs, [blank(each) for each in self.problem.outputs]
        )

    def check(self, program: Program, device: str, where: str) -> list[Finding]:
        cases = make_cases(self.problem, self.seed)
        for case in (*cases.exact[:1], *cases.floats[:1]):
            found = check_case(self.problem, program, case, where)
            faults = [Finding(device, where, str(fault)) for fault in program.findings]
            if found or faults:
                return [*faults, *found]
        return []


@dataclass(frozen=True, eq=False)
class ModuleOracle:
    """The module itself, as the interpreter runs it before any pass, on whole numbers.

    What comes out whole must be the same to the bit; other floats may be off by some units in the
    last place (`numeric.get_default_bound`).

    Raises `DeviceError` where the interpreter cannot run it, or finds it wrong as it stands.
    """

    module: tvm.IRModule
    seed: int

    @functools.cached_property
    def arguments(self) -> Arrays:
        return make_arguments(self.module, self.seed)

    @functools.cached_property
    def expected(self) -> Arrays:
        try:
            return _interpret(self.module, self.arguments)
        except DeviceError as error:
            # A sum over threads in registers, say, which one thread after the other adds up.
            if WRONG_AS_IT_STANDS in str(error):
                raise
            with contextlib.suppress(DeviceError):
                return _interpret(make_threads_serial(self.module), self.arguments)
            raise error

    def check(self, program: Program, device: str, where: str) -> list[Finding]:
        expected = self.expected
        after = program(self.arguments)
        names = [str(parameter.name) for parameter in self.module[MAIN].params]
        faults = [Finding(device, where, str(fault)) for fault in program.findings]
        return [*faults, *compare_outputs(after, expected, names=names, where=where)]


def _interpret(module: tvm.IRModule, arguments: Arrays) -> Arrays:
    """Run a module as it stands; raises `DeviceError` where that finds something wrong."""
    try:
        program = Interpreter().compile(module)
        after = program(arguments)
    except DeviceError:
        raise
    except Exception as error:  # a module that was cut down may be anything
        raise DeviceError(explain_failure(error)) from error
    if program.findings:
        raise DeviceError(f"{WRONG_AS_IT_STANDS}: {program.findings[0]}")
    return after


def explain_failure(error: Exception) -> str:
    """What an error of the interpreter's says, or of a program that may be anything."""
    if isinstance(error, DeviceError | CheckError | UnsupportedError):
        return str(error)
    return f"the interpreter fails: {type(error).__name__}: {error}"


def make_arguments(module: tvm.IRModule, seed: int) -> Arrays:
    """Integers from `SMALLEST` to `LARGEST` for each parameter, by its name: a parameter more
    changes no other's. Unsigned ones and truths are from 0 on.
    """

    def draw(parameter: Any) -> Any:
        has_shape, name = not is_scalar(parameter), str(parameter.name)
        dtype = str(parameter.dtype if has_shape else parameter.ty)
        random = np.random.default_rng([seed, zlib.crc32(name.encode())])
        low = 0 if dtype.startswith(("u", "bool")) else SMALLEST
        high = 1 if dtype == "bool" else LARGEST
        shape = tuple(int(size) for size in parameter.shape) if has_shape else ()
        drawn = random.integers(low, high + 1, size=shape)
        return drawn.astype("bool" if dtype == "bool" else dtype_facts(dtype).numpy)

    return [draw(each) for each in module[MAIN].params]


Oracle = ProblemOracle | ModuleOracle
"""What knows the right answer."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A module that a pass is tried on.

    Attributes
    ----------
    label : ``"matmul_naive 01_bound"``, ``"program 17 of seed 0"``
    """

    label: str
    module: tvm.IRModule
    oracle: Oracle

    @functools.cached_property
    def target(self) -> str:
        """What it is compiled for: a GPU where its loops are bound to one, otherwise this CPU."""
        return TARGET if is_bound(self.module) else HOST

    @property
    def problem(self) -> AnyProblem | None:
        """The kernel's problem; None of a module that is its own reference."""
        return getattr(self.oracle, "problem", None)


def is_bound(module: tvm.IRModule) -> bool:
    """Whether all of a module runs on a GPU's threads."""
    bound = any(
        "Idx" in (get_axis(loop) or "")
        for function in module.functions.values()
        for loop in find_all(function.body, tvm.tirx.For)
    )
    return bound and not find_unbound_sblocks(module)


def make_subject(label: str, module: tvm.IRModule, seed: int = 0) -> Subject:
    """A subject whose reference is the module itself."""
    return Subject(label, module, ModuleOracle(module, seed))
