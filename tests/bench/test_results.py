"""Times, documents, figures and comparisons."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tirstep.bench import BenchError
from tirstep.bench.metrics import (
    compute_floor,
    get_bases,
    get_fastest_recipe,
    get_first_rung,
    share,
    share_of_copy,
    speedup,
)
from tirstep.bench.results import (
    BenchRun,
    Case,
    Ceilings,
    Outcome,
    Time,
    compare_runs,
    list_differences,
    read_run,
    require_run_or_nothing,
    summarize,
    to_document,
    write_run,
)

CEILINGS = Ceilings(4e12, {"float32": 6e13}, 2.0, {})
SLOW_MEMORY = dataclasses.replace(CEILINGS, copy=1e11, copies_us={"14680064": 120.0})
"""Memory binds `make_case` here, and a copy of as many bytes takes 120 us."""


def time(us: float) -> Time:
    return Time(us, 0.9 * us, 1.1 * us, 20)


def make_case(**times: float | None) -> Case:
    """matmul 1024x512x2048, whose floor is 35.8 us; peers are those named so."""
    outcomes = [
        Outcome(
            name,
            "cpu" if name == "numpy" else "peer" if name in ("torch", "triton") else "recipe",
            "ok" if us else "wrong",
            time=time(us) if us else None,
        )
        for name, us in times.items()
    ]
    shape, options = {"m": 1024, "n": 512, "k": 2048}, {"dtype": "float32"}
    return Case("matmul", "matmul", shape, options, 2**31, 14680064, tuple(outcomes))


def make_run(*cases: Case, **changes: Any) -> BenchRun:
    run = BenchRun(
        {"name": "Test GPU", "architecture": "sm_90"},
        {"torch": "2", "apache-tvm": "0.27"},
        "2026-01-02T03:04:05+00:00",
        {"rounds": 20},
        CEILINGS,
        cases,
    )
    return dataclasses.replace(run, **changes)


def test_summary_is_median_and_quartiles():
    assert summarize([4e-6, 1e-6, 3e-6, 2e-6, 5e-6]) == Time(3, 2, 4, 5)
    assert summarize([7e-6]) == Time(7, 7, 7, 1)
    # One run that was disturbed moves neither.
    assert summarize([1e-6] * 9 + [1.0]) == Time(1, 1, 1, 10)


def test_a_run_survives_its_file(tmp_path: Path):
    run = make_run(make_case(matmul_naive=9000, best=57, torch=60), make_case(matmul_naive=None))
    file = tmp_path / "folder" / "run.json"
    write_run(run, file)
    assert read_run(file) == run
    assert [path.name for path in file.parent.iterdir()] == ["run.json"]


@pytest.mark.parametrize(
    "change",
    [
        {"command": "ladder"},
        {"version": 0},
        {"cases": [{"kernel": "matmul"}]},
        {"ceilings": None},
        {"device": ...},
    ],
)
def test_another_document_is_refused(tmp_path: Path, change: dict[str, Any]):
    document = {**to_document(make_run()), **change}
    document = {key: value for key, value in document.items() if value is not ...}
    file = tmp_path / "run.json"
    file.write_text(json.dumps(document))
    with pytest.raises(BenchError, match=r"run\.json is not a file of tirstep bench, version"):
        read_run(file)
    file.write_text("{")
    with pytest.raises(BenchError, match="write it again on a GPU"):
        read_run(file)


@pytest.mark.parametrize("text", ["thesis", "{}", "[1]", '{"command": "profile"}'])
def test_a_file_of_something_else_is_told_before_the_work(tmp_path: Path, text: str):
    file = tmp_path / "run.json"
    file.write_text(text)
    with pytest.raises(BenchError, match=r"run\.json is not from tirstep bench, and is kept; give"):
        require_run_or_nothing(file)
    assert file.read_text() == text


def test_a_run_an_older_run_and_nothing_may_be_replaced(tmp_path: Path):
    file = tmp_path / "new" / "run.json"
    require_run_or_nothing(file)
    assert [*file.parent.iterdir()] == []
    for text in ("", '{"command": "bench", "version": 0}'):
        file.write_text(text)
        require_run_or_nothing(file)
    with pytest.raises(IsADirectoryError):
        require_run_or_nothing(tmp_path)


def test_shares_rates_and_speedups():
    case = make_case(matmul_naive=8000, rows=4000, broken=None, best=50, torch=60, numpy=9000)
    best = get_fastest_recipe(case)
    assert best is not None
    assert best.candidate == "best"
    # A type whose peak nobody measured is held against the memory alone.
    assert compute_floor(case, dataclasses.replace(CEILINGS, flops={}))[1] == "memory"
    bound_by_arithmetic = dataclasses.replace(SLOW_MEMORY, copy=4e12)
    assert share_of_copy(case, best, bound_by_arithmetic) is None
    assert speedup(case, best, "torch") == pytest.approx(1.2)
    assert speedup(case, best, "best") is None
    assert speedup(case, best, "triton") is None
    assert get_first_rung(case) == "matmul_naive"
    assert get_first_rung(make_case(matmul_tiled=40)) is None
    # A rung without a time is passed over.
    bases = get_bases(case)
    assert (bases["best"], bases["matmul_naive"]) == ("rows", None)
    # A rung is held to the nearest of its bases that has a time, wherever these stand.
    rungs = make_case(matmul_strips=9, matmul_swizzled=8, matmul_padded=None, matmul_warps=7)
    bases = get_bases(rungs)
    assert (bases["matmul_warps"], bases["matmul_swizzled"]) == ("matmul_strips", "matmul_warps")
    # What chooses its config has no base, whatever stands above it.
    chosen = make_case(matmul_strips=9, matmul_warps=8, matmul_split_k=40, matmul_best=7)
    assert get_bases(chosen)["matmul_best"] is None
    assert share(case, case.outcomes[-1], CEILINGS) is None  # the CPU has other ceilings
    assert share(case, case.outcomes[2], CEILINGS) is None


def test_a_run_from_before_copies_were_measured(tmp_path: Path):
    document = to_document(make_run(make_case(best=57)))
    del document["ceilings"]["copies_us"]
    (tmp_path / "run.json").write_text(json.dumps(document))
    run = read_run(tmp_path / "run.json")
    assert share_of_copy(run.cases[0], run.cases[0].outcomes[0], run.ceilings) is None


def test_a_comparison_says_what_changed():
    before = make_run(make_case(best=60, torch=50, gone=70, noisy=50))
    after = make_run(
        make_case(best=40, torch=100, noisy=51, new=7, broken=None),
        device={"name": "Other GPU"},
        versions={"torch": "3", "triton": "1"},
    )
    changes = {change.candidate: change for change in compare_runs(before, after)}
    verdicts = {name: change.verdict for name, change in changes.items()}
    assert verdicts == {
        "best": "faster",
        "torch": "slower",
        "noisy": "same",
        "new": "new",
        "gone": "gone",
    }
    assert changes["best"].ratio == pytest.approx(1.5)
    assert changes["new"].ratio is None
    assert list_differences(before, after) == [
        "the devices differ: Test GPU and Other GPU",
        "apache-tvm was 0.27 and is none",
        "torch was 2 and is 3",
        "triton was none and is 1",
    ]
    assert list_differences(before, before) == []
