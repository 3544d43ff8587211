"""The decorator of all transforms: arguments, refusals, undoing, and the guard.

A call is held against its annotations, and what we or TVM refuse becomes a `TransformError`, after
which nothing has changed. A transform checks what is local to it itself. Whether the module that it
leaves behind still computes what it did is asked afterwards, of the guard that ``tirstep.GUARD``
names: this file does not import it, and goes without it where it cannot be imported.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Annotated, Any, Concatenate, Literal, NamedTuple, ParamSpec, TypeVar, Union

from tvm import IRModule
from tvm.error import InternalError
from tvm.s_tir import Schedule, ScheduleError
from tvm.s_tir.schedule import LoopRV, SBlockRV

import tirstep

from .tir import find_location

Options = ParamSpec("Options")
Result = TypeVar("Result")
_Function = TypeVar("_Function", bound=Callable[..., Any])

LOOK = "see the schedule with sch.show()"
"""Where the words are not known."""
_TEXT = """\
# loops
not in a chain
    a block between these loops keeps them apart: tile before blocks are cached or placed there, or
    decompose the reduction afterwards
there are some statements in between
    reorder before blocks are placed between these loops, or move the block first (compute_block_at)
is not a data parallel block iter
    take a loop over the block's results: one of get_spatial_loops, or split the reduction into
    parts (rfactor_reduction)
appear under a reduction loop
    a loop of one iteration or one that feeds nothing stands there: keep the reduction loops
    innermost (reorder_loops)
partial affine binding
    its loops were fused or split so that TVM cannot tell the iterators apart: do this before that,
    or choose sizes that divide
affine binding
    TVM cannot express its iterators as sums of loops: do this before the loops are fused
    with others or split with a guard
contains more than one type of original iter vars
    its loops over results and over the reduction were fused: fuse loops of one kind only
touched by both some data parallel
    its loops over results and over the reduction were fused: do this before, or fuse loops of one
    kind only
block iter type other than data-parallel or reduction
    a block that scans or sorts keeps the order of its loops: reorder and bind the others
`extent` is dependent on another loop
    how often it runs depends on a loop around it: bind that loop, or pad the inner one to a length
    of its own with a condition in the block
does not start with 0
    write the loop from 0 and add where it begins to its index, and then do this
cannot be fulfilled with regard to block
    bind a loop of its results, or use spread_over_threads
# placement and inlining
is an output block
    it writes a tensor of the function's, and nothing reads it there: move what follows it
    (reverse_compute_block_at), or cache its result (cache_write_at)
loop not to be the ancestor of block
    that loop is the block's own, or inside of another block: choose a loop of what it reads, or is
    read by
List of the producer(s)
    place all producers under that loop first, with compute_block_at, outermost first
List of the consumer(s)
    place all consumers under that loop first, with reverse_compute_block_at, or choose a loop
    around all of them
does not have compact dataflow
    a block there reads what is not complete, or writes a buffer together with another one: do this
    before the reduction is decomposed, or at an outer loop
Cannot inline
    leave it a kernel of its own (tile_block), or place it with compute_block_at
not a complete block
    it reads what it writes, or others write that, too: do this before the reduction is decomposed,
    or place it with compute_block_at
single point
    it uses several elements of that buffer in one iteration: leave it as it is, or compute it at a
    loop of its consumer (compute_block_at)
read only a single buffer region
    inline or cache its other operands first
write only a single buffer region
    a block of several results stays as it is: bind its spatial loops with tile_block
not allocated by a block
    it is a tensor of the function's: compute it in a buffer of its own with cache_write_at
region cover
    it would read more than is computed there: choose a loop further out, or sizes that divide
stage pipeline
    blocks there depend on each other in both directions: do this before a block is decomposed or
    added to in another place
# reductions
is not the reduction block
    pass a block with T.init, and a loop that feeds its reduction: get_reduction_loops
not a reduction block
    pass a block that adds up, with T.init and before it is decomposed: it may store to one element
    of each of its results
buffers initialized in the block init
    pass a block that stores to one element of each of its results, and not one around others
