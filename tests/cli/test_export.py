"""``tirstep export``: a repository that git's own commands understand, the same each time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from golden_runs import run_golden

from tirstep.lowering_checks import print_module
from tirstep.transforms.recipes import RECIPES, Recipe

from .conftest import Command

SHARED = "window_sum_shared"


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_PAGER": "cat"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_commit_for_each_step_with_its_files(command: Command, tmp_path: Path):
    folder = tmp_path / "repo"
    result = command("export", SHARED, folder)
    assert (result.code, result.err) == (0, "")
    head = git(folder, "rev-parse", "HEAD").strip()
    assert result.out == f"{folder}  {SHARED}, 4 commits, head {head[:12]}\n"
    run = run_golden(RECIPES[SHARED])
    commits = git(folder, "log", "--reverse", "--format=%H").split()
    for step, commit in zip(run.steps, commits, strict=True):
        assert git(folder, "show", f"{commit}:module.py") == print_module(step.module)
        subject, *_ = git(folder, "log", "-1", "--format=%B", commit).splitlines()
        assert subject == f"{step.index:02d}_{step.name} ({SHARED})"
    assert "kernel.cu" not in git(folder, "ls-tree", "--name-only", commits[0])
    assert "__syncthreads" in git(folder, "show", f"{commits[-1]}:kernel.cu")
    assert "shared memory" in git(folder, "show", f"{commits[-1]}:facts.txt")
    assert git(folder, "status", "--porcelain") == ""
    message = git(folder, "log", "-1", "--format=%B", commits[2])
    assert "sch.cache_read(" in message
    assert f"Recipe-Line: {run.steps[2].location}" in message


def test_the_hashes_are_the_same_whatever_the_user_has_set(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    command("export", SHARED, tmp_path / "one")
    config = tmp_path / "config"
    config.write_text(
        "[user]\nname = Someone\n[commit]\ngpgsign = true\n[core]\nautocrlf = true\n"
        "[init]\ndefaultBranch = other\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2020-02-02T02:02:02")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert command("export", SHARED, tmp_path / "two").code == 0
    monkeypatch.undo()
    heads = {git(tmp_path / name, "log", "--format=%H %an %ad") for name in ("one", "two")}
    assert len(heads) == 1
    assert not (tmp_path / "elsewhere").exists()


HOOKS = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "reference-transaction")


def make_hostile_home(home: Path, marks: Path) -> None:
    """All that git reads of a user's: configuration, hooks, templates, attributes, ignored files.

    A hook leaves a mark, and makes the commit another one or none.
    """
    hooks, settings = home / "hooks", home / ".config" / "git"
    for folder in (hooks, home / "template" / "hooks", settings, home / "template" / "info"):
        folder.mkdir(parents=True)
    for folder in (hooks, home / "template" / "hooks"):
        for name in HOOKS:
            (folder / name).write_text(f"#!/bin/sh\ntouch {marks}/{name}\nexit 1\n")
            (folder / name).chmod(0o755)
    configuration = (
        f"[core]\nhooksPath = {hooks}\nautocrlf = true\neol = crlf\nexcludesFile = {home}/ignored\n"
        f"attributesFile = {home}/attributes\n[init]\ntemplateDir = {home}/template\n"
        "defaultBranch = other\ndefaultObjectFormat = sha256\n[user]\nname = Someone\n"
        "[commit]\ngpgsign = true\n[i18n]\ncommitEncoding = latin1\n"
    )
    (home / ".gitconfig").write_text(configuration)
    (settings / "config").write_text(configuration)
    for file in (settings / "attributes", home / "attributes"):
        file.write_text("* working-tree-encoding=UTF-16LE eol=crlf filter=none ident\n")
    for file in (settings / "ignore", home / "ignored"):
        file.write_text("*\n")
    (home / "template" / "info" / "attributes").write_text("* working-tree-encoding=UTF-16LE\n")


@pytest.mark.parametrize("config_home", [True, False])
def test_hooks_templates_and_attributes_of_the_user_do_not_count(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config_home: bool
):
    assert command("export", SHARED, tmp_path / "one").code == 0
    home, marks = tmp_path / "home", tmp_path / "marks"
    marks.mkdir()
    make_hostile_home(home, marks)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    if config_home:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
        monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
        monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.hooksPath")
        monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(home / "hooks"))
        monkeypatch.setenv("GIT_TEMPLATE_DIR", str(home / "template"))
        monkeypatch.setenv("GIT_ATTR_SOURCE", "HEAD")
    result = command("export", SHARED, tmp_path / "two")
    monkeypatch.undo()
    assert (result.code, result.err) == (0, "")
    assert [*marks.iterdir()] == []
    heads = {git(tmp_path / name, "log", "--format=%H %an %ad") for name in ("one", "two")}
    assert len(heads) == 1
    for name in ("module.py", "kernel.cu"):
        assert (tmp_path / "two" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()


def test_git_blames_the_step_that_wrote_a_line(command: Command, tmp_path: Path):
    folder = tmp_path / "repo"
    command("export", SHARED, folder)
    blamed = git(folder, "blame", "--line-porcelain", "module.py")
    summary = ""
    wrote = {}
    for line in blamed.splitlines():
        summary = line.removeprefix("summary ") if line.startswith("summary ") else summary
        if line.startswith("\t"):
            wrote[line.strip()] = summary
    (allocation,) = [line for line in wrote if line.startswith("A_shared = T.sblock_alloc_buffer")]
    assert wrote[allocation] == f"02_window_in_every_thread ({SHARED})"
    assert wrote["@I.ir_module"] == f"00_input ({SHARED})"


# Says whether the module of a commit computes the right sums.
CHECK = """
import sys
from tvm.script import from_source
from tirstep.lowering_checks import check_numbers
from tirstep.lowering_checks.devices import SimulatorDevice
from tirstep.lowering_checks import run_golden
from tirstep.transforms.recipes import RECIPES
problem = run_golden(RECIPES["window_sum_shared"]).problem
module = from_source(open("module.py").read())
sys.exit(bool(check_numbers(problem, module, SimulatorDevice(), where="module.py")))
"""


@pytest.mark.usefixtures("warm_commands")
def test_git_bisects_to_a_planted_wrong_step(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    recipe: Recipe = RECIPES[SHARED]
    right = recipe.body

    def spoiled(sch, **sizes):
        for name in right(sch, **sizes):
            if name == "fetched_cooperatively":
                sch.set_scope(sch.get_child_blocks(sch.get_sblock("root"))[0], 0, "local")
            yield name
        yield "named_anew"

    monkeypatch.setitem(vars(recipe), "body", spoiled)
    folder = tmp_path / "repo"
    assert command("export", SHARED, folder).code == 0
    monkeypatch.undo()
    script = tmp_path / "check.py"
    script.write_text(CHECK)
    git(folder, "bisect", "start", "HEAD", "HEAD~3")
    told = git(folder, "bisect", "run", sys.executable, str(script))
    assert "is the first bad commit" in told
    assert f"03_fetched_cooperatively ({SHARED})" in told


def test_only_an_export_is_replaced_and_only_when_asked(command: Command, tmp_path: Path):
    folder = tmp_path / "repo"
    assert command("export", "vector_add_bound", folder).code == 0
    (folder / "note.txt").write_text("mine")
    result = command("export", "window_sum_bound", folder)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"tirstep: {folder} is an export already; replace it with --force\n"
    assert (folder / "note.txt").read_text() == "mine"
    assert command("export", "window_sum_bound", folder, "--force").code == 0
    assert "window_sum" in git(folder, "log", "-1", "--format=%s")
    assert [path.name for path in tmp_path.iterdir()] == ["repo"]


@pytest.mark.parametrize("failing", [1, 2])
@pytest.mark.parametrize("error", [OSError(5, "broken disk"), KeyboardInterrupt()])
def test_an_export_is_not_lost_while_it_is_replaced(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failing: int,
    error: BaseException,
):
    folder = tmp_path / "repo"
    assert command("export", "vector_add_bound", folder).code == 0
    (folder / "note.txt").write_text("mine")
    calls, replace = 0, os.replace

    def fail(*paths: object) -> None:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise error
        replace(*paths)

    monkeypatch.setattr(os, "replace", fail)
    code = command("export", "window_sum_bound", folder, "--force").code
    assert code == (2 if isinstance(error, OSError) else 130)
    assert (folder / "note.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["repo"]


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_what_is_not_ours_stays(command: Command, tmp_path: Path, force: tuple[str, ...]):
    folder = tmp_path / "mine"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "work.txt").write_text("work")
    before = sorted(path.name for path in folder.rglob("*"))
    result = command("export", "vector_add_bound", folder, *force)
    assert (result.code, result.out) == (2, "")
    assert f"{folder} has files that no export made; they stay" in result.err
    assert sorted(path.name for path in folder.rglob("*")) == before
    file = tmp_path / "file"
    file.write_text("work")
    assert "is no folder" in command("export", "vector_add_bound", file, *force).err
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert "is no folder" in command("export", "vector_add_bound", tmp_path / "link", *force).err


def test_an_empty_folder_is_taken(command: Command, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    assert command("export", "vector_add_bound", tmp_path / "empty", "--as", "git").code == 0


def test_wrong_use(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert "did you mean" in command("export", "vector_add_bond", tmp_path / "a").err
    assert "there is no folder" in command("export", "vector_add_bound", tmp_path / "a" / "b").err
    result = command("export", "vector_add_bound", tmp_path / "a", "--target", "cudaa")
    assert "there is no target 'cudaa'" in result.err
    monkeypatch.setenv("PATH", str(tmp_path))
    result = command("export", "vector_add_bound", tmp_path / "a")
    assert (result.code, result.err) == (
        2,
        "tirstep: there is no git here, which tirstep export needs; install it\n",
    )
    assert list(tmp_path.iterdir()) == []
