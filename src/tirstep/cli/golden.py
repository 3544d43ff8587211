"""``tirstep golden``: which goldens differ from what the recipes make, and writing them anew."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from tirstep.lowering_checks import Finding, GoldenStore, Run, run_golden
from tirstep.transforms.recipes import RECIPES

from .documents import finding_keys, print_document
from .screen import Screen
from .selection import find_store_to_write
from .texts import count
from .verdicts import show_findings


def compare_goldens(golden_dir: Path | None, *, as_json: bool) -> int:
    """Say what writing would change; 1 if anything."""
    store, screen = find_store_to_write(golden_dir), Screen()
    with screen.working():
        runs = _run_all(screen)
    findings = store.check_version()
    findings += [one for run in runs for step in store.check(run) for one in step]
    findings += store.find_orphans(runs)
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


def write_goldens(golden_dir: Path | None, *, as_json: bool) -> int:
    """Write the goldens anew and say what changed; raises `CheckError` under CI."""
    store, screen = find_store_to_write(golden_dir), Screen()
    with screen.working():
        changed = store.write(_run_all(screen), environment=os.environ)
    if as_json:
        _print_document(store, written=True, changed=changed, findings=[])
        return 0
    for path in changed:
        word, style = ("wrote  ", "green") if path.exists() else ("deleted", "red")
        screen.line((word, style), f" {path}")
    if changed:
        screen.line(f"{count(len(changed), 'file')} changed in {store.root}; read them in git")
    else:
        screen.line(f"nothing changed in {store.root}")
    return 0


def _run_all(screen: Screen) -> list[Run]:
    runs = []
    for recipe in RECIPES.values():
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
