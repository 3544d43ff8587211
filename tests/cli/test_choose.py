"""``tirstep choose``: configs, the parts of their times, and what is refused."""

import json

import pytest

from .conftest import Command


def test_the_fastest_comes_first_with_its_parts(command: Command):
    result = command("choose", "matmul", "--shape", "16x16x16384", "--best", "3")
    assert result.code == 0
    head, *rest = result.out.splitlines()
    assert head == "matmul_best at 16x16x16384, float32 on NVIDIA H200"
    assert "slices 128" in rest[0]
    assert "sums " in rest[0]
    assert "split_k=" in rest[1]
    times = [float(line.split(" us")[0].replace(",", "")) for line in rest[::2]]
    assert times == sorted(times)
    assert len(times) == 3


def test_a_document(command: Command):
    argv = ["choose", "matmul", "--shape", "4096x4096x4096", "--dtype", "bfloat16", "--json"]
    document = json.loads(command(*argv).out)
    assert (document["recipe"], document["instead"]) == ("matmul_wgmma_best", None)
    assert document["choices"][0]["parts"]["us"] > 100
    other = json.loads(command(*argv, "--gpu", "NVIDIA L4").out)
    assert other["recipe"] == "matmul_mma_best"  # whose instructions it has


@pytest.mark.parametrize(
    ("shape", "dtype"), [("1x4096x4096", "float32"), ("3x777x3001", "bfloat16")]
)
def test_few_rows_that_no_tile_is_for_are_told(command: Command, shape: str, dtype: str):
    argv = ["choose", "matmul", "--shape", shape, "--dtype", dtype, "--best", "1"]
    told = command(*argv).out.splitlines()[1:3]
    assert told[0].strip() == (
        "too few rows for tiles: this is from the ladder matmul_skinny; tiles by the time "
        "model follow:"
    )
    assert "depth=8" in told[1]
    assert json.loads(command(*argv, "--json").out)["instead"]["depth"] == 8


def test_decoding_comes_with_its_two_kernels(command: Command):
    argv = ["choose", "decode_attention", "--shape", "1x8x65536x128", "--dtype", "bfloat16"]
    result = command(*argv, "--best", "2")
    assert result.out.startswith("decode_attention_best at 1x8x65536x128, bfloat16 on NVIDIA H200")
    assert "reading" in result.out
    assert "combining" in result.out
    best, *_ = json.loads(command(*argv, "--json").out)["choices"]
    assert best["config"]["ranges"] > 8
    short = ["choose", "decode_attention", "--shape", "16x8x40x128", "--json"]
    assert json.loads(command(*short).out)["choices"][0]["config"]["ranges"] == 1
