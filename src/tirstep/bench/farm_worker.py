"""The process that `farm` starts: it reads a job in each line and answers each with a line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import tvm

from tirstep.lowering_checks import run_recipe
from tirstep.lowering_checks.compile.compiling import compile_module
from tirstep.modules import KernelError, get_kernel
from tirstep.transforms.errors import TransformError
from tirstep.transforms.recipes import find_recipe

from .compile_cache import installed
from .errors import find_last_line
from .farm import DLIGHT
from .peers.dlight import schedule_by_default
from .workspaces import Workspace, lift_workspaces, write_workspaces


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
