"""Fills what is generated in README.md and in pages of docs (speed, shapes, tutorials, tutorial,
own-programs), between markers, and writes the pages of ladders: ``make docs``.

``<!-- begin output-NAME -->`` right below a Python block holds what the program prints,
``<!-- begin file-NAME -->`` the text of NAME.py, and ``<!-- begin commands -->``, or commands-NAME,
a block of commands after ``$``, each with what it prints.
``<!-- begin bench-SUITE -->`` holds what the newest run of ``tirstep bench`` with that suite
measured, ``<!-- begin bench-overview -->`` a row a kernel, and `shapes_page` and `tutorials_page`
have their own markers.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from ladder_pages import describe_run, find_strays, make_pages
from plots import find_runs
from shapes_page import find_shapes_writers
from tutorials_page import find_tutorial_writers

from tirstep.bench import BenchError
from tirstep.bench.cases import LADDER_SUITES, NOT_MEASURED, SUITES, TUTORIAL
from tirstep.bench.metrics import (
    Row,
    Table,
    compute_ratio,
    find_reasons,
    format_ratio,
    format_share,
    geometric_mean,
    get_fastest_recipes,
    get_measured_cases,
    make_summary,
    share,
)
from tirstep.bench.peers import SUITE_PEERS
from tirstep.bench.results import BenchRun, Case, read_run
from tirstep.cli.screen import Screen
from tirstep.cli.wrong_use import UseError
from tirstep.files import write_file

Writer = Callable[[], str]

_MARKER = re.compile(r"^<!-- (begin|end) ([\w-]+) -->$", re.MULTILINE)
SPEED, SHAPES = Path("docs", "speed.md"), Path("docs", "shapes.md")
"""Beside the README: the tables of suites, and those of what is chosen at random shapes."""
TUTORIALS = Path("docs", "tutorials.md")
"""The steps of texts, with our times."""
FOLDERS = {
    Path("docs", "own-programs.md"): Path("examples", "tutorial"),
    Path("docs", "tutorial.md"): Path("examples", "first_steps"),
}
"""Pages with files and commands, and where these are and run."""

_PROGRAM = re.compile(r"^```python\n((?:(?!```).*\n)+)```\n+<!-- begin (output-[\w-]+) -->$", re.M)
_COMMANDS = re.compile(r"^<!-- begin (commands[\w-]*) -->\n(.*?)^<!-- end \1 -->$", re.M | re.S)
_FILE = re.compile(r"^<!-- begin (file-(\w+)) -->$", re.M)
_COMMAND = re.compile(r"^\$ (.+)$", re.M)
_SLOWEST = 120  # seconds
_WIDTH = 104
_SHELL = ("bash", "-o", "pipefail", "-c")


def find_output_writers(text: str, folder: Path | None) -> dict[str, Writer]:
    """What fills the markers of outputs that a Markdown text has; files are in the folder, and
    commands run in a copy of it, or in an empty one, where a reader has no clone.
    """

    def write_output(program: str) -> str:
        """What a program prints, as a diff if it begins like one; long lines are folded."""
        with tempfile.TemporaryDirectory() as place:
            file = Path(place, "program.py")  # TVMScript reads the source of its kernels
            file.write_text(program, encoding="utf-8")
            printed = _run([sys.executable, str(file)], Path(place), what="a Python program")
        if printed.startswith("--- "):
            return f"```diff\n{printed.rstrip()}\n```"
        return f"```text\n{_fold(printed)}\n```"

    def write_commands(block: str) -> str:
        """Each command, and what it prints."""
        with tempfile.TemporaryDirectory() as scratch:
            place = Path(scratch)
            if folder is not None:
                shutil.copytree(folder, place, dirs_exist_ok=True)
            told = [(it, _run([*_SHELL, it], place, what=it)) for it in _COMMAND.findall(block)]
        told = [(it, _fold(printed)) for it, printed in told]
        return "```console\n" + "".join(f"$ {it}\n{printed}\n" for it, printed in told) + "```"

    def write_file_text(name: str) -> str:
        text = Path(folder or ".", f"{name}.py").read_text(encoding="utf-8")
        return f"```python\n{text.rstrip()}\n```"

    return (
        {name: partial(write_output, program) for program, name in _PROGRAM.findall(text)}
        | {marker: partial(write_file_text, name) for marker, name in _FILE.findall(text)}
        | {name: partial(write_commands, block) for name, block in _COMMANDS.findall(text)}
    )


def _fold(printed: str) -> str:
    """With long lines folded, but of a diff."""
    folding = textwrap.TextWrapper(_WIDTH, subsequent_indent="    ", break_on_hyphens=False)
    is_text = not printed.startswith("--- ")
    lines = [
        folding.wrap(it) if is_text and len(it) > _WIDTH else [it] for it in printed.splitlines()
    ]
    return "\n".join(itertools.chain.from_iterable(lines)).strip("\n")


def _run(call: Sequence[str], folder: Path, *, what: str) -> str:
    """What a program prints; raises `UseError` if it fails."""
    here = str(Path(sys.executable).parent)
    path = os.pathsep.join([here, os.environ.get("PATH", "")])
    try:
        done = subprocess.run(
            call,
            cwd=folder,
            capture_output=True,
            check=True,
            encoding="utf-8",
            timeout=_SLOWEST,
            env={**os.environ, "PATH": path, "NO_COLOR": "1", "CUDA_VISIBLE_DEVICES": ""},
        )
    except subprocess.SubprocessError as error:
        lines = (getattr(error, "stderr", "") or "").strip().splitlines()
        reason = lines[-1] if lines else str(error)
        raise UseError(f"{what} fails: {reason}; fix it first") from None
    return str(done.stdout)


def write_suite(run: BenchRun, suite: str) -> str:
    """What a suite's markers hold: where it was measured, a row a case, and what is missing."""
    cases = [case for case in run.cases if case.suite == suite]
    lines = []
    for case in cases:
        skipped = [f"skipped: {case.skipped}"] if case.skipped else []
        lines += [f"- {case.title}: {reason}" for reason in [*skipped, *find_reasons(case)]]
    parts = [describe_run(run), make_summary(run, suite).to_markdown(), "\n".join(lines)]
    return "\n\n".join(filter(None, parts))


