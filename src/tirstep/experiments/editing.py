"""TVM's lowering pipeline with a pass more, another one, or one less.

A pipeline of TVM is a function that makes a list of passes and runs it. Here that function runs
with a `Sequential` of ours, which edits the list first: what TVM reads from the options of the
pass context stays as it is.
"""

from __future__ import annotations

import difflib
import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType, SimpleNamespace
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir
from tvm.ir.transform import Pass, Sequential
from tvm.tirx import compilation_pipeline

from tirstep.lowering_checks import CheckError
from tirstep.programs.program_error import explain_error
from tirstep.transforms.passes.pipeline import PIPELINE, get_pipeline, name_passes

DEFAULT = "default"
PLACES = ("after", "before", "replace", "drop")
WHOLE = "pipeline"
"""The place of an edit that puts another list in place of all passes."""
OPTIONS = ("tirx.use_async_copy", "tirx.instrument_bound_checkers", "tirx.instrument_lwp")
"""Of the pass context: each adds passes to the pipeline."""
MARK = "experiment:"
"""Begins the name under which a user's pass runs, in front of its own."""
_numbers = itertools.count(1)
# Ctrl-C in a pass of the user's goes through C++, which would make a RuntimeError of it, and that a
# refusal: the pass that hangs would be tried again.
tvm_ffi.register_error("KeyboardInterrupt", KeyboardInterrupt)
Change = Callable[[list[Any]], list[Any]]


class ExperimentError(CheckError):
    """An experiment cannot be made as requested: one sentence of what is wrong and what to do."""


@dataclass(frozen=True)
class Edit:
    """One change of a pipeline.

    Attributes
    ----------
    place : ``"after"``, ``"before"``, ``"replace"`` or ``"drop"``; `WHOLE` where `made` has all
        passes, and `anchor` says where they are from
    anchor : the name of a pass of the pipeline, as ``"s_tir.ThreadSync"``; what stands before its
        dot may be left out. Where it stands several times, ``"ThreadSync#2"`` is the second one;
        without a number a pass goes before the first, after the last, and all are replaced
    made : the pass, or None to drop
    """

    place: str
    anchor: str
    made: Pass | None = None

    def __str__(self) -> str:
        return f"{self.place} {self.anchor}"

    def require(self, names: Sequence[str]) -> None:
        """Raise `ExperimentError` where a pipeline of these passes has no such place."""
        _require_anchor(self, names)


def get_pass(value: Any, name: str = "") -> Pass:
    """The pass that a value is: one of TVM's, what makes one, or what is called with a module, as a
    function, an object or, without parameters, the class of one.

    Raises `ExperimentError` for anything else.
    """
    shown = name or getattr(value, "__name__", repr(value))
    if isinstance(value, Pass):
        return value
    if callable(value):
        needed = _count_needed(value)
        if needed == 0:
            made = value()
            if isinstance(made, Pass):
                return made
            if inspect.isclass(value) and callable(made) and _count_needed(made) == 1:
                return _wrap_function(made, shown)
        elif needed == 1 and not inspect.isclass(value):
            return _wrap_function(value, shown)
    raise ExperimentError(
        f"{shown} is no pass; give a pass of TVM, a function without parameters that returns one, "
        "or what is called with an IRModule alone and returns one"
    )


def _count_needed(value: Any) -> int:
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return 0
    free = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return sum(each.default is each.empty and each.kind not in free for each in parameters)


def _wrap_function(function: Callable[[tvm.IRModule], tvm.IRModule], name: str) -> Pass:
    @tvm.transform.module_pass(opt_level=0, name=name)
    def run(module: tvm.IRModule, _context: Any) -> tvm.IRModule:
        changed = function(module)
        if not isinstance(changed, tvm.IRModule):
            returned = "nothing" if changed is None else f"a value of type {type(changed).__name__}"
            raise TypeError(f"it returns {returned}; let it return an IRModule")
        return changed

    return run


def watch(made: Pass) -> Pass:
    """The same pass within one whose name begins with `MARK`, so that a log shows what it did."""

    @tvm.transform.module_pass(opt_level=0, name=f"{MARK}{made.info.name}")
    def run(module: tvm.IRModule, _context: Any) -> tvm.IRModule:
        try:
            return made(module)
        except Exception as error:
            place = explain_error(error)
            if place is None:  # it is TVM's own, or of no file of the user's
                raise
            raise RuntimeError(place) from error

    return run


