"""The tuning of a recipe by the parts of MetaSchedule's protocol: a space, a builder, a runner.

Configs that the recipe refuses cost no trial. What compiles to the program of another config is
not tried again. The fastest are timed once more at the end, in turns with the recipe's own config.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import tvm
import tvm_ffi
from tvm.s_tir import Schedule
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.builder import BuilderInput
from tvm.s_tir.meta_schedule.runner import RunnerInput
from tvm.s_tir.schedule import Trace

from tirstep.bench import BenchError
from tirstep.modules import AnyProblem
from tirstep.transforms.recipes import Recipe
from tirstep.transforms.rewriting import NO_REPLAY

from .building import TOOK_LONGER
from .proposing import Decisions, Proposals
from .space import Choices, Config, RecipeSpace, carry_out, make_decided, name_kind
from .trials import Trials, TunedTrial

FINALISTS = 4
FINAL_ROUNDS = 3
MOST_REFUSED = 2000
"""Configs refused in turn, after which no fitting one is looked for any more."""

NORMALIZE = tvm_ffi.get_global_func("tvm.s_tir.meta_schedule.normalize_mod")
"""MetaSchedule's own: what it does to a function before it looks it up."""

Tell = Callable[[str], object]


@dataclass(frozen=True)
class TunePlan:
    """What is tuned.

    Attributes
    ----------
    fixed, choices : the knobs with one value, and the values of the others; see `read_choices`
    target : TVM's, for which candidates are compiled
    trials : how many configs are built and timed in all, those of earlier runs included
    seed : of the order in which configs come
    batch : candidates that are compiled before they are timed
    promising : decisions that are tried first, behind the recipe's own
    """

    recipe: Recipe
    problem: AnyProblem
    target: Any
    fixed: Config
    choices: Choices
    trials: int
    seed: int = 0
    batch: int = 8
    promising: Sequence[Decisions] = ()

    @property
    def workload(self) -> tvm.IRModule:
        """The module as MetaSchedule looks it up: `main`, without aliases."""
        return NORMALIZE(self.problem.module["main"])

    def describe(self) -> dict[str, object]:
        """What trials are of, in JSON's terms."""
        about = {
            "recipe": self.recipe.spelling or self.recipe.name,
            "shape": dict(self.problem.shape),
            "options": dict(self.problem.options),
            "target": str(self.target),
        }
        return dict(json.loads(json.dumps(about, default=str)))


@dataclass(frozen=True)
class ScheduledConfig:
    """A config, and the program that the recipe makes of the workload with it."""

    decisions: Decisions
    config: Config
    sch: Schedule
    program: str

    @property
    def trace(self) -> Trace:
        """The decisions, and behind `enter_postproc` what the recipe did."""
        return self.sch.trace


@dataclass
class TuneResult:
    """What came of it.

    Attributes
    ----------
    best : None where nothing was right
    seconds : of the best, in the last rounds
    default_seconds : of the recipe's own config, in turns with the best; empty where it is out
    tried : how many configs were built and timed, or were out there
    kept : how many of these an earlier run had tried
    stale : trials of an earlier run that were of another program
    out : how many candidates are out, by the kind of reason
    samples : the first whole sentence of each kind
    repeated : configs whose program another config has
    """

    total: int
    best: ScheduledConfig | None = None
    seconds: tuple[float, ...] = ()
    default_seconds: tuple[float, ...] = ()
    tried: int = 0
    kept: int = 0
    stale: int = 0
    out: Counter[str] = field(default_factory=Counter)
    samples: dict[str, str] = field(default_factory=dict)
    repeated: int = 0

    def count_out(self, reason: str) -> None:
        """Count a candidate that is out."""
        kind = name_kind(reason)
        self.out[kind] += 1
        self.samples.setdefault(kind, reason.partition(": ")[2] or reason)


def tune(plan: TunePlan, builder: Any, runner: Any, trials: Trials, tell: Tell) -> TuneResult:
    """Try configs of a recipe, the promising ones first; each that is right is timed.

    `builder` and `runner` are a `CandidateBuilder` and a `CandidateRunner`, or MetaSchedule's,
    which speak as they do, but through TVM, where Ctrl-C becomes an error; that what has a time is
    right is the runner's to know. Raises `BenchError` where a trace replays with tirstep
    alone.
    """
    return _Tuner(plan, builder, runner, trials, tell).run()


