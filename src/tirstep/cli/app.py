"""The commands, in the order of the help: one module each, with its options, its help and its work.

The next command is a module here with a function `command`, and its name in `COMMANDS`. At its top
it imports nothing that needs TVM or rich, which take a second: `command` imports them after it has
said what its user got wrong.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from tirstep.printing import document_alone

from .formats import asks_for_document
from .formatting import suggest
from .wrong_use import UseError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

COMMANDS = (
    "new",
    "modernize",
    "list",
    "steps",
    "diff",
    "lower",
    "facts",
    "check",
    "why",
    "pass",
    "ladder",
    "bench",
    "search",
    "tune",
    "choose",
    "report",
    "export",
    "trace",
)

app = typer.Typer(
    name="tirstep",
    help="A workbench for TensorIR schedules: a recipe schedules a kernel step by step, and every "
    "step can be printed, diffed, checked and timed. A RECIPE may also be a program of yours: "
    "a Python file (which is imported, and so runs), TVMScript as printed by .script(), TVM's "
    "JSON, a MetaSchedule database, or a trace of an app.",
    epilog="Exit codes: 0 good, 1 a check failed, 2 wrong use, 3 nothing could be judged.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
RENAMED = {
    "compare": "diff A --against B --numbers",
    "golden": "check --write-goldens",
    "source": "lower --source",
}
"""New names of commands of earlier versions."""
MODULES = {"list": "listing", "pass": "pass_"}
"""A module `list` would hide the type in its package, and `pass` is no name."""
for _name in COMMANDS:
    _module = import_module(f".{MODULES.get(_name, _name)}", __package__)
    app.command(_name)(_module.command)


def call(argv: list[str]) -> int:
    """Parse the arguments and run a command; its exit code. Errors are the caller's."""
    if argv and argv[0] in RENAMED:
        raise UseError(f"tirstep {argv[0]} is now tirstep {RENAMED[argv[0]]}")
    command = _get_command()
    defaults = read_settings(command.commands)
    is_document = asks_for_document(argv, defaults.get(argv[0], {}) if argv else {})
    try:
        with document_alone() if is_document else contextlib.nullcontext():
            code = command.main(
                args=argv or ["--help"],
                prog_name="tirstep",
                standalone_mode=False,
                default_map=defaults,
            )
    except typer.Abort:  # Ctrl-C, in some versions of typer
        raise KeyboardInterrupt from None
    return code if isinstance(code, int) else 0


@functools.cache
def _get_command() -> Any:
    """The command line as typer builds it out of all signatures: a sixteenth of a second."""
    return typer.main.get_command(app)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import PackageNotFoundError, version

        import tirstep

        try:
            tvm = f"apache-tvm {version('apache-tvm')}"
        except PackageNotFoundError:
            tvm = "no apache-tvm installed by pip"
        print(f"tirstep {tirstep.__version__} ({tvm})")
        raise typer.Exit


@app.callback()
def _callback(
    version: bool = typer.Option(
        False,
        "--version",
        callback=_print_version,
        is_eager=True,
        help="Print the version and exit.",
    ),
) -> None:
    """Options before the command."""


def read_settings(commands: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The options of each command, as the nearest pyproject.toml above the current folder has them
    where none are given::

        [tool.tirstep]                 # of every command that has them
        golden-dir = "kernels/golden"  # a path is the project's
        device = "simulator"

        [tool.tirstep.check]
        strict = true
        may-be-not-judged = ["legacy_*"]

    Raises `UseError` for a file that is not TOML, and for unknown options.
    """
    here = Path.cwd()
    files = (folder / "pyproject.toml" for folder in (here, *here.parents))
    file = next((it for it in files if it.is_file()), None)
    if file is None:
        return {}
    try:
        given = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("tirstep", {})
    except (OSError, ValueError) as error:
        raise UseError(f"{file}: cannot be read: {error}") from None
    options = {
        name: {str(it.opts[0])[2:]: it.name for it in command.params if it.opts[0][:2] == "--"}
        for name, command in commands.items()
    }
    known = {key for own in options.values() for key in own}
    everywhere = {key: value for key, value in given.items() if key not in commands}
    _require_known(everywhere, known, f"{file}: [tool.tirstep]")
    found: dict[str, dict[str, Any]] = {}
    for name, own in options.items():
        table = given.get(name, {})
        if not isinstance(table, dict):
            raise UseError(f"{file}: [tool.tirstep]: {name} must be a table of options")
        _require_known(table, own, f"{file}: [tool.tirstep.{name}]")
        found[name] = {own[key]: it for key, it in {**everywhere, **table}.items() if key in own}
        if folder := found[name].get("golden_dir"):
            found[name]["golden_dir"] = str(file.parent / folder)
    return found


def _require_known(table: dict[str, Any], known: Collection[str], where: str) -> None:
    for key in table:
        if key not in known:
            told = suggest(key, known, "tirstep COMMAND --help lists them")
            raise UseError(f"{where}: no command takes '{key}'; {told}")
