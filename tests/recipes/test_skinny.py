"""Products of few rows: any shape and type is right, and what cannot be is refused."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tvm.s_tir import Schedule

from tirstep.lowering_checks import check_numbers, get_device
from tirstep.modules import get_kernel
from tirstep.transforms import TransformError
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.recipes.matmul_best import VECTOR, choose

TYPES = ("float32", "float16", "bfloat16", "int8", "tf32", "float8_e4m3fn")
LAST = RECIPES["matmul_skinny_split_k"]


@pytest.mark.share(6)
@settings(max_examples=12)
@given(
    shape=st.tuples(st.integers(1, 12), st.integers(1, 150), st.integers(1, 120)),
    dtype=st.sampled_from(TYPES),
    transposed=st.booleans(),
    config=st.fixed_dictionaries(
        {
            "threads": st.sampled_from((8, 32)),
            "vector": st.sampled_from((1, 4, 8)),
            "steps": st.sampled_from((1, 4, 8)),
            "depth": st.sampled_from((1, 2, 8)),
            "split_k": st.sampled_from((1, 3)),
        }
    ),
)
@example(
    shape=(1, 61, 64),
    dtype="bfloat16",
    transposed=False,
    config={"threads": 8, "vector": 8, "steps": 2, "depth": 4, "split_k": 1},
)
def test_any_shape_is_right(shape, dtype, transposed, config):
    problem = get_kernel("matmul").problem(*shape, dtype=dtype, transpose_b=transposed)
    sch = Schedule(problem.module)
    list(LAST.run(sch, **config, tail="pad"))
    assert check_numbers(problem, sch.mod, get_device("simulator"), where="skinny") == []


@pytest.mark.share(2)
@settings(max_examples=12)
@given(
    rows=st.integers(2, 40),
    length=st.one_of(st.integers(1, 700), st.sampled_from((4096, 33000))),
    dtype=st.sampled_from(("float32", "float16", "bfloat16", "int8")),
    is_row=st.booleans(),
)
def test_a_product_by_a_vector_is_one_of_rows(rows, length, dtype, is_row):
    """B^T by a vector as (1, k), and A by one as (k, 1), by whichever recipe."""
    sums = "int32" if dtype == "int8" else dtype
    problem = get_kernel("matmul").problem(
        *((1, rows) if is_row else (rows, 1)), length, dtype=dtype, out=sums, transpose_b=is_row
    )
    name = "matmul_best" if dtype == "float32" else "matmul_wgmma_best"
    sch = Schedule(problem.module)
    assert choose(sch, name, "NVIDIA H200").why == VECTOR
    list(RECIPES[name].run(sch))
    assert check_numbers(problem, sch.mod, get_device("simulator"), where=name) == []


def test_sums_of_half_precision_go_back_into_it():
    problem = get_kernel("matmul").problem(3, 40, 64, dtype="bfloat16", out="bfloat16")
    sch = Schedule(problem.module)
    list(LAST.run(sch, threads=32, depth=8, steps=4, split_k=2, tail="pad"))
    assert check_numbers(problem, sch.mod, get_device("simulator"), where="skinny") == []


@pytest.mark.parametrize("name", ["vector", "depth", "split_k", "steps"])
def test_counts_of_nothing_are_refused(name):
    sch = Schedule(get_kernel("matmul")(3, 64, 96))
    knob = "parts" if name == "split_k" else "inner" if name == "steps" else name
    with pytest.raises(TransformError, match=f"{knob}=0 "):
        list(LAST.run(sch, **{"threads": 8, "depth": 2, "split_k": 2, name: 0}))
