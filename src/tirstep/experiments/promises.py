"""Passes as their users declare and name them: `pass_experiment` says where one belongs and what it
promises, `assert_keeps_promises` is a test of that, and a text such as ``FILE.py:NAME`` names one,
whose file is run as an import would run it.
"""

from __future__ import annotations

import copyreg
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import tvm
from tvm.ir.transform import Pass
from tvm.tirx import Evaluate, SeqStmt
from tvm_ffi import structural_map

from tirstep.lowering_checks.compile.passes import Pass as RunPass
from tirstep.lowering_checks.steps import suggest as suggest_names
from tirstep.programs.found import DECLARED
from tirstep.programs.loading import load_place
from tirstep.programs.naming import ProgramError, read_spelling
from tirstep.strategies.drawn_programs import parse_program
from tirstep.transforms.passes.barriers import is_barrier
from tirstep.transforms.schedule import suggest
from tirstep.transforms.tir import find_all

from .corpus import KINDS, Corpus, UndrawnError
from .editing import Edit, ExperimentError, get_pass, list_places, make_whole
from .shrinking import shrink_trial
from .trying import (
    LEFT_OUT,
    RIGHT,
    UNJUDGED,
    WRONG,
    Experiment,
    Subject,
    Trial,
    find_marked,
    have_same_bits,
    is_same,
    make_subject,
    try_change,
)

NUMBERS = "changes no numbers"
_Made = TypeVar("_Made")


def _compare_barriers(trial: Trial, *, drops_only: bool) -> str:
    """How a promise about barriers is broken; "" where it is kept."""

    def count(module: tvm.IRModule) -> int:
        bodies = [function.body for function in module.functions.values()]
        return sum(is_barrier(node) for body in bodies for node in find_all(body, Evaluate))

    runs = [(each.before, each.module) for each in _get_runs(trial)]
    for before, after in [map(count, pair) for pair in runs]:
        if after > before:
            return f"there are {after} barriers after it, and {before} before"
    is_other = drops_only and not all(is_same(*map(drop_barriers, pair)) for pair in runs)
    return "it changes something other than barriers" if is_other else ""


def _get_runs(trial: Trial) -> list[RunPass]:
    return [] if trial.lowered is None else [e for e in find_marked(trial.lowered[1]) if e.changed]


def drop_barriers(module: tvm.IRModule) -> tvm.IRModule:
    """The module without barriers, and without sequences of one or no statement."""

    def drop(sequence: Any) -> Any:
        kept = [each for each in sequence.seq if not is_barrier(each)]
        if len(kept) == 1:
            return kept[0]
        return SeqStmt(kept) if kept else Evaluate(tvm.tirx.const(0, "int32"))

    functions = {
        name: structural_map(function, (SeqStmt, drop))
        for name, function in module.functions_items()
    }
    return tvm.IRModule(functions)


PROMISES: Mapping[str, Callable[[Trial, Pass], str]] = MappingProxyType(
    {
        NUMBERS: lambda trial, _: trial.reason if trial.is_bad else "",
        "changes no bits": lambda trial, _: (
            "the bits of an output differ" if have_same_bits(trial) is False else ""
        ),
        "drops barriers only": lambda trial, _: _compare_barriers(trial, drops_only=True),
        "adds no barriers": lambda trial, _: _compare_barriers(trial, drops_only=False),
        "is idempotent": lambda trial, made: (
            "run twice, it changes the module twice"
            if any(not is_same(it.module, made(it.module)) for it in _get_runs(trial))
            else ""
        ),
    }
)
"""Each says in a sentence how it is broken; "" where it is kept."""


@dataclass(frozen=True)
class Declaration:
    """Where a pass belongs, and its promises; see `pass_experiment`."""

    place: str
    anchor: str
    promises: tuple[str, ...]

    def require(self) -> None:
        """Raise `ExperimentError` for a place or a promise that is not known."""
        for promise in self.promises:
            if promise not in PROMISES:
                hint = suggest(promise, PROMISES, f"there are: {', '.join(PROMISES)}")
                raise ExperimentError(f"nothing checks the promise '{promise}'; {hint}")
        Edit(self.place, self.anchor).require(list_places())


