"""Enumeration: index expressions tried out, where no rule decides about them.

All values of an expression are computed at once, as arrays over the variables that it is made of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tvm.tirx import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    Cast,
    FloorDiv,
    FloorMod,
    For,
    LShift,
    Max,
    Min,
    Mul,
    Not,
    Or,
    RShift,
    Sub,
    Var,
)
from tvm.tirx.analysis import undefined_vars

from .tir import constant, get_operands, is_among, is_used

Table = NDArray[np.int64]
"""Values of expressions: a row for each iteration, a column for each expression."""
_MOST = 2048
"""Iterations that are tried: a millisecond."""
_COUNTED = 1 << 15
"""Iterations that are counted: some milliseconds."""
_SPAN = 1 << 24
"""Longest span of numbers that are counted, and not sorted: 128 MiB."""
OPERATORS: dict[Any, Callable[..., Any]] = {
    Add: np.add,
    Sub: np.subtract,
    Mul: np.multiply,
    FloorDiv: np.floor_divide,
    FloorMod: np.mod,
    Min: np.minimum,
    Max: np.maximum,
    And: np.logical_and,
    Or: np.logical_or,
    LT: np.less,
    LE: np.less_equal,
    GT: np.greater,
    GE: np.greater_equal,
    EQ: np.equal,
    NE: np.not_equal,
    BitwiseAnd: np.bitwise_and,
    BitwiseOr: np.bitwise_or,
    BitwiseXor: np.bitwise_xor,
    LShift: np.left_shift,
    RShift: np.right_shift,
}


def tabulate(
    columns: Sequence[Any],
    conditions: Iterable[Any],
    variables: Mapping[Any, ArrayLike],
    *,
    others: int | None = None,
) -> Table | None:
    """The columns' values at all choices of the variables' values at which the conditions hold.

    In the order of nested loops over the variables, the first one outermost. `others` is the value
    of variables that are not given. What would be divided by zero has no value, and no row. None
    where there is another variable, or an operator that is none of integers.
    """
    values, shape = {}, []
    for at, (variable, given) in enumerate(variables.items()):
        row = np.asarray(given, np.int64)
        values[variable.__chandle__()] = row.reshape((-1, *(1,) * (len(variables) - at - 1)))
        shape.append(len(row))
    divisors: list[Any] = []
    try:
        with np.errstate(divide="ignore"):
            lets = np.broadcast_to(np.True_, shape)
            for condition in conditions:
                lets = lets & (_evaluate(condition, values, others, divisors) != 0)
            table = [_evaluate(column, values, others, divisors) for column in columns]
    except TypeError:
        return None
    for divisor in divisors:
        lets = lets & (divisor != 0)
    rows = np.empty((np.count_nonzero(lets), len(table)), np.int64)
    for at, column in enumerate(table):
        rows[:, at] = np.broadcast_to(column, shape)[lets]
    return rows


def _evaluate(node: Any, values: Mapping[int, Any], others: int | None, divisors: list[Any]) -> Any:
    """An expression over arrays of its variables, which are known by address."""
    if isinstance(node, Var):
        found = values.get(node.__chandle__(), others)
        if found is None:
            raise TypeError(f"'{node.name}' has no value")
        return found
    if (number := constant(node)) is not None:
        return number
    if isinstance(node, Cast):
        return _evaluate(node.value, values, others, divisors)
    if isinstance(node, Not):
        return np.logical_not(_evaluate(node.a, values, others, divisors))
    operator = OPERATORS.get(type(node))
    if operator is None:
        raise TypeError(f"{type(node).__name__} is not an integer operator")
    left, right = (_evaluate(each, values, others, divisors) for each in (node.a, node.b))
    if isinstance(node, FloorDiv | FloorMod) and constant(node.b) is None:
        divisors.append(right)
    return operator(left, right)


def list_values(column: NDArray[Any]) -> list[int]:
    """The numbers of a column, each once and in order, without sorting: of iterations, whose span
    is mostly short where the column may be long.
    """
    least, most = column.min(initial=0), column.max(initial=0)
    if most - least > _SPAN:
        return np.unique(column).tolist()
    return (np.flatnonzero(np.bincount(column - least)) + least).tolist()


def number_rows(*tables: Table) -> list[NDArray[Any]]:
    """A number for each row of some tables, the same for equal rows; in their order."""
    rows = np.concatenate(tables)
    numbers = np.zeros(len(rows), np.int64)
    if rows.size:
        first = rows.min(axis=0)
        widths = [int(width) + 1 for width in rows.max(axis=0) - first]
        if math.prod(widths) < 1 << 62:
            for at, width in enumerate(widths):
                numbers = numbers * width + (rows[:, at] - first[at])
        else:
            numbers = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    return np.split(numbers, np.cumsum([len(table) for table in tables])[:-1])


def meets_again(values: list[Any], predicate: Any, loops: list[For]) -> bool:
    """Whether two iterations of loops, that a predicate lets through, have the same values.

    Other variables are zero. The first and the last iterations of each loop are tried, as many as
    fit; what is found is so, and what is not found may be elsewhere.
    """
    (numbers,) = number_rows(try_iterations(values, [predicate], loops))
    return len(np.unique(numbers)) < len(numbers)


def begins_late(values: list[Any], terms: list[Any], predicate: Any, loops: list[For]) -> bool:
    """Whether terms that are not all 0 come before those that are, for the same values.

    The first and the last iterations of each loop are tried, in their order; what is found is so.
    """
    rows = try_iterations([*values, *terms], [predicate], loops)
    (places,) = number_rows(rows[:, : len(values)])
    seen: set[int] = set()
    for place, left in zip(places.tolist(), rows[:, len(values) :].tolist(), strict=True):
        if any(left):
            seen.add(place)
        elif place in seen:
            return True
    return False


def misses(
    written: list[Any], need: list[Any], shared: list[For], own: list[list[For]], shape: list[int]
) -> bool:
    """Whether a reader uses an element that its writer does not write in a shared iteration.

    `written` and `need` are the indices of each, and its predicate; `own` the loops of each that
    are its own. Of shared iterations some are tried; False where a block's own are too many.
    """
    most = max(math.prod(constant(loop.extent) or _MOST for loop in loops) for loops in own)
    tried = choose_values(shared, max(1, _MOST // most))
    if most * math.prod(map(len, tried)) > 4 * _MOST:
        return False
    around = [loop.loop_var for loop in shared]
    tables = []
    for (*indices, predicate), loops in zip((written, need), own, strict=True):
        chosen = [*tried, *(range(constant(loop.extent) or 0) for loop in loops)]
        tables.append(try_iterations([*around, *indices], [predicate], [*shared, *loops], chosen))
    has, needed = tables
    element = needed[:, len(around) :]
    needed = needed[((element >= 0) & (element < np.array(shape))).all(axis=1)]
    has_numbers, numbers = number_rows(has, needed)
    return bool(len(has)) and not np.isin(numbers, has_numbers).all()


def escapes(predicate: Any, condition: Any, loops: list[For]) -> bool:
    """Whether a predicate lets an iteration of loops through that a condition does not."""
    return not try_iterations([condition], [predicate], loops).all()


def varies_along(expression: Any, along: list[For], around: list[For]) -> bool:
    """Whether an expression has different values over some loops, the others standing still.

    Of all loops the first and the last iterations are tried.
    """
    used = [*undefined_vars(expression)]
    along, around = (
        [loop for loop in loops if is_among(loop.loop_var, used)] for loops in (along, around)
    )
    outer = [loop.loop_var for loop in around]
    rows = try_iterations([*outer, expression], [], [*around, *along])
    places, points = number_rows(rows[:, :-1])[0], number_rows(rows)[0]
    return bool(along) and len(np.unique(places)) < len(np.unique(points))


def count_points(values: list[Any], predicate: Any, loops: list[For]) -> int | None:
    """How many different values there are in the iterations of loops that a predicate lets through.

    What shares no loops is counted apart. None where there are too many, or an expression is not
    one of the loops alone.
    """
    total = 1
    for group in group_linked([*values, *get_operands(predicate, And)], loops):
        mine = [it for it in loops if any(is_used(it.loop_var, each) for each in group)]
        extents = [constant(loop.extent) for loop in mine]
        known = [extent for extent in extents if extent is not None]
        if len(known) < len(extents) or math.prod(known) > _COUNTED:
            return None
        points = [each for each in group if is_among(each, values)]
        conditions = [each for each in group if not is_among(each, values)]
        variables = zip((loop.loop_var for loop in mine), map(range, known), strict=True)
        rows = tabulate(points, conditions, dict(variables))
        if rows is None:
            return None
        total *= len(np.unique(number_rows(rows)[0]))
    return total


def group_linked(expressions: list[Any], loops: list[For]) -> list[list[Any]]:
    """The expressions, those that share a loop together."""
    names = [loop.loop_var for loop in loops]
    groups: list[tuple[list[Any], list[Any]]] = []
    for expression in expressions:
        used = [var for var in undefined_vars(expression) if is_among(var, names)]
        near = [group for group in groups if any(is_among(var, group[1]) for var in used)]
        groups = [group for group in groups if not any(group is other for other in near)]
        merged = [item for group in near for item in group[0]], [v for g in near for v in g[1]]
        groups.append(([*merged[0], expression], [*merged[1], *used]))
    return [group[0] for group in groups]


def try_iterations(
    columns: list[Any],
    conditions: list[Any],
    loops: Sequence[Any],
    chosen: Sequence[Iterable[int]] | None = None,
) -> Table:
    """The values of expressions in iterations of loops, counted from 0; none if TVM's are unknown.

    The `chosen` ones, or the first and the last ones of each loop. Other variables are zero.
    """
    tried = choose_values(loops) if chosen is None else [[*each] for each in chosen]
    variables = dict(zip((loop.loop_var for loop in loops), tried, strict=True))
    found = tabulate(columns, conditions, variables, others=0)
    return np.empty((0, len(columns)), np.int64) if found is None else found


def choose_values(loops: Sequence[Any], room: int = _MOST) -> list[list[int]]:
    """The iterations of each loop that are tried: all, or the first and the last ones."""
    extents = [constant(loop.extent) or _MOST for loop in loops]
    chosen: list[list[int]] = [[] for _ in extents]
    for done, place in enumerate(sorted(range(len(extents)), key=extents.__getitem__)):
        extent = extents[place]
        share = min(extent, max(2, int(room ** (1 / (len(extents) - done)))))
        chosen[place] = choose_iterations(extent, share)
        room //= share
    return chosen


def choose_iterations(extent: int, room: int = _MOST) -> list[int]:
    """The iterations of one loop that are tried: all, or the first and the last ones."""
    share = min(extent, room)
    first = share - share // 2
    return [*range(first), *range(extent - share + first, extent)]
