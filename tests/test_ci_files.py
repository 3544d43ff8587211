"""What other projects' CI takes: the action, the hook, the image, and the page that shows them."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml

from tirstep.cli.app import app, read_settings, tomllib

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples/first_steps"
PAGE = (ROOT / "docs/ci.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.M | re.S)
COMMANDS = typer.main.get_command(app).commands


def list_options(command: str) -> set[str]:
    return {name for it in COMMANDS[command].params for name in it.opts}


def require_options(line: str) -> None:
    """That a command line names a command of tirstep's, and options that it has."""
    _, name, *words = shlex.split(line.partition(" > ")[0])
    assert {it for it in words if it.startswith("-")} <= list_options(name), line


def run_shell(text: str, folder: Path, **variables: str) -> tuple[int, str, list[str]]:
    """Run a script as CI does, with tirstep as it is installed here: the exit code, what it prints,
    and what pip is called with, which installs nothing.
    """
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    (log := tools / "log").write_text("")
    (tools / "pip").write_text(f'#!/bin/sh\nls "$4" "$5" >&2 || exit 1\necho "$@" >> {log}\n')
    (tools / "python").write_text(f'#!/bin/sh\necho "$@" >> {log}\n')
    for tool in (tools / "pip", tools / "python"):
        tool.chmod(0o755)
    path = f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text]
    environment = {**os.environ, "PATH": path, "GITHUB_ACTIONS": "true", **variables}
    done = subprocess.run(bash, cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout, log.read_text().splitlines()


def test_the_hook_judges_the_files_of_a_commit(tmp_path: Path):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (repo,) = next(yaml.safe_load(it) for kind, it in BLOCKS if "repos:" in it)["repos"]
    assert [it["id"] for it in repo["hooks"]] == [hook["id"]]
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    (tmp_path / "plain.py").write_text("print('no kernel')\n")
    assert run_shell(f"{hook['entry']} kernel.py plain.py", tmp_path)[0] == 0
    code, told, _ = run_shell(f"{hook['entry']} kernel.py race.py", tmp_path)
    assert (code, "race: load of S[255]" in told) == (1, True)


def test_the_action_installs_itself_and_annotates(tmp_path: Path):
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    page = next(yaml.safe_load(it) for kind, it in BLOCKS if "jobs" in it)
    given = page["jobs"]["tirstep"]["steps"][-1]["with"]
    needed = {name for name, it in action["inputs"].items() if it.get("required")}
    assert needed <= given.keys() <= action["inputs"].keys()
    inputs = {name: it.get("default", "") for name, it in action["inputs"].items()}
    inputs |= {**given, "programs": "kernel.py race.py"}
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    install, check = (step for step in action["runs"]["steps"] if "run" in step)
    variables = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda it: inputs[it[1]], text)
        for step in (install, check)
        for name, text in step["env"].items()
    }
    both = f"{install['run']}\n{check['run']}"
    code, told, installed = run_shell(both, tmp_path, GITHUB_ACTION_PATH=str(ROOT), **variables)
    assert (code, installed) == (1, [f"-m pip install --quiet {ROOT}"])
    (line,) = (line for line in told.splitlines() if line.startswith("::error"))
    assert line.startswith("::error file=race.py,line=17,")
    wanted = {"GITHUB_ACTION_PATH": str(ROOT), "WANTED": "tirstep==0.3.0"}
    _, _, installed = run_shell(install["run"], tmp_path, **wanted)
    assert installed == ["-m pip install --quiet tirstep==0.3.0"]


def test_the_image_is_built_by_commands_that_work(tmp_path: Path):
    text = (ROOT / "Dockerfile").read_text()
    steps = [line.split(" ", 1) for line in text.splitlines() if line and line[0] != "#"]
    assert [name for name, _ in steps] == ["FROM", "COPY", "RUN", "WORKDIR", "ENTRYPOINT", "CMD"]
    image = dict(steps)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = re.fullmatch(r"python:([\d.]+)-slim", image["FROM"])[1]
    assert f"Programming Language :: Python :: {version}" in project["classifiers"]
    source, target = image["COPY"].split()
    copied = tmp_path / target[1:]
    copied.mkdir()
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / source / name, copied)
    code, _, installed = run_shell(image["RUN"].replace(target, str(copied)), tmp_path)
    assert (code, copied.exists()) == (0, False)
    assert installed == [f"install --no-cache-dir -c {copied}/constraints.txt {copied}"]
    entry = json.loads(image["ENTRYPOINT"]) + json.loads(image["CMD"])
    assert "Usage: tirstep" in run_shell(shlex.join(entry), tmp_path)[1]


def test_the_page_s_settings_are_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (text,) = (it for kind, it in BLOCKS if kind == "toml")
    (tmp_path / "pyproject.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    settings = read_settings(COMMANDS)
    assert settings["check"]["strict"] is True
    assert settings["ladder"]["golden_dir"] == str(tmp_path / "kernels/golden")


def test_the_page_s_commands_are_tirsteps():
    lines = [it for kind, text in BLOCKS if kind == "sh" for it in text.splitlines()]
    ours = [it for it in lines if it.startswith("tirstep ")]
    assert len(ours) == 2
    for line in ours:
        require_options(line)
