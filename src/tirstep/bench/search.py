"""The search for a recipe's fastest config: every candidate is exact before it may win."""

from __future__ import annotations

import itertools
import math
import random
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tirstep.modules import Problem
from tirstep.processes import count_cores
from tirstep.transforms.recipes import Recipe
from tirstep.transforms.recipes.forecast import Forecast

from . import BenchError
from .peers import PEERS, Peer
from .results import Time
from .session import Settings, Tell
from .workers import BATCH, LocalWorkers, Screened, Sizes, Workers

if TYPE_CHECKING:
    from .torch_machine import TorchMachine as Machine
    from .trials import Kept

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
    choices = {name: it for name, it in get_choices(recipe, among).items() if name not in fixed}
    own = {name: recipe.default_example.config.get(name, recipe.config[name]) for name in choices}
    own |= {name: it[0] for name, it in among.items() if name in own and own[name] not in it}
    total, configs = count_configs(recipe, fixed, among), [own]
    places: Sequence[int] = range(total)
    if limit is not None and limit < total:
        places = random.Random(seed).sample(places, limit)
    for place in places:
        config: Sizes = {}
        for name, values in reversed(choices.items()):  # the last one runs fastest
            place, rest = divmod(place, len(values))
            config[name] = values[rest]
        configs.append({name: config[name] for name in choices})
    return _unique([{**config, **fixed} for config in configs])


def _unique(configs: list[Sizes]) -> list[Sizes]:
    return [*{tuple(config.items()): config for config in configs}.values()]


FINALISTS = 8
WRONG_AT_THE_END = "wrong when the finalists were timed"
ROUND = 4 * BATCH
"""Candidates between two corrections of the forecast; more where many workers run."""
MOST = 20000
"""Candidates of which a forecast chooses; of more, so many at random."""


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
    peer_error : why a peer of the user's has no time
    left : how many were left out, since they promised too little
    gain : what these promised at best, as a part; None without a forecast
    expected_us : what the model of time expected of the best, before it was corrected
    seconds : what it took, by ``candidates`` and ``finalists``
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
    peer_error: str = ""
    seconds: dict[str, float] = field(default_factory=dict, compare=False)

    def skip(self, reason: str, name: Callable[[str], str] | None = None) -> None:
        """Count a candidate that is out, by the kind of its reason, which `name` says."""
        kind = (name or classify)(reason)
        self.skipped[kind] += 1
        self.samples.setdefault(kind, reason.partition(": ")[2] or reason)

    @property
    def ratio(self) -> float | None:
        """How often faster than the peer: above 1 is faster."""
        if self.best is None or self.peer is None:
            return None
        return self.peer.median_us / self.best.median_us


def search(
    plan: SearchPlan,
    machine: Machine,
    settings: Settings,
    *,
    tell: Tell,
    kept: Kept | None = None,
) -> SearchResult:
    """The same as `search_with` on this process's machine.

    Raises `BenchError` where the device has too little memory, or a candidate leaves it unusable.
    """
    total = count_configs(plan.recipe, plan.fixed, plan.among)
    processes = min(count_cores() - 1, total if plan.limit is None else plan.limit)
    workers = LocalWorkers(plan, machine, settings, tell, processes)
    try:
        return search_with(workers, plan, settings.seed, tell, kept)
    finally:
        workers.stop()


def search_with(
    workers: Workers,
    plan: SearchPlan,
    seed: int,
    tell: Tell,
    kept: Kept | None = None,
) -> SearchResult:
    """Compile, check and time candidates; the best of them take turns once more with the peer.

    A candidate is checked on whole numbers, for which every order of summation gives the same
    bits, and nothing is tolerated; for a kernel that is no sum of products, within its own bound.
    With a forecast they come in rounds, the most promising first; what a round is chosen by does
    not depend on who was fast, so a search that goes on from what was kept chooses the same.
    What `kept` knows is not run again, and it gets every other candidate as it comes.
    """
    began, found, candidates = time.monotonic(), SearchResult(), _list_candidates(plan, seed)
    default, order = candidates[0], SearchOrder(candidates, plan.forecast)
    best: list[tuple[Sizes, float]] = []  # the finalists so far, the fastest first, and the default
    size, is_enough = max(ROUND, workers.width) if plan.forecast else len(candidates), False
    while not is_enough and (configs := order.take(size)):
        part, new, times = list[Screened](), list[Sizes](), list[tuple[Sizes, float]]()
        for config in configs:
            before = None if kept is None else kept.find(config)
            if before is None:
                new.append(config)
            else:
                part.append(before)
        if new:
            workers.submit(new)
        left = len(new)
        while part or left:
            for one in part:
                if one.us is None:
                    found.skip(one.reason)
            timed = [(one.config, one.us) for one in part if one.us is not None]
            times += timed
            ranked = sorted([*best, *timed], key=lambda pair: pair[1])
            best = ranked[:FINALISTS] + [it for it in ranked[FINALISTS:] if it[0] == default]
            workers.keep([config for config, _ in best])
            found.tried += len(part)
            tell(f"compiled, checked and timed {found.tried} of {len(candidates)} candidates")
            part = [*workers.collect()] if left else []
            left -= len(part)
            if kept is not None:
                for one in part:
                    kept.add(one)
        order.learn(times)
        is_enough = bool(best) and _is_enough(plan, order, best[0][1], found, tell)
    found.seconds["candidates"] = time.monotonic() - began
    if best:
        _decide(workers, [config for config, _ in best], default, found, tell)
    found.seconds["finalists"] = time.monotonic() - began - found.seconds["candidates"]
    if plan.forecast is not None and found.config is not None:
        found.expected_us = plan.forecast.predict(found.config)
    return found


def _decide(
    workers: Workers, finalists: Sequence[Sizes], default: Sizes, found: SearchResult, tell: Tell
) -> None:
    """The fastest wins; a finalist that is not right any more is out."""
    tell(f"timing {len(finalists)} finalists")
    contest = workers.decide(finalists)
    found.peer, found.peer_error = contest.peer, contest.peer_error
    for config, timed in zip(finalists, contest.times, strict=True):
        if timed is None:
            found.skip(WRONG_AT_THE_END)
            continue
        if config == default:
            found.default = timed
        if found.best is None or timed.median_us < found.best.median_us:
            found.best, found.config = timed, config


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
    plan: SearchPlan, order: SearchOrder, best_us: float, found: SearchResult, tell: Tell
) -> bool:
    """Say what is to be gained from going on; whether that is less than what is asked for."""
    found.left, found.gain = order.left, order.expect_gain(best_us)
    if found.gain is None:
        return False
    tell(
        f"best {best_us:.1f} us; the model expects {found.gain:.1%} at most from the "
        f"{found.left} candidates that are left"
    )
    return plan.least_gain is not None and found.gain < plan.least_gain


def classify(reason: str) -> str:
    """The kind of a reason: sentences with other numbers in them count as one kind."""
    head, colon, rest = reason.partition(": ")
    if head == "refused":
        return f"refused by {rest.partition(':')[0]}"
    return f"{head}: {rest.partition(':')[0]}" if colon else reason
