"""Compiles many candidates on all cores, in processes that can hang or crash alone.

TVM cannot be interrupted, and an unrolled schedule can take minutes; so each core has a process,
which is killed when a candidate takes too long (pebble's pool: its clock is outside of the process,
and a crash costs one job). What was compiled lies in a library.
"""

from __future__ import annotations

import errno
import functools
import itertools
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, TimeoutError, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pebble
import tvm
from tvm.s_tir import SBlockRealize

from tirstep.lowering_checks import run_recipe
from tirstep.lowering_checks.compile.compiling import compile_module, register_compiler
from tirstep.modules import KernelError
from tirstep.processes import WorkerProcesses, count_cores
from tirstep.programs.naming import is_program
from tirstep.transforms.recipes import Recipe, find_recipe
from tirstep.transforms.schedule import TransformError
from tirstep.transforms.tir import replace_fields
from tirstep.tvm_compat import with_parameters

from . import BenchError, shorten

_NUMBERS = itertools.count()


def name_library() -> Path:
    """A path that this process has not used yet; the file goes when the process ends."""
    return Path(_make_folder().name, f"{next(_NUMBERS)}.so")


@functools.cache
def _make_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tirstep-")


Workspaces = list[tuple[list[int], str]]
"""Shapes and types of intermediate tensors."""


def lift_workspaces(module: tvm.IRModule) -> tuple[tvm.IRModule, Workspaces]:
    """Make the global intermediates of "main" its last arguments; which they are, in that order.

    rewrite: ``main(A, C): P = alloc(...); ...`` -> ``main(A, C, P): ...``
    """
    function = module["main"]
    root = function.body.block
    lifted = [buffer for buffer in root.alloc_buffers if buffer.scope() == "global"]
    if not lifted:
        return module, []
    kept = [buffer for buffer in root.alloc_buffers if buffer.scope() != "global"]
    block = replace_fields(root, alloc_buffers=kept)
    body = SBlockRealize([], True, block)
    main = with_parameters(function.with_body(body), [*function.params, *lifted])
    workspaces = [([*map(int, buffer.shape)], str(buffer.dtype)) for buffer in lifted]
    return tvm.IRModule({"main": main}), workspaces


def write_workspaces(workspaces: Workspaces, library: Path) -> None:
    """Keep them beside the library of their function."""
    library.with_suffix(".json").write_text(json.dumps(workspaces), encoding="utf-8")


def read_workspaces(library: Path) -> Workspaces:
    """The workspaces of a library."""
    workspaces = json.loads(library.with_suffix(".json").read_text(encoding="utf-8"))
    return [(shape, dtype) for shape, dtype in workspaces]


@dataclass(frozen=True)
class CompileJob:
    """A recipe to compile: names and values, since it goes to another process.

    Attributes
    ----------
    recipe : its name, or the text that names a user's own
    library : the file to write what was compiled into; empty for none. It is not written where
        the machine has no linker.
    """

    recipe: str
    shape: Mapping[str, int]
    options: Mapping[str, object]
    config: Mapping[str, object]
    library: str = ""


def take_result(future: Future[Any], limit: float, doing: str) -> tuple[Any, str]:
    """What a call returned, or why it did not; begins with the kind of failure, ``failed:``,
    ``crashed:`` or ``took longer than``.

    Raises `BenchError` where no process starts, such as in a script that compiles while it is
    imported, since each process imports it again; and `OSError` where the disk is full.
    """
    try:
        return future.result(), ""
    except TimeoutError:
        return None, f"took longer than {limit:g} s to {doing}"
    except pebble.ProcessExpired as error:
        return None, f"crashed: the process that was to {doing} it ended with {error.exitcode}"
    except BrokenProcessPool as error:
        raise BenchError(
            "the processes that try candidates do not start; see their messages above, and "
            'start the work of a script under: if __name__ == "__main__"'
        ) from error
    except Exception as error:  # TVM, compilers and linkers have errors of their own
        # A full disk is no fault of a candidate's; compilers tell of it in words.
        full = os.strerror(errno.ENOSPC)
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or full in str(error):
            raise OSError(errno.ENOSPC, full) from error
        return None, f"failed: {shorten(error)}"


class CompilePool(WorkerProcesses):
    """Processes that compile for a target of TVM's while this one does something else."""

    def __init__(self, target: Any, *, limit: float, processes: int) -> None:
        super().__init__(max(1, processes), limit, _begin)
        self._spelled = spell_target(target)

    def compile(self, job: CompileJob) -> Future[str]:
        """Compile a job when its turn comes, which `read` says when it is done."""
        return self.submit(compile_job, job, self._spelled)

    def read(self, future: Future[str]) -> str:
        """Empty if a job that is done compiled, otherwise why it did not: ``refused:`` or as
        `take_result` says it.
        """
        reason, failure = take_result(future, self.limit, "compile")
        return failure or str(reason)


def compile_all(
    jobs: Sequence[CompileJob], target: Any, *, limit: float, report: Callable[[int], None]
) -> list[str]:
    """Compile jobs on all cores; by job, why it did not compile, empty if it did.

    `report` takes how many are done. Raises `BenchError` where no process starts.
    """
    pool = CompilePool(target, limit=limit, processes=min(len(jobs), count_cores()))
    try:
        futures = [pool.compile(job) for job in jobs]
        for done, future in enumerate(as_completed(futures), 1):
            pool.read(future)
            report(done)
        return [pool.read(future) for future in futures]
    finally:
        pool.close()


def _begin() -> None:
    """Begin a process; what compilers print goes nowhere."""
    prepare_compiler()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)


def prepare_compiler() -> None:
    """Let this process compile CUDA source without the traits that it does not use."""
    import tvm.support.nvcc  # noqa: F401 - it registers the function that is replaced

    register_compiler()


def spell_target(target: Any) -> dict[str, object]:
    """A target as a dictionary that goes to another process."""
    attributes = dict(target.attrs)
    for name, value in attributes.items():
        attributes[name] = value if isinstance(value, int) else str(value)
    return {"kind": str(target.kind.name), **attributes}


def compile_job(job: CompileJob, spelled: Mapping[str, object]) -> str:
    """Empty if the job compiled for this target, otherwise why it did not."""
    try:
        recipe = find_recipe_of(job.recipe)
        run = run_recipe(recipe, job.shape, options=job.options, config=job.config)
    except (TransformError, KernelError) as error:
        return f"refused: {error}"
    try:
        module, workspaces = lift_workspaces(run.steps[-1].module)
        executable = compile_module(module, tvm.target.Target(spelled))
        if job.library:
            # Under another name first: whoever finds the file finds all of it.
            file = Path(job.library)
            partial = file.with_name(f"partial-{file.name}")
            try:
                executable.export_library(str(partial))
            except (RuntimeError, OSError):  # no linker: whoever wants it compiles it again
                partial.unlink(missing_ok=True)
            else:
                write_workspaces(workspaces, file)
                partial.replace(file)
    except Exception as error:  # TVM, NVRTC and ptxas each have errors of their own
        return f"failed: {shorten(error)}"
    return ""


def find_recipe_of(text: str) -> Recipe:
    """By its name, or of a file of the user's, which this process loads for itself."""
    if not is_program(text):
        return find_recipe(text)
    from tirstep.programs.picking import pick_programs

    return pick_programs(text)[0]
