"""Writes the table of docs/cluster.md: what more GPUs would do, by a simulation of the scheduler.

``python docs/build/cluster_page.py`` takes benchmarks/cluster-seconds.json, in the form of the file
that ``tirstep search --cluster ADDRESS --trials DIR`` leaves; another file may be named, which is
printed and not written. A test holds the page to it.
"""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path

from tirstep.bench.rounds import AHEAD
from tirstep.bench.tables import Table
from tirstep.cluster.simulating import Simulated, TaskTimes, simulate
from tirstep.files import write_file

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/cluster.md"
SECONDS = ROOT / "benchmarks/cluster-seconds.json"
BEGIN, END = "<!-- simulated: begin -->", "<!-- simulated: end -->"
SEARCHES = (128, 1024, 4200, 10000)
GPUS = (1, 2, 8, 100)
CORES = 15
"""That compile, of sixteen for each GPU; the last one is for the process that measures."""
ROUNDS = 4200
"""Candidates of the search for which the rounds are compared."""


def read_times(file: Path) -> TaskTimes:
    """Of a search's file; what it does not have is as in the project's own.

    What a search says of measuring has each candidate's share of the warming up.
    """
    given = json.loads(SECONDS.read_text(encoding="utf-8"))
    read = json.loads(file.read_text(encoding="utf-8"))
    each = {**given["seconds"], **read["seconds"]}
    shared = {"warm_up": 0.0} if "measure" in read["seconds"] else {}
    once = {**given["once"], **shared, **read.get("once", {})}
    return TaskTimes(each["compile"], each["measure"], **once)


def write_part(file: Path) -> str:
    """The table, and where its numbers come from."""
    times, about = read_times(file), json.loads(file.read_text(encoding="utf-8"))
    rows = [row for count in SEARCHES for row in _list_rows(times, count)]
    header = ["candidates", "GPUs", "takes", "speed-up", "compiling", "measuring", "limited by"]
    sentences = about.get("source", f"Task times of {file.name}.")
    parts = [
        textwrap.fill(sentences, 110),
        Table(header, rows).to_markdown(),
        *_compare_rounds(times),
    ]
    return "\n\n".join([*parts, ""])


def _compare_rounds(times: TaskTimes) -> list[str]:
    """What it saves that a round is under way while the one in front of it ends."""
    header = ["rounds", "GPUs", "takes", "speed-up", "compiling waits", "measuring waits"]
    rows = []
    for ahead, name in ((0, "one after the other"), (AHEAD, "the next one is under way")):
        runs = [simulate(times, ROUNDS, gpus, CORES, ahead) for gpus in GPUS]
        for run in runs:
            waits = [f"{run.waited[step]:.1%}" for step in ("compile", "measure")]
            speed_up = f"{runs[0].seconds / run.seconds:.2f}"
            rows.append([name, str(run.gpus), f"{run.seconds:,.0f} s", speed_up, *waits])
    sentence = f"What the overlap of rounds saves, for {ROUNDS:,} candidates:"
    return [sentence, Table(header, rows).to_markdown()]


def _list_rows(times: TaskTimes, count: int) -> list[list[str]]:
    runs = [simulate(times, count, gpus, CORES) for gpus in GPUS]
    return [_spell(run, count, runs[0].seconds / run.seconds) for run in runs]


def _spell(run: Simulated, count: int, speed_up: float) -> list[str]:
    parts = [f"{run.busy[step]:.0%}" for step in ("compile", "measure")]
    return [
        f"{count:,}",
        str(run.gpus),
        f"{run.seconds:,.0f} s",
        f"{speed_up:.2f}",
        *parts,
        run.limit,
    ]


def fill(page: str, part: str) -> str:
    """The page with another table."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"docs/cluster.md has no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{part}\n{END}{after}"


def main() -> int:
    """Write the page, or print what another file comes to."""
    if sys.argv[1:]:
        print(write_part(Path(sys.argv[1])))
        return 0
    write_file(PAGE, fill(PAGE.read_text(encoding="utf-8"), write_part(SECONDS)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
