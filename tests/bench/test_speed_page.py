"""What docs/speed.md says of a profile is what the profile has."""

import re
from pathlib import Path

import pytest

from tirstep.bench.profile.results import read_profile

PAGE = Path(__file__).resolve().parents[2] / "docs" / "speed.md"
PROFILE = re.compile(r"\]\((\S*/profile-\S+\.json)\)")


def find_faults(paragraph: str) -> list[str]:
    """What a paragraph with a link to a profile of `matmul_best` says otherwise, or beyond it."""
    words = " ".join(paragraph.split())
    (link,) = PROFILE.findall(words)
    profile = read_profile(PAGE.parent / link)
    (kernel,) = profile.find("matmul_best").kernels
    counters = kernel.counters
    waiting = {
        of: 100 * kernel.stalls[of] / (1 - kernel.stalls["selected"]) for of in kernel.stalls
    }
    sentences = [
        f"At {'×'.join(map(str, profile.shape.values()))} [the profiler]",
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


def read_paragraph() -> str:
    (found,) = [one for one in PAGE.read_text().split("\n\n") if PROFILE.search(one)]
    return found


def test_the_numbers_are_those_of_the_profile():
    assert find_faults(read_paragraph()) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [("68 %", "95 %"), ("4096×4096", "4096×2048"), ("is chosen", "of 16 % is chosen")],
)
def test_a_number_that_was_typed_is_found(old: str, new: str):
    assert find_faults(read_paragraph().replace(old, new))
