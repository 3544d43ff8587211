"""A whole run: the ceilings, then every case, each reported as it comes."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from .ahead import compile_ahead
from .arena import Settings, Tell, draw_reference, run_case
from .compile_cache import installed
from .contenders import needed_bytes
from .machine import Machine
from .references import Reference, look_ahead
from .results import BenchRun
from .works import Work


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
