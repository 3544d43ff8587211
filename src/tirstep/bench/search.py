"""The search for a recipe's fastest config: every candidate is exact before it may win."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tirstep.files import append_line, write_file
from tirstep.modules import Problem
from tirstep.transforms.recipes import Recipe
from tirstep.transforms.recipes.matmul_best import Forecast

from . import BenchError
from .peers import PEERS, Peer
from .results import Time
from .session import Tell
from .workers import LocalWorkers, Sizes, Trial

if TYPE_CHECKING:
    from .ray_workers import RayWorkers

AT_RANDOM = 4
"""One candidate of so many is drawn where a limit leaves others out: the model may be wrong."""
OWN = 8
"""Configs of the model's own that are candidates, whether the recipe's choices have them or not."""
MOST = 20000
"""Candidates of which a forecast or a tuning chooses; of more, so many at random."""
FINALISTS = 8
WRONG_AT_THE_END = "wrong when the finalists were timed"

FOLDER = "tirstep_trials"
"""Within the folder of a database: a file of trials for each recipe, problem and target."""
FORMAT = 1
PASSING = ("crashed", "took longer", "does not run")
"""Beginnings of reasons that may have been the machine's: a search tries such a candidate again."""

Among = Mapping[str, tuple[object, ...]]
"""Values to choose from, by size: in place of those that a recipe declares."""


def _unique(configs: list[Sizes]) -> list[Sizes]:
    return [*{tuple(config.items()): config for config in configs}.values()]


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
    """

    recipe: Recipe
    problem: Problem
    fixed: Sizes = field(default_factory=dict)
    among: Among = field(default_factory=dict)
    limit: int | None = None
    compile_limit: float = 60.0
    peer: Peer = PEERS["torch"]
    forecast: Forecast | None = None

    @property
    def choices(self) -> dict[str, tuple[object, ...]]:
        """The values of each size to search; raises `BenchError` for a recipe without any."""
        choices = {**self.recipe.choices, **self.among}
        if not choices:
            raise BenchError(
                f"{self.recipe.name} declares no choices of knobs, so there is nothing to search"
            )
        return {name: values for name, values in choices.items() if name not in self.fixed}

    def count_configs(self) -> int:
        """How many combinations of choices there are."""
        return math.prod(map(len, self.choices.values()))

    def list_configs(self, limit: int | None, seed: int) -> list[Sizes]:
        """All combinations of choices, or `limit` of them at random; each once.

        Sizes of the recipe's example that are no choice are in all of them. The config that the
        recipe has by itself comes first, whether it is among its choices or not: what is found is
        never slower. Where `among` has not its own value, the first one there is taken. Raises
        `BenchError` for a recipe without choices.
        """
        recipe, choices, total = self.recipe, self.choices, self.count_configs()
        example = recipe.default_example.config
        own = {name: example.get(name, recipe.config[name]) for name in choices}
        own |= {it: v[0] for it, v in self.among.items() if it in own and own[it] not in v}
        configs: list[Sizes] = [own]
        places: Sequence[int] = range(total)
        if limit is not None and limit < total:
            places = random.Random(seed).sample(places, limit)
        for place in places:
            config: Sizes = {}
            for name, values in reversed(choices.items()):  # the last one runs fastest
                place, rest = divmod(place, len(values))
                config[name] = values[rest]
            configs.append({name: config[name] for name in choices})
        others = {**{it: v for it, v in example.items() if it not in choices}, **self.fixed}
        return _unique([{**config, **others} for config in configs])

    def list_candidates(self, seed: int) -> list[Sizes]:
        """The candidates, the recipe's own config first. With a forecast the most promising come
        first, and its own configs are there, too; of a limit one of `AT_RANDOM` is drawn.
        """
        forecast = self.forecast
        if forecast is None:
            return self.list_configs(self.limit, seed)
        own = [
            config
            for config in forecast.list_best(OWN)
            if all(config[name] == value for name, value in self.fixed.items())
            and all(config[name] in values for name, values in self.among.items())
        ]
        first, *every = _unique([*self.list_configs(MOST, seed), *own])
        every.sort(key=forecast.predict)
        limit = len(every) if self.limit is None else min(len(every), self.limit - 1)
        drawn = min(limit // AT_RANDOM, len(every) - limit)
        promising, others = every[: limit - drawn], every[limit - drawn :]
        return [first, *promising, *random.Random(seed).sample(others, drawn)]


@dataclass
class SearchResult:
    """What a search found.

    Attributes
    ----------
    best : None where no candidate ran with exact results
    skipped : how many candidates are out, by reason
    samples : the first whole sentence of each of these reasons, where there is one
    tried : how many there were
    peer_error : why a peer of the user's has no time
    expected_us : what the model of time expected of the best
    seconds : what it took, by ``candidates`` and ``finalists``
    """

    config: Sizes | None = None
    best: Time | None = None
    peer: Time | None = None
    default: Time | None = None
    tried: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    samples: dict[str, str] = field(default_factory=dict)
    expected_us: float | None = None
    peer_error: str = ""
    seconds: dict[str, float] = field(default_factory=dict, compare=False)

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


def spell_config(config: Mapping[str, object]) -> str:
    """A config as JSON has it, where pairs are lists; equal for equal ones."""
    return json.dumps(dict(config), sort_keys=True)


class Trials:
    """The trials of a run, in a file within the folder of a database; `about` says of what, in
    JSON's terms. Each is on the disk as it comes: a run that ends in the middle goes on where it
    was.

    An incomplete line, as a killed process or a full disk leaves one, is skipped. The file is
    written anew where it ends with such a line, or was removed. Raises `BenchError` for a file that
    holds something else, which stays as it is.
    """

    def __init__(self, database: Path, about: Mapping[str, object]) -> None:
        self.file, self.known = self.locate(database, about), list[Trial]()
        self._head = json.dumps({"format": FORMAT, **about})
        text = self.file.read_text("utf-8", "replace") if self.file.exists() else ""
        head, end, rest = text.partition("\n")
        if head != self._head and (end or not self._head.startswith(head)):
            raise BenchError(
                f"{self.file} does not hold trials of this run; move it away, or give another "
                "database"
            )
        *lines, last = rest.split("\n")
        self._is_whole = bool(end) and not last
        for line in lines:
            with contextlib.suppress(ValueError, LookupError, TypeError):
                row = json.loads(line)
                trial = Trial(row["config"], tuple(row["seconds"]), row["reason"], row["program"])
                self.known.append(trial)

    @staticmethod
    def locate(database: Path, about: Mapping[str, object]) -> Path:
        """The file, whose folder is made."""
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:12]
        name = "".join(letter if letter.isalnum() else "_" for letter in str(about["recipe"]))
        folder = database / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name[-60:]}-{digest}.jsonl"

    def add(self, trial: Trial) -> None:
        """Keep a trial; it is on the disk when this returns."""
        self.known.append(trial)
        is_there = self._is_whole and self.file.exists()
        new = [trial] if is_there else self.known
        lines = [json.dumps({**vars(it), "config": dict(it.config)}) for it in new]
        if is_there:
            append_line(self.file, *lines)
        else:
            write_file(self.file, "".join(f"{line}\n" for line in (self._head, *lines)))
        self._is_whole = True

    def find_settled(self) -> dict[str, Trial]:
        """What need not run again, by `spell_config`."""
        settled = (it for it in self.known if not it.reason.startswith(PASSING))
        return {spell_config(trial.config): trial for trial in settled}


def describe_search(
    plan: SearchPlan, device: Mapping[str, Any], versions: Mapping[str, str]
) -> dict[str, object]:
    """What a search's trials are of: one recipe, problem, device and set of versions."""
    problem, recipe = plan.problem, plan.recipe
    file, digest = Path(recipe.spelling.rpartition(":")[0] or recipe.spelling), ""
    if recipe.spelling and file.is_file():  # a user's recipe that was changed is another one
        digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    return {
        "recipe": recipe.spelling or recipe.name,
        "file": digest,
        "shape": dict(problem.shape),
        "options": {name: str(it) for name, it in problem.options.items()},
        "device": str(device["name"]),
        "versions": {it: versions.get(it, "") for it in ("tirstep", "apache-tvm")},
        "use": "search",
    }