def write_overview(measured: Mapping[str, BenchRun]) -> str:
    """What the overview's markers hold: where each suite was measured, and a row for each kernel of
    a suite, with the suite's name where an earlier one has the kernel, too.

    Of each case the fastest recipe counts: the largest share of a ceiling, and the geometric mean
    of the ratios to each peer, over the cases in which both have a time. `measured` are runs by
    suite.
    """
    places: dict[str, list[str]] = {}
    others = [peer for peer in SUITE_PEERS if peer.name != "torch"]
    header = ["kernel", "cases", "of ceiling, at best", "× PyTorch", "lowest × PyTorch"]
    header += [f"× {peer.title}" for peer in others]
    rows: list[Row] = []
    for suite, run in measured.items():
        places.setdefault(f"{run.place}, {run.date[:10]}", []).append(suite)
        kernels: dict[str, list[Case]] = {}
        for case in get_measured_cases(run, suite):
            kernels.setdefault(case.kernel, []).append(case)
        for kernel, cases in kernels.items():
            label = f"`{kernel}`"
            label += f", {suite}" if any(row[0] == label for row in rows) else ""
            bests = get_fastest_recipes(cases)
            shares = [share(case, best, run.ceilings) for case, best in bests]
            reached = max((value for value in shares if value is not None), default=None)
            ratios = {
                name: [compute_ratio(case, name) for case in cases]
                for name in ("torch", *(peer.name for peer in others))
            }
            lowest = min((it for it in ratios["torch"] if it is not None), default=None)
            mean, *means = (format_ratio(geometric_mean(it)) for it in ratios.values())
            cells = [str(len(cases)), format_share(reached), mean, format_ratio(lowest), *means]
            rows.append([label, *cells])
    where = "; ".join(f"{place}: {', '.join(names)}" for place, names in places.items())
    return f"{where}.\n\n{Table(header, rows, len(header) - 1).to_markdown()}"


