"""``tirstep list``: what there is."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tirstep.programs.naming import is_program, read_spelling

from .formatting import first_sentence, spell, spell_config
from .names import complete_either, explain_unknown
from .request import Json
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.modules import Kernel
    from tirstep.transforms.recipes import Example, Recipe

    from .json_output import Document
    from .screen import Screen

    Chosen = tuple[Kernel, list[tuple[str, Recipe]]]
    """A kernel, and its recipes with their ladders."""


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
    steps: Annotated[bool, typer.Option("--steps", help="With the steps of each recipe.")] = False,
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
    from .screen import Screen

    chosen, screen = _choose(name), Screen()
    names: dict[str, list[str] | None] = {}
    with screen.working():
        for recipe in (recipe for _, rungs in chosen for _, recipe in rungs):
            screen.doing(recipe.name)
            is_asked = steps or recipe.name == name  # its steps are known by running it
            names[recipe.name] = _name_steps(recipe) if is_asked else None
    if json:
        print_document("list", kernels=[_kernel_keys(*each, names) for each in chosen])
    else:
        _show(screen, chosen, name, names)
    return 0


def _choose(name: str | None) -> list[Chosen]:
    """Each kernel that is meant with its recipes and their ladders, from the simplest on."""
    from tirstep.programs.plugins import list_kernels, list_ladders

    chosen: list[Chosen] = []
    for kernel in list_kernels().values():
        ladders = [ladder for ladder in list_ladders().values() if ladder.kernel == kernel.name]
        rungs = [(ladder.name, recipe) for ladder in ladders for recipe in ladder]
        if name not in (None, kernel.name):
            rungs = [each for each in rungs if name in (each[0], each[1].name)]
        if rungs or name in (None, kernel.name):
            chosen.append((kernel, rungs))
    if not chosen:
        raise UseError(str(explain_unknown(str(name), "name")))
    return sorted(chosen, key=lambda each: each[0].name != name)


def _name_steps(recipe: Recipe) -> list[str]:
    """The steps at its golden example; none, and a warning, where a plugin's does not run."""
    from tirstep.lowering_checks import run_golden
    from tirstep.programs.plugins import PluginWarning
    from tirstep.programs.program_error import describe_error, explain_error

    try:
        return [step.name for step in run_golden(recipe).steps]
    except Exception as error:  # whatever a package of somebody else's raises
        if not recipe.spelling:
            raise
        told = explain_error(error) or describe_error(error)
        text = f"the plugin's recipe {recipe.name} does not run at its golden example: {told}"
        warnings.warn(text, PluginWarning, stacklevel=2)
        return []


def _show(
    screen: Screen,
    chosen: Sequence[Chosen],
    name: str | None,
    steps: Mapping[str, Sequence[str] | None],
) -> None:
    for number, (kernel, rungs) in enumerate(chosen):
        if number:
            screen.line()
        _show_kernel(screen, kernel)
        if name in [recipe.name for _, recipe in rungs]:
            _show_recipe(screen, rungs[0][1], steps)
            continue
        several = len({ladder for ladder, _ in rungs}) > 1
        for ladder, group in itertools.groupby(rungs, lambda each: each[0]):
            if several or ladder != kernel.name:
                screen.line((f"  ladder {ladder}", "bold dim"))
            _show_ladder(screen, [recipe for _, recipe in group], steps)
    if name is None and screen.is_terminal:
        screen.line()
        screen.line(("tirstep list NAME tells more of a kernel or a recipe.", "dim"))


def _show_kernel(screen: Screen, kernel: Kernel) -> None:
    sizes, about = ", ".join(kernel.size_names), f"  {first_sentence(kernel.__doc__)}"
    screen.line((kernel.name, "bold"), f"({sizes})", (about, "dim"), wrap=True)
    screen.line(("  dtype    ", "dim"), ", ".join(kernel.dtypes))
    told = [_describe_option(kernel, name) for name in kernel.options if name != "dtype"]
    if told:
        screen.line(("  options  ", "dim"), ", ".join(told))


def _describe_option(kernel: Kernel, name: str) -> str:
    default, choices = kernel.options[name], kernel.meaning.choices.get(name)
    text = name if default is None else f"{name}={spell(default)}"
    if isinstance(choices, range):
        return f"{text} ({choices[0]} to {choices[-1]})"
    others = [spell(choice) for choice in choices or () if choice != default]
    return f"{text} (or {', '.join(others)})" if others else text


def _show_ladder(
    screen: Screen, recipes: Sequence[Recipe], steps: Mapping[str, Sequence[str] | None]
) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", style="dim", min_width=4)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    for number, recipe in enumerate(recipes, 1):
        about = Text(first_sentence(recipe.doc))
        if recipe.delta:
            about = Text.assemble((f"{spell_config(recipe.delta)}  ", "bold"), about)
        elif recipe.config:
            about.append(f"\n{spell_config(recipe.config)}", "dim")
        if names := steps[recipe.name]:
            about.append(f"\n{' → '.join(names)}", "dim")
        table.add_row(str(number), recipe.name, about)
    screen.prose_table(table)


def _show_recipe(screen: Screen, recipe: Recipe, steps: Mapping[str, Sequence[str] | None]) -> None:
    screen.line()
    screen.line((recipe.name, "bold cyan"))
    for line in recipe.doc.splitlines():
        screen.line(f"  {line}".rstrip())
    screen.line()
    rows = {
        "adds": f"{spell_config(recipe.delta)} to {recipe.base}" if recipe.base else "",
        "config": spell_config(recipe.config) or "none",
        "steps": " → ".join(steps[recipe.name] or ()),
        "tutorial": _describe_example(recipe.default_example),
        "golden": _describe_example(recipe.golden),
    }
    for label, text in rows.items():
        if text:
            screen.line((f"  {label:<10}", "dim"), text)


def _describe_example(example: Example) -> str:
    return spell_config({**example.shape, **example.options, **example.config})


def _kernel_keys(
    kernel: Kernel,
    rungs: Sequence[tuple[str, Recipe]],
    steps: Mapping[str, Sequence[str] | None],
) -> Document:
    from .json_output import read_keys

    about = "recipe=name doc kernel=kernel_name base delta why config default_example golden"
    return {
        **read_keys(kernel, "kernel=name doc=__doc__ shape=size_names dtypes options"),
        "recipes": [
            {**read_keys(recipe, about), "ladder": ladder, "steps": steps[recipe.name]}
            for ladder, recipe in rungs
        ],
    }


def list_programs(text: str, *, as_json: bool) -> int:
    """List what is in a place of the user's; raises `ProgramError`."""
    spelling = read_spelling(text)
    from tirstep.programs.found import TAKEN_BY, find_programs
    from tirstep.programs.loading import load_place
    from tirstep.programs.picking import Picker

    from .json_output import print_document, read_keys
    from .screen import Screen

    loaded = load_place(spelling.place)
    programs = find_programs(loaded)
    if spelling.names:
        programs = [Picker(loaded, spelling, None).get_listed(name) for name in spelling.names]
    if as_json:
        about = "kind name source=location doc functions calls"
        documents = [{**read_keys(it, about), "taken_by": TAKEN_BY[it.kind]} for it in programs]
        print_document("list", programs=documents)
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
