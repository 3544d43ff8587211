"""What a compilation may cost: the copies and vectors that TVM would make, counted beforehand.

TVM unrolls without a bound, and nothing stops it from Python. Measured on one core: 2048 copies of
a multiply-add take 1.5 s to become CUDA source, 13 s with LLVM and 54 s with NVRTC; 4096 take 105 s
with LLVM and more than 100 s with NVRTC. A vector of 256 lanes takes LLVM 3 s, one of 1024 three
minutes. Loops that are left to NVIDIA's compiler (``pragma_unroll_explicit=0``) cost TVM nothing,
and NVRTC 3.5 s for 65536 copies.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import tvm
from tvm.tirx import BufferStore, Evaluate, For, ForKind

from tirstep.transforms.legality.vectors import LARGEST
from tirstep.transforms.tir import constant, get_axis

from ..devices.device import DeviceError

MAX_STATEMENTS = 2048
"""Of a function, once TVM has copied those in unrolled loops and virtual threads."""
STATEMENTS_VARIABLE = "TIRSTEP_COMPILE_STATEMENTS"
"""The environment variable that sets another limit than `MAX_STATEMENTS`."""
MAX_LANES = 256
"""Of a vector. No machine has one that long."""

_MAX_AUTO_DEPTH = 8  # of TVM's own configuration of tirx.UnrollLoop
_LARGEST_COPIED_VTHREAD = 15  # of longer ones InjectVirtualThread makes loops
_PRAGMAS = ("pragma_auto_unroll_max_step", "pragma_unroll_explicit")


@dataclass(frozen=True)
class Copies:
    """What TVM makes of a statement by unrolling it and by spreading it over virtual threads.

    Attributes
    ----------
    statements : that there are afterwards, in the whole function
    largest : copies of the statement that is copied most
    loops : those that copy it, by name and extent
    """

    statements: int
    largest: int
    loops: tuple[tuple[str, int], ...]


def count_copies(body: Any) -> Copies:
    """Count as TVM's passes InjectVirtualThread and UnrollLoop do, in a function's body."""
    part = _visit(body, _Scope())
    return Copies(part.total, part.largest, part.loops)


def require_compilable(module: tvm.IRModule) -> None:
    """Raise `DeviceError` for a module whose compilation would take minutes, or never end."""
    limit = read_limit(STATEMENTS_VARIABLE, MAX_STATEMENTS)
    for variable, function in module.functions_items():
        body, where = function.body, f"function '{variable.name_hint}'"
        _require_short_vectors(body, where, ())
        copies = count_copies(body)
        if copies.statements > limit and copies.loops:
            advice = (
                "unroll smaller loops, leave them to NVIDIA's compiler with suggest_unrolling, or "
                f"raise the limit with the environment variable {STATEMENTS_VARIABLE}"
            )
            if copies.statements > LARGEST:
                advice = "split the longest, whose statements TVM counts in 32 bits"
            raise DeviceError(
                f"{where} would have {copies.statements} statements once TVM has copied them, "
                f"one of them {copies.largest} times by the loops {_name(copies.loops)}, and more "
                f"than {limit:g} take minutes to compile; {advice}"
            )


def read_limit(variable: str, default: float) -> float:
    """A limit from the environment; raises `DeviceError` where it is no number above zero."""
    text = os.environ.get(variable, "")
    if not text:
        return default
    try:
        limit = float(text)
    except ValueError:
        limit = 0.0
    if not limit > 0:
        raise DeviceError(
            f"the environment variable {variable} is {text!r}; give a number above zero"
        )
    return limit


def _require_short_vectors(statement: Any, where: str, outer: tuple[tuple[str, int], ...]) -> None:
    if isinstance(statement, For) and statement.kind == ForKind.VECTORIZED:
        outer = (*outer, (str(statement.loop_var.name), constant(statement.extent) or 1))
        lanes = math.prod(extent for _, extent in outer)
        if lanes > MAX_LANES:
            raise DeviceError(
                f"{where} would have vectors of {lanes} lanes, by the loops {_name(outer)}, and "
                f"more than {MAX_LANES} take minutes to compile; split the loops and vectorize an "
                "inner part of 2 to 16"
            )
    for child in _find_children(statement):
        _require_short_vectors(child, where, outer)


def _name(loops: Sequence[tuple[str, int]]) -> str:
    return " * ".join(f"{name}={extent}" for name, extent in loops)


@dataclass(frozen=True)
class _Scope:
    """What holds at a statement: the pragmas around it, and the virtual threads that copy it."""

    max_step: int = 0
    explicit: bool = True
    vthreads: tuple[tuple[str, int], ...] = ()

    def enter(self, annotations: Any) -> _Scope:
        step, explicit = (annotations.get(key) for key in _PRAGMAS)
        return replace(
            self,
            max_step=self.max_step if step is None else constant(step) or 0,
            explicit=self.explicit if explicit is None else bool(constant(explicit)),
        )


@dataclass(frozen=True)
class _Part:
    """What UnrollLoop knows of a statement once it has visited it.

    `steps` and the two depths are the pass's own counters: steps grow with loops that it leaves to
    the next compiler, too; `total` grows with copies alone.
    """

    steps: int = 0
    unrolled_depth: int = 0
    serial_depth: int = 0
    total: int = 0
    largest: int = 0
    loops: tuple[tuple[str, int], ...] = ()

    def __add__(self, other: _Part) -> _Part:
        larger = max(self, other, key=lambda part: part.largest)
        return _Part(
            self.steps + other.steps,
            max(self.unrolled_depth, other.unrolled_depth),
            max(self.serial_depth, other.serial_depth),
            self.total + other.total,
            larger.largest,
            larger.loops,
        )


def _visit(statement: Any, scope: _Scope) -> _Part:
    scope = scope.enter(getattr(statement, "annotations", None) or {})
    if isinstance(statement, For):
        return _visit_loop(statement, scope)
    if isinstance(statement, BufferStore | Evaluate):
        many = math.prod(extent for _, extent in scope.vthreads)
        return _Part(many, 0, 0, many, many, scope.vthreads)
    parts = [_visit(child, scope) for child in _find_children(statement)]
    return reduce(_Part.__add__, parts, _Part())


def _visit_loop(loop: For, scope: _Scope) -> _Part:
    extent = constant(loop.extent)
    here = (str(loop.loop_var.name), extent or 1)
    if loop.kind == ForKind.THREAD_BINDING:
        is_copied = (get_axis(loop) or "").startswith("vthread")
        if is_copied and here[1] <= _LARGEST_COPIED_VTHREAD:
            scope = replace(scope, vthreads=(*scope.vthreads, here))
        return _visit(loop.body, scope)
    part = _visit(loop.body, scope)
    if loop.kind == ForKind.VECTORIZED:
        return part
    is_unrolled = loop.kind == ForKind.UNROLLED or (
        loop.kind == ForKind.SERIAL
        and extent is not None
        and part.serial_depth == 0
        and part.unrolled_depth <= _MAX_AUTO_DEPTH
        and extent <= LARGEST
        and not scope.max_step < extent * part.steps <= LARGEST  # beyond, it may wrap around
    )
    if not is_unrolled:
        return replace(part, serial_depth=part.serial_depth + 1)
    part = replace(part, steps=part.steps * here[1], unrolled_depth=part.unrolled_depth + 1)
    if not scope.explicit:
        return part
    loops = (here, *part.loops) if here[1] > 1 else part.loops
    return replace(part, total=part.total * here[1], largest=part.largest * here[1], loops=loops)


def _find_children(statement: Any) -> list[Any]:
    """The statements inside of a statement."""
    found = list(getattr(statement, "seq", None) or ())
    for name in ("block", "init", "then_case", "else_case", "body"):
        child = getattr(statement, name, None)
        if child is not None:
            found.append(child)
    return found