No matched reducer
    TVM knows sums, products, maxima, minima and argmax by their T.init: write the first value as a
    constant, T.float32(0), say
not a computation of Einsum
    pad what is a sum of products, or split with tail="guard" instead
# buffers
expected to be written by single block
    cache it before its reduction is decomposed, or fill it in one block only
intset.HasLowerBound() && intset.HasUpperBound()
    its index comes from data, so that the copy has no bounds: leave it in global memory
previous index for the same buffer access used index type
must match its associated Var's dtype
    give all loops and sizes of the function one integer type
pattern match failed
    the indices are not single iterators: give the block iterators for what it indexes by, or tile
    without moving this block
Transformation would introduce padding
    choose a layout whose sizes divide the tensor's, or pad the block first with pad_block
operate on the root blo
    pass a block of the function's, as sch.get_sblock(name) gives it
error_render_level
    make the schedule with Schedule(module, error_render_level="detail") to see the reason
"""
_ADVICE = {
    words: " ".join(advice.split())
    for several, advice in re.findall(r"^((?:\S.*\n)+)((?:    .*\n)+)", _TEXT, re.MULTILINE)
    for words in several.splitlines()
}
"""Advice by words in TVM's reason, grouped by what was asked for."""


Int64 = Annotated[int, 64]
"""An integer of 64 bits, and not of the 32 of a loop's size: a limit, or the value of an option."""

_NAMES = {"LoopRV": LoopRV, "SBlockRV": SBlockRV, "Schedule": Schedule, "Sequence": Sequence}
"""Names in annotations that their own file imports only for type checkers."""
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


class _UnfitError(Exception):
    """A call or a value does not fit: the problem, the advice, and "near" if the type is right."""


def read_arguments(
    function: Callable[..., object], args: Sequence[Any], options: dict[str, Any]
) -> inspect.BoundArguments:
    """The arguments of a call as the function takes them; raises `TransformError`.

    Handles are alive and of this schedule, integers within the bits that TVM keeps them in, one of
    the literals. NumPy's scalars become Python's own.
    """
    signature, kinds = _find_parameters(function)
    try:
        try:
            bound = signature.bind(*args, **options)
        except TypeError:
            raise _explain_call(function, args, options) from None
        sch = next((it for it in bound.arguments.values() if isinstance(it, Schedule)), None)
        for name, value in bound.arguments.items():
            how, kind = signature.parameters[name].kind, kinds[name]
            if how == inspect.Parameter.VAR_POSITIONAL:
                fit: Any = tuple(_fit(kind, name, item, sch) for item in value)
            elif how == inspect.Parameter.VAR_KEYWORD:
                fit = {key: _fit(kind, key, item, sch) for key, item in value.items()}
            else:
                fit = _fit(kind, name, value, sch)
            bound.arguments[name] = fit
    except _UnfitError as unfit:
        raise TransformError(function.__name__, *unfit.args[:2]) from None
    return bound


