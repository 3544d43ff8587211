"""A runner of MetaSchedule's that times only what computes the right thing.

Each candidate is held against its problem's reference first, in a process of its own: on whole
numbers, for which every order of summation gives the same bits and nothing is tolerated, then on
floats. A wrong one has no time and cannot win.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.runner import PyRunner, PyRunnerFuture, RunnerResult

from tirstep.lowering_checks.devices.device import (
    Arrays,
    DeviceFinding,
    Program,
    blank,
    get_reason,
    is_tvm_error,
)
from tirstep.lowering_checks.devices.guard_zones import GuardedTensor, run_in_guard_zones
from tirstep.lowering_checks.numeric import check_program
from tirstep.modules import AnyProblem

from .building import WorkerProcesses, take_result

REPEATS = 5
LEAST_MS = 5
"""Milliseconds of each repeat at least, in which a short kernel runs several times."""
FLUSH = "cache_flush_cpu_non_first_arg"
"""TVM's function that empties the CPU's caches of all arguments but the first before a run."""


def make_runner(
    problem: AnyProblem,
    *,
    limit: float = 60.0,
    seed: int = 0,
    program: str = "",
) -> Any:
    """A runner for ``meta_schedule.tune_tir(..., runner=...)``, for candidates of one problem.

    Parameters
    ----------
    limit : seconds that one run may take
    seed : of the random inputs
    program : a user's own program, ``FILE.py:NAME``, that the process loads
    """
    return _MetaScheduleRunner(CandidateRunner(problem, WorkerProcesses(1, limit, program), seed))


class WorkerError(RuntimeError):
    """A candidate did not run; the text begins with the kind of failure."""


@dataclass(frozen=True)
class Done:
    """A future whose result is there already: candidates run one after the other."""

    outcome: RunnerResult

    def done(self) -> bool:
        """It is."""
        return True

    def result(self) -> RunnerResult:
        """Seconds, or a reason."""
        return self.outcome


class CandidateRunner:
    """Checks candidates of one problem, and times those that are right."""

    def __init__(self, problem: AnyProblem, workers: WorkerProcesses, seed: int) -> None:
        self.problem, self.workers, self.seed = problem, workers, seed
        self.checked: set[str] = set()

    def run(self, runner_inputs: Sequence[Any]) -> list[Done]:
        """A future for each."""
        return [Done(self._run(str(it.artifact_path), str(it.device_type))) for it in runner_inputs]

    def _run(self, path: str, kind: str) -> RunnerResult:
        try:
            if path not in self.checked and (wrong := self._find_error(path, kind)):
                return RunnerResult(None, f"wrong: {wrong}")
            self.checked.add(path)
            blanks = [blank(tensor) for tensor in self.problem.outputs]
            inputs = self.problem.float_inputs(self.seed)
            arguments = self.problem.make_arguments(inputs, blanks)
            return RunnerResult(self._call(measure, "run", path, kind, arguments), None)
        except WorkerError as error:
            if kind != "cpu":
                self.workers.close()  # a fault on a GPU leaves its process unusable
            return RunnerResult(None, str(error))

    def _find_error(self, path: str, kind: str) -> str:
        """The first thing that is wrong with what a library computes; "" where all is right."""
        names = [tensor.name for tensor in self.problem.arguments]

        def run(arguments: Arrays) -> tuple[Arrays, Sequence[DeviceFinding]]:
            return self._call(compute, "run", path, kind, names, arguments)

        found = check_program(self.problem, Program(run), kind, where="candidate", seed=self.seed)
        return found[0].message if found else ""

    def _call(self, function: Any, doing: str, *arguments: Any) -> Any:
        future: Future[Any] = self.workers.submit(function, *arguments)
        result, reason = take_result(future, self.workers.limit, doing)
        if reason:
            raise WorkerError(reason)
        return result


@derived_object
class _MetaScheduleFuture(PyRunnerFuture):
    """A future as an object of TVM's."""

    def __init__(self, made: Done) -> None:
        super().__init__()
        self._made = made

    def done(self) -> bool:
        return self._made.done()

    def result(self) -> RunnerResult:
        return self._made.result()


@derived_object
class _MetaScheduleRunner(PyRunner):
    """A runner as an object of TVM's."""

    def __init__(self, runner: CandidateRunner) -> None:
        super().__init__()
        self.runner = runner

    def run(self, runner_inputs: Sequence[Any]) -> list[Any]:
        return [_MetaScheduleFuture(made) for made in self.runner.run(runner_inputs)]


def compute(
    path: str, kind: str, names: Sequence[str], arguments: Arrays
) -> tuple[Arrays, Sequence[DeviceFinding]]:
    """Run a library once: its arguments afterwards, and stores beside them."""
    return _speak(lambda: run_in_guard_zones(_load(path), names, arguments, tvm.device(kind)))


def measure(path: str, kind: str, arguments: Arrays) -> list[float]:
    """Seconds of a library, `REPEATS` of them."""
    device = tvm.device(kind)
    guarded = [GuardedTensor(str(at), it, at, device) for at, it in enumerate(arguments)]
    given = [each.tensor for each in guarded]
    flush = {"f_preproc": FLUSH} if kind == "cpu" else {}
    module = tvm.runtime.load_module(path)
    timer = module.time_evaluator(
        "main", device, number=1, repeat=REPEATS, min_repeat_ms=LEAST_MS, **flush
    )
    return _speak(lambda: [float(seconds) for seconds in timer(*given).results])


@functools.lru_cache(maxsize=4)
def _load(path: str) -> Any:
    return tvm.runtime.load_module(path)["main"]


def _speak(run: Any) -> Any:
    """Run something; an error of TVM's is told by its own reason, without the program in it."""
    try:
        return run()
    except Exception as error:
        if not is_tvm_error(error):
            raise
        raise RuntimeError(get_reason(error)) from None
