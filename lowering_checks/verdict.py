"""Verdicts: what the checks say of each step of a run, and of the last one at an odd shape.

`judge_run` yields them as it goes, and raises nothing: a step that cannot be judged has a finding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tirstep.modules import KernelError
from tirstep.transforms.errors import TransformError
from tirstep.transforms.recipes import Step

from .compile.passes import find_remedy
from .devices import CpuDevice, Device, Timing
from .devices.device import DeviceError, blank
from .diff import Diff, diff_steps
from .finding import CheckError, Finding
from .golden import GoldenStore
from .numeric import check_numbers
from .ownership import check_ownership
from .steps import Run, run_golden, run_recipe

Findings = tuple[Finding, ...]
GUARD = "guard"
ERRORS = (CheckError, DeviceError, KernelError, TransformError)
"""Of a step that cannot be judged."""


@dataclass(frozen=True)
class Verdict:
    """What the checks say of one step.

    Attributes
    ----------
    run : that the step is one of
    diff : against the step before; None for the kernel as it was written
    golden : findings; None where no goldens were asked or the step has none (another dtype, say)
    numbers : findings; of the last step, those of `check_ownership` too
    checked_on : the device and shape of the numbers, as ``"cpu 64x48x32"``, with the tail of an odd
        shape, and whether they are the recipe's example's, with another config or other options
        than the run's
    timing : None where the device has no clock, the step cannot be launched, or is wrong
    """

    run: Run
    step: Step
    diff: Diff | None
    golden: Findings | None
    numbers: Findings
    checked_on: str
    timing: Timing | None = None

    @property
    def findings(self) -> Findings:
        """All findings of the step."""
        return (*(self.golden or ()), *self.numbers)


def golden_word(verdicts: Iterable[Verdict]) -> str | None:
    """What the goldens say of some steps: "ok", "failed", or None where none was asked."""
    asked = [verdict.golden for verdict in verdicts if verdict.golden is not None]
    return _word(any(asked)) if asked else None


def numbers_word(verdicts: Sequence[Verdict]) -> str | None:
    """What the numbers say of some steps: "ok", "failed", or None where there are no steps."""
    return _word(any(verdict.numbers for verdict in verdicts)) if verdicts else None


def _word(is_wrong: bool) -> str:
    return "failed" if is_wrong else "ok"


def judge_run(
    run: Run,
    device: Device,
    *,
    store: GoldenStore | None = None,
    seed: int = 0,
    timed: bool = True,
    at_odd_shape: bool = False,
) -> Iterator[Verdict]:
    """Judge a run step by step, as it goes.

    Goldens are held against the recipe's golden example, whatever the run's shape. A step that
    the device cannot run yet (its loops are not bound) is checked on the CPU, at the shape of
    the golden example: with the run's own config and options if the recipe takes them there,
    otherwise with those of the example, which the verdict says. A step that the device should
    run and cannot, since TVM does not lower it, say, has a finding ("lowering") for that, and
    is checked on the CPU as well; the steps after it are judged like any other. Times are taken
    on a device with a clock, of right steps only, on random floats, unless `timed` is False.

    With `at_odd_shape`, the verdict of the last step at an odd shape (`find_odd_run`) comes last,
    with that shape's run, unless the numbers of a step were wrong or the recipe takes no such
    shape. A step that cannot be judged has a finding that says why, and is the last.
    """
    judged = _judge_steps(run, device, store, seed, timed)
    is_right = True
    for step in run.steps:
        try:
            verdict = next(judged)
        except ERRORS as error:
            yield _fail(run, step, f"{device.name} {_shape(run)}", str(error))
            return
        is_right = is_right and not verdict.numbers
        yield verdict
    odd = find_odd_run(run) if at_odd_shape and is_right else None
    if odd is not None:
        yield from _judge_odd(odd, device, seed)


def _fail(run: Run, step: Step, checked_on: str, message: str) -> Verdict:
    finding = Finding("numbers", run.label(step), message).at(step.location)
    return Verdict(run, step, None, None, (finding,), checked_on)


def _judge_steps(
    run: Run, device: Device, store: GoldenStore | None, seed: int, timed: bool
) -> Iterator[Verdict]:
    small = run_golden(run.recipe)
    goldens = _check_goldens(small, store)
    fallbacks = functools.cache(lambda: (_shrink(run, small), small, run))
    before: Step | None = None
    for step in run.steps:
        found, checked_on = _check(run, fallbacks, step, device, seed)
        if step is run.steps[-1]:
            found = (*found, *check_ownership(step.module, where=run.label(step)))
        numbers = _place(found, step)
        timing = None
        has_time = timed and device.has_clock and not numbers
        if has_time and device.find_obstacle(step.module) is None:
            inputs = run.problem.float_inputs(seed)
            outputs = [blank(tensor) for tensor in run.problem.outputs]
            timing = device.time(step.module, [*inputs, *outputs])
        diff = None if before is None else diff_steps(before, step)
        yield Verdict(run, step, diff, goldens.get(step.name), numbers, checked_on, timing)
        before = step


def _check_goldens(small: Run, store: GoldenStore | None) -> dict[str, Findings]:
    if store is None:
        return {}
    checked = zip(small.steps, store.check(small), strict=True)
    return {step.name: _place(findings, step) for step, findings in checked}


def _place(findings: Iterable[Finding], step: Step) -> Findings:
    return tuple(finding.at(step.location) for finding in findings)


def _check(
    run: Run, fallbacks: Callable[[], Sequence[Run]], step: Step, device: Device, seed: int
) -> tuple[Findings, str]:
    where = run.label(step)
    cpu = CpuDevice()
    if device.find_obstacle(step.module) is not None and device.name != cpu.name:
        return _check_on_cpu(run, fallbacks, step, seed)
    try:
        findings = check_numbers(run.problem, step.module, device, where=where, seed=seed)
        return tuple(findings), f"{device.name} {_shape(run)}"
    except DeviceError as error:
        remedy = find_remedy(step.module, str(error))
        message = f"{remedy} ({error})" if remedy else str(error)
        refused = Finding("lowering", where, message)
    if device.name == cpu.name:
        return (refused,), f"no device: {cpu.name} does not run it"
    try:
        found, checked_on = _check_on_cpu(run, fallbacks, step, seed)
    except DeviceError as error:
        return (refused,), f"no device: {error}"
    return (refused, *found), checked_on


def _check_on_cpu(
    run: Run, fallbacks: Callable[[], Sequence[Run]], step: Step, seed: int
) -> tuple[Findings, str]:
    """Check a step that its device does not run, on the CPU, which may be slow at its shape."""
    where, cpu = run.label(step), CpuDevice()
    for other in fallbacks():
        module = next((each.module for each in other.steps if each.name == step.name), None)
        if module is None or cpu.find_obstacle(module) is not None:
            continue
        findings = check_numbers(other.problem, module, cpu, where=where, seed=seed)
        is_same = run.problem.options == other.problem.options and run.config == other.config
        note = "" if is_same else ", the recipe's example"
        return tuple(findings), f"{cpu.name} {_shape(other)}{note}"
    return (), f"no device: {cpu.find_obstacle(step.module)}"


def _shrink(run: Run, example: Run) -> Run:
    """The run at the shape of the example; the example if the recipe refuses that."""
    shape = dict(example.problem.shape)
    if dict(run.problem.shape) == shape:
        return run
    return _try(run, shape, run.config) or example


def _shape(run: Run) -> str:
    return "x".join(str(size) for size in run.problem.shape.values())


def _judge_odd(odd: Run, device: Device, seed: int) -> Iterator[Verdict]:
    """The verdict of the last step at an odd shape, if there is a device that runs it."""
    step = odd.steps[-1]
    runner: Device = device if device.find_obstacle(step.module) is None else CpuDevice()
    if runner.find_obstacle(step.module) is not None:
        return
    where, tail = odd.label(step), odd.config.get("tail")
    checked_on = f"{runner.name} {_shape(odd)}" + (f" tail={tail}" if tail else "")
    try:
        found = check_numbers(odd.problem, step.module, runner, where=where, seed=seed)
    except ERRORS as error:
        yield _fail(odd, step, checked_on, f"at an odd shape: {error}")
        return
    yield Verdict(odd, step, None, None, _place(found, step), checked_on)


def find_odd_run(run: Run) -> Run | None:
    """A run like another, at a shape near its recipe's golden one whose extents no tile divides.

    There tails and guards are needed, which the golden example mostly does without. The tail is the
    run's own, or else guards, or else another that the recipe has. Extents that the recipe takes
    only whole stay as they are; None where all do.
    """
    golden = dict(run.recipe.golden.shape)
    odd = _make_odd(golden)
    for config in _list_configs(run):
        if (found := _try(run, odd, config)) is not None:
            return found
    for config in _list_configs(run):
        found, shape = None, dict(golden)
        for name, size in odd.items():
            if (larger := _try(run, {**shape, name: size}, config)) is not None:
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


def _try(run: Run, shape: Mapping[str, int], config: Mapping[str, object]) -> Run | None:
    try:
        return run_recipe(run.recipe, shape, options=run.problem.options, config=config)
    except (TransformError, KernelError):
        return None
