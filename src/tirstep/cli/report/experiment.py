"""The report of a change of TVM's pipeline: each module as it was given, without it and with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import tvm

import tirstep
from tirstep.lowering_checks import Finding, print_module
from tirstep.lowering_checks.compile.passes import Lowering
from tirstep.lowering_checks.diff import blame_texts

from ..formatting import format_shape, get_dtype
from .build import build_passes, get_machine_code_for, list_sources, time_part
from .model import (
    ChecksPart,
    ExperimentPart,
    ExperimentRow,
    FactsPart,
    RecipePart,
    Report,
    SmallProgram,
    SourcePart,
    StepPart,
    Text,
)

if TYPE_CHECKING:
    from tirstep.experiments import Trial
    from tirstep.experiments.hunting import Counterexample

NAMES = ("given", "without", "with")
"""The steps of a module: the last two are what the changed pass was given, and what it made."""
NOT_RUN = ("left out", "unchanged")
NO_FACTS = "they are of what a GPU gets"
NOT_LOWERED = "it is not lowered yet"


def build_experiment_report(
    trials: Sequence[Trial],
    differences: Sequence[Sequence[str]],
    *,
    title: str,
    about: str,
    small: Counterexample | None = None,
) -> Report:
    """The report of trials; `differences` has what differs in the facts of each, in words.

    Modules that the change leaves as they are stand in the table alone.
    """
    names = _name_apart([trial.subject.label for trial in trials])
    parts = [
        _build_module(name, trial)
        for name, trial in zip(names, trials, strict=True)
        if trial.lowered is not None and trial.status not in NOT_RUN
    ]
    shown = {part.name for part in parts}
    rows = [
        _build_row(name if name in shown else "", trial, tuple(words))
        for name, trial, words in zip(names, trials, differences, strict=True)
    ]
    program = None
    if small is not None:
        script = str(small.path) if small.is_shown else ""
        program = SmallProgram(Text.of(small.shrunk.text), small.verdict.reason, script)
    devices = dict.fromkeys(
        v.device for trial in trials for v in trial.verdicts if v.after is not None
    )
    return Report(
        title=title,
        device=", ".join(devices) or None,
        target="a GPU where a module's loops are bound to one, and a CPU elsewhere",
        versions={"tirstep": tirstep.__version__, "TVM": tvm.__version__},
        peaks=None,
        recipes=tuple(parts),
        experiment=ExperimentPart(about, tuple(rows), program),
    )


def _name_apart(labels: Sequence[str]) -> list[str]:
    """The labels, with a number behind those that come again."""
    seen: Counter[str] = Counter()
    names = []
    for label in labels:
        seen[label] += 1
        names.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return names


def _build_row(name: str, trial: Trial, differences: tuple[str, ...]) -> ExperimentRow:
    diff = trial.diff
    return ExperimentRow(
        module=trial.subject.label,
        recipe=name,
        status=trial.status,
        added=None if diff is None else diff.added,
        removed=None if diff is None else diff.removed,
        ran_on=tuple(v.device for v in trial.verdicts if v.after is not None),
        differences=differences,
        reason=trial.reason,
    )


def _build_module(name: str, trial: Trial) -> RecipePart:
    """A module with three steps."""
    assert trial.lowered is not None
    problem = trial.subject.problem
    texts = _list_texts(trial)
    authors = [tuple(each) for each in blame_texts([text.lines for text in texts])]
    sources = [SourcePart("", None, (), NOT_LOWERED), *list_sources(trial.lowered, first=1)]
    steps = [
        StepPart(
            label=f"{number:02d}_{NAMES[number]}",
            name=NAMES[number],
            tir=text,
            authors=wrote,
            device_source=source,
            facts=FactsPart((), source.missing),
        )
        for number, (text, wrote, source) in enumerate(zip(texts, authors, sources, strict=True))
    ]
    for side, lowering in enumerate(trial.lowered):
        steps[side + 1] = replace(
            steps[side + 1],
            machine_code=get_machine_code_for(lowering, "cuda")
            if lowering.language == "cuda"
            else None,
            passes=build_passes(lowering, texts[0], (0,) * len(texts[0].lines)),
            pass_count=len(lowering.passes),
            facts=_get_facts(trial, side, lowering),
            checks=_get_checks(trial, side),
            time=next(
                (time_part(it.times[side], problem) for it in trial.verdicts if it.times), None
            ),
        )
    return RecipePart(
        name=name,
        about=f"{trial.status}: {trial.reason}" if trial.reason else trial.status,
        kernel=name,
        status="failed" if trial.is_bad else "ok",
        steps=tuple(steps),
        shape="" if problem is None else format_shape(problem.shape),
        dtype="" if problem is None else get_dtype(problem),
        flops=None if problem is None else problem.flops,
        bytes=None if problem is None else problem.bytes,
    )


def _list_texts(trial: Trial) -> list[Text]:
    """The module as given, and before and behind the change; where the change is no pass that runs
    here, what goes to host and device in the end.
    """
    from tirstep.experiments.trying import find_marked, get_end

    assert trial.lowered is not None
    without, found = trial.lowered
    ours = [each for each in find_marked(found) if each.changed]
    if ours:
        pair = (ours[0].before, ours[0].module)
    else:
        pair = (get_end(without), get_end(found) if found.passes else found.module)
    return [Text.of(print_module(module)) for module in (trial.subject.module, *pair)]


def _get_facts(trial: Trial, side: int, lowering: Lowering) -> FactsPart:
    rows = list(trial.facts[side])
    for pair in trial.compiled:
        rows += [fact._replace(group=pair[side].architecture) for fact in pair[side].rows()]
    if not rows:
        return FactsPart((), str(lowering.failed) if lowering.failed else NO_FACTS)
    return FactsPart(tuple(rows), None)


def _get_checks(trial: Trial, side: int) -> ChecksPart | None:
    """A device on which the module is wrong without the change judges nothing: the CPU runs one
    thread after the other, and barriers are nothing to it.
    """
    told: list[tuple[str, Sequence[Finding]]] = []
    judges = [verdict for verdict in trial.verdicts if verdict.before == ()]
    for verdict in judges or trial.verdicts:
        findings = (verdict.before, verdict.after)[side]
        if findings is not None:
            told.append((verdict.device, findings))
    if not told:
        return None
    found = [each for _, findings in told for each in findings]
    return ChecksPart(
        golden=None,
        numbers="failed" if found else "ok",
        checked_on=", ".join(device for device, _ in told),
        findings=tuple(found),
    )
