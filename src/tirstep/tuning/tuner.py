"""The tuning of a recipe: which configs are tried, what came of each, and which wins.

Configs that the recipe refuses cost no trial. What compiles to the program of another config is
not tried again. The fastest are timed once more at the end, in turns with the recipe's own config.
"""

from __future__ import annotations

import itertools
import json
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import tvm
import tvm_ffi
from tvm.s_tir import Schedule

from tirstep.bench import BenchError
from tirstep.bench.results import summarize
from tirstep.bench.search import MOST, OWN, SearchPlan, SearchResult, Trials, spell_config
from tirstep.bench.session import Tell
from tirstep.bench.workers import Trial
from tirstep.programs.naming import describe_error
from tirstep.transforms.recipes import Recipe
from tirstep.transforms.recipes.matmul_best import make_forecast
from tirstep.transforms.recipes.time_model import GPUS, H200
from tirstep.transforms.rewriting import NO_REPLAY
from tirstep.transforms.schedule import TransformError

from .candidates import CPU, Candidates

Config = dict[str, object]

FINALISTS, FINAL_ROUNDS = 4, 3
MOST_REFUSED = 2000
"""Configs refused in turn, after which no fitting one is looked for any more."""
RANDOM_FIRST, RANDOM_SHARE = 12, 0.3
"""Configs before neighbours of the fastest come in, and the part of the later ones at random."""
PARENTS = 5
"""The fastest, whose neighbours are tried."""
EXPECTED = 64
"""Configs that a model of time has tried first."""

NORMALIZE = tvm_ffi.get_global_func("tvm.s_tir.meta_schedule.normalize_mod")
"""MetaSchedule's own: what it does to a function before it looks it up."""


@dataclass(frozen=True, kw_only=True)
class TunePlan(SearchPlan):
    """What is tuned: `fixed` and `among` have all knobs between them; see `make_plan`.

    Attributes
    ----------
    target : TVM's, for which candidates are compiled
    trials : how many configs are built and timed in all, those of earlier runs included
    seed : of the order in which configs come
    batch : candidates that are compiled before they are timed
    promising : configs that are tried first, after the recipe's own
    """

    target: Any
    trials: int
    seed: int = 0
    batch: int = 8
    promising: Sequence[Config] = ()

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

    def find_config(self, config: Mapping[str, object]) -> Config | None:
        """The config of this space that equals one, also one of JSON's; None where none does."""
        own = {**self.recipe.config, **self.fixed}
        space = {**{name: (value,) for name, value in own.items()}, **self.among}
        found: Config = {}
        for name, value in {**own, **config}.items():
            equal = [it for it in space.get(name, ()) if json.dumps(it) == json.dumps(value)]
            if not equal:
                return None
            found[name] = equal[0]
        return {name: found[name] for name in (*self.among, *self.fixed)}


def make_plan(
    search: SearchPlan, target: Any, *, trials: int, seed: int = 0, batch: int = 8, device: str = ""
) -> TunePlan:
    """What is tuned of what `tirstep search` would search, a recipe's own value of each choice
    coming first; knobs that are no choice are as in the recipe's example.

    On a GPU, by its `device` name, first come what a model of time would choose there itself, as
    far as the space has it, and those of the space that it takes for the fastest; a GPU that is in
    no table is taken for an H200. Raises `TransformError` for a recipe without a choice left.
    """
    recipe, example = search.recipe, search.recipe.default_example.config
    own = {**recipe.config, **example}
    declared = {it: tuple(dict.fromkeys((own[it], *rest))) for it, rest in recipe.choices.items()}
    among = {it: v for it, v in {**declared, **search.among}.items() if it not in search.fixed}
    if not among:
        raise TransformError(
            "tune",
            f"{recipe.name} has no knob left to choose, so there is nothing to tune",
            "give a knob several values, or the recipe choices={...}",
        )
    fixed = {**{name: it for name, it in example.items() if name not in among}, **search.fixed}
    plan = TunePlan(
        recipe, search.problem, fixed, among, target=target, trials=trials, seed=seed, batch=batch
    )
    forecast = make_forecast(recipe, plan.problem, GPUS.get(device, H200)) if device else None
    if forecast is None:
        return plan
    known = [*forecast.list_best(OWN), *replace(plan, forecast=forecast).list_candidates(seed)]
    found = itertools.islice(filter(None, map(plan.find_config, known)), EXPECTED + OWN + 1)
    promising = [*{spell_config(it): it for it in found}.values()][:EXPECTED]
    return replace(plan, promising=promising)


