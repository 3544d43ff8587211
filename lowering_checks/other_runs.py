"""Other runs of a recipe: where tails, guards, types and knobs show what its example does not.

An example mostly divides into whole tiles, in one type, with one config. `find_other_runs` draws a
few more of the same recipe: what its user wished stays in all of them.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tirstep.modules import KernelError
from tirstep.modules.dtypes import dtype_facts
from tirstep.transforms.errors import TransformError
from tirstep.transforms.gpu_limits import MAX_THREADS
from tirstep.transforms.recipes import Recipe

from .steps import Run, run_recipe

REFUSE, GUARD = "refuse", "guard"
ATTEMPTS = 8
"""How often something else is drawn where a recipe refuses what was."""
SHORT = 7
"""The largest of the extents that mostly are less than a tile."""


@dataclass(frozen=True)
class OtherRun:
    """A run, and in a few words what it is at that the example is not."""

    run: Run
    about: str


def find_other_runs(run: Run, *, kept: Collection[str] = (), seed: int = 0) -> Iterator[OtherRun]:
    """Runs like another, near the shape of its recipe's golden example, each different from all.

    First at an odd shape (`find_odd_run`); then with other knobs at short or odd extents, in a
    narrower type, with each other tail, with extents of one, and with sizes left open, as far as
    the recipe has such things; and from there on with knobs, types and extents drawn from the
    seed, until little is left that is new. `kept` names knobs and options of the kernel that stay
    as they are, but for a tail that the run's config has: that always stays.
    """
    known, repeated = {_identify(run)}, 0
    rng = random.Random(f"{seed} {run.recipe.name}")
    for other in _list_candidates(run, kept, rng):
        if other is None:
            continue
        if _identify(other.run) in known:
            repeated += 1
            if repeated > ATTEMPTS:
                return
            continue
        known.add(_identify(other.run))
        yield other


@dataclass
class LimitedRuns:
    """The first `count` of other runs, until the process has worked for `seconds` since it asked
    for the first; what is done with a run before the next is asked for counts, and one there is in
    any case. With None for `seconds` all of them, if there are as many.

    Attributes
    ----------
    left : how many of them were not asked for when that time was over
    """

    others: Iterable[OtherRun]
    seconds: float | None
    count: int
    left: int = 0

    def __iter__(self) -> Iterator[OtherRun]:
        began = time.process_time()
        for made, other in enumerate(itertools.islice(self.others, self.count), 1):
            yield other
            if self.seconds is not None and time.process_time() - began >= self.seconds:
                self.left = self.count - made
                return


def _identify(run: Run) -> tuple[object, ...]:
    return (run.problem, *sorted({**run.recipe.config, **run.config}.items()))


def _list_candidates(
    run: Run, kept: Collection[str], rng: random.Random
) -> Iterator[OtherRun | None]:
    odd = find_odd_run(run)
    yield None if odd is None else OtherRun(odd, "at an odd shape")
    like = odd or run
    yield _draw_knobs(run, kept, rng)
    yield _draw_narrow(like, kept, rng)
    yield from _list_other_tails(run, like)
    if run.recipe.golden.shape:
        yield _draw_ones(run, rng)
    yield _leave_open(run, like)
    while (other := _draw_knobs(run, kept, rng)) is not None:
        narrow = _draw_narrow(other.run, kept, rng) if rng.random() < 0.5 else None
        yield other if narrow is None else OtherRun(narrow.run, f"{other.about} {narrow.about}")


def _list_other_tails(run: Run, like: Run) -> Iterator[OtherRun | None]:
    """Where the run has no tail of its own."""
    if "tail" in run.config:
        return
    for tail in run.recipe.tails:
        if tail not in (REFUSE, like.config.get("tail")):
            other = try_run(like, config={**like.config, "tail": tail})
            yield None if other is None else OtherRun(other, f"with tail={tail}")


def _draw_narrow(like: Run, kept: Collection[str], rng: random.Random) -> OtherRun | None:
    """In a type of fewer bytes, or in any other one where none has fewer."""
    if {"dtype", "acc", "out"} & {*kept} or "dtype" not in like.problem.options:
        return None
    own = str(like.problem.options["dtype"])
    others = [name for name in like.problem.kernel.dtypes if name != own]
    narrow = [name for name in others if dtype_facts(name).bytes < dtype_facts(own).bytes]
    for name in rng.sample(narrow or others, len(narrow or others)):
        if (other := try_run(like, options=_choose_type(like, name))) is not None:
            return OtherRun(other, f"in {name}")
    return None


def _choose_type(run: Run, dtype: str) -> dict[str, object]:
    """The options of a run in another type, which the defaults of accumulator and output follow."""
    rest = {name: it for name, it in run.problem.options.items() if name not in ("acc", "out")}
    return {**rest, "dtype": dtype}


def _draw_knobs(run: Run, kept: Collection[str], rng: random.Random) -> OtherRun | None:
    """With other values of all knobs that are not kept, and short or odd extents."""
    recipe = run.recipe
    free = [name for name in recipe.choices if name not in kept and name != "tail"]
    if not free and not recipe.golden.shape:  # a module has the sizes that it has
        return None
    for _ in range(ATTEMPTS):
        changed = rng.sample(free, rng.randint(1, len(free))) if free else []
        drawn = {name: rng.choice(_list_values(recipe, name)) for name in changed}
        config = {**run.config, **_fit_threads(drawn)}
        tails = [tail for tail in recipe.tails if tail != REFUSE]
        if tails and "tail" not in run.config:
            config["tail"] = rng.choice(tails)
        shape = _draw_shape(recipe.golden.shape, rng)
        other = try_run(run, shape=shape, config=config)
        if other is not None:
            return OtherRun(other, "with other knobs" if free else "at another shape")
    return None


def _list_values(recipe: Recipe, name: str) -> list[object]:
    """The choices of a knob that a command line can give, and its default."""
    default = recipe.config[name]
    return [value for value in recipe.choices[name] if value is not None or default is None]


def _fit_threads(drawn: dict[str, object]) -> dict[str, object]:
    """Drawn knobs with as few threads as a block may have, where they are single numbers."""
    names = ("threads", "rows", "columns", "lanes", "block_y", "block_x")
    fitted = {name: it for name in names if isinstance(it := drawn.get(name), int)}
    while math.prod(fitted.values()) > MAX_THREADS:
        fitted[max(fitted, key=fitted.__getitem__)] //= 2
    return {**drawn, **fitted}


def _draw_shape(golden: Mapping[str, int], rng: random.Random) -> dict[str, int]:
    """Of each extent: short, the golden example's, that and one, or a prime a little larger."""
    shape = dict(golden)
    for name, size in golden.items():
        around = (rng.randint(2, SHORT), rng.randint(2, SHORT), size, size + 1, _next_prime(size))
        shape[name] = rng.choice(around)
    return shape


