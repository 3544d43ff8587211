"""From judged runs to the values of a report. Nothing here prints or writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm

import tirstep
from tirstep.lowering_checks import CheckError, Counts, Device, Run, Verdict, print_module
from tirstep.lowering_checks.compile.passes import lower_through_passes
from tirstep.lowering_checks.devices import SimulatorDevice
from tirstep.lowering_checks.facts import counted_rows, facts_of_lowering
from tirstep.lowering_checks.steps import step_label
from tirstep.lowering_checks.verdict import golden_word, numbers_word
from tirstep.transforms.recipes import Step

from ..formatting import describe_recipe, format_shape, get_dtype
from ..json_output import read_keys
from ..judging import JudgedRecipe, Tell
from .document import Keys, RecipePart, Report, StepPart, Text
from .origins import find_python, link_source, note_lines

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
        versions={"tirstep": tirstep.__version__, "TVM": tvm.__version__},
        recipes=tuple(parts),
    )


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
        verdicts = {each.step.index: each for each in rung.verdicts}
        for step, python in zip(run.steps, find_python(run), strict=True):
            tell(f"lowering {run.label(step)}")
            verdict, counted = verdicts.get(step.index), counts.get(step.index)
            steps.append(_build_step(run, step, python, verdict, counted, target))
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


def _build_step(
    run: Run,
    step: Step,
    python: Keys | None,
    verdict: Verdict | None,
    counts: Counts | None,
    target: str,
) -> StepPart:
    """Lower a step; its facts end with what the simulator counted."""
    noted, lines = note_lines(step.module)
    lowering = lower_through_passes(noted, target)
    printed: dict[tuple[tuple[str, int], ...], Text] = {}

    def print_once(module: tvm.IRModule) -> Text:
        """Printing takes far longer than seeing that the functions of a module were printed: they
        never change, and the log of passes keeps them.
        """
        functions = tuple(
            (str(name.name_hint), hash(function)) for name, function in module.functions_items()
        )
        if functions not in printed:
            printed[functions] = Text.of(print_module(module))
        return printed[functions]

    source, missing = Text.of(lowering.source), str(lowering.failed or "there is no device code")
    device_source: dict[str, Any] = {"language": lowering.language, "missing": missing}
    if source.lines:
        links = link_source(lowering, lines) if lowering.language in LINKED else ()
        device_source = {"language": lowering.language, "text": source, "links": links}
    try:
        facts = facts_of_lowering(lowering, problem=run.problem)
        counted = () if counts is None else counted_rows(counts, run.problem.bytes)
        rows = (*facts.rows(), *counted) if facts.kernels else ()
        of_facts: dict[str, Any] = {"rows": rows, "missing": facts.refusal}
    except CheckError as error:
        of_facts = {"missing": str(error)}
    checks = time = None
    if verdict is not None:
        checks = {
            "golden": golden_word([verdict]),
            "numbers": numbers_word([verdict]),
            "checked_on": verdict.checked_on,
            "findings": tuple(verdict.findings),
            "reference": run.problem.reference_name,
        }
    if verdict is not None and (timing := verdict.timing) is not None:
        time = {it: 1e6 * getattr(timing, it) for it in ("median", "lower", "upper")}
        gflops = (run.problem.flops or 0) / timing.median / 1e9
        time |= {"repeats": timing.repeats, "gflops": gflops}
    return StepPart(
        label=step_label(step),
        name=step.name,
        source=Path(step.location).name,
        python=python,
        tir=print_once(noted),
        trace=Text.of(str(step.trace)),
        device_source=device_source,
        passes=tuple(
            {
                **read_keys(it, "number name"),
                "milliseconds": round(it.seconds * 1e3, 3),
                "before": print_once(it.before),
                "after": print_once(it.module),
            }
            for it in lowering.changed
        ),
        pass_count=len(lowering.passes),
        facts=of_facts,
        checks=checks,
        time=time,
    )


def read_counts(device: Device, verdict: Verdict) -> Counts | None:
    """The counts of the run that gave a verdict, asked at once: a device keeps its last run's.

    None for other devices, and for a step that is wrong or that the simulator did not run.
    """
    if not isinstance(device, SimulatorDevice) or device.counts is None or verdict.numbers:
        return None
    if verdict.checked_on.partition(" ")[0] != device.name:  # a module may have no shape behind it
        return None
    return device.counts
