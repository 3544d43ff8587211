"""The profiler's table of counters."""

import pytest
from ncu_table import METRICS, make_table
from profile_ladders import read_table

from tirstep.bench import BenchError

SIGNATURE = "main_kernel(float*, float*, float*)"


def test_a_table_is_read():
    (kernel,) = read_table(make_table({"Kernel Name": SIGNATURE}))
    assert (kernel.name, kernel.grid, kernel.block) == ("main_kernel", "(16, 4, 1)", "(256, 1, 1)")
    assert kernel.duration_us == pytest.approx(57.6)
    assert kernel.counters["sm_pct"] == 71.25
    assert kernel.counters["registers"] == 128
    assert kernel.counters["fma_pct"] == 60.7  # the first metric is n/a here
    assert kernel.counters["bank_conflicts"] == 1100
    assert kernel.stalls["short_scoreboard"] == pytest.approx(1.5 / 4)
    assert sum(kernel.stalls.values()) == pytest.approx(1)


def test_what_a_gpu_does_not_have_is_left_out():
    gone = dict.fromkeys(METRICS, "n/a") | {"gpu__time_duration.sum": "3"}
    first, second = read_table(
        make_table({"Kernel Name": "main_kernel", **gone}, {"Kernel Name": "main_kernel_1"})
    )
    assert (dict(first.counters), dict(first.stalls)) == ({}, {})
    assert second.counters["dram_pct"] == 12.5


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("==PROF== no kernels were profiled", "ncu printed no table of metrics"),
        ('"ID","Kernel Name"\n"0","main_kernel"\n', "no line of units"),
        (
            make_table({"Kernel Name": "main_kernel", "gpu__time_duration.sum": "n/a"}),
            r"ncu counted no gpu__time_duration.sum of main_kernel \(its unit is 'ns'\)",
        ),
        (make_table({"Kernel Name": "x"}).replace('"ns"', '"weeks"'), "its unit is 'weeks'"),
    ],
)
def test_a_table_that_is_none(text: str, sentence: str):
    with pytest.raises(BenchError, match=sentence):
        read_table(text)
