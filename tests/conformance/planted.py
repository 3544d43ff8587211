"""Planted bugs: small right programs in `originals`, and diffs of their text in `planted`.

An original is a scheduled or a lowered function as TVM prints it, without the regions that its
parser finds, below the problem that it computes.
A bug is a hunk or more of a unified diff behind its name, its kind, and what must kill it::

    # operand transposed
    # index swapped: B[vj, vk] for B[vk, vj], at a square shape where both exist
    # killed by cpu exact random, simulator exact random

What is killed by nothing says instead why it alters no result: ``equivalent: ...``.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

import tvm
from hunks import apply_hunks
from tvm.script import from_source

from tirstep.lowering_checks import DeviceError, get_device
from tirstep.lowering_checks.device import Arrays
from tirstep.lowering_checks.devices import Program
from tirstep.lowering_checks.devices.simulator import simulate_lowered
from tirstep.lowering_checks.numeric import INTEGERS, check_case, make_cases
from tirstep.modules import Problem, get_kernel

FOLDER = Path(__file__).parent
LOWERED = "_lowered"


@dataclass(frozen=True)
class Original:
    """A right program.

    Attributes
    ----------
    problem : what it computes
    text : the function, scheduled; lowered where its name ends with `LOWERED`
    """

    name: str
    problem: Problem
    text: str

    @property
    def module(self) -> tvm.IRModule:
        """The module, parsed anew: lowering changes some in place."""
        return parse(self.text)


@dataclass(frozen=True)
class Bug:
    """A planted bug.

    Attributes
    ----------
    original : the name of the program that is changed
    what : the kind of mistake, and what was done
    killers : the checks that must see it, as ``"simulator exact"``; none for an equivalent
    diff : the change
    """

    name: str
    original: str
    what: str
    killers: frozenset[str]
    diff: str

    def plant(self) -> str:
        """The original's text with the bug."""
        return apply_hunks(self.diff, read_original(self.original).text, self.name)


def parse(text: str) -> tvm.IRModule:
    """The module of a function ``main``."""
    return tvm.IRModule({"main": from_source(text)})


@functools.cache
def read_original(name: str) -> Original:
    """The original of a name."""
    head, _, text = (FOLDER / "originals" / f"{name}.py").read_text().partition("\n")
    kernel, arguments = re.fullmatch(r"# (\w+)\((.*)\)", head).groups()
    return Original(name, eval(f"make({arguments})", {"make": get_kernel(kernel).problem}), text)


def read_bugs() -> list[Bug]:
    """All planted bugs, original by original."""
    files = sorted((FOLDER / "planted").glob("*.diff"))
    return [_read_bug(file.stem, text) for file in files for text in file.read_text().split("\n\n")]


def _read_bug(original: str, text: str) -> Bug:
    head, at, diff = text.partition("@@")
    lines = re.sub(r"\n#   +", " ", head).replace("# ", "").strip().splitlines()
    name, what, verdict = lines
    killers = set()
    if verdict.startswith("killed by "):
        for part in verdict.removeprefix("killed by ").split(", "):
            device, *aspects = part.split()
            killers |= {f"{device} {aspect}" for aspect in aspects}
    else:
        assert verdict.startswith("equivalent: "), verdict
    return Bug(name, original, what, frozenset(killers), f"{at}{diff.rstrip()}\n")


def judge(name: str, text: str) -> dict[str, str]:
    """What each check says of a program with an original's problem; empty where it is silent.

    Checks are the device's faults, and numbers on integers ("exact") and on random floats.
    """
    problem = read_original(name).problem
    module = parse(text)
    if name.endswith(LOWERED):
        return _judge_program(problem, _simulated(module), "simulator")
    said: dict[str, str] = {}
    for name in ("cpu", "simulator"):
        device = get_device(name)
        try:
            obstacle = device.find_obstacle(module)
            if obstacle is None:
                said |= _judge_program(problem, device.compile(module), name)
            else:
                said[f"{name} faults"] = obstacle
        except DeviceError as error:
            said[f"{name} faults"] = str(error)
    return said


def _judge_program(problem: Problem, program: Program, device: str) -> dict[str, str]:
    said, cases = {}, make_cases(problem, 0, False)
    for aspect, is_whole in (("exact", True), ("random", False)):
        said[f"{device} {aspect}"] = ""
        for case in (it for it in cases if (it.rows == INTEGERS) == is_whole):
            findings = check_case(problem, program, case, device)
            if case is cases[0]:
                fault = str(program.findings[0]) if program.findings else ""
                said[f"{device} faults"] = fault
            if findings:  # the first says it, and the others would say no more
                said[f"{device} {aspect}"] = findings[0].message
                break
    return said


def _simulated(module: tvm.IRModule) -> Program:
    def run(arguments: Arrays) -> tuple[Arrays, list]:
        simulation = simulate_lowered(module, arguments)
        return simulation.arguments, simulation.findings

    return Program(run)
