"""Write docs/mutants.md: which layer of the checks kills which planted bug (`make mutants`); and
docs/bounds.md: how tight the bounds of the numeric checks are.
"""

import sys
from pathlib import Path

from planted import MUTANTS, bounds, elsewhere
from planted.table import render

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "mutants.md"


def main() -> None:
    """Ask the layers, host too where it runs, and write and print the table."""
    elsewhere.ask_host(MUTANTS)
    text = render(MUTANTS)
    DOCUMENT.parent.mkdir(exist_ok=True)
    DOCUMENT.write_text(text)
    sys.stdout.write(text)
    DOCUMENT.with_name("bounds.md").write_text(bounds.render(list(bounds.measure())))


if __name__ == "__main__":
    main()