def schedule(
    recipe: Recipe, workload: tvm.IRModule, config: Mapping[str, object]
) -> tuple[Schedule, str]:
    """A schedule on which TVM alone has replayed what the recipe does, or why there is none.

    A reason begins with its kind, ``refused:`` or ``failed:``.
    """
    sch = Schedule(workload)
    try:
        trace = recipe.steps(workload, **config)[-1].trace
    except TransformError as error:
        return sch, f"refused: {error}"
    except Exception as error:  # of a user's own recipe
        return sch, f"failed: {describe_error(error)}"
    try:
        trace.apply_to_schedule(sch, remove_postproc=False)
    except Exception as error:  # TVM's are of many kinds
        return sch, f"failed: its trace does not replay: {describe_error(error)}"
    return sch, ""


@dataclass(frozen=True)
class ScheduledConfig:
    """A config, and the program that the recipe makes of the workload with it."""

    config: Config
    sch: Schedule
    program: str


@dataclass
class TuneResult(SearchResult):
    """What came of it.

    Attributes
    ----------
    total : how many configs there are
    winner : the best, as the recipe schedules it; None where nothing was right
    times : its seconds, in the last rounds; the recipe's own config took turns with it there
    kept : how many of those that were tried an earlier run had tried
    stale : trials of an earlier run that were of another program
    repeated : configs whose program another config has
    """

    total: int = 0
    winner: ScheduledConfig | None = None
    times: tuple[float, ...] = ()
    kept: int = 0
    stale: int = 0
    repeated: int = 0