def list_passes(base: str = DEFAULT) -> list[str]:
    """The names of a pipeline's passes in their order, those of its host and device parts last.

    Those that TVM runs only with an option, as InjectPTXAsyncCopy, come behind them.
    """
    _, host, device = _make(base, lambda passes: passes)
    parts = [*_flatten(host().passes), *_flatten(device().passes)]
    found = [str(each.info.name) for each in (*take_passes(base), *parts)]
    with tvm.transform.PassContext(config=dict.fromkeys(OPTIONS, True)):
        more = [str(each.info.name) for each in take_passes(base)]
    return [*found, *(name for name in more if name not in found)]


def list_places() -> list[str]:
    """All passes that an edit may name: TVM's, then those that `PIPELINE` alone has."""
    return [*list_passes(DEFAULT), *list_own_passes()]


def list_own_passes() -> list[str]:
    """The names of tirstep's passes, which run for modules that ask for `PIPELINE`."""
    known = set(list_passes(DEFAULT))
    return [name for name in list_passes(PIPELINE) if name not in known]


def require_reached(edits: Sequence[Edit], modules: Sequence[tvm.IRModule]) -> None:
    """Raise `ExperimentError` for an edit at a pass that no pipeline of these modules has."""
    pipelines = {get_pipeline(module) for module in modules}
    for edit in edits:
        if edit.place not in PLACES or not _find_places(edit, list_own_passes()):
            continue
        if PIPELINE not in pipelines and not _find_places(edit, list_passes(DEFAULT)):
            raise ExperimentError(
                f"{edit.anchor} is a pass of tirstep's own pipeline, which none of these modules "
                "asks for; name a recipe that does, with set_pipeline (matmul_prefetched, say)"
            )


def is_reached(edits: Sequence[Edit], names: Sequence[str]) -> bool:
    """Whether each of some edits is at one of the passes of these names, or is of all of them."""
    return all(edit.place not in PLACES or _find_places(edit, names) for edit in edits)


def take_passes(base: str = DEFAULT) -> list[Any]:
    """The passes of a pipeline itself, as the options of the current context choose them."""
    taken: list[Any] = []

    def take(passes: list[Any]) -> list[Any]:
        taken.extend(passes)
        return []

    _make(base, take)[0](tvm.IRModule())
    return taken


@contextmanager
def register_edited(edits: Sequence[Edit], base: str = DEFAULT) -> Iterator[str]:
    """The name of a pipeline with these edits, which TVM knows while this lasts.

    An edit at a pass of tirstep's own changes nothing in another pipeline. Raises `ExperimentError`
    for a pass that no pipeline has.
    """
    names = list_places()
    for edit in edits:
        edit.require(names)

    def make() -> tuple[Any, Any, Any]:
        return _make(base, lambda passes: apply_edits(edits, passes))

    with register(make) as name:
        yield name


@contextmanager
def register(make: Callable[[], tuple[Any, Any, Any]]) -> Iterator[str]:
    """The name under which TVM knows a pipeline while this lasts."""
    name = f"tirstep.experiment.{next(_numbers)}"
    compilation_pipeline.register_tir_pipeline(name, make)
    try:
        yield name
    finally:
        del compilation_pipeline.PIPELINE_MAP[name]


def edit_whole(whole: Callable[[], tuple[Any, Any, Any]], name: str) -> Edit:
    """The edit that a whole pipeline of `make_whole` is."""
    return Edit(WHOLE, name, whole()[0])


def make_whole(value: Any, name: str) -> Callable[[], tuple[Any, Any, Any]]:
    """What makes a pipeline of a user's function: of no parameters, it returns a pass, a list of
    passes, or TVM's three (the pipeline, and what finishes the host's and the device's part).
    """
    if not callable(value) or isinstance(value, Pass) or _count_needed(value):
        raise ExperimentError(
            f"{name} is no pipeline; give a function without parameters that returns its passes"
        )

    def make() -> tuple[Any, Any, Any]:
        made = value()
        if (
            isinstance(made, tuple)
            and len(made) == 3
            and not all(isinstance(e, Pass) for e in made)
        ):
            return made
        if isinstance(made, (list, tuple)):
            made = Sequential([get_pass(each) for each in made])
        if not isinstance(made, Pass):
            kind = type(made).__name__
            raise ExperimentError(
                f"{name} returns a value of type {kind}; let it return a list of passes"
            )
        host, device = (
            compilation_pipeline.finalize_host_passes,
            compilation_pipeline.finalize_device_passes,
        )
        return made, host, device

    make()
    return make


