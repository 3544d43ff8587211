"""The runs of recipes at their golden and default examples, each made once in a process and shared.

Nothing changes a run, whose modules TVM shares anyway.
"""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import tvm
from tvm.script import from_source

from tirstep import lowering_checks
from tirstep.lowering_checks import Finding, GoldenStore, Run, check_numbers
from tirstep.lowering_checks.device import Arrays, DeviceFinding
from tirstep.lowering_checks.devices import Program, get_device, simulator
from tirstep.lowering_checks.numeric import check_program
from tirstep.lowering_checks.steps import make_golden_problem, print_module, step_label
from tirstep.modules import AnyProblem
from tirstep.transforms.recipes import RECIPES, Recipe, Step


@functools.cache
def _make_golden(name: str) -> Run:
    return lowering_checks.run_golden(RECIPES[name])


@functools.lru_cache(maxsize=64)  # the recipes that are compiled together, in one process
def _make_default(name: str) -> Run:
    return lowering_checks.run_default_example(RECIPES[name])


def run_golden(recipe: Recipe) -> Run:
    """The run of a recipe at its golden example; of recipes beside `RECIPES`, a new one."""
    if RECIPES.get(recipe.name) is recipe:
        return _make_golden(recipe.name)
    return lowering_checks.run_golden(recipe)


def run_default_example(recipe: Recipe) -> Run:
    """The same at its default example."""
    if RECIPES.get(recipe.name) is recipe:
        return _make_default(recipe.name)
    return lowering_checks.run_default_example(recipe)


GOLDENS = GoldenStore(Path(__file__).resolve().parents[1] / "golden")


@functools.cache
def find_first_recipes() -> dict[tuple[AnyProblem, str], str]:
    """The first recipe that has a program of a problem among its goldens, by problem and digest."""
    first: dict[tuple[AnyProblem, str], str] = {}
    for recipe in RECIPES.values():
        problem = make_golden_problem(recipe)
        for digest in GOLDENS.read_digests(recipe.name).values():
            first.setdefault((problem, digest), recipe.name)
    return first


def list_new_steps(run: Run) -> list[Step]:
    """The steps of a golden run that are no program of a recipe before, for the same problem; and
    the last one in any case.

    Goldens say so, against which test_golden.py holds each step: the rungs of a ladder begin with
    the same ones.
    """
    first, digests = find_first_recipes(), GOLDENS.read_digests(run.recipe.name)
    return [
        step
        for step in run.steps
        if step is run.steps[-1]
        or first.get((run.problem, digests.get(step_label(step)))) in (None, run.recipe.name)
    ]


@functools.cache
def read_step(label: str, recipe: str) -> tvm.IRModule:
    """A step of a recipe's golden run, as its text is read again; `label` is as ``"01_tiled"``."""
    steps = {step_label(step): step for step in run_golden(RECIPES[recipe]).steps}
    return from_source(print_module(steps[label].module))


_lower_anew = simulator.lower


@functools.lru_cache(maxsize=128)  # the steps that a ladder's rungs share, too
def _lower(_text: str, module: tvm.IRModule) -> tvm.IRModule:
    return _lower_anew(module)


def lower_once(module: tvm.IRModule) -> tvm.IRModule:
    """A step of a golden run, lowered for the simulator once in a process."""
    return _lower(module.script(), module)


@contextlib.contextmanager
def lowering_once() -> Iterator[None]:
    """While this lasts, the simulator has each module lowered so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulator, "lower", lower_once)
        yield


DEVICES = pytest.mark.parametrize(
    "device", ["simulator", pytest.param("cuda", marks=pytest.mark.gpu)]
)


def require_right(run: Run, device: str = "simulator", seed: int = 0) -> None:
    """Fail where the last step of a run computes something else."""
    module, where = run.steps[-1].module, str(run.config)
    assert check_numbers(run.problem, module, get_device(device), where=where, seed=seed) == []


class Checked(NamedTuple):
    """A program held against the reference: what is wrong, and its outputs in each exact case."""

    findings: list[Finding]
    outputs: list[Arrays]


def check_recorded(run: Run, program: Program, device: str) -> Checked:
    """`check_program` of a run's last step, which keeps the outputs that it looks at."""
    outputs: list[Arrays] = []
    inner = program._run

    def record(arguments: Arrays) -> tuple[Arrays, Sequence[DeviceFinding]]:
        after, found = inner(arguments)
        outputs.append(run.problem.take_outputs(after))
        return after, found

    program._run = record
    findings = check_program(run.problem, program, device, where=run.label(run.steps[-1]))
    return Checked(findings, outputs[: len(run.problem.integer_rounds(0))])


@functools.cache
def check_golden_on_simulator(name: str) -> Checked:
    """The last step of a recipe's golden run on the simulator, once in a process."""
    run = _make_golden(name)
    with lowering_once():
        program = get_device("simulator").compile(run.steps[-1].module)
    return check_recorded(run, program, "simulator")
