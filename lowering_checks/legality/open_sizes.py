"""Modules that leave sizes open, with some sizes: what is wrong there is wrong.

What rules try out one by one has no answer at open sizes.
"""

from __future__ import annotations

from typing import Any

from tvm.ir import IRModule
from tvm.tirx import IntImm, PrimFunc, Var
from tvm.tirx.analysis import undefined_vars
from tvm.tirx.buffer import BufferType

from tirstep.transforms.tir import cached_by_module
from tirstep.tvm_compat import with_parameters

_SIZES = (12, 20, 28, 36, 44, 52, 60)
"""Some multiples of 4, which heads may share, and not of 8, so that guards of tiles decide."""


@cached_by_module(2)
def close_sizes(module: IRModule) -> IRModule:
    """The module with a constant for each size that its functions leave open; else itself.

    What cannot be closed stays open.
    """
    functions = dict(module.functions_items())
    closed = {variable: _close(function) for variable, function in functions.items()}
    if all(closed[variable] is functions[variable] for variable in functions):
        return module
    return IRModule(closed)


def _close(function: Any) -> Any:
    if not isinstance(function, PrimFunc):
        return function
    found: list[Var] = []
    for parameter in function.params:
        if isinstance(parameter.ty, BufferType):
            for extent in parameter.shape:
                found += [var for var in undefined_vars(extent) if not _is_in(var, found)]
    if not found or len(found) > len(_SIZES):
        return function
    values = {var: IntImm(str(var.ty), size) for var, size in zip(found, _SIZES, strict=False)}
    parameters = function.params
    own = [var for var in found if not _is_in(var, parameters)]
    opened = with_parameters(function, [*own, *parameters])
    return opened.specialize(values)


def _is_in(variable: Var, variables: Any) -> bool:
    return any(variable.same_as(other) for other in variables)
