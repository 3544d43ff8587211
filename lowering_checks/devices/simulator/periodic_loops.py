"""Loops that need not run to their end where accesses are counted and no number is asked for.

What an access costs depends on its addresses modulo `SPAN` bytes alone, all of whose sectors and
banks come again at each multiple of that. So where every address of a loop moves by multiples of
it in `period` iterations, and no condition changes, the iterations after that count the same
again. Both are proven by TVM's analyzer for each loop, or the loop runs as it is. A kernel that
takes an address or a condition from memory runs as it is, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvm.ir import Call, Range, TensorLoad
from tvm.sym import Analyzer
from tvm.tirx import (
    Add,
    Bind,
    Broadcast,
    For,
    IfThenElse,
    Ramp,
    While,
)

from tirstep.transforms.tir import (
    constant,
    find_all,
    find_axes,
    find_choices,
    get_elements,
    is_choice,
    is_used,
    substitute,
)
from tirstep.tvm_compat import get_op_name

SPAN = 128
"""Bytes: of the banks of shared memory, and a multiple of a sector's."""
PERIODS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
ENDS = ((0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3))
"""Iterations at the beginning and the end of a loop that may differ from those between."""


Period = tuple[int, int, int]
"""The iterations of a loop that run first, those after which all counts repeat, and those that run
at the end."""


def find_periods(kernel: Any) -> dict[Any, Period]:
    """The loops of a kernel's body that have a period, each of which is less than half of it."""
    if is_decided_by_memory(kernel) or find_all(kernel, While):
        return {}
    calls = [get_op_name(call) for call in find_all(kernel, Call)]
    if any("thread_return" in name or "mbarrier" in name for name in calls):
        return {}  # threads that are gone, and phases, make iterations differ
    loops, values = find_all(kernel, For), inline_names(kernel)
    ranges = {axis.node.var: Range(0, axis.value) for axis in find_axes(kernel)}
    ranges |= {loop.loop_var: Range.from_min_extent(loop.min, loop.extent) for loop in loops}
    periods = {loop: _find_period(loop, values, ranges) for loop in loops}
    return {loop: period for loop, period in periods.items() if period is not None}


def is_decided_by_memory(statement: Any) -> bool:
    """Whether a value in memory decides an address, a condition, or how often a loop runs."""
    values, indices = inline_names(statement), (index for _, index in list_indices(statement))
    deciding = (*list_conditions(statement), *indices)
    return any(find_all(substitute(each, values), TensorLoad) for each in deciding)


def inline_names(kernel: Any) -> dict[Any, Any]:
    """What the names that a kernel binds stand for, without others of these names."""
    values: dict[Any, Any] = {}
    for bind in find_all(kernel, Bind):
        values[bind.var] = substitute(bind.value, values)
    return values


def list_conditions(statement: Any) -> Iterator[Any]:
    """Conditions, and where loops begin and how often they run."""
    for kind in (IfThenElse, While):
        yield from (node.condition for node in find_all(statement, kind))
    yield from (condition for condition, *_ in find_choices(statement))
    for loop in find_all(statement, For):
        yield from (loop.min, loop.extent)


def list_indices(statement: Any) -> Iterator[tuple[int, Any]]:
    """Each index of memory that threads share, with the bytes of its unit.

    The integers that a call is given may be offsets, in elements of a byte at least.
    """
    for buffer, indices in get_elements(statement):
        if hasattr(buffer, "scope") and str(buffer.scope()) != "local":
            yield from ((buffer.dtype.itemsize, _get_first_lane(index)) for index in indices)
    for call in find_all(statement, Call):
        if not is_choice(call):
            yield from ((1, each) for each in call.args if _is_integer(each))


def _get_first_lane(index: Any) -> Any:
    """Where a vector of addresses begins; the others lie at constant distances from it."""
    if isinstance(index, Add):
        return _get_first_lane(index.a) + _get_first_lane(index.b)
    if isinstance(index, Ramp) and constant(index.stride) is not None:
        return _get_first_lane(index.base)
    return index.value if isinstance(index, Broadcast) else index


def _is_integer(expression: Any) -> bool:
    return str(getattr(getattr(expression, "ty", None), "dtype", "")).startswith(("int", "uint"))


def _find_period(loop: For, values: dict[Any, Any], ranges: dict[Any, Range]) -> Period | None:
    count = constant(loop.extent)
    if count is None or constant(loop.min) is None:
        return None
    indices = [(size, substitute(index, values)) for size, index in list_indices(loop.body)]
    moving = [(size, index) for size, index in indices if is_used(loop.loop_var, index)]
    conditions = [substitute(each, values) for each in list_conditions(loop.body)]
    changing = [each for each in conditions if is_used(loop.loop_var, each)]
    for head, tail in ENDS if changing else ENDS[:1]:
        for period in PERIODS:
            if head + tail + 2 * period > count:
                break
            span = Range.from_min_extent(loop.min + head, count - head - tail - period)
            analyzer = Analyzer()
            for variable, range_of in {**ranges, loop.loop_var: span}.items():
                analyzer.bind(variable, range_of)
            later = {loop.loop_var: loop.loop_var + period}
            moved = [
                (size, constant(analyzer.simplify(substitute(index, later) - index)))
                for size, index in moving
            ]
            if all(step is not None and step * size % SPAN == 0 for size, step in moved) and all(
                analyzer.can_prove_equal(substitute(condition, later), condition)
                if _is_integer(condition)
                else str(analyzer.simplify(substitute(condition, later)))
                == str(analyzer.simplify(condition))
                for condition in changing
            ):
                return head, period, tail
    return None
