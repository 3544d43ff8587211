"""What of a program depends on data, and what has no right answer that could be computed: random
numbers, foreign code, bits of floats."""

from __future__ import annotations

from typing import Any, NoReturn

import tvm.tirx as tirx
from tvm.ir import Call, TensorLoad
from tvm.tirx import BufferStore, Var

from tirstep.modules.dtypes import dtype_facts
from tirstep.transforms.tir import find_all

COMPARISONS = ("EQ", "NE", "LT", "LE", "GT", "GE")
TESTS = ("isnan", "isinf", "isfinite")
TRANSPARENT = ("likely", "ignore_loop_partition", "tvm_thread_invariant")
"""Calls that return their first argument."""


class RefusedError(Exception):
    """Why a program cannot be judged, in words that follow its name."""


_FOREIGN = (
    "call_packed",
    "call_cpacked",
    "call_extern",
    "call_pure_extern",
    "call_llvm",
    "func_call",
)
GIVE_REFERENCE = "name a plain program that computes the same: --reference FILE:NAME"
EXCHANGES = "makes threads of a GPU wait or exchange values"
_MEETING = ("barrier", "sync", "shuffle", "shfl", "allreduce", "atomic")


def get_call_name(call: Any) -> str:
    """The name of what is called, without TVM's prefix: ``exp``, ``if_then_else``."""
    name = str(getattr(call.op, "name", getattr(call.op, "name_hint", call.op)))
    return name.removeprefix("tirx.").removeprefix("prim.")


def name_exchange(call: Any) -> str | None:
    """The function that has threads wait for one another, or exchange values; None of another."""
    name = get_call_name(call)
    if name.endswith(("_extern", "func_call")):
        name = str(call.args[0].value)
    return name if any(word in name.lower() for word in _MEETING) else None


def refuse_call(call: Any) -> NoReturn:
    """Raise `RefusedError` for a call."""
    name = get_call_name(call)
    if (exchange := name_exchange(call)) is not None:
        raise RefusedError(f"'{exchange}' {EXCHANGES}; {GIVE_REFERENCE}")
    if name.startswith(_FOREIGN) or name.endswith(_FOREIGN):
        texts = [str(arg.value) for arg in call.args if type(arg).__name__ == "StringImm"]
        raise RefusedError(
            f"it calls '{[*texts, name][0]}', and only the device knows what that computes"
        )
    if type(call.op).__name__ == "GlobalVar":
        raise RefusedError(f"it calls the function '{name}' of its module; inline that first")
    if "rand" in name:
        raise RefusedError(f"'{name}' draws random numbers, so no result is the right one")
    raise RefusedError(f"'{name}' cannot be computed in float64 here; {GIVE_REFERENCE}")


def get_dtype(expression: Any) -> str:
    """The type of a scalar expression; raises `RefusedError` for a vector."""
    dtype = str(expression.ty)
    if "x" in dtype:
        raise RefusedError(f"the vector type {dtype} cannot be computed in float64 here")
    return dtype


def needs_guard(expression: Any) -> bool:
    """Whether computing an expression where it is not wanted may go wrong: loads, divisions."""
    if find_all(expression, TensorLoad) or find_all(expression, Call):
        return True
    kinds = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)
    return any(find_all(expression, kind) for kind in kinds)


def find_shaky_buffers(body: Any) -> set[Any]:
    """The buffers of integers that a float may have decided over: all that are stored to, in a
    program that compares, tests or truncates floats.
    """
    asked = [node.a for kind in COMPARISONS for node in find_all(body, getattr(tirx, kind))]
    asked += [node.value for node in find_all(body, tirx.Cast) if not _is_float(node)]
    asked += [call.args[0] for call in find_all(body, Call) if get_call_name(call) in TESTS]
    stored = {store.buffer for store in find_all(body, BufferStore) if any(map(_is_float, asked))}
    return {buffer for buffer in stored if not dtype_facts(str(buffer.dtype)).is_float}


def compares_data(body: Any) -> bool:
    """Whether a program compares what it loads, with one another or with anything else."""
    compared = [node for kind in COMPARISONS for node in find_all(body, getattr(tirx, kind))]
    return any(find_all(node, TensorLoad) for node in compared)


def _is_float(expression: Any) -> bool:
    return str(expression.ty).startswith(("float", "bfloat"))


def find_accumulated(body: Any) -> set[Any]:
    """The buffers that are stored to in dependence on what they held: whose order may change."""
    bound: dict[Any, set[Any]] = {}

    def loaded(expression: Any) -> set[Any]:
        found = {load.source for load in find_all(expression, TensorLoad)}
        return found.union(*(bound.get(variable, set()) for variable in find_all(expression, Var)))

    for node in find_all(body, tirx.Bind):
        bound[node.var] = loaded(node.value)
    stores = find_all(body, BufferStore)
    return {node.buffer for node in stores if node.buffer in loaded(node.value)}
