"""Goldens: the expected TIR of every step, in files that are read by people and by git."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import tvm
import tvm_ffi
from tvm.script import from_source

from .diff import diff_texts, print_module
from .finding import CheckError, Finding
from .steps import Run, step_label

VERSION_FILE = "TVM_VERSION"
REWRITE = "if that is meant, rewrite the goldens with `make golden` and read the change in git"


@dataclass(frozen=True)
class GoldenStore:
    """A folder with one folder for each recipe and one file for each of its steps."""

    root: Path

    def check_version(self) -> list[Finding]:
        """Whether the goldens were written by the TVM that is installed; to be asked first."""
        file = self.root / VERSION_FILE
        if not file.is_file():
            message = f"{VERSION_FILE} is missing, so nobody knows which TVM wrote the goldens"
            return [Finding("golden", str(self.root.name), f"{message}; {REWRITE}")]
        written = file.read_text().strip()
        if written == tvm.__version__:
            return []
        message = (
            f"the goldens were written by TVM {written}, and TVM {tvm.__version__} is installed; "
            f"install apache-tvm=={written}, or rewrite them with `make golden`"
        )
        return [Finding("golden", str(self.root.name), message)]

    def check(self, run: Run) -> list[list[Finding]]:
        """The findings of each step of a run, in the order of the steps."""
        folder = self.root / run.recipe.name
        return [
            _check_file(folder / f"{step_label(step)}.py", step.module, run.label(step))
            for step in run.steps
        ]

    def find_orphans(self, runs: Iterable[Run]) -> list[Finding]:
        """Files and folders that no step of these runs makes."""
        made = {path for run in runs for path in self._files(run)}
        findings = []
        for path in sorted(path for path in self.root.rglob("*") if path.is_file()):
            if path not in made and path != self.root / VERSION_FILE:
                message = "no step of any recipe makes this file; delete it, or run `make golden`"
                where = path.relative_to(self.root).as_posix()
                findings.append(Finding("golden", where, message))
        return findings

    def write(self, runs: Iterable[Run], *, environment: Mapping[str, str]) -> list[Path]:
        """Write the goldens of these runs, delete all others, and return what changed.

        Refuses with a `CheckError` under CI, that is where the environment has CI set.
        """
        if environment.get("CI", "").lower() not in ("", "0", "false"):
            raise CheckError(
                "goldens are not rewritten under CI (the environment has CI set); run "
                "`make golden` on your machine and commit what it changed"
            )
        texts = {self.root / VERSION_FILE: f"{tvm.__version__}\n"}
        for run in runs:
            for path, step in zip(self._files(run), run.steps, strict=True):
                texts[path] = print_module(step.module)
        changed = [path for path, text in texts.items() if _write(path, text)]
        for path in sorted(path for path in self.root.rglob("*") if path.is_file()):
            if path not in texts:
                path.unlink()
                changed.append(path)
        for folder in [path for path in self.root.iterdir() if path.is_dir()]:
            if not any(folder.iterdir()):
                folder.rmdir()
        return changed

    def _files(self, run: Run) -> list[Path]:
        return [self.root / run.recipe.name / f"{step_label(step)}.py" for step in run.steps]


def _check_file(file: Path, module: tvm.IRModule, where: str) -> list[Finding]:
    if not file.is_file():
        name = f"{file.parent.name}/{file.name}"
        return [Finding("golden", where, f"the golden {name} is missing; {REWRITE}")]
    expected, got = file.read_text(), print_module(module)
    if expected == got:
        return []
    diff = str(diff_texts(expected, got, names=("golden", "got"), context=2))
    if _is_same_program(expected, got):
        message = f"same program, other names or printing; {REWRITE}"
    else:
        message = f"the program changed; {REWRITE}"
    return [Finding("golden", where, message, diff)]


def _is_same_program(expected: str, got: str) -> bool:
    """Structural equality of both texts, both parsed, so that lossy printing cancels out."""
    try:
        before = from_source(expected, check_well_formed=False)
    except Exception:  # a file edited by hand: the parser raises errors of many kinds
        return False
    after = from_source(got, check_well_formed=False)
    return bool(tvm_ffi.structural_equal(before, after, map_free_vars=True))


def _write(path: Path, text: str) -> bool:
    if path.is_file() and path.read_text() == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    os.replace(partial, path)
    return True
