"""The one error of the transforms, and decorators that check arguments and convert TVM's errors."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from tvm import IRModule
from tvm.error import InternalError
from tvm.s_tir import Schedule, ScheduleError
from tvm.s_tir.schedule import LoopRV, SBlockRV

from .arguments import UnfitError, read_arguments
from .legality import find_fault

_NO_COPY = "unordered_map::at"
"""So `Schedule.copy` fails where a block is gone that TVM believes alive: tensorize of a loop."""
_Options = ParamSpec("_Options")
_Result = TypeVar("_Result")


class TransformError(ValueError):
    """A transform refused, and the schedule is as it was before the call.

    After ``sch.tensorize`` TVM may not be able to copy a schedule; then a transform cannot be tried
    on a copy, and where it was refused half-way its advice says that the schedule has changed.

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
        self.problem = re.sub(r"\s*\n\s*", " ", problem)  # of a name with line breaks
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

    Its arguments are held against their annotations. A single primitive of TVM changes nothing
    when it fails, so checks first and the primitive last leave the schedule as it was; if what it
    made is not whole (`find_fault`), a copy from before takes the schedule's place.
    """

    @functools.wraps(function)
    def checked(*args: Any, **options: Any) -> _Result:
        bound = _read(function, args, options)
        sch, around = next(iter(bound.arguments.values())), _under_way.get()
        if around is not None and around.schedule is sch:
            return _run(function, bound)
        before, was = _copy(sch), _State.of(sch)
        result = _run(function, bound)
        try:
            _require_whole(function, was, sch)
        except TransformError as error:
            if before is None:
                _tell_change(error, was, sch)
            else:
                _adopt(sch, before)
            raise
        return result

    return checked


def query(function: Callable[_Options, _Result]) -> Callable[_Options, _Result]:
    """Wrap a public question about a schedule or a module, as `transform` wraps a transform."""

    @functools.wraps(function)
    def checked(*args: _Options.args, **options: _Options.kwargs) -> _Result:
        return _run(function, _read(function, args, options))

    return checked


@dataclass
class _Attempt:
    """A composite under way.

    Attributes
    ----------
    schedule : that it changes
    is_careful : whether the composites within are tried on a copy first, too
    is_spoiled : whether one within was refused half-way, and the schedule with it
    """

    schedule: Schedule
    is_careful: bool
    is_spoiled: bool = False


_under_way: ContextVar[_Attempt | None] = ContextVar("_under_way", default=None)


def composite(
    function: Callable[Concatenate[Schedule, _Options], _Result],
) -> Callable[Concatenate[Schedule, _Options], _Result]:
    """Wrap a transform of several primitives: it is tried on a copy of the schedule first.

    Handles stay valid in the copy, so a refusal half-way is found before the schedule is touched.
    Composites within are not tried once more, unless the one around goes on after a refusal.
    """

    @functools.wraps(function)
    def tried_first(*args: Any, **options: Any) -> _Result:
        bound = _read(function, args, options)
        sch, around = next(iter(bound.arguments.values())), _under_way.get()
        if around is not None and around.schedule is sch and not around.is_careful:
            try:
                return _run(function, bound)
            except Exception:
                around.is_spoiled = True
                raise
        if _copy(sch) is None:
            return _run_untried(function, sch, bound)
        attempt, result = _try_on_copy(function, sch, bound, is_careful=False)
        if attempt.is_spoiled:  # and went on, from what a refusal had left half-done
            attempt, result = _try_on_copy(function, sch, bound, is_careful=True)
        _require_whole(function, _State.of(sch), attempt.schedule)
        _adopt(sch, attempt.schedule)
        return result

    return tried_first


def _try_on_copy(
    function: Callable[..., _Result],
    sch: Schedule,
    bound: inspect.BoundArguments,
    *,
    is_careful: bool,
) -> tuple[_Attempt, Any]:
    """Run a composite on a copy; what is refused in a spoiled attempt is no refusal yet."""
    attempt = _Attempt(sch.copy(), is_careful)
    first = next(iter(bound.arguments))
    bound.arguments[first] = attempt.schedule
    try:
        return attempt, _run_within(attempt, function, bound)
    except TransformError:
        if is_careful or not attempt.is_spoiled:
            raise
        return attempt, None
    finally:
        bound.arguments[first] = sch


def _adopt(sch: Schedule, copy: Schedule) -> None:
    """Make a schedule what its copy is; the copy is no schedule any more."""
    old = Schedule.__new__(Schedule)
    old.__move_handle_from__(sch)  # otherwise nothing would free it
    sch.__move_handle_from__(copy)


class _State(NamedTuple):
    """A schedule as it was: its module, and how many primitives had made it."""

    module: IRModule
    steps: int

    @classmethod
    def of(cls, sch: Schedule) -> _State:
        return cls(sch.mod, len(sch.trace.insts))

    def find_steps(self, sch: Schedule) -> list[str]:
        """The primitives that a schedule, or a copy of it, has run since."""
        return [str(step.kind.name) for step in list(sch.trace.insts)[self.steps :]]


def _copy(sch: Schedule) -> Schedule | None:
    """A copy in which handles stay valid; None where TVM cannot make one: after tensorize."""
    try:
        return sch.copy()
    except InternalError as error:
        if _NO_COPY not in str(error):
            raise
        return None


def _run_untried(
    function: Callable[..., _Result], sch: Schedule, bound: inspect.BoundArguments
) -> _Result:
    """Run a composite on a schedule that cannot be copied; its refusal says what has changed."""
    was = _State.of(sch)
    try:
        result = _run_within(_Attempt(sch, False), function, bound)
        _require_whole(function, was, sch)
    except TransformError as error:
        _tell_change(error, was, sch)
        raise
    return result


def _tell_change(error: TransformError, was: _State, sch: Schedule) -> None:
    """Have an error say that the schedule is not as it was before."""
    if not sch.mod.same_as(was.module):
        error.advice += (
            "; TVM cannot copy a schedule after tensorize, so this one has changed: begin again"
        )


def _require_whole(function: Callable[..., object], was: _State, sch: Schedule) -> None:
    """Refuse what a transform made, if it lost or broke something on its way."""
    fault = find_fault(function, was.module, sch.mod, was.find_steps(sch))
    if fault is not None:
        raise TransformError(function.__name__, fault.problem, fault.advice)


def _run_within(
    attempt: _Attempt, function: Callable[..., _Result], bound: inspect.BoundArguments
) -> _Result:
    token = _under_way.set(attempt)
    try:
        return _run(function, bound)
    finally:
        _under_way.reset(token)


def _read(
    function: Callable[..., object], args: tuple[Any, ...], options: dict[str, Any]
) -> inspect.BoundArguments:
    """The arguments of a call, held against the function's annotations."""
    try:
        return read_arguments(function, args, options)
    except UnfitError as unfit:
        raise TransformError(function.__name__, unfit.problem, unfit.advice) from None


