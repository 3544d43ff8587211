"""A whole run: candidates are compiled on all cores, the ceilings are measured, and then every
case, each reported as it comes.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from tirstep.modules import Problem, kernels
from tirstep.transforms.recipes import Recipe

from . import BenchError
from .accuracy import Reference, look_ahead
from .cases import PlannedCase
from .compile_pool import CompileJob, compile_all, installed, name_library
from .machine import Machine
from .peers import PEERS, Peer
from .results import BenchRun
from .run_case import (
    CompiledAhead,
    CompiledConfig,
    Settings,
    Tell,
    compute_needed_bytes,
    draw_reference,
    get_case_options,
    get_options,
    run_case,
)

COMPILE_LIMIT = 120.0
"""Seconds that one candidate may take to compile."""
FEW_JOBS = 4
"""So few are compiled when they are needed: processes take seconds to start."""


@dataclass(frozen=True)
class _Compilation:
    """A candidate to compile: a recipe with its config, or a peer's schedule without one."""

    problem: Problem
    candidate: Recipe | Peer
    config: Mapping[str, object]

    def make_job(self) -> CompileJob:
        problem, candidate = self.problem, self.candidate
        options = dict(problem.options)
        if isinstance(candidate, Recipe):
            options = get_options(candidate, problem)
        spelling = candidate.spelling if isinstance(candidate, Recipe) else ""
        return CompileJob(
            spelling or candidate.name,
            dict(problem.shape),
            options,
            dict(self.config),
            str(name_library()),
            kernel=problem.kernel.name,
        )


def compile_ahead(
    cases: Sequence[PlannedCase], machine: Machine, cache: Path, tell: Tell
) -> CompiledAhead:
    """Compile the recipes of cases, and what the schedules of `PEERS` make of their kernels.

    A recipe takes part with its own sizes, or where these do not divide the shape, with each of its
    tails that can. What is not in the answer, or has no library, is compiled when its turn comes.
    """
    compilations = [
        _Compilation(planned.problem, recipe, recipe.default_example.config)
        for planned in cases
        for recipe in planned.recipes
    ]
    compilations += [
        _Compilation(planned.problem, peer, {})
        for planned in cases
        for peer in planned.peers
        # Processes know the table alone, and its kernels.
        if peer.schedule
        and PEERS.get(peer.name) is peer
        and planned.problem.kernel.name in kernels()
    ]
    compilations = [*{(each.problem, each.candidate.name): each for each in compilations}.values()]
    if len(compilations) <= FEW_JOBS:
        return {}
    built: dict[tuple[Problem, str], list[CompiledConfig]] = {}
    refused = _compile(compilations, machine, cache, tell, built)
    tails = [
        _Compilation(each.problem, each.candidate, {**each.config, "tail": tail})
        for each in refused
        if isinstance(each.candidate, Recipe)
        for tail in each.candidate.tails
        if tail not in ("refuse", each.config.get("tail"))
    ]
    if tails:
        _compile(tails, machine, cache, tell, built)
    return built


def _compile(
    compilations: Sequence[_Compilation],
    machine: Machine,
    cache: Path,
    tell: Tell,
    built: dict[tuple[Problem, str], list[CompiledConfig]],
) -> list[_Compilation]:
    """Add what compiled to `built`; returns what was refused."""
    jobs = [compilation.make_job() for compilation in compilations]

    def report(done: int, reason: str) -> None:
        tell(f"compiled {done} of {len(jobs)} candidates")

    try:
        reasons = compile_all(jobs, machine.target, cache, limit=COMPILE_LIMIT, report=report)
    except BenchError as error:  # each can still be compiled in its turn
        tell(str(error))
        return []
    refused = []
    for compilation, job, reason in zip(compilations, jobs, reasons, strict=True):
        if reason.startswith("refused:"):
            refused.append(compilation)
        else:
            library = Path(job.library)
            compiled = CompiledConfig(
                dict(compilation.config), library if not reason and library.exists() else None
            )
            built.setdefault((compilation.problem, compilation.candidate.name), []).append(compiled)
    return refused


def run_bench(
    cases: Sequence[PlannedCase],
    machine: Machine,
    settings: Settings,
    cache: Path,
    tell: Tell,
) -> Iterator[BenchRun]:
    """Measure the ceilings and then the cases, one by one: the run so far, after each case.

    `cache` is the folder of compiled kernels. Raises `BenchError` where a
    candidate leaves the device unusable.
    """
    tell("measuring the machine's ceilings")
    dtypes = dict.fromkeys(str(get_case_options(planned.problem)["dtype"]) for planned in cases)
    moved = dict.fromkeys(planned.problem.bytes for planned in cases)
    with installed(cache):
        run = BenchRun(
            machine.device,
            machine.versions,
            datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            {**machine.method, **asdict(settings)},
            machine.measure_ceilings([*dtypes], [*moved]),
        )
        built = compile_ahead(cases, machine, cache, tell)
        with closing(_look_ahead(cases, machine, settings)) as coming:
            for planned, find_reference in coming:
                case = run_case(planned, machine, settings, tell, find_reference, built)
                run = run.add(case)
                yield run


def _look_ahead(
    cases: Sequence[PlannedCase], machine: Machine, settings: Settings
) -> Generator[tuple[PlannedCase, Callable[[], Reference] | None], None, None]:
    """Each case, with what returns its reference unless it is too large for the device."""
    free = machine.free_bytes()

    def fits(planned: PlannedCase) -> bool:
        return compute_needed_bytes(planned.problem) <= free

    def work_out(planned: PlannedCase) -> Reference:
        reference = draw_reference(planned, settings)
        if not machine.has_reference(planned.problem):
            _ = reference.right, reference.bound
        return reference

    ahead = look_ahead([planned for planned in cases if fits(planned)], work_out)
    for planned in cases:
        yield planned, next(ahead) if fits(planned) else None
