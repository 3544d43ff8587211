"""Picks a function of a module, makes its sizes concrete, and reads its arguments."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import Call, PrimType
from tvm.s_tir import SBlock
from tvm.script import from_source
from tvm.tirx import AttrStmt, Bind, BufferStore, For, IfThenElse, IntImm, PrimFunc, Var
from tvm.tirx.analysis import undefined_vars

from tirstep.modules import KernelError, Tensor
from tirstep.modules.validation import UnjudgedError, nearest
from tirstep.transforms.tir import THREAD_EXTENT, constant, find_all, get_children

from ..compile.compiling import MAIN, make_main, name_functions
from ..device import close_extents, is_scalar
from ..device import get_open_sizes as get_open_sizes

SMALLEST = 16
"""Extents below this are rather a part of the algorithm, a window, say."""
_OPERATIONS = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Max, tirx.Min, Call)


def get_function(module: tvm.IRModule, name: str | None, kernel: str) -> tuple[str, PrimFunc]:
    """A function of a module and its name: the one asked for, or ``main``, or the only one.

    Raises `KernelError` where there is none, or several to choose from.
    """
    functions = name_functions(module)
    if not functions:
        raise KernelError(f"{kernel}: the module has no TIR function; give one that has")
    if name is None and (MAIN in functions or len(functions) == 1):
        name = MAIN if MAIN in functions else next(iter(functions))
    if name is None:
        raise KernelError(
            f"{kernel}: the module has the functions {', '.join(functions)}; name one of them"
        )
    if name not in functions:
        raise KernelError(f"{kernel}: there is no function '{name}'; {nearest(name, functions)}")
    return name, functions[name]


def find_unrelated_sizes(function: PrimFunc) -> list[str]:
    """The open sizes that are of one argument each, if there are several: only a caller knows what
    they have to do with each other, as flat arrays of n, of n and of 64 n elements have.
    """
    count = Counter[str]()
    for parameter in function.params:
        shape = () if is_scalar(parameter) else parameter.shape
        names = [str(it.name) for extent in shape for it in undefined_vars(extent)]
        count.update(dict.fromkeys(names, 1))
    found = [name for name, number in count.items() if number == 1]
    return found if len(found) > 1 else []


def close_sizes(
    function: PrimFunc, sizes: Mapping[str, int], kernel: str, *, left: Collection[str] = ()
) -> PrimFunc:
    """The function with values for the sizes that it leaves open, but for those in `left`, and
    with packed elements from 0 on in buffers of open strides or offset; raises `KernelError`.
    """
    names = get_open_sizes(function)
    if unknown := [name for name in sizes if name not in names]:
        known = ", ".join(names) or "none"
        raise KernelError(f"{kernel}: there is no size '{unknown[0]}'; its symbolic sizes: {known}")
    if missing := [name for name in names if name not in sizes]:
        example = ", ".join(f"{name}=64" for name in missing)
        raise KernelError(f"{kernel}: {', '.join(missing)} must have a value; give {example}")
    for name, size in sizes.items():
        if type(size) is not int or size < 1:
            raise KernelError(f"{kernel}: {name}={size!r} is not a size; give an integer >= 1")
    values = {
        names[name]: IntImm(str(names[name].ty), size)
        for name, size in sizes.items()
        if name not in left
    }
    for buffer in (each for each in function.params if not is_scalar(each)):
        values[buffer.elem_offset] = IntImm(str(buffer.elem_offset.ty), 0)
        extents = [constant(values.get(extent, extent)) or 0 for extent in buffer.shape]
        for axis, stride in enumerate(buffer.strides):
            if packed := math.prod(extents[axis + 1 :]):  # their extents are known
                values[stride] = IntImm(str(stride.ty), packed)
    values = {place: value for place, value in values.items() if isinstance(place, Var)}
    if not values:
        return function
    try:
        return close_extents(function, values)
    except (ValueError, RuntimeError) as error:
        raise KernelError(f"{kernel}: {dict(sizes)} do not fit its shapes; give others") from error


def list_literal_sizes(function: PrimFunc) -> dict[str, int]:
    """The extents of parameters, ``{"n1024": 1024}``, each once, in their order."""
    extents = [
        constant(extent)
        for parameter in function.params
        if not is_scalar(parameter)
        for extent in parameter.shape
    ]
    return {f"n{size}": size for size in extents if size is not None and size >= SMALLEST}


def replace_literals(function: PrimFunc, sizes: Mapping[str, int], kernel: str) -> Any:
    """A function with other sizes, by the names of `list_literal_sizes`; raises `KernelError`.

    It is the same text with other numbers, in loops, shapes and conditions all at once. One that
    means something else may be among them, so that the result counts only where its indices stay
    within its buffers; it is judged by itself, and not by the program at its own sizes.
    """
    known = list_literal_sizes(function)
    numbers = {str(known[name]): str(size) for name, size in sizes.items()}
    text = str(make_main(function).script())
    literal = re.compile(rf"(?<![\w.])({'|'.join(numbers)})(?![\w.])")
    try:
        return from_source(literal.sub(lambda found: numbers[found[1]], text))[MAIN]
    except Exception as error:  # of whatever kind: other numbers may be no program
        raise KernelError(
            f"{kernel}: with {dict(sizes)} in place of its constants it is not a program; give it "
            "symbolic sizes, or leave --shape out"
        ) from error


def read_arguments(function: PrimFunc, kernel: str) -> tuple[Tensor, ...]:
    """A function's arguments, in their order; raises `KernelError` for an opaque pointer."""
    found = []
    for parameter in function.params:
        name = str(parameter.name)
        if not is_scalar(parameter):
            shape = tuple(int(constant(extent) or 0) for extent in parameter.shape)
            if 0 in shape:
                raise UnjudgedError(
                    f"{kernel}: the parameter {name} has the shape {shape}, and so no elements; "
                    "give it extents >= 1"
                )
            found.append(Tensor(name, shape, str(parameter.dtype)))
        elif isinstance(parameter.ty, PrimType) and str(parameter.ty) != "handle":
            found.append(Tensor(name, (), str(parameter.ty), is_scalar=True))
        else:
            raise UnjudgedError(f"{kernel}: {name} is an opaque pointer; match it to a buffer")
    return tuple(found)


def find_float_types(function: PrimFunc) -> set[str]:
    """The types in which a function computes, or keeps what it computed."""
    nodes = [str(it.ty) for kind in _OPERATIONS for it in find_all(function.body, kind)]
    stores = find_all(function.body, BufferStore)
    nodes += [str(it.buffer.dtype) for it in stores if it.buffer not in function.params]
    return {each.split("x")[0] for each in nodes if "float" in each}


def count_operations(body: Any) -> int:
    """The operations on floats in a statement; without any, the stores of something computed."""
    counts = [0, 0]

    def count(node: Any, times: int) -> None:
        if isinstance(node, For):
            times *= constant(node.extent) or 1
        if isinstance(node, AttrStmt) and node.attr_key == THREAD_EXTENT:
            times *= constant(node.value) or 1
        if isinstance(node, BufferStore | Bind):
            operations = [each for kind in _OPERATIONS for each in find_all(node.value, kind)]
            counts[0] += times * sum("float" in str(each.ty) for each in operations)
            counts[1] += times * (len(operations) or 1)
        children = get_children(node)
        if isinstance(node, IfThenElse):
            del children[1:]
        if isinstance(node, SBlock):  # without its initialization
            del children[:-1]
        for child in children:
            count(child, times)

    count(body, 1)
    return counts[0] or counts[1]