def _run(function: Callable[..., _Result], bound: inspect.BoundArguments) -> _Result:
    """Call a function; what it and TVM refuse becomes a `TransformError` of its name."""
    name, kernel_line = function.__name__, _find_kernel_line(bound)
    try:
        return function(*bound.args, **bound.kwargs)
    except TransformError as error:
        error.kernel_line = error.kernel_line or kernel_line
        error.caller = None if error.transform == name else name
        raise
    except (ScheduleError, ValueError, InternalError) as error:
        if _NO_COPY in str(error):
            refusal = TransformError(
                name, "TVM cannot copy this schedule, to try it out", "tensorize after it"
            )
        elif not isinstance(error, ScheduleError) and "Check failed" not in str(error):
            raise
        else:
            refusal = TransformError(
                name, f"TVM refuses: {_last_sentence(error)}", "see the schedule with sch.show()"
            )
        refusal.kernel_line = kernel_line
        raise refusal from error


def _find_kernel_line(bound: inspect.BoundArguments) -> str | None:
    """The file and line of the first handle's statement, where the parser left them."""
    sch, *others = bound.arguments.values()
    for handle in [one for given in others for one in _flatten(given)]:
        node = sch.get(handle)
        for statement in (node, getattr(node, "body", None)):
            span = getattr(statement, "span", None)
            if span is not None:
                return f"{span.source_name.name}:{span.line}"
    return None


def _flatten(argument: Any) -> list[Any]:
    """The handles in an argument."""
    given = argument if isinstance(argument, (list, tuple)) else [argument]
    return [one for one in given if isinstance(one, (LoopRV, SBlockRV))]


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
