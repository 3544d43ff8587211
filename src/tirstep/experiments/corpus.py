"""The corpus: what passes are tried on, drawn from a seed, each trial by its number.

Three quarters of the trials are random programs, the others steps of recipes, at their goldens'
shapes and at random ones. Where a pass does not change a random program, its trial goes on with
another one. The same seed and number always give the same modules.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import tvm
from pebble import ProcessExpired

from tirstep.lowering_checks.reference import ModuleProblem
from tirstep.lowering_checks.steps import Run, run_golden, run_recipe
from tirstep.modules import KernelError
from tirstep.processes import WorkerProcesses, count_cores, end_silently
from tirstep.strategies.drawn_programs import draw_program
from tirstep.strategies.problems import SIZES, Dice, draw_problem
from tirstep.transforms import TransformError, tir
from tirstep.transforms.recipes import RECIPES

from .trying import BAD, ModuleOracle, Oracle, ProblemOracle, Subject, make_subject

PROGRAM, STEP = KINDS = ("program", "step")
ORDER = (PROGRAM, STEP, PROGRAM, PROGRAM)
"""The kinds of four trials."""
REDRAWS = 8
"""Random programs of a trial at most: one that the pass does not change takes little time."""
LONGEST = 20_000
"""Statements that the interpreter may go through in a step of a recipe: a second or two. A tile of
wgmma as single products has six millions of them, and takes ten minutes.
"""
RECIPES_TRIED = 12
"""Until one has a step as short as that."""
FEWEST = 32
"""Trials for which it is worth it to start another process."""
_run_golden = functools.lru_cache(maxsize=128)(lambda name: run_golden(RECIPES[name]))


class UndrawnError(Exception):
    """A trial has no module: a drawn shape does not fit its recipe, say."""


@dataclass(frozen=True)
class Corpus:
    """The modules of a seed.

    Attributes
    ----------
    kinds : those that are drawn, of `KINDS`
    """

    seed: int = 0
    kinds: Sequence[str] = KINDS

    def get_kind(self, trial: int) -> str:
        """What a trial draws."""
        order = [kind for kind in ORDER if kind in self.kinds]
        return order[trial % len(order)]

    def draw_all(self, trial: int) -> Iterator[Subject]:
        """The modules of a trial, which are tried until the pass changes one; raises as `draw`."""
        for redraw in range(REDRAWS if self.get_kind(trial) == PROGRAM else 1):
            yield self.draw(trial, redraw)

    def draw(self, trial: int, redraw: int = 0) -> Subject:
        """A module of a trial; raises `UndrawnError` where it has none."""
        number = f"{trial}.{redraw}" if redraw else f"{trial}"
        choice = Dice(f"corpus {self.seed}:{number}")
        try:
            if self.get_kind(trial) == PROGRAM:
                label = f"program {number} of seed {self.seed}"
                return make_subject(label, draw_program(choice), self.seed)
            return self._draw_step(choice)
        except (KernelError, TransformError) as error:
            raise UndrawnError(str(error)) from error

    def _draw_step(self, choice: Dice) -> Subject:
        for _ in range(RECIPES_TRIED):
            recipe = choice.one(list(RECIPES.values()), "recipe")
            run = _run_golden(recipe.name)
            if recipe.kernel in SIZES and choice.one((False, True), "drawn shape"):
                tails = [tail for tail in recipe.tails if tail != "refuse"]
                if tails:
                    problem = draw_problem(choice, recipe.kernel)
                    config = {**recipe.golden.config, "tail": choice.one(tails, "tail")}
                    run = run_recipe(recipe, problem.shape, config=config)
            step = choice.one(run.steps, "step")
            if count_steps(step.module) > LONGEST:
                short = [it for it in run.steps if count_steps(it.module) <= LONGEST]
                if not short:
                    continue
                step = choice.one(short, "short step")
            label = f"{run.label(step)} at {run.problem.shape_text}"
            return Subject(label, step.module, ProblemOracle(run.problem, self.seed))
        raise UndrawnError("every step of the recipes takes too long to interpret")


def count_steps(module: tvm.IRModule) -> int:
    """How many statements the simulator goes through: threads at once, all else in turn."""

    def count_runs(place: tir.Place) -> int:
        serial = (it for it in place.loops if "threadIdx" not in (tir.get_axis(it) or ""))
        return math.prod(tir.constant(it.extent) or 1 for it in serial)

    return sum(map(count_runs, tir.get_places(module["main"].body)))


def list_steps(run: Run, seed: int = 0) -> Iterator[Subject]:
    """The steps of a run of a recipe.

    A program that has no reference in float64, such as one in which threads hand values to one
    another, is its own, as the interpreter runs it before any pass.
    """
    refusal = run.problem.find_refusal() if isinstance(run.problem, ModuleProblem) else None
    oracle: Oracle = ProblemOracle(run.problem, seed)
    if refusal is not None:
        oracle = ModuleOracle(run.steps[0].module, seed)
    for step in run.steps:
        yield Subject(run.label(step), step.module, oracle)


UNDRAWN = "undrawn"


@dataclass(frozen=True)
class TrialRecord:
    """What one trial of the corpus gave.

    Attributes
    ----------
    status : that of a `Trial`, or ``"undrawn"``
    what : the kind of wrong: ``"numbers"``, ``"race"``, ``"refused"``
    is_changed : the pass changed the module
    broken : a promise of the pass's, and how it is broken; empty where none is
    raised : the traceback of an error of the pass's own
    redraw : which of the trial's modules it is about, the last that was tried
    """

    trial: int
    kind: str
    label: str
    status: str
    reason: str = ""
    what: str = ""
    is_changed: bool = False
    broken: Sequence[str] = ()
    raised: str = ""
    redraw: int = 0

    @property
    def is_bad(self) -> bool:
        """Whether something is wrong here."""
        return self.status in BAD


Attempt = Callable[[Subject], dict[str, Any]]
"""Gives the fields of a `TrialRecord` from the status on; it can be pickled."""


def hunt(corpus: Corpus, trials: Sequence[int], attempt: Attempt) -> Iterator[TrialRecord]:
    """Draw the modules of some trials and attempt each, on all cores.

    It ends behind a trial in which the pass's own code raises an error.
    """
    cores = min(count_cores(), len(trials) // FEWEST)
    make = partial(make_record, corpus, attempt)
    pool = WorkerProcesses(cores, 0, _begin_worker)
    try:
        made = {trial: pool.submit(make, trial) for trial in trials if cores > 1}
        for trial in trials:
            try:
                record = made[trial].result() if made else make(trial)
            except ProcessExpired:  # here it ends this process, and who guards that says so
                record = make(trial)
            yield record
            if record.raised:
                return
    finally:
        pool.close()


def make_record(corpus: Corpus, attempt: Attempt, trial: int) -> TrialRecord:
    """Draw the module of a trial and attempt it."""
    label, kind, found = "", corpus.get_kind(trial), dict[str, Any]()
    try:
        for redraw, subject in enumerate(corpus.draw_all(trial)):
            label, found = subject.label, {**attempt(subject), "redraw": redraw}
            if found["is_changed"] or found["raised"]:
                break
    except UndrawnError as error:
        found = {"status": UNDRAWN, "reason": str(error)}
    return TrialRecord(trial, kind, label, **found)


def _begin_worker() -> None:
    """A crash of TVM's ends this process without a word."""
    end_silently()
