"""The search for a recipe's fastest config: every candidate is exact before it may win.

The best that were found are kept in a file, by device, dtype and shape:
``{device: {dtype: {shape: {recipe, config, us, ...}}}}``, where a shape is spelt 1024x512x2048.
"""

from __future__ import annotations

import datetime
import itertools
import json
import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tirstep.files import locked, require_writable
from tirstep.lowering_checks.devices.device import blank
from tirstep.modules import Problem
from tirstep.transforms.recipes import Recipe
from tirstep.transforms.recipes.tuned import find_flaw

from . import BenchError, PeerMissing
from .accuracy import Expectation, Reference
from .candidates import describe_shortage, prepare_recipe
from .compile_cache import installed
from .compile_pool import CompileJob, compile_all, name_library
from .machine import Launch, Machine, Replay, find_first_error, require_alive
from .peers import PEERS, Peer
from .results import Time, summarize, write_json
from .run_case import Settings, Tell

Sizes = dict[str, object]
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
    """

    recipe: Recipe
    problem: Problem
    fixed: Sizes = field(default_factory=dict)
    among: Among = field(default_factory=dict)
    limit: int | None = None
    compile_limit: float = 60.0
    peer: Peer = PEERS["torch"]


@dataclass
class SearchResult:
    """What a search found.

    Attributes
    ----------
    best : None where no candidate ran and was exact
    skipped : how many candidates are out, by reason
    samples : the first whole sentence of each of these reasons, where there is one
    tried : how many there were
    """

    config: Sizes | None = None
    best: Time | None = None
    peer: Time | None = None
    default: Time | None = None
    tried: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    samples: dict[str, str] = field(default_factory=dict)

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
    candidates = list_configs(
        plan.recipe, plan.fixed, plan.among, limit=plan.limit, seed=settings.seed
    )
    found = SearchResult(tried=len(candidates))
    if shortage := describe_shortage(plan.problem, machine):
        raise BenchError(f"{plan.problem} {shortage}; search at a smaller shape")
    with installed(cache):
        jobs = [_make_job(plan, sizes, name_library()) for sizes in candidates]
        compiled = _compile(plan, machine, cache, jobs, found, tell)
        _ConfigRunner(plan, machine, settings, found, tell).run(compiled, candidates[0])
    return found


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
    """Checks and times what compiled."""

    plan: SearchPlan
    machine: Machine
    settings: Settings
    found: SearchResult
    tell: Tell

    def run(self, compiled: Sequence[CompileJob], default: Sizes) -> None:
        """Screen the candidates in batches, and let the best of them take turns with the peer."""
        problem, machine = self.plan.problem, self.machine
        inputs = problem.integer_inputs(self.settings.seed)
        outputs = [machine.upload(blank(output)) for output in problem.outputs]
        arguments = problem.make_arguments(list(map(machine.upload, inputs)), outputs)
        expectations = machine.expect(Reference(problem, inputs, problem.is_exact))
        best: list[tuple[float, _CheckedConfig]] = []
        for begin in range(0, len(compiled), BATCH):
            self.tell(f"checked and timed {begin} of {len(compiled)} candidates")
            batch = compiled[begin : begin + BATCH]
            admitted = [self._admit(job, arguments, expectations) for job in batch]
            right = [candidate for candidate in admitted if candidate is not None]
            best = sorted([*best, *self._screen(right)], key=lambda pair: pair[0])
            kept = best[:FINALISTS]
            best = [*kept, *(pair for pair in best[FINALISTS:] if pair[1].config == default)]
        if best:
            self._decide([candidate for _, candidate in best], arguments, default)

    def _admit(
        self, job: CompileJob, arguments: Sequence[Any], expectations: Sequence[Expectation]
    ) -> _CheckedConfig | None:
        """A candidate if its result is exact; otherwise it is counted."""
        machine, skipped = self.machine, self.found.skipped
        outputs = self.plan.problem.take_outputs(arguments)
        sizes = dict(job.config)
        try:
            replay = machine.record(self._prepare(job, arguments), outputs)
            for tensor in outputs:
                machine.poison(tensor)
            replay.run()
            error = find_first_error(machine, expectations, outputs)
        except Exception as error_:  # whatever TVM and CUDA raise: the others still run
            skipped[f"does not run: {type(error_).__name__}"] += 1
            spelt = " ".join(f"--set {name}={value}" for name, value in sizes.items())
            require_alive(machine, f"{self.plan.recipe.name} with {spelt}", error_)
            return None
        if error is not None:
            skipped["wrong"] += 1
            return None
        return _CheckedConfig(sizes, replay)

    def _prepare(self, job: CompileJob, arguments: Sequence[Any]) -> Launch:
        """What the other process compiled, or the same again where it left no file."""
        library = Path(job.library)
        if library.exists():
            return self.machine.load(library, arguments)
        prepare = prepare_recipe(self.plan.recipe, dict(job.config))
        return prepare(self.machine, self.plan.problem, arguments)

    def _screen(self, candidates: Sequence[_CheckedConfig]) -> list[tuple[float, _CheckedConfig]]:
        """Rough times; what is far slower than the fastest is not run again."""
        replays = [candidate.replay for candidate in candidates]
        first = [seconds[0] for seconds in self.machine.time(replays, [1] * len(replays))]
        repeats = [SCREENING_ROUNDS if seconds < HOPELESS * min(first) else 1 for seconds in first]
        times = self.machine.time(replays, repeats)
        medians = [summarize(seconds).median_us for seconds in times]
        return list(zip(medians, candidates, strict=True))

    def _decide(
        self, finalists: Sequence[_CheckedConfig], arguments: Sequence[Any], default: Sizes
    ) -> None:
        """The fastest wins, on random floats: small whole numbers make a GPU a little faster."""
        self.tell(f"timing {len(finalists)} finalists")
        machine, found, rounds = self.machine, self.found, self.settings.rounds
        drawn = self.plan.problem.float_inputs(self.settings.seed)
        for tensor, array in zip(self.plan.problem.take_inputs(arguments), drawn, strict=True):
            tensor[...] = machine.upload(array)
        peer = self._find_peer(arguments)
        replays = [candidate.replay for candidate in finalists] + ([] if peer is None else [peer])
        times = [summarize(seconds) for seconds in machine.time(replays, [rounds] * len(replays))]
        found.peer = None if peer is None else times.pop()
        for candidate, time in zip(finalists, times, strict=True):
            if candidate.config == default:
                found.default = time
            if found.best is None or time.median_us < found.best.median_us:
                found.best, found.config = time, candidate.config

    def _find_peer(self, arguments: Sequence[Any]) -> Replay | None:
        try:
            launch = self.machine.prepare_peer(self.plan.peer, self.plan.problem, arguments)
        except PeerMissing:
            return None
        return self.machine.record(launch, self.plan.problem.take_outputs(arguments))


def record_best(
    file: Path,
    plan: SearchPlan,
    found: SearchResult,
    device: Mapping[str, object],
    versions: Mapping[str, str],
) -> bool:
    """Put what was found into a file; False where the file has a faster one for the problem.

    Other processes may do the same at the same time. Raises `BenchError` for a file that holds
    something else, and if nothing was found.
    """
    if found.best is None:
        raise BenchError(f"no candidate of {plan.recipe.name} ran and was exact")
    file.parent.mkdir(parents=True, exist_ok=True)
    with locked(file):
        table = read_best(file)
        if not _put(table, plan, found, found.best, device, versions):
            return False
        write_json(_sort(table), file)
    return True


def require_table(file: Path) -> None:
    """Raise before a search what `record_best` would raise after it."""
    read_best(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    require_writable(file)


def _put(
    table: dict[str, Any],
    plan: SearchPlan,
    found: SearchResult,
    best: Time,
    device: Mapping[str, object],
    versions: Mapping[str, str],
) -> bool:
    """The same for the table itself."""
    problem = plan.problem
    shapes = table.setdefault(str(device["name"]), {}).setdefault(
        str(problem.options.get("dtype", problem.accumulator)), {}
    )
    shape = problem.shape_text
    if shape in shapes and float(shapes[shape]["us"]) <= best.median_us:
        return False
    shapes[shape] = {
        "config": {**plan.recipe.config, **(found.config or {})},
        "searched": plan.recipe.name,
        "options": dict(problem.options),
        "us": round(best.median_us, 3),
        "us_lower": round(best.lower_us, 3),
        "us_upper": round(best.upper_us, 3),
        "peer": plan.peer.name,
        "peer_us": None if found.peer is None else round(found.peer.median_us, 3),
        "ratio": None if found.ratio is None else round(found.ratio, 4),
        "architecture": device["architecture"],
        "tried": found.tried,
        "skipped": dict(sorted(found.skipped.items())),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "versions": dict(versions),
    }
    return True


def read_best(file: Path) -> dict[str, Any]:
    """The table of a file; empty where there is no file, or nothing in it.

    Raises `BenchError` for a file that holds something else.
    """
    if not file.exists() or (file.is_file() and not file.stat().st_size):
        return {}
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
        flaw = find_flaw(table) or _find_untimed(table)
    except ValueError:
        flaw = "it is no JSON"
    if flaw:
        raise BenchError(
            f"{file} is no table of best configs ({flaw}); give --into another file, or delete it"
        )
    return dict(table)


def _find_untimed(table: Mapping[str, Any]) -> str:
    for types in table.values():
        for shapes in types.values():
            for shape, entry in shapes.items():
                if not isinstance(entry.get("us"), int | float):
                    return f"{shape} has no time"
    return ""


def _sort(table: dict[str, Any]) -> dict[str, Any]:
    """In one order, whoever wrote first: a table under version control changes where it changed."""
    return {
        device: {
            dtype: dict(sorted(shapes.items(), key=lambda pair: [*map(int, pair[0].split("x"))]))
            for dtype, shapes in sorted(types.items())
        }
        for device, types in sorted(table.items())
    }