class _Tuner:
    def __init__(
        self, plan: TunePlan, builder: Any, runner: Any, trials: Trials, tell: Tell
    ) -> None:
        self.plan, self.builder, self.runner = plan, builder, runner
        self.trials, self.tell = trials, tell
        self.space = RecipeSpace(plan.recipe, plan.fixed, plan.choices)
        sizes = {name: len(values) for name, values in plan.choices.items()}
        self.proposals = Proposals(sizes, plan.seed, plan.promising)
        self.found = TuneResult(self.proposals.total)
        self.right: list[tuple[float, ScheduledConfig]] = []
        self.programs: set[str] = set()
        self.default: ScheduledConfig | None = None

    def run(self) -> TuneResult:
        self._take_known()
        while self.found.tried < self.plan.trials:
            batch = self._collect(min(self.plan.batch, self.plan.trials - self.found.tried))
            if not batch:
                break
            for candidate, seconds, reason in self._measure(batch):
                kept = TunedTrial(_as_json(candidate.config), candidate.program, seconds, reason)
                self.trials.add(kept)
                self._learn(candidate, kept)
                self._report()
        self.found.out.update(self.space.refused)
        self.found.samples.update(self.space.samples)
        self._decide()
        return self.found

    def _take_known(self) -> None:
        """What earlier runs have tried, as long as it is the same program still.

        What was out of a user's own recipe is tried again: its reference may have been wrong. So is
        what took too long: the machine may have been busy, or the limit another one.
        """
        if self.trials.known:
            self.tell(f"reading {len(self.trials.known)} trials of an earlier run")
        is_own = bool(self.plan.recipe.spelling)
        for trial in self.trials.known:
            decisions = self._find_decisions(trial.config)
            is_open = trial.reason and (is_own or trial.reason.startswith(TOOK_LONGER))
            if decisions is None or is_open:
                continue
            candidate = self._make(decisions)
            if candidate is None or candidate.program != trial.program:
                self.found.stale += 1
                continue
            if candidate.program not in self.programs:
                self.found.kept += 1
                self._learn(candidate, trial)

    def _find_decisions(self, config: Mapping[str, object]) -> Decisions | None:
        """The decisions of a config of JSON's; None where this run has no such config."""
        decisions: Decisions = {}
        if {name: config.get(name) for name in self.plan.fixed} != _as_json(self.plan.fixed):
            return None
        for name, values in self.plan.choices.items():
            spelt = [json.dumps(value) for value in values]
            if name not in config or json.dumps(config[name]) not in spelt:
                return None
            decisions[name] = spelt.index(json.dumps(config[name]))
        return decisions

    def _make(self, decisions: Decisions) -> ScheduledConfig | None:
        """The candidate of some decisions; None where the recipe refuses, which is counted."""
        sch = make_decided(self.space, self.plan.workload, decisions)
        sch.enter_postproc()
        reason = carry_out(self.space, sch)
        if reason:
            if NO_REPLAY in reason:
                _refuse(self.plan.recipe, "it replaces blocks by its own, which no trace replays")
            if reason.startswith("failed: its trace"):
                self.found.count_out(reason)
            self.proposals.learn(decisions, float("inf"))
            return None
        _require_alone(self.plan.recipe, sch.trace)
        config = self.space.get_config(decisions)
        return ScheduledConfig(decisions, config, sch, f"{tvm_ffi.structural_hash(sch.mod):x}")

    def _collect(self, number: int) -> list[ScheduledConfig]:
        """The next candidates, each a program of its own."""
        batch: list[ScheduledConfig] = []
        refused = 0
        while len(batch) < number and refused < MOST_REFUSED:
            decisions = self.proposals.propose()
            if decisions is None:
                break
            candidate = self._make(decisions)
            if candidate is None:
                refused += 1
                self._report()
            elif candidate.program in self.programs:
                self.found.repeated += 1
            else:
                self.programs.add(candidate.program)
                batch.append(candidate)
        return batch

    def _measure(
        self, batch: Sequence[ScheduledConfig]
    ) -> Iterator[tuple[ScheduledConfig, tuple[float, ...], str]]:
        """The seconds of each candidate's runs, or why it is out, as they come."""
        target = self.plan.target
        built = self.builder.build([BuilderInput(it.sch.mod, target) for it in batch])
        for candidate, artifact in zip(batch, built, strict=True):
            reason = str(artifact.error_msg or "")
            seconds: tuple[float, ...] = ()
            if not reason:
                seconds, reason = self._time(candidate, str(artifact.artifact_path))
            yield candidate, seconds, " ".join(reason.split())

    def _time(self, candidate: ScheduledConfig, artifact: str) -> tuple[tuple[float, ...], str]:
        info = ArgInfo.from_entry_func(candidate.sch.mod, remove_preproc=True)
        kind = "cpu" if str(self.plan.target.kind.name) == "llvm" else str(self.plan.target.kind)
        (future,) = self.runner.run([RunnerInput(artifact, kind, info)])
        result = future.result()
        if result.error_msg is not None:
            return (), str(result.error_msg)
        return tuple(float(it) for it in result.run_secs), ""

    def _learn(self, candidate: ScheduledConfig, trial: TunedTrial) -> None:
        found = self.found
        found.tried += 1
        self.programs.add(candidate.program)
        if not any(candidate.decisions.values()):
            self.default = candidate
        seconds = statistics.median(trial.seconds) if trial.seconds else float("inf")
        self.proposals.learn(candidate.decisions, seconds)
        if trial.reason:
            found.count_out(trial.reason)
        else:
            self.right.append((seconds, candidate))
            self.right.sort(key=lambda pair: pair[0])

    def _report(self) -> None:
        found, refused = self.found, self.space.refused.total()
        best = f", the fastest {1e6 * self.right[0][0]:,.1f} us" if self.right else ""
        out = f", {found.out.total()} out" if found.out else ""
        self.tell(f"tried {found.tried} of {self.plan.trials}{out}, {refused} refused{best}")

    def _decide(self) -> None:
        """The fastest take turns once more, with the recipe's own config; medians decide."""
        finalists = [candidate for _, candidate in self.right[:FINALISTS]]
        own = self.default
        if own is not None and any(it is own for _, it in self.right[FINALISTS:]):
            finalists.append(own)
        if not finalists:
            return
        self.tell(f"timing {len(finalists)} finalists")
        timed = self._time_in_turns(finalists)
        if not timed:
            return
        self.found.best, self.found.seconds = min(timed, key=lambda it: statistics.median(it[1]))
        for candidate, seconds in timed:
            if candidate is own:
                self.found.default_seconds = seconds

    def _time_in_turns(
        self, finalists: Sequence[ScheduledConfig]
    ) -> list[tuple[ScheduledConfig, tuple[float, ...]]]:
        """The seconds of those that are right in every round, as races are not."""
        target = self.plan.target
        built = self.builder.build([BuilderInput(it.sch.mod, target) for it in finalists])
        times: list[tuple[float, ...]] = [() for _ in finalists]
        reasons = [str(artifact.error_msg or "") for artifact in built]
        for _ in range(FINAL_ROUNDS):
            for place, candidate in enumerate(finalists):
                if not reasons[place]:
                    path = str(built[place].artifact_path)
                    seconds, reasons[place] = self._time(candidate, path)
                    times[place] += seconds
        for reason in filter(None, reasons):
            self.found.count_out(reason)
        rows = zip(finalists, times, reasons, strict=True)
        return [(candidate, seconds) for candidate, seconds, reason in rows if not reason]


def _require_alone(recipe: Recipe, trace: Trace) -> None:
    """Refuse what a project without tirstep could not replay, before anything is timed."""
    tensorized = [item for item in trace.insts if str(item.kind.name) == "Tensorize"]
    if any(str(item.attrs[0]).startswith("tirstep_") for item in tensorized):
        _refuse(recipe, "it is made of tirstep's own instructions for tensor cores")


def _refuse(recipe: Recipe, reason: str) -> NoReturn:
    raise BenchError(
        f"{recipe.name} cannot be kept in a database that TVM applies alone: {reason}; search its "
        "configs with tirstep search"
    )


def _as_json(config: Mapping[str, object]) -> dict[str, object]:
    return dict(json.loads(json.dumps(dict(config))))
