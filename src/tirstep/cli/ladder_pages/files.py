"""The pages as files: ``docs/ladders/<ladder>.md`` and the plot beside each."""

from __future__ import annotations

from pathlib import Path

from .changes import read_programs
from .find import find_ladders
from .page import draw_plot, write_page

GOLDENS = Path("tests", "golden")
PAGES = Path("docs", "ladders")


def make_pages(root: Path, results: Path) -> dict[Path, str]:
    """The text of each file of pages, of the ladders that a folder of results has measured.

    `root` is the top of the repository. Raises `UseError` where a recipe's goldens are missing,
    `BenchError` for a file of results that is none.
    """
    texts = {}
    for measured in find_ladders(results):
        name, recipes = measured.ladder.name, measured.ladder
        goldens = {recipe.name: read_programs(root / GOLDENS, recipe) for recipe in recipes}
        texts[root / PAGES / f"{name}.md"] = write_page(measured, goldens)
        texts[root / PAGES / f"{name}.svg"] = draw_plot(measured)
    return texts


def find_strays(root: Path, texts: dict[Path, str]) -> list[Path]:
    """Pages on the disk that no result makes."""
    files = sorted(file for file in (root / PAGES).glob("*") if file.suffix in (".md", ".svg"))
    return [file for file in files if file not in texts]
