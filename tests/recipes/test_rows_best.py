"""Rows of any length and number: what the rules choose is accepted and right."""

import math
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tvm.s_tir import Schedule

from tirstep.lowering_checks import check_numbers, get_device
from tirstep.lowering_checks.facts import compile_facts, get_facts
from tirstep.lowering_checks.facts.cuda_compilers import CompilerMissing
from tirstep.modules import get_kernel, softmax
from tirstep.transforms import TransformError
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.recipes.rows import choose_rows

KERNELS = ("row_sum", "softmax", "rms_norm", "layer_norm", "matvec")


def choose(kernel: str, m: int, n: int, dtype: str = "float32", device: str = "NVIDIA H200"):
    return choose_rows(Schedule(get_kernel(kernel)(m, n, dtype=dtype)), "x", device)


@settings(max_examples=6)
@given(
    kernel=st.sampled_from(KERNELS),
    m=st.integers(1, 9),
    n=st.one_of(st.integers(1, 300), st.integers(1, 40).map(lambda n: 8 * n)),
    dtype=st.sampled_from(("float32", "float16")),
)
@example(kernel="layer_norm", m=560, n=3, dtype="float32")
@example(kernel="softmax", m=1, n=32769, dtype="float16")
def test_what_is_chosen_is_right(kernel, m, n, dtype):
    problem = get_kernel(kernel).problem(m, n, dtype=dtype)
    sch = Schedule(problem.module)
    list(RECIPES[f"{kernel}_best"].run(sch))
    device = get_device("cpu" if n > 10_000 else "simulator")
    assert check_numbers(problem, sch.mod, device, where="best") == []


@pytest.mark.parametrize("kernel", ["row_sum", "matvec"])
def test_a_long_row_is_cut_in_parts(kernel):
    problem = get_kernel(kernel).problem(1, 1 << 15)
    sch = Schedule(problem.module)
    names = [step.name for step in RECIPES[f"{kernel}_best"].run(sch)]
    assert names == ["cut_in_parts", "spread_over_threads", "rounds", "parts_added"]
    assert check_numbers(problem, sch.mod, get_device("cpu"), where="best") == []


def test_the_rules():
    short = choose("softmax", 65536, 128)
    assert (short.threads, short.rows, short.in_registers) == (8, 16, True)
    # Of 132 multiprocessors each has at least two blocks, and a block a whole warp.
    assert choose("softmax", 600, 128).rows == 4
    assert choose("softmax", 4, 128).threads == 32
    # Of four bytes as of two, read one by one, a thread has as many.
    assert choose("softmax", 1000, 777, "float16") == choose("softmax", 1000, 777)
    long = choose("softmax", 512, 32768)
    assert (long.threads, long.in_registers, long.each, long.parts) == (1024, False, 2, 1)
    assert choose("row_sum", 2, 1 << 20).parts == 128
    assert choose("row_sum", 2, 1 << 20, device="multiprocessors=16").parts == 16
    assert choose("row_sum", 600, 1 << 15).parts == 1


@pytest.mark.parametrize("m", [7, 1000, 12345])
@pytest.mark.parametrize("n", [128, 2000, 8192, 20000])
def test_threads_of_several_warps_share_a_block_with_no_row_that_is_not_there(m, n):
    config = choose("softmax", m, n)
    assert config.threads <= 32 or m % config.rows == 0
    assert config.threads * config.rows <= 1024
    assert math.log2(config.threads).is_integer()


def test_open_sizes_and_an_unknown_gpu_are_refused():
    sch = Schedule(softmax.problem(8, 64, symbolic=("m",)).module)
    sentence = re.escape("softmax_best: the shape (m, 64) is not constant; give the kernel its")
    with pytest.raises(TransformError, match=sentence):
        list(RECIPES["softmax_best"].run(sch))
    with pytest.raises(TransformError, match="the properties of 'Voodoo' are not known"):
        list(RECIPES["softmax_best"].run(Schedule(softmax(8, 64)), device="Voodoo"))


@pytest.mark.parametrize(("n", "architecture"), [(20000, "sm_80"), (1 << 17, "sm_120a")])
def test_what_is_chosen_compiles_without_spills(n, architecture):
    """Of the rows that fill most registers, and of those that are read in rounds."""
    sch = Schedule(softmax(300, n))
    list(RECIPES["softmax_best"].run(sch))
    facts = get_facts(sch.mod)
    try:
        compiled = compile_facts(facts.source, architecture, facts.kernels)
    except CompilerMissing as error:
        pytest.skip(str(error))
    assert (compiled.refusal, compiled.values()["spills"]) == (None, 0)