@functools.cache
def _find_parameters(function: Callable[..., object]) -> tuple[inspect.Signature, dict[str, Any]]:
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
    """A value as a type takes it; raises `_UnfitError` where it does not."""
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()
    origin, parts, bits = typing.get_origin(kind), typing.get_args(kind), 32
    if origin is Annotated:
        kind, bits = parts[0], next((it for it in parts[1:] if isinstance(it, int)), bits)
        origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and types.NoneType in parts:
            return None
        parts, refusals = tuple(it for it in parts if it is not types.NoneType), list[Any]()
        for part in parts:
            try:
                return _fit(part, name, value, sch)
            except _UnfitError as unfit:
                refusals.append(unfit)
        near = [unfit for unfit in refusals if len(unfit.args) > 2]
        if near or len(refusals) == 1:
            raise (near or refusals)[0]
        words = [*map(_describe, parts)]
        problem = f"{name}={show(value)} is neither {' nor '.join(words)}"
        raise _UnfitError(problem, f"pass {' or '.join(words)}")
    if origin is Literal:
        for choice in parts:
            if type(value) is type(choice) and value == choice:
                return choice
        known = [choice for choice in parts if isinstance(choice, str)]
        close = difflib.get_close_matches(value, known, n=1) if isinstance(value, str) else []
        listed = " or ".join(f"{name}={show(choice, code=True)}" for choice in parts)
        hint = f"did you mean {name}={show(close[0], code=True)}?" if close else f"use {listed}"
        raise _UnfitError(f"{name}={show(value)} is unknown", hint)
    if origin is Sequence:
        (each,) = parts
        if isinstance(value, str) and each is str:
            return value  # of letters
        if not isinstance(value, (list, tuple)):
            if each in _HANDLES:
                problem = f"{name} is not a list of {_HANDLES[each][0]} handles"
                raise _UnfitError(problem, "pass a list")
            sample, what = ('("y", "x")', "letters") if each is str else ("(16, 16)", "integers")
            raise _UnfitError(
                f"{name}={show(value)} must be a tuple of {what}", f"pass {name}={sample}, say"
            )
        is_named = each not in _HANDLES  # by their place; a handle's kind tells which one it is
        names = [f"{name}[{place}]" if is_named else name for place in range(len(value))]
        entries = [_fit(each, *pair, sch) for pair in zip(names, value, strict=True)]
        return entries if isinstance(value, list) else tuple(entries)
    if kind in _HANDLES:
        word, advice = _HANDLES[kind]
        if type(value) is not kind:
            given = _HANDLES.get(type(value))
            what = show(value) if given is None else f"a {given[0]} handle"
            raise _UnfitError(f"{name} is {what}, not a {word} handle", advice)
        try:
            if sch is not None:
                sch.get(value)
        except ValueError:
            raise _UnfitError(
                f"the {word} handle is dead: an earlier transform consumed its {word}",
                "use the handles which that transform returned, or ask sch.get_loops(block) again",
            ) from None
        except IndexError:
            problem = f"the {word} handle belongs to another schedule"
            raise _UnfitError(problem, "pass handles that this schedule made") from None
        return value
    if kind is int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise _UnfitError(f"{name}={show(value)} is not an integer", "pass an integer")
        largest = 2 ** (bits - 1) - 1
        if not -largest - 1 <= value <= largest:
            problem = f"{name}={show(value)} does not fit into {bits} bits"
            raise _UnfitError(problem, f"use an integer up to {largest}", "near")
        return value
    if kind is Any or not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return value
    taken = (int, float) if kind is float else (kind,)
    if not isinstance(value, taken) or (kind is float and isinstance(value, bool)):
        what = _describe(kind)
        advice = f"pass one {what}" if what.startswith("of ") else f"pass {what}"
        raise _UnfitError(f"{name}={show(value)} is not {what}", advice)
    return value


