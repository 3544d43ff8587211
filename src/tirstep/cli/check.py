"""``tirstep check``: the goldens and the numbers of recipes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from .catalogue import complete_recipe, require_recipe
from .formatting import count, format_shape
from .request import (
    Config,
    DeviceName,
    Dtype,
    GoldenDir,
    Json,
    KernelOptions,
    Request,
    Seed,
    Shape,
    make_request,
    pick_recipe,
    spell_command,
)
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.lowering_checks import Finding
    from tirstep.transforms.recipes import Recipe

    from .judging import Judge, Rung
    from .screen import Screen


def command(
    recipes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RECIPE",
            show_default=False,
            help="Recipes: see tirstep list.",
            autocompletion=complete_recipe,
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every recipe, and golden files that no recipe makes.")
    ] = False,
    golden_dir: GoldenDir = None,
    device: DeviceName = "auto",
    seed: Seed = 0,
    shape: Shape = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    config: Config = None,
    json: Json = False,
) -> int:
    """Hold each step against its golden, and its numbers against NumPy."""
    request = make_request(shape, dtype, option, config, golden_dir, device, seed)
    names = recipes or []
    if everything == bool(names):
        raise UseError("name the recipes to check, or give --all" + (", not both" * everything))
    if everything and not request.is_of_examples:
        raise UseError("--all checks every recipe at its example; name recipes for another config")
    for name in names:
        require_recipe(name)
    return check_recipes(names, request, as_json=json)


def check_recipes(names: Sequence[str], request: Request, *, as_json: bool) -> int:
    """Check the named recipes, or all of them where no name is given; 1 if anything is wrong."""
    from .json_output import device_keys, finding_keys, print_document
    from .judging import make_judge, rung_documents
    from .screen import Screen

    judge, screen = make_judge(request), Screen(quiet=as_json)
    rungs, orphans = _check(names, judge, screen)
    findings = [*judge.folder_findings, *orphans]
    is_good = not findings and not any(rung.findings for rung in rungs)
    _show_end(screen, rungs, len(findings), request)
    if as_json:
        print_document(
            "check",
            device=device_keys(judge.device),
            golden_dir=judge.golden_dir,
            seed=request.seed,
            ok=is_good,
            findings=[finding_keys(finding) for finding in findings],
            recipes=rung_documents(rungs),
        )
    return 0 if is_good else 1


def _check(
    names: Sequence[str], judge: Judge, screen: Screen
) -> tuple[list[Rung], Sequence[Finding]]:
    """Judge the named recipes, or all of them; with these also goldens that no recipe makes."""
    from tirstep.transforms.recipes import RECIPES

    from .judging import show_findings, show_judge

    recipes = [pick_recipe(name) for name in dict.fromkeys(names)] or list(RECIPES.values())
    with screen.working():
        rungs = judge.plan(recipes, screen.doing, example="golden")
        for rung in rungs:
            # A recipe named by its user should run: what it refuses is wrong use.
            if rung.error is not None:
                raise rung.error
        show_judge(screen, judge)
        show_findings(screen, judge.folder_findings)
        for rung in rungs:
            _check_recipe(rung, judge, screen)
            rung.own_findings.extend(_find_broken_expectations(rung.recipe))
            _show_findings_apart(screen, rung.own_findings)
        orphans = [] if names else _find_orphans(judge)
        _show_findings_apart(screen, orphans)
    return rungs, orphans


def _check_recipe(rung: Rung, judge: Judge, screen: Screen) -> None:
    """Judge a recipe, with a line for each step and one for the odd shape."""
    from tirstep.lowering_checks.steps import step_label

    from .judging import show_findings, verdict_words
    from .screen import WORD_STYLES

    if rung.run is None:
        return
    width = max(len(step_label(step)) for step in rung.run.steps)
    for verdict in judge.judge(rung, screen.doing, timed=False, at_odd_shape=True):
        if len(rung.verdicts) == 1:
            screen.line()
            shape = format_shape(rung.run.problem.shape)
            screen.line((rung.recipe.name, "bold"), (f"  {shape}", "dim"))
        screen.line(f"  {step_label(verdict.step):<{width}}   ", *verdict_words(verdict))
        show_findings(screen, verdict.findings)
    if rung.odd is not None:
        word = "failed" if rung.odd.findings else "ok"
        screen.line(
            f"  {'at an odd shape':<{width + len('   golden ok       ')}}",
            ("numbers ", "dim"),
            (word, WORD_STYLES[word]),
            (f" on {rung.odd.checked_on}", "dim"),
        )
        show_findings(screen, rung.odd.findings)


def _find_broken_expectations(recipe: Recipe) -> list[Finding]:
    """What a recipe expects of its lowering, with the config of its tutorial."""
    from tirstep.lowering_checks import run_default_example
    from tirstep.lowering_checks.expectations import check_expectations

    if not recipe.expects:
        return []
    run = run_default_example(recipe)
    return [finding for step in run.steps for finding in check_expectations(run, step)]


def _find_orphans(judge: Judge) -> Sequence[Finding]:
    from tirstep.lowering_checks import run_golden
    from tirstep.transforms.recipes import RECIPES

    if judge.store is None:
        return ()
    return judge.store.find_orphans([run_golden(recipe) for recipe in RECIPES.values()])


def _show_findings_apart(screen: Screen, findings: Sequence[Finding]) -> None:
    from .judging import show_findings

    if findings:
        screen.line()
        show_findings(screen, findings)


def _show_end(screen: Screen, rungs: Sequence[Rung], other_findings: int, request: Request) -> None:
    """How much was found, and the commands that find the first bad step of what is wrong."""
    from tirstep.lowering_checks.verdict import numbers_word

    found = other_findings + sum(len(rung.findings) for rung in rungs)
    modules = sum(len(rung.verdicts) for rung in rungs)
    checked = f"{count(len(rungs), 'recipe')}, {count(modules, 'module')}: "
    screen.line()
    screen.line(checked, (count(found, "finding"), "bold red") if found else ("all good", "green"))
    for rung in rungs:
        run = rung.run
        if run is not None and numbers_word(rung.verdicts) != "failed":
            run = rung.odd.run if rung.odd is not None and rung.odd.findings else None
        if run is None:
            continue
        asked = request
        if run is not rung.run:
            shape, config = format_shape(run.problem.shape), {**request.config, **run.config}
            asked = replace(request, shape=shape, config=config)
        words = spell_command("why", run, asked)
        screen.line(("find the first bad step:  ", "dim"), words)
