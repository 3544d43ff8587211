"""Two runs held against each other, contender by contender."""

from __future__ import annotations

from dataclasses import dataclass

from .results import BenchRun, Case, Outcome, Time


@dataclass(frozen=True)
class Change:
    """One contender in one case of both runs.

    Attributes
    ----------
    before, after : None where it has no time in that run
    ratio : how often faster it is after: above 1 is faster
    verdict : ``"faster"`` or ``"slower"`` where the quartiles do not overlap, else ``"same"``;
        ``"new"`` and ``"gone"`` where only one run has a time
    """

    title: str
    contender: str
    before: Time | None
    after: Time | None

    @property
    def ratio(self) -> float | None:
        if self.before is None or self.after is None:
            return None
        return self.before.median_us / self.after.median_us

    @property
    def verdict(self) -> str:
        if self.before is None or self.after is None:
            return "gone" if self.after is None else "new"
        if self.after.upper_us < self.before.lower_us:
            return "faster"
        return "slower" if self.after.lower_us > self.before.upper_us else "same"


def compare_runs(before: BenchRun, after: BenchRun) -> list[Change]:
    """The changes in the order of the newer run; what only the older one has comes last.

    A contender without a time in either run is left out.
    """
    old, new = _index(before), _index(after)
    keys = [*new, *(key for key in old if key not in new)]
    changes = [
        Change(key[0], key[1], _find_time(old.get(key)), _find_time(new.get(key))) for key in keys
    ]
    return [one for one in changes if one.before is not None or one.after is not None]


def find_differences(before: BenchRun, after: BenchRun) -> list[str]:
    """What besides the code is not the same in both runs: devices and versions, in words."""
    found = []
    if before.device["name"] != after.device["name"]:
        found.append(f"the devices differ: {before.device['name']} and {after.device['name']}")
    for name in sorted({*before.versions, *after.versions}):
        old, new = before.versions.get(name, "none"), after.versions.get(name, "none")
        if old != new:
            found.append(f"{name} was {old} and is {new}")
    return found


def _index(run: BenchRun) -> dict[tuple[str, str], Outcome]:
    return {
        (_title(case), outcome.contender): outcome
        for case in run.cases
        for outcome in case.outcomes
    }


def _title(case: Case) -> str:
    rest = {name: value for name, value in case.options.items() if name != "dtype"}
    return f"{case.title} {rest}" if rest else case.title


def _find_time(outcome: Outcome | None) -> Time | None:
    return None if outcome is None else outcome.time
