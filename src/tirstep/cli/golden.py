"""``tirstep golden``: which goldens differ from what the recipes make, and writing them again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .formatting import count
from .names import complete_either
from .request import (
    GOLDEN_DIR,
    PROGRAMS,
    FunctionName,
    GoldenDir,
    Json,
    Request,
    make_request,
    pick_recipes,
)
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.lowering_checks import Finding, GoldenStore, Run
    from tirstep.transforms.recipes import Recipe

    from .screen import Screen


def command(
    recipes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RECIPE]",
            show_default=False,
            help=f"Recipes, or kernels for their whole ladders, {PROGRAMS} "
            "[default: those that have goldens]",
            autocompletion=complete_either,
        ),
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Write them again; not under CI.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="All recipes of tirstep, also those without goldens.")
    ] = False,
    golden_dir: GoldenDir = None,
    function: FunctionName = None,
    json: Json = False,
) -> int:
    """Say which goldens would change, or write them again.

    Writing touches the folders of these recipes and their kernels alone: there it deletes the
    goldens of steps that are no more. Files that no recipe makes are told, and stay.
    """
    names = recipes or []
    if names and every:
        raise UseError("RECIPE and --all both say which goldens are meant; give one")
    request = make_request(None, None, None, None, golden_dir, function=function)
    return check_goldens(names, request, every=every, write=write, as_json=json)


def check_goldens(
    names: Sequence[str], request: Request, *, every: bool, write: bool, as_json: bool
) -> int:
    """Compare or write; 1 for differences, and for files that no recipe makes. Raises `CheckError`
    for writing under CI.
    """
    from tirstep.lowering_checks import run_golden

    from .json_output import finding_keys, print_document
    from .screen import Screen

    store, screen = find_store_to_write(request.golden_dir), Screen(quiet=as_json)
    runs, changed = [], []
    chosen = _choose(store, names, request, every=every)
    with screen.working():
        for recipe in chosen:
            screen.doing(recipe.name)
            runs.append(run_golden(recipe))
        if write:
            changed = store.write(runs, environment=os.environ)
    findings = [] if write else _find_differences(store, runs)
    ours = {run.recipe.name for run in runs}
    orphans = store.find_orphans(runs)
    findings += [each for each in orphans if not names or each.where.partition("/")[0] in ours]
    if as_json:
        print_document(
            "golden",
            golden_dir=str(store.root),
            written=write,
            ok=not findings,
            changed=[str(path) for path in changed],
            findings=[finding_keys(finding) for finding in findings],
        )
    elif write:
        _show_written(screen, store, changed, findings)
    else:
        _show_differences(screen, store, runs, findings)
    return 1 if findings else 0


def _find_differences(store: GoldenStore, runs: Sequence[Run]) -> list[Finding]:
    findings = [finding for run in runs for step in store.check(run) for finding in step]
    return [*store.check_version(), *findings]


def _show_differences(
    screen: Screen, store: GoldenStore, runs: Sequence[Run], findings: Sequence[Finding]
) -> None:
    from .judging import show_findings

    show_findings(screen, findings)
    files = count(sum(len(run.steps) for run in runs), "golden")
    if findings:
        screen.line()
        told = f"{count(len(findings), 'difference')} in {store.root}; --write writes them again"
        screen.line(f"{files}: ", (told, "bold red"))
    else:
        screen.line(f"{files} in {store.root}: ", ("as the recipes make them", "green"))


def _show_written(
    screen: Screen, store: GoldenStore, changed: Sequence[Path], findings: Sequence[Finding]
) -> None:
    from .judging import show_findings

    for path in changed:
        word, style = ("wrote  ", "green") if path.exists() else ("deleted", "red")
        screen.line((word, style), f" {path}")
    if changed:
        screen.line(f"{count(len(changed), 'file')} changed in {store.root}; read them in git")
    else:
        screen.line(f"nothing changed in {store.root}")
    show_findings(screen, findings)


def _choose(
    store: GoldenStore, names: Sequence[str], request: Request, *, every: bool
) -> list[Recipe]:
    """The recipes that are named, or all, or else those that have goldens in the folder."""
    from tirstep.transforms.recipes import RECIPES

    if names or every:
        return pick_recipes(names or [*RECIPES], request)
    if found := [RECIPES[name] for name in store.find_recipes() if name in RECIPES]:
        return found
    raise UseError(
        f"{store.root} has no goldens of tirstep's recipes; name the recipes that are to have "
        f"some, or give --all for those of all {len(RECIPES)}"
    )


def find_store_to_write(folder: Path | None) -> GoldenStore:
    """The goldens of a folder, to be written: never a folder of other things."""
    from tirstep.lowering_checks import GoldenStore
    from tirstep.lowering_checks.golden import VERSION_FILE

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
    from tirstep.lowering_checks.golden import INPUTS, VERSION_FILE
    from tirstep.transforms.recipes import RECIPES

    left = (".tirstep-", f".{VERSION_FILE}")  # of processes that were killed
    names = {path.name for path in root.iterdir()} - {INPUTS, *RECIPES}
    return not all(name.startswith(left) for name in names)
