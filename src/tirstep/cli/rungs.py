"""A rung: one recipe of a ladder, and what the checks say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tirstep.lowering_checks import Counts, Diff, Finding, Run, Verdict, diff_steps
from tirstep.lowering_checks.devices import Timing
from tirstep.transforms.recipes import Recipe

from .selection import format_shape


@dataclass
class Rung:
    """A recipe with the verdicts of its steps.

    Attributes
    ----------
    run : None where the recipe refused
    refusal : why the recipe does not take the wish; it counts as skipped
    trouble : findings of the whole recipe, such as a device that cannot compile it
    counts : of the last step's accesses; None where they were not counted
    odd : what the last step computes at an odd shape; None where that was not looked at
    """

    recipe: Recipe
    run: Run | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    refusal: Exception | None = None
    trouble: list[Finding] = field(default_factory=list)
    counts: Counts | None = None
    odd: Verdict | None = None

    @property
    def findings(self) -> list[Finding]:
        """All that is wrong with the recipe."""
        steps = [one for verdict in self.verdicts for one in verdict.findings]
        return [*steps, *(self.odd.findings if self.odd else ()), *self.trouble]

    @property
    def change(self) -> Diff | None:
        """From the kernel as it was written to the last step."""
        return None if self.run is None else diff_steps(self.run.steps[0], self.run.steps[-1])

    @property
    def timing(self) -> Timing | None:
        """Of the last step."""
        return self.verdicts[-1].timing if self.verdicts and not self.trouble else None

    @property
    def status(self) -> str:
        """``"ok"``, ``"failed"`` or ``"skipped"``."""
        if self.refusal is not None:
            return "skipped"
        return "failed" if self.findings else "ok"

    @property
    def places(self) -> list[str]:
        """The devices and shapes that numbers were checked on, that of the last step first."""
        return list(dict.fromkeys(verdict.checked_on for verdict in reversed(self.verdicts)))

    def flops_per_second(self, timing: Timing | None) -> float | None:
        """Operations by the kernel's own count, whatever the schedule computes twice."""
        if timing is None or self.run is None:
            return None
        return self.run.problem.flops / timing.median


def baseline_of(rungs: Sequence[Rung]) -> Rung | None:
    """What speed-ups are over: the first rung that has a time."""
    return next((rung for rung in rungs if rung.timing is not None), None)


def speedup(rung: Rung, baseline: Rung | None) -> float | None:
    """How often faster a rung is; None at another shape or type, where times do not compare."""
    if baseline is None or baseline.run is None or rung.run is None:
        return None
    if rung.timing is None or baseline.timing is None:
        return None
    if _work(rung.run) != _work(baseline.run):
        return None
    return baseline.timing.median / rung.timing.median


def _work(run: Run) -> tuple[Mapping[str, int], object]:
    return dict(run.problem.shape), run.problem.options["dtype"]


def find_common_shape(rungs: Sequence[Rung]) -> str | None:
    """The shape of all rungs that run, as ``--shape`` takes it; None where they differ."""
    shapes = {format_shape(rung.run.problem.shape) for rung in rungs if rung.run is not None}
    return shapes.pop() if len(shapes) == 1 else None
