"""Arguments of the transforms, held against their annotations in one place.

A call is bound to the function's parameters, and each value is taken as its annotation says:
handles alive and of this schedule, integers within the bits that TVM keeps them in, one of the
literals. NumPy's scalars become Python's own.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV


@dataclass(frozen=True)
class Bits:
    """How many bits an integer is kept in; 32 where an annotation does not say."""

    count: int


Int64 = Annotated[int, Bits(64)]
"""An integer that is no size of a loop: a limit, or the value of an option."""

_NAMES = {"LoopRV": LoopRV, "SBlockRV": SBlockRV, "Schedule": Schedule, "Sequence": Sequence}
"""What annotations may name that their own file imports for type checkers only."""
_HANDLES: dict[Any, tuple[str, str]] = {
    LoopRV: ("loop", "get it with sch.get_loops(block)"),
    SBlockRV: ("block", "get it with sch.get_sblock(name)"),
}
_WORDS = {
    int: ("integer", "an integer"),
    bool: ("bool", "a bool"),
    str: ("string", "a string"),
    float: ("number", "a number"),
    Schedule: ("schedule", "a schedule"),
}
_LONGEST = 60  # characters of a value in a sentence


class UnfitError(Exception):
    """A call or a value does not fit: what is wrong, and what to do about it.

    Attributes
    ----------
    is_near : whether the type is right, and the value is not
    """

    def __init__(self, problem: str, advice: str, *, is_near: bool = False) -> None:
        super().__init__(problem, advice)
        self.problem, self.advice, self.is_near = problem, advice, is_near


def read_arguments(
    function: Callable[..., object], args: Sequence[Any], options: dict[str, Any]
) -> inspect.BoundArguments:
    """The arguments of a call as the function takes them; raises `UnfitError`."""
    signature, kinds = _find_parameters(function)
    try:
        bound = signature.bind(*args, **options)
    except TypeError:
        raise _explain_call(function, args, options) from None
    sch = next(
        (argument for argument in bound.arguments.values() if isinstance(argument, Schedule)), None
    )
    for name, value in bound.arguments.items():
        how, kind = signature.parameters[name].kind, kinds[name]
        if how == inspect.Parameter.VAR_POSITIONAL:
            bound.arguments[name] = tuple(_fit(kind, name, item, sch) for item in value)
        elif how == inspect.Parameter.VAR_KEYWORD:
            bound.arguments[name] = {key: _fit(kind, key, item, sch) for key, item in value.items()}
        else:
            bound.arguments[name] = _fit(kind, name, value, sch)
    return bound


@functools.cache
def _find_parameters(
    function: Callable[..., object],
) -> tuple[inspect.Signature, dict[str, Any]]:
    """A function's signature, and the type of each parameter; `Any` where there is none to find."""
    signature = inspect.signature(function)
    globals_ = getattr(inspect.unwrap(function), "__globals__", {})
    kinds = {}
    for name, parameter in signature.parameters.items():
        holder = types.SimpleNamespace(__annotations__={name: parameter.annotation})
        try:
            hints = typing.get_type_hints(holder, globals_, _NAMES, include_extras=True)
        except (NameError, TypeError, SyntaxError):  # of somebody else's transform
            hints = {}
        kind = hints.get(name, Any)
        kinds[name] = Any if kind is inspect.Parameter.empty else kind
    return signature, kinds


def _fit(kind: Any, name: str, value: Any, sch: Schedule | None) -> Any:
    """A value as a type takes it; raises `UnfitError` where it does not."""
    value, origin = _unwrap(value), typing.get_origin(kind)
    if origin in (Union, types.UnionType):
        return _fit_union(typing.get_args(kind), name, value, sch)
    if origin is Literal:
        return _fit_literal(typing.get_args(kind), name, value)
    if origin is Sequence:
        return _fit_sequence(typing.get_args(kind)[0], name, value, sch)
    if kind in _HANDLES:
        return _fit_handle(kind, name, value, sch)
    if origin is Annotated and typing.get_args(kind)[0] is not int:
        return _fit(typing.get_args(kind)[0], name, value, sch)
    if kind is int or origin is Annotated:
        return _fit_integer(kind, name, value)
    if kind is Any or not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return value
    taken = (int, float) if kind is float else (kind,)
    if not isinstance(value, taken) or (kind is float and isinstance(value, bool)):
        raise UnfitError(f"{name}={show(value)} is not {_describe(kind)}", _advise(kind))
    return value


