"""TVM's lowering pipeline with a pass more, another one, or one less.

A pipeline of TVM is a function that makes a list of passes and runs it. Here that function runs
with a `Sequential` of ours, which edits the list first: what TVM reads from the options of the
pass context stays as it is.
"""

from __future__ import annotations

import difflib
import inspect
import itertools
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import tvm
import tvm_ffi
from tvm.ir.transform import Pass, Sequential
from tvm.tirx import compilation_pipeline
from tvm_ffi import structural

from tirstep.lowering_checks import CheckError
from tirstep.programs.naming import describe_error, explain_error
from tirstep.transforms.pass_options import PIPELINE, TIRX, get_pipeline
from tirstep.transforms.pipeline import name_passes

DEFAULT = "default"
PLACES = ("after", "before", "replace", "drop")
OPTIONS = ("tirx.use_async_copy", "tirx.instrument_bound_checkers", "tirx.instrument_lwp")
"""Options of the pass context that add passes to the pipeline."""
MARK = "experiment:"
"""Begins the name under which a user's pass runs, in front of its own."""
RUNS_PASSES = str(Path("tvm", "ir", "transform.py"))
"""The file of TVM that calls a pass."""
TRACEBACK = "Traceback (most recent call last):"
raised: list[str] = []
"""Tracebacks of errors of the user's own passes, since it was cleared."""
_numbers = itertools.count(1)
# Ctrl-C in a pass of the user's goes through C++, which would make a RuntimeError of it, and that a
# refusal: the pass that hangs would be tried again.
tvm_ffi.register_error("KeyboardInterrupt", KeyboardInterrupt)
Pipeline = tuple[Any, Any, Any]
"""TVM's three parts: all passes, and what finishes the host's and the device's part."""


class ExperimentError(CheckError):
    """An experiment cannot be made as requested: one sentence of what is wrong and what to do."""


@dataclass(frozen=True)
class Edit:
    """One change of a pipeline.

    Attributes
    ----------
    place : ``"after"``, ``"before"``, ``"replace"`` or ``"drop"``
    anchor : the name of a pass of the pipeline, as ``"s_tir.ThreadSync"``; what stands before its
        dot may be left out. Where it stands several times, ``"ThreadSync#2"`` is the second one;
        without a number a pass goes before the first, after the last, and all are replaced
    made : the pass, or None to drop
    """

    place: str
    anchor: str
    made: Pass | None = None

    def find_places(self, names: Sequence[str]) -> list[int]:
        """Where its pass stands among passes of these names."""
        wanted, _, number = self.anchor.lower().partition("#")
        spellings = [(name.lower(), name.lower().rpartition(".")[2]) for name in names]
        places = [index for index, spelt in enumerate(spellings) if wanted in spelt]
        return places[int(number) - 1 : int(number)] if number.isdecimal() else places

    def require(self, names: Sequence[str]) -> None:
        """Raise `ExperimentError` where a pipeline of these passes has no such place."""
        if self.place not in PLACES:
            raise ExperimentError(f"a pass cannot stand {self.place}; choose {', '.join(PLACES)}")
        if self.find_places(names):
            return
        wanted, _, number = self.anchor.partition("#")
        times = len(Edit(self.place, wanted).find_places(names))
        if number and times:
            raise ExperimentError(
                f"the pipeline has {wanted} {times} times; give a number from 1 to {times}"
            )
        short = {name.rpartition(".")[2].lower(): name for name in names}
        near = difflib.get_close_matches(wanted.rpartition(".")[2].lower(), short, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(short[each] for each in near)}?"
        known = f"it has {', '.join(dict.fromkeys(names))}"
        raise ExperimentError(f"the pipeline has no pass '{wanted}'; {hint if near else known}")

    def apply(self, passes: list[Any]) -> list[Any]:
        """A list of passes with it; the list as it is where its pass is not there."""
        places = self.find_places([str(each.info.name) for each in passes])
        if not places:
            return passes
        new = [] if self.made is None else [watch(self.made)]
        if self.place in ("after", "before"):
            at = places[-1] + 1 if self.place == "after" else places[0]
            return [*passes[:at], *new, *passes[at:]]
        kept = [new if index in places else [each] for index, each in enumerate(passes)]
        return list(itertools.chain.from_iterable(kept))


