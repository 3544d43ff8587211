"""A whole run: candidates are compiled on all cores, the ceilings are measured, and then every
case, each reported as it comes.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from tirstep.modules import Problem
from tirstep.transforms.recipes import Recipe

from . import BenchError
from .accuracy import Reference, look_ahead
from .candidates import Built, BuiltAhead, find_options, needed_bytes
from .cases import Work
from .compile_cache import installed
from .compile_pool import DLIGHT, Job, compile_all, name_library
from .machine import Machine
from .results import BenchRun
from .run_case import Settings, Tell, draw_reference, run_case

COMPILE_LIMIT = 120.0
"""Seconds that one contender may take to compile."""
FEW_JOBS = 4
"""So few are compiled when they are needed: processes take seconds to start."""


@dataclass(frozen=True)
class _Wish:
    """Somebody who takes part: a recipe with its sizes, or dlight without one."""

    problem: Problem
    recipe: Recipe | None
    config: Mapping[str, object]

    @property
    def name(self) -> str:
        return self.recipe.name if self.recipe else DLIGHT

    def make_job(self) -> Job:
        problem = self.problem
        options = find_options(self.recipe, problem) if self.recipe else dict(problem.options)
        return Job(
            self.name,
            dict(problem.shape),
            options,
            dict(self.config),
            str(name_library()),
            kernel=problem.kernel.name,
        )


def compile_ahead(works: Sequence[Work], machine: Machine, cache: Path, tell: Tell) -> BuiltAhead:
    """Compile the recipes of works, and dlight's schedules where it is a peer.

    A recipe takes part with its own sizes, or where these do not divide the shape, with each of its
    tails that can. What is not in the answer, or has no library, is compiled when its turn comes.
    """
    wishes = [
        _Wish(work.problem, one, one.default_example.config)
        for work in works
        for one in work.recipes
    ]
    wishes += [_Wish(work.problem, None, {}) for work in works if DLIGHT in work.peers]
    wishes = [*{(wish.problem, wish.name): wish for wish in wishes}.values()]
    if len(wishes) <= FEW_JOBS:
        return {}
    built: dict[tuple[Problem, str], list[Built]] = {}
    refused = _compile(wishes, machine, cache, tell, built)
    tails = [
        _Wish(one.problem, one.recipe, {**one.config, "tail": tail})
        for one in refused
        if one.recipe is not None
        for tail in one.recipe.tails
        if tail not in ("refuse", one.config.get("tail"))
    ]
    if tails:
        _compile(tails, machine, cache, tell, built)
    return built


def _compile(
    wishes: Sequence[_Wish],
    machine: Machine,
    cache: Path,
    tell: Tell,
    built: dict[tuple[Problem, str], list[Built]],
) -> list[_Wish]:
    """Add what compiled to `built`; returns what was refused."""
    jobs = [wish.make_job() for wish in wishes]

    def report(done: int, reason: str) -> None:
        tell(f"compiled {done} of {len(jobs)} contenders")

    try:
        reasons = compile_all(jobs, machine.target, cache, limit=COMPILE_LIMIT, report=report)
    except BenchError as error:  # each can still be compiled in its turn
        tell(str(error))
        return []
    refused = []
    for wish, job, reason in zip(wishes, jobs, reasons, strict=True):
        if reason.startswith("refused:"):
            refused.append(wish)
        else:
            library = Path(job.library)
            one = Built(dict(wish.config), library if not reason and library.exists() else None)
            built.setdefault((wish.problem, wish.name), []).append(one)
    return refused


def run_bench(
    works: Sequence[Work],
    machine: Machine,
    settings: Settings,
    cache: Path,
    tell: Tell,
) -> Iterator[BenchRun]:
    """Measure the ceilings and then the works, one by one: the run so far, after each case.

    `cache` is the folder of compiled kernels. Raises `BenchError` where a
    contender leaves the device unusable.
    """
    tell("measuring the machine's ceilings")
    dtypes = dict.fromkeys(str(work.problem.options["dtype"]) for work in works)
    moved = dict.fromkeys(work.problem.bytes for work in works)
    with installed(cache):
        run = BenchRun(
            machine.device,
            machine.versions,
            datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            {**machine.method, **asdict(settings)},
            machine.measure_ceilings([*dtypes], [*moved]),
        )
        built = compile_ahead(works, machine, cache, tell)
        with closing(_look_ahead(works, machine, settings)) as coming:
            for work, find_reference in coming:
                case = run_case(work, machine, settings, tell, find_reference, built)
                run = run.add(case)
                yield run


def _look_ahead(
    works: Sequence[Work], machine: Machine, settings: Settings
) -> Generator[tuple[Work, Callable[[], Reference] | None], None, None]:
    """Each work, with what returns its reference unless it is too large for the device."""
    most = machine.free_bytes()

    def fits(work: Work) -> bool:
        return needed_bytes(work.problem) <= most

    def work_out(work: Work) -> Reference:
        reference = draw_reference(work, settings)
        if not machine.has_reference(work.problem):
            _ = reference.right, reference.bound
        return reference

    ahead = look_ahead([work for work in works if fits(work)], work_out)
    for work in works:
        yield work, next(ahead) if fits(work) else None
