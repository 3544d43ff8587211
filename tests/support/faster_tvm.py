"""What TVM's parser, schedules and nodes do slower than they have to: the same, faster.

Tests parse thousands of programs, most of them again and again with other sizes. Commands that
tests start as processes have TVM as it is.
"""

from __future__ import annotations

import functools
import inspect
import linecache
from collections.abc import Iterator
from typing import Any

import tvm_ffi
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import _type_checker
from tvm.script.parser.core import doc, evaluator
from tvm_ffi import container

_CONTEXT = 3  # how many frames of a stack TVM's parser reads the source of
_ATOMS = (int, float, str, bool, bytes, complex)
_PARSED = 256  # sources
evaluate_compiled = evaluator._eval_expr
"""TVM's own: it makes a Python program of an expression, compiles that and runs it."""


def install() -> None:
    """Let this process's TVM have all of it."""
    inspect.stack, inspect.getouterframes = _get_stack, _get_frames
    _remember_types()
    _bind_primitives()
    _ask_classes()
    container.Array.__getitem__, container.Array.__iter__ = _get_item, _iterate
    doc._is_atomic_type = is_atom
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


def _bind_primitives() -> None:
    """TVM binds the arguments of each primitive to a signature, and holds its defaults against
    their types, too: a tenth of a schedule's time. What does not plainly fit is left to it.
    """
    for name, method in vars(Schedule).items():
        held = inspect.getclosurevars(method).nonlocals if inspect.isfunction(method) else {}
        if {"func", "hints", "sig"} <= held.keys():
            setattr(Schedule, name, _check_given(method, **held))


def _check_given(checked: Any, *, func: Any, hints: dict[str, Any], sig: Any) -> Any:
    """A primitive that is held against its types, with the arguments that a call gives alone."""
    kinds = {name: each.kind for name, each in sig.parameters.items()}
    names = [
        name for name, kind in kinds.items() if kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    rest = next((it for it, kind in kinds.items() if kind is inspect.Parameter.VAR_POSITIONAL), "")
    needed = {it for it, each in sig.parameters.items() if each.default is each.empty} - {rest}

    @functools.wraps(func)
    def call(*args: Any, **options: Any) -> Any:
        given = dict(zip(names, args, strict=False)) | options
        fits = len(given) == min(len(args), len(names)) + len(options)
        if rest and rest not in options:
            given[rest] = args[len(names) :]
        else:
            fits = fits and len(args) <= len(names)
        fits = fits and needed <= given.keys() <= kinds.keys()
        check = _type_checker._type_check
        if not fits or any(
            name in hints and check(it, name, hints[name]) for name, it in given.items()
        ):
            return checked(*args, **options)
        return func(*args, **options)

    return call


def _ask_classes() -> None:
    """Classes of TVM's nodes are abstract ones of Python's, which ask at each `isinstance` whether
    anybody registered another class as theirs: a fiftieth of the tests' time. Nobody does.
    """
    type(tvm_ffi.Object).__instancecheck__ = type.__instancecheck__  # type: ignore[method-assign]


_get_slowly = container.Array.__getitem__
_count, _get = container._ffi_api.ArraySize, container._ffi_api.ArrayGetItem


def _get_item(array: Any, index: Any) -> Any:
    """What `Array.__getitem__` returns: most ask with an index of the array's."""
    if type(index) is int and 0 <= index < _count(array):
        return _get(array, index)
    return _get_slowly(array, index)


def _iterate(array: Any) -> Iterator[Any]:
    """What `Array.__iter__` returns, which asks for the length again for each element."""
    for index in range(_count(array)):
        yield _get(array, index)


def is_atom(node: Any) -> bool:
    """Whether the parser takes a node of Python's as it is; TVM makes a union type at each call."""
    return node is None or node is ... or isinstance(node, _ATOMS)


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
