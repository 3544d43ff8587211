"""What there is, known without TVM, which takes a second to import: names, texts, sizes, steps.

It stands in catalogue.json beside this file, with a digest of the sources that it was made from
(``make catalogue``). Where these have changed since, it is made again from the kernels and recipes
themselves: it may be slow and is never wrong.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tirstep.files import write_file
from tirstep.programs.naming import is_program, read_spelling
from tirstep.programs.plugins import PluginWarning, find_plugins
from tirstep.programs.program_error import describe_error, explain_error

from .formatting import count, spell, suggest
from .streams import print_error
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.modules import Kernel
    from tirstep.transforms.recipes import Example, Ladder, Recipe

FILE = Path(__file__).with_name("catalogue.json")
SOURCES = {"tirstep.modules": "*.py", "tirstep.transforms": "recipes/**/*.py"}

Ladders = Mapping[str, Sequence[str]]
"""The names of recipes by ladder; of kernels without recipes, none."""
Entry = dict[str, Any]
"""A kernel as in the document ``list``, and ``told``: its options in words."""


def read_catalogue() -> list[Entry]:
    """Every kernel with its recipes, from the simplest on."""
    stored = _read_stored()
    if find_plugins():
        return make_catalogue(with_plugins=True, described=stored or ())
    return make_catalogue() if stored is None else stored


def require_recipe(name: str) -> None:
    """Refuse an unknown recipe at once; where TVM must be imported to know, that is left to it."""
    _require(name, explain_unknown_recipe)


def require_ladder(name: str) -> None:
    """The same of a ladder."""
    _require(name, explain_unknown_ladder)


def require_either(name: str) -> None:
    """The same of what is a kernel, a ladder or a recipe."""
    _require(name, explain_unknown_name)


def _require(name: str, refuse: Callable[[str, Ladders], str | None]) -> None:
    if is_program(name):
        read_spelling(name)
        return
    stored = None if "tirstep.transforms.recipes" in sys.modules else _read_stored()
    sentence = None if stored is None else refuse(name, name_recipes(stored))
    if sentence is not None and not find_plugins() and name not in _read_former_names():
        raise UseError(sentence)


def explain_unknown_recipe(name: str, ladders: Ladders) -> str | None:
    """What to say of a name that is no recipe; None of a recipe."""
    recipes = [recipe for ladder in ladders.values() for recipe in ladder]
    if name in recipes:
        return None
    if ladders.get(name):
        return (
            f"'{name}' is a ladder of {count(len(ladders[name]), 'recipe')}: name "
            f"one of them (tirstep list {name}), or see all with tirstep ladder {name}"
        )
    return f"there is no recipe '{name}'; {_suggest(name, recipes)}"


def explain_unknown_ladder(name: str, ladders: Ladders) -> str | None:
    """What to say of a name that is no ladder with recipes; None of one."""
    if ladders.get(name):
        return None
    for ladder, recipes in ladders.items():
        if name in recipes:
            return (
                f"'{name}' is a recipe of the ladder {ladder}: give tirstep ladder {ladder}, or "
                f"tirstep check {name}"
            )
    known = [ladder for ladder, recipes in ladders.items() if recipes]
    if name in ladders:
        return f"the kernel '{name}' has no recipes; {suggest(name, known)}"
    return f"there is no ladder '{name}'; {suggest(name, known)}"


def explain_unknown_name(name: str, ladders: Ladders) -> str | None:
    """What to say of a name that is no kernel, ladder or recipe; None of one that is."""
    names = [*ladders, *(recipe for ladder in ladders.values() for recipe in ladder)]
    if name in names:
        return None
    return f"there is no kernel, ladder or recipe '{name}'; {_suggest(name, names)}"


def _suggest(name: str, known: Sequence[str]) -> str:
    """What to do about an unknown name; it may be that of a folder or file, spelt like a recipe."""
    if not name:
        return "give a name, or a program of yours: FILE.py, say"
    if Path(name).exists():
        return f"for the {'folder' if Path(name).is_dir() else 'file'} here, write ./{name}"
    return suggest(name, known)


def make_catalogue(*, with_plugins: bool = False, described: Sequence[Entry] = ()) -> list[Entry]:
    """The same as `read_catalogue`, from the kernels and recipes themselves.

    Recipes that are among those of `described` kernels are not run again.
    """
    from tirstep.modules import kernels
    from tirstep.programs.plugins import list_kernels, list_ladders
    from tirstep.transforms.recipes import LADDERS

    known = list_ladders() if with_plugins else LADDERS
    recipes = {
        (recipe["ladder"], recipe["recipe"]): recipe
        for kernel in described
        for recipe in kernel["recipes"]
    }
    return [
        _describe_kernel(kernel, [it for it in known.values() if it.kernel == name], recipes)
        for name, kernel in (list_kernels() if with_plugins else kernels()).items()
    ]


def write_catalogue(file: Path = FILE) -> None:
    """Write catalogue.json, for `make catalogue`."""
    from tirstep.transforms.recipes import FORMER_NAMES

    write_file(file, _spell(compute_digest(), make_catalogue(), FORMER_NAMES))


def _spell(digest: str, catalogue: Sequence[Entry], former: Mapping[str, str]) -> str:
    """JSON with a line for each kernel and each recipe, so that git shows what changed."""
    kernels = []
    for kernel in catalogue:
        head = json.dumps({key: value for key, value in kernel.items() if key != "recipes"})
        recipes = ",\n".join(json.dumps(recipe) for recipe in kernel["recipes"])
        kernels.append(f'{head[:-1]}, "recipes": [\n{recipes}\n]}}')
    head = f'{{"digest": "{digest}", "former": {json.dumps(dict(former))}, "kernels": [\n'
    return head + ",\n".join(kernels) + "\n]}\n"


def compute_digest() -> str:
    """Of the sources of kernels and recipes, which are found without importing them."""
    digest = hashlib.sha256()
    for file in _find_sources():
        # As text, so that a checkout with other line ends has the same digest.
        digest.update(f"{file.name}\n{file.read_text(encoding='utf-8')}".encode())
    return digest.hexdigest()


def _find_sources() -> Iterator[Path]:
    for package, pattern in SOURCES.items():
        spec = importlib.util.find_spec(package)
        for place in (spec and spec.submodule_search_locations) or ():
            yield from sorted(Path(place).glob(pattern))


def complete_recipe(incomplete: str) -> list[str]:
    """The recipes whose names begin so, for a shell to offer."""
    ladders = name_recipes(_read_stored(fresh=False) or ())
    names = (recipe for ladder in ladders.values() for recipe in ladder)
    return [name for name in names if name.startswith(incomplete)]


def complete_ladder(incomplete: str) -> list[str]:
    """The same of ladders."""
    ladders = name_recipes(_read_stored(fresh=False) or ())
    return [name for name, ladder in ladders.items() if ladder and name.startswith(incomplete)]


def complete_either(incomplete: str) -> list[str]:
    """The same of kernels and recipes."""
    return [*complete_ladder(incomplete), *complete_recipe(incomplete)]


def _read_stored(*, fresh: bool = True) -> list[Entry] | None:
    """What the file says; None where it is not there or, with `fresh`, of other sources.

    A shell that completes a name cannot wait for TVM, so it takes the file as it is.
    """
    try:
        document = json.loads(FILE.read_text(encoding="utf-8"))
        if fresh and document["digest"] != compute_digest():
            return None
        return list(document["kernels"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read_former_names() -> dict[str, str]:
    """New names of recipes by old ones."""
    try:
        return dict(json.loads(FILE.read_text(encoding="utf-8"))["former"])
    except (OSError, ValueError, KeyError, TypeError):
        from tirstep.transforms.recipes import FORMER_NAMES

        return dict(FORMER_NAMES)


def use_new_name(name: str) -> str:
    """The new name of a recipe that was renamed, which is said; any other name as it is."""
    new = _read_former_names().get(name, name)
    if new != name:
        print_error(f"{name} is now {new}; its old name goes with the next version")
    return new


def name_recipes(catalogue: Sequence[Entry]) -> dict[str, list[str]]:
    """The names of each ladder's recipes, and those of kernels without any."""
    named: dict[str, list[str]] = {}
    for kernel in catalogue:
        for recipe in kernel["recipes"]:
            named.setdefault(recipe["ladder"], []).append(recipe["recipe"])
        named.setdefault(kernel["kernel"], [])
    return named


