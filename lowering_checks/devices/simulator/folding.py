"""What TVM's simplifier makes of an operator, in passes behind the last one that is simulated.

It takes floats for numbers that are neither infinite nor NaN, and what was unsigned for positive.
"""

from __future__ import annotations

from typing import Any

from tvm.sym import Analyzer
from tvm.tirx import Cast, FloatImm, IntImm, truncdiv, truncmod
from tvm_ffi import structural_equal

from tirstep.transforms.tir import find_all

_OF_EQUALS = ("Sub", "EQ", "NE")
_OF_ZEROS = ("Add", "Mul", "Div")
_ROUNDING_DOWN = {"FloorDiv": truncdiv, "FloorMod": truncmod}


def fold(kind: str, node: Any) -> Any:
    """The expression that the generated source has for an operator, which is `node` mostly."""
    if kind in _ROUNDING_DOWN:
        return _round_to_zero(kind, node)
    if "float" not in str(node.a.ty.dtype):
        return node
    may_fold = (kind in _OF_EQUALS and structural_equal(node.a, node.b)) or (
        kind in _OF_ZEROS and (_is_zero(node.a) or (kind != "Div" and _is_zero(node.b)))
    )
    if not may_fold or (isinstance(node.a, FloatImm) and isinstance(node.b, FloatImm)):
        return node
    return Analyzer().simplify(node)


def _round_to_zero(kind: str, node: Any) -> Any:
    """Rounding to zero, where TVM takes the dividend for positive by its type before a cast."""
    if isinstance(node.a, (IntImm, FloatImm)) or not isinstance(node.b, IntImm):
        return node
    casts = find_all(node.a, Cast)
    if not any(str(cast.value.ty.dtype).startswith("uint") for cast in casts):
        return node
    if not str(node.a.ty.dtype).startswith("int") or not Analyzer().can_prove(node.a >= 0):
        return node
    return _ROUNDING_DOWN[kind](node.a, node.b)


def _is_zero(node: Any) -> bool:
    return isinstance(node, FloatImm) and float(node.value) == 0
