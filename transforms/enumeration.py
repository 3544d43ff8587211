"""Enumeration: index expressions tried out, where no rule decides about them."""

from __future__ import annotations

import ast
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

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

_MOST = 2048
"""Iterations that are tried: some milliseconds."""
_COUNTED = 1 << 15
"""Iterations that are counted: some hundredths of a second."""
_SYMBOLS: dict[Any, ast.operator | ast.cmpop] = {
    Add: ast.Add(),
    Sub: ast.Sub(),
    Mul: ast.Mult(),
    FloorDiv: ast.FloorDiv(),
    FloorMod: ast.Mod(),
    And: ast.BitAnd(),
    Or: ast.BitOr(),
    LT: ast.Lt(),
    LE: ast.LtE(),
    GT: ast.Gt(),
    GE: ast.GtE(),
    EQ: ast.Eq(),
    NE: ast.NotEq(),
    BitwiseAnd: ast.BitAnd(),
    BitwiseOr: ast.BitOr(),
    BitwiseXor: ast.BitXor(),
    LShift: ast.LShift(),
    RShift: ast.RShift(),
}
_FUNCTIONS: dict[Any, str] = {Min: "min", Max: "max"}
_AT: dict[str, Any] = {"lineno": 1, "col_offset": 0}
"""The place of all nodes that are compiled: giving each its own took half of the time."""
_READ = ast.Load()


def meets_again(values: list[Any], predicate: Any, loops: list[For]) -> bool:
    """Whether two iterations of loops, that a predicate lets through, have the same values.

    Other variables are zero. The first and the last iterations of each loop are tried, as many as
    fit; what is found is so, and what is not found may be elsewhere.
    """
    seen = set()
    for *point, is_let in compute_values([*values, predicate], loops):
        if is_let and tuple(point) in seen:
            return True
        if is_let:
            seen.add(tuple(point))
    return False


def begins_late(values: list[Any], terms: list[Any], predicate: Any, loops: list[For]) -> bool:
    """Whether terms that are not all 0 come before those that are, for the same values.

    The first and the last iterations of each loop are tried, in their order; what is found is so.
    """
    begun = set()
    for *point, is_let in compute_values([*values, *terms, predicate], loops):
        place = tuple(point[: len(values)])
        if is_let and any(point[len(values) :]):
            begun.add(place)
        elif is_let and place in begun:
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
    sets = []
    for expressions, loops in zip((written, need), own, strict=True):
        chosen = [*tried, *(range(constant(loop.extent) or 0) for loop in loops)]
        found = compute_values([*around, *expressions], [*shared, *loops], chosen)
        sets.append({tuple(point) for *point, is_let in found if is_let})
    inside = {point for point in sets[1] if _is_inside(point[len(around) :], shape)}
    return bool(sets[0]) and not inside <= sets[0]


def _is_inside(element: tuple[int, ...], shape: list[int]) -> bool:
    return all(0 <= index < extent for index, extent in zip(element, shape, strict=True))


def escapes(predicate: Any, condition: Any, loops: list[For]) -> bool:
    """Whether a predicate lets an iteration of loops through that a condition does not."""
    return any(
        is_let and not holds for is_let, holds in compute_values([predicate, condition], loops)
    )


def varies_along(expression: Any, along: list[For], around: list[For]) -> bool:
    """Whether an expression has different values over some loops, the others standing still.

    Of all loops the first and the last iterations are tried.
    """
    used = [*undefined_vars(expression)]
    along, around = (
        [loop for loop in loops if is_among(loop.loop_var, used)] for loops in (along, around)
    )
    seen: dict[tuple[int, ...], int] = {}
    outer = tuple(loop.loop_var for loop in around)
    return bool(along) and any(
        seen.setdefault(at, value) != value
        for at, value in compute_values([outer, expression], [*around, *along])
    )


def count_points(values: list[Any], predicate: Any, loops: list[For]) -> int | None:
    """How many different values there are in the iterations of loops that a predicate lets through.

    What shares no loops is counted apart. None where there are too many, or an expression is not
    one of the loops alone.
    """
    rest = [*values, *get_operands(predicate, And)]
    left, total = list(loops), 1
    while rest:
        group, mine = [rest.pop(0)], []
        while more := [
            item for item in left if any(is_used(item.loop_var, each) for each in group)
        ]:
            mine += more
            left = [item for item in left if not is_among(item, more)]
            linked = [any(is_used(item.loop_var, each) for item in more) for each in rest]
            group += [each for each, is_linked in zip(rest, linked, strict=True) if is_linked]
            rest = [each for each, is_linked in zip(rest, linked, strict=True) if not is_linked]
        chosen = [is_among(each, values) for each in group]
        points = [each for each, is_value in zip(group, chosen, strict=True) if is_value]
        conditions = [each for each, is_value in zip(group, chosen, strict=True) if not is_value]
        count = _count_together(points, conditions, mine)
        if count is None:
            return None
        total *= count
    return total


