"""What the factories put into their TVMScript besides the text itself.

Two habits of TVM's parser shape them. It takes a size and a loop of one name for the same thing, so
sizes are in capitals, as in textbooks: ``for i, j, k in T.grid(M, N, K)``. And it does not find a
class in a function whose signature ends in a line of its own, ``) -> tvm.IRModule:``, so that a
function with a program in it has its signature on one line.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import tvm
from tvm.script import tirx as T

# Of the inputs, of the sums, of the output. A factory's signature has None for a default; @kernel
# has put a name in its place when the factory runs.
DTypes: TypeAlias = tuple[str, str | None, str | None]


def zero_of(dtype: str | None) -> Any:
    """The literal 0 of a type, such as T.float16(0): `rfactor` and `tensorize` match no casts."""
    return tvm.tirx.const(0, dtype)


def cast_between(source: str | None, target: str | None) -> Callable[[Any], Any]:
    """What turns an expression of one type into the other: nothing at all where they are equal."""
    if source == target:
        return lambda value: value
    return lambda value: T.Cast(target, value)


def swapped_if(swap: bool) -> Callable[[Any, Any], tuple[Any, Any]]:
    """What orders the two indices, or extents, of a matrix that may be stored transposed."""
    return lambda row, column: (column, row) if swap else (row, column)