def pass_experiment(
    *,
    after: str | None = None,
    before: str | None = None,
    replace: str | None = None,
    promises: Sequence[str] = (NUMBERS,),
) -> Callable[[_Made], _Made]:
    """Declare where a pass belongs and what it promises; the pass itself stays what it is.

    One of `after`, `before` and `replace` names a pass of TVM's, as ``"s_tir.ThreadSync"``.
    `promises` are of `PROMISES`. Raises `ExperimentError` for another one, and for a name that the
    pipeline does not have::

        @pass_experiment(after="s_tir.ThreadSync", promises=["changes no numbers"])
        @prim_func_pass(opt_level=0, name="my.Pass")
        def MyPass(function, module, context): ...
    """
    given = {"after": after, "before": before, "replace": replace}
    places = [(place, anchor) for place, anchor in given.items() if anchor is not None]
    if len(places) != 1:
        raise ExperimentError("pass_experiment: give one of after=, before= and replace=")
    declaration = Declaration(*places[0], tuple(promises))
    declaration.require()

    def declare(value: _Made) -> _Made:
        setattr(value, DECLARED, declaration)
        return value

    return declare


def get_declaration(value: Any) -> Declaration | None:
    """What `pass_experiment` declared of a pass; None where it did not."""
    found = getattr(value, DECLARED, None)
    return found if isinstance(found, Declaration) else None


@dataclass
class PromiseReport:
    """What a pass was held to.

    Attributes
    ----------
    tried, changed : modules
    broken : the module, the promise, and how it is broken
    """

    tried: int = 0
    changed: int = 0
    broken: list[tuple[str, str, str]] = field(default_factory=list)

    def hold(self, trial: Trial, made: Pass, promises: Sequence[str]) -> None:
        """Note the first promise that a pass broke on a module, if it broke one."""
        for promise in dict.fromkeys(promises):
            if sentence := PROMISES[promise](trial, made):
                self.broken.append((trial.subject.label, promise, sentence))
                return


def assert_keeps_promises(
    made: Any,
    corpus: int | Sequence[Subject] = 50,
    *,
    seed: int = 0,
    kinds: Sequence[str] = KINDS,
    declaration: Declaration | None = None,
    shrinks: bool = True,
    may_do_nothing: bool = False,
) -> PromiseReport:
    """Fail where a pass breaks a promise on one of so many modules of the corpus, or of a list.

    The pass is declared by `pass_experiment`, or by `declaration`. The error has the promise, what
    broke it and a small program that shows it. A pass that changes none of the modules was not
    tested, and fails, too, unless it `may_do_nothing`. Raises `ExperimentError` for a pass that is
    not declared.
    """
    declared = declaration or get_declaration(made)
    if declared is None:
        raise ExperimentError("the pass is not declared; decorate it with pass_experiment")
    declared.require()
    name = str(getattr(made, "__name__", "") or getattr(getattr(made, "info", None), "name", made))
    run, report = get_pass(made, name), PromiseReport()
    experiment = Experiment(name, Edit(declared.place, declared.anchor, run))
    drawn = Corpus(seed, tuple(kinds))
    for each in range(corpus) if isinstance(corpus, int) else corpus:
        try:
            for subject in drawn.draw_all(each) if isinstance(each, int) else [each]:
                trial = try_change(experiment, subject)
                if trial.is_changed:
                    break
        except UndrawnError:
            continue
        report.tried += 1
        report.changed += trial.is_changed and trial.status != LEFT_OUT
        if not trial.is_changed or trial.status == LEFT_OUT:
            continue
        report.hold(trial, run, [NUMBERS, *declared.promises])  # which is promised by all
        for label, promise, how in report.broken:
            shown = str(subject.module.script())
            if trial.status == WRONG and shrinks:
                small = shrink_trial(experiment, trial, seed=seed)
                shown = shown if small is None else small.text
            raise AssertionError(
                f"{experiment.title} breaks the promise '{promise}' on {label}, seed {seed}: "
                + (f"{how}\n{shown}" if shrinks else how)
            )
    if not report.changed and not may_do_nothing:
        raise AssertionError(
            f"{experiment.title} changes none of {report.tried} modules, so nothing was tested; "
            "give a larger corpus, or may_do_nothing=True"
        )
    return report


