"""The tuning of a recipe: which configs are tried, what came of each, and which wins.

Configs that the recipe refuses cost no trial. What compiles to the program of another config is
not tried again. The fastest are timed once more at the end, in turns with the recipe's own config.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import tvm
import tvm_ffi
from tvm.s_tir import Schedule

from tirstep.bench import BenchError
from tirstep.bench.results import summarize
from tirstep.bench.search import SearchResult
from tirstep.bench.session import Tell
from tirstep.bench.trials import Trials, TunedTrial
from tirstep.modules import AnyProblem
from tirstep.transforms.errors import TransformError
from tirstep.transforms.recipes import Recipe
from tirstep.transforms.recipes.forecast import make_forecast
from tirstep.transforms.recipes.gemm import GemmConfig
from tirstep.transforms.recipes.gpus import GPUS, H200
from tirstep.transforms.recipes.matmul_best import choose
from tirstep.transforms.rewriting import NO_REPLAY

from .candidates import CPU, CandidateBuilder, CandidateRunner
from .space import Choices, Config, Decisions, RecipeSpace, name_kind, unrank

FINALISTS, FINAL_ROUNDS = 4, 3
MOST_REFUSED = 2000
"""Configs refused in turn, after which no fitting one is looked for any more."""
RANDOM_FIRST, RANDOM_SHARE = 12, 0.3
"""Configs before neighbours of the fastest come in, and the part of the later ones at random."""
PARENTS = 5
"""The fastest, whose neighbours are tried."""
LISTED = 20_000
"""Configs at random at most."""
OWN = 5
"""Configs that a model of time would choose by itself."""
DRAWN, EXPECTED = 2048, 60
"""Configs of the space that the model looks at, and how many of these are tried first."""

NORMALIZE = tvm_ffi.get_global_func("tvm.s_tir.meta_schedule.normalize_mod")
"""MetaSchedule's own: what it does to a function before it looks it up."""


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


class Proposals:
    """Each config once: the recipe's own, those that are promising, some at random, and neighbours
    of the fastest.

    `sizes` are how many values each choice has, and `seed` makes it repeatable.
    """

    def __init__(
        self, sizes: dict[str, int], seed: int, promising: Sequence[Decisions] = ()
    ) -> None:
        own = dict.fromkeys(sizes, 0)
        self._sizes, self._rng = sizes, random.Random(seed)
        self._first = [own, *({name: each[name] for name in sizes} for each in promising)]
        self._seen: set[tuple[int, ...]] = set()
        self._ranked: list[tuple[float, Decisions]] = []
        self.total = math.prod(sizes.values())
        self._listed = self._rng.sample(range(self.total), min(self.total, LISTED))

    def learn(self, decisions: Decisions, seconds: float) -> None:
        """Take in what a config came to; infinite where it is out."""
        self._seen.add(tuple(decisions.values()))
        if math.isfinite(seconds):
            self._ranked.append((seconds, dict(decisions)))
            self._ranked.sort(key=lambda pair: pair[0])

    def propose(self) -> Decisions | None:
        """The next config; None where all were proposed."""
        found = None
        while self._first and found is None:
            found = self._check(self._first.pop(0))
        is_late = len(self._seen) > RANDOM_FIRST and self._ranked
        if found is None and is_late and self._rng.random() >= RANDOM_SHARE:
            found = self._find_neighbour()
        while self._listed and found is None:
            found = self._check(unrank(self._sizes, self._listed.pop()))
        if found is not None:
            self._seen.add(tuple(found.values()))
        return found

    def _check(self, decisions: Decisions) -> Decisions | None:
        """None for what was seen."""
        return None if tuple(decisions.values()) in self._seen else decisions

    def _find_neighbour(self) -> Decisions | None:
        """One of the fastest with another value for one of its choices, that is not seen yet."""
        parents = self._ranked[:PARENTS]
        new = [
            (weight, found)
            for weight, (_, parent) in zip(range(len(parents), 0, -1), parents, strict=True)
            for name, size in self._sizes.items()
            for value in range(size)
            if (found := self._check({**parent, name: value})) is not None
        ]
        return self._rng.choices(new, [weight for weight, _ in new])[0][1] if new else None


def list_promising(
    recipe: Recipe,
    problem: AnyProblem,
    fixed: Config,
    choices: Choices,
    *,
    device: str,
    seed: int = 0,
) -> list[Decisions]:
    """What to try first on a GPU, by its name: none for recipes without a model of time.

    First what the recipe with "best" in its name chooses there and what its model has next, as far
    as the space has them; then those of the space, or of some drawn from it, that the model takes
    for the fastest. A GPU that is in no table is taken for an H200.
    """
    forecast = make_forecast(recipe, problem, GPUS.get(device, H200))
    if forecast is None:
        return []
    known = forecast.list_best(OWN)
    rung = forecast.recipe
    if rung.kernel_name == "matmul" and rung.family.config is GemmConfig:
        # Searches know more of what "matmul_best" runs than the model does.
        with contextlib.suppress(TransformError):  # of a product that no tile is for
            best = choose(Schedule(problem.module), "matmul_best", forecast.gpu.name).config
            if isinstance(best, GemmConfig):  # few rows take no tiles
                known.insert(0, vars(best))
    space = RecipeSpace(recipe, fixed, choices)
    found = [space.find_decisions({**recipe.config, **it}) for it in known]
    total = math.prod(map(len, choices.values()))
    places = range(total) if total <= DRAWN else random.Random(seed).sample(range(total), DRAWN)
    drawn = [unrank({name: len(it) for name, it in choices.items()}, at) for at in places]
    found += sorted(drawn, key=lambda it: forecast.predict(space.get_config(it)))[:EXPECTED]
    return [it for at, it in enumerate(found) if it is not None and it not in found[:at]]


