"""A recipe's numbers at a shape that no tile divides, where tails and guards do their work.

A golden example mostly has extents that tiles divide, so that whatever is wrong with the rest of a
division does not show there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tirstep.modules import KernelError
from tirstep.transforms.errors import TransformError

from .devices import CpuDevice, Device
from .finding import Finding
from .numeric import check_numbers
from .steps import Run, run_recipe

GUARD = "guard"


@dataclass(frozen=True)
class OddVerdict:
    """What the numbers of a run's last step are at an odd shape.

    Attributes
    ----------
    run : at that shape
    checked_on : the device and shape, as ``"simulator 67x53x33"``, with the tail if one was set
    findings : none where the numbers are right
    """

    run: Run
    checked_on: str
    findings: tuple[Finding, ...]


def judge_odd_shape(run: Run, device: Device, *, seed: int = 0) -> OddVerdict | None:
    """Hold the last step of a run's recipe, at an odd shape near its golden example, against NumPy.

    With the run's options and sizes, and a tail where the recipe needs one. None where the recipe
    takes no such shape, or only with whole tiles. A step that the device cannot run is checked on
    the CPU. Raises `DeviceError` where a device fails.
    """
    odd = find_odd_run(run)
    if odd is None:
        return None
    step = odd.steps[-1]
    judge: Device = device if device.find_obstacle(step.module) is None else CpuDevice()
    if judge.find_obstacle(step.module) is not None:
        return None
    where = odd.label(step)
    found = check_numbers(odd.problem, step.module, judge, where=where, seed=seed)
    shape = "x".join(str(size) for size in odd.problem.sizes.values())
    tail = odd.sizes.get("tail")
    checked_on = f"{judge.name} {shape}" + (f" tail={tail}" if tail else "")
    return OddVerdict(odd, checked_on, tuple(one.at(step.source) for one in found))


def find_odd_run(run: Run) -> Run | None:
    """A run like another, at a shape near its recipe's golden one whose extents no tile divides.

    The tail is the run's own, or else guards, or else another that the recipe has. Extents that the
    recipe takes only whole stay as they are; None where all do.
    """
    golden = dict(run.recipe.golden.shape)
    odd = _make_odd(golden)
    for sizes in _find_ways(run):
        if (whole := _try(run, odd, sizes)) is not None:
            return whole
    for sizes in _find_ways(run):
        found, shape = None, dict(golden)
        for name, size in odd.items():
            if (one := _try(run, {**shape, name: size}, sizes)) is not None:
                found, shape[name] = one, size
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


def _find_ways(run: Run) -> Iterator[dict[str, object]]:
    given = dict(run.sizes)
    if "tail" in given or not run.recipe.tails:
        yield given
        return
    tails = run.recipe.tails
    for tail in sorted(tails, key=lambda one: (one != GUARD, tails.index(one))):
        yield {**given, "tail": tail}


def _try(run: Run, shape: Mapping[str, int], sizes: Mapping[str, object]) -> Run | None:
    try:
        return run_recipe(run.recipe, shape, options=run.problem.options, sizes=sizes)
    except (TransformError, KernelError):
        return None
