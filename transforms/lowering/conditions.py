"""A pass that drops a question whose answer another question gives, too.

A buffer laid out anew has places without an element (`align_vectors`), and a padding stage asks
of each element whether it is in the tensor: ``if_then_else(no_element, 0, if_then_else(inside, A,
0))``. The first question is one of single elements, so that TVM would load vectors one element at
a time; where there is no element, the second one yields the same zero.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm.ir import Call, TensorLoad
from tvm.sym import Analyzer
from tvm.tirx import And, Not, Or
from tvm.tirx.transform import prim_func_pass

from ..queries import find_all, find_operands, is_choice
from .slots import Variables


@prim_func_pass(opt_level=0, name="tirstep.DropImpliedConditions")
def DropImpliedConditions(  # noqa: N802 - a pass is named like TVM's
    function: Any, _module: Any, _context: Any
) -> Any:
    """Drop a condition where the one inside of it yields the same value.

    It runs before loops are vectorized. The one inside loads nothing: the other may have kept it
    from a place out of bounds.

    rewrite: ``if_then_else(a, c, if_then_else(b, x, c))`` -> ``if_then_else(b, x, c)`` where a
        implies that b is false
    """
    analyzer = Analyzer()
    for variable, span in Variables.of(function).ranges.items():
        analyzer.bind(variable, span)

    def simplify(node: Any) -> Any:
        if not (is_choice(node) and is_choice(node.args[2])):
            return node
        outer, same, (inner, _, other) = node.args[0], node.args[1], node.args[2].args
        if find_all(inner, TensorLoad) or find_all(inner, Call):
            return node
        if tvm_ffi.structural_equal(same, other) and _exclude(outer, inner, analyzer):
            return node.args[2]
        return node

    return function.with_body(tvm_ffi.structural_map(function.body, (Call, simplify)))


def _exclude(one: Any, other: Any, analyzer: Analyzer) -> bool:
    """Whether two conditions are provably never true together."""
    for case in find_operands(one, Or):
        with analyzer.constraint_scope(case):
            parts = find_operands(other, And)
            if not any(analyzer.can_prove(Not(part)) for part in parts):
                return False
    return True
