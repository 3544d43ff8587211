"""``tirstep list``: what there is."""

from __future__ import annotations

from json import dumps, loads
from pathlib import Path
from typing import TYPE_CHECKING

from tirstep.programs.naming import is_program, read_spelling

from .formatting import complete, explain_unknown, first_sentence, spell, spell_config
from .request import argument, flag, with_options
from .wrong_use import UseError

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc

    from tirstep.modules import Kernel
    from tirstep.transforms.recipes import Recipe

    from .screen import Screen


@with_options()
def command(
    *,
    name: str | None = argument(
        "NAME",
        "Only this kernel, ladder or recipe; or what is in a program of yours: FILE.py, "
        "module, FILE.json, DATABASE/ or -.",
        default=None,
        show_default=False,
        autocompletion=complete("ladder", "recipe"),
    ),
    schema: bool = flag("--schema", "Print only the JSON schema of the documents of --json."),
    json: bool,
) -> int:
    """List kernels, ladders and recipes, with knobs and steps.

    For a file: the kernels, recipes, schedules, modules, functions and passes in it, and the
    commands that take each. A Python file is imported for that, and so runs; printed TVMScript,
    JSON and databases are only read.
    """
    if schema:
        if name is not None or json:
            raise UseError("--schema covers all commands; give no other argument with it")
        text = Path(__file__).with_name("schema.json").read_text(encoding="utf-8")
        print(dumps(loads(text), indent=1, ensure_ascii=False))
        return 0
    if name is not None and is_program(name):
        return list_programs(name, as_json=json)
    from rich.table import Table
    from rich.text import Text

    from tirstep.lowering_checks import run_golden
    from tirstep.modules import kernels
    from tirstep.transforms.recipes import LADDERS, RECIPES

    from .formats import print_document, read_keys
    from .screen import Screen

    if name is not None and (sentence := explain_unknown(name, "name")):
        raise UseError(sentence)
    screen = Screen()
    steps: list[str] | None = None  # known by running the recipe
    if name in RECIPES:
        with screen.working():
            screen.doing(str(name))
            steps = [step.name for step in run_golden(RECIPES[str(name)]).steps]
    chosen: list[tuple[Kernel, list[tuple[str, list[Recipe]]]]] = []
    for kernel in sorted(kernels().values(), key=lambda it: it.name != name):
        ladders = [ladder for ladder in LADDERS.values() if ladder.kernel == kernel.name]
        meant = (None, kernel.name)
        found = [
            (ladder.name, [it for it in ladder if name in (*meant, ladder.name, it.name)])
            for ladder in ladders
        ]
        if name in meant or any(recipes for _, recipes in found):
            chosen.append((kernel, [each for each in found if each[1]]))
    if json:
        of_recipe = "recipe=name doc kernel=kernel_name base delta why config"
        documents = [
            {
                **read_keys(kernel, "kernel=name doc=__doc__ shape=size_names dtypes options"),
                "recipes": [
                    {
                        **read_keys(it, f"{of_recipe} default_example golden"),
                        "ladder": ladder,
                        "steps": steps,
                    }
                    for ladder, recipes in found
                    for it in recipes
                ],
            }
            for kernel, found in chosen
        ]
        print_document("list", kernels=documents)
        return 0
    for place, (kernel, found) in enumerate(chosen):
        if place:
            screen.line()
        _show_kernel(screen, kernel)
        if steps is not None:
            recipe = RECIPES[str(name)]
            tutorial, golden = (
                spell_config({**it.shape, **it.options, **it.config})
                for it in (recipe.default_example, recipe.golden)
            )
            screen.line()
            screen.line((recipe.name, "bold cyan"))
            for line in recipe.doc.splitlines():
                screen.line(f"  {line}".rstrip())
            screen.line()
            rows = {
                "adds": f"{spell_config(recipe.delta)} to {recipe.base}" if recipe.base else "",
                "knobs": spell_config(recipe.config) or "none",
                "steps": " → ".join(steps),
                "tutorial": tutorial,
                "golden": golden,
            }
            for label, text in rows.items():
                if text:
                    screen.line((f"  {label:<10}", "dim"), text)
            continue
        for ladder, recipes in found:
            if len(found) > 1 or ladder != kernel.name:
                screen.line((f"  ladder {ladder}", "bold dim"))
            # A row for each recipe: what it adds, or what it is, and its knobs.
            table = Table.grid(padding=(0, 2, 0, 0))
            table.add_column(justify="right", style="dim", min_width=4)
            table.add_column(style="cyan", no_wrap=True)
            table.add_column()
            for number, it in enumerate(recipes, 1):
                about = Text(first_sentence(it.doc))
                if it.delta:
                    about = Text.assemble((f"{spell_config(it.delta)}  ", "bold"), about)
                elif it.config:
                    about.append(f"\n{spell_config(it.config)}", "dim")
                table.add_row(str(number), it.name, about)
            screen.table(table, wraps=True)
    if name is None and screen.is_terminal:
        screen.line()
        screen.line(("tirstep list NAME describes a kernel or a recipe.", "dim"))
    return 0


