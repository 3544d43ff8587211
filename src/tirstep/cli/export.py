"""``tirstep export``: a recipe as a git repository, one commit for each step."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from pathlib import Path

from tirstep.lowering_checks import CheckError, Run, print_module
from tirstep.lowering_checks.compile.compiling import get_target
from tirstep.lowering_checks.compile.passes import Lowering, lower_through_passes
from tirstep.lowering_checks.facts import facts_of_lowering
from tirstep.lowering_checks.steps import step_label
from tirstep.modules import Problem
from tirstep.transforms.recipes import Step

from .git import Repository, require_git
from .refusals import UseError
from .screen import Screen
from .selection import format_shape, pick_recipe, run_wished
from .texts import count, first_sentence
from .wishes import Wish

MODULE, FACTS = "module.py", "facts.txt"
SOURCES = {"cuda": "kernel.cu", "opencl": "kernel.cl", "llvm": "kernel.ll"}


def export_recipe(name: str, wish: Wish, folder: Path, *, target: str, force: bool) -> int:
    """Write the repository. Nothing stands in the folder before all of it is made."""
    recipe = pick_recipe(name)
    get_target(target)
    require_git()
    _require_room(folder, force)
    run = run_wished(recipe, wish)
    screen, place = Screen(), folder.absolute()
    beside = tempfile.TemporaryDirectory(prefix=".tirstep-", dir=place.parent)
    with screen.working(), beside as scratch:
        made = Path(scratch) / "repository"
        repository = Repository.create(made)
        for step in run.steps:
            screen.doing(f"lowering {run.label(step)}")
            repository.commit(
                find_files(run.problem, step, target), find_message(run, step), step.index
            )
        head = repository.head()
        _put(made, place)
    commits = count(len(run.steps), "commit")
    screen.line((str(folder), "bold"), f"  {recipe.name}, {commits}, head {head[:12]}")
    return 0


def find_files(problem: Problem, step: Step, target: str) -> dict[str, str]:
    """The files of a step: its TIR, and the device source and the facts where it has them."""
    lowering = lower_through_passes(step.module, target)
    files = {MODULE: print_module(step.module)}
    if lowering.source.strip():
        files[SOURCES[lowering.language]] = lowering.source.strip("\n") + "\n"
    return {**files, FACTS: _facts_text(lowering, problem)}


def find_message(run: Run, step: Step) -> str:
    """The message of a step's commit: its name, what it added to the trace, where it ends."""
    about = first_sentence(run.recipe.doc) if step.index == 0 else ""
    shape = f"{run.recipe.kernel} {format_shape(run.problem.shape)} {run.problem.options['dtype']}"
    added = _trace_lines(step)[len(_trace_lines(run.steps[step.index - 1])) if step.index else 0 :]
    parts = [
        f"{step_label(step)} ({run.recipe.name})",
        about,
        "\n".join(added),
        f"Kernel: {shape}\nRecipe-Line: {step.location}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _trace_lines(step: Step) -> list[str]:
    """The instructions, without the function around them; step 0 has none."""
    lines = [line.strip() for line in str(step.trace).splitlines()]
    return [
        line for line in lines if line and line != "pass" and not line.startswith(("#", "def "))
    ]


def _facts_text(lowering: Lowering, problem: Problem) -> str:
    try:
        facts = facts_of_lowering(lowering, problem=problem)
    except CheckError as error:
        return f"{error}\n"
    if not facts.kernels:
        return f"{facts.refusal}\n"
    rows = (
        f"{row.group}: {row.name}: {'unknown' if row.value is None else row.value} {row.unit}"
        for row in facts.rows()
    )
    return "\n".join(row.rstrip() for row in rows) + "\n"


def _require_room(folder: Path, force: bool) -> None:
    if not folder.absolute().parent.is_dir():
        raise UseError(f"there is no folder {folder.parent}; give DIR a folder in one that is")
    if not folder.exists() and not folder.is_symlink():
        return
    if not folder.is_dir() or folder.is_symlink():
        raise UseError(f"{folder} is no folder; give another DIR")
    if not any(folder.iterdir()):
        return
    if not Repository(folder).is_ours():
        raise UseError(f"{folder} has files that no export made; they stay: give another DIR")
    if not force:
        raise UseError(f"{folder} is an export already; replace it with --force")


def _put(made: Path, folder: Path) -> None:
    """Move what was made to its place; an export that stands there goes away last.

    Until then it lies beside it, where it is found again if this process is killed.
    """
    aside = folder.with_name(f".{folder.name[:60]}.before-{secrets.token_hex(4)}")
    had_one = folder.exists()
    try:
        if had_one:
            os.replace(folder, aside)
        os.replace(made, folder)
    except BaseException:
        if aside.exists() and not folder.exists():
            os.replace(aside, folder)
        raise
    if had_one:
        shutil.rmtree(aside)
