"""A counterexample: a small program, and a script that shows that a change makes it wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tirstep.files import may_replace, require_writable, write_file
from tirstep.lowering_checks.bisect.reproducer import quote
from tirstep.strategies.drawn_programs import parse_program

from .editing import ExperimentError
from .promises import load_experiment
from .shrinking import SECONDS, Shrunk, shrink_trial
from .trying import Experiment, Subject, make_subject, try_change

RUN_SECONDS = 120.0
"""What the script may take."""
FIRST_LINE = "# Written by `tirstep pass`: it may be overwritten."
SCRIPT = '''{first_line}
"""{title}: {status}.

{reason}

Shrunk from {label} to {lines} lines. It ends with 1 where this shows, and with 0 where it does not.
"""

import sys

from tirstep.experiments import show_counterexample

{program}
sys.exit(show_counterexample(PROGRAM, {place!r}, {anchor!r}, {spec!r}, seed={seed}))
'''


@dataclass(frozen=True)
class Counterexample:
    """A small program that the change makes wrong, and its script.

    Attributes
    ----------
    label : of the module that it was shrunk from
    is_shown : the script was run, and failed as it must
    last_line : what it printed in the end
    """

    label: str
    shrunk: Shrunk
    path: Path
    is_shown: bool
    last_line: str


def find_counterexample(
    experiment: Experiment,
    subjects: Iterable[Subject],
    path: Path,
    *,
    seed: int = 0,
    seconds: float = SECONDS,
) -> Counterexample | None:
    """Shrink the first of some modules that shows it by itself, and write and run its script.

    None where none can be shrunk. Raises `ExperimentError` where a file is in the way.
    """
    for subject in subjects:
        trial = try_change(experiment, subject)
        if not trial.is_bad:  # it takes another device to see it
            continue
        shrunk = shrink_trial(experiment, trial, seed=seed, seconds=seconds)
        if shrunk is not None:
            require_place(path)
            write_file(path, _make_script(experiment, shrunk, subject.label, seed))
            words = [sys.executable, str(path)]
            try:
                done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_SECONDS)
            except subprocess.TimeoutExpired:
                late = f"it does not end within {RUN_SECONDS:g} s"
                return Counterexample(subject.label, shrunk, path, False, late)
            lines = [it for it in (done.stdout or done.stderr).splitlines() if it.strip()]
            is_shown = done.returncode == 1 and "WRONG: " in done.stdout
            return Counterexample(subject.label, shrunk, path, is_shown, lines[-1] if lines else "")
    return None


def require_place(path: Path) -> None:
    """Raise, before the work, what writing the script would raise after it.

    `ExperimentError` where a file of another hand is in the way, and `OSError`.
    """
    if not may_replace(path, FIRST_LINE):
        raise ExperimentError(
            f"{path} is no script of tirstep pass's; it stays: give --script another name"
        )
    require_writable(path)


def _make_script(experiment: Experiment, shrunk: Shrunk, label: str, seed: int) -> str:
    original, named = experiment.named, []
    for text in original[1:]:
        place, colon, name = text.rpartition(":")
        named.append(f"{Path(place).resolve()}:{name}" if place.endswith(".py") and colon else text)
    about = shrunk.trial.reason.replace("\\", "/").replace('"""', "'''")
    return SCRIPT.format(
        first_line=FIRST_LINE,
        title=experiment.title,
        status=shrunk.trial.status,
        reason=about,
        label=label,
        lines=shrunk.lines,
        program=quote("PROGRAM", shrunk.text),
        place=original[0],
        anchor=named[0],
        spec=named[1],
        seed=seed,
    )


def show_counterexample(program: str, place: str, anchor: str, spec: str, *, seed: int = 0) -> int:
    """Try a change on a program and print what it does; 1 if that is wrong. A script calls it."""
    with load_experiment(place, anchor, spec) as experiment:
        trial = try_change(experiment, make_subject("the program", parse_program(program), seed))
    if trial.diff is not None:
        print(trial.diff)
    if trial.is_bad:
        print(f"WRONG: {trial.reason}")
        return 1
    print(f"{experiment.title}: {trial.status}. {trial.reason}".strip())
    return 0
