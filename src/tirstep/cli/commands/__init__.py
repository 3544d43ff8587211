"""The commands, in the order of the help: one module each, with its options and its help.

The next command is a module here with a function `command`, and its name in `COMMANDS`. Nothing
here imports TVM, which takes a second: a command's work is in a module of `tirstep.cli` that is
imported when it runs, after what its user got wrong was told.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

COMMANDS = (
    "list",
    "steps",
    "diff",
    "lower",
    "source",
    "facts",
    "check",
    "why",
    "ladder",
    "bench",
    "search",
    "report",
    "export",
    "golden",
    "readme",
)

app = typer.Typer(
    name="tirstep",
    help="A workbench for TensorIR schedules: kernels go through their recipes step by step, and "
    "every step can be printed, diffed, checked and timed.",
    epilog="Exit codes: 0 good, 1 a check failed, 2 wrong use.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for _name in COMMANDS:
    app.command(_name)(import_module(f".{_name}", __name__).command)


def call(argv: list[str]) -> int:
    """Parse the arguments and run a command; its exit code. Errors are the caller's."""
    command = typer.main.get_command(app)
    try:
        code = command.main(args=argv or ["--help"], prog_name="tirstep", standalone_mode=False)
    except typer.Abort:  # Ctrl-C, in some versions of typer
        raise KeyboardInterrupt from None
    return code if isinstance(code, int) else 0


def _print_version(wanted: bool) -> None:
    if wanted:
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
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Options before the command."""
