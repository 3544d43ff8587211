"""Goldens: the expected TIR of every step, in files that are read by people and by git."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import tvm
import tvm_ffi
from tvm.script import from_source

from tirstep.files import PARTIAL, locked, write_file
from tirstep.modules import AnyProblem
from tirstep.transforms.recipes import RECIPES, Recipe, Rung

from .steps import CheckError, Finding, Run, diff_texts, print_module, step_label

VERSION_FILE = "TVM_VERSION"
STEPS_FILE = "STEPS"
INPUTS = "inputs"
WRITE = "tirstep check --write-goldens"
REWRITE = f"if that is meant, rewrite the goldens with `{WRITE}` and read the change in git"
_GOLDEN = re.compile(rf"\d\d_\w+\.py|{STEPS_FILE}|\.tirstep-\w+" + re.escape(PARTIAL))
"""Names of what `GoldenStore.write` makes, and of what it leaves where it is killed."""
_INPUT = re.compile(r"\w+_(\d+(x\d+)*(_\w+)?|module)\.py|\.tirstep-\w+" + re.escape(PARTIAL))
"""The same in the folder of the kernels."""


@dataclass(frozen=True)
class GoldenStore:
    """A folder with one folder for each recipe and one file for each of its steps.

    A recipe's step 0 is its kernel as it was written, from which other recipes start, too: it is in
    the folder `INPUTS`, once for each shape and form of a kernel (`get_input_name`). A recipe
    outside of ladders has the text of each step. A rung of a ladder, and a recipe that chooses
    among rungs, has the text of its last step, and of each step that no earlier recipe of its
    kernel has. Its other steps are lines in its `STEPS_FILE`: the step, the SHA-256 of its text,
    and the file of an earlier rung that has this text.
    """

    root: Path

    def check_version(self) -> list[Finding]:
        """Whether the TVM that is installed wrote the goldens; the first check to make."""
        file = self.root / VERSION_FILE
        if not file.is_file():
            message = f"{VERSION_FILE} is missing, so it is not known which TVM wrote the goldens"
            return [Finding("golden", str(self.root.name), f"{message}; {REWRITE}")]
        written = self._read_version()
        if written == tvm.__version__:
            return []
        message = (
            f"the goldens were written by TVM {written}, and TVM {tvm.__version__} is installed; "
            f"install apache-tvm=={written}, or rewrite them with `{WRITE}`"
        )
        return [Finding("golden", str(self.root.name), message)]

    def check(self, run: Run) -> list[list[Finding]]:
        """The findings of each step of a run, in the order of the steps."""
        advice = REWRITE
        if run.recipe.spelling:  # a user's own, which the command would not find by itself
            words = f"{WRITE} {run.recipe.spelling} --golden-dir {self.root}"
            advice = REWRITE.replace(WRITE, words)
        hashed, found = self.read_hashed(run.recipe.name), []
        for file, step in zip(self.get_files(run), run.steps, strict=True):
            where = run.label(step)
            if file.stem not in hashed or file.is_file():
                found.append(check_golden_file(file, step.module, where=where, advice=advice))
                continue
            (digest, place), got = hashed[file.stem], print_module(step.module)
            if compute_digest(got) == digest:
                found.append([])
                continue
            first, diff = self.root / place, ""
            text = first.read_text("utf-8", "replace") if first.is_file() else ""
            if compute_digest(text) == digest:
                diff = str(diff_texts(text, got, names=("golden", "got"), context=2))
            message = f"the text changed, and {STEPS_FILE} has its hash (see {place})"
            found.append([Finding("golden", where, f"{message}; {advice}", diff)])
        return found

    def read_hashed(self, recipe: str) -> dict[str, tuple[str, str]]:
        """Digest and place by the label of each step of a recipe whose text is not kept there."""
        file = self.root / recipe / STEPS_FILE
        lines = file.read_text("utf-8", "replace").splitlines() if file.is_file() else []
        rows = [line.split() for line in lines]
        return {row[0]: (row[1], row[2]) for row in rows if len(row) == 3}

    def read_digests(self, recipe: str) -> dict[str, str]:
        """The digest of each step of a recipe but its kernel's, by its label, in their order."""
        files = [path for path in _find_goldens(self.root / recipe) if path.suffix == ".py"]
        digests = {path.stem: compute_digest(path.read_text("utf-8", "replace")) for path in files}
        hashed = {label: digest for label, (digest, _) in self.read_hashed(recipe).items()}
        return dict(sorted({**hashed, **digests}.items()))

    def find_orphans(self, runs: Iterable[Run]) -> list[Finding]:
        """Files and folders that no step of these runs makes."""
        runs = list(runs)
        made = {path for run in runs for path in self.get_files(run)}
        folders = {path.parent for path in made}
        findings = []
        for name in (run.recipe.name for run in runs):
            for label in self.read_hashed(name):
                if self.root / name / f"{label}.py" not in made:
                    message = f"no step of the recipe is this line of {STEPS_FILE}; run `{WRITE}`"
                    findings.append(Finding("golden", f"{name}/{label}", message))
            made.add(self.root / name / STEPS_FILE)
        for path in sorted(path for path in self.root.rglob("*") if path.is_file()):
            if path not in made and path != self.root / VERSION_FILE:
                names = _INPUT if path.parent.name == INPUTS else _GOLDEN
                is_golden = path.parent in folders and names.fullmatch(path.name)
                remove = f"delete it, or run `{WRITE}`"
                advice = remove if is_golden else "delete or move it"
                message = f"no step of any recipe makes this file; {advice}"
                where = path.relative_to(self.root).as_posix()
                findings.append(Finding("golden", where, message))
        return findings

    def write(self, runs: Iterable[Run], *, environment: Mapping[str, str]) -> list[Path]:
        """Write the goldens of these runs, and return what changed.

        Goldens in these recipes' own folders that no step makes any more are deleted; so are
        kernels that no recipe starts from, if these are all recipes that have goldens here. Nothing
        else in the folder is touched. The version of TVM is written last, so that it is never
        beside another version's goldens. Raises `CheckError`, before anything is written, under CI
        (if the environment has CI set), and if other recipes' goldens remain that another TVM
        wrote.
        """
        if is_under_ci(environment):
            raise CheckError(
                "goldens are not rewritten under CI (the environment has CI set); run "
                f"`{WRITE}` on your machine and commit what it changed"
            )
        runs = list(runs)
        order = {name: place for place, name in enumerate(RECIPES)}
        made: dict[str, dict[Path, str]] = {}
        for run in sorted(runs, key=lambda run: order.get(run.recipe.name, len(order))):
            name, kept, lines = run.recipe.name, self._find_kept(run.recipe, made), ""
            files = made.setdefault(name, {})
            for path, step in zip(self.get_files(run), run.steps, strict=True):
                text, first = print_module(step.module), kept.get(step.name)
                if first is None or step.index == 0 or step is run.steps[-1]:
                    files[path] = text
                else:
                    place = first.relative_to(self.root).as_posix()
                    lines += f"{path.stem} {compute_digest(text)} {place}\n"
            files |= {self.root / name / STEPS_FILE: lines} if lines else {}
        texts = {path: text for files in made.values() for path, text in files.items()}
        self.root.mkdir(parents=True, exist_ok=True)
        with locked(self.root / VERSION_FILE):
            # A version is of all goldens, so those of another TVM are rewritten all at once.
            written, ours = self._read_version(), {run.recipe.name for run in runs}
            others = [name for name in self.find_recipes() if name not in ours]
            if written != tvm.__version__ and others:
                named = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
                wrote = "an unknown version of TVM" if written is None else f"TVM {written}"
                raise CheckError(
                    f"{wrote} wrote the goldens of {named} in {self.root}, and TVM "
                    f"{tvm.__version__} is installed; write all recipes at once, and delete the "
                    "folders of recipes that no longer exist"
                )
            changed = [path for path, text in texts.items() if _write(path, text)]
            # Kernels are among what is left where these are all recipes that could start from them.
            is_everything = {run.recipe.name for run in runs}.issuperset(self.find_recipes())
            beside = [*_find_goldens(self.root), *_find_goldens(self.root / INPUTS, _INPUT)]
            left = [path for name in made for path in _find_goldens(self.root / name)]
            left += [
                path
                for path in beside
                if path.name.endswith(PARTIAL) or (is_everything and path.parent.name == INPUTS)
            ]
            for path in sorted(path for path in left if path not in texts):
                path.unlink(missing_ok=True)
                changed.append(path)
            version = self.root / VERSION_FILE
            changed += [version] if _write(version, f"{tvm.__version__}\n") else []
        return changed

    def _find_kept(self, recipe: Recipe, made: Mapping[str, Iterable[Path]]) -> dict[str, Path]:
        """By the names of steps, the first file with each one's text among recipes of the kernel
        before this one; none for a recipe by itself.
        """
        kept: dict[str, Path] = {}
        if not isinstance(recipe, Rung) and "device" not in recipe.config:
            return kept
        for name in itertools.takewhile(lambda name: name != recipe.name, RECIPES):
            if RECIPES[name].kernel_name == recipe.kernel_name:
                for path in made.get(name) or sorted(_find_goldens(self.root / name)):
                    if path.suffix == ".py" and path.parent.name == name:
                        kept.setdefault(path.stem[3:], path)
        return kept

    def find_recipes(self) -> list[str]:
        """The folders that hold goldens, by name: recipes that have been written here."""
        if not self.root.is_dir():
            return []
        folders = (path for path in self.root.iterdir() if path.is_dir() and path.name != INPUTS)
        return sorted(path.name for path in folders if any(_find_goldens(path)))

    def get_files(self, run: Run) -> list[Path]:
        """Where the golden of each step of a run belongs, in the order of the steps."""
        folder = self.root / run.recipe.name
        files = [folder / f"{step_label(step)}.py" for step in run.steps[1:]]
        return [self.root / INPUTS / get_input_name(run.problem), *files]

    def _read_version(self) -> str | None:
        file = self.root / VERSION_FILE
        return file.read_text("utf-8", "replace").strip() if file.is_file() else None