def _make(base: str, change: Change) -> tuple[Any, Any, Any]:
    """A pipeline whose list of passes is changed before it runs."""
    if base not in (DEFAULT, "s_tir", PIPELINE):
        raise ExperimentError(
            f"the pipeline '{base}' cannot be edited; choose {DEFAULT} or {PIPELINE}"
        )
    own = s_tir.pipeline.default_s_tir_pipeline

    def sequence(passes: Sequence[Any]) -> Any:
        return Sequential(change(_flatten(passes)))

    transform = SimpleNamespace(**{**vars(tvm.ir.transform), "Sequential": sequence})
    ir = SimpleNamespace(**{**vars(tvm.ir), "transform": transform})
    ours = SimpleNamespace(**{**vars(tvm), "ir": ir})
    names = {**own.__globals__, **name_passes(base), "tvm": ours}
    pipeline, host, device = FunctionType(own.__code__, names)()

    def edit_part(part: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: sequence(part().passes)

    return pipeline, edit_part(host), edit_part(device)


def _flatten(passes: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for each in passes:
        found.extend(_flatten(each.passes) if isinstance(each, Sequential) else [each])
    return found


def cut_passes(
    edits: Sequence[Edit], end: str, base: str = DEFAULT
) -> tuple[list[Any], list[Any] | None]:
    """The passes of a pipeline before the one called `end`, as they are and with the edits.

    None for the second where the edits change something from `end` on, or where they are not known
    one by one: a pipeline may be a pass that runs others.
    """
    passes = take_passes(base)
    names = _name_all(passes)
    at = names.index(end)
    wholes = [_flatten([edit.made]) for edit in edits if edit.place == WHOLE]
    if wholes:
        own = _name_all(wholes[0])
        is_same_end = end in own and own[own.index(end) :] == names[at:]
        return passes[:at], wholes[0][: own.index(end)] if is_same_end else None
    edited = apply_edits(edits, passes[:at])
    everywhere = _name_all(apply_edits(edits, passes))
    return passes[:at], edited if _name_all(edited) + names[at:] == everywhere else None


def _name_all(passes: Sequence[Any]) -> list[str]:
    return [str(each.info.name) for each in passes]


def apply_edits(edits: Sequence[Edit], passes: list[Any]) -> list[Any]:
    """A list of passes with these edits; those whose pass is not there change nothing."""
    for edit in edits:
        places = _find_places(edit, _name_all(passes))
        if not places:
            continue
        new = [] if edit.made is None else [watch(edit.made)]
        if edit.place in ("after", "before"):
            at = places[-1] + 1 if edit.place == "after" else places[0]
            passes = [*passes[:at], *new, *passes[at:]]
        else:
            passes = [
                kept
                for index, each in enumerate(passes)
                for kept in (new if index in places else [each])
            ]
    return passes


def _split_anchor(anchor: str) -> tuple[str, int | None]:
    match = re.fullmatch(r"(.+)#(\d+)", anchor)
    return (match[1], int(match[2])) if match else (anchor, None)


def _find_places(edit: Edit, names: Sequence[str]) -> list[int]:
    wanted, number = _split_anchor(edit.anchor)
    wanted = wanted.lower()
    places = [
        index
        for index, name in enumerate(names)
        if wanted in (name.lower(), name.lower().rpartition(".")[2])
    ]
    return places if number is None else places[number - 1 : number]


def _require_anchor(edit: Edit, names: Sequence[str]) -> None:
    if edit.place not in PLACES:
        raise ExperimentError(f"a pass cannot stand {edit.place}; choose {', '.join(PLACES)}")
    if _find_places(edit, names):
        return
    wanted, number = _split_anchor(edit.anchor)
    times = len(_find_places(Edit(edit.place, wanted), names))
    if number is not None and times:
        raise ExperimentError(
            f"the pipeline has {wanted} {times} times; give a number from 1 to {times}"
        )
    short = {name.rpartition(".")[2].lower(): name for name in names}
    near = difflib.get_close_matches(wanted.rpartition(".")[2].lower(), short, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(short[each] for each in near)}?"
    raise ExperimentError(
        f"the pipeline has no pass '{wanted}'; "
        + (hint if near else f"it has {', '.join(dict.fromkeys(names))}")
    )
