"""Functions of Relax with indices of 32 bits, as kernels written by hand have them."""

from __future__ import annotations

import math

import tvm
from tvm.tirx import PrimFunc

from ..tir import constant, get_elements

_LIMIT = 2**31
"""Elements of a tensor whose places 32 bits number, whatever a schedule pads them by."""
_ROOM = 4


def narrow_indices(function: PrimFunc) -> PrimFunc:
    """The function with loops and indices of 32 bits; as it is where these may not be enough.

    Relax makes functions whose indices have 64 bits, and the intrinsics of tensor cores have 32.
    Left alone are functions of open sizes, with tensors of a quarter of 2^31 elements or more, or
    of integers of 64 bits.
    """
    for buffer, _ in get_elements(function.body):
        sizes = [constant(extent) for extent in buffer.shape]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes) or math.prod(known) * _ROOM >= _LIMIT:
            return function
        if str(buffer.dtype) in ("int64", "uint64"):
            return function
    narrowed = tvm.tirx.transform.ForceNarrowIndexToInt32()(tvm.IRModule({"main": function}))
    return narrowed["main"]
