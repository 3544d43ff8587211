"""Decorators of transforms: they check arguments, convert TVM's errors and undo what is refused."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Concatenate, NamedTuple

from tvm import IRModule
from tvm.error import InternalError
from tvm.s_tir import Schedule, ScheduleError

from .errors import (
    NO_COPY,
    Fault,
    Options,
    Result,
    TransformError,
    describe_error,
    read_call,
    run_call,
)
from .held import AskedTooLateError, Held, find_held, held_back, tried_on_copy
from .legality.net import find_fault, inlines, moves_blocks
from .legality.registers import RegistersLater
from .legality.wrong_lowering import find_wrong_lowering


def transform(
    function: Callable[Concatenate[Schedule, Options], Result],
) -> Callable[Concatenate[Schedule, Options], Result]:
    """Wrap a transform of one primitive: every refusal becomes a `TransformError`.

    Its arguments are held against their annotations. A single primitive of TVM changes nothing
    when it fails, so checks first and the primitive last leave the schedule as it was; if what it
    made is not whole (`find_fault`), a copy from before takes the schedule's place.
    """

    @functools.wraps(function)
    def checked(*args: Any, **options: Any) -> Result:
        bound = read_call(function, args, options)
        sch, around = next(iter(bound.arguments.values())), _under_way.get()
        if around is not None and around.schedule is sch:
            around.note(function)
            return run_call(function, bound)
        held = find_held(_Postponed, sch)
        if held is not None:
            was = _State.of(sch)
            result = run_call(function, bound)
            held.note(function, was, sch)
            return result
        before, was = _copy(sch), _State.of(sch)
        result = run_call(function, bound)
        try:
            _require_sound(function, was, sch)
        except TransformError as error:
            if before is None:
                _tell_change(error, was, sch)
            else:
                _adopt(sch, before)
            raise
        return result

    return checked


@dataclass
class _Attempt:
    """A composite under way.

    Attributes
    ----------
    schedule : that it changes
    is_careful : whether the composites within are tried on a copy first, too
    is_spoiled : whether one within was refused half-way, and the schedule with it
    is_inlining : whether a transform within declares that it inlines blocks
    """

    schedule: Schedule
    is_careful: bool
    is_spoiled: bool = False
    is_inlining: bool = False

    def note(self, function: Callable[..., object]) -> None:
        """Note a transform within."""
        self.is_inlining = self.is_inlining or hasattr(function, "inlines")

    def declare(self, function: Callable[..., Result]) -> Callable[..., Result]:
        """The composite, with what those within declare."""
        if not self.is_inlining or hasattr(function, "inlines"):
            return function
        return inlines(
            functools.wraps(function)(lambda *args, **options: function(*args, **options))
        )


_under_way: ContextVar[_Attempt | None] = ContextVar("_under_way", default=None)


def composite(
    function: Callable[Concatenate[Schedule, Options], Result],
) -> Callable[Concatenate[Schedule, Options], Result]:
    """Wrap a transform of several primitives: it is tried on a copy of the schedule first.

    Handles stay valid in the copy, so a refusal half-way is found before the schedule is touched.
    Composites within are not tried once more, unless the one around goes on after a refusal.
    """

    @functools.wraps(function)
    def tried_first(*args: Any, **options: Any) -> Result:
        bound = read_call(function, args, options)
        sch, around = next(iter(bound.arguments.values())), _under_way.get()
        if around is not None and around.schedule is sch:
            around.note(function)
        if around is not None and around.schedule is sch and not around.is_careful:
            try:
                return run_call(function, bound)
            except Exception:
                around.is_spoiled = True
                raise
        copy = _copy(sch)
        if copy is None:
            return _run_untried(function, sch, bound)
        attempt, result = _try_on_copy(function, copy, bound, is_careful=False)
        if attempt.is_spoiled:  # and went on, from what a refusal had left half-done
            attempt, result = _try_on_copy(function, sch.copy(), bound, is_careful=True)
        held, was = find_held(_Postponed, sch), _State.of(sch)
        declared = attempt.declare(function)
        if held is not None:
            held.note(declared, was, attempt.schedule)
        else:
            _require_sound(declared, was, attempt.schedule)
        _adopt(sch, attempt.schedule)
        return result

    return tried_first


def _try_on_copy(
    function: Callable[..., Result],
    copy: Schedule,
    bound: inspect.BoundArguments,
    *,
    is_careful: bool,
) -> tuple[_Attempt, Any]:
    """Run a composite on a copy; what is refused in a spoiled attempt is no refusal yet."""
    attempt = _Attempt(copy, is_careful)
    first, sch = next(iter(bound.arguments.items()))
    bound.arguments[first] = copy
    try:
        with tried_on_copy(sch, copy):
            return attempt, _run_within(attempt, function, bound)
    except TransformError:
        if is_careful or not attempt.is_spoiled:
            raise
        return attempt, None
    finally:
        bound.arguments[first] = sch


class _Change(NamedTuple):
    """What a transform made of a module, and the primitives that it ran."""

    function: Callable[..., object]
    before: IRModule
    after: IRModule
    steps: list[str]


@dataclass
class _Postponed(Held):
    """Whether what transforms of a schedule made is whole."""

    changes: list[_Change] = field(default_factory=list)

    def note(self, function: Callable[..., object], was: _State, sch: Schedule) -> None:
        self.changes.append(_Change(function, was.module, sch.mod, was.find_steps(sch)))

    def ask(self, _error: Exception | None) -> None:
        """Ask what all of them made at once; if there is a fault, one after the other."""
        if not self.changes:
            return
        first, last = self.changes[0], self.changes[-1]
        inlining = [
            change.function for change in self.changes if hasattr(change.function, "inlines")
        ]
        steps = [step for change in self.changes for step in change.steps]
        later = find_held(_LoweredLater, self.schedules[0])
        asks_lowering = later is None
        if later is not None:
            later.note(last.after, steps)
        all_of_it = _Change((*inlining, last.function)[0], first.before, last.after, steps)
        try:
            _require_whole(all_of_it, asks_lowering=asks_lowering)
        except TransformError:
            for change in self.changes:
                _require_whole(change, asks_lowering=asks_lowering)
            raise


@contextlib.contextmanager
def _held_until_end(
    sch: Schedule,
    questions: Sequence[Held],
    before: Schedule | None,
    errors: type[Exception] = Exception,
) -> Iterator[None]:
    """Hold questions back, and ask them in their order at the end, or behind some errors.

    After a refusal the schedule is what it was `before`, where there is a copy.
    """
    with held_back(questions):
        try:
            try:
                yield
            except errors as error:  # maybe of what an earlier one broke, which is the reason then
                for each in questions:
                    each.ask(error)
                raise
            for each in questions:
                each.ask(None)
        except (TransformError, ScheduleError, AskedTooLateError):
            if before is not None:
                _adopt(sch, before)
            raise


@contextlib.contextmanager
def asked_together(sch: Schedule) -> Iterator[None]:
    """Ask once, at the end, whether what several transforms made of a schedule is whole.

    For a step of a recipe of ours, which is one change to whoever looks at it: asking costs more
    than most transforms do. A refusal names the transform whose work is not whole, as it would
    have; the schedule is then as it was before all of them, where TVM can copy it. What is tried
    on a copy is asked as always.
    """
    before = None if find_held(_LoweredLater, sch) is not None else _copy(sch)
    with _held_until_end(sch, [_Postponed([sch])], before, TransformError):
        yield


class LoweredWrongError(TransformError):
    """Of several steps: which of them it came with is not known yet."""


@dataclass
class _LoweredLater(Held):
    """What TVM would make another program of, in steps of a schedule."""

    before: IRModule
    after: IRModule
    primitives: list[str] = field(default_factory=list)

    def note(self, after: IRModule, primitives: list[str]) -> None:
        self.after = after
        self.primitives += primitives

    def ask(self, _error: Exception | None) -> None:
        if self.after.same_as(self.before):
            return
        asks_reads = moves_blocks(self.primitives)
        look = functools.partial(find_wrong_lowering, self.before, self.after)
        try:
            fault = _find("recipe", lambda: look(asks_reads=asks_reads))
        except TransformError as error:
            raise LoweredWrongError("recipe", error.problem, error.advice) from error
        if fault is not None:
            raise LoweredWrongError("recipe", fault.problem, fault.advice)


@contextlib.contextmanager
def lowered_at_end(sch: Schedule, *, asks_registers: bool = False) -> Iterator[None]:
    """Ask once what TVM would make another program of, behind all `asked_together` of a schedule.

    For all steps of a recipe of ours, of which nobody sees one before the last. Raises
    `LoweredWrongError`, also where an error within may come of that: who looks for the step that
    it came with asks after each, without this. After a refusal the schedule is as it was, where
    TVM can copy it.

    Whose registers threads read is asked at the end, too, but for `asks_registers`: where an answer
    may be due before, this raises `AskedTooLateError`, and what is within has to run again.
    """
    before = _copy(sch)
    questions: list[Held] = [_LoweredLater([sch], sch.mod, sch.mod)]
    if before is not None and not asks_registers:
        questions.insert(0, RegistersLater([sch]))
    with _held_until_end(sch, questions, before):
        yield


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
        if NO_COPY not in str(error):
            raise
        return None


def _run_untried(
    function: Callable[..., Result], sch: Schedule, bound: inspect.BoundArguments
) -> Result:
    """Run a composite on a schedule that cannot be copied; its refusal says what has changed."""
    was = _State.of(sch)
    try:
        attempt = _Attempt(sch, False)
        result = _run_within(attempt, function, bound)
        _require_sound(attempt.declare(function), was, sch)
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


def _require_sound(function: Callable[..., object], was: _State, sch: Schedule) -> None:
    """Refuse what a transform made, if it lost or broke something on its way.

    Where TVM's analysis of that fails, mostly at a number beyond 32 bits, it is refused, too.
    """
    _require_whole(_Change(function, was.module, sch.mod, was.find_steps(sch)))


def _require_whole(change: _Change, *, asks_lowering: bool = True) -> None:
    name = change.function.__name__
    fault = _find(name, lambda: find_fault(*change, asks_lowering=asks_lowering))
    if fault is not None:
        raise TransformError(name, fault.problem, fault.advice)


def _find(name: str, find: Callable[[], Fault | None]) -> Fault | None:
    """What is found; where TVM cannot say, a refusal in the name of a transform."""
    try:
        return find()
    except (ValueError, InternalError) as error:
        if "Check failed" not in str(error):
            raise
        raise TransformError(
            name,
            f"TVM cannot analyze what this would make: {describe_error(error)}",
            "choose smaller sizes, or give the kernel int64 loops",
        ) from error


def _run_within(
    attempt: _Attempt, function: Callable[..., Result], bound: inspect.BoundArguments
) -> Result:
    token = _under_way.set(attempt)
    try:
        return run_call(function, bound)
    finally:
        _under_way.reset(token)