@dataclass
class Tuner:
    """Tries configs of a recipe, each once: its own and the promising ones first, then some at
    random, and neighbours of the fastest, which have another one of a knob's choices. Each that is
    right is timed; the plan's seed makes the order repeatable.

    That what has a time is right is the candidates' to know.
    """

    plan: TunePlan
    candidates: Candidates
    trials: Trials
    tell: Tell

    def __post_init__(self) -> None:
        plan = self.plan
        self.own, *self._others = plan.list_configs(MOST, plan.seed)
        random.Random(plan.seed).shuffle(self._others)
        self._first, self._rng = [self.own, *plan.promising], random.Random(plan.seed)
        self._seen: set[str] = set()
        self.found = TuneResult(total=plan.count_configs())
        self.right: list[tuple[float, ScheduledConfig]] = []
        self.programs: set[str] = set()

    def run(self) -> TuneResult:
        """What came of it; raises `BenchError` where a trace replays with tirstep alone."""
        found, plan = self.found, self.plan
        self._take_known()
        while found.tried < plan.trials:
            batch = self._collect(min(plan.batch, plan.trials - found.tried))
            if not batch:
                break
            for candidate, (path, reason) in zip(batch, self._build(batch), strict=True):
                seconds, reason = ((), reason) if reason else self._time(path)
                # As JSON has it, lists for pairs: what is known now is what will be read again.
                config, reason = json.loads(json.dumps(candidate.config)), " ".join(reason.split())
                kept = Trial(config, seconds, reason, candidate.program)
                self.trials.add(kept)
                self._learn(candidate, kept)
                self._report()
        self._decide()
        return found

    def _take_known(self) -> None:
        """What earlier runs have tried, as long as it is the same program still.

        What was out of a user's own recipe is tried again: its reference may have been wrong. So is
        what took too long: the machine may have been busy, or the limit another one.
        """
        if self.trials.known:
            self.tell(f"reading {len(self.trials.known)} trials of an earlier run")
        is_own = bool(self.plan.recipe.spelling)
        for trial in self.trials.known:
            config = self.plan.find_config(trial.config)
            is_open = trial.reason and (is_own or trial.reason.startswith("took longer than"))
            if config is None or is_open:
                continue
            candidate = self._make(config)
            if candidate is None or candidate.program != trial.program:
                self.found.stale += 1
            elif candidate.program not in self.programs:
                self.found.kept += 1
                self._learn(candidate, trial)

    def _make(self, config: Config) -> ScheduledConfig | None:
        """The candidate of a config; None where the recipe refuses, which is counted."""
        sch, reason = schedule(self.plan.recipe, self.plan.workload, config)
        if NO_REPLAY in reason:
            _refuse(self.plan.recipe, "it replaces blocks by its own, which no trace replays")
        if reason:
            self.found.skip(reason)
            self._seen.add(spell_config(config))
            return None
        tensorized = [item for item in sch.trace.insts if str(item.kind.name) == "Tensorize"]
        if any(str(item.attrs[0]).startswith("tirstep_") for item in tensorized):
            _refuse(self.plan.recipe, "it uses tirstep's own tensor intrinsics")
        return ScheduledConfig(config, sch, f"{tvm_ffi.structural_hash(sch.mod):x}")

    def _collect(self, number: int) -> list[ScheduledConfig]:
        """The next candidates, each a program of its own."""
        batch: list[ScheduledConfig] = []
        refused = 0
        while len(batch) < number and refused < MOST_REFUSED:
            config = self.propose()
            if config is None:
                break
            candidate = self._make(config)
            if candidate is None:
                refused += 1
                self._report()
            elif candidate.program in self.programs:
                self.found.repeated += 1
            else:
                self.programs.add(candidate.program)
                batch.append(candidate)
        return batch

    def propose(self) -> Config | None:
        """The next config; None where all were proposed."""
        self._first = [config for config in self._first if self._is_new(config)]
        found = [(1, config) for config in self._first[:1]]
        is_late = len(self._seen) > RANDOM_FIRST and self.right
        if not found and is_late and self._rng.random() >= RANDOM_SHARE:
            parents = self.right[:PARENTS]
            found = [
                (weight, config)
                for weight, (_, parent) in zip(range(len(parents), 0, -1), parents, strict=True)
                for name, values in self.plan.among.items()
                for value in values
                if self._is_new(config := {**parent.config, name: value})
            ]
        while self._others and not found:
            found = [(1, config) for config in [self._others.pop()] if self._is_new(config)]
        if not found:
            return None
        config = self._rng.choices(found, [weight for weight, _ in found])[0][1]
        self._seen.add(spell_config(config))
        return config

    def _is_new(self, config: Config) -> bool:
        return spell_config(config) not in self._seen

    def _build(self, candidates: Sequence[ScheduledConfig]) -> list[tuple[str, str]]:
        return self.candidates.build([it.sch.mod for it in candidates], self.plan.target)

    def _time(self, path: str) -> tuple[tuple[float, ...], str]:
        kind = str(self.plan.target.kind.name)
        return self.candidates.run(path, "cpu" if kind == CPU else kind)

    def _learn(self, candidate: ScheduledConfig, trial: Trial) -> None:
        self.found.tried += 1
        self.programs.add(candidate.program)
        self._seen.add(spell_config(candidate.config))
        if trial.reason:
            self.found.skip(trial.reason)
        else:
            self.right.append((statistics.median(trial.seconds), candidate))
            self.right.sort(key=lambda pair: pair[0])

    def _report(self) -> None:
        best = f", the fastest {1e6 * self.right[0][0]:,.1f} us" if self.right else ""
        out = f", {self.found.skipped.total()} out" if self.found.skipped else ""
        self.tell(f"tried {self.found.tried} of {self.plan.trials}{out}{best}")

    def _decide(self) -> None:
        """The fastest take turns once more, with the recipe's own config; medians decide, of those
        that are right in every round, as races are not.
        """
        ranked = [candidate for _, candidate in self.right]
        finalists = ranked[:FINALISTS] + [it for it in ranked[FINALISTS:] if it.config == self.own]
        if not finalists:
            return
        self.tell(f"timing {len(finalists)} finalists")
        built = self._build(finalists)
        times: list[tuple[float, ...]] = [() for _ in finalists]
        reasons = [reason for _, reason in built]
        for _, (place, (path, _)) in itertools.product(range(FINAL_ROUNDS), enumerate(built)):
            if not reasons[place]:
                seconds, reasons[place] = self._time(path)
                times[place] += seconds
        for candidate, seconds, reason in zip(finalists, times, reasons, strict=True):
            if reason:
                self.found.skip(reason)
                continue
            found, time = self.found, summarize(seconds)
            if candidate.config == self.own:
                found.default = time
            if not found.times or statistics.median(seconds) < statistics.median(found.times):
                found.winner, found.times = candidate, seconds
                found.config, found.best = candidate.config, time


def _refuse(recipe: Recipe, reason: str) -> NoReturn:
    raise BenchError(
        f"{recipe.name} cannot be kept in a database that TVM applies without tirstep: "
        f"{reason}; search its knobs with tirstep search"
    )
