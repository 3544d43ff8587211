"""Finds kernels that compute in a narrower type than they say they sum in."""

from typing import Any

from tvm.ir import PrimType
from tvm.tirx import Add, BufferStore, Mul, Sub

from tirstep.modules.dtypes import dtype_facts
from tirstep.tvm_compat import structural_walk

_WORDS = {"Add": "adds", "Sub": "subtracts", "Mul": "multiplies"}


def describe_narrow(function: Any, accumulator: str) -> str:
    """What a function computes in a narrower type than its accumulator, as a sentence; "" if
    nothing.

    Looked at are the values that are stored; indices are not.
    """
    wide = dtype_facts(accumulator)
    found: dict[tuple[str, str], None] = {}

    def look(node: Any) -> None:
        dtype = str(node.ty.dtype) if isinstance(node.ty, PrimType) else ""
        if "x" in dtype or not dtype:
            return
        facts = dtype_facts(dtype)
        is_narrow = facts.is_float == wide.is_float and facts.mantissa_bits < wide.mantissa_bits
        # 32 bits of an integer may be those of an index.
        if is_narrow and (facts.is_float or facts.bytes < 4):
            found[type(node).__name__, dtype] = None

    def visit(store: Any) -> None:
        kinds = [(kind, look) for kind in (Add, Sub, Mul)]
        structural_walk(store.value, kinds, order="pre")

    structural_walk(function.body, [(BufferStore, visit)], order="pre")
    if not found:
        return ""
    dtype = next(iter(found))[1]
    words = [_WORDS[kind] for kind, each in found if each == dtype]
    return (
        f"it says that it sums in {accumulator}, and {' and '.join(words)} in {dtype}: cast to "
        f"{accumulator} first, or name {dtype} in its accumulators"
    )