def load_value(text: str) -> Any:
    """The value of ``FILE.py:NAME`` or ``package.module:NAME``; raises `ExperimentError`."""
    place, colon, name = text.rpartition(":")
    is_file = text.endswith(".py")  # whose passes are named then
    if not is_file and not (place and colon and name.isidentifier()):
        raise ExperimentError(f"'{text}' names nothing; give FILE.py:NAME or package.module:NAME")
    try:
        values = load_place(read_spelling(text if is_file else place).place).values
    except ProgramError as error:
        raise ExperimentError(str(error)) from error
    if is_file:
        declared = [f"{text}:{each}" for each, it in values.items() if get_declaration(it)]
        choice = " or ".join(declared) or "FILE.py:NAME"
        raise ExperimentError(f"'{text}' is a file, and the pass has a name in it; give {choice}")
    if name not in values:
        known = [each for each in values if not each.startswith("_")]
        hint = suggest_names(name, known, "name what it defines")
        raise ExperimentError(f"{place} has no '{name}'; {hint}")
    return values[name]


def load_experiment(place: str, anchor: str, spec: str) -> Experiment:
    """The change of the pipeline that puts the pass ``FILE.py:NAME`` in a place.

    `place` and `anchor` are those of an `Edit`; empty ones those that the pass declares. Without a
    pass of its own, ``"drop"`` leaves out that of `anchor`, and ``"pipeline"`` takes all passes
    from the function that `anchor` names. Raises `ExperimentError`.
    """
    named, own = (place, anchor, spec), spec or anchor
    name = own.rpartition(":")[2].rpartition(".")[2]
    if place == "drop":
        return Experiment(name, Edit(place, anchor), named=named)
    value = load_value(own)
    if place == "pipeline":
        return Experiment(anchor, whole=make_whole(value, anchor), named=named)
    declared = get_declaration(value)
    if not place and declared is not None:
        place, anchor = declared.place, declared.anchor
    if not place:
        raise ExperimentError(
            f"where does {name} go? give --after, --before or --replace NAME, or decorate it with "
            "pass_experiment"
        )
    promises = () if declared is None else [p for p in declared.promises if p != NUMBERS]
    edit = Edit(place, anchor, get_pass(value, name))
    return Experiment(name, edit, promises=promises, named=named)


@functools.cache
def _reopen(*named: str) -> Experiment:
    return load_experiment(*named)


# In another process an experiment is loaded by its name, since passes cannot be pickled.
copyreg.pickle(Experiment, lambda experiment: (_reopen, experiment.named))


def attempt_change(experiment: Experiment, subject: Subject) -> dict[str, Any]:
    """Try a change on a module of the corpus, and hold it to its promises where it stays right; the
    fields of a `TrialRecord`.
    """
    trial, report = try_change(experiment, subject), PromiseReport()
    # Behind the host's part, say, nothing is interpreted.
    if trial.status == UNJUDGED and not any(it.after for it in trial.verdicts):
        trial = try_change(experiment, subject, devices=("cpu",))
    if trial.status == RIGHT and experiment.edit is not None and experiment.edit.made is not None:
        report.hold(trial, experiment.edit.made, experiment.promises)
    names = ("status", "reason", "what", "is_changed", "raised")
    fields = {name: getattr(trial, name) for name in names}
    return {**fields, "broken": report.broken[0][1:] if report.broken else ()}


def show_counterexample(
    program: str,
    place: str,
    anchor: str,
    spec: str,
    *,
    seed: int = 0,
    devices: Sequence[str] = (),
    before: int = 0,
) -> int:
    """Try a change on a program and print what it does; 1 if that is wrong. A script calls it,
    with the number of its lines `before` the program's own.
    """
    experiment = load_experiment(place, anchor, spec)
    subject = make_subject("the program", parse_program("\n" * before + program.lstrip()), seed)
    trial = try_change(experiment, subject, devices=devices)
    if trial.diff is not None:
        print(trial.diff)
    if trial.is_bad:
        print(f"WRONG: {trial.reason}".replace("<str>", Path(sys.argv[0]).name))
        return 1
    print(f"{experiment.title}: {trial.status}. {trial.reason}".strip())
    return 0
