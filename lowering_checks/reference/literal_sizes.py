"""A program whose sizes are literals, at other sizes: the same text with other numbers.

Where extents of parameters stand in loops, shapes and conditions, they are replaced all at once. A
number that means something else may be among them, so that the result counts only where its indices
stay within its buffers; it is judged by itself, and not by the program at its own sizes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tvm.script import from_source
from tvm.tirx import PrimFunc

from tirstep.modules import KernelError
from tirstep.transforms.tir import constant

from ..compile.compiling import MAIN, make_main
from ..device import is_scalar

SMALLEST = 16
"""Extents below this are rather a part of the algorithm, a window, say."""


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
    """A function with other sizes, by the names of `list_literal_sizes`; raises `KernelError`."""
    known = list_literal_sizes(function)
    numbers = {str(known[name]): str(size) for name, size in sizes.items()}
    text = str(make_main(function).script())
    literal = re.compile(rf"(?<![\w.])({'|'.join(numbers)})(?![\w.])")
    try:
        module = from_source(literal.sub(lambda found: numbers[found[1]], text))
        return module[MAIN]
    except Exception as error:  # of whatever kind: other numbers may be no program
        raise KernelError(
            f"{kernel}: its text with other numbers, {dict(sizes)}, is no program; leave its sizes "
            "open, or leave --shape out"
        ) from error
