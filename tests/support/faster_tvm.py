"""What TVM's parser and schedules do slower than they have to: the same, faster.

Tests parse thousands of programs, most of them again and again with other sizes. Commands that
tests start as processes have TVM as it is.
"""

from __future__ import annotations

import functools
import inspect
import linecache
from typing import Any

from tvm.s_tir.schedule import _type_checker
from tvm.script.parser.core import doc, evaluator

_CONTEXT = 3  # how many frames of a stack TVM's parser reads the source of
_PARSED = 256  # sources
evaluate_compiled = evaluator._eval_expr
"""TVM's own: it makes a Python program of an expression, compiles that and runs it."""


def install() -> None:
    """Let this process's TVM have all of it."""
    inspect.stack, inspect.getouterframes = _get_stack, _get_frames
    _remember_types()
    doc.parse = functools.lru_cache(maxsize=_PARSED)(doc.parse)
    evaluator._eval_expr = evaluate


def _get_stack(context: int = 1) -> list[inspect.FrameInfo]:
    """What `inspect.stack` returns, with source text for the first frames alone, a line each.

    TVM's parser asks for the stack at each decorator, and under pytest that has a hundred frames: a
    tenth of the tests' time went into finding the modules and files of them.
    """
    frame = inspect.currentframe()
    return _get_frames(frame and frame.f_back, context)


def _get_frames(frame: Any, context: int = 1) -> list[inspect.FrameInfo]:
    """What `inspect.getouterframes` returns, in the same way: the parser asks at each macro."""
    found: list[inspect.FrameInfo] = []
    while frame:
        file, line = frame.f_code.co_filename, frame.f_lineno
        text = linecache.getline(file, line) if context and len(found) <= _CONTEXT else ""
        shown = ([text], 0) if text else (None, None)
        found.append(inspect.FrameInfo(frame, file, line, frame.f_code.co_name, *shown))
        frame = frame.f_back
    return found


def _remember_types() -> None:
    """TVM holds the arguments of each primitive against their types, and asks these each time what
    they are a list, a union or a tuple of, and how they are spelt: a fifth of a schedule's time.
    """
    for name in ("_dispatcher", "_type2str"):
        if hasattr(_type_checker, name):
            setattr(_type_checker, name, functools.cache(getattr(_type_checker, name)))


def evaluate(node: Any, names: dict[str, Any] | None) -> Any:
    """The value of an expression: names, constants and attributes of names need no compiler.

    They are what most expressions consist of, whose parts have values by then.
    """
    kind = type(node)
    if kind is doc.Constant:
        return node.value
    name = node.value if kind is doc.Attribute else node
    if type(name) is not doc.Name or not names or name.id not in names:
        return evaluate_compiled(node, names)
    value = names[name.id]
    return getattr(value, node.attr) if kind is doc.Attribute else value
