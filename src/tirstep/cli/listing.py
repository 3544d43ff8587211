"""``tirstep list``: what there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from .catalogue import Entry, complete_either, explain_unknown_name, list_ladders, read_catalogue
from .formatting import first_sentence, spell
from .request import Json
from .wrong_use import UseError

if TYPE_CHECKING:
    from .screen import Screen


def command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            show_default=False,
            help="Only this kernel or recipe.",
            autocompletion=complete_either,
        ),
    ] = None,
    steps: Annotated[bool, typer.Option("--steps", help="With the steps of every recipe.")] = False,
    json: Json = False,
) -> int:
    """List kernels, ladders and recipes, with their knobs and steps."""
    from .json_output import print_document
    from .screen import Screen

    chosen = _choose(name)
    if json:
        public = [{key: entry[key] for key in entry if key != "told"} for entry in chosen]
        print_document("list", kernels=public)
        return 0
    screen = Screen()
    for number, kernel in enumerate(chosen):
        if number:
            screen.line()
        _show_kernel(screen, kernel)
        recipes = kernel["recipes"]
        if name is not None and name != kernel["kernel"]:
            _show_recipe(screen, recipes[0])
        else:
            _show_ladder(screen, recipes, with_steps=steps or name is not None)
    if name is None and screen.is_terminal:
        screen.line()
        screen.line(("tirstep list NAME tells more of a kernel or a recipe.", "dim"))
    return 0


def _choose(name: str | None) -> list[Entry]:
    catalogue = read_catalogue()
    if name is None:
        return catalogue
    chosen = [kernel for kernel in catalogue if kernel["kernel"] == name]
    for kernel in catalogue:
        recipes = [recipe for recipe in kernel["recipes"] if recipe["recipe"] == name]
        chosen += [{**kernel, "recipes": recipes}] if recipes else []
    if not chosen:
        ladders = list_ladders(catalogue)
        raise UseError(str(explain_unknown_name(name, ladders)))
    return chosen


def _show_kernel(screen: Screen, kernel: Entry) -> None:
    sizes, about = ", ".join(kernel["shape"]), f"  {first_sentence(kernel['doc'])}"
    screen.line((kernel["kernel"], "bold"), f"({sizes})", (about, "dim"), wrap=True)
    screen.line(("  dtype    ", "dim"), ", ".join(kernel["dtypes"]))
    if kernel["told"]:
        screen.line(("  options  ", "dim"), ", ".join(kernel["told"]))


def _show_ladder(screen: Screen, recipes: Sequence[Entry], *, with_steps: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", style="dim", min_width=4)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    for number, recipe in enumerate(recipes, 1):
        about = Text(first_sentence(recipe["doc"]))
        if recipe["config"]:
            about.append(f"\n{_spell_config(recipe)}", "dim")
        if with_steps:
            about.append(f"\n{' → '.join(recipe['steps'])}", "dim")
        table.add_row(str(number), recipe["recipe"], about)
    screen.prose_table(table)


def _show_recipe(screen: Screen, recipe: Entry) -> None:
    screen.line()
    screen.line((recipe["recipe"], "bold cyan"))
    for line in recipe["doc"].splitlines():
        screen.line(f"  {line}".rstrip())
    screen.line()
    rows = {
        "config": _spell_config(recipe) or "none",
        "steps": " → ".join(recipe["steps"]),
        "tutorial": _describe_example(recipe["default_example"]),
        "golden": _describe_example(recipe["golden"]),
    }
    for label, text in rows.items():
        screen.line((f"  {label:<10}", "dim"), text)


def _spell_config(recipe: Entry) -> str:
    return ", ".join(f"{name}={spell(value)}" for name, value in recipe["config"].items())


def _describe_example(example: Entry) -> str:
    named = {**example["shape"], **example["options"], **example["config"]}
    return ", ".join(f"{name}={spell(value)}" for name, value in named.items())