def tune(
    plan: TunePlan, builder: CandidateBuilder, runner: CandidateRunner, trials: Trials, tell: Tell
) -> TuneResult:
    """Try configs of a recipe, the promising ones first; each that is right is timed.

    That what has a time is right is the runner's to know. Raises `BenchError` where a trace replays
    with tirstep alone.
    """
    return _Tuner(plan, builder, runner, trials, tell).run()


class _Tuner:
    def __init__(
        self,
        plan: TunePlan,
        builder: CandidateBuilder,
        runner: CandidateRunner,
        trials: Trials,
        tell: Tell,
    ) -> None:
        self.plan, self.builder, self.runner = plan, builder, runner
        self.trials, self.tell = trials, tell
        self.space = RecipeSpace(plan.recipe, plan.fixed, plan.choices)
        sizes = {name: len(values) for name, values in plan.choices.items()}
        self.proposals = Proposals(sizes, plan.seed, plan.promising)
        self.found = TuneResult(total=self.proposals.total)
        self.right: list[tuple[float, ScheduledConfig]] = []
        self.programs: set[str] = set()
        self.default: ScheduledConfig | None = None

    def run(self) -> TuneResult:
        self._take_known()
        while self.found.tried < self.plan.trials:
            batch = self._collect(min(self.plan.batch, self.plan.trials - self.found.tried))
            if not batch:
                break
            for candidate, (path, reason) in zip(batch, self._build(batch), strict=True):
                seconds, reason = ((), reason) if reason else self._time(path)
                # As JSON has it, lists for pairs: what is known now is what will be read again.
                config, reason = json.loads(json.dumps(candidate.config)), " ".join(reason.split())
                kept = TunedTrial(config, candidate.program, seconds, reason)
                self.trials.add(kept)
                self._learn(candidate, kept)
                self._report()
        self.found.skipped.update(self.space.refused)
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
            decisions = self.space.find_decisions(trial.config)
            is_open = trial.reason and (is_own or trial.reason.startswith("took longer than"))
            if decisions is None or is_open:
                continue
            candidate = self._make(decisions)
            if candidate is None or candidate.program != trial.program:
                self.found.stale += 1
            elif candidate.program not in self.programs:
                self.found.kept += 1
                self._learn(candidate, trial)

    def _make(self, decisions: Decisions) -> ScheduledConfig | None:
        """The candidate of some decisions; None where the recipe refuses, which is counted."""
        sch, reason = self.space.schedule(self.plan.workload, decisions)
        if NO_REPLAY in reason:
            _refuse(self.plan.recipe, "it replaces blocks by its own, which no trace replays")
        if reason:
            if reason.startswith("failed: its trace"):
                self.found.skip(reason, name_kind)
            self.proposals.learn(decisions, math.inf)
            return None
        tensorized = [item for item in sch.trace.insts if str(item.kind.name) == "Tensorize"]
        if any(str(item.attrs[0]).startswith("tirstep_") for item in tensorized):
            _refuse(self.plan.recipe, "it is made of tirstep's own instructions for tensor cores")
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

    def _build(self, candidates: Sequence[ScheduledConfig]) -> list[tuple[str, str]]:
        return self.builder.build([it.sch.mod for it in candidates], self.plan.target)

    def _time(self, path: str) -> tuple[tuple[float, ...], str]:
        kind = str(self.plan.target.kind.name)
        return self.runner.run(path, "cpu" if kind == CPU else kind)

    def _learn(self, candidate: ScheduledConfig, trial: TunedTrial) -> None:
        self.found.tried += 1
        self.programs.add(candidate.program)
        if not any(candidate.decisions.values()):
            self.default = candidate
        seconds = statistics.median(trial.seconds) if trial.seconds else math.inf
        self.proposals.learn(candidate.decisions, seconds)
        if trial.reason:
            self.found.skip(trial.reason, name_kind)
        else:
            self.right.append((seconds, candidate))
            self.right.sort(key=lambda pair: pair[0])

    def _report(self) -> None:
        found, refused = self.found, self.space.refused.total()
        best = f", the fastest {1e6 * self.right[0][0]:,.1f} us" if self.right else ""
        out = f", {found.skipped.total()} out" if found.skipped else ""
        self.tell(f"tried {found.tried} of {self.plan.trials}{out}, {refused} refused{best}")

    def _decide(self) -> None:
        """The fastest take turns once more, with the recipe's own config; medians decide, of those
        that are right in every round, as races are not.
        """
        finalists = [candidate for _, candidate in self.right[:FINALISTS]]
        own = self.default
        if own is not None and any(it is own for _, it in self.right[FINALISTS:]):
            finalists.append(own)
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
                self.found.skip(reason, name_kind)
                continue
            found, time = self.found, summarize(seconds)
            if candidate is own:
                found.default = time
            if not found.times or statistics.median(seconds) < statistics.median(found.times):
                found.winner, found.times = candidate, seconds
                found.config, found.best = candidate.config, time


def _refuse(recipe: Recipe, reason: str) -> NoReturn:
    raise BenchError(
        f"{recipe.name} cannot be kept in a database that TVM applies alone: {reason}; search its "
        "configs with tirstep search"
    )
