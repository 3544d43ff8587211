"""Programs of known status on simulator and host: what they miss or accuse is a documented limit.

programs/ has the programs, judging/known_limits.py the limits, docs/adversarial.md the table.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from judging import results
from judging.devices import CAUGHT, FALSE_ALARM, HOST, MISSED, OK, REFUSED, SIMULATOR, judge
from judging.known_limits import LIMITS, find_limits
from judging.table import render
from programs import FAMILIES, KINDS, PROGRAMS, RIGHT, WRONG

from tirstep.lowering_checks.devices import is_host_available

# One process simulates each program once: the verdicts are kept, and the table is made of them.
simulating = pytest.mark.xdist_group("adversarial")
NAMES = [family.PROGRAMS[0].family for family in FAMILIES]
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "adversarial.md"


def find_surprises(device: str, family: str) -> list[str]:
    """The programs of a family of which a device says something else than what is known."""
    limits = find_limits(device)
    surprises = []
    for program in PROGRAMS:
        if program.family != family:
            continue
        verdict = judge(program, device)
        usual = CAUGHT if program.status == WRONG else OK
        known = limits[program.name].outcome if program.name in limits else usual
        if verdict.outcome != known:
            surprises.append(f"{program.name}: {verdict}, and {known} is known")
    return surprises


@simulating
@pytest.mark.parametrize("family", NAMES)
def test_the_simulator_says_what_is_known(family: str) -> None:
    assert find_surprises(SIMULATOR, family) == []


@pytest.mark.skipif(not is_host_available(), reason="there is no C++ compiler")
@pytest.mark.parametrize("family", NAMES)
def test_the_host_says_what_is_known(family: str) -> None:
    assert find_surprises(HOST, family) == []


def test_each_limit_is_of_a_program_and_has_a_reason() -> None:
    names = {program.name for program in PROGRAMS}
    named = [(limit.device, name) for limit in LIMITS for name in limit.names]
    assert {name for _, name in named} <= names
    assert max(Counter(named).values()) == 1
    status = {program.name: program.status for program in PROGRAMS}
    for limit in LIMITS:
        assert limit.reason
        possible = {MISSED: {WRONG}, FALSE_ALARM: {RIGHT}, REFUSED: {RIGHT, WRONG}}[limit.outcome]
        assert {status[name] for name in limit.names} <= possible


@simulating
def test_the_simulator_catches_by_the_fault_that_was_planted() -> None:
    """Where it sees another fault as well or instead, that one must follow from the planted one."""
    others = {}
    for program in PROGRAMS:
        verdict = judge(program, SIMULATOR)
        if verdict.outcome == CAUGHT and program.kind not in verdict.says:
            others[program.name] = verdict.says
    assert others == {}


def test_programs_are_well_formed() -> None:
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)
    for program in PROGRAMS:
        assert (program.status, bool(program.kind)) in ((RIGHT, False), (WRONG, True))
        assert program.kind in ("", *KINDS)
        assert program.why
        assert program.expected is not None or program.status == WRONG
        for array, output in zip(program.expected or (), program.outputs.values(), strict=False):
            assert array.shape == output.shape


def test_there_are_enough_of_each_status_and_kind() -> None:
    statuses = Counter(program.status for program in PROGRAMS)
    assert statuses[WRONG] >= 120
    assert statuses[RIGHT] >= 90
    assert {program.kind for program in PROGRAMS if program.kind} == set(KINDS)


def test_the_outputs_of_right_programs_say_whether_they_ran() -> None:
    """No right program expects what its outputs hold before it runs."""
    for program in PROGRAMS:
        if program.status == RIGHT:
            for want, blank in zip(program.expected, program.outputs.values(), strict=True):
                same = np.equal(want.astype("float64"), blank.astype("float64"))
                assert not same.any(), program.name


def test_stored_results_of_a_gpu_do_not_contradict_the_status() -> None:
    """Hardware that makes a right program wrong would mean that it is not."""
    said = results.read().programs("gpu")
    right = {program.name for program in PROGRAMS if program.status == RIGHT}
    contradicted = {name: verdict for name, verdict in said.items() if name in right}
    assert {verdict.outcome for verdict in contradicted.values()} <= {"right", "not run"}, (
        contradicted
    )


@simulating
def test_the_document_has_this_table() -> None:
    text = DOCUMENT.read_text() if DOCUMENT.is_file() else ""
    assert text == render(), "docs/adversarial.md is not up to date: run `make adversarial`"


@pytest.mark.usefixtures("warm_commands")
def test_a_program_is_shown_as_text() -> None:
    script = Path(__file__).with_name("make_table.py")
    name = "two slots, one barrier"
    done = subprocess.run(
        [sys.executable, str(script), "--show", name], capture_output=True, text=True, check=True
    )
    assert "T.tvm_storage_sync" in done.stdout
    assert name in done.stdout