def suggest(name: str, known: Iterable[str], otherwise: str) -> str:
    """``did you mean 'a'?``, of the known name that is nearest; `otherwise` where none is near."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean '{near[0]}'?" if near else otherwise


def show(value: Any, *, code: bool = False) -> str:
    """A value in a sentence: on one line, not too long; in `code`, strings as we write them."""
    if code and isinstance(value, str) and '"' not in value:
        return f'"{value}"'
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _describe(kind: Any) -> str:
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return _describe(parts[0])
    if origin is Sequence:
        return f"a tuple of {_WORDS.get(parts[0], ('handle',))[0]}s"
    if kind in _HANDLES:
        return f"a {_HANDLES[kind][0]} handle"
    if origin is Literal:
        return " or ".join(show(part, code=True) for part in parts)
    if origin in (Union, types.UnionType):
        return " or ".join(map(_describe, parts))
    return _WORDS[kind][1] if kind in _WORDS else f"of the type {getattr(kind, '__name__', kind)}"


def _explain_call(
    function: Callable[..., object], args: Sequence[Any], options: dict[str, Any]
) -> _UnfitError:
    """Why a call does not fit a function's parameters."""
    signature, kinds = _find_parameters(function)
    parameters = list(signature.parameters.values())
    takes = [it.name for it in parameters if it.kind != inspect.Parameter.KEYWORD_ONLY]
    others = [parameter.name for parameter in parameters[1:]]
    for name in options:
        if name not in signature.parameters:
            free = [other for other in others[len(args[1:]) :] if other not in options] or others
            hint = suggest(name, free, f"there are: {', '.join(others)}")
            return _UnfitError(f"there is no parameter '{name}'", hint)
    if len(args) > len(takes):
        value, named = args[len(takes)], [other for other in others if other not in takes]
        if type(value) in _HANDLES:
            word = _HANDLES[type(value)][0]
            lists = [take for take in takes if typing.get_origin(kinds[take]) is Sequence]
            hint = f"pass one list, as {lists[-1]}=[...]" if lists else f"drop the last {word}"
            return _UnfitError(f"there is a {word} handle too many", hint)
        if not named:
            return _UnfitError(f"{show(value)} is an argument too many", "drop it")
        fitting = []
        for name in named:
            with contextlib.suppress(_UnfitError):
                _fit(kinds[name], name, value, None)
                fitting.append(name)
        name = (fitting or named)[0]
        hint = f"write {name}={show(value, code=True)}"
        return _UnfitError(f"{show(value)} is given without its name", hint)
    for name in takes[: len(args)]:
        if name in options:
            return _UnfitError(f"{name} is given by place and by name", "give it once")
    given = {*takes[: len(args)], *options}
    name = next(it.name for it in parameters if it.default is it.empty and it.name not in given)
    kind = kinds[name]
    hint = _HANDLES[kind][1] if kind in _HANDLES else f"pass {name}=..."
    hint += "" if kind in _HANDLES or kind is Any else f", {_describe(kind)}"
    return _UnfitError(f"{name} is missing", hint)


def advise(reason: str) -> str:
    """Advice about TVM's reason; to look at the schedule if there is none."""
    return next((advice for words, advice in _ADVICE.items() if words in reason), LOOK)


NO_COPY = "unordered_map::at"
"""So `Schedule.copy` fails where a block is gone that TVM believes alive: tensorize of a loop."""
_running: ContextVar[str] = ContextVar("_running", default="transform")
"""The name of the innermost running transform or query."""


class TransformError(ValueError):
    """A transform refused, and the schedule is as it was before the call.

    After ``sch.tensorize`` TVM may not be able to copy a schedule; then a transform cannot be tried
    on a copy, and where it was refused half-way its advice says that the schedule has changed.

    The text is one sentence: who refuses, what is wrong with its names and numbers, what to do.
    ``TransformError(problem, advice)`` names the running transform, ``TransformError(transform,
    problem, advice)`` another one.

    Attributes
    ----------
    transform : name of the transform, e.g. ``"split_loop"``
    caller : the transform that was called, where `transform` is a part of it; None otherwise
    problem : what is wrong, with names and numbers
    advice : what to do about it
    recipe, step, line : the recipe, its last finished step, and the recipe's ``file:line``;
        None outside of a recipe
    knobs : of that recipe, with the words that each takes; none outside of a recipe
    kernel_line : the kernel's ``file:line`` where TVM keeps it; None where it does not
    place : of several changes that were asked about at once, the number of those before the one
        that shows it; None where none does alone
    """

    def __init__(self, *parts: str) -> None:
        transform, problem, advice = parts if len(parts) == 3 else (_running.get(), *parts)
        super().__init__(transform, problem, advice)
        self.transform = transform
        self.caller: str | None = None
        self.problem = re.sub(r"\s*\n\s*", " ", problem)  # of a name with line breaks
        self.advice = advice
        self.recipe: str | None = None
        self.step: str | None = None
        self.line: str | None = None
        self.knobs: dict[str, tuple[str, ...]] = {}
        self.kernel_line: str | None = None
        self.place: int | None = None

    def __str__(self) -> str:
        places = []
        if self.recipe is not None:
            places.append(f"recipe {self.recipe}, after step '{self.step}', {self.line}")
        if self.kernel_line is not None:
            places.append(f"kernel {self.kernel_line}")
        where = f" [{'; '.join(places)}]" if places else ""
        transform = self.transform if self.caller is None else f"{self.caller}: {self.transform}"
        return f"{transform}: {self.problem}; {self.advice}{where}"