def search(
    workers: LocalWorkers | RayWorkers,
    plan: SearchPlan,
    seed: int,
    tell: Tell,
    kept: Trials | None = None,
) -> SearchResult:
    """Compile, check and time candidates; the best of them take turns once more with the peer.

    A candidate is checked on whole numbers, for which every order of summation gives the same
    bits, and nothing is tolerated; for a kernel that is no sum of products, within its own bound.
    What `kept` knows is not run again, and it gets every other candidate as it comes. Raises
    `BenchError` where a candidate leaves the device unusable.
    """
    began, found, candidates = time.monotonic(), SearchResult(), plan.list_candidates(seed)
    known = {} if kept is None else kept.find_settled()
    part, new = list[Trial](), list[Sizes]()
    for config in candidates:
        if before := known.get(spell_config(config)):
            part.append(replace(before, config=config))
        else:
            new.append(config)
    if new:
        workers.submit(new)
    best: list[tuple[Sizes, float]] = []  # the finalists so far, the fastest first, and the default
    left = len(new)
    while part or left:
        for one in part:
            if not one.seconds:
                found.skip(one.reason)
        timed = [(dict(it.config), statistics.median(it.seconds)) for it in part if it.seconds]
        ranked = sorted([*best, *timed], key=lambda pair: pair[1])
        rest = [it for it in ranked[FINALISTS:] if it[0] == candidates[0]]
        best = ranked[:FINALISTS] + rest
        workers.keep([config for config, _ in best])
        found.tried += len(part)
        tell(f"compiled, checked and timed {found.tried} of {len(candidates)} candidates")
        part = [*workers.collect()] if left else []
        left -= len(part)
        if kept is not None:
            for one in part:
                kept.add(one)
    found.seconds["candidates"] = time.monotonic() - began
    if best:
        tell(f"timing {len(best)} finalists")
        contest = workers.decide([config for config, _ in best])
        found.peer, found.peer_error = contest.peer, contest.peer_error
        for (config, _), took in zip(best, contest.times, strict=True):
            if took is None:
                found.skip(WRONG_AT_THE_END)
                continue
            if config == candidates[0]:
                found.default = took
            if found.best is None or took.median_us < found.best.median_us:
                found.best, found.config = took, config
    found.seconds["finalists"] = time.monotonic() - began - found.seconds["candidates"]
    if plan.forecast is not None and found.config is not None:
        found.expected_us = plan.forecast.predict(found.config)
    return found


def classify(reason: str) -> str:
    """The kind of a reason: sentences with other numbers in them count as one kind."""
    head, colon, rest = reason.partition(": ")
    if head == "refused":
        return f"refused by {rest.partition(':')[0]}"
    if head == "wrong":
        return head
    return f"{head}: {rest.partition(':')[0]}" if colon else reason