def find_bench_writers(text: str, folder: Path) -> dict[str, Writer]:
    """What fills the markers of runs that a document has, from the newest run of each suite.

    ``bench-<suite>`` is a suite's table, ``bench-overview`` a row for each kernel. A writer raises
    `BenchError` where no file of the folder has its suite.
    """
    files = find_runs(folder)
    suites = [suite for suite in SUITES if suite not in (*LADDER_SUITES, *NOT_MEASURED)]

    def write_newest(suite: str) -> str:
        return write_suite(find_newest(files, suite)[1], suite)

    def write_newest_overview() -> str:
        return write_overview({suite: find_newest(files, suite)[1] for suite in suites})

    writers: dict[str, Writer] = {f"bench-{it}": partial(write_newest, it) for it in SUITES}
    writers["bench-overview"] = write_newest_overview
    return {name: writer for name, writer in writers.items() if f"<!-- begin {name} -->" in text}


def find_newest(files: Iterable[Path], suite: str) -> tuple[Path, BenchRun]:
    """The newest run among files that has a suite; raises `BenchError` if none has."""
    runs = {file: read_run(file) for file in sorted(files)}
    having = {
        file: run for file, run in runs.items() if any(case.suite == suite for case in run.cases)
    }
    if not having:
        raise BenchError(f"no file has the suite '{suite}'; write one on a GPU with: make bench")
    return max(having.items(), key=lambda pair: pair[1].date)


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
    root = readme.parent
    writers: dict[Path, Callable[[str], dict[str, Writer]]] = {
        readme: lambda text: find_output_writers(text, None) | find_bench_writers(text, results),
        root / SPEED: lambda text: find_bench_writers(text, results),
        root / SHAPES: lambda text: find_shapes_writers(results),
        root / TUTORIALS: lambda text: find_tutorial_writers(
            text, find_newest(find_runs(results), TUTORIAL)[1]
        ),
    }
    for page, folder in FOLDERS.items():
        writers[root / page] = partial(find_output_writers, folder=root / folder)
    texts = {}
    for file, find_writers in writers.items():
        if file == readme or file.is_file():
            text = file.read_text(encoding="utf-8")
            texts[file] = fill_markers(text, find_writers(text), str(file))
    texts |= make_pages(root, results)
    screen, strays = Screen(), find_strays(root, texts)
    stale = [it for it in texts if not it.is_file() or it.read_text("utf-8") != texts[it]]
    for file in stale:
        if only_check:
            screen.line((f"{file} is stale: ", "bold red"), "write it again with `make docs`")
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_file(file, texts[file])
            screen.line((f"wrote {file}", "green"))
    for file in strays:
        screen.line((f"{file} is of no ladder with results: ", "bold red"), "remove it")
    if not stale and not strays:
        screen.line(f"{readme} is up to date")
    return 1 if strays or (stale and only_check) else 0


def fill_markers(text: str, writers: Mapping[str, Writer], document: str) -> str:
    """Replace what stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``, per writer.

    Raises `UseError` unless every name has one pair of markers, and every marker a name. Nothing
    is written before that is known.
    """
    marks = [(kind, name) for kind, name in _MARKER.findall(text)]
    for name in writers:
        if [kind for kind, marked in marks if marked == name] != ["begin", "end"]:
            raise UseError(
                f"{document} needs the lines <!-- begin {name} --> and <!-- end {name} -->, once "
                "each and in this order; put them where the generated part belongs"
            )
    for _, name in marks:
        if name not in writers:
            known = ", ".join(writers)
            raise UseError(f"{document} has a marker of '{name}', which nothing fills; use {known}")
    for name, writer in writers.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        head, _, rest = text.partition(f"{begin}\n")
        _, _, tail = rest.partition(end)
        text = f"{head}{begin}\n{writer()}\n{end}{tail}"
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
