"""The layers of the checks, each asked by itself whether it kills a mutant."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

import tvm
import tvm_ffi
from tvm.s_tir import Schedule
from tvm.script import from_source

from tirstep.lowering_checks import DeviceError, GoldenStore, Run, get_device, golden
from tirstep.lowering_checks.devices import Program
from tirstep.lowering_checks.devices.device import Arrays
from tirstep.lowering_checks.devices.simulator import simulate_lowered
from tirstep.lowering_checks.numeric import check_case, make_cases
from tirstep.modules import Problem
from tirstep.transforms import TransformError

from .originals import (
    Original,
    edit_module,
    find_lowered,
    find_original,
    plant_in_recipe,
    replay,
    run_with,
)
from .plant import LOWERED, GoldenMutant, ModuleMutant, Mutant, RecipeMutant

GOLDENS = GoldenStore(Path(__file__).resolve().parents[2] / "golden")
REFUSAL, TVM, GOLDEN_FILE, SANITIZER = "refusal", "TVM", "golden", "sanitizer"
DEVICES = ("cpu", "simulator")
HOST = "host"
ASPECTS = ("faults", "exact", "random")
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
LAYERS = (
    REFUSAL,
    TVM,
    GOLDEN_FILE,
    *(f"{device} {aspect}" for device in (*DEVICES, HOST) for aspect in ASPECTS),
    *(f"{SANITIZER} {tool}" for tool in TOOLS),
)

Outcome = Mapping[str, str]
"""A layer that was asked, and what it says: empty where it is silent."""


@functools.cache
def judge(mutant: Mutant) -> Outcome:
    """What each layer says of a mutant."""
    original = find_original(mutant.original)
    if isinstance(mutant, GoldenMutant):
        return _judge_golden(mutant, original)
    if isinstance(mutant, RecipeMutant):
        return _judge_recipe(mutant, original)
    assert isinstance(mutant, ModuleMutant)
    if mutant.level == LOWERED:
        lowered = edit_module(find_lowered(mutant.original), mutant.edits)
        _require_difference(mutant, find_lowered(mutant.original), lowered)
        return judge_program(original.run.problem, _simulated(lowered), "simulator")
    module = edit_module(original.module, mutant.edits)
    _require_difference(mutant, original.module, module)
    last = replace(original.run.steps[-1], module=module)
    run = replace(original.run, steps=(*original.run.steps[:-1], last))
    return judge_run(run, has_golden=original.has_golden)


def judge_run(run: Run, *, has_golden: bool, devices: Sequence[str] = DEVICES) -> dict[str, str]:
    """What the layers behind the transforms say of a run's last step."""
    outcome = {TVM: ""}
    if has_golden:
        outcome[GOLDEN_FILE] = _first_golden(GOLDENS, run)
    for name in devices:
        device = get_device(name)
        module = run.steps[-1].module
        obstacle = device.find_obstacle(module)
        if obstacle is not None:
            outcome[f"{name} faults"] = obstacle
            continue
        try:
            program = device.compile(module)
        except DeviceError as error:
            outcome[TVM] = str(error)
            continue
        try:
            outcome.update(judge_program(run.problem, program, name))
        except DeviceError as error:
            outcome[f"{name} faults"] = str(error)
    return outcome


def judge_program(problem: Problem, program: Program, device: str) -> dict[str, str]:
    """What one device says: its faults, the exact numbers, the random ones."""
    outcome, cases = {}, make_cases(problem, 0)
    for aspect, several in (("exact", cases.exact), ("random", cases.floats)):
        said = ""
        for case in several:
            findings = check_case(problem, program, case, device)
            if case is cases.exact[0]:
                outcome[f"{device} faults"] = str(program.findings[0]) if program.findings else ""
            if findings:  # the first says it, and the others would say no more
                said = findings[0].message
                break
        outcome[f"{device} {aspect}"] = said
    return outcome


def judge_original(name: str) -> dict[str, str]:
    """The same for an original that nobody edited: as it is, and from its lowered text."""
    original = find_original(name)
    devices = DEVICES[1:] if original.is_for_gpu else DEVICES
    outcome = judge_run(original.run, has_golden=original.has_golden, devices=devices)
    lowered = judge_program(original.run.problem, _simulated(find_lowered(name)), "lowered")
    return {**outcome, **lowered}


def _judge_recipe(mutant: RecipeMutant, original: Original) -> dict[str, str]:
    outcome = {REFUSAL: find_refusal(mutant, original.run)}
    try:
        run = plant_in_recipe(original.run, mutant)
    except tvm.s_tir.ScheduleError as refused:
        return {**outcome, TVM: str(refused).strip().splitlines()[-1]}
    if run is None:
        return outcome
    _require_difference(mutant, original.module, run.steps[-1].module)
    return {**outcome, **judge_run(run, has_golden=original.has_golden)}


def find_refusal(mutant: RecipeMutant, run: Run) -> str:
    """What our transforms say to the mistake; empty where they let it pass."""
    try:
        if mutant.config:
            run_with(run, mutant.config)
        if mutant.misuse is not None:
            (step,) = [step for step in run.steps if step.name == mutant.misuse.after]
            mutant.misuse.call(Schedule(step.module))
    except TransformError as refused:
        return str(refused)
    return ""


def _judge_golden(mutant: GoldenMutant, original: Original) -> dict[str, str]:
    """The faulty folder's findings; and, of a recipe that is wrong itself, what devices say."""
    run = replay(original.run, mutant.trace) if mutant.trace else original.run
    with tempfile.TemporaryDirectory() as folder:
        store = GoldenStore(Path(folder))
        store.write([run], environment={})
        mutant.plant(store.root)
        outcome = {GOLDEN_FILE: _first_golden(store, run)}
    return {**(judge_run(run, has_golden=False) if mutant.trace else {}), **outcome}


def _first_golden(store: GoldenStore, run: Run) -> str:
    with mock.patch.object(golden, "from_source", _parse):
        checked = store.check(run)
    findings = [*store.check_version(), *(finding for step in checked for finding in step)]
    if store is not GOLDENS:
        findings += store.find_orphans([run])
    return findings[0].message if findings else ""


@functools.lru_cache(maxsize=64)
def _parse(text: str, check_well_formed: bool) -> tvm.IRModule:
    """A golden is compared with many mutants."""
    return from_source(text, check_well_formed=check_well_formed)


def _simulated(lowered: tvm.IRModule) -> Program:
    def run(arguments: Arrays) -> tuple[Arrays, list]:
        simulation = simulate_lowered(lowered, arguments)
        return simulation.arguments, simulation.findings

    return Program(run)


def _require_difference(mutant: Mutant, before: tvm.IRModule, after: tvm.IRModule) -> None:
    if tvm_ffi.structural_equal(before, after, map_free_vars=True):
        raise AssertionError(f"mutant {mutant.name} is the original: fix it")
