"""What the generators of single pages share: Markdown's small forms, and writing or comparing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tirstep.files import write_file

DOCS = Path(__file__).resolve().parents[1]
GENERATED = "<!-- Written by `make pages` from the sources; changes here are lost. -->\n"


def write_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, right: int = 0) -> str:
    """A Markdown table, whose last columns are aligned to the right; bars in cells are escaped."""
    rule = ["---"] * (len(head) - right) + ["---:"] * right
    lines = [head, rule, *rows]
    cells = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def spell_shape(shape: Mapping[str, int]) -> str:
    """``1024×512×2048``."""
    return "×".join(map(str, shape.values()))


def update_page(name: str, make: Callable[[], str]) -> None:
    """Write a page of docs and say so, where it is not as it is made."""
    page, text = DOCS / name, make()
    if not page.is_file() or page.read_text(encoding="utf-8") != text:
        write_file(page, text)
        print(f"wrote {page.relative_to(DOCS.parent)}", file=sys.stderr)
