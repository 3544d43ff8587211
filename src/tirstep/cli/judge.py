"""Judges recipes: plans what to run, then runs it and holds it against the checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tirstep.lowering_checks import (
    Device,
    Finding,
    GoldenStore,
    Verdict,
    get_device,
    judge_run,
)
from tirstep.lowering_checks.steps import step_label
from tirstep.modules import KernelError
from tirstep.transforms.errors import TransformError
from tirstep.transforms.recipes import Recipe

from .rungs import Rung
from .screen import Screen
from .selection import ExampleName, find_store, run_wished
from .wishes import Request

Report = Callable[[Rung, Verdict], None]


@dataclass(frozen=True)
class Judge:
    """What recipes are held against.

    Attributes
    ----------
    store : None where there is no folder of goldens
    folder : findings of that folder as a whole: its version of TVM. If there are any, its files
        are not looked at: they would all differ.
    """

    request: Request
    device: Device
    store: GoldenStore | None
    folder: list[Finding]

    @property
    def golden_dir(self) -> str | None:
        """The folder of goldens, as it was given."""
        return None if self.store is None else str(self.store.root)

    def climb(
        self,
        rung: Rung,
        screen: Screen,
        report: Report,
        *,
        timed: bool,
        at_odd_shape: bool = False,
    ) -> None:
        """Judge a planned rung, and report the verdict of each step as it comes."""
        run = rung.run
        if run is None:
            return
        verdicts = judge_run(
            run,
            self.device,
            store=None if self.folder else self.store,
            seed=self.request.seed,
            timed=timed,
            at_odd_shape=at_odd_shape,
        )
        for place in (*map(step_label, run.steps), "at an odd shape"):
            screen.doing(f"{run.recipe.name} {place}")
            verdict = next(verdicts, None)
            if verdict is None:
                return
            if verdict.run is run:
                rung.verdicts.append(verdict)
                report(rung, verdict)
            else:
                rung.odd = verdict


def make_judge(request: Request) -> Judge:
    """Find the device and the goldens that are asked for."""
    store = find_store(request.golden_dir)
    folder = [] if store is None else store.check_version()
    return Judge(request, get_device(request.device), store, folder)


def plan(
    recipes: Sequence[Recipe],
    judge: Judge,
    screen: Screen,
    *,
    example: ExampleName,
    among: Sequence[Recipe] = (),
) -> list[Rung]:
    """The runs of some recipes as wished, by default at one of their examples.

    A recipe that refuses what was wished is to be skipped. One that refuses its own example is
    wrong. `among` are all that the wish is for, where these are not.
    """
    rungs = []
    for recipe in recipes:
        rung = Rung(recipe)
        rungs.append(rung)
        screen.doing(recipe.name)
        wish = judge.request.wish
        try:
            rung.run = run_wished(recipe, wish, example=example, among=among or recipes)
        except (TransformError, KernelError) as error:
            if wish.is_empty:
                message = f"the recipe refuses its own example: {error}"
                rung.trouble.append(Finding("recipe", recipe.name, message))
            else:
                rung.refusal = error
    return rungs
