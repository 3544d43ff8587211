"""Tables and Markdown of runs."""

import dataclasses
from pathlib import Path

import pytest
from readme import find_newest

from tirstep.bench import BenchError
from tirstep.bench.metrics import (
    make_case_table,
    make_summary,
)
from tirstep.bench.results import read_run, write_run

from .test_results import CEILINGS, make_case, make_run

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


def test_a_case_as_a_table():
    case = make_case(matmul_naive=8000, rows=4000, broken=None, best=50, torch=60, numpy=9000)
    table = make_case_table(case, CEILINGS, with_before=True)
    assert table.header == [
        *("candidate", "time µs", "quartiles", "TFLOP/s", "of ceiling"),
        *("× PyTorch", "× matmul_naive", "× rung before"),
    ]
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["matmul_naive"] == ["8,000", "7,200–8,800", "0.27", "0 %", "0.0075", "–", "–"]
    assert rows["broken"] == ["wrong", "", "–", "–", "–", "–", "–"]
    # Over the last rung that has a time: 4000 / 50.
    assert rows["best"] == ["50.0", "45.0–55.0", "42.9", "72 %", "1.20", "160.0", "80.0"]
    assert rows["PyTorch"] == ["60.0", "54.0–66.0", "35.8", "60 %", "–", "133.3", "–"]
    assert rows["NumPy (CPU)"][3] == "–"
    assert all(len(row) == len(table.header) for row in table.rows)
    rungs = make_case_table(make_case(matmul_strips=8, matmul_warps=4), CEILINGS, with_before=True)
    assert rungs.header[-1] == "× its base"
    assert [row[-1] for row in rungs.rows] == ["–", "2.00"]


def test_a_suite_as_a_table_with_its_mean():
    cases = [
        make_case(matmul_naive=8000, best=50, torch=60, triton=40),
        make_case(matmul_naive=8000, best=50, torch=40),
        make_case(matmul_naive=None, torch=40),
        dataclasses.replace(make_case(), skipped="needs 9 GiB"),
        dataclasses.replace(make_case(best=1), suite="tutorial"),
    ]
    table = make_summary(make_run(*cases), "matmul")
    assert [row[3] for row in table.rows] == ["`best`", "`best`", "–", ""]
    assert table.rows[0][1] == "1024×512×2048"
    assert table.header[7:] == ["× PyTorch", "× Triton", "× first rung"]
    assert table.rows[0][7:] == ["1.20", "0.80", "160.0"]
    mean = table.rows[-1]
    assert mean[0] == "geometric mean"
    assert mean[7] == f"{(1.2 * 0.8) ** 0.5:.2f}"
    assert all(len(row) == len(table.header) for row in table.rows)


def test_no_two_cases_of_a_stored_suite_have_one_title():
    for file in sorted(RESULTS.glob("bench-*.json")):
        titles = [(case.suite, case.title) for case in read_run(file).cases]
        assert len({*titles}) == len(titles) > 0, file.name


def test_the_newest_run_that_has_the_suite(tmp_path: Path):
    case = make_case(best=50)
    runs = {
        "a": make_run(case, date="2026-01-01"),
        "b": make_run(case, date="2026-01-03"),
        "c": make_run(dataclasses.replace(case, suite="tutorial"), date="2026-01-09"),
    }
    for name, run in runs.items():
        write_run(run, tmp_path / f"{name}.json")
    newest = (tmp_path / "b.json", runs["b"])
    assert find_newest(tmp_path.glob("*.json"), "matmul") == newest
    with pytest.raises(BenchError, match="no file has the suite 'bandwidth'; write one"):
        find_newest(tmp_path.glob("*.json"), "bandwidth")
