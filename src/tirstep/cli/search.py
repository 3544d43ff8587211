"""``tirstep search``: the fastest sizes of a recipe, shape by shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tirstep.bench.arena import Settings
from tirstep.bench.best import record_best, require_table
from tirstep.bench.candidates import count_candidates, find_choices
from tirstep.bench.compile_cache import find_cache_folder
from tirstep.bench.machine import Machine
from tirstep.bench.results import Time
from tirstep.bench.search import Found, Plan, search
from tirstep.modules import get_kernel
from tirstep.transforms.recipes import Recipe, Rung

from .bench import make_machine
from .refusals import join_alternatives
from .screen import Screen
from .selection import format_shape, pick_recipe
from .texts import count, spell
from .wishes import Wish, choose_sizes, parse_shape


@dataclass(frozen=True)
class Hunt:
    """How a search is done.

    Attributes
    ----------
    limit : None for all candidates
    among : values to choose from, by size, in place of the recipe's choices
    patience : seconds that a candidate may take to compile
    into : None to keep nothing
    """

    limit: int | None
    among: Mapping[str, tuple[object, ...]]
    seed: int
    patience: float
    into: Path | None


def search_sizes(recipe_name: str, shapes: Sequence[str], wish: Wish, hunt: Hunt) -> int:
    """Search at each shape; 1 where no candidate was right."""
    recipe = pick_recipe(recipe_name)
    kernel = get_kernel(recipe.kernel)
    parsed = [parse_shape(text, recipe.kernel, kernel.size_names) for text in shapes]
    options: dict[str, Any] = {**recipe.default_example.options, **wish.options}
    wanted = parsed or [dict(recipe.default_example.shape)]
    problems = [kernel.problem(*one.values(), **options) for one in wanted]
    wish, hunt = _join_pairs(recipe, wish, hunt)
    fixed = choose_sizes(wish, recipe, recipe.config)
    for name, values in hunt.among.items():
        for value in values:  # each must be one that the size can have
            choose_sizes(replace(wish, config={name: value}), recipe, recipe.config)
    find_choices(recipe, hunt.among)
    if hunt.into is not None:
        require_table(hunt.into)
    machine = make_machine("search")
    screen, code = Screen(), 0
    screen.line(("device  ", "dim"), str(machine.device["name"]))
    for problem in problems:
        plan = Plan(recipe, problem, fixed, hunt.among, hunt.limit, hunt.patience)
        with screen.working():
            found = search(
                plan,
                machine,
                Settings(seed=hunt.seed),
                cache=find_cache_folder(),
                tell=screen.doing,
            )
        _show(screen, plan, found)
        if found.best is None:
            code = 1
        elif hunt.into is not None:
            _keep(screen, hunt.into, plan, found, machine)
    return code


def _join_pairs(recipe: Recipe, wish: Wish, hunt: Hunt) -> tuple[Wish, Hunt]:
    """``threads=16,16`` is one value where a knob takes pairs; several are ``16x16,8x16``."""
    pairs = {
        name: values
        for name, values in hunt.among.items()
        if isinstance(recipe, Rung) and name in recipe.config and recipe.has_pairs(name)
        if all(isinstance(value, int) for value in values)
    }
    among = {
        name: tuple(dict.fromkeys(values))
        for name, values in hunt.among.items()
        if name not in pairs
    }
    return replace(wish, config={**wish.config, **pairs}), replace(hunt, among=among)


def _show(screen: Screen, plan: Plan, found: Found) -> None:
    recipe, problem = plan.recipe, plan.problem
    screen.line()
    shape, dtype = format_shape(problem.shape), problem.options["dtype"]
    screen.line((f"{recipe.name} at {shape}, {dtype}", "bold"))
    total = count_candidates(recipe, plan.fixed, plan.among)
    tried = f"tried {count(found.tried, 'candidate')} of {total}"
    screen.line((tried, "dim"))
    for reason, number in found.skipped.most_common():
        screen.line((f"  {number:>5} {reason}", "dim"))
    if found.best is None or found.config is None:
        screen.line(("no candidate ran and was exact", "bold red"))
        if found.skipped:
            screen.line(_explain(plan, found), wrap=True)
        return
    _show_time(screen, "best", found.best)
    _show_time(screen, "as it is", found.default)
    _show_time(screen, plan.peer, found.peer)
    if found.ratio is not None:
        screen.line((f"{'ratio':<9}", "dim"), f"{found.ratio:.3f} times as fast as {plan.peer}")
    chosen = {name: value for name, value in found.config.items() if value is not None}
    words = " ".join(f"--set {name}={spell(value)}" for name, value in chosen.items())
    screen.line((f"{'sizes':<9}", "dim"), words)


def _explain(plan: Plan, found: Found) -> str:
    """Why there is no winner: the commonest reason, and the tail that would let sizes run."""
    ((kind, number),) = found.skipped.most_common(1)
    sentence = f"{number} of {found.tried}, the first of them: {found.samples.get(kind, kind)}"
    tails = [f"--set tail={tail}" for tail in plan.recipe.tails if tail != "refuse"]
    is_open = "tail" not in plan.fixed and "tail" not in plan.among
    if not (tails and is_open and any('tail="' in one for one in found.samples.values())):
        return sentence
    shape = format_shape(plan.problem.shape)
    return f"none of these sizes divides {shape}: pass {join_alternatives(tails)}; {sentence}"


def _show_time(screen: Screen, who: str, time: Time | None) -> None:
    if time is not None:
        spread = f"{time.lower_us:,.1f} to {time.upper_us:,.1f}"
        screen.line((f"{who:<9}", "dim"), f"{time.median_us:,.1f} us", (f"  {spread}", "dim"))


def _keep(screen: Screen, file: Path, plan: Plan, found: Found, machine: Machine) -> None:
    if record_best(file, plan, found, machine.device, machine.versions):
        screen.line((f"wrote {file}", "green"))
    else:
        screen.line((f"{file} has a faster config for this, which stays", "yellow"))
