"""Exponentials as GPUs compute them: powers of two."""

from __future__ import annotations

import math
from typing import Any

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import FloatImm, Mul, Sub, const, exp2, max_value

from tirstep.tvm_compat import Call, get_op_name, structural_map

from .decorators import composite
from .errors import TransformError
from .queries import get_sblock_name
from .rewriting import edit_block, replace_blocks
from .tir import find_all

_LARGEST = float(max_value("float32").value)


@composite
def use_powers_of_two(sch: Schedule, block: SBlockRV, *, distributes: bool = False) -> None:
    """Compute exponentials of a block as powers of two, with one factor for both.

    GPUs have an instruction for powers of two alone, in front of which each exponent is multiplied
    by log2(e): that becomes one with a factor that the exponent has. With `distributes` the factor
    goes into a difference, ``a * c - b * c`` with a fused multiplication and addition, where b is
    the same for many a; what rounding leaves of large a and b no longer vanishes where they are
    equal.

    rewrite: ``exp((x - m) * c)`` -> ``exp2((x - m) * (c * log2(e)))``, or with `distributes`
        ``exp2(x * (c * log2(e)) - m * (c * log2(e)))``
    consumes: nothing
    requires: a block whose exponentials, of which there is one at least, are of float32, with
        factors that are so together with log2(e); to distribute, one of a difference and
        a factor that is at most 1 together with log2(e): the product of the least float32, which
        stands for a maximum of nothing, would be infinite otherwise
    """
    node, name = sch.get(block), get_sblock_name(sch, block)
    calls = [call for call in find_all(node.body, Call) if _is_exponential(call)]
    if not calls:
        raise TransformError(
            f"block '{name}' computes no exponential", "pass the block that has T.exp"
        )
    for call in calls:
        _require_exponent(name, call, distributes)

    def rewrite(call: Call) -> Any:
        if not _is_exponential(call):
            return call
        value, factor = _split_factor(call.args[0])
        factor = const(factor * math.log2(math.e), "float32")
        if distributes:
            return exp2(value.a * factor - value.b * factor)
        return exp2(value * factor)

    made = edit_block(node, structural_map(node.body, (Call, rewrite)))
    replace_blocks(sch, block, {node: made}, [], who="use_powers_of_two")


def _is_exponential(call: Call) -> bool:
    return get_op_name(call).endswith("tirx.exp")


def _split_factor(exponent: Any) -> tuple[Any, float]:
    """An exponent as a value times a number."""
    if isinstance(exponent, Mul) and isinstance(exponent.b, FloatImm):
        return exponent.a, float(exponent.b.value)
    return exponent, 1.0


def _require_exponent(name: str, call: Call, distributes: bool) -> None:
    if str(call.ty.dtype) != "float32":
        raise TransformError(
            f"block '{name}' computes an exponential in {call.ty.dtype}",
            "leave it as it is: the instruction is one of float32",
        )
    value, factor = _split_factor(call.args[0])
    if not abs(factor) * math.log2(math.e) <= _LARGEST:
        raise TransformError(
            f"the factor {factor:g} of an exponent of block '{name}' is beyond float32 together "
            "with log2(e)",
            "leave the exponential as it is",
        )
    if distributes and not (isinstance(value, Sub) and abs(factor) * math.log2(math.e) <= 1):
        raise TransformError(
            f"the exponent {call.args[0]} of block '{name}' is no difference times a factor of "
            f"{1 / math.log2(math.e):.3f} at most",
            "leave distributes out",
        )
