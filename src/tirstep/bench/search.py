"""The search for a recipe's fastest config: every candidate is exact before it may win."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tirstep.lowering_checks.devices.device import blank
from tirstep.modules import Problem
from tirstep.transforms.recipes import Recipe
from tirstep.transforms.recipes.forecast import Forecast

from . import BenchError, PeerMissing
from .accuracy import Reference
from .compile_pool import CompileJob, compile_all, installed, name_library
from .machine import Launch, Machine, Replay, find_first_error, require_alive
from .peers import PEERS, Peer
from .results import Time, summarize
from .run_case import Settings, Tell, describe_shortage, prepare_recipe

Sizes = dict[str, object]

AT_RANDOM = 4
"""One candidate of so many is drawn where a limit leaves others out: the model may be wrong."""
OWN = 8
"""Configs of the model's own that are candidates, whether the recipe's choices have them or not."""
DECILES = 10
"""A tenth of the candidates beat their corrected forecast by more than is hoped for."""


class SearchOrder:
    """The candidates of a search that are left; with a forecast, the most promising come first.

    The first candidate stays first: it is the config that the recipe has by itself.
    """

    def __init__(self, candidates: Sequence[Sizes], forecast: Forecast | None = None) -> None:
        self._forecast = forecast
        self._left = list(candidates)
        self._expected: dict[int, tuple[float, object]] = {}
        self._ratios: dict[object, list[float]] = defaultdict(list)
        self._factors: dict[object, float] = {}
        self._factor = 1.0
        if forecast is not None:
            self._expected = {
                id(config): (forecast.predict(config), forecast.get_tile(config))
                for config in self._left
            }
            self._left[1:] = sorted(self._left[1:], key=self._correct)

    @property
    def left(self) -> int:
        """How many candidates were not taken yet."""
        return len(self._left)

    def take(self, count: int) -> list[Sizes]:
        """The next candidates, so many at most."""
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def learn(self, times: Sequence[tuple[Sizes, float]]) -> None:
        """Correct the forecast by what configs were measured to take, in microseconds."""
        if self._forecast is None:
            return
        for config, us in times:
            expected = self._forecast.predict(config)
            if expected != float("inf"):
                self._ratios[self._forecast.get_tile(config)].append(us / expected)
        if self._ratios:
            self._factors = {tile: statistics.median(it) for tile, it in self._ratios.items()}
            self._factor = statistics.median(itertools.chain(*self._ratios.values()))
        self._left.sort(key=self._correct)

    def expect_gain(self, best_us: float) -> float | None:
        """By which part the best of those that are left may at best be faster than `best_us`.

        0.03 for three percent, 0 for none. None without a forecast, or with nothing learnt.
        """
        if self._forecast is None or not self._ratios:
            return None
        if not self._left:
            return 0.0
        spread = [
            ratio / self._factors[tile] for tile, each in self._ratios.items() for ratio in each
        ]
        deciles = statistics.quantiles(spread, n=DECILES, method="inclusive") if spread[1:] else []
        luck = min([1.0, *deciles[:1]])
        hoped = self._correct(self._left[0]) * luck
        return max(0.0, best_us / hoped - 1.0)

    def _correct(self, config: Sizes) -> float:
        """What a candidate should take, by what was measured."""
        expected, tile = self._expected[id(config)]
        return expected * self._factors.get(tile, self._factor)


def choose_promising(
    candidates: Sequence[Sizes], forecast: Forecast, limit: int, seed: int
) -> list[Sizes]:
    """So many candidates: the first one, the most promising, and one of `AT_RANDOM` drawn."""
    first, rest = candidates[0], sorted(candidates[1:], key=forecast.predict)
    drawn = min((limit - 1) // AT_RANDOM, max(0, len(rest) - (limit - 1)))
    promising, others = rest[: limit - 1 - drawn], rest[limit - 1 - drawn :]
    return [first, *promising, *random.Random(seed).sample(others, drawn)]


def list_own(
    forecast: Forecast, fixed: Mapping[str, object], among: Mapping[str, Sequence[Any]]
) -> list[Sizes]:
    """The model's own configs that have all `fixed` knobs, and values of others that are searched
    among some alone.
    """
    return [
        config
        for config in forecast.list_best(OWN)
        if all(config[name] == value for name, value in fixed.items())
        and all(config[name] in values for name, values in among.items())
    ]


NONE: Mapping[str, tuple[object, ...]] = MappingProxyType({})

Among = Mapping[str, tuple[object, ...]]
"""Values to choose from, by size: in place of those that a recipe declares."""


def count_configs(recipe: Recipe, fixed: Sizes, among: Among = NONE) -> int:
    """How many combinations of choices a recipe has beside its `fixed` knobs."""
    choices = {**recipe.choices, **among}
    return math.prod(len(values) for name, values in choices.items() if name not in fixed)


def get_choices(recipe: Recipe, among: Among) -> Among:
    """The values of each size to search; raises `BenchError` for a recipe without any."""
    choices = {**recipe.choices, **among}
    if not choices:
        raise BenchError(f"{recipe.name} declares no choices, so there is nothing to search")
    return choices


def list_configs(
    recipe: Recipe, fixed: Sizes, among: Among = NONE, *, limit: int | None, seed: int
) -> list[Sizes]:
    """All combinations of a recipe's choices, or `limit` of them at random; each once.

    `fixed` knobs are the same in all of them, and those in `among` have these values in place of
    the recipe's. The config that the recipe has by itself comes first, whether they are among its
    choices or not: what is found is never slower than they. Where `among` has not its own value,
    the first one there is taken. Raises `BenchError` for a recipe without choices.
    """
    choices = get_choices(recipe, among)
    names = [name for name in choices if name not in fixed]
    values = [choices[name] for name in names]
    total = count_configs(recipe, fixed, among)
    own = {name: recipe.default_example.config.get(name, recipe.config[name]) for name in names}
    own |= {
        name: values[0] for name, values in among.items() if name in own and own[name] not in values
    }
    if limit is None or limit >= total:
        picked = [
            dict(zip(names, combination, strict=True)) for combination in itertools.product(*values)
        ]
    else:
        places = random.Random(seed).sample(range(total), limit)
        picked = [_unrank(place, names, values) for place in places]
    return _unique([{**config, **fixed} for config in (own, *picked)])


def _unrank(place: int, names: list[str], values: list[tuple[object, ...]]) -> Sizes:
    """The combination at a place of the product, the last size running fastest."""
    config: Sizes = {}
    for name, choices in reversed([*zip(names, values, strict=True)]):
        place, rest = divmod(place, len(choices))
        config[name] = choices[rest]
    return {name: config[name] for name in names}


def _unique(configs: list[Sizes]) -> list[Sizes]:
    return [*{tuple(config.items()): config for config in configs}.values()]


SCREENING_ROUNDS = 5
FINALISTS = 8
BATCH = 32
"""Candidates that take turns at the clock together."""
ROUND = 4 * BATCH
"""Candidates that are compiled before the forecast is corrected."""
MOST = 20000
"""Candidates of which a forecast chooses; of more, so many at random."""
HOPELESS = 3.0
"""Times slower than the fastest of a batch: not worth a second look."""


@dataclass(frozen=True)
class SearchPlan:
    """What is searched.

    Attributes
    ----------
    fixed : sizes that all candidates have
    among : values to choose from, in place of the recipe's choices
    limit : None for all candidates
    compile_limit : seconds that a candidate may take to compile
    peer : what the winner is compared with
    forecast : what a model of time expects of each; None where there is no model
    least_gain : the part that the others must promise for the search to go on, 0.02 for 2 %
    """

    recipe: Recipe
    problem: Problem
    fixed: Sizes = field(default_factory=dict)
    among: Among = field(default_factory=dict)
    limit: int | None = None
    compile_limit: float = 60.0
    peer: Peer = PEERS["torch"]
    forecast: Forecast | None = None
    least_gain: float | None = None


@dataclass
class SearchResult:
    """What a search found.

    Attributes
    ----------
    best : None where no candidate ran and was exact
    skipped : how many candidates are out, by reason
    samples : the first whole sentence of each of these reasons, where there is one
    tried : how many there were
    left : how many were left out, since they promised too little
    gain : what these promised at best, as a part; None without a forecast
    expected_us : what the model of time expected of the best, before it was corrected
    """

    config: Sizes | None = None
    best: Time | None = None
    peer: Time | None = None
    default: Time | None = None
    tried: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    samples: dict[str, str] = field(default_factory=dict)
    left: int = 0
    gain: float | None = None
    expected_us: float | None = None

    def skip(self, reason: str) -> None:
        """Count a candidate that is out, by the kind of its reason."""
        kind = classify(reason)
        self.skipped[kind] += 1
        self.samples.setdefault(kind, reason.partition(": ")[2] or reason)

    @property
    def ratio(self) -> float | None:
        """How often faster than the peer: above 1 is faster."""
        if self.best is None or self.peer is None:
            return None
        return self.peer.median_us / self.best.median_us


def search(
    plan: SearchPlan, machine: Machine, settings: Settings, *, cache: Path, tell: Tell
) -> SearchResult:
    """Compile, check and time candidates; the best of them take turns once more with the peer.

    A candidate is checked on whole numbers, for which every order of summation gives the same
    bits, and nothing is tolerated; for a kernel that is no sum of products, within its own bound.
    Raises `BenchError` where the device has too little memory, or a candidate leaves it unusable.
    """
    candidates = _list_candidates(plan, settings.seed)
    found = SearchResult()
    if shortage := describe_shortage(plan.problem, machine):
        raise BenchError(f"{plan.problem} {shortage}; search at a smaller shape")
    order = SearchOrder(candidates, plan.forecast)
    runner = _ConfigRunner(plan, machine, settings, found, tell, candidates[0])
    with installed(cache):
        while round_ := order.take(ROUND if plan.forecast else len(candidates)):
            jobs = [_make_job(plan, sizes, name_library()) for sizes in round_]
            order.learn(runner.screen(_compile(plan, machine, cache, jobs, found, tell)))
            found.tried += len(round_)
            if _is_enough(plan, order, runner, found):
                break
        runner.decide()
    if plan.forecast is not None and found.config is not None:
        found.expected_us = plan.forecast.predict(found.config)
    return found


def _list_candidates(plan: SearchPlan, seed: int) -> list[Sizes]:
    """The candidates of a plan; with a forecast and a limit, the most promising of them."""
    if plan.forecast is None:
        return list_configs(plan.recipe, plan.fixed, plan.among, limit=plan.limit, seed=seed)
    every = list_configs(plan.recipe, plan.fixed, plan.among, limit=MOST, seed=seed)
    own = list_own(plan.forecast, plan.fixed, plan.among)
    every = _unique([*every, *own])
    if plan.limit is None or plan.limit >= len(every):
        return every
    return choose_promising(every, plan.forecast, plan.limit, seed)


def _is_enough(
    plan: SearchPlan, order: SearchOrder, runner: _ConfigRunner, found: SearchResult
) -> bool:
    """Say what is to be gained from going on; whether that is less than what is asked for."""
    if runner.best_us is None:
        return False
    found.left, found.gain = order.left, order.expect_gain(runner.best_us)
    if found.gain is None:
        return False
    runner.tell(
        f"best {runner.best_us:.1f} us; the model expects {found.gain:.1%} at most from the "
        f"{found.left} candidates that are left"
    )
    return plan.least_gain is not None and found.gain < plan.least_gain


def _make_job(plan: SearchPlan, sizes: Sizes, library: Path) -> CompileJob:
    shape, options = dict(plan.problem.shape), dict(plan.problem.options)
    return CompileJob(plan.recipe.spelling or plan.recipe.name, shape, options, sizes, str(library))


def _compile(
    plan: SearchPlan,
    machine: Machine,
    cache: Path,
    jobs: Sequence[CompileJob],
    found: SearchResult,
    tell: Tell,
) -> list[CompileJob]:
    """The candidates that compile; the others are counted."""

    def report(done: int, reason: str) -> None:
        tell(f"compiled {done} of {len(jobs)} candidates")

    reasons = compile_all(jobs, machine.target, cache, limit=plan.compile_limit, report=report)
    for reason in filter(None, reasons):
        found.skip(reason)
    return [job for job, reason in zip(jobs, reasons, strict=True) if not reason]


def classify(reason: str) -> str:
    """The kind of a reason: sentences with other numbers in them count as one kind."""
    head, colon, rest = reason.partition(": ")
    if head == "refused":
        return f"refused by {rest.partition(':')[0]}"
    return f"{head}: {rest.partition(':')[0]}" if colon else reason


@dataclass(frozen=True)
class _CheckedConfig:
    """Sizes whose result is exact, and how they are run."""

    config: Sizes
    replay: Replay


@dataclass
class _ConfigRunner:
    """Checks and times what compiled.

    Attributes
    ----------
    default : the config that the recipe has by itself
    best : the fastest candidates so far, and the default, with rough times
    """

    plan: SearchPlan
    machine: Machine
    settings: Settings
    found: SearchResult
    tell: Tell
    default: Sizes
    best: list[tuple[float, _CheckedConfig]] = field(default_factory=list)

    def __post_init__(self) -> None:
        problem, machine = self.plan.problem, self.machine
        inputs = problem.integer_inputs(self.settings.seed)
        outputs = [machine.upload(blank(output)) for output in problem.outputs]
        self.arguments = problem.make_arguments(list(map(machine.upload, inputs)), outputs)
        self.expectations = machine.expect(Reference(problem, inputs, problem.is_exact))

    @property
    def best_us(self) -> float | None:
        """The rough time of the fastest candidate so far."""
        return self.best[0][0] if self.best else None

    def screen(self, compiled: Sequence[CompileJob]) -> list[tuple[Sizes, float]]:
        """Check and time candidates in batches; the rough times of the right ones, in us."""
        times: list[tuple[Sizes, float]] = []
        for begin in range(0, len(compiled), BATCH):
            self.tell(f"checked and timed {begin} of {len(compiled)} candidates")
            batch = compiled[begin : begin + BATCH]
            admitted = [self._admit(job) for job in batch]
            timed = self._screen([candidate for candidate in admitted if candidate is not None])
            times += [(candidate.config, us) for us, candidate in timed]
            self.best = sorted([*self.best, *timed], key=lambda pair: pair[0])
            slower = self.best[FINALISTS:]
            own = [pair for pair in slower if pair[1].config == self.default]
            self.best = self.best[:FINALISTS] + own
        return times

    def _admit(self, job: CompileJob) -> _CheckedConfig | None:
        """A candidate if its result is exact; otherwise it is counted."""
        machine, skipped = self.machine, self.found.skipped
        outputs = self.plan.problem.take_outputs(self.arguments)
        sizes = dict(job.config)
        try:
            replay = machine.record(self._prepare(job), outputs)
            for tensor in outputs:
                machine.poison(tensor)
            replay.run()
            error = find_first_error(machine, self.expectations, outputs)
        except Exception as error_:  # whatever TVM and CUDA raise: the others still run
            skipped[f"does not run: {type(error_).__name__}"] += 1
            spelt = " ".join(f"--set {name}={value}" for name, value in sizes.items())
            require_alive(machine, f"{self.plan.recipe.name} with {spelt}", error_)
            return None
        if error is not None:
            skipped["wrong"] += 1
            return None
        return _CheckedConfig(sizes, replay)

    def _prepare(self, job: CompileJob) -> Launch:
        """What the other process compiled, or the same again where it left no file."""
        library = Path(job.library)
        if library.exists():
            return self.machine.load(library, self.arguments)
        prepare = prepare_recipe(self.plan.recipe, dict(job.config))
        return prepare(self.machine, self.plan.problem, self.arguments)

    def _screen(self, candidates: Sequence[_CheckedConfig]) -> list[tuple[float, _CheckedConfig]]:
        """Rough times; what is far slower than the fastest is not run again."""
        replays = [candidate.replay for candidate in candidates]
        first = [seconds[0] for seconds in self.machine.time(replays, [1] * len(replays))]
        repeats = [SCREENING_ROUNDS if seconds < HOPELESS * min(first) else 1 for seconds in first]
        times = self.machine.time(replays, repeats)
        medians = [summarize(seconds).median_us for seconds in times]
        return list(zip(medians, candidates, strict=True))

    def decide(self) -> None:
        """The fastest wins, on random floats: small whole numbers make a GPU a little faster."""
        finalists, arguments = [candidate for _, candidate in self.best], self.arguments
        if not finalists:
            return
        self.tell(f"timing {len(finalists)} finalists")
        machine, found, rounds = self.machine, self.found, self.settings.rounds
        drawn = self.plan.problem.float_inputs(self.settings.seed)
        for tensor, array in zip(self.plan.problem.take_inputs(arguments), drawn, strict=True):
            tensor[...] = machine.upload(array)
        peer = self._find_peer()
        replays = [candidate.replay for candidate in finalists] + ([] if peer is None else [peer])
        times = [summarize(seconds) for seconds in machine.time(replays, [rounds] * len(replays))]
        found.peer = None if peer is None else times.pop()
        for candidate, time in zip(finalists, times, strict=True):
            if candidate.config == self.default:
                found.default = time
            if found.best is None or time.median_us < found.best.median_us:
                found.best, found.config = time, candidate.config

    def _find_peer(self) -> Replay | None:
        plan, arguments = self.plan, self.arguments
        try:
            launch = self.machine.prepare_peer(plan.peer, plan.problem, arguments)
        except PeerMissing:
            return None
        return self.machine.record(launch, plan.problem.take_outputs(arguments))
