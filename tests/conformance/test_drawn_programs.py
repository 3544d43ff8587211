"""Programs of known status on inputs that are drawn for them: what is wrong for some data is found,
and no right program is accused.
"""

from __future__ import annotations

from collections import Counter

import pytest
from known import RIGHT, WRONG, Program, read_programs

from tirstep.lowering_checks.devices import CpuDevice, SimulatorDevice
from tirstep.lowering_checks.judgement import Judgement, Status, judge_numbers
from tirstep.lowering_checks.reference import ModuleKernel
from tirstep.lowering_checks.reference.module_kernel import ModuleProblem

PROGRAMS = {program.name: program for program in read_programs("drawn")}
SEEDS = (0, 3)


def make_problem(program: Program) -> ModuleProblem:
    """A program, judged by its reference, or by its own serial meaning."""
    reference = PROGRAMS.get(program.reference)
    kernel = ModuleKernel(program.module, program.name)
    if reference is not None:
        kernel = kernel.with_reference(ModuleKernel(reference.module, reference.name))
    return kernel.problem()


def judge(program: Program, seed: int) -> Judgement:
    """What is said of a program, on the simulator where its loops are bound."""
    problem, device = make_problem(program), SimulatorDevice()
    runner = device if device.find_obstacle(problem.module) is None else CpuDevice()
    return judge_numbers(problem, problem.module, runner, where=program.name, seed=seed)


@pytest.mark.share(6)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_its_verdict(name: str, seed: int) -> None:
    program = PROGRAMS[name]
    judged = judge(program, seed)
    said = [f"{it.check}: {it.message}" for it in judged.findings]
    if program.status == RIGHT:
        assert (judged.status, said) == (Status.RIGHT, [])
    elif program.kind == "wrong numbers":
        assert any(it.startswith("numbers: ") for it in said)
    else:
        assert any(program.kind in it for it in said)


def test_there_are_enough_of_each_kind() -> None:
    families = Counter((it.family, it.status) for it in PROGRAMS.values())
    assert all(families[it.family, status] for it in PROGRAMS.values() for status in (RIGHT, WRONG))
    assert Counter(it.status for it in PROGRAMS.values()) == {RIGHT: 79, WRONG: 70}


@pytest.mark.share(9)
@pytest.mark.parametrize("name", [it.name for it in PROGRAMS.values() if it.status == RIGHT])
def test_all_of_a_right_program_runs(name: str) -> None:
    assert make_problem(PROGRAMS[name]).find_unrun(0) == []
