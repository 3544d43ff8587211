"""Functions of Relax with indices of 32 bits, as kernels written by hand have them."""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm.ir import Call, Range
from tvm.s_tir import SBlock
from tvm.sym import Analyzer
from tvm.tirx import (
    Add,
    Cast,
    FloorDiv,
    FloorMod,
    For,
    IntImm,
    Max,
    Min,
    Mul,
    PrimFunc,
    Select,
    Sub,
    Var,
)

from ..tir import constant, find_all, get_elements

_LIMIT = 2**31
"""Elements of a tensor whose places 32 bits number, whatever a schedule pads them by."""
_ROOM = 4
_WIDE = ("int64", "uint64")
_GROWING = (Add, Sub, Mul, Var)
"""What has larger values where a schedule pads loops."""
_OTHERS = (Cast, FloorDiv, FloorMod, IntImm, Max, Min, Select, Call)


def narrow_indices(function: PrimFunc) -> PrimFunc:
    """The function with loops and indices of 32 bits; as it is where these may not be enough.

    Relax makes functions whose indices have 64 bits, and the intrinsics of tensor cores have 32.
    Left alone are functions of open sizes, with tensors of a quarter of 2^31 elements or more, of
    integers of 64 bits, also as a parameter, or that compute with such beyond 32 bits.
    """
    if any(map(_is_wide, function.params)):
        return function
    for buffer, _ in get_elements(function.body):
        sizes = [constant(extent) for extent in buffer.shape]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes) or math.prod(known) * _ROOM >= _LIMIT:
            return function
        if str(buffer.dtype) in _WIDE:
            return function
    if not _fits(function.body):
        return function
    narrowed = tvm.tirx.transform.ForceNarrowIndexToInt32()(tvm.IRModule({"main": function}))
    return narrowed["main"]


def _fits(body: Any) -> bool:
    """Whether all integers of 64 bits that a function computes are known to have 32."""
    analyzer = Analyzer()
    for loop in find_all(body, For):
        analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
    for block in find_all(body, SBlock):
        for iterator in block.iter_vars:
            analyzer.bind(iterator.var, iterator.dom)
    for kinds, most in ((_GROWING, _LIMIT // _ROOM), (_OTHERS, _LIMIT)):
        values = [it for kind in kinds for it in find_all(body, kind) if _is_wide(it)]
        for bound in map(analyzer.const_int_bound, values):
            if bound.min_value < -most or bound.max_value >= most:
                return False
    return True


def _is_wide(value: Any) -> bool:
    """Whether a value, and no tensor, is an integer of 64 bits."""
    return not hasattr(value, "shape") and str(getattr(value.ty, "dtype", "")) in _WIDE