def _unwrap(value: Any) -> Any:
    """A scalar of NumPy as Python's own; everything else as it is."""
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return value.item()
    return value


def _fit_union(kinds: Sequence[Any], name: str, value: Any, sch: Schedule | None) -> Any:
    refusals = []
    for kind in kinds:
        if kind is types.NoneType:
            if value is None:
                return None
            continue
        try:
            return _fit(kind, name, value, sch)
        except UnfitError as unfit:
            refusals.append((kind, unfit))
    near = [unfit for _, unfit in refusals if unfit.is_near]
    if near or len(refusals) == 1:
        raise (near or [refusals[0][1]])[0]
    words = [_describe(kind) for kind, _ in refusals]
    raise UnfitError(
        f"{name}={show(value)} is neither {' nor '.join(words)}", f"pass {' or '.join(words)}"
    )


def suggest(name: str, known: Iterable[str], otherwise: str) -> str:
    """``did you mean 'a'?``, of the known name that is nearest; `otherwise` where none is near."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean '{near[0]}'?" if near else otherwise


def _fit_literal(choices: Sequence[Any], name: str, value: Any) -> Any:
    for choice in choices:
        if type(value) is type(choice) and value == choice:
            return choice
    known = [choice for choice in choices if isinstance(choice, str)]
    near = difflib.get_close_matches(value, known, n=1) if isinstance(value, str) else []
    listed = " or ".join(f"{name}={show(choice, code=True)}" for choice in choices)
    hint = f"did you mean {name}={show(near[0], code=True)}?" if near else f"use {listed}"
    raise UnfitError(f"{name}={show(value)} is unknown", hint)


def _fit_sequence(kind: Any, name: str, value: Any, sch: Schedule | None) -> Any:
    if isinstance(value, str) and kind is str:
        return value  # of letters
    if not isinstance(value, (list, tuple)):
        if kind in _HANDLES:
            raise UnfitError(f"{name} is no list of {_HANDLES[kind][0]} handles", "pass a list")
        sample = '("y", "x")' if kind is str else "(16, 16)"
        what = "letters" if kind is str else "integers"
        raise UnfitError(
            f"{name}={show(value)} is no tuple of {what}", f"pass a tuple, as {name}={sample}"
        )
    is_named = kind not in _HANDLES  # by their place; a handle's kind tells which one it is
    entries = [
        _fit(kind, f"{name}[{place}]" if is_named else name, item, sch)
        for place, item in enumerate(value)
    ]
    return entries if isinstance(value, list) else tuple(entries)


def _fit_integer(kind: Any, name: str, value: Any) -> int:
    bits = next((arg for arg in typing.get_args(kind) if isinstance(arg, Bits)), Bits(32)).count
    if isinstance(value, bool) or not isinstance(value, int):
        raise UnfitError(f"{name}={show(value)} is not an integer", _advise(int))
    largest = 2 ** (bits - 1) - 1
    if not -largest - 1 <= value <= largest:
        raise UnfitError(
            f"{name}={show(value)} does not fit into {bits} bits",
            f"use an integer up to {largest}",
            is_near=True,
        )
    return value


def _fit_handle(kind: Any, name: str, handle: Any, sch: Schedule | None) -> Any:
    word, advice = _HANDLES[kind]
    if type(handle) is not kind:
        given = _HANDLES.get(type(handle))
        what = show(handle) if given is None else f"a {given[0]} handle"
        raise UnfitError(f"{name} is {what}, not a {word} handle", advice)
    if sch is None:
        return handle
    try:
        sch.get(handle)
    except ValueError:
        raise UnfitError(
            f"the {word} handle is dead: an earlier transform consumed its {word}",
            "use the handles which that transform returned, or ask sch.get_loops(block) again",
        ) from None
    except IndexError:
        raise UnfitError(
            f"the {word} handle belongs to another schedule", "pass handles that this schedule made"
        ) from None
    return handle


def show(value: Any, *, code: bool = False) -> str:
    """A value in a sentence: on one line, not too long; in `code`, strings as we write them."""
    if code and isinstance(value, str) and '"' not in value:
        return f'"{value}"'
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _describe(kind: Any) -> str:
    if typing.get_origin(kind) is Annotated:
        return _describe(typing.get_args(kind)[0])
    if typing.get_origin(kind) is Sequence:
        return f"a tuple of {_WORDS.get(typing.get_args(kind)[0], ('handle',))[0]}s"
    if kind in _HANDLES:
        return f"a {_HANDLES[kind][0]} handle"
    if typing.get_origin(kind) is Literal:
        return " or ".join(show(arg, code=True) for arg in typing.get_args(kind))
    if typing.get_origin(kind) in (Union, types.UnionType):
        return " or ".join(map(_describe, typing.get_args(kind)))
    return _WORDS[kind][1] if kind in _WORDS else f"of the type {getattr(kind, '__name__', kind)}"


def _advise(kind: Any) -> str:
    what = _describe(kind)
    return f"pass one {what}" if what.startswith("of ") else f"pass {what}"


def _explain_call(
    function: Callable[..., object], args: Sequence[Any], options: dict[str, Any]
) -> UnfitError:
    """Why a call does not fit a function's parameters."""
    signature, kinds = _find_parameters(function)
    parameters = list(signature.parameters.values())
    takes = [
        parameter.name
        for parameter in parameters
        if parameter.kind != inspect.Parameter.KEYWORD_ONLY
    ]
    others = [parameter.name for parameter in parameters[1:]]
    for name in options:
        if name not in signature.parameters:
            free = [other for other in others[len(args[1:]) :] if other not in options] or others
            hint = suggest(name, free, f"there are: {', '.join(others)}")
            return UnfitError(f"there is no parameter '{name}'", hint)
    if len(args) > len(takes):
        return _explain_surplus(
            kinds, takes, args, [other for other in others if other not in takes]
        )
    for name in takes[: len(args)]:
        if name in options:
            return UnfitError(f"{name} is given by place and by name", "give it once")
    given = {*takes[: len(args)], *options}
    missing = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.name not in given
    ]
    kind = kinds[missing[0]]
    what = _HANDLES[kind][1] if kind in _HANDLES else f"pass {missing[0]}=..."
    what += "" if kind in _HANDLES or kind is Any else f", {_describe(kind)}"
    return UnfitError(f"{missing[0]} is missing", what)


def _explain_surplus(
    kinds: dict[str, Any], takes: list[str], args: Sequence[Any], named: list[str]
) -> UnfitError:
    """Why a call has more arguments by place than a function takes."""
    value = args[len(takes)]
    if type(value) in _HANDLES:
        word = _HANDLES[type(value)][0]
        listed = [take for take in takes if typing.get_origin(kinds[take]) is Sequence]
        hint = f"pass one list, as {listed[-1]}=[...]" if listed else f"drop the last {word}"
        return UnfitError(f"there is a {word} handle too many", hint)
    fitting = [name for name in named if _fits(kinds[name], name, value)]
    if not named:
        return UnfitError(f"{show(value)} is an argument too many", "drop it")
    name = (fitting or named)[0]
    return UnfitError(
        f"{show(value)} is given without its name", f"write {name}={show(value, code=True)}"
    )


def _fits(kind: Any, name: str, value: Any) -> bool:
    try:
        _fit(kind, name, value, None)
    except UnfitError:
        return False
    return True
