"""Holds a pass to what it declares, module by module, and prints what it breaks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .formatting import count
from .guarding import note_tried

if TYPE_CHECKING:
    from tirstep.experiments import Experiment, Trial
    from tirstep.experiments.hunting import TrialRecord

    from .json_output import Document
    from .pass_ import Change, Tried
    from .screen import Screen

SHOWN = 5


@dataclass
class HeldPromises:
    """What became of a pass's promises.

    Attributes
    ----------
    checked : modules that the pass changes, and that were looked at
    broken : the module, the promise, and how it is broken
    unchecked : promises that cannot be checked here, each with the reason
    """

    checked: int = 0
    broken: list[tuple[str, str, str]] = field(default_factory=list)
    unchecked: dict[str, str] = field(default_factory=dict)


def hold_promises(trials: Iterable[Trial], change: Change) -> HeldPromises:
    """Hold a pass to its promises on modules whose answers are right with it."""
    from tirstep.experiments.holding import find_broken_promise

    held = HeldPromises()
    if not change.promises:
        return held
    made = change.edits[0].made
    assert made is not None, "a pass that promises something is one that was given"
    for trial in trials:
        if not trial.is_changed:
            continue
        held.checked += 1
        found = find_broken_promise(trial, made, change.promises, held.unchecked)
        if found is not None:
            held.broken.append((trial.subject.label, *found))
    return held


def hold_over_corpus(
    screen: Screen,
    experiment: Experiment,
    records: Sequence[TrialRecord],
    tried: Tried,
    change: Change,
) -> HeldPromises:
    """The same for the modules of the corpus that are right with the pass, and not as they were."""
    from tirstep.experiments import Corpus, TryOptions, try_change
    from tirstep.experiments.quick import RIGHT

    if not change.promises:
        return HeldPromises()
    corpus, options = Corpus(tried.seed), TryOptions((), with_facts=False)

    def lower() -> Iterable[Trial]:
        for record in records:
            if record.status == RIGHT:
                note_tried(f"trial {record.trial}")
                screen.doing(f"the promises on trial {record.trial}")
                yield try_change(experiment, corpus.draw(record.trial), options)

    with screen.working():
        return hold_promises(lower(), change)


def show_promises(screen: Screen, held: HeldPromises, change: Change) -> None:
    """A line for each promise that is broken or unchecked; one where all are kept."""
    for label, promise, how in held.broken[:SHOWN]:
        screen.line(("broken  ", "bold red"), f"'{promise}' on {label}: {how}")
    if change.promises and not held.checked:
        told = "the pass changes none of these modules, or none of which the answer stays right"
        listed = ", ".join(f"'{each}'" for each in change.promises)
        screen.line(("unchecked  ", "yellow"), f"{listed}: {told}", wrap=True)
    for promise, reason in held.unchecked.items():
        screen.line(("unchecked  ", "yellow"), f"'{promise}': {reason}")
    if held.checked and not held.broken:
        kept = [f"'{each}'" for each in change.promises if each not in held.unchecked]
        if kept:
            where = count(held.checked, "module")
            screen.line(("kept  ", "dim"), f"{', '.join(kept)} on {where} that it changes")


def promise_keys(held: HeldPromises, change: Change) -> Document:
    """The same for JSON."""
    return {
        "declared": list(change.promises),
        "checked": held.checked,
        "broken": [
            {"module": label, "promise": promise, "how": how} for label, promise, how in held.broken
        ],
        "unchecked": held.unchecked,
    }
