"""``tirstep export``: a recipe as a git repository, one commit for each step, or as a replay.

Repositories are made by the git of the machine, and are the same on every machine: nothing of the
user counts, no configuration, no templates, no signing, no line endings, no dates.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tirstep.files import made_aside

from .formatting import count, first_sentence, format_shape, get_dtype
from .request import (
    Config,
    Dtype,
    FunctionName,
    KernelOptions,
    RecipeName,
    Request,
    Shape,
    TargetName,
    make_request,
    one_of,
    pick_recipe,
    run_requested,
)
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.lowering_checks import Run
    from tirstep.lowering_checks.compile.passes import Lowering
    from tirstep.modules import AnyProblem
    from tirstep.transforms.recipes import Step

FORMS = ("git", "trace", "python", "database")
"""What a recipe can be exported as."""
MODULE, FACTS = "module.py", "facts.txt"
SOURCES = {"cuda": "kernel.cu", "opencl": "kernel.cl", "llvm": "kernel.ll"}
AUTHOR, EMAIL = "tirstep", "tirstep@localhost"
EPOCH, MINUTE = 946684800, 60  # 2000-01-01 in UTC: the date of step 0
MARK = "tirstep.export"
# Files of the user's that git finds without any configuration: $XDG_CONFIG_HOME/git/attributes.
_WITHOUT_FILES = tuple(
    word
    for name in ("attributesFile", "excludesFile", "hooksPath")
    for word in ("-c", f"core.{name}={os.devnull}")
)


def command(
    recipe: RecipeName,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where to; a new folder, or an empty one.")
    ],
    form: Annotated[
        str,
        typer.Option(
            "--as", metavar="|".join(FORMS), parser=one_of("--as", FORMS), help="What to write."
        ),
    ] = "git",
    force: Annotated[
        bool, typer.Option("--force", help="Replace DIR, if an export made it.")
    ] = False,
    target: TargetName = "cuda",
    shape: Shape = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    config: Config = None,
    function: FunctionName = None,
) -> int:
    """Write a recipe as a git repository, a commit a step.

    module.py is the step's TIR, kernel.cu its device source, facts.txt its facts, and the message
    has the lines of the trace. So git log -p, git blame, git diff and git bisect run work on a
    schedule. The same recipe gives the same hashes on every machine.

    The other forms are for projects without tirstep: its trace as JSON, as Python, or as a record
    in a database of MetaSchedule. replay.py applies it, and is run once before it is written.
    """
    request = make_request(shape, dtype, option, config, function=function)
    if form != "git":
        return export_schedule(recipe, request, folder, form, target=target, force=force)
    return export_recipe(recipe, request, folder, target=target, force=force)


def export_schedule(
    name: str, request: Request, folder: Path, form: str, *, target: str, force: bool
) -> int:
    """Write a schedule that replays with TVM alone; see `export_replay`."""
    from .export_replay import export_replay, require_room
    from .screen import Screen

    if target != "cuda":
        raise UseError(f"--target {target} is for --as git; a trace is of no target")
    recipe = pick_recipe(name, request)
    require_room(folder, form, force=force)
    run = run_requested(recipe, request)
    screen = Screen()
    with screen.working():
        screen.doing(f"replaying {run.recipe.name}")
        export_replay(run, form, folder, force=force)
    about = f"  {run.recipe.name} as {form}, replayed with TVM alone"
    screen.line((str(folder), "bold"), about)
    return 0


def export_recipe(name: str, request: Request, folder: Path, *, target: str, force: bool) -> int:
    """Write the repository. Nothing stands in the folder before all of it is made."""
    from tirstep.lowering_checks.compile.compiling import get_target

    from .screen import Screen

    recipe = pick_recipe(name, request)
    get_target(target)
    require_git()
    _require_room(folder, force)
    run = run_requested(recipe, request)
    screen = Screen()
    with screen.working(), made_aside(folder) as made:
        repository = Repository.create(made)
        for step in run.steps:
            screen.doing(f"lowering {run.label(step)}")
            files = make_files(run.problem, step, target)
            repository.commit(files, make_message(run, step), step.index)
        head = repository.head()
    commits = count(len(run.steps), "commit")
    screen.line((str(folder), "bold"), f"  {run.recipe.name}, {commits}, head {head[:12]}")
    return 0


def make_files(problem: AnyProblem, step: Step, target: str) -> dict[str, str]:
    """The files of a step: its TIR, and the device source and the facts where it has them."""
    from tirstep.lowering_checks import print_module
    from tirstep.lowering_checks.compile.passes import lower_through_passes

    lowering = lower_through_passes(step.module, target)
    files = {MODULE: print_module(step.module)}
    if lowering.source.strip():
        files[SOURCES[lowering.language]] = lowering.source.strip("\n") + "\n"
    return {**files, FACTS: _facts_text(lowering, problem)}


def make_message(run: Run, step: Step) -> str:
    """The message of a step's commit: its name, what it added to the trace, where it ends."""
    from tirstep.lowering_checks.steps import step_label

    about = first_sentence(run.recipe.doc) if step.index == 0 else ""
    shape = f"{run.recipe.kernel_name} {format_shape(run.problem.shape)} {get_dtype(run.problem)}"
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


