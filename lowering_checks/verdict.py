"""Verdicts: what the checks say of each step of a run, and of the last one in other runs.

`judge_run` yields them as it goes, and raises nothing: a step that cannot be judged has a finding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

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
from .other_runs import OtherRun
from .ownership import check_ownership
from .steps import Run, make_golden_problem, run_golden, run_recipe

Findings = tuple[Finding, ...]
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
    checked_on : the device and shape of the numbers, as ``"cpu 64x48x32"``, and whether they are
        the recipe's example's, with another config or other options than the run's; of another run
        also what it has that the golden example has not
    timing : None where the device has no clock, the step cannot be launched, or is wrong
    about : what another run is, as ``"at an odd shape"``; None for a step of the run itself
    """

    run: Run
    step: Step
    diff: Diff | None
    golden: Findings | None
    numbers: Findings
    checked_on: str
    timing: Timing | None = None
    about: str | None = None

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
    others: Iterable[OtherRun] = (),
) -> Iterator[Verdict]:
    """Judge a run step by step, as it goes.

    Goldens are held against the recipe's golden example, whatever the run's shape. A step that
    the device cannot run yet (its loops are not bound) is checked on the CPU, at the shape of
    the golden example: with the run's own config and options if the recipe takes them there,
    otherwise with those of the example, which the verdict says. A step that the device should
    run and cannot, since TVM does not lower it, say, has a finding ("lowering") for that, and
    is checked on the CPU as well; the steps after it are judged like any other. Times are taken
    on a device with a clock, of right steps only, on random floats, unless `timed` is False.

    The verdicts of the last steps of `others` come last, each with its own run, unless the numbers
    of a step were wrong: of `find_other_runs`, say, of which those are left out that no device
    runs. A step that cannot be judged has a finding that says why, and is the last.
    """
    judged = _judge_steps(run, device, store, seed, timed)
    is_right = True
    for step in run.steps:
        try:
            verdict = next(judged)
        except ERRORS as error:
            # What cannot be judged has been run nowhere.
            is_refused = run.problem.find_refusal() is not None
            place = (
                "no device: it cannot be judged" if is_refused else _name_place(device.name, run)
            )
            yield _fail(run, step, place, str(error))
            return
        is_right = is_right and not verdict.numbers
        yield verdict
    if is_right:
        for other in others:
            yield from _judge_other(other, device, seed)


def _fail(run: Run, step: Step, checked_on: str, message: str) -> Verdict:
    finding = Finding("numbers", run.label(step), message).at(step.location)
    return Verdict(run, step, None, None, (finding,), checked_on)


def _judge_steps(
    run: Run, device: Device, store: GoldenStore | None, seed: int, timed: bool
) -> Iterator[Verdict]:
    small = run if _is_golden(run) else run_golden(run.recipe)
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
            timing = device.time(step.module, run.problem.make_arguments(inputs, outputs))
        diff = None if before is None else diff_steps(before, step)
        yield Verdict(run, step, diff, goldens.get(step.name), numbers, checked_on, timing)
        before = step


def _is_golden(run: Run) -> bool:
    """Whether a run is that of its recipe's golden files, which then need none of their own."""
    example = run.recipe.golden
    problem = make_golden_problem(run.recipe)
    return run.problem == problem and dict(run.config) == dict(example.config)


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
    # Without its instructions yet, each lane computes all of its warp's tile: minutes, simulated.
    is_slow = run.recipe.arch and device.name == "simulator" and not cpu.find_obstacle(step.module)
    if (is_slow or device.find_obstacle(step.module) is not None) and device.name != cpu.name:
        return _check_on_cpu(run, fallbacks, step, seed)
    try:
        findings = check_numbers(run.problem, step.module, device, where=where, seed=seed)
        return tuple(findings), _name_place(device.name, run)
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
        return tuple(findings), f"{_name_place(cpu.name, other)}{note}"
    return (), f"no device: {cpu.find_obstacle(step.module)}"


def _shrink(run: Run, example: Run) -> Run:
    """The run at the shape of the example; the example if the recipe refuses that."""
    shape = dict(example.problem.shape)
    if dict(run.problem.shape) == shape:
        return run
    try:
        return run_recipe(run.recipe, shape, options=run.problem.options, config=run.config)
    except (TransformError, KernelError):
        return example


def _name_place(device: str, run: Run) -> str:
    """``cpu 64x48x32``; the device alone of a module, which has no sizes."""
    return f"{device} {run.problem.shape_text}".rstrip()


def _judge_other(other: OtherRun, device: Device, seed: int) -> Iterator[Verdict]:
    """The verdict of the last step of another run, if there is a device that runs it."""
    run = other.run
    step = run.steps[-1]
    runner: Device = device if device.find_obstacle(step.module) is None else CpuDevice()
    if runner.find_obstacle(step.module) is not None:
        return
    where, checked_on = run.label(step), f"{runner.name} {_describe(run)}"
    try:
        found = check_numbers(run.problem, step.module, runner, where=where, seed=seed)
    except ERRORS as error:
        failed = _fail(run, step, checked_on, f"{other.about}: {error}")
        yield replace(failed, about=other.about)
        return
    found = [*found, *check_ownership(step.module, where=where)]
    yield Verdict(run, step, None, None, _place(found, step), checked_on, about=other.about)


def _describe(run: Run) -> str:
    """The shape of another run, its type where it is no float32, its open sizes, and its knobs."""
    golden = run.recipe.golden
    options = {**run.recipe.default_example.options, **golden.options}
    changed = {
        name: it
        for name, it in run.config.items()
        if it != golden.config.get(name, run.recipe.config[name])
    }
    usual = options.get("dtype", "float32")
    dtype = str(run.problem.options.get("dtype", usual))
    words = [run.problem.shape_text, *([] if dtype == usual else [dtype])]
    if run.problem.symbolic:
        words.append(f"{', '.join(run.problem.symbolic)} open")
    words += [f"{name}={_spell(it)}" for name, it in changed.items()]
    return " ".join(filter(None, words))


def _spell(value: object) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple | list) else str(value).lower()
