"""``tirstep list``: what there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from tirstep.lowering_checks import run_golden
from tirstep.modules import Kernel, find_kernel, kernels
from tirstep.transforms.recipes import LADDERS, RECIPES, Example, Recipe

from .documents import Document, print_document
from .refusals import UseError, nearest
from .screen import Screen
from .texts import first_sentence, spell


def list_kernels(name: str | None, *, with_steps: bool, as_json: bool) -> int:
    """List everything, one kernel with its ladder, or one recipe."""
    ladders = _choose(name)
    if as_json:
        print_document("list", kernels=[_kernel_keys(*ladder) for ladder in ladders.items()])
        return 0
    screen = Screen()
    for number, (kernel, recipes) in enumerate(ladders.items()):
        if number:
            screen.line()
        _show_kernel(screen, find_kernel(kernel))
        if name in RECIPES:
            _show_recipe(screen, recipes[0])
        else:
            _show_ladder(screen, recipes, with_steps=with_steps or name is not None)
    if name is None and screen.is_terminal:
        screen.line()
        screen.line(("tirstep list NAME tells more of a kernel or a recipe.", "dim"))
    return 0


def _choose(name: str | None) -> Mapping[str, Sequence[Recipe]]:
    if name is None:
        return {kernel: LADDERS.get(kernel, ()) for kernel in kernels()}
    if name in kernels():
        return {name: LADDERS.get(name, ())}
    if name in RECIPES:
        return {RECIPES[name].kernel: (RECIPES[name],)}
    hint = nearest(name, [*kernels(), *RECIPES])
    raise UseError(f"there is no kernel or recipe '{name}'; {hint}")


def _show_kernel(screen: Screen, kernel: Kernel) -> None:
    sizes = ", ".join(kernel.size_names)
    about = f"  {first_sentence(kernel.__doc__)}"
    screen.line((kernel.name, "bold"), f"({sizes})", (about, "dim"), wrap=True)
    screen.line(("  dtype    ", "dim"), ", ".join(kernel.dtypes))
    if options := [_describe_option(kernel, name) for name in kernel.options if name != "dtype"]:
        screen.line(("  options  ", "dim"), ", ".join(options))


def _describe_option(kernel: Kernel, name: str) -> str:
    default, choices = kernel.options[name], kernel.meaning.choices.get(name)
    text = name if default is None else f"{name}={spell(default)}"
    if isinstance(choices, range):
        return f"{text} ({choices[0]} to {choices[-1]})"
    others = [spell(choice) for choice in choices or () if choice != default]
    return f"{text} (or {', '.join(others)})" if others else text


def _show_ladder(screen: Screen, recipes: Sequence[Recipe], *, with_steps: bool) -> None:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", style="dim", min_width=4)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    with screen.working():
        for number, recipe in enumerate(recipes, 1):
            about = Text(first_sentence(recipe.doc))
            if recipe.sizes:
                about.append(f"\n{_list_sizes(recipe)}", "dim")
            if with_steps:
                screen.doing(recipe.name)
                about.append(f"\n{' → '.join(_step_names(recipe))}", "dim")
            table.add_row(str(number), recipe.name, about)
    screen.prose_table(table)


def _show_recipe(screen: Screen, recipe: Recipe) -> None:
    screen.line()
    screen.line((recipe.name, "bold cyan"))
    for line in recipe.doc.splitlines():
        screen.line(f"  {line}".rstrip())
    screen.line()
    rows = {
        "sizes": _list_sizes(recipe) or "none",
        "steps": " → ".join(_step_names(recipe)),
        "tutorial": _describe_example(recipe.seed),
        "golden": _describe_example(recipe.golden),
    }
    for label, text in rows.items():
        screen.line((f"  {label:<10}", "dim"), text)


def _list_sizes(recipe: Recipe) -> str:
    return ", ".join(f"{name}={spell(value)}" for name, value in recipe.sizes.items())


def _describe_example(example: Example) -> str:
    named = {**example.shape, **example.options, **example.sizes}
    return ", ".join(f"{name}={spell(value)}" for name, value in named.items())


def _step_names(recipe: Recipe) -> list[str]:
    return [step.name for step in run_golden(recipe).steps]


def _kernel_keys(name: str, recipes: Sequence[Recipe]) -> Document:
    kernel = find_kernel(name)
    return {
        "kernel": name,
        "doc": kernel.__doc__,
        "sizes": list(kernel.size_names),
        "dtypes": list(kernel.dtypes),
        "options": dict(kernel.options),
        "recipes": [_recipe_keys(recipe) for recipe in recipes],
    }


def _recipe_keys(recipe: Recipe) -> Document:
    return {
        "recipe": recipe.name,
        "doc": recipe.doc,
        "kernel": recipe.kernel,
        "sizes": dict(recipe.sizes),
        "seed": _example_keys(recipe.seed),
        "golden": _example_keys(recipe.golden),
        "steps": _step_names(recipe),
    }


def _example_keys(example: Example) -> Document:
    return {
        "shape": dict(example.shape),
        "options": dict(example.options),
        "sizes": dict(example.sizes),
    }
