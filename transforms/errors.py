"""The one error of the transforms, and the wrapper that gives every transform its manners."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from tvm.error import InternalError
from tvm.s_tir import Schedule, ScheduleError

_Options = ParamSpec("_Options")
_Result = TypeVar("_Result")
_KINDS = {
    "LoopRV": ("loop", "get it with sch.get_loops(block)"),
    "SBlockRV": ("block", "get it with sch.get_sblock(name)"),
}


class TransformError(ValueError):
    """A transform refused, and the schedule is as it was before the call.

    The text is one sentence: who refuses, what is wrong with its names and numbers, what to do.

    Attributes
    ----------
    transform : name of the transform, e.g. ``"split_loop"``
    caller : the transform that was called, where `transform` is a part of it; None otherwise
    problem : what is wrong, with names and numbers
    advice : what to do about it
    recipe, step, line : the recipe, its last finished step, and the recipe's ``file:line``;
        None outside of a recipe
    kernel_line : the kernel's ``file:line`` where TVM keeps it; None where it does not
    """

    def __init__(self, transform: str, problem: str, advice: str) -> None:
        super().__init__(transform, problem, advice)
        self.transform = transform
        self.caller: str | None = None
        self.problem = problem
        self.advice = advice
        self.recipe: str | None = None
        self.step: str | None = None
        self.line: str | None = None
        self.kernel_line: str | None = None

    def __str__(self) -> str:
        places = []
        if self.recipe is not None:
            places.append(f"recipe {self.recipe}, after step '{self.step}', {self.line}")
        if self.kernel_line is not None:
            places.append(f"kernel {self.kernel_line}")
        where = f" [{'; '.join(places)}]" if places else ""
        who = self.transform if self.caller is None else f"{self.caller}: {self.transform}"
        return f"{who}: {self.problem}; {self.advice}{where}"


def transform(
    function: Callable[Concatenate[Schedule, _Options], _Result],
) -> Callable[Concatenate[Schedule, _Options], _Result]:
    """Wrap a transform of one primitive: every refusal becomes a `TransformError`.

    A single primitive of TVM changes nothing when it fails, so checks first and the primitive
    last leave the schedule as it was.
    """
    name = function.__name__

    @functools.wraps(function)
    def checked(sch: Schedule, /, *args: _Options.args, **options: _Options.kwargs) -> _Result:
        handles = _require_handles(function, sch, args, options)
        kernel_line = _find_kernel_line(sch, handles)
        try:
            return function(sch, *args, **options)
        except TransformError as error:
            error.kernel_line = error.kernel_line or kernel_line
            error.caller = None if error.transform == name else name
            raise
        except (ScheduleError, ValueError, InternalError) as error:
            if not isinstance(error, ScheduleError) and "Check failed" not in str(error):
                raise
            refusal = TransformError(
                name, f"TVM refuses: {_last_sentence(error)}", "see the schedule with sch.show()"
            )
            refusal.kernel_line = kernel_line
            raise refusal from error

    return checked


def composite(
    function: Callable[Concatenate[Schedule, _Options], _Result],
) -> Callable[Concatenate[Schedule, _Options], _Result]:
    """Wrap a transform of several primitives: it is tried on a copy of the schedule first.

    Handles stay valid in the copy, so a refusal half-way is found before the schedule is touched.
    """
    attempt = transform(function)

    @functools.wraps(function)
    def tried_first(sch: Schedule, /, *args: _Options.args, **options: _Options.kwargs) -> _Result:
        _require_handles(function, sch, args, options)
        attempt(sch.copy(), *args, **options)
        return attempt(sch, *args, **options)

    return tried_first


def _require_handles(
    function: Callable[..., object],
    sch: Schedule,
    args: tuple[object, ...],
    options: dict[str, Any],
) -> list[object]:
    """The handles among the arguments, each of the annotated kind, alive, and of this schedule."""
    name, handles = function.__name__, []
    signature = inspect.signature(function)
    for parameter, value in signature.bind(sch, *args, **options).arguments.items():
        annotation = str(signature.parameters[parameter].annotation)
        expected = next((kind for kind in _KINDS if kind in annotation), None)
        if expected is None:
            _require_sequence(name, parameter, annotation, value)
            continue
        several = "Sequence" in annotation
        if several and not isinstance(value, (list, tuple)):
            raise TransformError(
                name, f"{parameter} is no list of {_KINDS[expected][0]} handles", "pass a list"
            )
        for handle in value if several else [value]:
            _require_handle(name, sch, parameter, expected, handle)
            handles.append(handle)
    return handles


def _require_sequence(name: str, parameter: str, annotation: str, value: Any) -> None:
    """Refuse what is no tuple for an option that takes one; the entries are the transform's."""
    of_numbers = "Sequence[int]" in annotation
    taken: list[type] = [list, tuple] if of_numbers else [list, tuple, str]
    if annotation.startswith("int |"):
        taken.append(int)
    if annotation.endswith("| None"):
        taken.append(type(None))
    if "Sequence" in annotation and not isinstance(value, tuple(taken)):
        sample = "(16, 16)" if of_numbers else '("y", "x")'
        raise TransformError(
            name,
            f"{parameter}={value!r} is no tuple of {'whole numbers' if of_numbers else 'letters'}",
            f"pass a tuple, as {parameter}={sample}",
        )


