"""``tirstep list``: what there is."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tirstep.programs.naming import is_program, read_spelling

from .catalogue import (
    Entry,
    complete_either,
    explain_unknown_name,
    name_recipes,
    read_catalogue,
    use_new_name,
)
from .formatting import first_sentence, spell_config
from .request import Json
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.programs.found import Found

    from .json_output import Document
    from .screen import Screen


def command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            show_default=False,
            help="Only this kernel, ladder or recipe; or what is in a program of yours: FILE.py, "
            "module, FILE.json, DATABASE/ or -.",
            autocompletion=complete_either,
        ),
    ] = None,
    steps: Annotated[bool, typer.Option("--steps", help="With the steps of every recipe.")] = False,
    json: Json = False,
) -> int:
    """List kernels, ladders and recipes, with knobs and steps.

    Of a file: the kernels, recipes, schedules, modules, functions and passes in it, and what each
    can be given to. A file of Python is run for that, as an import runs it; TVMScript as .script()
    prints it, JSON and databases are only read. Without a file nothing is run but the plugins of
    installed packages.
    """
    from .json_output import print_document

    if name is not None and is_program(name):
        return list_programs(name, as_json=json)
    name = None if name is None else use_new_name(name)
    chosen = _choose(name)
    if json:
        public = [{key: entry[key] for key in entry if key != "told"} for entry in chosen]
        print_document("list", kernels=public)
    else:
        _show(chosen, name, with_steps=steps)
    return 0


def _show(chosen: Sequence[Entry], name: str | None, *, with_steps: bool) -> None:
    from .screen import Screen

    screen = Screen()
    for number, kernel in enumerate(chosen):
        if number:
            screen.line()
        _show_kernel(screen, kernel)
        recipes = kernel["recipes"]
        if name in [recipe["recipe"] for recipe in recipes]:
            _show_recipe(screen, recipes[0])
            continue
        several = len({recipe["ladder"] for recipe in recipes}) > 1
        for ladder, rungs in itertools.groupby(recipes, lambda recipe: recipe["ladder"]):
            if several or ladder != kernel["kernel"]:
                screen.line((f"  ladder {ladder}", "bold dim"))
            _show_ladder(screen, [*rungs], with_steps=with_steps or name is not None)
    if name is None and screen.is_terminal:
        screen.line()
        screen.line(("tirstep list NAME tells more of a kernel or a recipe.", "dim"))


def list_programs(text: str, *, as_json: bool) -> int:
    """List what is in a place of the user's; raises `ProgramError`."""
    spelling = read_spelling(text)
    from tirstep.programs.found import TAKEN_BY, find_programs
    from tirstep.programs.loading import load_place
    from tirstep.programs.picking import Picker

    from .json_output import print_document
    from .screen import Screen

    loaded = load_place(spelling.place)
    programs = find_programs(loaded)
    if spelling.names:
        programs = [Picker(loaded, spelling, None).get_listed(name) for name in spelling.names]
    if as_json:
        print_document("list", programs=[_program_keys(found) for found in programs])
        return 0
    if not programs:
        raise UseError(f"{text} has no kernel, recipe, schedule, IRModule, PrimFunc or pass")
    screen = Screen()
    for found in programs:
        about = f"  {first_sentence(found.doc)}" if found.doc else ""
        screen.line(f"{found.kind:<9}", (found.name, "bold"), f"  {found.location}", (about, "dim"))
        for name in found.functions if len(found.functions) > 1 or found.calls else ():
            called = "; ".join((found.calls or {}).get(name, ()))
            screen.line(f"{'':<11}{name}", (f"  called in {called}" if called else "", "dim"))
    screen.line()
    for kind in dict.fromkeys(found.kind for found in programs):
        screen.line((f"a {kind} goes to  ", "dim"), TAKEN_BY[kind], wrap=True)
    return 0


def _program_keys(found: Found) -> Document:
    from tirstep.programs.found import TAKEN_BY

    return {
        "kind": found.kind,
        "name": found.name,
        "source": found.location,
        "doc": found.doc,
        "functions": list(found.functions),
        "calls": found.calls,
        "taken_by": TAKEN_BY[found.kind],
    }


def _choose(name: str | None) -> list[Entry]:
    catalogue = read_catalogue()
    if name is None:
        return catalogue
    chosen = [kernel for kernel in catalogue if kernel["kernel"] == name]
    for kernel in catalogue:
        recipes = [
            recipe for recipe in kernel["recipes"] if name in (recipe["recipe"], recipe["ladder"])
        ]
        is_new = recipes and kernel["kernel"] != name
        chosen += [{**kernel, "recipes": recipes}] if is_new else []
    if not chosen:
        raise UseError(str(explain_unknown_name(name, name_recipes(catalogue))))
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
        if recipe["delta"]:
            about = Text.assemble((f"{spell_config(recipe['delta'])}  ", "bold"), about)
        elif recipe["config"]:
            about.append(f"\n{spell_config(recipe['config'])}", "dim")
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
        "adds": _describe_delta(recipe),
        "config": spell_config(recipe["config"]) or "none",
        "steps": " → ".join(recipe["steps"]),
        "tutorial": _describe_example(recipe["default_example"]),
        "golden": _describe_example(recipe["golden"]),
    }
    for label, text in rows.items():
        if not text:
            continue
        screen.line((f"  {label:<10}", "dim"), text)


def _describe_delta(recipe: Entry) -> str:
    return f"{spell_config(recipe['delta'])} to {recipe['base']}" if recipe["base"] else ""


def _describe_example(example: Entry) -> str:
    named = {**example["shape"], **example["options"], **example["config"]}
    return spell_config(named)
