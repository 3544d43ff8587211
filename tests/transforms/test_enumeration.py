"""What index expressions are computed to, under every TVM."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
from tvm.script import tirx as T
from tvm.tirx import Cast, Var

from tirstep.transforms.legality.enumeration import compile_expressions

BITS = {
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "shift_left": operator.lshift,
    "shift_right": operator.rshift,
}


@pytest.mark.parametrize(("name", "compute"), BITS.items(), ids=BITS)
def test_operators_of_bits_are_known(name: str, compute: Callable[[int, int], int]) -> None:
    first, second = Var("first", "int32"), Var("second", "int32")
    node = getattr(T, name)(first + 8, second) % 7
    value = compute(13 + 8, 2) % 7
    assert compile_expressions([node], (), [first, second])(13, 2) == (value,)


def test_another_call_is_none_of_whole_numbers() -> None:
    number = Var("number", "int32")
    root = Cast("int32", T.sqrt(Cast("float32", number)))
    with pytest.raises(TypeError, match="Call is no operator of whole numbers"):
        compile_expressions([root], (), [number])
