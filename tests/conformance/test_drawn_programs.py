"""Programs of known status on inputs that are drawn for them: what is wrong for some data is found,
and no right program is accused.
"""

from __future__ import annotations

import pytest
from known import RIGHT, Program, read_programs

from tirstep.lowering_checks.comparison import run_program
from tirstep.lowering_checks.devices import SimulatorDevice
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


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_its_verdict(name: str, seed: int) -> None:
    program = PROGRAMS[name]
    problem = make_problem(program)
    findings, _, _ = run_program(problem, problem.module, SimulatorDevice(), name, seed)
    said = [f"{it.check}: {it.message}" for it in findings]
    if program.status == RIGHT:
        assert said == []
    elif program.kind == "wrong numbers":
        assert any(it.startswith("numbers: ") for it in said)
    else:
        assert any(program.kind in it for it in said)
