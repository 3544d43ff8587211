"""Candidates of a tuning in processes of their own: compiled by some, checked and timed by another.

Each is held against its problem's reference first, on whole numbers, for which every order of
summation gives the same bits and nothing is tolerated, then on floats. A wrong one has no time.
MetaSchedule's own builder compiles with TVM's pipeline alone, knows no reducer of tirstep's, so
that `softmax_online`, say, does not compile there, and reads all of TVM's intrinsics of tensors in
each process, which takes half a minute.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tvm

from tirstep.bench.compile_pool import spell_target, take_result
from tirstep.lowering_checks.compile.compiling import compile_module
from tirstep.lowering_checks.device import (
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
from tirstep.processes import WorkerProcesses
from tirstep.programs.loading import load_place
from tirstep.programs.naming import is_program, read_spelling
from tirstep.transforms.passes.serial import make_threads_serial

CPU = "llvm"
"""The kind of the targets on which threads run one after the other."""
LIBRARY = "kernel.so"
REPEATS, LEAST_MS = 5, 5
"""Runs of a candidate, and milliseconds of each at least: a short kernel runs several times."""
FLUSH = "cache_flush_cpu_non_first_arg"
"""TVM's function that empties the CPU's caches of all arguments but the first before a run."""


def start_processes(number: int, limit: float, program: str = "") -> WorkerProcesses:
    """Processes that know tirstep's reducers, and a user's own program, ``FILE.py:NAME``, with its
    own. `limit` is seconds for one candidate.
    """
    return WorkerProcesses(number, limit, _begin, program)


@dataclass
class Candidates:
    """Compiles candidates of one problem, as their modules ask to be compiled, into libraries in a
    folder, and checks and times them, one after the other.

    For the CPU loops that are bound to threads become serial ones.

    Attributes
    ----------
    checked : libraries that were right
    """

    problem: AnyProblem
    seed: int
    folder: Path
    compiling: WorkerProcesses
    timing: WorkerProcesses
    checked: set[str] = field(default_factory=set)

    def build(self, modules: Sequence[tvm.IRModule], target: Any) -> list[tuple[str, str]]:
        """The library of each, or a reason why there is none."""
        futures = []
        for module in modules:
            place = Path(tempfile.mkdtemp(prefix="candidate-", dir=self.folder)) / LIBRARY
            text, spelled = tvm.ir.save_json(module), spell_target(target)
            futures.append(self.compiling.submit(build, text, spelled, str(place)))
        taken = [take_result(future, self.compiling.limit, "compile") for future in futures]
        return [(path or "", reason) for path, reason in taken]

    def run(self, path: str, kind: str) -> tuple[tuple[float, ...], str]:
        """Seconds of a library's runs on a kind of device, or why it has none."""
        problem, seed = self.problem, self.seed
        names = [tensor.name for tensor in problem.arguments]

        def run(arguments: Arrays) -> tuple[Arrays, Sequence[DeviceFinding]]:
            done: tuple[Arrays, Sequence[DeviceFinding]]
            done = self._call(compute, path, kind, names, arguments)
            return done

        try:
            if path not in self.checked:
                found = check_program(problem, Program(run), kind, where="candidate", seed=seed)
                if found:
                    return (), f"wrong: {found[0].message}"
            self.checked.add(path)
            blanks = [blank(tensor) for tensor in problem.outputs]
            arguments = problem.make_arguments(problem.float_inputs(seed), blanks)
            return tuple(self._call(measure, path, kind, arguments)), ""
        except WorkerError as error:
            if kind != "cpu":
                self.timing.close()  # a fault on a GPU leaves its process unusable
            return (), str(error)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        future = self.timing.submit(function, *arguments)
        result, reason = take_result(future, self.timing.limit, "run")
        if reason:
            raise WorkerError(reason)
        return result


class WorkerError(RuntimeError):
    """A candidate did not run; the text begins with the kind of failure."""


def build(module: str, target: Mapping[str, object], library: str) -> str:
    """Compile a module of TVM's JSON into a library; its path."""
    loaded = tvm.ir.load_json(module)
    if target["kind"] == CPU:
        loaded = make_threads_serial(loaded)
    compile_module(loaded, tvm.target.Target(dict(target))).export_library(library)
    return library


def compute(
    path: str, kind: str, names: Sequence[str], arguments: Arrays
) -> tuple[Arrays, Sequence[DeviceFinding]]:
    """Run a library once: its arguments afterwards, and stores beside them."""
    main = tvm.runtime.load_module(path)["main"]
    return _speak(lambda: run_in_guard_zones(main, names, arguments, tvm.device(kind)))


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


def _speak(run: Callable[[], Any]) -> Any:
    """Run something; an error of TVM's is told by its own reason, without the program in it."""
    try:
        return run()
    except Exception as error:
        if not is_tvm_error(error):
            raise
        raise RuntimeError(get_reason(error)) from None


def _begin(program: str) -> None:
    """A process imports this module, and with it the reducers; what is printed there is lost, but
    for what says why a program does not load.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    if program and is_program(program):
        load_place(read_spelling(program).place)
    os.dup2(nowhere, 2)
