"""A builder of MetaSchedule's whose processes know tirstep's reducers, pipelines and pass options.

MetaSchedule's own compiles with TVM's pipeline alone, and its processes know no reducer beside
sum, product, least and greatest, so that `softmax_online`, say, does not compile there. Each of
them also reads all of TVM's intrinsics of tensors first, which takes half a minute.

Its callback `RemoveBuildArtifact` removes the folder in which an artifact lies, with all that is in
it: each artifact has a folder of its own here.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, TimeoutError
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pebble
import tvm
from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.builder import BuilderResult, PyBuilder

from tirstep.bench import BenchError, shorten
from tirstep.bench.compile_pool import spell_target
from tirstep.lowering_checks.compile.compiling import compile_module
from tirstep.programs.loading import load_place
from tirstep.programs.naming import is_program, read_spelling
from tirstep.transforms.passes.serial import make_threads_serial

LIBRARY = "kernel.so"
TOOK_LONGER = "took longer than"
CPU = "llvm"
"""The kind of the targets on which threads run one after the other."""

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FULL_WORDS = os.strerror(errno.ENOSPC)
"""A full disk is no fault of a candidate's; compilers tell of it in words."""

Result = TypeVar("Result")


class WorkerProcesses:
    """Processes that may crash or hang alone; they start when the first work comes.

    Parameters
    ----------
    number : of processes
    limit : seconds that one call may take
    program : a user's own file, which each process loads: its reducers are registered there
    """

    def __init__(self, number: int, limit: float, program: str = "") -> None:
        self.number, self.limit, self._program = number, limit, program
        self._pool: pebble.ProcessPool | None = None

    def submit(self, function: Callable[..., Result], *arguments: object) -> Future[Result]:
        """Call a function of a module in a process."""
        if self._pool is not None:
            return self._pool.schedule(function, arguments, timeout=self.limit)
        self._pool = pebble.ProcessPool(
            max_workers=self.number,
            initializer=_begin,
            initargs=(self._program,),
            context=multiprocessing.get_context("spawn"),  # TVM's threads survive no fork
        )
        # The threads that start processes, and these, leave Ctrl-C to who called: each process
        # would tell where it was.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return self._pool.schedule(function, arguments, timeout=self.limit)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def close(self) -> None:
        """End all processes, whatever they do."""
        if self._pool is not None:
            self._pool.stop()
            self._pool.join()
            self._pool = None


def take_result(future: Future[Any], limit: float, doing: str) -> tuple[Any, str]:
    """What a call returned, or why it did not; begins with the kind of failure.

    Raises `BenchError` where no process starts, and `OSError` where the disk is full.
    """
    try:
        return future.result(), ""
    except TimeoutError:
        return None, f"{TOOK_LONGER} {limit:g} s to {doing}"
    except pebble.ProcessExpired as error:
        return None, f"crashed: the process that was to {doing} it ended with {error.exitcode}"
    except BrokenProcessPool as error:
        raise BenchError(
            "the processes that try candidates do not start; see what they say above, and let a "
            'script of yours begin its work under: if __name__ == "__main__"'
        ) from error
    except Exception as error:  # TVM, compilers and linkers have errors of their own
        if getattr(error, "errno", None) in _FULL or _FULL_WORDS in str(error):
            raise OSError(errno.ENOSPC, _FULL_WORDS) from error
        return None, f"failed: {shorten(error)}"


def make_builder(folder: Path, *, jobs: int = 1, limit: float = 60.0, program: str = "") -> Any:
    """A builder for ``meta_schedule.tune_tir(..., builder=...)``.

    Parameters
    ----------
    folder : where each artifact gets a folder of its own
    jobs : processes
    limit : seconds that one candidate may take
    program : a user's own program, ``FILE.py:NAME``, that each process loads
    """
    return _MetaScheduleBuilder(CandidateBuilder(folder, WorkerProcesses(jobs, limit, program)))


@dataclass(frozen=True)
class CandidateBuilder:
    """Compiles candidates in processes, as their modules ask to be compiled.

    For the CPU loops that are bound to threads become serial ones.
    """

    folder: Path
    workers: WorkerProcesses

    def build(self, build_inputs: Sequence[Any]) -> list[BuilderResult]:
        """An artifact or a reason for each."""
        futures = []
        for each in build_inputs:
            place = Path(tempfile.mkdtemp(prefix="candidate-", dir=self.folder))
            module, target = tvm.ir.save_json(each.mod), spell_target(each.target)
            futures.append(self.workers.submit(build, module, target, str(place / LIBRARY)))
        taken = [take_result(future, self.workers.limit, "compile") for future in futures]
        return [BuilderResult(path, reason or None) for path, reason in taken]


@derived_object
class _MetaScheduleBuilder(PyBuilder):
    """A builder as an object of TVM's."""

    def __init__(self, builder: CandidateBuilder) -> None:
        super().__init__()
        self.builder = builder

    def build(self, build_inputs: Sequence[Any]) -> list[BuilderResult]:
        return self.builder.build(build_inputs)


def build(module: str, target: Mapping[str, object], library: str) -> str:
    """Compile a module of TVM's JSON into a library; its path."""
    loaded = tvm.ir.load_json(module)
    if target["kind"] == CPU:
        loaded = make_threads_serial(loaded)
    compile_module(loaded, tvm.target.Target(dict(target))).export_library(library)
    return library


def _begin(program: str) -> None:
    """A process imports this module, and with it the reducers; what is printed there is lost, but
    for what says why a program does not load.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    if program and is_program(program):
        load_place(read_spelling(program).place)
    os.dup2(nowhere, 2)