def _count_together(values: list[Any], conditions: list[Any], loops: list[For]) -> int | None:
    points = _compute_points(values, conditions, loops)
    return None if points is None else len({*points} - {None})


def count_values(value: Any, conditions: list[Any], loops: list[For]) -> Counter[int]:
    """How often an expression has each of its values in the iterations that conditions let through.

    Nothing where there are too many iterations, or an expression is not one of the loops alone.
    """
    if any(constant(loop.min) != 0 for loop in loops):
        return Counter()
    points = _compute_points([value], conditions, loops) or ()
    return Counter(point[0] for point in points if point is not None)


def _compute_points(
    values: list[Any], conditions: list[Any], loops: list[For]
) -> Iterator[tuple[int, ...] | None] | None:
    """What values are in each iteration of loops, None where a condition does not hold.

    None for all of it where there are too many, or an expression is not one of the loops alone.
    """
    extents = [constant(loop.extent) for loop in loops]
    known = [extent for extent in extents if extent is not None]
    if len(known) < len(extents) or math.prod(known) > _COUNTED:
        return None
    variables = [loop.loop_var for loop in loops]
    if any(not is_of(variables, each) for each in (*values, *conditions)):
        return None
    try:
        compute = compile_expressions(values, conditions, variables)
    except TypeError:
        return None
    return itertools.starmap(compute, itertools.product(*map(range, known)))


def is_of(variables: list[Any], expression: Any) -> bool:
    """Whether an expression uses no other variables."""
    return all(is_among(var, variables) for var in undefined_vars(expression))


def compute_values(
    expressions: list[Any], loops: list[For], chosen: Sequence[Iterable[int]] | None = None
) -> Iterator[tuple[Any, ...]]:
    """The values of expressions in the iterations that are tried; none if TVM's are not known.

    Among these is an open size of 0: what is divided by it has no value, and is left out.
    """
    try:
        compute = compile_expressions(expressions, (), [loop.loop_var for loop in loops])
    except TypeError:
        return
    values = itertools.starmap(compute, itertools.product(*(chosen or choose_values(loops))))
    is_left = True
    while is_left:
        with suppress(ZeroDivisionError):  # behind which the iterations go on
            yield from values
            is_left = False


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


def compile_expressions(
    nodes: Sequence[Any], conditions: Sequence[Any], variables: Sequence[Any]
) -> Callable[..., Any]:
    """The values of expressions as one function of the variables' values, for many iterations.

    Expressions may be in tuples, and their values are, too. It returns a tuple, or None where a
    condition does not hold. Other variables are zero. Raises TypeError for an operator that is none
    of whole numbers.
    """
    names = {variable: f"v{place}" for place, variable in enumerate(variables)}
    values = _translate(tuple(nodes), names)
    tests = [ast.Constant(True, **_AT), *(_translate(node, names) for node in conditions)]
    is_let = ast.BoolOp(ast.And(), [*tests, tests[0]], **_AT)
    body = ast.IfExp(is_let, values, ast.Constant(None, **_AT), **_AT)
    places = [ast.arg(f"v{place}", **_AT) for place in range(len(variables))]
    parameters = ast.arguments([], places, None, [], [], None, [])
    program = ast.Expression(ast.Lambda(parameters, body, **_AT))
    return eval(compile(program, "<expressions>", "eval"), {"min": min, "max": max})


def _translate(node: Any, names: dict[Any, str]) -> ast.expr:
    """An expression in Python's syntax, or a tuple of expressions."""
    if isinstance(node, tuple):
        return ast.Tuple([_translate(each, names) for each in node], _READ, **_AT)
    if isinstance(node, Var):
        name = names.get(node)
        return ast.Constant(0, **_AT) if name is None else ast.Name(name, _READ, **_AT)
    value = constant(node)
    if value is not None:
        return ast.Constant(value, **_AT)
    if isinstance(node, Cast):
        return _translate(node.value, names)
    if isinstance(node, Not):
        return ast.UnaryOp(ast.Not(), _translate(node.a, names), **_AT)
    kind = type(node)
    if kind not in _SYMBOLS and kind not in _FUNCTIONS:
        raise TypeError(f"{kind.__name__} is no operator of whole numbers")
    left, right = _translate(node.a, names), _translate(node.b, names)
    symbol = _SYMBOLS.get(kind)
    if isinstance(symbol, ast.operator):
        return ast.BinOp(left, symbol, right, **_AT)
    if isinstance(symbol, ast.cmpop):
        return ast.Compare(left, [symbol], [right], **_AT)
    return ast.Call(ast.Name(_FUNCTIONS[kind], _READ, **_AT), [left, right], [], **_AT)