def query(function: Callable[Options, Result]) -> Callable[Options, Result]:
    """Wrap a public query of a schedule or a module, as `transform` wraps a transform."""

    @functools.wraps(function)
    def checked(*args: Options.args, **options: Options.kwargs) -> Result:
        return _run(function, read_arguments(function, args, options))

    return checked


def _run(function: Callable[..., Result], bound: inspect.BoundArguments) -> Result:
    """Call a function; what it and TVM refuse becomes a `TransformError` of its name."""
    name, (sch, *others) = function.__name__, bound.arguments.values()
    # The file and line of the first handle's statement, where the parser left them.
    lists = (given if isinstance(given, (list, tuple)) else [given] for given in others)
    nodes = (sch.get(it) for given in lists for it in given if isinstance(it, (LoopRV, SBlockRV)))
    found = (find_location(it) for node in nodes for it in (node, getattr(node, "body", None)))
    kernel_line = next((f"{it[0]}:{it[1]}" for it in found if it is not None), None)
    token = _running.set(name)
    try:
        return function(*bound.args, **bound.kwargs)
    except TransformError as error:
        error.kernel_line = error.kernel_line or kernel_line
        error.caller = None if error.transform == name else name
        raise
    except (ScheduleError, ValueError, InternalError) as error:
        if NO_COPY in str(error):
            refusal = TransformError(
                "TVM cannot copy this schedule, to try it out", "tensorize after it"
            )
        elif not isinstance(error, ScheduleError) and "Check failed" not in str(error):
            raise
        else:
            reason = describe_error(error)
            refusal = TransformError(f"TVM refuses: {reason}", advise(reason))
        refusal.kernel_line = kernel_line
        raise refusal from error
    finally:
        _running.reset(token)


def describe_error(error: BaseException) -> str:
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
    reason = reason.partition("The pattern attempting to be matched:")[0]  # and both programs
    reason = re.sub(r"^Check failed: .* is false: ", "", reason)
    reason = re.sub(r"(#\d+)(?=\w)", r"\1, ", reason)
    names = dict(re.findall(r"# (\S+#\d+)\s+(?:with T\.sblock\(\"|for )(\w+)", program))

    def name_mark(mark: re.Match[str]) -> str:
        kind = "block" if mark.group(1) == "SBlock" else "loop"
        name = names.get(mark.group().rpartition(" ")[2])
        return f"the {kind}" if name is None else f"{kind} '{name}'"

    reason = re.sub(r"(?:\b(?:block|loop) )?\b\w+\.(SBlock|For)#\d+", name_mark, reason)
    if reason.startswith("Cannot find a block"):
        blocks = dict.fromkeys(re.findall(r'T\.sblock\("(?!root")([^"]+)"', program))
        reason += f"; there are {', '.join(blocks) or 'none'}"
    return re.sub(r"\s+", " ", reason).rstrip(".")


class Fault(NamedTuple):
    """A finding about a transform's result: the problem and the advice of a refusal."""

    problem: str
    advice: str


@dataclass(frozen=True)
class Change:
    """A change of a module by one or several transforms, which the guard judges.

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
    module, steps : what the schedule was when it began, and how many primitives had run
    inlines : whether a transform declares that it inlines
    changes : what transforms directly within have made; None where nobody asks
    finished : the changes that made the last whole of what is within, and what they come to
    """

    sch: Schedule
    module: IRModule
    steps: int
    inlines: bool
    changes: list[Change] | None = None
    finished: tuple[list[Change], Change] | None = None

    def end(self, name: str) -> Change:
        """The changes since it began."""
        primitives = (str(step.kind.name) for step in list(self.sch.trace.insts)[self.steps :])
        return Change(name, self.module, self.sch.mod, tuple(primitives), self.inlines)


