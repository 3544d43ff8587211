"""Recipes are judged and lowered each in a job, and jobs on several cores at once; what a report
shows is made of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

import tvm
from pebble import ProcessExpired

import tirstep
from tirstep.lowering_checks import (
    CheckError,
    Counts,
    Device,
    Run,
    Verdict,
    get_device,
    print_module,
)
from tirstep.lowering_checks.compile.passes import lower_through_passes
from tirstep.lowering_checks.devices import SimulatorDevice
from tirstep.lowering_checks.facts import counted_rows, facts_of_lowering
from tirstep.lowering_checks.steps import step_label
from tirstep.lowering_checks.verdict import golden_word
from tirstep.processes import WorkerProcesses, count_cores
from tirstep.programs.naming import STDIN
from tirstep.transforms.recipes import Step

from ..formats import read_keys
from ..formatting import count, first_sentence, get_dtype, spell_config
from ..judging import Judge
from ..request import ExampleName, Request, pick_recipe
from ..screen import Screen
from ..wrong_use import UseError, find_sentence
from .document import Keys, RecipePart, Report, StepPart, Text
from .origins import find_python, link_source, note_lines

LINKED = ("cuda", "opencl", "metal")
"""Languages whose sources have a line or more for each statement."""
MOST_PROCESSES = 4  # each loads TVM: some hundred MB


def do_jobs(
    names: Sequence[str], request: Request, target: str, checks: bool, screen: Screen
) -> list[RecipePart]:
    """The parts of the recipes of some names, or texts that name them, in their order.

    Where times are taken, one job runs after the other. Raises what a job raises.
    """
    shared = tuple(names), request, target, checks
    processes = min(count_cores(), MOST_PROCESSES, len(names))
    if any(name.partition(":")[0] == STDIN for name in names):
        processes = 1  # what was read is here alone
    if processes == 1 or (checks and get_device(request.device).has_clock):
        return [do_job(name, *shared, screen) for name in names]
    done, pool = dict[str, RecipePart](), WorkerProcesses(processes, 0)
    try:
        # A ladder's last recipes take the longest: they come first, the short ones fill up.
        futures = {pool.submit(_do_alone, name, shared): name for name in reversed(names)}
        for future in as_completed(futures):
            done[futures[future]] = future.result()
            screen.doing(f"{len(done)} of {count(len(names), 'recipe')}")
    except (ProcessExpired, BrokenProcessPool):
        raise UseError(
            "a process that lowered a recipe crashed, so there is no report; try the recipes "
            "one by one"
        ) from None
    finally:
        pool.close()
    return [done[name] for name in names]


def _do_alone(name: str, shared: tuple[Sequence[str], Request, str, bool]) -> RecipePart:
    """A job in a process of its own, whose screen is quiet."""
    try:
        return do_job(name, *shared, Screen())
    except Exception as error:  # its lines do not come along to the parent
        if sentence := find_sentence(error):
            raise UseError(sentence) from None
        raise


def do_job(
    name: str, names: Sequence[str], request: Request, target: str, checks: bool, screen: Screen
) -> RecipePart:
    """Run, judge and lower one recipe among all of the report, step by step."""
    plain = replace(request, function=None)  # the texts name what is meant
    among, recipe = [pick_recipe(text, plain) for text in names], pick_recipe(name, plain)
    judge = Judge(request)  # a program may register a device
    device, verdicts = judge.device, dict[int, tuple[Verdict, Counts | None]]()
    example: ExampleName = "default" if device.has_clock and checks else "golden"
    (rung,) = judge.plan([recipe], screen.doing, example=example, among=among)
    if checks:
        with rung.keeping_others(is_alone=len(among) == 1):
            for found in judge.judge(rung, screen.doing, timed=True):
                # The counts at once: a device keeps its last run's. There are none of a step that
                # is wrong, or that another device ran.
                is_told = isinstance(device, SimulatorDevice) and not found.numbers
                is_told = is_told and found.checked_on.partition(" ")[0] == device.name
                counted = getattr(device, "counts", None) if is_told else None
                verdicts[found.step.index] = found, counted
    run = rung.run if rung.error is None else None
    steps: list[StepPart] = []
    if run is not None:
        for step, python in zip(run.steps, find_python(run), strict=True):
            screen.doing(f"lowering {run.label(step)}")
            verdict, counts = verdicts.get(step.index, (None, None))
            steps.append(_build_step(run, step, python, verdict, counts, target))
    sizes = {} if run is None else {**run.recipe.config, **run.config}
    added = f"{spell_config(recipe.delta)}: " if recipe.delta else ""
    return RecipePart(
        name=recipe.name,
        about=added + first_sentence(recipe.doc),
        kernel=recipe.kernel_name,
        status=rung.status if checks or rung.error is not None else None,
        steps=tuple(steps),
        shape="" if run is None else run.problem.shape_text,
        dtype="" if run is None else get_dtype(run.problem),
        config={name: str(value) for name, value in sizes.items()},
        refusal=rung.refusal,
        is_broken=rung.is_broken,
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
            **read_keys(verdict, "numbers=status part reason checked_on findings"),
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


def build_report(
    parts: Sequence[RecipePart], *, device: Device | None, target: str, kind: str = "recipe"
) -> Report:
    """A report of the recipes of jobs; `device` is None where nothing was checked.

    Its title has the kernels, with their shape and type where all recipes have one.
    """
    ran = [part for part in parts if part.steps]
    title = [", ".join(dict.fromkeys(part.kernel for part in parts))]
    for known in ({it.shape.replace("x", "×") for it in ran}, {it.dtype for it in ran}):
        title += known if len(known) == 1 else ()
    return Report(
        title=" ".join(title),
        kind=kind,
        device=None if device is None else device.description,
        target=target,
        versions={"tirstep": tirstep.__version__, "TVM": tvm.__version__},
        recipes=tuple(parts),
    )