def _show_kernel(screen: Screen, kernel: Kernel) -> None:
    sizes, about = ", ".join(kernel.size_names), f"  {first_sentence(kernel.__doc__)}"
    screen.line((kernel.name, "bold"), f"({sizes})", (about, "dim"))
    screen.line(("  dtype    ", "dim"), ", ".join(kernel.dtypes))
    told = []
    for name, default in kernel.options.items():
        choices = kernel.meaning.choices.get(name)
        text = name if default is None else f"{name}={spell(default)}"
        others = [spell(it) for it in choices or () if it != default]
        if isinstance(choices, range):
            text += f" ({choices[0]} to {choices[-1]})"
        elif others:
            text += f" (or {', '.join(others)})"
        told += [text] if name != "dtype" else []
    if told:
        screen.line(("  options  ", "dim"), ", ".join(told))


def list_programs(text: str, *, as_json: bool) -> int:
    """List what is in a place of the user's; raises `ProgramError`."""
    spelling = read_spelling(text)
    from tirstep.programs.found import COMMANDS, TAKEN_BY, find_programs
    from tirstep.programs.loading import load_place
    from tirstep.programs.picking import Picker

    from .formats import print_document, read_keys
    from .screen import Screen

    loaded = load_place(spelling.place)
    programs = find_programs(loaded)
    if spelling.names:
        picker = Picker(loaded, spelling, None)
        programs = [picker.get_program(name.partition(".")[0]) for name in spelling.names]
    if as_json:
        about = "kind name source=location doc functions"
        documents = [
            {**read_keys(it, about), "taken_by": TAKEN_BY.get(it.kind, COMMANDS)} for it in programs
        ]
        print_document("list", programs=documents)
        return 0
    if not programs:
        raise UseError(f"{text} has no kernel, recipe, schedule, IRModule, PrimFunc or pass")
    screen = Screen()
    for found in programs:
        about = f"  {first_sentence(found.doc)}" if found.doc else ""
        functions = [found.value] if found.kind == "function" else []
        functions = [found.value[name] for name in found.functions] or functions
        sizes = [spell_sizes(each) for each in functions]
        if found.kind == "kernel":
            sizes = [f"({', '.join(found.value.size_names)})"]
        own, where = sizes[0] if len(sizes) == 1 else "", f"  {found.location}"
        screen.line(f"{found.kind:<9}", (found.name, "bold"), own, where, (about, "dim"))
        for name, each in zip(found.functions, sizes, strict=False) if len(sizes) > 1 else ():
            screen.line(f"{'':<11}{name}{each}")
    screen.line()
    for kind in dict.fromkeys(found.kind for found in programs):
        screen.line((f"a {kind} goes to  ", "dim"), TAKEN_BY.get(kind, COMMANDS))
    return 0


def spell_sizes(function: PrimFunc) -> str:
    """The sizes of a function in the order of ``--shape``: ``(n, k, m)``, or ``(64, 32)`` where it
    leaves none open.
    """
    from tirstep.lowering_checks.reference.functions import get_open_sizes, list_literal_sizes

    sizes = [*get_open_sizes(function)] or [*map(str, list_literal_sizes(function).values())]
    return f"({', '.join(sizes)})" if sizes else ""
