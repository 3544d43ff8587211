"""What docs/speed.md says of a profile is what the profile has, and of a run what the run has."""

import math
import re
from pathlib import Path

import pytest

from tirstep.bench.profile.results import ProfileRun, read_profile
from tirstep.bench.results import BenchRun, read_run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "speed.md"
RUN = PAGE.parents[1] / "benchmarks" / "results" / "bench-nvidia-h200.json"
PROFILE = re.compile(r"\]\((\S*/profile-\S+\.json)\)")
BLOCKS = 2
"""That a multiprocessor runs at the same time, by their registers."""


def read_paragraphs() -> list[str]:
    """Each in one line."""
    return [" ".join(one.split()) for one in PAGE.read_text().split("\n\n")]


def read_paragraph(beginning: str) -> str:
    (found,) = [one for one in read_paragraphs() if one.startswith(beginning)]
    return found


def name_shape(profile: ProfileRun) -> str:
    return "×".join(map(str, profile.shape.values()))


def find_faults(words: str) -> list[str]:
    """What a paragraph with a link to a profile of `matmul_best` says otherwise, or beyond it."""
    (link,) = PROFILE.findall(words)
    profile = read_profile(PAGE.parent / link)
    (kernel,) = profile.find("matmul_best").kernels
    counters = kernel.counters
    waiting = {
        of: 100 * kernel.stalls[of] / (1 - kernel.stalls["selected"]) for of in kernel.stalls
    }
    sentences = [
        f"At {name_shape(profile)} [the profiler]",
        f"saw `matmul_best` issue in {counters['issue_pct']:.0f} % of all cycles,",
        f"with the FMA pipe at {counters['fma_pct']:.0f} % of its peak",
        f"and DRAM at {counters['dram_pct']:.0f} %.",
        "Of the time in which a warp does not issue, "
        f"it is ready in {waiting['not_selected']:.0f} %, but another one is chosen;",
        f"in {waiting['dispatch_stall']:.0f} % the dispatcher holds it back (`dispatch_stall`),",
        f"and in {waiting['short_scoreboard']:.0f} % it waits for shared memory.",
    ]
    told = set(re.findall(r"\d+ %", words)) - set(re.findall(r"\d+ %", " ".join(sentences)))
    return [one for one in sentences if one not in words] + sorted(told)


def find_faults_of_single_waves(words: str) -> list[str]:
    """What the paragraph about products whose blocks run all at once says otherwise."""
    *links, drifted = PROFILE.findall(words)
    sentences = [find_waiting(drifted)]
    for link in links:
        sentences.append(find_waiting(link))
        profile = read_profile(PAGE.parent / link)
        shape, (first, *others) = name_shape(profile), profile.find("matmul_best").kernels
        blocks = math.prod(int(size) for size in re.findall(r"\d+", first.grid))
        places = BLOCKS * int(str(profile.device["multiprocessors"]))
        sentences += [
            f"t {shape} [it]({link}) issues in {first.counters['issue_pct']:.0f} % of all cycles, "
            f"with the FMA pipe at {first.counters['fma_pct']:.0f} %",
            f"Both have {blocks} blocks, for {places} places on",
            *(f"a second kernel adds up the parts, in {one.duration_us:.0f} µs" for one in others),
        ]
    return [one for one in sentences if one not in words]


def find_waiting(link: str) -> str:
    """How a profile's waiting for global memory is told."""
    profile = read_profile(PAGE.parent / link)
    stalls = profile.find("matmul_best").kernels[0].stalls
    share = 100 * stalls["long_scoreboard"] / (1 - stalls["selected"])
    return f"in {share:.0f} % at {name_shape(profile)}"


def find_rate(run: BenchRun, m: int, n: int, k: int) -> float:
    """Operations per second of `matmul_best` in the suite."""
    shape = {"m": m, "n": n, "k": k}
    (case,) = [one for one in run.cases if one.suite == "matmul" and dict(one.shape) == shape]
    (time,) = [one.time for one in case.outcomes if one.contender == "matmul_best"]
    assert time is not None
    return case.flops / time.median_us


def test_the_numbers_are_those_of_the_profile():
    assert find_faults(read_paragraph("At the large shapes")) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [("65 %", "95 %"), ("4096×4096", "4096×2048"), ("is chosen", "of 16 % is chosen")],
)
def test_a_number_that_was_typed_is_found(old: str, new: str):
    paragraph = read_paragraph("At the large shapes")
    assert old in paragraph
    assert find_faults(paragraph.replace(old, new))


def test_the_numbers_of_products_in_one_wave_are_those_of_the_profiles():
    assert find_faults_of_single_waves(read_paragraph("At 8192×128×8192")) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [("82 %", "92 %"), ("256 blocks", "264 blocks"), ("7 µs", "9 µs"), ("9 %", "8 %")],
)
def test_another_number_of_products_in_one_wave_is_found(old: str, new: str):
    paragraph = read_paragraph("At 8192×128×8192")
    assert old in paragraph
    assert find_faults_of_single_waves(paragraph.replace(old, new))


def test_the_rate_where_no_tile_divides_is_that_of_the_run():
    run = read_run(RUN)
    share = find_rate(run, 1000, 777, 333) / find_rate(run, 1024, 768, 336)
    words = f"the rate is {100 * (1 - share):.0f} % below that of 1024×768×336"
    assert words in read_paragraph("At 1000×777×333")


def test_every_paragraph_with_a_profile_is_held_against_it():
    known = ("At the large shapes", "At 8192×128×8192")
    assert all(one.startswith(known) for one in read_paragraphs() if PROFILE.search(one))
