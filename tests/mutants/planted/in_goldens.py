"""Faults in the folder of goldens itself."""

from pathlib import Path

from .plant import Edit, GoldenMutant
from .traces import rebind

RECIPE = "matmul_threads_1d"
FILE = f"{RECIPE}/02_bound.py"


def _edit(old: str, new: str, file: str = FILE):
    def plant(root: Path) -> None:
        path = root / file
        path.write_text(Edit(old, new).apply(path.read_text()))

    return plant


def _swap(root: Path) -> None:
    first, second = root / RECIPE / "01_rows_tiled.py", root / FILE
    one, other = first.read_text(), second.read_text()
    first.write_text(other)
    second.write_text(one)


def _plant(name: str, kind: str, text: str, plant, **more) -> GoldenMutant:
    return GoldenMutant(
        name=name, kind=kind, text=text, plant=plant, **{"original": RECIPE, **more}
    )


IN_GOLDENS = (
    _plant(
        "golden of yesterday",
        "stale golden",
        "the recipe has tiles of 16, the golden still of 8",
        _edit("T.grid(4, 48, 16, 32)", "T.grid(8, 48, 8, 32)", f"{RECIPE}/01_rows_tiled.py"),
    ),
    _plant(
        "golden of another TVM",
        "stale golden",
        "the goldens were written by another version of TVM",
        lambda root: (root / "TVM_VERSION").write_text("0.26.0\n"),
    ),
    _plant(
        "goldens of two steps swapped",
        "stale golden",
        "each of two steps has the other's golden",
        _swap,
    ),
    _plant(
        "block renamed",
        "stale golden",
        "the kernel's block has another name than in the golden",
        _edit('T.sblock("C")', 'T.sblock("product")'),
    ),
    _plant(
        "merge gone wrong",
        "stale golden",
        "a conflict's marker is left in a golden",
        _edit("@I.ir_module", "<<<<<<< HEAD\n@I.ir_module"),
    ),
    _plant(
        "golden never written",
        "missing golden",
        "a step has no golden",
        lambda root: (root / FILE).unlink(),
    ),
    _plant(
        "step removed",
        "orphan",
        "the golden of a step that the recipe has no more",
        lambda root: (root / RECIPE / "03_more.py").write_text("x = 1\n"),
    ),
    _plant(
        "recipe removed",
        "orphan",
        "the folder of a recipe that exists no more",
        lambda root: _write_folder(root / "matmul_gone"),
    ),
    _plant(
        "bug made golden",
        "wrong golden",
        "both loops are bound to blockIdx.x, and `make golden` was run: the golden has the bug",
        lambda root: None,
        original="matmul_naive, square",
        trace=(rebind("blockIdx.y", "blockIdx.x"),),
    ),
)


def _write_folder(folder: Path) -> None:
    folder.mkdir()
    (folder / "01_bound.py").write_text("x = 1\n")
