"""From judged runs to the values of a report. Nothing here prints or writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import tvm

import tirstep
from tirstep.lowering_checks import CheckError, Counts, Device, Verdict, print_module
from tirstep.lowering_checks.compile.passes import Lowering, lower_through_passes
from tirstep.lowering_checks.devices import SimulatorDevice, Timing
from tirstep.lowering_checks.facts import counted_rows, facts_of_lowering
from tirstep.lowering_checks.steps import step_label
from tirstep.lowering_checks.verdict import golden_word, numbers_word
from tirstep.modules import AnyProblem

from ..formatting import describe_recipe, format_shape, get_dtype
from ..judging import JudgedRecipe, Tell
from .links import link_source, note_lines
from .model import (
    ChecksPart,
    FactsPart,
    PassPart,
    RecipePart,
    Report,
    SourcePart,
    StepPart,
    Text,
    TimePart,
)
from .python_source import find_python

LINKED = ("cuda", "opencl")
"""Languages whose sources have a line or more for each statement."""


def build_report(parts: Sequence[RecipePart], *, device: Device | None, target: str) -> Report:
    """A report of recipes that `build_recipe` made; `device` is None where nothing was checked.

    Its title has the kernels, with their shape and type where all recipes have one.
    """
    ran = [part for part in parts if part.steps]
    title = [", ".join(dict.fromkeys(part.kernel for part in parts))]
    for known in ({it.shape.replace("x", "×") for it in ran}, {it.dtype for it in ran}):
        title += known if len(known) == 1 else ()
    return Report(
        title=" ".join(title),
        device=None if device is None else device.description,
        target=target,
        versions=get_versions(),
        recipes=tuple(parts),
    )


def get_versions() -> dict[str, str]:
    """What the page was made with."""
    return {"tirstep": tirstep.__version__, "TVM": tvm.__version__}


def build_recipe(
    rung: JudgedRecipe,
    *,
    is_judged: bool,
    target: str,
    counts: Mapping[int, Counts | None],
    tell: Tell,
) -> RecipePart:
    """Lower every step of a recipe, and put together all that the page shows of it.

    `counts` are the simulator's, by the numbers of the steps; `tell` hears what goes on.
    """
    run = rung.run if rung.error is None else None
    steps: list[StepPart] = []
    if run is not None:
        problem, pythons = run.problem, find_python(run)
        verdicts = {each.step.index: each for each in rung.verdicts}
        for step, python in zip(run.steps, pythons, strict=True):
            tell(f"lowering {run.label(step)}")
            noted, lines = note_lines(step.module)
            lowering = lower_through_passes(noted, target)
            linked = lowering.source and lowering.language in LINKED
            links = link_source(lowering, lines) if linked else ()
            print_once, verdict = make_printer(), verdicts.get(step.index)
            steps.append(
                StepPart(
                    label=step_label(step),
                    name=step.name,
                    source=Path(step.location).name,
                    python=python,
                    tir=print_once(noted),
                    trace=Text.of(str(step.trace)),
                    device_source=get_source(lowering, links),
                    passes=list_passes(lowering, print_once),
                    pass_count=len(lowering.passes),
                    facts=list_facts(lowering, problem, counts.get(step.index)),
                    checks=None if verdict is None else _checks_part(verdict),
                    time=None if verdict is None else time_part(verdict.timing, problem),
                )
            )
    sizes = {} if run is None else {**run.recipe.config, **run.config}
    return RecipePart(
        name=rung.recipe.name,
        about=describe_recipe(rung.recipe),
        kernel=rung.recipe.kernel_name,
        status=rung.status if is_judged or rung.status != "ok" else None,
        steps=tuple(steps),
        shape="" if run is None else format_shape(run.problem.shape),
        dtype="" if run is None else get_dtype(run.problem),
        config={name: str(value) for name, value in sizes.items()},
        refusal=rung.refusal,
        findings=tuple(rung.own_findings),
    )


def get_source(lowering: Lowering, links: tuple[int, ...] = ()) -> SourcePart:
    """The device source of a lowering, or why there is none."""
    text = Text.of(lowering.source)
    if not text.lines:
        missing = "there is no device code" if not lowering.failed else str(lowering.failed)
        return SourcePart(lowering.language, None, missing)
    return SourcePart(lowering.language, text, None, links)


def make_printer() -> Callable[[tvm.IRModule], Text]:
    """Prints a module once: that takes far longer than seeing that its functions were printed.

    They never change, and the log of passes keeps them.
    """
    printed: dict[tuple[tuple[str, int], ...], Text] = {}

    def print_once(module: tvm.IRModule) -> Text:
        functions = tuple(
            (str(name.name_hint), hash(function)) for name, function in module.functions_items()
        )
        if functions not in printed:
            printed[functions] = Text.of(print_module(module))
        return printed[functions]

    return print_once


def list_passes(
    lowering: Lowering, print_once: Callable[[tvm.IRModule], Text]
) -> tuple[PassPart, ...]:
    """The passes that changed the module."""
    return tuple(
        PassPart(
            each.number,
            each.name,
            round(each.seconds * 1e3, 3),
            print_once(each.before),
            print_once(each.module),
        )
        for each in lowering.changed
    )


def _checks_part(verdict: Verdict) -> ChecksPart:
    return ChecksPart(
        golden=golden_word([verdict]),
        numbers=numbers_word([verdict]),
        checked_on=verdict.checked_on,
        findings=tuple(verdict.findings),
        reference=verdict.run.problem.reference_name,
    )


def time_part(timing: Timing | None, problem: AnyProblem | None) -> TimePart | None:
    """A time, for the page."""
    if timing is None:
        return None
    flops = 0 if problem is None else problem.flops or 0
    return TimePart(
        median=timing.median * 1e6,
        lower=timing.lower * 1e6,
        upper=timing.upper * 1e6,
        repeats=timing.repeats,
        gflops=flops / timing.median / 1e9,
    )


def list_facts(lowering: Lowering, problem: AnyProblem, counts: Counts | None) -> FactsPart:
    """The facts of a lowered step, with what the simulator counted; or why there are none."""
    try:
        facts = facts_of_lowering(lowering, problem=problem)
    except CheckError as error:
        return FactsPart((), str(error))
    if not facts.kernels:
        return FactsPart((), facts.refusal)
    counted = () if counts is None else counted_rows(counts, problem.bytes)
    return FactsPart((*facts.rows(), *counted), facts.refusal)


def read_counts(device: Device, verdict: Verdict) -> Counts | None:
    """The counts of the run that gave a verdict, asked at once: a device keeps its last run's.

    None for other devices, and for a step that is wrong or that the simulator did not run.
    """
    if not isinstance(device, SimulatorDevice) or device.counts is None or verdict.numbers:
        return None
    if verdict.checked_on.partition(" ")[0] != device.name:  # a module may have no shape behind it
        return None
    return device.counts