def _describe_kernel(
    kernel: Kernel, ladders: Sequence[Ladder], described: Mapping[tuple[str, str], Entry]
) -> Entry:
    told = [_describe_option(kernel, name) for name in kernel.options if name != "dtype"]
    return {
        "kernel": kernel.name,
        "doc": kernel.__doc__,
        "shape": list(kernel.size_names),
        "dtypes": list(kernel.dtypes),
        "options": dict(kernel.options),
        "told": told,
        "recipes": [
            described.get((ladder.name, recipe.name)) or _describe_recipe(recipe, ladder)
            for ladder in ladders
            for recipe in ladder
        ],
    }


def _describe_option(kernel: Kernel, name: str) -> str:
    default, choices = kernel.options[name], kernel.meaning.choices.get(name)
    text = name if default is None else f"{name}={spell(default)}"
    if isinstance(choices, range):
        return f"{text} ({choices[0]} to {choices[-1]})"
    others = [spell(choice) for choice in choices or () if choice != default]
    return f"{text} (or {', '.join(others)})" if others else text


def _describe_recipe(recipe: Recipe, ladder: Ladder) -> Entry:
    return {
        "recipe": recipe.name,
        "doc": recipe.doc,
        "kernel": recipe.kernel_name,
        "ladder": ladder.name,
        "base": recipe.base,
        "delta": dict(recipe.delta),
        "why": recipe.why,
        "config": dict(recipe.config),
        "default_example": _describe_example(recipe.default_example),
        "golden": _describe_example(recipe.golden),
        "steps": _name_steps(recipe),
    }


def _name_steps(recipe: Recipe) -> list[str]:
    """The steps at its golden example; none, and a warning, where a plugin's does not run."""
    from tirstep.lowering_checks import run_golden

    try:
        return [step.name for step in run_golden(recipe).steps]
    except Exception as error:  # whatever a package of somebody else's raises
        if not recipe.spelling:
            raise
        told = explain_error(error) or describe_error(error)
        text = f"the plugin's recipe {recipe.name} does not run at its golden example: {told}"
        warnings.warn(text, PluginWarning, stacklevel=2)
        return []


def _describe_example(example: Example) -> Entry:
    return {
        "shape": dict(example.shape),
        "options": dict(example.options),
        "config": dict(example.config),
    }


if __name__ == "__main__":
    write_catalogue()
