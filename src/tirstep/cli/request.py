"""Requests for kernels and recipes: the options that commands share, how they are
read, and the recipes, steps, runs and goldens that they name.

Nothing here imports TVM before a name or an option was found to be right.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_type_hints

import typer

from tirstep.printing import print_error
from tirstep.programs.naming import is_program

from .formats import TEXT, choose_format
from .formatting import complete, count, explain_unknown, join_alternatives, spell, suggest
from .guarding import quiet_crashes
from .wrong_use import UseError, find_sentence

if TYPE_CHECKING:
    from tirstep.lowering_checks import Run
    from tirstep.transforms.recipes import Ladder, Recipe, Step

GOLDEN_DIR = Path("tests/golden")

ExampleName: TypeAlias = Literal["golden", "default"]


def option(
    names: str,
    metavar: str | None,
    text: str,
    *,
    default: Any = None,
    least: int | None = None,
    kind: Callable[[str], float] = int,
    **more: Any,
) -> Any:
    """An option of a command, ``"--output -o"``; of a number one >= `least`, int or float."""
    first, *others = names.split()

    def read(value: object) -> float:
        given = str(value)  # typer has defaults read, too
        with contextlib.suppress(ValueError):
            if least is not None and least <= (number := kind(given)) < math.inf:
                return number
        noun = "an integer" if kind is int else "a number"
        raise UseError(f"{first} {given}: must be {noun} >= {least}")

    parser = None if least is None else read
    return typer.Option(default, first, *others, metavar=metavar, help=text, parser=parser, **more)


def flag(name: str, text: str, *, default: bool = False) -> Any:
    """An option that is given or not."""
    return option(name, None, text, default=default)


def argument(metavar: str, text: str, *, default: Any = ..., **more: Any) -> Any:
    """A positional argument."""
    return typer.Argument(default, metavar=metavar, help=text, **more)


PROGRAMS = "or a program of yours: FILE.py, FILE.py:NAME, module:NAME, FILE.json, DATABASE/ or -."
"""What every command takes besides names; see docs/own-programs.md."""


@dataclass(frozen=True)
class Request:
    """The changes to a recipe's example, and how it is to be checked.

    Attributes
    ----------
    shape : as in ``--shape``; None for the shape of one of the recipe's examples
    options : the kernel's, its dtype among them
    config : the recipe's own
    golden_dir : None for tests/golden below the current folder, if it is there
    device : a device's name, or ``"auto"``
    seed : of the random inputs
    function : of a user's module, the only one that is meant
    symbolic : sizes that the module leaves open
    reference : the text that names what a user's module must compute
    """

    shape: str | None
    options: Mapping[str, object]
    config: Mapping[str, object]
    golden_dir: Path | None = None
    device: str = "auto"
    seed: int = 0
    function: str | None = None
    symbolic: tuple[str, ...] = ()
    reference: str | None = None

    @property
    def is_of_examples(self) -> bool:
        """Whether the examples are to be taken as they are."""
        return self.shape is None and not self.options and not self.config


def make_request(
    shape: str | None = None,
    dtype: str | None = None,
    option: Sequence[str] | None = None,
    config: Sequence[str] | None = None,
    **others: Any,
) -> Request:
    """The request of the options ``--shape``, ``--dtype``, ``--option``, ``--set`` and so on."""
    chosen = _parse_settings("--option", option or ())
    if dtype is not None:
        if chosen.get("dtype", dtype) != dtype:
            raise UseError(f"--dtype {dtype} and --option dtype={chosen['dtype']}; give one")
        chosen["dtype"] = dtype
    return Request(shape, chosen, _parse_settings("--set", config or ()), **others)


RECIPE_OPTIONS = ("shape", "dtype", "option", "config", "function")
"""The options of every command that runs a recipe."""
_TYPES: dict[str, Any] = {
    "option": list[str] | None,
    "config": list[str] | None,
    "golden_dir": Path | None,
}
_TYPES |= {"device": str, "seed": int}
"""Types of the request's options that are not `str | None`."""
_SHARED: Mapping[str, Any] = {
    "recipe": argument(
        "RECIPE", f"A recipe (see tirstep list), {PROGRAMS}", autocompletion=complete("recipe")
    ),
    "shape": option(
        "--shape",
        "SIZES",
        "The kernel's sizes, 1024x512x2048 or m=64,n=48,k=32. [default: the small shape of the "
        "recipe's goldens; for times, measured or predicted, that of its example]",
    ),
    "dtype": option("--dtype", "TYPE", "The kernel's data type, such as float16."),
    "option": option("--option", "NAME=VALUE", "An option of the kernel: transpose_b=true."),
    "config": option("--set", "NAME=VALUE", "A knob of the recipe: tile_k=8."),
    "golden_dir": option(
        "--golden-dir", "DIR", "The folder of the goldens. [default: tests/golden, if any]"
    ),
    "device": option(
        "--device",
        "NAME",
        "Where modules run: auto, cuda, simulator, cpu or rpc://HOST:PORT/KEY.",
        default="auto",
    ),
    "seed": option("--seed", "N", "Seed of the random inputs.", default=0, least=0),
    "function": option(
        "--function", "NAME", "Only this function of a module of yours that has several."
    ),
    "reference": option(
        "--reference",
        "FILE:NAME",
        "A program with the same arguments, as before scheduling, that a module of yours must "
        "agree with. [default: the module itself, run serially in float64]",
    ),
    "strict": flag("--strict", "Exit with 3 if anything was not judged, not only if nothing was."),
    "step": option("--step", "STEP", "Only this step, by name or number."),
    "target": option(
        "--target",
        "TARGET",
        "cuda, opencl, llvm, an architecture such as sm_80, or a tag of TVM's.",
        default="cuda",
    ),
    "context": option(
        "--context", "N", "Lines around a change.", default=3, least=0, show_default=True
    ),
    "json": flag("--json", "Print one JSON document instead."),
    "format": option(
        "--format",
        "FORMAT",
        "text, json, or for CI: github (annotations), junit or sarif.",
        default=TEXT,
    ),
}
"""typer's options of the parameters that commands share, by name."""


