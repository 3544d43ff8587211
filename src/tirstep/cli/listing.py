"""``tirstep list``: what there is."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from .catalogue import Entry, list_ladders, read_catalogue, refuse_either
from .json_output import print_document
from .refusals import UseError
from .screen import Screen
from .texts import first_sentence, spell


def list_kernels(name: str | None, *, with_steps: bool, as_json: bool) -> int:
    """List everything, one kernel with its ladder, or one recipe."""
    chosen = _choose(name)
    if as_json:
        public = [{key: one for key, one in entry.items() if key != "told"} for entry in chosen]
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
            _show_ladder(screen, recipes, with_steps=with_steps or name is not None)
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
        raise UseError(str(refuse_either(name, ladders)))
    return chosen


def _show_kernel(screen: Screen, kernel: Entry) -> None:
    sizes, about = ", ".join(kernel["shape"]), f"  {first_sentence(kernel['doc'])}"
    screen.line((kernel["kernel"], "bold"), f"({sizes})", (about, "dim"), wrap=True)
    screen.line(("  dtype    ", "dim"), ", ".join(kernel["dtypes"]))
    if kernel["told"]:
        screen.line(("  options  ", "dim"), ", ".join(kernel["told"]))


def _show_ladder(screen: Screen, recipes: Sequence[Entry], *, with_steps: bool) -> None:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", style="dim", min_width=4)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    for number, recipe in enumerate(recipes, 1):
        about = Text(first_sentence(recipe["doc"]))
        if recipe["config"]:
            about.append(f"\n{_list_sizes(recipe)}", "dim")
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
        "config": _list_sizes(recipe) or "none",
        "steps": " → ".join(recipe["steps"]),
        "tutorial": _describe_example(recipe["default_example"]),
        "golden": _describe_example(recipe["golden"]),
    }
    for label, text in rows.items():
        screen.line((f"  {label:<10}", "dim"), text)


def _list_sizes(recipe: Entry) -> str:
    return ", ".join(f"{name}={spell(value)}" for name, value in recipe["config"].items())


def _describe_example(example: Entry) -> str:
    named = {**example["shape"], **example["options"], **example["config"]}
    return ", ".join(f"{name}={spell(value)}" for name, value in named.items())