def compute_digest(text: str) -> str:
    """A hash of a step's text, in 16 digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_under_ci(environment: Mapping[str, str]) -> bool:
    """Whether goldens are not to be rewritten: the environment has CI set."""
    return environment.get("CI", "").lower() not in ("", "0", "false")


def get_input_name(problem: AnyProblem) -> str:
    """The file of a kernel at a shape, ``matmul_64x48x32.py``, with the options that are not the
    kernel's defaults: ``conv1d_100x32_over_output.py``, ``softmax_6x64_online.py``. Of a module
    without sizes ``net_module.py``.
    """
    default = problem.kernel.problem(*problem.shape.values()).options
    chosen = [
        f"_{key}" if value is True else f"_{key}_{value}"
        for key, value in problem.options.items()
        if value != default[key]
    ]
    shape = problem.shape_text or "module"
    return f"{problem.kernel.name}_{shape}{''.join(chosen)}.py"


def _find_goldens(folder: Path, names: re.Pattern[str] = _GOLDEN) -> list[Path]:
    files = folder.iterdir() if folder.is_dir() else ()
    return [path for path in files if names.fullmatch(path.name) and path.is_file()]


def check_golden_file(
    file: Path, module: tvm.IRModule, *, where: str, advice: str = REWRITE
) -> list[Finding]:
    """The finding of a module that does not print as its golden, with the diff; none where it does.

    `advice` says how the golden is written again.
    """
    name = f"{file.parent.name}/{file.name}"
    if not file.is_file():
        return [Finding("golden", where, f"the golden {name} is missing; {advice}")]
    # As it is: Python would make one line end of all, and git shows the others as changes.
    expected, got = file.read_bytes().decode(errors="replace"), print_module(module)
    if expected == got:
        return []
    diff = str(diff_texts(expected, got, names=("golden", "got"), context=2))
    is_same = False
    with contextlib.suppress(Exception):  # of a file edited by hand: the parser raises many kinds
        # Both are parsed, so that lossy printing cancels out.
        one, other = (from_source(text, check_well_formed=False) for text in (expected, got))
        is_same = bool(tvm_ffi.structural_equal(one, other, map_free_vars=True))
    message = "the same program, named or printed differently" if is_same else "the program changed"
    return [Finding("golden", where, f"{message}; {advice}", diff)]


def _write(path: Path, text: str) -> bool:
    if path.is_file() and path.read_bytes() == text.encode():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, text, durable=False)  # git and `check` tell what is damaged
    return True
