"""The decorator of transforms: it checks arguments, undoes what is refused, and asks the guard.

A transform checks what is local to it itself. Whether the module that it leaves behind still
computes what it did is asked afterwards, of the guard that ``tirstep.GUARD`` names: this file
does not import it, and goes without it where it cannot be imported.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Concatenate, TypeVar

from tvm import IRModule
from tvm.error import InternalError
from tvm.s_tir import Schedule

import tirstep

from .errors import (
    NO_COPY,
    Options,
    Result,
    TransformError,
    describe_error,
    read_call,
    run_call,
)

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Change:
    """What a transform, or several of them, made of a module: what the guard is asked about.

    Attributes
    ----------
    name : of the transform
    before, after : the modules
    primitives : names of TVM's primitives that it ran, in order; None for any
    inlines : whether it declares that blocks vanish in the expressions of others
    """

    name: str
    before: IRModule
    after: IRModule
    primitives: tuple[str, ...] | None
    inlines: bool = False


@dataclass
class _Work:
    """A transform, or a `one_change`, under way on a schedule.

    Attributes
    ----------
    before : a copy in which handles stay valid; None where TVM cannot make one: after tensorize
    inlines : whether a transform declares that it inlines
    changes : what transforms directly within have made; None where nobody asks
    finished : the changes that made the last whole of what is within, and what they come to
    """

    sch: Schedule
    module: IRModule
    steps: int
    before: Schedule | None
    inlines: bool
    changes: list[Change] | None = None
    finished: tuple[list[Change], Change] | None = None

    @classmethod
    def begin(cls, sch: Schedule, *, inlines: bool = False) -> _Work:
        return cls(sch, sch.mod, len(sch.trace.insts), _copy(sch), inlines)

    def end(self, name: str) -> Change:
        """What has been made since it began."""
        primitives = (str(step.kind.name) for step in list(self.sch.trace.insts)[self.steps :])
        return Change(name, self.module, self.sch.mod, tuple(primitives), self.inlines)

    def undo(self, error: BaseException) -> None:
        """Make the schedule what it was, or have the error say that it is not."""
        if self.before is not None:
            old = Schedule.__new__(Schedule)
            old.__move_handle_from__(self.sch)  # otherwise nothing would free it
            self.sch.__move_handle_from__(self.before)
        elif isinstance(error, TransformError) and not self.sch.mod.same_as(self.module):
            error.advice += (
                "; TVM cannot copy a schedule after tensorize, so this one has changed: begin again"
            )


_under_way: ContextVar[tuple[_Work, ...]] = ContextVar("_under_way", default=())
"""The innermost first."""
_is_guarded: ContextVar[bool] = ContextVar("_is_guarded", default=True)


def transform(
    function: Callable[Concatenate[Schedule, Options], Result],
) -> Callable[Concatenate[Schedule, Options], Result]:
    """Wrap a transform: every refusal becomes a `TransformError`, and then nothing has changed.

    Its arguments are held against their annotations. Other transforms may be called within: a
    refusal of theirs that is caught has changed nothing either, and the guard is asked of the
    outermost one, when it is done.
    """

    @functools.wraps(function)
    def guarded(*args: Any, **options: Any) -> Result:
        bound = read_call(function, args, options)
        sch = next(iter(bound.arguments.values()))
        around, work = _find_work(sch), _Work.begin(sch, inlines=hasattr(function, "inlines"))
        token = _under_way.set((work, *_under_way.get()))
        try:
            result = run_call(function, bound)
            if around is None:
                _require_sound(work.end(function.__name__))
        except BaseException as error:
            if around is None or work.before is not None:
                work.undo(error)
            raise
        finally:
            _under_way.reset(token)
        if around is not None:
            around.inlines = around.inlines or work.inlines
            if around.changes is not None:
                around.changes.append(work.end(function.__name__))
        return result

    return guarded


def inlines(function: _Function) -> _Function:
    """Declare that a transform puts blocks into the expressions of others, so that they vanish."""
    function.inlines = True  # type: ignore[attr-defined]
    return function


@contextlib.contextmanager
def one_change(sch: Schedule, *, name: str = "one_change") -> Iterator[Sequence[Change]]:
    """Ask the guard once, at the end, of what several transforms make of a schedule.

    For a step of a recipe, say: asking costs more than most transforms do, and what stands between
    two of them may be no whole program. The refusal is raised at the end of the ``with``, and names
    the first transform whose work shows it, or `name`, for what was done between transforms;
    `TransformError.place` is the number of changes before that. The schedule is then as it was at
    the beginning, where TVM can copy it. Within another one this is a part that is whole: an error
    behind it may come of what is wrong with that, and then that is the refusal. Yields what has
    been made so far.
    """
    around = _find_work(sch)
    if around is not None:
        changes = [] if around.changes is None else around.changes
        yield changes
        around.finished = ([*changes], around.end(name))
        return
    work = _Work.begin(sch)
    changes = work.changes = list[Change]()
    token = _under_way.set((work, *_under_way.get()))
    try:
        try:
            yield changes
        except Exception:
            if work.finished is not None:
                _require_all_sound(*work.finished, name)
            raise
        _require_all_sound(changes, work.end(name), name)
    except BaseException as error:
        work.undo(error)
        raise
    finally:
        _under_way.reset(token)


@contextlib.contextmanager
def unguarded() -> Iterator[None]:
    """Switch the guard off: transforms check what is local to them, and nothing else is refused.

    For who judges the last module alone, or wants to see what TVM makes of a wrong one.
    """
    token = _is_guarded.set(False)
    try:
        yield
    finally:
        _is_guarded.reset(token)


def _require_all_sound(changes: Sequence[Change], whole: Change, name: str) -> None:
    """Ask of all changes at once; if there is a fault, of one after the other."""
    if _count_inlined([whole]) > _count_inlined(changes):  # by primitives between transforms
        whole = replace(whole, inlines=True)
    try:
        _require_sound(whole)
    except TransformError as found:
        module, steps = whole.before, list[Change]()
        for change in changes:
            steps += [Change(name, module, change.before, None, True), change]
            module = change.after
        for place, step in enumerate([*steps, Change(name, module, whole.after, None, True)]):
            try:
                _require_sound(step)
            except TransformError as error:
                # Others may be of what stands between two transforms alone.
                if _get_kind(error) == _get_kind(found):
                    error.place = place // 2
                    raise
        raise


def _get_kind(error: TransformError) -> str:
    """What is wrong, without the names and numbers, which later transforms may have changed."""
    return re.sub(r"'[^']*'|\d+", "", error.problem)


def _count_inlined(changes: Sequence[Change]) -> int:
    return sum("ComputeInline" in step for change in changes for step in change.primitives or ())


def _require_sound(change: Change) -> None:
    """Refuse what a change lost or broke; where TVM's analysis of that fails, it is refused, too.

    Mostly it fails at a number beyond 32 bits.
    """
    guard = _find_guard() if _is_guarded.get() and not change.before.same_as(change.after) else None
    if guard is None:
        return
    try:
        fault = guard.find_fault(change)
    except (ValueError, InternalError) as error:
        if "Check failed" not in str(error):
            raise
        raise TransformError(
            change.name,
            f"TVM cannot analyze what this would make: {describe_error(error)}",
            "choose smaller sizes, or give the kernel int64 loops",
        ) from error
    if fault is not None:
        raise TransformError(change.name, fault.problem, fault.advice)


@functools.cache
def _find_guard() -> Any:
    """The module that finds the fault of a change; None where it is not installed."""
    try:
        return importlib.import_module(tirstep.GUARD)
    except ImportError as error:
        if not tirstep.GUARD.startswith(str(error.name)):
            raise
        return None


def _find_work(sch: Schedule) -> _Work | None:
    """What is under way on a schedule; None where that is a copy of it, on which it is tried."""
    return next((work for work in _under_way.get() if work.sch is sch), None)


def _copy(sch: Schedule) -> Schedule | None:
    try:
        return sch.copy()
    except InternalError as error:
        if NO_COPY not in str(error):
            raise
        return None
