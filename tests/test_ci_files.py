"""What other projects' CI takes: the action, the hook, the image, and the page that shows them."""

import re
import shlex
from pathlib import Path

import pytest
import typer
import yaml

from tirstep.cli.app import app
from tirstep.cli.settings import read_settings, tomllib

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/ci.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.M | re.S)
COMMANDS = typer.main.get_command(app).commands


def list_options(command: str) -> set[str]:
    return {name for it in COMMANDS[command].params for name in it.opts}


def require_options(line: str) -> None:
    """That a command line names a command of tirstep's, and options that it has."""
    _, name, *words = shlex.split(line.partition(" > ")[0])
    assert {it for it in words if it.startswith("-")} <= list_options(name), line


def test_the_hook_calls_what_there_is():
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    require_options(hook["entry"])
    (repo,) = next(yaml.safe_load(it) for kind, it in BLOCKS if "repos:" in it)["repos"]
    assert [it["id"] for it in repo["hooks"]] == [hook["id"]]


def test_the_action_takes_what_the_page_gives_it():
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    page = next(yaml.safe_load(it) for kind, it in BLOCKS if "jobs" in it)
    given = page["jobs"]["tirstep"]["steps"][-1]["with"]
    needed = {name for name, it in action["inputs"].items() if it.get("required")}
    assert needed <= given.keys() <= action["inputs"].keys()
    last = action["runs"]["steps"][-1]
    assert {*re.findall(r"\$([A-Z]+)", last["run"])} == {*last["env"]}
    require_options(re.sub(r"\$[A-Z]+", "it", last["run"]))
    require_options(f"tirstep check {given['options']}")


def test_the_image_is_of_a_python_that_is_supported():
    (version,) = re.findall(r"^FROM python:([\d.]+)", (ROOT / "Dockerfile").read_text(), re.M)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"Programming Language :: Python :: {version}" in project["classifiers"]


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
