"""Compiles many candidates on all cores, in processes that can hang or crash alone.

TVM cannot be interrupted, and an unrolled schedule can take minutes; so each core has a process
that fills the cache of compiled kernels, and is killed when a candidate takes too long. What was
compiled is found in the cache afterwards, or in a library. Run as a program, this module is such a
process: it reads a job in each line and answers with a line.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import tvm
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import PrimFunc

from tirstep.lowering_checks import run_recipe
from tirstep.lowering_checks.compile.compiling import compile_module
from tirstep.modules import KernelError, get_kernel
from tirstep.transforms.errors import TransformError
from tirstep.transforms.recipes import find_recipe

from . import BenchError, find_last_line
from .compile_cache import installed
from .peers import schedule_by_default

_NUMBERS = itertools.count()


def name_library() -> Path:
    """A path that this process has not used yet; the file goes when the process ends."""
    return Path(_make_folder().name, f"{next(_NUMBERS)}.so")


@functools.cache
def _make_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tirstep-")


class Workspace(NamedTuple):
    """An intermediate tensor."""

    shape: tuple[int, ...]
    dtype: str


def lift_workspaces(module: tvm.IRModule) -> tuple[tvm.IRModule, list[Workspace]]:
    """Make the global intermediates of "main" its last arguments; which they are, in that order.

    rewrite: ``main(A, C): P = alloc(...); ...`` -> ``main(A, C, P): ...``
    """
    function = module["main"]
    root = function.body.block
    lifted = [buffer for buffer in root.alloc_buffers if buffer.scope() == "global"]
    if not lifted:
        return module, []
    block = SBlock(
        root.iter_vars,
        root.reads,
        root.writes,
        root.name_hint,
        root.body,
        root.init,
        [buffer for buffer in root.alloc_buffers if buffer.scope() != "global"],
        root.match_buffers,
        root.annotations,
        root.span,
    )
    main = PrimFunc(
        [*function.params, *lifted],
        SBlockRealize([], True, block),
        function.ret_type,
        function.attrs,
        function.span,
    )
    workspaces = [
        Workspace(tuple(int(size) for size in buffer.shape), str(buffer.dtype)) for buffer in lifted
    ]
    return tvm.IRModule({"main": main}), workspaces


def write_workspaces(workspaces: Sequence[Workspace], library: Path) -> None:
    """Keep them beside the library of their function."""
    _find_file(library).write_text(json.dumps(workspaces), encoding="utf-8")


def read_workspaces(library: Path) -> list[Workspace]:
    """The workspaces of a library."""
    workspaces = json.loads(_find_file(library).read_text(encoding="utf-8"))
    return [Workspace(tuple(shape), dtype) for shape, dtype in workspaces]


def _find_file(library: Path) -> Path:
    return library.with_suffix(".workspaces.json")


DLIGHT = "dlight"
WORKER = ("-m", "tirstep.bench.compile_pool")
START_SECONDS = 120.0
"""What a process may take to import TVM, on a machine where all of them do at once."""

Report = Callable[[int, str], None]
"""Takes how many jobs are done, and what became of the last one."""


@dataclass(frozen=True)
class CompileJob:
    """A recipe to compile: names and values, since it goes to another process.

    Attributes
    ----------
    recipe : its name, or `DLIGHT` for the default schedule of `kernel`, which has no sizes
    library : the file to write what was compiled into; empty for none. It is not written where
        the machine has no linker.
    """

    recipe: str
    shape: Mapping[str, int]
    options: Mapping[str, object]
    config: Mapping[str, object]
    library: str = ""
    kernel: str = ""


def compile_all(
    jobs: Sequence[CompileJob], target: Any, cache: Path, *, limit: float, report: Report
) -> list[str]:
    """Compile jobs into a cache; by job, empty if it compiled, otherwise why it did not.

    `target` is TVM's target, `limit` the seconds that one job may take. A reason begins with the
    kind of failure: ``refused:``, ``failed:``, ``crashed:`` or ``took longer than``.
    """
    setup = json.dumps({"target": _spell_target(target), "cache": str(cache)})
    count = min(len(jobs), len(os.sched_getaffinity(0)))
    everyone = [_Worker(setup) for _ in range(count)]
    workers: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    for worker in everyone:
        workers.put(worker)
    lock, done = threading.Lock(), 0

    def compile_one(job: CompileJob) -> str:
        nonlocal done
        worker = workers.get()
        try:
            reason = worker.ask(job, limit)
        finally:
            workers.put(worker)
        with lock:
            done += 1
            report(done, reason)
        return reason

    try:
        with ThreadPoolExecutor(max_workers=max(count, 1)) as pool:
            try:
                return list(pool.map(compile_one, jobs))
            except BaseException:  # whoever still waits for an answer gets the end of its process
                for worker in everyone:
                    worker.end()
                raise
    finally:
        for worker in everyone:
            worker.stop()


class _Worker:
    """One process, started when it is first asked, and again after it was lost."""

    def __init__(self, setup: str) -> None:
        self._setup = setup
        self._process: subprocess.Popen[str] | None = None
        self._ended = False

    def ask(self, job: CompileJob, limit: float) -> str:
        if self._ended:
            return "crashed: the search was ended"
        if self._process is None:
            self._start()
        try:
            self._write(json.dumps(asdict(job)))
            answer = self._read(limit)
        except OSError:  # it went away before it was asked
            answer = ""
        if answer is None:
            self.stop()
            return f"took longer than {limit:g} s to compile"
        if not answer.endswith("\n"):  # it ended, perhaps in the middle of the line
            code = self._process.wait() if self._process else None
            self.stop()
            return f"crashed: the compiling process ended with code {code}"
        return str(json.loads(answer))

    def end(self) -> None:
        """Stop for good, from whatever thread: another one may be waiting for an answer."""
        self._ended = True
        process = self._process
        if process is not None:
            process.kill()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )
        if self._ended:
            self._process.kill()
        try:
            self._write(self._setup)
            answer = self._read(START_SECONDS)
        except OSError:  # it is gone already
            answer = ""
        if not answer:
            self.stop()
            raise BenchError(
                "the process that compiles candidates does not start; see what "
                f"{' '.join([sys.executable, *WORKER])} says"
            )

    def _write(self, line: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _read(self, limit: float) -> str | None:
        """One line; empty where the process ended, None where it takes too long."""
        lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        process = self._process
        assert process is not None
        stream = process.stdout
        assert stream is not None
        threading.Thread(target=lambda: lines.put(stream.readline()), daemon=True).start()
        try:
            return lines.get(timeout=limit)
        except queue.Empty:
            return None


def _spell_target(target: Any) -> dict[str, object]:
    attributes = dict(target.attrs)
    for name, value in attributes.items():
        attributes[name] = value if isinstance(value, int) else str(value)
    return {"kind": str(target.kind.name), **attributes}


def serve(requests: TextIO, answers: TextIO) -> None:
    """Take the target and the folder of the cache from the first line, then a job from each."""
    setup = json.loads(requests.readline())
    target = tvm.target.Target(setup["target"])
    with installed(Path(setup["cache"])):
        _answer(answers, "ready")
        for line in requests:
            _answer(answers, compile_job(json.loads(line), target))


def compile_job(job: Mapping[str, Any], target: Any) -> str:
    """Empty if the job compiled, otherwise why it did not."""
    try:
        scheduled = _schedule(job, target)
    except (TransformError, KernelError) as error:
        return f"refused: {error}"
    try:
        module, workspaces = lift_workspaces(scheduled)
        executable = compile_module(module, target)
        if job["library"]:
            _export(executable, workspaces, Path(job["library"]))
    except Exception as error:  # TVM, NVRTC and ptxas each have errors of their own
        return f"failed: {type(error).__name__}: {find_last_line(error)[:200]}"
    return ""


def _schedule(job: Mapping[str, Any], target: Any) -> tvm.IRModule:
    if job["recipe"] == DLIGHT:
        problem = get_kernel(job["kernel"]).problem(**job["shape"], **job["options"])
        return schedule_by_default(problem.module, target)
    recipe = find_recipe(job["recipe"])
    run = run_recipe(recipe, job["shape"], options=job["options"], config=job["config"])
    return run.steps[-1].module


def _export(executable: Any, workspaces: Sequence[Workspace], file: Path) -> None:
    """Under another name first: whoever finds the file finds all of it."""
    partial = file.with_name(f"partial-{file.name}")
    try:
        executable.export_library(str(partial))
    except (RuntimeError, OSError):  # no linker: whoever wants it compiles it again
        partial.unlink(missing_ok=True)
        return
    write_workspaces(workspaces, file)
    partial.replace(file)


def _answer(answers: TextIO, text: str) -> None:
    answers.write(json.dumps(text) + "\n")
    answers.flush()


if __name__ == "__main__":
    # What compilers print must not come between the answers.
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin, channel)
