"""``tirstep readme``: fills what is generated in README.md and docs/speed.md, between markers, and
writes the pages of ladders and the plots."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import tirstep.transforms
from tirstep.bench.markdown import to_markdown
from tirstep.bench.tables import Table
from tirstep.files import write_file
from tirstep.lowering_checks.diff import diff_texts
from tirstep.transforms.recipes import LADDERS

from .bench_parts import find_bench_writers, make_all_plots
from .ladder_pages import find_strays, make_pages
from .refusals import UseError
from .screen import Screen
from .texts import first_sentence, spell_config

Writer = Callable[[], str]

_MARKER = re.compile(r"^<!-- (begin|end) ([\w-]+) -->$", re.MULTILINE)
SPEED = Path("docs", "speed.md")
"""Beside the README: the tables and plots of all suites."""
_SLOWEST_PROGRAM = 120  # seconds


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
    own: dict[str, Writer] = {
        "first-diff": lambda: write_first_diff(before),
        "transforms": write_transforms,
        "recipes": write_recipes,
    }
    texts = {readme: fill_markers(before, own | find_bench_writers(readme, results), str(readme))}
    if (speed := readme.parent / SPEED).is_file():
        writers = find_bench_writers(speed, results)
        texts[speed] = fill_markers(speed.read_text(encoding="utf-8"), writers, str(speed))
    return texts


def read_text(file: Path) -> str:
    """What a file holds; empty where there is none."""
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _show_stale(screen: Screen, file: Path, text: str) -> None:
    names = (f"{file} as it is", "as it is generated")
    screen.diff(diff_texts(read_text(file), text, names=names).lines)
    screen.line((f"{file} is stale: ", "bold red"), "write it anew with `tirstep readme`")


def fill_markers(text: str, writers: Mapping[str, Writer], who: str) -> str:
    """Replace what stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``, per writer.

    Raises `UseError` unless every name has one pair of markers, and every marker a name. Nothing
    is written before that is known.
    """
    marks = [(kind, name) for kind, name in _MARKER.findall(text)]
    for name in writers:
        if [kind for kind, of in marks if of == name] != ["begin", "end"]:
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


def write_first_diff(text: str) -> str:
    """What the first Python program of a Markdown text prints, which is a diff."""
    found = re.search(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise UseError("the file has no ```python block, whose output first-diff is; write one")
    return f"```diff\n{run_program(found.group(1)).rstrip()}\n```"


def run_program(program: str) -> str:
    """What a program prints; raises `UseError` if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "program.py")  # a file, since TVMScript reads the source of its kernels
        file.write_text(program, encoding="utf-8")
        try:
            done = subprocess.run(
                [sys.executable, str(file)],
                capture_output=True,
                check=True,
                encoding="utf-8",
                timeout=_SLOWEST_PROGRAM,
            )
        except subprocess.SubprocessError as error:
            lines = (getattr(error, "stderr", "") or "").strip().splitlines()
            reason = lines[-1] if lines else str(error)
            raise UseError(f"the first Python program fails: {reason}; mend it first") from None
    return done.stdout


def write_transforms() -> str:
    """The table of all transforms and questions."""
    public = {name: getattr(tirstep.transforms, name) for name in tirstep.transforms.__all__}
    functions = {name: one for name, one in public.items() if not isinstance(one, type)}
    rows = [[f"`{name}`", first_sentence(one.__doc__)] for name, one in functions.items()]
    return to_markdown(Table(["transform", "what it does"], rows, 0))


def write_recipes() -> str:
    """The table of all ladders with their recipes, slow to fast."""
    rows = [
        [
            name if number == 0 else "",
            f"`{recipe.name}`",
            f"`{spell_config(recipe.delta)}`" if recipe.delta else "",
            first_sentence(recipe.doc),
        ]
        for name, ladder in LADDERS.items()
        for number, recipe in enumerate(ladder)
    ]
    return to_markdown(Table(["ladder", "recipe", "adds", "why"], rows, 0))
