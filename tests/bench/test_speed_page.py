"""The numbers that docs/speed.md tells between its tables are those of stored profiles and runs.

How it tells them is its own affair: a paragraph may have any words, and no number with a unit that
the profiles which it links to do not have.
"""

import math
import re
from pathlib import Path

import pytest
from ladder_pages import Document, find_profile, read_profile

from tirstep.bench.results import BenchRun, read_run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "speed.md"
RUN = PAGE.parents[1] / "benchmarks" / "results" / "bench-nvidia-h200.json"
PROFILE = re.compile(r"\]\((\S*/profile-\S+\.json)\)")
NUMBER = re.compile(r"\d+ (?:%|µs|blocks|multiprocessors)")
SHAPE = re.compile(r"\d+×\d+×\d+")


def read_paragraphs() -> list[str]:
    """Each in one line; tables are none."""
    texts = PAGE.read_text().split("\n\n")
    return [" ".join(text.split()) for text in texts if not text.startswith("|")]


PROFILED = [paragraph for paragraph in read_paragraphs() if PROFILE.search(paragraph)]


def find_strays(paragraph: str) -> set[str]:
    """The numbers and shapes of a paragraph that no profile which it links to has."""
    known = set()
    for link in PROFILE.findall(paragraph):
        profile = read_profile(PAGE.parent / link)
        known |= {"×".join(map(str, profile["shape"].values()))}
        known |= {f"{profile['device']['multiprocessors']} multiprocessors"}
        for kernel in find_profile(profile, "matmul_best")["kernels"]:
            known |= spell(kernel)
    prose = PROFILE.sub("]", paragraph)
    return {*NUMBER.findall(prose), *SHAPE.findall(prose)} - known


def spell(kernel: Document) -> set[str]:
    """What a profile has of a kernel: rates, time, blocks, and why its warps wait, in percent of
    the time in which they do not issue.
    """
    stalls, counters = kernel["stalls"], kernel["counters"]
    waiting = [share / (1 - stalls["selected"]) for share in stalls.values()]
    blocks = math.prod(int(size) for size in re.findall(r"\d+", kernel["grid"]))
    rates = [counters[name] for name in ("issue_pct", "fma_pct", "dram_pct")]
    return {
        f"{kernel['duration_us']:.0f} µs",
        f"{blocks} blocks",
        *(f"{percent:.0f} %" for percent in (*rates, *(100 * share for share in waiting))),
    }


def find_rate(run: BenchRun, shape: str) -> float:
    """Operations per microsecond of `matmul_best` in the suite."""
    sizes = [int(size) for size in shape.split("×")]
    (case,) = [
        case for case in run.cases if (case.suite, [*case.shape.values()]) == ("matmul", sizes)
    ]
    (time,) = [row.time for row in case.outcomes if row.candidate == "matmul_best"]
    assert time is not None
    return case.flops / time.median_us


@pytest.mark.parametrize("paragraph", PROFILED, ids=lambda paragraph: paragraph[:24])
def test_the_numbers_are_those_of_the_profiles(paragraph: str):
    assert find_strays(paragraph) == set()


def test_the_rate_where_no_tile_divides_is_that_of_the_run():
    odd, even = "1000×777×333", "1024×768×336"
    run = read_run(RUN)
    loss = 100 * (1 - find_rate(run, odd) / find_rate(run, even))
    (paragraph,) = [text for text in read_paragraphs() if {odd, even} <= {*SHAPE.findall(text)}]
    assert NUMBER.findall(paragraph) == [f"{loss:.0f} %"]
