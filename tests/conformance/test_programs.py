"""Programs of known status under the simulator: each wrong one is caught by what was planted in it,
and no right one is accused; on a GPU, the right ones are right.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import tvm
from compilers import needs_compiler
from known import AS_WRITTEN, KINDS, RIGHT, WRONG, Program, read_programs
from lowered import REST

from tirstep.lowering_checks import get_device
from tirstep.lowering_checks.compile.compiling import compile_module
from tirstep.lowering_checks.device import NotRunError
from tirstep.lowering_checks.devices import find_unbound_sblocks
from tirstep.lowering_checks.devices.simulator import simulate_lowered
from tirstep.lowering_checks.facts import compile_facts, get_facts

PROGRAMS = read_programs()


def judge(program: Program) -> list[str]:
    """The kinds of faults that the simulator finds, and what is wrong with the numbers."""
    if program.family in AS_WRITTEN:
        simulator, module = get_device("simulator"), program.module
        device = get_device("cpu") if simulator.find_obstacle(module) else simulator
        ran = device.compile(module)
        ran.in_out = range(len(program.given))  # flags may be stored to, and hold values before
        arguments, findings = ran(program.make_arguments()), ran.findings
    else:
        simulation = simulate_lowered(program.module, program.make_arguments())
        arguments, findings = simulation.arguments, simulation.findings
    kinds = [finding.kind for finding in findings]
    return list(dict.fromkeys([*kinds, *program.find_faults(arguments)]))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda it: it.name)
def test_a_program_has_its_verdict(program: Program) -> None:
    """Where another fault is seen as well, it follows from the planted one."""
    said = judge(program)
    if program.status == RIGHT or program.missed:
        assert said == []
    else:
        assert program.kind in said


SYNCHRONIZES = re.compile(r"(?<!a)sync|barrier|fence|wait|arrive|expect_tx|setmaxnreg|commit_gr")
NOTHING_TWICE = ("tirx", "async_copies", "ring_buffers", "warpgroups", "tcgen05")
"""Families whose right programs have no barrier that another one makes superfluous."""


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "program",
    [it for it in PROGRAMS if it.status == RIGHT and it.family in NOTHING_TWICE],
    ids=lambda it: it.name,
)
def test_what_synchronizes_is_missed_where_it_is_taken_out(program: Program) -> None:
    """Each line that does nothing else. What goes wrong then nobody has written down."""
    lines = program.text.splitlines()
    for number, line in enumerate(lines[2:], 2):
        is_call = line.endswith(")") and " = " not in line
        if SYNCHRONIZES.search(line) and is_call and "relinquish" not in line:  # a right, no duty
            without = [*lines]
            without[number] = line[: len(line) - len(line.lstrip())] + "T.evaluate(0)"
            with contextlib.suppress(NotRunError):  # a loop that waits for what never comes
                assert judge(replace(program, text="\n".join(without))), line


def test_a_fence_behind_a_wait_takes_away_nothing_that_it_told() -> None:
    """It is redundant there, and so in no right program."""
    name, wait = "ColumnsGivenBackBehindARelaxedArrivalAndItsFence", 'wait.acquire.aligned"]()'
    (program,) = [it for it in PROGRAMS if it.name == name]
    text = program.text.replace(wait, f'{wait}\n    T.ptx["tcgen05.fence::after_thread_sync"]()')
    assert text != program.text
    assert judge(replace(program, text=text)) == []


@needs_compiler
@pytest.mark.parametrize(
    "program",
    [it for it in PROGRAMS if it.status == RIGHT and it.arch == "sm_100a"],
    ids=lambda it: it.name,
)
def test_a_right_program_of_blackwell_assembles(program: Program) -> None:
    """No card of that kind has run any: ptxas is the one to ask."""
    facts = get_facts(program.module, "cuda")
    compiled = compile_facts(facts.source, program.arch, facts.kernels)
    assert (facts.refusal, compiled.refusal) == (None, None)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "program", [it for it in PROGRAMS if it.status == RIGHT], ids=lambda it: it.name
)
def test_a_right_program_is_right_on_the_hardware(program: Program) -> None:
    """In each of three runs; a wrong one may be right there by chance, or end the process."""
    target = tvm.target.Target(tvm.target.Target.from_device(tvm.cuda(0)), host="llvm")
    here, needed = str(target.attrs["arch"]), program.arch
    numbers = [int("".join(filter(str.isdigit, arch))) for arch in (here, needed)]
    if numbers[0] < numbers[1] or (needed.endswith("a") and numbers[0] != numbers[1]):
        pytest.skip(f"the program needs {needed}")
    function = program.module["main"].with_attr("target", target)
    if program.family in AS_WRITTEN and find_unbound_sblocks(program.module):
        pytest.skip("the program is a CPU's")
    pipeline = None if program.family in AS_WRITTEN else REST
    run = compile_module(tvm.IRModule({"main": function}), target, pipeline=pipeline)["main"]
    for _ in range(3):
        tensors = [tvm.runtime.tensor(it, tvm.cuda(0)) for it in program.make_arguments()]
        run(*tensors)
        assert program.find_faults([tensor.numpy() for tensor in tensors]) == []


def test_programs_are_well_formed() -> None:
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)
    for program in PROGRAMS:
        assert (program.status, bool(program.kind)) in ((RIGHT, False), (WRONG, True))
        assert program.kind in ("", *KINDS)
        assert program.why
        assert program.meant or program.status == WRONG
        assert program.status == WRONG or not program.missed


def test_there_are_enough_of_each_status_and_kind() -> None:
    assert Counter(program.status for program in PROGRAMS) == {WRONG: 433, RIGHT: 287}
    assert {program.kind for program in PROGRAMS if program.kind} == set(KINDS)
    assert sum(bool(program.missed) for program in PROGRAMS) == 2


def test_the_outputs_of_right_programs_say_whether_they_ran() -> None:
    """No right program expects what its outputs hold before it runs."""
    for program in PROGRAMS:
        if program.status == RIGHT:
            blank = program.make_arguments()[len(program.given) :]
            for want, before in zip(program.find_expected(), blank, strict=True):
                same = np.equal(want.astype("float64"), before.astype("float64"))
                assert not same.any(), program.name
