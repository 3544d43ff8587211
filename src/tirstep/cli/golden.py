"""``tirstep golden``: which goldens differ from what the recipes make, and writing them anew."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from tirstep.lowering_checks import Finding, GoldenStore, Run, run_golden
from tirstep.transforms.recipes import RECIPES, Recipe

from .documents import finding_keys, print_document
from .refusals import UseError
from .screen import Screen
from .selection import find_store_to_write, pick_recipes
from .texts import count
from .verdicts import show_findings


def compare_goldens(
    names: Sequence[str], golden_dir: Path | None, *, every: bool, as_json: bool
) -> int:
    """Say what writing would change, and what no recipe makes; 1 if anything."""
    store, screen = find_store_to_write(golden_dir), Screen()
    recipes = _choose(store, names, every)
    with screen.working():
        runs = _run_all(recipes, screen)
    findings = store.check_version()
    findings += [one for run in runs for step in store.check(run) for one in step]
    findings += _find_orphans(store, runs, names)
    if as_json:
        _print_document(store, written=False, changed=[], findings=findings)
        return 1 if findings else 0
    show_findings(screen, findings)
    files = count(sum(len(run.steps) for run in runs), "golden")
    if findings:
        screen.line()
        told = f"{count(len(findings), 'difference')} in {store.root}; --write makes them anew"
        screen.line(f"{files}: ", (told, "bold red"))
    else:
        screen.line(f"{files} in {store.root}: ", ("as the recipes make them", "green"))
    return 1 if findings else 0


def write_goldens(
    names: Sequence[str], golden_dir: Path | None, *, every: bool, as_json: bool
) -> int:
    """Write the goldens anew and say what changed; 1 where files stay that no recipe makes.

    Raises `CheckError` under CI.
    """
    store, screen = find_store_to_write(golden_dir), Screen()
    recipes = _choose(store, names, every)
    with screen.working():
        runs = _run_all(recipes, screen)
        changed = store.write(runs, environment=os.environ)
        orphans = _find_orphans(store, runs, names)
    if as_json:
        _print_document(store, written=True, changed=changed, findings=orphans)
        return 1 if orphans else 0
    for path in changed:
        word, style = ("wrote  ", "green") if path.exists() else ("deleted", "red")
        screen.line((word, style), f" {path}")
    if changed:
        screen.line(f"{count(len(changed), 'file')} changed in {store.root}; read them in git")
    else:
        screen.line(f"nothing changed in {store.root}")
    show_findings(screen, orphans)
    return 1 if orphans else 0


def _choose(store: GoldenStore, names: Sequence[str], every: bool) -> list[Recipe]:
    """The recipes that are named, or all, or else those that have goldens in the folder."""
    if names or every:
        return pick_recipes(names or [*RECIPES])
    if found := [RECIPES[name] for name in store.find_recipes() if name in RECIPES]:
        return found
    raise UseError(
        f"{store.root} has no goldens of tirstep's recipes; name the recipes that are to have "
        f"some, or give --all for those of all {len(RECIPES)}"
    )


def _find_orphans(store: GoldenStore, runs: Sequence[Run], names: Sequence[str]) -> list[Finding]:
    """What no recipe makes; with names, in the folders of these recipes."""
    ours = {run.recipe.name for run in runs}
    found = store.find_orphans(runs)
    return [one for one in found if not names or one.where.partition("/")[0] in ours]


def _run_all(recipes: Iterable[Recipe], screen: Screen) -> list[Run]:
    runs = []
    for recipe in recipes:
        screen.doing(recipe.name)
        runs.append(run_golden(recipe))
    return runs


def _print_document(
    store: GoldenStore, *, written: bool, changed: Iterable[Path], findings: Iterable[Finding]
) -> None:
    found = [finding_keys(finding) for finding in findings]
    print_document(
        "golden",
        golden_dir=str(store.root),
        written=written,
        ok=not found,
        changed=[str(path) for path in changed],
        findings=found,
    )