def _facts_text(lowering: Lowering, problem: AnyProblem) -> str:
    from tirstep.lowering_checks import CheckError
    from tirstep.lowering_checks.facts import facts_of_lowering

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


def require_git() -> str:
    """Where git is; raises `UseError` where it is missing."""
    found = shutil.which("git")
    if found is None:
        raise UseError("there is no git here, which tirstep export needs; install it")
    return found


@dataclass(frozen=True)
class Repository:
    """A git repository in a folder."""

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> Repository:
        """A new one in an empty folder, marked as ours."""
        repository = cls(folder)
        repository.call("init", "--quiet", "--template=", "--initial-branch=main")
        repository.call("config", MARK, "1")
        repository.call("config", "core.autocrlf", "false")
        return repository

    def is_ours(self) -> bool:
        """Whether `create` made it."""
        config = self.folder / ".git" / "config"
        if not config.is_file():
            return False
        done = self._run("config", "--file", str(config.absolute()), "--get", MARK)
        return done.returncode == 0 and done.stdout.strip() == "1"

    def commit(self, files: Mapping[str, str], message: str, number: int) -> None:
        """Make these the files of the repository, and commit them, even if none changed."""
        for path in self.folder.iterdir():
            if path.name != ".git" and path.name not in files:
                path.unlink()
        for name, text in files.items():
            (self.folder / name).write_bytes(text.encode())
        self.call("add", "--all", "--force")
        date = f"{EPOCH + number * MINUTE} +0000"
        options = ("--quiet", "--allow-empty", "--no-verify", "--cleanup=verbatim")
        self.call("commit", *options, "--file=-", text=message, date=date)

    def head(self) -> str:
        """The hash of the last commit."""
        return self.call("rev-parse", "HEAD").strip()

    def call(self, *arguments: str, text: str = "", date: str | None = None) -> str:
        """What git prints; raises `UseError` with its reason where it fails."""
        done = self._run(*arguments, text=text, date=date)
        if done.returncode:
            reason = done.stderr.strip().splitlines() or ["no reason given"]
            raise UseError(f"git {arguments[0]} failed in {self.folder}: {reason[-1]}")
        return done.stdout

    def _run(
        self, *arguments: str, text: str = "", date: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [require_git(), *_WITHOUT_FILES, *arguments],
            cwd=self.folder,
            input=text,
            capture_output=True,
            encoding="utf-8",
            env=_environment(date),
        )


def _environment(date: str | None) -> dict[str, str]:
    """The machine's environment without git's variables and the user's configuration."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    dates = {} if date is None else {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    return {
        **kept,
        **dates,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_DEFAULT_HASH": "sha1",
        "GIT_AUTHOR_NAME": AUTHOR,
        "GIT_AUTHOR_EMAIL": EMAIL,
        "GIT_COMMITTER_NAME": AUTHOR,
        "GIT_COMMITTER_EMAIL": EMAIL,
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