def _require_handle(name: str, sch: Schedule, parameter: str, expected: str, handle: Any) -> None:
    kind, advice = _KINDS[expected]
    given = type(handle).__name__
    if given != expected:
        what = f"a {_KINDS[given][0]} handle" if given in _KINDS else repr(handle)
        raise TransformError(name, f"{parameter} is {what}, not a {kind} handle", advice)
    try:
        sch.get(handle)
    except ValueError:
        raise TransformError(
            name,
            f"the {kind} handle is dead: an earlier transform consumed its {kind}",
            "use the handles which that transform returned, or ask sch.get_loops(block) again",
        ) from None
    except IndexError:
        raise TransformError(
            name,
            f"the {kind} handle belongs to another schedule",
            "pass handles that this schedule made",
        ) from None


def _find_kernel_line(sch: Schedule, handles: list[object]) -> str | None:
    """The file and line of the first handle's statement, where the parser left them."""
    for handle in handles:
        node = sch.get(handle)
        for statement in (node, getattr(node, "body", None)):
            span = getattr(statement, "span", None)
            if span is not None:
                return f"{span.source_name.name}:{span.line}"
    return None


def _last_sentence(error: Exception) -> str:
    """TVM's own reason: the text behind 'Error message:', without the IR before it.

    The IR says which loop or block a mark like ``s_tir.SBlock#0`` in the reason stands for.
    """
    program, _, reason = str(error).strip().rpartition("Error message:")
    reason = (
        re.sub(r"Definition of [^\n]*(?:\n\d\)[^\n]*)*", "", reason)
        .strip()
        .removeprefix("ScheduleError:")
        .strip()
    )
    if reason == "(not rendered)":
        return 'it says why only with error_render_level="detail"'
    reason = re.sub(r"^Check failed: .* is false: ", "", reason)
    reason = re.sub(r"(#\d+)(?=\w)", r"\1, ", reason)
    names = dict(re.findall(r"# (\S+#\d+)\s+(?:with T\.sblock\(\"|for )(\w+)", program))
    reason = re.sub(
        r"(?:\b(?:block|loop) )?\b\w+\.(SBlock|For)#\d+",
        lambda mark: _name_mark(mark, names),
        reason,
    )
    return re.sub(r"\s+", " ", reason).rstrip(".")


def _name_mark(mark: re.Match[str], names: dict[str, str]) -> str:
    kind = "block" if mark.group(1) == "SBlock" else "loop"
    name = names.get(mark.group().rpartition(" ")[2])
    return f"the {kind}" if name is None else f"{kind} '{name}'"
