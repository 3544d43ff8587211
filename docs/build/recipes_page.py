"""docs/recipes.md, of all ladders with their recipes, from the recipes themselves."""

from __future__ import annotations

from collections.abc import Iterator

from pages import DOCS, GENERATED, spell_shape, update_page, write_table

from tirstep.cli.formatting import first_sentence, spell, spell_config
from tirstep.modules import Kernel, get_kernel
from tirstep.transforms.recipes import LADDERS, Ladder, Recipe

PAGE = "recipes.md"

INTRO = """\
# Recipes

A recipe takes a kernel in named steps from its plain form to one schedule, and a ladder puts the
recipes of a kernel in order. `tirstep list RECIPE` prints a recipe's knobs with their defaults and
its steps, `tirstep ladder LADDER` checks a ladder and times it on a GPU, and
`tirstep diff RECIPE` prints what each step changes. Commands take the shape of a recipe's own
example, which `--shape` replaces; `tirstep bench rungs` times a ladder at the shape in its title.
"""


def make_page() -> str:
    """The whole page."""
    names = [f"[`{name}`](#{name})" for name in LADDERS]
    parts = [GENERATED + INTRO, f"Ladders: {', '.join(names)}."]
    for name, ladder in LADDERS.items():
        parts += write_ladder(name, ladder)
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def write_ladder(name: str, ladder: Ladder) -> Iterator[str]:
    """A ladder's part of the page."""
    yield f"## `{name}`"
    yield f"{ladder.title[0].upper()}{ladder.title[1:]}, timed at {spell_shape(ladder.shape)}."
    yield describe_kernel(get_kernel(ladder[0].kernel))
    rows = [
        [str(number), f"`{recipe.name}`", describe_change(recipe), describe_shape(recipe)]
        for number, recipe in enumerate(ladder, 1)
    ]
    yield write_table(["rung", "recipe", "what it adds", "own example"], rows)
    if (DOCS / "ladders" / f"{name}.md").is_file():
        yield f"[Measured rung by rung, with each rung's diff](ladders/{name}.md)."


def describe_kernel(kernel: Kernel) -> str:
    """What the kernel computes, of which types and options."""
    options = [
        name if default is None else f"{name}={spell(default)}"
        for name, default in kernel.options.items()
        if name != "dtype"
    ]
    text = f"{first_sentence(kernel.__doc__)} Types: {', '.join(kernel.dtypes)}."
    return f"{text} Options: `{'`, `'.join(options)}`." if options else text


def describe_change(recipe: Recipe) -> str:
    """What a recipe adds to the one that it builds on, and why; what it does where it has none."""
    text = first_sentence(recipe.doc)
    return f"`{recipe.base}` with `{spell_config(recipe.delta)}`: {text}" if recipe.base else text


def describe_shape(recipe: Recipe) -> str:
    """The shape of its example, and the kernel's options there."""
    example = recipe.default_example
    options = (f"{name}={spell(value)}" for name, value in example.options.items())
    return ", ".join([spell_shape(example.shape), *options])


if __name__ == "__main__":
    update_page(PAGE, make_page)
