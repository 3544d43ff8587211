"""``tirstep check --write-goldens``: the goldens of recipes, written again."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tirstep.lowering_checks import GoldenStore, run_golden
from tirstep.lowering_checks.golden import INPUTS, VERSION_FILE
from tirstep.transforms import recipes

from .formatting import count
from .json_output import print_document
from .judging import show_findings
from .request import GOLDEN_DIR, Request, pick_recipes
from .screen import Screen
from .wrong_use import UseError


def write_goldens(names: Sequence[str], request: Request, *, as_json: bool) -> int:
    """Write the goldens of recipes or ladders, or of all of ours; 1 for files that no recipe makes.

    Raises `CheckError` for writing under CI.
    """
    folder, root = request.golden_dir, request.golden_dir or GOLDEN_DIR
    if folder is None and not root.parent.is_dir():
        raise UseError(
            f"there is no folder {root.parent} here; run this at the top of the repository, "
            "or give --golden-dir"
        )
    if root.exists() and not root.is_dir():
        raise UseError(f"{root} is no folder; give --golden-dir the folder of the goldens")
    if root.is_dir() and not (root / VERSION_FILE).is_file():
        # Goldens whose writing was ended before the version of TVM, which comes last, are no
        # other things.
        left = (".tirstep-", f".{VERSION_FILE}")  # of processes that were killed
        others = {path.name for path in root.iterdir()} - {INPUTS, *recipes.RECIPES}
        if not all(name.startswith(left) for name in others):
            raise UseError(
                f"{root} has files but no {VERSION_FILE}, so it may be no folder of goldens; give "
                "--golden-dir another folder, a new one or an empty one"
            )
    store, screen = GoldenStore(root), Screen(quiet=as_json)
    runs = []
    with screen.working():
        for recipe in pick_recipes(names or [*recipes.RECIPES], request):
            screen.doing(recipe.name)
            runs.append(run_golden(recipe))
        changed = store.write(runs, environment=os.environ)
    ours = {run.recipe.name for run in runs}
    orphans = store.find_orphans(runs)
    findings = [each for each in orphans if not names or each.where.partition("/")[0] in ours]
    for path in changed:
        word, style = ("wrote  ", "green") if path.exists() else ("deleted", "red")
        screen.line((word, style), f" {path}")
    if changed:
        screen.line(f"{count(len(changed), 'file')} changed in {store.root}; read them in git")
    else:
        screen.line(f"nothing changed in {store.root}")
    show_findings(screen, findings)
    if as_json:
        print_document(
            "check",
            golden_dir=str(store.root),
            ok=not findings,
            changed=[str(path) for path in changed],
            findings=findings,
        )
    return 1 if findings else 0