def get_pass(value: Any, name: str = "") -> Pass:
    """The pass that a value is: one of TVM's, what makes one, or what is called with a module, as a
    function, an object or, without parameters, the class of one.

    Raises `ExperimentError` for anything else.
    """
    shown, is_class = name or getattr(value, "__name__", repr(value)), inspect.isclass(value)
    made = value
    if callable(value) and not isinstance(value, Pass) and _count_needed(value) == 0:
        made = value()
    if isinstance(made, Pass):
        return made
    if callable(made) and (made is value) != is_class and _count_needed(made) == 1:

        @tvm.transform.module_pass(opt_level=0, name=shown)
        def run(module: tvm.IRModule, _context: Any) -> tvm.IRModule:
            changed = made(module)
            if not isinstance(changed, tvm.IRModule):
                kind = type(changed).__name__
                returned = "nothing" if changed is None else f"a value of type {kind}"
                told = f"returns {returned}; let it return an IRModule"
                raised.append(f"{shown} {told}")
                raise TypeError(f"it {told}")
            return changed

        return run
    raise ExperimentError(
        f"{shown} is not a pass; give a pass of TVM, a function without parameters that "
        "returns one, or a callable that takes an IRModule and returns one"
    )


def _count_needed(value: Any) -> int:
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return 0
    free = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return sum(each.default is each.empty and each.kind not in free for each in parameters)


def watch(made: Pass) -> Pass:
    """The same pass within one whose name begins with `MARK`, so that a log shows what it did."""

    @tvm.transform.module_pass(opt_level=0, name=f"{MARK}{made.info.name}")
    def run(module: tvm.IRModule, _context: Any) -> tvm.IRModule:
        try:
            with _holding_errors():
                return made(module)
        except Exception as error:
            place = explain_error(error)
            if place is None:  # it is TVM's own, or of no file of the user's
                raise
            frames = traceback.extract_tb(error.__traceback__)
            own = [it for it in frames if Path(it.filename).is_file()]
            if not own[-1].filename.endswith(RUNS_PASSES):  # another pass refuses it there
                hidden = (__file__, *tvm.__path__, *tvm_ffi.__path__)
                shown = [it for it in own if not it.filename.startswith(hidden)]
                lines = traceback.format_list(shown)
                raised.append(f"{TRACEBACK}\n{''.join(lines)}{describe_error(error)}")
            raise RuntimeError(place) from error

    return run


@contextmanager
def _holding_errors() -> Iterator[None]:
    """While this lasts, an error in a callback of TVM's visitors is raised behind the visit, whose
    callbacks do nothing from there on: one that goes through its C++ may spoil the heap, and end
    the process later. A callback that returns no node where one is needed is such an error.
    """
    own = vars(structural)["_ffi_api"]

    def guard(name: str, returns: bool) -> Any:
        def visit(root: Any, *given: Any) -> Any:
            held: list[BaseException] = []

            def hold(call: Any) -> Any:
                def run(value: Any, *rest: Any) -> Any:
                    if not held:
                        try:
                            found = call(value, *rest)
                            if found is None and returns:
                                raise TypeError(
                                    f"a callback returns None for a {type(value).__name__}; let it "
                                    "return the node itself where nothing changes"
                                )
                            return found
                        except BaseException as error:
                            held.append(error)
                    return value if returns else None

                return run

            lists = [
                [(index, hold(call), *flags) for index, call, *flags in each]
                if isinstance(each, list)
                else each
                for each in given
            ]
            result = getattr(own, name)(root, *lists)
            if held:
                raise held[0]
            return result

        return visit

    guarded = {
        name: guard(name, name in ("StructuralMap", "StructuralMutate"))
        for name in ("StructuralMap", "StructuralMutate", "StructuralWalk", "StructuralVisit")
    }
    vars(structural)["_ffi_api"] = SimpleNamespace(**{**vars(own), **guarded})
    try:
        yield
    finally:
        vars(structural)["_ffi_api"] = own


