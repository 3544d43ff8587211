"""The commands, in the order of the help: one module each, with its options, its help and its work.

The next command is a module here with a function `command`, and its name in `COMMANDS`. At its top
it imports nothing that needs TVM or rich, which take a second: `command` imports them after it has
said what its user got wrong.
"""

from __future__ import annotations

import contextlib
import functools
from importlib import import_module
from typing import Any

import typer

from tirstep.printing import document_alone

from .formats import asks_for_document
from .settings import read_settings
from .wrong_use import UseError

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