def _draw_ones(run: Run, rng: random.Random) -> OtherRun | None:
    """With one extent or more of 1, and the others mostly less than a tile."""
    names = list(run.recipe.golden.shape)
    for config in _list_configs(run):
        for _ in range(ATTEMPTS):
            ones = rng.sample(names, rng.randint(1, len(names)))
            shape = {name: 1 if name in ones else 2 * rng.randint(1, 3) + 1 for name in names}
            if (other := try_run(run, shape=shape, config=config)) is not None:
                return OtherRun(other, "at extents of 1")
    return None


def _leave_open(run: Run, like: Run) -> OtherRun | None:
    """With all sizes left open that the recipe lets a module leave open, and the tail for that."""
    tails, symbolic = run.recipe.tails[-1:], run.recipe.symbolic
    if not symbolic or (tails and run.config.get("tail", tails[0]) != tails[0]):
        return None
    config = {**like.config, "tail": tails[0]} if tails else like.config
    other = try_run(like, config=config, symbolic=symbolic)
    return None if other is None else OtherRun(other, "with open sizes")


def find_odd_run(run: Run) -> Run | None:
    """A run like another, at a shape near its recipe's golden one whose extents no tile divides.

    There tails and guards are needed, which the golden example mostly does without. The tail is the
    run's own, or else guards, or else another that the recipe has. Extents that the recipe takes
    only whole stay as they are; None where all do, and where there are none.
    """
    golden = dict(run.recipe.golden.shape)
    if not golden:
        return None
    odd = _make_odd(golden)
    for config in _list_configs(run):
        if (found := try_run(run, shape=odd, config=config)) is not None:
            return found
    for config in _list_configs(run):
        found, shape = None, dict(golden)
        for name, size in odd.items():
            if (larger := try_run(run, shape={**shape, name: size}, config=config)) is not None:
                found, shape[name] = larger, size
        if found is not None:
            return found
    return None


def _make_odd(shape: Mapping[str, int]) -> dict[str, int]:
    """The next prime of each extent; of the last, mostly that of a sum, one more alone.

    So one remainder is 1, the least tail there is, and others are not.
    """
    *names, last = shape
    return {**{name: _next_prime(shape[name]) for name in names}, last: shape[last] + 1}


def _next_prime(number: int) -> int:
    while True:
        number += 1
        if all(number % divisor for divisor in range(2, int(number**0.5) + 1)):
            return number


def _list_configs(run: Run) -> Iterator[dict[str, object]]:
    """The run's config, with each tail that the recipe has where none was given."""
    given = dict(run.config)
    if "tail" in given or not run.recipe.tails:
        yield given
        return
    tails = run.recipe.tails
    for tail in sorted(tails, key=lambda name: (name != GUARD, tails.index(name))):
        yield {**given, "tail": tail}


def try_run(
    run: Run,
    *,
    shape: Mapping[str, int] | None = None,
    options: Mapping[str, object] | None = None,
    config: Mapping[str, object] | None = None,
    symbolic: Sequence[str] = (),
) -> Run | None:
    """A run like another but for what is given; None where recipe or kernel refuse it."""
    try:
        return run_recipe(
            run.recipe,
            run.problem.shape if shape is None else shape,
            options=run.problem.options if options is None else options,
            config=run.config if config is None else config,
            symbolic=symbolic,
        )
    except (TransformError, KernelError):
        return None
