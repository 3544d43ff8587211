"""From the names on the command line to kernels, recipes, steps and runs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from tirstep.lowering_checks import GoldenStore, Run, run_recipe
from tirstep.lowering_checks.golden import INPUTS, VERSION_FILE
from tirstep.lowering_checks.steps import step_label
from tirstep.modules import get_kernel, kernels
from tirstep.transforms.recipes import LADDERS, RECIPES, Ladder, Recipe, Step

from .catalogue import Ladders, refuse_ladder, refuse_recipe
from .refusals import UseError, nearest
from .texts import spell
from .wishes import Request, Wish, choose_sizes, parse_shape

GOLDEN_DIR = Path("tests/golden")

ExampleName: TypeAlias = Literal["golden", "seed"]


def pick_recipe(name: str) -> Recipe:
    """The recipe of a name; an unknown one is refused with the nearest names."""
    if name not in RECIPES:
        raise UseError(refuse_recipe(name, _name_recipes()) or f"'{name}' is no recipe")
    return RECIPES[name]


def pick_recipes(names: Sequence[str]) -> list[Recipe]:
    """The recipes of some names, each once; the name of a kernel stands for its ladder."""
    picked: dict[str, Recipe] = {}
    for name in names:
        if name not in RECIPES and name not in LADDERS:
            hint = nearest(name, [*LADDERS, *RECIPES])
            raise UseError(f"there is no recipe or ladder '{name}'; {hint}")
        for recipe in LADDERS[name] if name in LADDERS else (RECIPES[name],):
            picked[recipe.name] = recipe
    return list(picked.values())


def pick_ladder(name: str) -> Ladder:
    """The ladder of a name; that of a kernel is its fast one."""
    sentence = refuse_ladder(name, _name_recipes())
    if sentence is not None:
        raise UseError(sentence)
    return LADDERS[name]


def _name_recipes() -> Ladders:
    names = dict.fromkeys([*LADDERS, *kernels()])
    return {name: [recipe.name for recipe in LADDERS.get(name, ())] for name in names}


def pick_step(run: Run, name: str) -> Step:
    """The step of a name, a number, or both as in a golden's file name."""
    for step in run.steps:
        if name in (step.name, str(step.index), f"{step.index:02d}", step_label(step)):
            return step
    if name.isdecimal():
        last = run.steps[-1].index
        raise UseError(f"{run.recipe.name} has no step {name}; its steps are 0 to {last}")
    known = [step.name for step in run.steps]
    raise UseError(f"{run.recipe.name} has no step '{name}'; {nearest(name, known)}")


def run_wished(
    recipe: Recipe, wish: Wish, *, example: ExampleName = "golden", among: Sequence[Recipe] = ()
) -> Run:
    """Run a recipe as wished.

    What the wish leaves open is as in one of the recipe's examples: `example`, or where the wish
    has a shape the seed, whose sizes are the recipe's own. A size of the wish that this recipe
    does not have is passed over if one of the recipes `among` has it.
    """
    all_known = {name: None for one in (recipe, *among) for name in one.config}
    chosen = choose_sizes(wish, recipe, all_known)
    base = recipe.golden if wish.shape is None and example == "golden" else recipe.default_example
    shape = base.shape
    if wish.shape is not None:
        shape = parse_shape(wish.shape, recipe.kernel, get_kernel(recipe.kernel).size_names)
    return run_recipe(
        recipe,
        shape,
        options={**base.options, **wish.options},
        config={**base.config, **chosen},
    )


def find_store(folder: Path | None) -> GoldenStore | None:
    """The goldens of a folder, by default of tests/golden if the current folder has it."""
    if folder is None:
        return GoldenStore(GOLDEN_DIR) if GOLDEN_DIR.is_dir() else None
    if not folder.is_dir():
        raise UseError(f"there is no folder {folder}; give --golden-dir the folder of the goldens")
    return GoldenStore(folder)


def find_store_to_write(folder: Path | None) -> GoldenStore:
    """The same for writing: never a folder of other things."""
    root = folder or GOLDEN_DIR
    if folder is None and not root.parent.is_dir():
        raise UseError(
            f"there is no folder {root.parent} here; run this at the top of the repository, "
            "or give --golden-dir"
        )
    if root.exists() and not root.is_dir():
        raise UseError(f"{root} is no folder; give --golden-dir the folder of the goldens")
    if root.is_dir() and not (root / VERSION_FILE).is_file() and _has_other_things(root):
        raise UseError(
            f"{root} has files but no {VERSION_FILE}, so it may be no folder of goldens; give "
            "--golden-dir another folder, a new one or an empty one"
        )
    return GoldenStore(root)


def _has_other_things(root: Path) -> bool:
    """Than goldens whose writing was ended before the version of TVM, which comes last."""
    left = (".tirstep-", f".{VERSION_FILE}")  # of processes that were killed
    names = {path.name for path in root.iterdir()} - {INPUTS, *RECIPES}
    return not all(name.startswith(left) for name in names)


def spell_command(name: str, run: Run, request: Request) -> str:
    """The command line that asks another command for a run as it was wished."""
    wish, options = request.wish, request.wish.options
    words = ["tirstep", name, run.recipe.name]
    words += [] if wish.shape is None else ["--shape", wish.shape]
    if "dtype" in options:
        words += ["--dtype", spell(options["dtype"])]
    given = {"--option": {key: one for key, one in options.items() if key != "dtype"}}
    given["--set"] = {key: one for key, one in wish.config.items() if key in run.recipe.config}
    for option, settings in given.items():
        for key, value in settings.items():
            words += [option, f"{key}={spell(value)}"]
    words += ["--seed", str(request.seed)] if request.seed else []
    return shlex.join(words)


def format_shape(sizes: Mapping[str, int]) -> str:
    """A shape as ``--shape`` takes it."""
    return "x".join(map(str, sizes.values()))
