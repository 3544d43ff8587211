"""Quotients of what goes down as a loop goes up: ``(31 - i) // 4``, which TVM 0.27 takes wrong.

Its simplification of sums of loops makes ``i // -4 + 7`` of it, which is another number for most i,
in `transform_layout` and, of buffers of one dimension, where it lowers a module.
"""

from __future__ import annotations

from typing import Any

from tvm.ir import IRModule
from tvm.tirx import FloorDiv, FloorMod, Mul, Sub
from tvm.tirx.analysis import undefined_vars

from tirstep.transforms.tir import cached_by_module, constant, find_all, get_elements


def is_descending(dividend: Any) -> bool:
    """Whether a sum has variables that it gets smaller with."""
    if any(undefined_vars(node.b) for node in find_all(dividend, Sub)):
        return True
    products = find_all(dividend, Mul)
    return any((constant(side) or 0) < 0 for node in products for side in (node.a, node.b))


@cached_by_module(4)
def find_negative_divisors(module: IRModule) -> list[str]:
    """The buffers, by name, in whose indices something is divided by a negative number."""
    found = [
        str(buffer.name)
        for _, function in module.functions_items()
        if any(
            (constant(node.b) or 0) < 0
            for kind in (FloorDiv, FloorMod)
            for node in find_all(function.body, kind)
        )
        for buffer, indices in get_elements(function.body)
        for kind in (FloorDiv, FloorMod)
        for index in indices
        for quotient in find_all(index, kind)
        if (constant(quotient.b) or 0) < 0
    ]
    return list(dict.fromkeys(found))
