"""The pages as files: ``docs/ladders/<kernel>.md`` and the plot beside each."""

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
    for ladder in find_ladders(results):
        goldens = {recipe.name: read_programs(root / GOLDENS, recipe) for recipe in ladder.recipes}
        texts[root / PAGES / f"{ladder.kernel}.md"] = write_page(ladder, goldens)
        texts[root / PAGES / f"{ladder.kernel}.svg"] = draw_plot(ladder)
    return texts


def find_strays(root: Path, texts: dict[Path, str]) -> list[Path]:
    """Pages on the disk that no result makes."""
    files = sorted(file for file in (root / PAGES).glob("*") if file.suffix in (".md", ".svg"))
    return [file for file in files if file not in texts]
