"""Recipes are judged and lowered each in a job, and jobs on several cores at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import sysconfig
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path

from tirstep.lowering_checks import Counts, get_device
from tirstep.processes import count_cores
from tirstep.programs.naming import STDIN

from ..formatting import count
from ..judging import make_judge
from ..request import ExampleName, Request, pick_recipe
from ..screen import Screen
from ..wrong_use import UseError, find_sentence
from .build import build_recipe, read_counts
from .document import RecipePart

MOST_PROCESSES = 4  # each loads TVM: some hundred MB
INSTALLED = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class RecipeJob:
    """One recipe of a report.

    Attributes
    ----------
    recipe : its name, or the text that names it
    among : the same of all recipes of the report
    """

    recipe: str
    among: tuple[str, ...]
    request: Request
    target: str
    checks: bool


@dataclass(frozen=True)
class Done:
    """What came of a job: the recipe's part, and the files of the user's that it has imported."""

    part: RecipePart
    files: frozenset[Path]


def do_jobs(jobs: Sequence[RecipeJob], screen: Screen) -> list[Done]:
    """The parts of the recipes, in the order of the jobs.

    Where times are taken, one job runs after the other. Raises what a job raises.
    """
    device = get_device(jobs[0].request.device)
    processes = min(count_cores(), MOST_PROCESSES, len(jobs))
    if any(job.recipe.partition(":")[0] == STDIN for job in jobs):
        processes = 1  # what was read is here alone
    if processes == 1 or (device.has_clock and jobs[0].checks):
        return [do_job(job, screen) for job in jobs]
    context = multiprocessing.get_context("spawn")  # TVM has threads, which a fork would lose
    done, others = {}, multiprocessing.active_children()
    with ProcessPoolExecutor(processes, context, _begin_process) as pool:
        try:
            # Ctrl-C is for this process alone: those that begin meanwhile are born deaf to it.
            handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
            # A ladder's last recipes take the longest: they come first, the short ones fill up.
            futures = {pool.submit(_do_alone, job): job.recipe for job in reversed(jobs)}
            signal.signal(signal.SIGINT, handler)
            for future in as_completed(futures):
                done[futures[future]] = future.result()
                screen.doing(f"{len(done)} of {count(len(jobs), 'recipe')}")
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                if process not in others:
                    process.terminate()
            if isinstance(error, BrokenProcessPool):
                raise UseError(
                    "a process that lowered a recipe ended too early, so there is no report; try "
                    "the recipes one by one"
                ) from None
            raise
    return [done[job.recipe] for job in jobs]


def _begin_process() -> None:
    """A process of the pool ends with its parent, which else it would wait for for ever."""
    parent = multiprocessing.parent_process()

    def end() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def _do_alone(job: RecipeJob) -> Done:
    """A job in a process of its own, whose screen is quiet."""
    try:
        return do_job(job, Screen())
    except Exception as error:  # its lines do not come along to the parent
        if sentence := find_sentence(error):
            raise UseError(sentence) from None
        raise


def do_job(job: RecipeJob, screen: Screen) -> Done:
    """Run, judge and lower one recipe."""
    request = replace(job.request, function=None)  # the texts name what is meant
    among = [pick_recipe(text, request) for text in job.among]
    recipe = pick_recipe(job.recipe, request)
    judge = make_judge(job.request)  # a program may register a device
    name: ExampleName = "default" if judge.device.has_clock and job.checks else "golden"
    (rung,) = judge.plan([recipe], screen.doing, example=name, among=among)
    counts: dict[int, Counts | None] = {}
    if job.checks:
        with rung.keeping_others(is_alone=len(among) == 1):
            for verdict in judge.judge(rung, screen.doing, timed=True):
                counts[verdict.step.index] = read_counts(judge.device, verdict)
    part = build_recipe(
        rung, is_judged=job.checks, target=job.target, counts=counts, tell=screen.doing
    )
    return Done(part, find_own_files())


def find_own_files() -> frozenset[Path]:
    """The files that this process has imported, but for installed packages and Python's own."""
    standard = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    # By their dictionaries: a module may do something where a name is missing.
    places = (vars(module).get("__file__") for module in list(sys.modules.values()))
    found = (Path(os.path.abspath(it)) for it in places if isinstance(it, str) and it[-3:] == ".py")
    return frozenset(
        file
        for file in found
        if not any(part in INSTALLED for part in file.parts)
        and not any(folder and file.is_relative_to(folder) for folder in standard)
        and file.is_file()
    )