def take_passes(base: str = DEFAULT) -> list[Any]:
    """The passes of a pipeline itself, as the options of the current context choose them."""
    taken: list[Any] = []

    def take(passes: list[Any]) -> list[Any]:
        taken.extend(passes)
        return []

    edit_pipeline(base, take)[0](tvm.IRModule())
    return taken


def list_passes(base: str = DEFAULT) -> list[str]:
    """The names of a pipeline's passes in their order, those of its host and device parts last.

    Those that TVM runs only with an option, as InjectPTXAsyncCopy, come behind them.
    """
    _, host, device = edit_pipeline(base, lambda passes: passes)
    parts = [*_flatten(host().passes), *_flatten(device().passes)]
    found = [str(each.info.name) for each in (*take_passes(base), *parts)]
    with tvm.transform.PassContext(config=dict.fromkeys(OPTIONS, True)):
        more = [str(each.info.name) for each in take_passes(base)]
    return [*found, *(name for name in more if name not in found)]


def list_places() -> list[str]:
    """All passes that an edit may name: TVM's, then those that other pipelines alone have."""
    known = list_passes(DEFAULT)
    others = [*list_passes(TIRX), *list_passes(PIPELINE)]
    return [*known, *(name for name in dict.fromkeys(others) if name not in known)]


def is_of_ours(edit: Edit | None) -> bool:
    """Whether an edit is at a pass that `PIPELINE` alone has."""
    known = [*list_passes(DEFAULT), *list_passes(TIRX)]
    return edit is not None and not edit.find_places(known)


def require_reached(edit: Edit | None, modules: Sequence[tvm.IRModule]) -> None:
    """Raise `ExperimentError` for an edit at a pass that no pipeline of these modules has."""
    if is_of_ours(edit) and PIPELINE not in {get_pipeline(module) for module in modules}:
        assert edit is not None
        raise ExperimentError(
            f"{edit.anchor} is a pass of tirstep's own pipeline, which none of these modules "
            "asks for; name a recipe that does, with set_pipeline (matmul_prefetched, say)"
        )


def register(make: Callable[[], Pipeline]) -> str:
    """The name under which TVM knows a pipeline from now on."""
    name = f"tirstep.experiment.{next(_numbers)}"
    compilation_pipeline.register_tir_pipeline(name, make)
    return name


def make_whole(value: Any, name: str) -> Callable[[], Pipeline]:
    """What makes a pipeline of a user's function, which returns a list of passes or a pass."""
    if not callable(value) or isinstance(value, Pass) or _count_needed(value):
        raise ExperimentError(
            f"{name} is not a pipeline; give a function without parameters that returns its passes"
        )

    def make() -> Pipeline:
        made = value()
        if isinstance(made, (list, tuple)):
            made = Sequential([get_pass(each) for each in made])
        if not isinstance(made, Pass):
            kind = type(made).__name__
            raise ExperimentError(
                f"{name} returns a value of type {kind}; let it return a list of passes"
            )
        ends = compilation_pipeline
        return made, ends.finalize_host_passes, ends.finalize_device_passes

    make()
    return make


def edit_pipeline(base: str, change: Callable[[list[Any]], list[Any]]) -> Pipeline:
    """A pipeline whose list of passes is changed before it runs."""
    if base not in (DEFAULT, "s_tir", PIPELINE, TIRX):
        raise ExperimentError(
            f"the pipeline '{base}' cannot be edited; choose {DEFAULT}, {TIRX} or {PIPELINE}"
        )
    own = tvm.s_tir.pipeline.default_s_tir_pipeline
    own = compilation_pipeline.tirx_pipeline if base == TIRX else own

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
