"""``make docs`` writes docs/ladders from the runs and profiles that there are."""

import json
from pathlib import Path
from typing import Any

import pytest

from tirstep.bench.results import BenchRun, Case, Ceilings, Outcome, Time, write_run
from tirstep.transforms.recipes import LADDERS

from .conftest import ROOT, Command

CONV = [recipe.name for recipe in LADDERS["conv1d-tutorial"]]
DEVICE = {"name": "Test GPU", "architecture": "sm_90", "multiprocessors": 132}


def make_case(suite: str = "tutorial", **times: float | None) -> Case:
    outcomes = tuple(
        Outcome(
            name,
            "peer" if name == "torch" else "recipe",
            "ok" if us else "wrong",
            note="" if us else "C[0] is nan",
            config={"threads": 128} if us else {},
            time=Time(us, 0.9 * us, 1.1 * us, 20) if us else None,
        )
        for name, us in times.items()
    )
    options = {"dtype": "float32"}
    return Case(suite, "conv1d", {"m": 16384, "n": 32}, options, 2**20, 2**17, outcomes)


def make_run(*cases: Case, date: str = "2026-01-02T03:04:05+00:00") -> BenchRun:
    versions = {"torch": "2", "apache-tvm": "0.27"}
    ceilings = Ceilings(4e12, {"float32": 6e13}, 2.0, {})
    return BenchRun(DEVICE, versions, date, {"rounds": 20}, ceilings, cases)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with a README, the goldens, and the results of a ladder on a GPU."""
    marks = "<!-- begin bench-tutorial -->\n<!-- end bench-tutorial -->"
    (tmp_path / "README.md").write_text(f"{marks}\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "golden").symlink_to(ROOT / "tests" / "golden")
    results = tmp_path / "results"
    times: dict[str, Any] = {name: 800 / 2**place for place, name in enumerate(CONV)}
    times |= {CONV[3]: None, "torch": 50.0}
    write_run(make_run(make_case(**times)), results / "bench-test-gpu-tutorial.json")
    return tmp_path


def fill(fill_documents: Command, tree: Path, *options: str) -> Any:
    files = ("--readme", tree / "README.md", "--results", tree / "results")
    return fill_documents(*files, *options)


def test_what_was_measured_best_makes_the_page(fill_documents: Command, tree: Path):
    """Neither a rough run nor a part of the ladder counts, however new."""
    page = tree / "docs" / "ladders" / "conv1d-tutorial.md"
    few = make_run(make_case(**dict.fromkeys(CONV[:3], 1.0)), date="2027")
    write_run(few, tree / "results" / "bench-other.json")
    rough = make_run(make_case(**dict.fromkeys(CONV, 1.0)), date="2028")
    write_run(rough, tree / "results" / "bench-test-gpu-quick.json")
    assert fill(fill_documents, tree).code == 0
    assert "**800.0 µs**" in page.read_text()
    assert "| 1.0 |" in (tree / "README.md").read_text()  # the newest run that is not rough

    (tree / "results" / "bench-test-gpu-tutorial.json").unlink()
    result = fill(fill_documents, tree, "--check")  # half of the ladder is no ladder
    assert "conv1d-tutorial.md is of no ladder with results" in result.out


def test_results_that_are_none(fill_documents: Command, tree: Path):
    file = tree / "results" / "profile-conv1d-test-gpu.json"
    file.write_text(json.dumps({"command": "bench"}))
    result = fill(fill_documents, tree)
    assert (result.code, result.out) == (2, "")
    assert "profile-conv1d-test-gpu.json is no profile of tirstep" in result.err
    file.unlink()
    (tree / "tests" / "golden").unlink()
    result = fill(fill_documents, tree)
    assert "has no goldens of conv1d_naive; write them: make golden" in result.err
    assert not (tree / "docs").exists()