_under_way: ContextVar[tuple[_Work, ...]] = ContextVar("_under_way", default=())
"""The innermost first."""
_is_guarded: ContextVar[bool] = ContextVar("_is_guarded", default=True)


@contextlib.contextmanager
def _begin(sch: Schedule, *, inlines: bool = False) -> Iterator[_Work]:
    """Work on a schedule, which an error leaves as it was, or says that it is not.

    A copy in which handles stay valid takes its place; TVM cannot make one after tensorize.
    """
    work, before = _Work(sch, sch.mod, len(sch.trace.insts), inlines), None
    try:
        before = sch.copy()
    except InternalError as error:
        if NO_COPY not in str(error):
            raise
    is_part = _find_work(sch) is not None
    token = _under_way.set((work, *_under_way.get()))
    try:
        yield work
    except BaseException as error:
        if before is not None:
            old = Schedule.__new__(Schedule)
            old.__move_handle_from__(sch)  # otherwise nothing would free it
            sch.__move_handle_from__(before)
        elif isinstance(error, TransformError) and not (is_part or sch.mod.same_as(work.module)):
            error.advice += (
                "; TVM cannot copy a schedule after tensorize, so this one has changed: start anew"
            )
        raise
    finally:
        _under_way.reset(token)


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
        bound = read_arguments(function, args, options)
        sch = next(iter(bound.arguments.values()))
        around = _find_work(sch)
        with _begin(sch, inlines=hasattr(function, "inlines")) as work:
            result = _run(function, bound)
            if around is None:
                _require_sound(work.end(function.__name__))
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
    """Ask the guard once, at the end of several transforms.

    For a step of a recipe, for example: the guard costs more than most transforms, and the state
    between two of them may be incomplete. A refusal is raised at the end of the ``with``. It names
    the first transform whose result shows the problem, or `name` for changes between transforms;
    `TransformError.place` is the number of changes before that. The schedule is then restored to
    its state at the beginning, if TVM can copy it. A nested `one_change` must be complete by
    itself: if an error outside of it may come from a problem inside, that problem is the refusal.
    Yields the changes so far.
    """
    around = _find_work(sch)
    if around is not None:
        changes = [] if around.changes is None else around.changes
        yield changes
        around.finished = ([*changes], around.end(name))
        return
    with _begin(sch) as work:
        changes = work.changes = list[Change]()
        try:
            yield changes
        except Exception:
            if work.finished is not None:
                _require_all_sound(*work.finished, name)
            raise
        _require_all_sound(changes, work.end(name), name)


@contextlib.contextmanager
def unguarded() -> Iterator[None]:
    """Switch the guard off: transforms check only their local conditions.

    For callers that judge only the last module, or that want to see how TVM lowers a wrong one.
    """
    token = _is_guarded.set(False)
    try:
        yield
    finally:
        _is_guarded.reset(token)


def _require_all_sound(changes: Sequence[Change], whole: Change, name: str) -> None:
    """Ask of all changes at once; if there is a fault, of one after the other."""
    inlined = [("".join(it.primitives or ())).count("ComputeInline") for it in (whole, *changes)]
    if inlined[0] > sum(inlined[1:]):  # by primitives between transforms
        whole = replace(whole, inlines=True)
    try:
        _require_sound(whole)
    except TransformError as found:

        def get_kind(error: TransformError) -> str:
            """Without the names and numbers, which later transforms may have changed."""
            return re.sub(r"'[^']*'|\d+", "", error.problem)

        module, steps = whole.before, list[Change]()
        for change in changes:
            steps += [Change(name, module, change.before, None, True), change]
            module = change.after
        for place, step in enumerate([*steps, Change(name, module, whole.after, None, True)]):
            try:
                _require_sound(step)
            except TransformError as error:
                # Others may be of what stands between two transforms alone.
                if get_kind(error) == get_kind(found):
                    error.place = place // 2
                    raise
        raise


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
    """The change in progress on a schedule; None for a copy of it, on which one is tried."""
    return next((work for work in _under_way.get() if work.sch is sch), None)
