"""Any number of elements: what the rules choose is accepted and right."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm.s_tir import Schedule

from tirstep.lowering_checks import check_numbers, get_device
from tirstep.modules import get_kernel, relu
from tirstep.transforms import TransformError
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.recipes.element_ladders import MANY, choose_config

KERNELS = ("vector_add", "relu", "gelu")


@settings(max_examples=8)
@given(
    kernel=st.sampled_from(KERNELS),
    n=st.one_of(st.integers(1, 9), st.integers(1000, 9000)),
    dtype=st.sampled_from(("float32", "bfloat16", "float16")),
)
def test_any_number_of_elements_is_right(kernel, n, dtype):
    problem = get_kernel(kernel).problem(n, dtype=dtype)
    sch = Schedule(problem.module)
    list(RECIPES[f"{kernel}_best"].run(sch))
    assert check_numbers(problem, sch.mod, get_device("simulator"), where="best") == []


@pytest.mark.share(6)
def test_many_elements_are_right_too():
    problem = get_kernel("gelu").problem(MANY + 3, dtype="bfloat16")
    sch = Schedule(problem.module)
    list(RECIPES["gelu_best"].run(sch))
    assert check_numbers(problem, sch.mod, get_device("cpu"), where="best") == []


def test_the_rule():
    assert choose_config(MANY, 2, is_heavy=True).each == 2
    light, few, wide = (MANY, 2, False), (MANY - 1, 2, True), (MANY, 4, True)
    for elements, size, is_heavy in (light, few, wide):
        assert choose_config(elements, size, is_heavy=is_heavy).each == 1


def test_an_open_size_is_refused():
    sch = Schedule(relu.problem(8, symbolic=("n",)).module)
    with pytest.raises(TransformError, match="relu_best: the number of elements is not constant"):
        list(RECIPES["relu_best"].run(sch))
