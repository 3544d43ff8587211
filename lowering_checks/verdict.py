"""Verdicts: for each step of a run, its diff, its golden, its numbers and, on a GPU, its time."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tirstep.modules import KernelError
from tirstep.transforms.errors import TransformError
from tirstep.transforms.recipes import Step

from .devices import CpuDevice, Device, Timing
from .devices.device import DeviceError, blank
from .diff import Diff, diff_steps
from .finding import Finding
from .golden import GoldenStore
from .numeric import check_numbers
from .refusal import find_remedy
from .steps import Run, run_golden, run_recipe
from .unfinished import find_unfinished


@dataclass(frozen=True)
class Verdict:
    """What the checks say of one step.

    Attributes
    ----------
    diff : against the step before; None for the kernel as it was written
    golden : findings; None where no goldens were asked or the step has none (another dtype, say)
    numbers : findings; of the last step, those of `find_unfinished` too
    checked_on : the device and shape of the numbers, as ``"cpu 64x48x32"``, and whether they are
        the recipe's example's, with other sizes or options than the run's
    timing : None where the device has no clock, the step cannot be launched, or is wrong
    """

    step: Step
    diff: Diff | None
    golden: tuple[Finding, ...] | None
    numbers: tuple[Finding, ...]
    checked_on: str
    timing: Timing | None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings of the step."""
        return (*(self.golden or ()), *self.numbers)


def judge_run(
    run: Run,
    device: Device,
    *,
    store: GoldenStore | None = None,
    seed: int = 0,
    timed: bool = True,
) -> Iterator[Verdict]:
    """Judge a run step by step, as it goes.

    Goldens are held against the recipe's golden example, whatever the run's shape. A step that
    the device cannot run yet (its loops are not bound) is checked on the CPU, at the shape of
    the golden example: with the run's own sizes and options if the recipe takes them there,
    otherwise with those of the example, which the verdict says. A step that the device should
    run and cannot, since TVM does not lower it, say, has a finding ("lowering") for that, and
    is checked on the CPU as well; the steps after it are judged like any other. Times are taken
    on a device with a clock, of right steps only, on random floats, unless `timed` is False.
    """
    small = run_golden(run.recipe)
    goldens = _golden_findings(small, store)
    twins = _Twins(run, small)
    before: Step | None = None
    for step in run.steps:
        found, checked_on = _check(run, twins, step, device, seed)
        if step is run.steps[-1]:
            found = (*found, *find_unfinished(step.module, where=run.label(step)))
        numbers = _place(found, step)
        timing = None
        has_time = timed and device.has_clock and not numbers
        if has_time and device.find_obstacle(step.module) is None:
            inputs = run.problem.float_inputs(seed)
            outputs = [blank(tensor) for tensor in run.problem.outputs]
            timing = device.time(step.module, [*inputs, *outputs])
        diff = None if before is None else diff_steps(before, step)
        yield Verdict(step, diff, goldens.get(step.name), numbers, checked_on, timing)
        before = step


def _golden_findings(small: Run, store: GoldenStore | None) -> dict[str, tuple[Finding, ...]]:
    if store is None:
        return {}
    checked = zip(small.steps, store.check(small), strict=True)
    return {step.name: _place(findings, step) for step, findings in checked}


def _place(findings: Iterable[Finding], step: Step) -> tuple[Finding, ...]:
    return tuple(finding.at(step.source) for finding in findings)


def _check(
    run: Run, twins: _Twins, step: Step, device: Device, seed: int
) -> tuple[tuple[Finding, ...], str]:
    where = run.label(step)
    cpu = CpuDevice()
    if device.find_obstacle(step.module) is not None and device.name != cpu.name:
        return _check_on_cpu(run, twins, step, seed)
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
        also, checked_on = _check_on_cpu(run, twins, step, seed)
    except DeviceError as error:
        return (refused,), f"no device: {error}"
    return (refused, *also), checked_on


def _check_on_cpu(
    run: Run, twins: _Twins, step: Step, seed: int
) -> tuple[tuple[Finding, ...], str]:
    """Check a step that its device does not run, on the CPU and at a small shape."""
    where, cpu = run.label(step), CpuDevice()
    for twin in (twins.own, twins.example, run):
        module = next((one.module for one in twin.steps if one.name == step.name), None)
        if module is None or cpu.find_obstacle(module) is not None:
            continue
        findings = check_numbers(twin.problem, module, cpu, where=where, seed=seed)
        return tuple(findings), f"{cpu.name} {_shape(twin)}{twins.explain(twin)}"
    return (), f"no device: {cpu.find_obstacle(step.module)}"


@dataclass(frozen=True)
class _Twins:
    """Where steps of a run are checked that only the CPU can run, which may be slow at its shape.

    Attributes
    ----------
    example : the recipe's golden example
    """

    run: Run
    example: Run

    @functools.cached_property
    def own(self) -> Run:
        """The run at the shape of the example; the example if the recipe refuses that."""
        run, shape = self.run, dict(self.example.problem.sizes)
        if dict(run.problem.sizes) == shape:
            return run
        try:
            return run_recipe(run.recipe, shape, options=run.problem.options, sizes=run.sizes)
        except (TransformError, KernelError):
            return self.example

    def explain(self, twin: Run) -> str:
        """What to say where numbers are of other sizes or options than the run's."""
        run = self.run
        is_same = run.problem.options == twin.problem.options and run.sizes == twin.sizes
        return "" if is_same else ", the recipe's example"


def _shape(run: Run) -> str:
    return "x".join(str(size) for size in run.problem.sizes.values())
