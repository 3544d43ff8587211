"""Recipes are judged and lowered each in a job, and jobs on several cores at once."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker

from tirstep.lowering_checks import (
    Counts,
    DeviceError,
    Run,
    count_accesses,
    get_device,
)
from tirstep.lowering_checks.compile.instruments import when_stuck
from tirstep.modules import KernelError
from tirstep.processes import count_cores
from tirstep.programs.naming import STDIN
from tirstep.transforms.errors import TransformError
from tirstep.transforms.recipes import Recipe

from ..formatting import count
from ..judging import Tell, make_judge
from ..request import ExampleName, Request, pick_recipe, run_requested
from ..screen import Screen
from ..streams import end_command
from ..wrong_use import UseError, find_sentence
from .build import ExampleCounts, build_recipe, read_counts
from .model import RecipePart
from .own_files import noting_files

MOST_PROCESSES = 4  # each loads TVM: some hundred MB


@dataclass(frozen=True)
class RecipeJob:
    """One recipe of a report.

    Attributes
    ----------
    recipe : its name, or the text that names it
    among : the same of all recipes of the report
    every_step : machine code, and counts at the recipe's own example, of all steps
    """

    recipe: str
    among: tuple[str, ...]
    request: Request
    target: str
    checks: bool
    every_step: bool = False


def do_jobs(jobs: Sequence[RecipeJob], screen: Screen) -> list[RecipePart]:
    """The parts of the recipes, in the order of the jobs.

    Where times are taken, one job runs after the other. Raises what a job raises.
    """
    device = get_device(jobs[0].request.device)
    processes = min(count_cores(), MOST_PROCESSES, len(jobs))
    if any(job.recipe.partition(":")[0] == STDIN for job in jobs):
        processes = 1  # what was read is here alone
    if processes == 1 or (device.has_clock and jobs[0].checks):
        return [do_job(job, screen) for job in jobs]
    try:
        parts = _do_all(jobs, processes, screen)
    except BrokenProcessPool:
        raise UseError(
            "a process that lowered a recipe ended too early, so there is no report; try the "
            "recipes one by one"
        ) from None
    return [parts[job.recipe] for job in jobs]


def _do_all(jobs: Sequence[RecipeJob], processes: int, screen: Screen) -> dict[str, RecipePart]:
    """The parts by recipe, from several processes, which do not outlive this call."""
    context = multiprocessing.get_context("spawn")  # TVM has threads, which a fork would lose
    parts, others = {}, multiprocessing.active_children()
    with ProcessPoolExecutor(processes, context, _end_with_parent) as pool:
        try:
            with _interrupts_held():
                # A ladder's last recipes take the longest: they come first, the short ones fill up.
                futures = {pool.submit(_do_alone, job): job.recipe for job in reversed(jobs)}
            for future in as_completed(futures):
                parts[futures[future]] = future.result()
                screen.doing(f"{len(parts)} of {count(len(jobs), 'recipe')}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                if process not in others:
                    process.terminate()
            raise
    return parts


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C is for this process alone, and at the end: those that begin meanwhile need all of
    their beginning, and never hear of it.

    What one thread blocks another one takes, and Python raises it in the main thread all the same.
    """
    resource_tracker.ensure_running()  # which in Python 3.11 would let it through again
    held: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGINT, handler)
    if held:
        raise KeyboardInterrupt


def _end_with_parent() -> None:
    """A process of the pool would wait for its next job for ever, were its parent killed."""
    parent = multiprocessing.parent_process()

    def end() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def do_job(job: RecipeJob, screen: Screen) -> RecipePart:
    """Run, judge and lower one recipe."""
    judge = make_judge(job.request)
    request = replace(job.request, function=None)  # the texts name what is meant
    name: ExampleName = "default" if judge.device.has_clock and job.checks else "golden"
    among = [pick_recipe(text, request) for text in job.among]
    recipe = pick_recipe(job.recipe, request)
    (rung,) = judge.plan([recipe], screen.doing, example=name, among=among)
    counts: dict[int, Counts | None] = {}
    example = None
    if job.checks:
        with rung.keeping_others(is_alone=len(among) == 1):
            for verdict in judge.judge(rung, screen.doing, timed=True):
                counts[verdict.step.index] = read_counts(judge.device, verdict)
        if rung.run is not None and not judge.device.has_clock and job.request.shape is None:
            example = count_example(rung.recipe, rung.run, job, among, screen.doing)
    return build_recipe(
        rung,
        is_judged=job.checks,
        target=job.target,
        counts=counts,
        example=example,
        every_step=job.every_step,
        tell=screen.doing,
    )


def count_example(
    recipe: Recipe, judged: Run, job: RecipeJob, among: Sequence[Recipe], tell: Tell
) -> ExampleCounts | None:
    """The first block's counts at a recipe's own example, of its last step or of all.

    None where the recipe does not take what was asked for there, and where that is what was judged.
    A step that cannot be launched yet, or that the simulator does not run, has none.
    """
    tell(f"counting {recipe.name} at its own example")
    try:
        run = run_requested(recipe, job.request, example="default", among=among)
    except (TransformError, KernelError):
        return None
    if (run.problem.shape, run.config) == (judged.problem.shape, judged.config):
        return None
    counts: dict[int, Counts | None] = {}
    for step in run.steps if job.every_step else run.steps[-1:]:
        with contextlib.suppress(DeviceError):
            counts[step.index] = count_accesses(run.problem, step.module)
    return ExampleCounts(run.problem, counts)


def _do_alone(job: RecipeJob) -> RecipePart:
    """A job in a process of its own, whose screen is quiet."""
    stuck = when_stuck(lambda sentence: end_command(job.recipe, sentence))
    with stuck, noting_files():
        try:
            return do_job(job, Screen())
        except Exception as error:  # its lines do not come along to the parent
            if sentence := find_sentence(error):
                raise UseError(sentence) from None
            raise
