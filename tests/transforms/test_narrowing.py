"""Indices of 32 bits: which functions get them, and which stay as they are."""

import pytest
from tvm.script import from_source
from tvm.tirx import For

from tirstep.transforms.plans.plan import narrow_indices
from tirstep.transforms.tir import find_all

PROGRAM = """\
# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main({parameters}, C: T.Buffer((T.int64(16),), "float32")):
{before}    for i in range(T.int64(16)):
        with T.sblock("C"):
            vi = T.axis.spatial(T.int64(16), i)
            C[vi] = {value}
"""
FLOATS = 'A: T.Buffer((T.int64(16),), "float32")'
INTEGERS = 'A: T.Buffer((T.int64(16),), "int32")'
OPEN = """\
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
"""


def read(parameters: str, value: str, before: str = ""):
    return from_source(PROGRAM.format(parameters=parameters, value=value, before=before))


def get_type(function) -> str:
    (loop,) = find_all(function.body, For)
    return str(loop.loop_var.ty.dtype)


@pytest.mark.parametrize(
    ("parameters", "value"),
    [
        (FLOATS, "A[vi]"),
        (FLOATS, "A[(vi * T.int64(3) + T.int64(1)) % T.int64(16)]"),
        (f"{FLOATS}, " + INTEGERS.replace("A:", "places:"), 'A[T.Cast("int64", places[vi])]'),
        (FLOATS.replace("T.int64(16)", "T.int64(2**29 - 1)"), "A[vi]"),
    ],
)
def test_indices_become_narrow(parameters: str, value: str) -> None:
    assert get_type(narrow_indices(read(parameters, value))) == "int32"


@pytest.mark.parametrize(
    ("parameters", "value", "before"),
    [
        ("a: T.handle", "A[vi]", OPEN),
        (INTEGERS.replace("int32", "int64"), 'T.Cast("float32", A[vi])', ""),
        (FLOATS.replace("T.int64(16)", "T.int64(2**29)"), "A[vi]", ""),
        (f"{FLOATS}, n: T.int64", "A[vi]", ""),  # who calls it passes 64 bits
        (INTEGERS, 'T.Cast("float32", T.Cast("int64", A[vi]) * T.int64(4294967296))', ""),
        (FLOATS, 'T.Cast("float32", vi * T.int64(1000000007))', ""),
        (FLOATS, "A[vi * T.int64(200000000) // T.int64(200000000)]", ""),  # padded it is more
    ],
    ids=["open", "integers", "elements", "parameter", "bits", "value", "within"],
)
def test_what_may_need_64_bits_stays(parameters: str, value: str, before: str) -> None:
    function = read(parameters, value, before)
    assert narrow_indices(function).same_as(function)