def with_options(*names: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """A command with these shared options in place of its parameter `request`, which they make;
    its own parameters that have no default are shared ones, too.

    typer reads the options off a function's signature.
    """

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def run(**given: Any) -> int:
            if "json" in given:
                given["json"] = choose_format(given.pop("format", TEXT), is_json=given["json"])
            made = {name: given.pop(name) for name in names if name in given}
            return command(**({"request": make_request(**made)} if names else {}), **given)

        hints = get_type_hints(command)
        parameters: list[inspect.Parameter] = []
        for own in inspect.signature(command).parameters.values():
            default = _SHARED.get(own.name) if own.default is own.empty else own.default
            shown = {own.name: (hints[own.name], default)}
            if own.name == "request":
                shown = {name: (_TYPES.get(name, str | None), _SHARED[name]) for name in names}
            parameters += [
                inspect.Parameter(name, own.KEYWORD_ONLY, annotation=hint, default=info)
                for name, (hint, info) in shown.items()
            ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {it.name: it.annotation for it in parameters}
        return run

    return decorate


def _parse_settings(option: str, texts: Sequence[str]) -> dict[str, object]:
    settings: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UseError(f"{option} {text}: give {option} NAME=VALUE")
        if settings.get(name, _parse_value(value)) != _parse_value(value):
            raise UseError(f"{option} {name} is given twice, with different values; give it once")
        settings[name] = _parse_value(value)
    return settings


def _parse_value(text: str) -> object:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"-?\d+([x,]-?\d+)+", text):  # 16x8 among several: threads=16x8,8x8
        return tuple(map(int, re.split("[x,]", text)))
    if re.fullmatch(r"-?\d+\.\d+(e-?\d+)?", text):
        return float(text)
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def separate_lists(
    texts: Sequence[str],
) -> tuple[list[str], dict[str, tuple[object, ...]]]:
    """The settings with one value as they are, and those with several, ``tile_k=8,16``, by name."""
    single = [text for text in texts if "," not in text]
    several: dict[str, tuple[object, ...]] = {}
    for text in texts:
        if "," not in text:
            continue
        name, _, values = text.partition("=")
        parts = values.split(",")
        if not (name and all(parts)) or "," in name:
            raise UseError(f"--set {text}: give --set NAME=VALUE,VALUE")
        if name in several or any(other.partition("=")[0] == name for other in single):
            raise UseError(f"--set {name} is given twice; give all of its values at once")
        several[name] = tuple(map(_parse_value, parts))
    return single, several


def parse_shape(text: str, kernel: str, names: Sequence[str]) -> dict[str, int]:
    """The sizes of a kernel from ``1024x512x2048``, by place, or ``m=64,n=48,k=32``, by name."""
    if not names:
        raise UseError(f"--shape {text}: {kernel} has no symbolic size; leave --shape out")
    sample = {name: 64 >> place for place, name in enumerate(names)}
    advice = (
        f"{kernel} has the sizes {', '.join(names)}: give --shape "
        f"{'x'.join(map(str, sample.values()))}, or "
        f"--shape {','.join(f'{name}={size}' for name, size in sample.items())}"
    )
    if "=" not in text:
        sizes = re.split("[x×,]", text)
        if len(sizes) != len(names):
            raise UseError(f"--shape {text} has {count(len(sizes), 'size')}, and {advice}")
        given = dict(zip(names, sizes, strict=True))
    else:
        pairs = [part.partition("=") for part in text.split(",")]
        given = {name.strip(): size.strip() for name, _, size in pairs}
        if sorted(name.strip() for name, _, _ in pairs) != sorted(names):
            raise UseError(f"--shape {text} does not give each size once; {advice}")
    for name, size in given.items():
        if not re.fullmatch(r"-?\d+", size):
            raise UseError(f"--shape {text}: {name} must be an integer, and is {size!r}; {advice}")
    return {name: int(given[name]) for name in names}


def choose_config(
    request: Request, recipe: Recipe, all_known: Collection[str]
) -> dict[str, object]:
    """The config of a request that one of several recipes has.

    `all_known` has the names of all the recipes asked for; a name that none of them has is refused,
    and so is a value that no knob can have.
    """
    for name in request.config:
        if name not in all_known:
            hint = suggest(name, all_known)
            raise UseError(f"none of these recipes has a knob '{name}'; {hint}")
    chosen = {name: value for name, value in request.config.items() if name in recipe.config}
    for name, value in chosen.items():
        wanted = "" if name in recipe.words else recipe.explain_wrong(name, value)
        if wanted:
            raise UseError(f"--set {name}={spell(value)}: must be {wanted}")
    return chosen


def pick_each(name: str, request: Request) -> list[Recipe]:
    """The recipe of a name, or all that a text of the user's names, in their order.

    An unknown name is refused with the nearest ones.
    """
    if is_program(name):
        from tirstep.programs.picking import pick_programs

        quiet_crashes()
        return pick_programs(name, request.function, request.reference)
    if request.reference is not None:
        raise UseError(f"--reference is for modules of your own; '{name}' has one, leave it out")
    if request.function is not None:
        raise UseError(f"--function is for modules of your own, not for '{name}'; leave it out")
    from tirstep.transforms.recipes import RECIPES

    if name not in RECIPES:
        raise UseError(str(explain_unknown(name, "recipe")))
    return [RECIPES[name]]


def pick_recipe(name: str, request: Request, *, by: str = "this command") -> Recipe:
    """The recipe that a text names; one that names several is refused by what takes one."""
    recipes = pick_each(name, request)
    if len(recipes) > 1:
        texts = join_alternatives([recipe.spelling for recipe in recipes])
        raise UseError(f"{name} has {len(recipes)} recipes, and {by} takes one; name one: {texts}")
    return recipes[0]


def run_each(name: str, request: Request, show: Callable[[Run], int], *, as_json: bool) -> int:
    """Run each recipe that a text names, and show something of it; the highest exit code."""

    def run(recipe: Recipe) -> int:
        return show(run_requested(recipe, request))

    recipes = pick_each(name, request)
    return do_tasks([(it.name, partial(run, it)) for it in recipes], as_json=as_json)


def do_tasks(tasks: Sequence[tuple[str, Callable[[], int]]], *, as_json: bool = False) -> int:
    """Do tasks by name, in turn; the highest exit code.

    Where there are several, one that is wrong leaves the others as they are, and gives the code 2;
    a document is of one alone.
    """
    if len(tasks) == 1:
        return tasks[0][1]()
    if as_json:
        names = ", ".join(name for name, _ in tasks)
        raise UseError(f"--json takes one program; name one of the {len(tasks)} here: {names}")
    codes: list[int] = []
    for place, (name, do) in enumerate(tasks):
        if place and codes[-1] != 2:
            print(flush=True)
        found, sentence = try_one(do)
        if sentence is not None:
            print_error(sentence if sentence.startswith(name) else f"{name}: {sentence}")
        codes.append(found)
    return max(codes)


def try_one(do: Callable[[], int]) -> tuple[int, str | None]:
    """The exit code of one among several programs, and what is wrong with it in a sentence; raises
    what is a defect of ours.
    """
    try:
        return do(), None
    except (Exception, SystemExit) as error:  # a user's schedule may end the process, too
        sentence = find_sentence(error)
        if sentence is None:
            raise
        return 2, sentence


LADDER = flag("--ladder", "If a recipe and a ladder have the same name, take the ladder.")


def pick_recipes(
    names: Sequence[str], request: Request, *, prefer_ladders: bool = False
) -> list[Recipe]:
    """The recipes of some names, each once; the name of a kernel stands for its ladder, and one
    that a recipe and a ladder have for the recipe, or for the ladder where those are preferred.
    """
    from tirstep.transforms.recipes import LADDERS, RECIPES

    picked: dict[str, Recipe] = {}
    for name in names:
        if not is_program(name) and name not in RECIPES and name not in LADDERS:
            sentence = explain_unknown(name, "name")
            raise UseError(sentence or f"the kernel '{name}' has no recipes")
        is_ladder = name in LADDERS and (prefer_ladders or name not in RECIPES)
        for recipe in LADDERS[name] if is_ladder else pick_each(name, request):
            other = picked.setdefault(recipe.name, recipe)
            if other.spelling != recipe.spelling:
                raise UseError(
                    f"{other.spelling or other.name} and {recipe.spelling or recipe.name} have the "
                    "same name, and the output would keep one of them; give one at a time"
                )
    return list(picked.values())


def pick_ladder(name: str, request: Request) -> Ladder:
    """The ladder of a name; that of a kernel is its fast one."""
    if is_program(name):
        from tirstep.programs.picking import pick_program_ladder

        return pick_program_ladder(name, request.function)
    from tirstep.transforms.recipes import LADDERS

    if sentence := explain_unknown(name, "ladder"):
        raise UseError(sentence)
    return LADDERS[name]


def pick_step(run: Run, name: str | None) -> Step:
    """The step of a name, a number, or both as in a golden's file name; of None, the last."""
    from tirstep.lowering_checks.steps import step_label

    if name is None:
        return run.steps[-1]
    for step in run.steps:
        if name in (step.name, str(step.index), f"{step.index:02d}", step_label(step)):
            return step
    if name.isdecimal():
        last = run.steps[-1].index
        raise UseError(f"{run.recipe.name} has no step {name}; its steps are 0 to {last}")
    known = [step.name for step in run.steps]
    raise UseError(f"{run.recipe.name} has no step '{name}'; {suggest(name, known)}")


def run_requested(
    recipe: Recipe,
    request: Request,
    *,
    example: ExampleName = "golden",
    among: Sequence[Recipe] = (),
) -> Run:
    """Run a recipe as requested.

    What the request leaves open is as in one of the recipe's examples: `example`, or where the
    request has a shape the default one, whose config is the recipe's own. A knob of the request
    that this recipe does not have is passed over if one of the recipes `among` has it.
    """
    from tirstep.lowering_checks import run_recipe
    from tirstep.lowering_checks.reference import ModuleKernel
    from tirstep.modules import get_kernel

    all_known = {name: None for other in (recipe, *among) for name in other.config}
    chosen = choose_config(request, recipe, all_known)
    is_golden = request.shape is None and example == "golden"
    base = recipe.golden if is_golden else recipe.default_example
    shape = base.shape
    if request.shape is not None:
        kernel = get_kernel(recipe.kernel)
        if isinstance(kernel, ModuleKernel) and kernel.literal_sizes:
            sizes = parse_shape(request.shape, recipe.kernel_name, [*kernel.literal_sizes])
            recipe = replace(recipe, kernel=kernel.at_literals(sizes))
        else:
            shape = parse_shape(request.shape, recipe.kernel_name, kernel.size_names)
    return run_recipe(
        recipe,
        shape,
        options={**base.options, **request.options},
        config={**base.config, **chosen},
        symbolic=request.symbolic,
    )


def spell_command(name: str, run: Run, request: Request) -> str:
    """The command line that asks another command for a run as it was requested."""
    options, config = dict(request.options), request.config
    config = {key: value for key, value in config.items() if key in run.recipe.config}
    pairs = [("--shape", request.shape), ("--dtype", options.pop("dtype", None))]
    pairs += [("--option", f"{key}={spell(value)}") for key, value in options.items()]
    pairs += [("--set", f"{key}={spell(value)}") for key, value in config.items()]
    symbolic = run.problem.symbolic if name == "why" else ()
    pairs += [
        ("--reference", request.reference),
        ("--open", ",".join(symbolic) or None),
        ("--seed", request.seed or None),
    ]
    words = [word for option, it in pairs if it is not None for word in (option, spell(it))]
    return shlex.join(["tirstep", name, run.recipe.spelling or run.recipe.name, *words])
