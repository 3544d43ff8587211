"""Tables and Markdown of runs."""

import dataclasses
from pathlib import Path

import pytest
from readme import find_newest, write_suite

from tirstep.bench import BenchError
from tirstep.bench.results import read_run, write_run
from tirstep.bench.tables import (
    find_reasons,
    format_ratio,
    make_case_table,
    make_summary,
)

from .test_results import CEILINGS, SLOW_MEMORY, make_case, make_run

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


def test_a_causal_case_is_told_from_another_of_its_shape():
    plain = make_case(best=50, torch=60)
    causal = dataclasses.replace(plain, options={**plain.options, "causal": True})
    table = make_summary(make_run(plain, causal), "matmul")
    assert [row[2] for row in table.rows[:2]] == ["float32", "float32, causal"]


def test_no_two_cases_of_a_stored_suite_have_one_title():
    for file in sorted(RESULTS.glob("bench-*.json")):
        titles = [(case.suite, case.title) for case in read_run(file).cases]
        assert len({*titles}) == len(titles) > 0, file.name


def test_tables_show_the_share_of_a_copy_where_memory_binds():
    case = make_case(matmul_naive=1200, best=150, torch=100, numpy=9000)
    table = make_case_table(case, SLOW_MEMORY)
    assert table.header[4:6] == ["of ceiling", "of copy"]
    assert [row[5] for row in table.rows] == ["10 %", "80 %", "120 %", "–"]
    assert all(len(row) == len(table.header) for row in table.rows)
    other = dataclasses.replace(case, bytes=1)  # arithmetic binds it
    assert "of copy" not in make_case_table(other, SLOW_MEMORY).header
    suite = make_summary(make_run(case, other, ceilings=SLOW_MEMORY), "matmul")
    assert suite.header[6:8] == ["of ceiling", "of copy"]
    assert [row[7] for row in suite.rows] == ["80 %", "–", "80 %"]
    assert all(len(row) == len(suite.header) for row in suite.rows)
    assert suite.header[-suite.right :][0] == "time µs"


def test_reasons_are_told():
    case = make_case(matmul_naive=1, broken=None)
    broken = dataclasses.replace(case.outcomes[1], note="C[0] is nan")
    case = dataclasses.replace(case, outcomes=(case.outcomes[0], broken))
    assert find_reasons(case) == ["broken: wrong: C[0] is nan"]
    skipped = dataclasses.replace(make_case(), skipped="needs 9 GiB")
    text = write_suite(make_run(case, skipped), "matmul")
    assert "- matmul 1024x512x2048 float32: broken: wrong: C[0] is nan\n" in text
    assert text.endswith("- matmul 1024x512x2048 float32: skipped: needs 9 GiB")


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


def test_ratios_are_readable():
    assert [format_ratio(ratio) for ratio in (None, 0.876, 9.999, 120.55)] == [
        "–",
        "0.88",
        "10.00",
        "120.5",
    ]
