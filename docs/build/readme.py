"""Fills what is generated in README.md and in docs, speed.md and own-programs.md, between markers,
and writes the pages of ladders and the plots: ``make readme``.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench_markdown import find_bench_writers, make_all_plots
from ladder_pages import find_strays, make_pages
from readme_outputs import find_output_writers

from tirstep.bench import BenchError
from tirstep.cli.screen import Screen
from tirstep.cli.wrong_use import UseError
from tirstep.files import write_file
from tirstep.lowering_checks.diff import diff_texts

Writer = Callable[[], str]

_MARKER = re.compile(r"^<!-- (begin|end) ([\w-]+) -->$", re.MULTILINE)
SPEED = Path("docs", "speed.md")
"""Beside the README: the tables and plots of all suites."""
OWN_PROGRAMS, TUTORIAL = Path("docs", "own-programs.md"), Path("examples", "tutorial")
"""A page with commands, and where they are run."""


def main(arguments: Sequence[str]) -> int:
    """Fill the documents, or with ``--check`` say what is stale; 2 where that cannot be done."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--readme", type=Path, default=Path("README.md"), metavar="FILE")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"), metavar="DIR")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 where it is stale")
    options = parser.parse_args(arguments)
    try:
        return fill_readme(options.readme, options.results, only_check=options.check)
    except (UseError, BenchError, OSError) as error:
        print(f"readme: {error}", file=sys.stderr)
        return 2


def fill_readme(readme: Path, results: Path, *, only_check: bool) -> int:
    """Write all that is generated; with `only_check` say what would change.

    Returns 1 if something would, and where a page is of no ladder that was measured.
    """
    texts = _fill_documents(readme, results)
    texts |= make_pages(readme.parent, results)
    texts |= make_all_plots(results)
    stale = {file: text for file, text in texts.items() if read_text(file) != text}
    screen = Screen()
    for file, text in stale.items():
        if only_check:
            _show_stale(screen, file, text)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_file(file, text)
            screen.line((f"wrote {file}", "green"))
    for file in (strays := find_strays(readme.parent, texts)):
        screen.line((f"{file} is of no ladder with results: ", "bold red"), "remove it")
    if not stale and not strays:
        screen.line(f"{readme} is up to date")
    return 1 if strays or (stale and only_check) else 0


def _fill_documents(readme: Path, results: Path) -> dict[Path, str]:
    before = readme.read_text(encoding="utf-8")
    own = find_output_writers(before, readme.parent)
    texts = {readme: fill_markers(before, own | find_bench_writers(readme, results), str(readme))}
    if (speed := readme.parent / SPEED).is_file():
        writers = find_bench_writers(speed, results)
        texts[speed] = fill_markers(speed.read_text(encoding="utf-8"), writers, str(speed))
    if (page := readme.parent / OWN_PROGRAMS).is_file():
        text = page.read_text(encoding="utf-8")
        texts[page] = fill_markers(
            text, find_output_writers(text, readme.parent / TUTORIAL), str(page)
        )
    return texts


def read_text(file: Path) -> str:
    """What a file holds; empty where there is none."""
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _show_stale(screen: Screen, file: Path, text: str) -> None:
    names = (f"{file} as it is", "as it is generated")
    screen.diff(diff_texts(read_text(file), text, names=names).lines)
    screen.line((f"{file} is stale: ", "bold red"), "write it again with `make readme`")


def fill_markers(text: str, writers: Mapping[str, Writer], who: str) -> str:
    """Replace what stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``, per writer.

    Raises `UseError` unless every name has one pair of markers, and every marker a name. Nothing
    is written before that is known.
    """
    marks = [(kind, name) for kind, name in _MARKER.findall(text)]
    for name in writers:
        if [kind for kind, marked in marks if marked == name] != ["begin", "end"]:
            raise UseError(
                f"{who} needs the lines <!-- begin {name} --> and <!-- end {name} -->, once each "
                "and in this order; put them where the generated part belongs"
            )
    for _, name in marks:
        if name not in writers:
            known = ", ".join(writers)
            raise UseError(f"{who} has a marker of '{name}', which nothing fills; use {known}")
    for name, writer in writers.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        head, _, rest = text.partition(f"{begin}\n")
        _, _, tail = rest.partition(end)
        text = f"{head}{begin}\n{writer()}\n{end}{tail}"
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
