"""The commands, with their options and their help.

Nothing here imports TVM, which takes a second: a command's work is imported when it runs, after
what its user got wrong was told.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import (
    DeviceName,
    Dtype,
    GoldenDir,
    Json,
    KernelOptions,
    RecipeName,
    Seed,
    Shape,
    Sizes,
)
from .refusals import UseError
from .why import why
from .wishes import Request, make_pair, make_wish

app = typer.Typer(
    name="tirstep",
    help="A workbench for TensorIR schedules: kernels go through their recipes step by step, and "
    "every step can be printed, diffed, checked and timed.",
    epilog="Exit codes: 0 good, 1 a check failed, 2 wrong use.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command()(why)


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


@app.command("list")
def list_(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", show_default=False, help="Only this kernel or recipe."),
    ] = None,
    steps: Annotated[bool, typer.Option("--steps", help="With the steps of every recipe.")] = False,
    json: Json = False,
) -> int:
    """List kernels, ladders and recipes, with their sizes and steps."""
    from .listing import list_kernels

    return list_kernels(name, with_steps=steps, as_json=json)


@app.command()
def steps(
    recipe: RecipeName,
    step: Annotated[
        str | None, typer.Option(metavar="STEP", help="Only this step, by name or number.")
    ] = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Print the traces, as Python, and not the TIR.")
    ] = False,
    shape: Shape = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    sizes: Sizes = None,
    json: Json = False,
) -> int:
    """Print the TIR of each step of a recipe, as TVMScript."""
    wish = make_wish(shape, dtype, option, sizes)
    from .steps import print_steps

    return print_steps(recipe, wish, only=step, as_trace=trace, as_json=json)


@app.command()
def diff(
    recipe: RecipeName,
    before: Annotated[
        str | None,
        typer.Argument(metavar="FROM", show_default=False, help="A step, by name or number."),
    ] = None,
    after: Annotated[
        str | None,
        typer.Argument(metavar="TO", show_default=False, help="Another. [default: the last]"),
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="OTHER", help="Diff with a step of another recipe.")
    ] = None,
    step: Annotated[
        str | None,
        typer.Option(metavar="STEP", help="With --against: RECIPE's step. [default: the last]"),
    ] = None,
    against_step: Annotated[
        str | None,
        typer.Option(metavar="STEP", help="With --against: OTHER's step. [default: the last]"),
    ] = None,
    context: Annotated[
        int, typer.Option(metavar="N", min=0, help="Lines around a change.", show_default=True)
    ] = 3,
    shape: Shape = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    sizes: Sizes = None,
    json: Json = False,
) -> int:
    """Print the diff of each step, or of any two steps.

    Both steps may be of one recipe, or of two. What is printed in a pipe is what patch reads.
    """
    pair = make_pair(recipe, against, (before, after), (step, against_step))
    wish = make_wish(shape, dtype, option, sizes)
    from .diff import print_diffs

    return print_diffs(pair, wish, context=context, as_json=json)


@app.command()
def check(
    recipes: Annotated[
        list[str] | None,
        typer.Argument(metavar="RECIPE", show_default=False, help="Recipes: see tirstep list."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every recipe, and golden files that no recipe makes.")
    ] = False,
    golden_dir: GoldenDir = None,
    device: DeviceName = "auto",
    seed: Seed = 0,
    shape: Shape = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    sizes: Sizes = None,
    json: Json = False,
) -> int:
    """Hold each step against its golden, and its numbers against NumPy."""
    wish = make_wish(shape, dtype, option, sizes)
    names = recipes or []
    if everything == bool(names):
        raise UseError("name the recipes to check, or give --all" + (", not both" * everything))
    if everything and not wish.is_empty:
        raise UseError("--all checks every recipe at its example; name recipes for other sizes")
    from .check import check_recipes

    return check_recipes(names, Request(wish, golden_dir, device, seed), as_json=json)


@app.command()
def ladder(
    kernel: Annotated[str, typer.Argument(metavar="KERNEL", help="A kernel: see tirstep list.")],
    diff: Annotated[
        bool, typer.Option("--diff", help="First print each step's diff and verdicts, as it goes.")
    ] = False,
    steps: Annotated[bool, typer.Option("--steps", help="A row for each step, too.")] = False,
    golden_dir: GoldenDir = None,
    device: DeviceName = "auto",
    seed: Seed = 0,
    shape: Shape = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    sizes: Sizes = None,
    json: Json = False,
) -> int:
    """Judge all recipes of a kernel, slow to fast, in a table.

    Goldens and numbers of every step, the lines that each recipe changes, and on a GPU its time.

    Without --shape, a GPU takes each recipe's shape from the tutorial that it comes from, and the
    CPU that of its goldens. A size given with --set goes to every recipe that has it.
    """
    request = Request(make_wish(shape, dtype, option, sizes), golden_dir, device, seed)
    from .ladder import Look, show_ladder

    return show_ladder(kernel, request, Look(diffs=diff, steps=steps, json=json))


@app.command()
def golden(
    write: Annotated[
        bool, typer.Option("--write", help="Write them anew, and delete all others; not under CI.")
    ] = False,
    golden_dir: GoldenDir = None,
    json: Json = False,
) -> int:
    """Say which goldens would change, or write them anew."""
    from .golden import compare_goldens, write_goldens

    return (write_goldens if write else compare_goldens)(golden_dir, as_json=json)


@app.command()
def readme(
    readme: Annotated[Path, typer.Option(metavar="FILE", help="The file to fill.")] = Path(
        "README.md"
    ),
    ladder_json: Annotated[
        Path,
        typer.Option(metavar="FILE", help="What tirstep ladder matmul --json wrote on a GPU."),
    ] = Path("benchmarks/results/ladder-matmul.json"),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 1 and a diff if it is stale.")
    ] = False,
) -> int:
    """Fill in the generated parts of README.md.

    The first program's diff, the transforms, the recipes, and the ladder of matmul on a GPU.
    """
    from .readme import fill_readme

    return fill_readme(readme, ladder_json, only_check=check)
