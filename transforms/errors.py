"""The one error of the transforms, and the wrapper that gives every transform its manners."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from tvm.s_tir import Schedule, ScheduleError

_Options = ParamSpec("_Options")
_Result = TypeVar("_Result")


class TransformError(ValueError):
    """A transform refused, and the schedule is as it was before the call.

    The text is one sentence: who refuses, what is wrong with its names and numbers, what to do.

    Attributes
    ----------
    transform : name of the transform, e.g. ``"split_loop"``
    problem : what is wrong, with names and numbers
    advice : what to do about it
    recipe, step, line : the recipe, its last finished step, and the recipe's ``file:line``;
        None outside of a recipe
    kernel_line : the kernel's ``file:line`` where TVM keeps it; None where it does not
    """

    def __init__(self, transform: str, problem: str, advice: str) -> None:
        super().__init__(transform, problem, advice)
        self.transform = transform
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
        return f"{self.transform}: {self.problem}; {self.advice}{where}"


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
        _require_live_handles(name, sch, args)
        kernel_line = _find_kernel_line(sch, args)
        try:
            return function(sch, *args, **options)
        except ScheduleError as error:
            refusal = TransformError(
                name, f"TVM refuses: {_last_sentence(error)}", "see the schedule with sch.show()"
            )
            refusal.kernel_line = kernel_line
            raise refusal from error
        except TransformError as error:
            error.kernel_line = error.kernel_line or kernel_line
            raise

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
        _require_live_handles(function.__name__, sch, args)
        attempt(sch.copy(), *args, **options)
        return attempt(sch, *args, **options)

    return tried_first


def _require_live_handles(name: str, sch: Schedule, args: tuple[object, ...]) -> None:
    for handle in _find_handles(args):
        kind = "loop" if type(handle).__name__ == "LoopRV" else "block"
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


def _find_handles(args: tuple[object, ...]) -> list[object]:
    flat: list[object] = []
    for arg in args:
        flat.extend(arg if isinstance(arg, (list, tuple)) else (arg,))
    return [arg for arg in flat if type(arg).__name__ in ("LoopRV", "SBlockRV")]


def _find_kernel_line(sch: Schedule, args: tuple[object, ...]) -> str | None:
    """The file and line of the first handle's statement, where the parser left them."""
    for handle in _find_handles(args):
        node = sch.get(handle)
        for statement in (node, getattr(node, "body", None)):
            span = getattr(statement, "span", None)
            if span is not None:
                return f"{span.source_name.name}:{span.line}"
    return None


def _last_sentence(error: ScheduleError) -> str:
    """TVM's own reason: the text behind 'Error message:', without the IR before it."""
    text = str(error).strip()
    reason = text.rsplit("Error message:", 1)[-1]
    reason = reason.removeprefix("ScheduleError:").strip()
    reason = re.sub(r"\b(?:s_tir|tirx)\.(SBlock|For)#\d+", _plain_name, reason)
    return re.sub(r"\s+", " ", reason).rstrip(".")


def _plain_name(match: re.Match[str]) -> str:
    return "block" if match.group(1) == "SBlock" else "loop"
