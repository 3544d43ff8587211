"""Exponentials as GPUs compute them: powers of two."""

from __future__ import annotations

import math
from typing import Any

from tvm.ir import Call
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import FloatImm, Mul, Sub, const, exp2, max_value
from tvm_ffi import structural_map

from tirstep.precision_annotations import EXPONENTS
from tirstep.tvm_compat import get_op_name

from .queries import get_sblock_name
from .rewriting import edit_block, replace_blocks
from .schedule import TransformError, transform
from .tir import find_all

_LARGEST = float(max_value("float32").value)
_EXPONENTIAL, _POWER = "tirx.exp", "tirx.exp2"


@transform
def use_powers_of_two(sch: Schedule, block: SBlockRV) -> None:
    """Compute exponentials of a block as powers of two, with one factor for both.

    GPUs have an instruction only for powers of two, so each exponent is first multiplied by
    log2(e), which is merged with a factor that it already has. The factor is applied to the
    difference of two numbers, which is exactly 0 if they are equal (not with `fuse_exponents`).

    rewrite: ``exp((x - m) * c)`` -> ``exp2((x - m) * (c * log2(e)))``
    consumes: nothing
    requires: a block with at least one exponential, all in float32, with factors whose products
        with log2(e) are in the range of float32
    """
    node, name = sch.get(block), get_sblock_name(sch, block)
    calls = [it for it in find_all(node.body, Call) if get_op_name(it).endswith(_EXPONENTIAL)]
    if not calls:
        raise TransformError(
            f"block '{name}' computes no exponential", "pass the block that has T.exp"
        )
    for call in calls:
        if str(call.ty.dtype) != "float32":
            raise TransformError(
                f"block '{name}' computes an exponential in {call.ty.dtype}",
                "leave it as it is: the instruction takes float32",
            )
        _, scale = _split_factor(call.args[0])
        if not abs(scale) * math.log2(math.e) <= _LARGEST:
            raise TransformError(
                f"the factor {scale:g} of an exponent of block '{name}' times log2(e) is beyond "
                "float32",
                "leave the exponential as it is",
            )

    def rewrite(call: Call) -> Any:
        if not get_op_name(call).endswith(_EXPONENTIAL):
            return call
        value, factor = _split_factor(call.args[0])
        return exp2(value * const(factor * math.log2(math.e), "float32"))

    made = edit_block(node, structural_map(node.body, (Call, rewrite)))
    replace_blocks(sch, block, {node: made}, [], who="use_powers_of_two")


@transform
def fuse_exponents(sch: Schedule, block: SBlockRV) -> None:
    """Compute the exponents of a block by one fused multiply-add each.

    ``m * c`` is computed once per row, and ``x * c`` minus that is one instruction per element.
    Only ``m * c`` is rounded then: if x and m are equal, the exponent is not 0, but up to 2^-24 of
    ``m * c``, and integers are no longer exact. So a kernel must allow it, as `attention` does with
    fused_exponents=True.

    rewrite: ``exp2((x - m) * c)`` -> ``exp2(x * c - m * c)``
    consumes: nothing
    requires: a block that allows it by the annotation "tirstep_exponents", with at least one power
        of two (`use_powers_of_two`) of a difference times a number
    """
    node, name = sch.get(block), get_sblock_name(sch, block)
    if not allows_fused_exponents(node):
        raise TransformError(
            f"block '{name}' does not allow exponents whose last bits depend on the maximum",
            "ask the kernel for them: attention(..., fused_exponents=True)",
        )
    powers = [it for it in find_all(node.body, Call) if get_op_name(it).endswith(_POWER)]
    exponents = [power.args[0] for power in powers]
    if not powers or not all(
        isinstance(it, Mul) and isinstance(it.b, FloatImm) and isinstance(it.a, Sub)
        for it in exponents
    ):
        raise TransformError(
            f"block '{name}' must have powers of two, and each exponent must be a difference "
            "times a number",
            "call use_powers_of_two first",
        )

    def rewrite(call: Call) -> Any:
        if not get_op_name(call).endswith(_POWER):
            return call
        difference, factor = call.args[0].a, call.args[0].b
        return exp2(difference.a * factor - difference.b * factor)

    made = edit_block(node, structural_map(node.body, (Call, rewrite)))
    replace_blocks(sch, block, {node: made}, [], who="fuse_exponents")


def allows_fused_exponents(block: SBlock) -> bool:
    """Whether a block is of a kernel that allows its exponents to be fused."""
    return str(block.annotations.get(EXPONENTS, "")) == "fused"


def _split_factor(exponent: Any) -> tuple[Any, float]:
    """An exponent as a value times a number."""
    if isinstance(exponent, Mul) and isinstance(exponent.b, FloatImm):
        return exponent.a, float(exponent.b.value)
    return exponent, 1.0
