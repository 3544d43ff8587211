"""Quotients and remainders in indices of blocks, which TVM gets wrong in small buffers.

Of what goes down as a loop goes up, as in ``(31 - i) // 4``, TVM 0.27 takes a wrong one: its
simplification of sums of loops makes ``i // -4 + 7`` of it, which is another number for most i, in
`transform_layout` and, of buffers of one dimension, where it lowers a module.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

from tvm.ir import IRModule
from tvm.tirx import Add, BufferStore, FloorDiv, FloorMod, For, Mul, Sub
from tvm.tirx.analysis import undefined_vars

from tirstep.transforms.enumeration import choose_iterations, tabulate
from tirstep.transforms.tir import (
    Place,
    cached_by_module,
    constant,
    find_all,
    get_axis,
    get_elements,
    get_places,
    is_used,
    list_functions,
    substitute,
)

from .accesses import find_conditions


class Quotient(NamedTuple):
    """A quotient or a remainder in an index of a block, in loop variables.

    Attributes
    ----------
    shift : the constant in the sum that is divided
    is_strange : whether TVM may take its value in one thread for that in all; of shared memory only
    """

    buffer: Any
    expression: Any
    shift: int
    is_strange: bool


Quotients = list[tuple[Place, tuple[Quotient, ...]]]
"""Those of each block that has some, in program order."""


def find_all_quotients(body: Any) -> Quotients:
    read = []
    for place in get_places(body):
        # The variables of several threads around a block, and how many these are.
        threads = tuple(
            (loop.loop_var, constant(loop.extent) or 0)
            for loop in place.loops
            if is_thread(loop) and constant(loop.extent) != 1
        )
        if place.is_innermost and (quotients := _read_quotients(place.key, threads)):
            read.append((place, quotients))
    return read


@functools.lru_cache(maxsize=256)  # a transform leaves most blocks as they are
def _read_quotients(
    place: tuple[Any, ...], threads: tuple[tuple[Any, int], ...]
) -> tuple[Quotient, ...]:
    """The quotients in the indices of a block that holds no others."""
    block, items, guards = place
    if not (divides(block.body) or divides(tuple(value for _, value in items))):
        return ()
    named, found = dict(items), []
    stores = len(find_all(block.body, BufferStore))
    for at, (buffer, indices) in enumerate(get_elements(block.body)):
        quotients = find_quotients([substitute(index, named) for index in indices])
        is_shared = bool(quotients) and buffer.scope().startswith("shared")
        conditions: list[Any] = []
        if is_shared and threads:
            inner = find_conditions(block.body, indices) if at >= stores else []
            conditions = [*guards, *(substitute(condition, named) for condition in inner)]
        for quotient in quotients:
            # TVM may take the value in one thread for that in all where it divides a remainder
            # whose divisor it does not divide, as in ``i % 5 % 4``, and behind some guards.
            moving = [item for item in threads if is_used(item[0], quotient)]
            divisor = constant(quotient.b)
            uneven = find_all(quotient.a, FloorMod)
            asked = [it for it in conditions if any(is_used(one, it) for one, _ in moving)]
            is_strange = is_shared and bool(moving)
            is_strange = is_strange and (
                divisor is None
                or any((constant(it.b) or 1) % divisor for it in uneven)
                or any(is_pinned(conditions, *item) for item in moving)
                or any(map(divides, asked))
            )
            found.append(Quotient(buffer, quotient, _find_shift(quotient.a), is_strange))
    return tuple(found)


def divides(node: Any) -> bool:
    """Whether there is a quotient or a remainder in a statement or in expressions."""
    parts = node if isinstance(node, tuple) else (node,)
    return any(find_all(part, kind) for part in parts for kind in (FloorDiv, FloorMod))


def is_pinned(conditions: list[Any], thread: Any, count: int) -> bool:
    """Whether conditions let one thread in, where all else is zero: ``thread * 4 < 3``, say.

    Of many threads the first and the last ones are tried; where these are not let in, others may
    be, and it is taken for so.
    """
    asked = [condition for condition in conditions if is_used(thread, condition)]
    if not asked:
        return False
    rows = tabulate((), asked, {thread: choose_iterations(count)}, others=0)
    return rows is None or len(rows) <= 1


def find_quotients(indices: Iterable[Any]) -> list[Any]:
    """Of each index the remainders, then the quotients."""
    return [
        node for index in indices for kind in (FloorMod, FloorDiv) for node in find_all(index, kind)
    ]


def _find_shift(expression: Any) -> int:
    """The constant in a sum."""
    if isinstance(expression, Add):
        return _find_shift(expression.a) + _find_shift(expression.b)
    if isinstance(expression, Sub):
        return _find_shift(expression.a) - _find_shift(expression.b)
    return constant(expression) or 0


def is_thread(loop: For) -> bool:
    return (get_axis(loop) or "").startswith("threadIdx")


def is_descending(dividend: Any) -> bool:
    """Whether a sum has variables that it gets smaller with."""
    if any(undefined_vars(node.b) for node in find_all(dividend, Sub)):
        return True
    products = find_all(dividend, Mul)
    return any((constant(side) or 0) < 0 for node in products for side in (node.a, node.b))


@cached_by_module(4)
def find_negative_divisors(module: IRModule) -> list[str]:
    """The buffers, by name, in whose indices something is divided by a negative number."""

    def divides_by_negative(node: Any) -> bool:
        quotients = (it for kind in (FloorDiv, FloorMod) for it in find_all(node, kind))
        return any((constant(it.b) or 0) < 0 for it in quotients)

    bodies = [it.body for it in list_functions(module) if divides_by_negative(it.body)]
    elements = (element for body in bodies for element in get_elements(body))
    found = [str(it.name) for it, indices in elements if any(map(divides_by_negative, indices))]
    return list(dict.fromkeys(found))
