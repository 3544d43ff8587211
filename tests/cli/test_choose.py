"""``tirstep choose``: configs, the parts of their times, and what is refused."""

import json

import pytest

from .conftest import Command


def test_the_fastest_comes_first_with_its_parts(command: Command):
    result = command("choose", "matmul", "--shape", "16x16x16384", "--best", "3")
    assert result.code == 0
    head, *rest = result.out.splitlines()
    assert head == "matmul_best at 16x16x16384, float32 on NVIDIA H200"
    assert "slices 64" in rest[0]
    assert "sums 3.7" in rest[0]
    assert "split_k=" in rest[1]
    times = [float(line.split(" us")[0].replace(",", "")) for line in rest[::2]]
    assert times == sorted(times)
    assert len(times) == 3


def test_a_document(command: Command):
    argv = ["choose", "matmul", "--shape", "4096x4096x4096", "--dtype", "bfloat16", "--json"]
    document = json.loads(command(*argv).out)
    assert (document["recipe"], document["instead"]) == ("matmul_wgmma_best", None)
    assert document["choices"][0]["parts"]["us"] > 100
    other = json.loads(command(*argv, "--device", "NVIDIA L4").out)
    assert other["recipe"] == "matmul_mma_best"  # whose instructions it has


def test_knobs_of_blocks_that_stay_are_told(command: Command):
    argv = ["choose", "matmul", "--shape", "8192x8192x128", "--dtype", "bfloat16"]
    told = command(*argv, "--option", "out=bfloat16", "--best", "1").out.splitlines()
    assert "waves 32" in told[1]
    for knob in ("copies=tma", "roles=true", "persistent=264", "store=tma"):
        assert knob in told[2]


def test_what_a_search_found_is_told(command: Command):
    result = command("choose", "matmul_best", "--shape", "512x512x512", "--best", "1")
    assert "a search found a config at this shape" in result.out


@pytest.mark.parametrize(
    ("shape", "dtype"), [("1x4096x4096", "float32"), ("5x777x3001", "bfloat16")]
)
def test_few_rows_that_no_tile_is_for_are_told(command: Command, shape: str, dtype: str):
    argv = ["choose", "matmul", "--shape", shape, "--dtype", dtype, "--best", "1"]
    told = command(*argv).out.splitlines()[1:3]
    assert told[0].strip() == (
        "so few rows take no tiles, but this, of the ladder matmul_skinny; tiles by the model "
        "follow:"
    )
    assert "depth=8" in told[1]
    assert json.loads(command(*argv, "--json").out)["instead"]["depth"] == 8


def test_odd_rows_that_are_not_copied_are_told(command: Command):
    argv = ["choose", "matmul_wgmma_best", "--shape", "37x51x23", "--dtype", "bfloat16"]
    told = command(*argv, "--best", "1").out.splitlines()[1:3]
    assert told[0].strip() == (
        "rows of no whole vectors are not copied for tiles, but take this, of the ladder "
        "matmul_mma; tiles by the model follow:"
    )
    assert "tile=32,32" in told[1]
    document = json.loads(command(*argv, "--json").out)
    assert document["instead"]["tile_k"] == 64


def test_parts_of_few_long_rows_are_told(command: Command):
    argv = ["choose", "matvec", "--shape", "40x153099", "--dtype", "bfloat16"]
    head, *told = command(*argv, "--best", "2").out.splitlines()
    assert head == "matvec_best at 40x153099, bfloat16 on NVIDIA H200"
    assert "parts 13, threads 512, each 8, length 12288" in told[0]
    assert "sums 2.4" in told[0]
    assert "threads=512 vector=8 each=8 parts=13 tail=guard" in told[1]
    first, *_, last = json.loads(command(*argv, "--best", "99", "--json").out)["choices"]
    assert (first["config"]["parts"], first["parts"]["length"]) == (13, 12288)
    assert (last["config"]["parts"], last["parts"]["sums"]) == (1, 0)


def test_rows_that_rules_choose_for_are_told(command: Command):
    told = command("choose", "softmax_best", "--shape", "4x77").out
    assert "rules that were measured say, and no model of time:" in told
    assert "threads=32 in_registers=true vector=8" in told
    near = command("choose", "row_sum", "--shape", "1x32768").out.splitlines()
    assert near[1] == "a rule that was measured takes the first; by the model others are near:"
    assert ("parts=8" in near[3], "parts" in near[5]) == (True, False)
