"""Reductions of several values at once that TVM is told of, so that threads can share them.

TVM knows sums, products, minima, maxima, and the places of those. Any other one it refuses to
reduce over threads or to cut into parts (rfactor).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import tirx

FLOAT = "float32"


def combine_softmax(ours: Sequence[Any], theirs: Sequence[Any]) -> list[Any]:
    """Sum and maximum of two parts of a row: (sum of exp(a - maximum), maximum).

    The sum comes first: TVM stores each value before it computes the next one, and the sum needs
    the old maxima (M. Milakov and N. Gimelshein, Online normalizer calculation for softmax, 2018).
    """
    if any(str(value.ty.dtype) != FLOAT for value in (*ours, *theirs)):
        return list(ours)  # a reduction of other types, such as the place of a maximum: not this
    (total, largest), (other_total, other_largest) = ours, theirs
    both = tirx.max(largest, other_largest)
    scaled = total * tirx.exp(largest - both)
    return [scaled + other_total * tirx.exp(other_largest - both), both]


def identify_softmax(_values: Sequence[Any]) -> list[Any]:
    """Sum and maximum of nothing."""
    return [tirx.const(0, FLOAT), tirx.min_value(FLOAT)]


def register_reducer(combine: Any, identify: Any, *, values: int) -> None:
    """Tell TVM of a reduction of so many values; for the whole process, and for good.

    `combine` gets the values of both sides and returns theirs together; `identify` those of
    nothing.
    """
    functions = [tvm_ffi.convert(function) for function in (combine, identify)]
    for function in functions:
        # TVM drops them when Python has ended already, and crashes if nobody else holds them.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))
    tvm_ffi.get_global_func("s_tir.schedule.RegisterReducer")(values, *functions)


register_reducer(combine_softmax, identify_softmax, values=2)
