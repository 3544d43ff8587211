"""Verdicts: what the checks say of each step of a run, and of the last one in other runs.

`judge_run` yields them as it goes, and raises nothing: of a step that cannot be judged it says why.

An example mostly divides into whole tiles, in one type, with one config. Other runs show what it
does not, of tails, guards, types and knobs: `find_other_runs` draws a few of the same recipe, in
all of which stays what was asked for.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import tvm
from tvm import tirx
from tvm.tirx import Div, FloorDiv, FloorMod, For, Mod

from tirstep.modules import KernelError
from tirstep.modules.dtypes import dtype_facts
from tirstep.transforms.gpu_limits import MAX_THREADS
from tirstep.transforms.recipes import Step
from tirstep.transforms.schedule import TransformError
from tirstep.transforms.tir import constant, find_all, find_axes, get_axis

from .compile.compiling import count_iterations
from .device import THREAD_AXES, DeviceError, blank, is_scalar
from .devices import CpuDevice, Device, Timing
from .golden import GoldenStore
from .judgement import SAMPLERS, WHOLE_WORK, Judgement, Status, judge_numbers
from .legality.bounds import check_bounds
from .ownership import check_ownership, list_left_open, list_overflows
from .reference import ModuleProblem
from .reference.conditions import COMPARISONS
from .steps import (
    CheckError,
    Diff,
    Finding,
    Run,
    diff_steps,
    make_golden_problem,
    run_golden,
    run_recipe,
)

REFUSE, GUARD = "refuse", "guard"
ATTEMPTS = 8
"""How often something else is drawn where a recipe refuses what was."""
FIRST, NUMBERS = 2, 3
"""First runs of any program at sizes near its own constants, and how many constants are used, the
largest first."""
LARGE = 2**20
"""Elements, or statements, of a run at sizes that were not asked for."""
SLOW = 4.0
"""Seconds that a run may take at a program's own sizes where smaller ones show it too."""
THREADS = ("threads", "rows", "columns", "lanes", "block_y", "block_x")
"""Knobs whose product are a block's threads."""
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
    as they are, but for a tail that the run's config has: that always stays; and so do sizes of a
    recorded call that nothing relates to others.
    """
    known, repeated = {_identify(run)}, 0
    rng = random.Random(f"{seed} {run.recipe.name}")
    settled = run.problem.unrelated_sizes if isinstance(run.problem, ModuleProblem) else {}
    for other in _list_candidates(run, kept, rng):
        if other is None:
            continue
        if _identify(other.run) in known or not settled.items() <= other.run.problem.shape.items():
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
    recipe, golden = run.recipe, run.recipe.golden.shape
    is_anybodys = isinstance(run.problem, ModuleProblem)
    own = _list_runs_of_program(run) if is_anybodys else iter(())
    odd = find_odd_run(run)
    yield _tell(odd, "at an odd shape")
    yield from itertools.islice(own, FIRST)
    like = odd or run
    if is_anybodys:
        yield _open_sizes(run, like)
    yield _draw_knobs(run, kept, rng)
    yield _draw_narrow(like, kept, rng)
    for tail in () if "tail" in run.config else recipe.tails:
        if tail not in (REFUSE, like.config.get("tail")):
            other = try_run(like, config={**like.config, "tail": tail})
            yield _tell(other, f"with tail={tail}")
    names = list(golden)
    for config, _ in itertools.product(_list_configs(run), range(ATTEMPTS)) if names else ():
        ones = rng.sample(names, rng.randint(1, len(names)))
        shape = {name: 1 if name in ones else 2 * rng.randint(1, 3) + 1 for name in names}
        if (other := try_run(run, shape=shape, config=config)) is not None:
            yield OtherRun(other, "at extents of 1")
            break
    if not is_anybodys:
        yield _open_sizes(run, like)
    yield from own
    while (drawn := _draw_knobs(run, kept, rng)) is not None:
        narrow = _draw_narrow(drawn.run, kept, rng) if rng.random() < 0.5 else None
        yield drawn if narrow is None else OtherRun(narrow.run, f"{drawn.about} {narrow.about}")


def _open_sizes(run: Run, like: Run) -> OtherRun | None:
    """With sizes left open, and the tail that these need."""
    recipe = run.recipe
    last = recipe.tails[-1:]
    if not recipe.symbolic or run.config.get("tail") not in (None, *last):
        return None
    needed = {"tail": last[0]} if last else {}
    opened = try_run(like, config={**like.config, **needed}, symbolic=recipe.symbolic)
    return _tell(opened, "with open sizes")


def _list_runs_of_program(run: Run) -> Iterator[OtherRun | None]:
    """A program of anybody's at sizes that its own numbers say: its tiles, its threads, what it
    divides by and compares with; one of real size at smaller ones.
    """
    problem, names = cast(ModuleProblem, run.problem), [*run.problem.shape]
    if problem.kernel.literal_sizes:
        yield from list_smaller_runs(run)
        return
    numbers, moduli, compared = set[int](), set[int](), set[int]()
    # Of the kernel with its sizes open, and of the last step.
    modules = (problem.kernel.module, run.steps[-1].module) if names else ()
    for body in (it.body for module in modules for it in module.functions.values()):
        for kind in (FloorDiv, FloorMod, Div, Mod):
            moduli |= {constant(it.b) or 0 for it in find_all(body, kind)}
        for kind in (*COMPARISONS, "Min", "Max"):
            nodes = find_all(body, getattr(tirx, kind))
            found = {constant(side) or 0 for it in nodes for side in (it.a, it.b)}
            numbers |= found
            compared |= found if kind in COMPARISONS else set()
        axes = {str(it.node.thread_tag): it.value for it in find_axes(body)}
        for loop in find_all(body, For):
            numbers.add(constant(loop.extent) or 0)
            axes[get_axis(loop) or ""] = loop.extent
        numbers |= {constant(it) or 0 for it in axes.values()}
        if any(name in THREAD_AXES and constant(it) is None for name, it in axes.items()):
            numbers.add(MAX_THREADS)
    moduli = {it for it in moduli if 1 < it <= 4 * MAX_THREADS}
    numbers = {it for it in numbers | moduli if 1 < it <= 4 * MAX_THREADS}
    # One more than so many tiles as a condition tells from others.
    counts = compared - moduli - {1, *problem.shape.values()}
    whole = {it * count for it in moduli for count in counts}
    sizes = sorted(it + 1 for it in whole if 0 < it <= 4 * MAX_THREADS)[:NUMBERS]
    for most in sorted(numbers, reverse=True)[:NUMBERS]:
        step = math.lcm(*(it for it in moduli if it <= most), most)
        sizes += 3 * most + 5, step if step <= 4 * most else most, most + 1, most - 1, 2 * most
    for size in sizes:
        others = [try_run(run, shape=dict.fromkeys(names, size))]
        tensors = [it.shape for other in others if other for it in other.problem.arguments]
        if max(size ** len(names), *map(math.prod, tensors), 0) > LARGE:
            short = {name: 2 * place + 3 for place, name in enumerate(names)}
            others = [try_run(run, shape={**short, name: size}) for name in names]
        yield from (_tell(other, "near its numbers") for other in others)


def list_smaller_runs(run: Run, *, most: float = WHOLE_WORK / 4) -> Iterator[OtherRun]:
    """A program of real size at smaller literals; nothing of one that has up to `most` elements,
    and runs as many statements.
    """
    if not isinstance(run.problem, ModuleProblem) or not run.problem.kernel.literal_sizes:
        return
    kernel, sizes = run.problem.kernel, run.problem.kernel.literal_sizes
    shapes = [
        [constant(extent) or 0 for extent in parameter.shape]
        for parameter in kernel.function.params
        if not is_scalar(parameter)
    ]

    def count_elements(numbers: Mapping[str, int]) -> int:
        extents = {sizes[name]: extent for name, extent in numbers.items()}
        return sum(math.prod(extents.get(it, it) for it in shape) for shape in shapes)

    work = count_iterations(kernel.function.body, open_extent=1)
    if max(work, count_elements(sizes)) <= most:
        return

    def at_literals(numbers: Mapping[str, int]) -> Run | None:
        """The run with other numbers in its text; None where it refuses them, or is large yet."""
        if count_elements(numbers) > LARGE:
            return None
        with contextlib.suppress(Exception):  # the user's schedule may raise anything
            recipe = replace(run.recipe, kernel=kernel.at_literals(numbers))
            other = run_recipe(recipe, {}, config=run.config)
            return other if cast(ModuleProblem, other.problem).work <= LARGE else None
        return None

    for about, extra in (("at smaller sizes", 0), ("at smaller, odd sizes", 1)):
        halvings = range(1, (max(sizes.values()) - 1).bit_length())
        smaller = (
            {name: max(size >> each, 4) + extra for name, size in sizes.items()}
            for each in halvings
        )
        if (found := next(filter(None, map(at_literals, smaller)), None)) is not None:
            yield OtherRun(found, about)


def _tell(run: Run | None, about: str) -> OtherRun | None:
    return None if run is None else OtherRun(run, about)


def _draw_narrow(like: Run, kept: Collection[str], rng: random.Random) -> OtherRun | None:
    """In a type of fewer bytes, or in any other one where none has fewer; the defaults of
    accumulator and output follow it.
    """
    options = dict(like.problem.options)
    if {"dtype", "acc", "out"} & {*kept} or "dtype" not in options:
        return None
    own = str(options["dtype"])
    rest = {name: it for name, it in options.items() if name not in ("acc", "out")}
    others = [name for name in like.problem.kernel.dtypes if name != own]
    narrow = [name for name in others if dtype_facts(name).bytes < dtype_facts(own).bytes]
    for name in rng.sample(narrow or others, len(narrow or others)):
        if (other := try_run(like, options={**rest, "dtype": name})) is not None:
            return OtherRun(other, f"in {name}")
    return None


def _draw_knobs(run: Run, kept: Collection[str], rng: random.Random) -> OtherRun | None:
    """With other values of all knobs that are not kept, and of each extent: short, the golden
    example's, that and one, or a prime a little larger.
    """
    recipe = run.recipe
    free = [name for name in recipe.choices if name not in kept and name != "tail"]
    if not free and not recipe.golden.shape:  # a module has the sizes that it has
        return None
    for _ in range(ATTEMPTS):
        changed = rng.sample(free, rng.randint(1, len(free))) if free else []
        drawn = {}
        for name in changed:  # a command line can give a choice that is not None, or the default
            default = recipe.config[name]
            values = [it for it in recipe.choices[name] if it is not None or default is None]
            drawn[name] = rng.choice(values)
        # As few threads as a block may have, where they are single numbers.
        fitted = {name: it for name in THREADS if isinstance(it := drawn.get(name), int)}
        while math.prod(fitted.values()) > MAX_THREADS:
            fitted[max(fitted, key=fitted.__getitem__)] //= 2
        config = {**run.config, **drawn, **fitted}
        tails = [tail for tail in recipe.tails if tail != REFUSE]
        if tails and "tail" not in run.config:
            config["tail"] = rng.choice(tails)
        shape = {}
        for name, size in recipe.golden.shape.items():
            short = (rng.randint(2, SHORT), rng.randint(2, SHORT))
            shape[name] = rng.choice((*short, size, size + 1, _next_prime(size)))
        if (other := try_run(run, shape=shape, config=config)) is not None:
            return OtherRun(other, "with other knobs" if free else "at another shape")
    return None


def find_odd_run(run: Run) -> Run | None:
    """A run like another, at a shape near its recipe's golden one whose extents no tile divides.

    There tails and guards are needed, which the golden example mostly does without. Extents are the
    next primes, but the last, mostly that of a sum, which is one more alone: a remainder of 1 is
    the least tail there is. The tail is the run's own, or else guards, or else another that the
    recipe has. Extents that the recipe takes only whole stay as they are; None where all do, and
    where there are none.
    """
    golden = dict(run.recipe.golden.shape)
    if not golden:
        return None
    *names, last = golden
    odd = {**{name: _next_prime(golden[name]) for name in names}, last: golden[last] + 1}
    for config in _list_configs(run):
        if (found := try_run(run, shape=odd, config=config)) is not None:
            return found
    for config in _list_configs(run):
        best, shape, groups = None, golden, _halve([*odd])
        while groups:  # several at once: a refusal mostly comes early, and a run costs much more
            group = groups.pop(0)
            larger = {**shape, **{name: odd[name] for name in group}}
            if (found := try_run(run, shape=larger, config=config)) is not None:
                best, shape = found, larger
            elif len(group) > 1:
                groups = [*_halve(group), *groups]
        if best is not None:
            return best
    return None


def _halve(names: list[str]) -> list[list[str]]:
    middle = (len(names) + 1) // 2
    return [half for half in (names[:middle], names[middle:]) if half]


def _next_prime(number: int) -> int:
    while True:
        number += 1
        if all(number % divisor for divisor in range(2, int(number**0.5) + 1)):
            return number


def _list_configs(run: Run) -> list[dict[str, object]]:
    """The run's config, with each tail that the recipe has where none was given, guards first."""
    given, tails = dict(run.config), run.recipe.tails
    if "tail" in given or not tails:
        return [given]
    return [{**given, "tail": tail} for tail in sorted(tails, key=lambda name: name != GUARD)]


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


Findings = tuple[Finding, ...]
ERRORS = (CheckError, DeviceError, KernelError, TransformError)
NO_DEVICE = "no device"


@dataclass(frozen=True)
class Verdict:
    """What the checks say of one step.

    Attributes
    ----------
    run : that the step is one of
    before : the step before; None for the kernel as it was written
    golden : findings; None where no goldens were asked or the step has none (another dtype, say)
    status : what the numbers, or the simulator, say of it
    numbers : findings; of the last step, those of `check_bounds` and `check_ownership` too
    checked_on : the device and shape of the numbers, as ``"cpu 64x48x32"``, and whether they are
        the recipe's example's, with another config or other options than the run's; of another run
        also what it has that the golden example has not; ``"no device"`` where none ran it
    reason : why it was not judged, or why its numbers were not compared; "" otherwise
    unrun : what of it never ran: of that nothing is said
    part : what of the step it is said of, where not of all: ``"8 of 256 thread blocks"``
    timing : None where the device has no clock, the step cannot be launched, or is wrong
    about : what another run is, as ``"at an odd shape"``; None for a step of the run itself
    left_open : of the last step, what the rules about memory did not decide (`list_left_open`)
    """

    run: Run
    step: Step
    before: Step | None
    golden: Findings | None
    status: Status
    numbers: Findings
    checked_on: str
    reason: str = ""
    part: str = ""
    unrun: tuple[str, ...] = ()
    timing: Timing | None = None
    about: str | None = None
    left_open: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        from .notebook import render_verdict

        return render_verdict(self)

    @functools.cached_property
    def diff(self) -> Diff | None:
        """Against the step before, made when it is asked for; None without one."""
        return None if self.before is None else diff_steps(self.before, self.step)

    @property
    def findings(self) -> Findings:
        """All findings of the step."""
        return (*(self.golden or ()), *self.numbers)


def golden_word(verdicts: Iterable[Verdict]) -> str | None:
    """What the goldens say of some steps: "ok", "failed", or None where none was asked."""
    asked = [verdict.golden for verdict in verdicts if verdict.golden is not None]
    return ("failed" if any(asked) else "ok") if asked else None


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

    Goldens are compared with the recipe's golden example, whatever the run's shape. A step that the
    device cannot run yet (its loops are not bound) is checked on the CPU, at the shape of the
    golden example: with the run's own config and options if the recipe takes them there, otherwise
    with those of the example; the verdict says which. A step that the device should be able to run
    and cannot, because TVM does not lower it, for example, has a finding ("lowering"), and is
    checked on the CPU as well; the steps after it are judged like any other. On a device with a
    clock, right steps are timed, on random floats, unless `timed` is False. If no step was wrong,
    the verdicts of the last steps of `others` (from `find_other_runs`, for example) come last, each
    with its own run; those that cannot be judged are left out.
    """
    judged, is_right = _judge_steps(run, device, store, seed, timed), True
    for step in run.steps:
        try:
            verdict = next(judged)
        except ERRORS as error:  # the recipe refuses its golden example, say
            finding = Finding("numbers", run.label(step), str(error))
            failed = Judgement(Status.WRONG, (finding,))
            yield _make_verdict(run, step, failed, _name_place(device.name, run))
            return
        is_right = is_right and verdict.status is not Status.WRONG
        yield verdict
    for other in others if is_right else ():
        run, step = other.run, other.run.steps[-1]
        runner: Device = device if device.find_obstacle(step.module) is None else CpuDevice()
        found = judge_numbers(run.problem, step.module, runner, where=run.label(step), seed=seed)
        checked_on = f"{found.device or runner.name} {_describe(run)}"
        is_told = isinstance(run.problem, ModuleProblem)  # of its first step
        left_open = list_overflows(step.module) if run.problem.symbolic and not is_told else ()
        verdict = _make_verdict(run, step, found, checked_on)
        if verdict.status is not Status.NOT_JUDGED:
            yield replace(verdict, about=other.about, left_open=tuple(left_open))


def _judge_steps(
    run: Run, device: Device, store: GoldenStore | None, seed: int, timed: bool
) -> Iterator[Verdict]:
    problem, example = make_golden_problem(run.recipe), run.recipe.golden
    is_golden = run.problem == problem and dict(run.config) == dict(example.config)
    small = run if is_golden else run_golden(run.recipe)
    checked = [] if store is None else store.check(small)
    goldens = {it.name: _place(found, it) for it, found in zip(small.steps, checked, strict=False)}

    @functools.cache
    def shrink() -> Sequence[Run]:
        """The run at the shape of the example, the example, and the run itself."""
        shape = dict(small.problem.shape)
        is_small = dict(run.problem.shape) == shape
        return (run if is_small else try_run(run, shape=shape) or small), small, run

    smaller = functools.cache(lambda: [it.run for it in list_smaller_runs(run, most=0)])
    before: Step | None = None
    for step in run.steps:
        judged, checked_on = _judge_step(run, shrink, smaller, step, device, seed)
        verdict = _make_verdict(run, step, judged, checked_on)
        timing = None
        has_time = timed and device.has_clock and verdict.status is Status.RIGHT
        if has_time and device.find_obstacle(step.module) is None:
            inputs = run.problem.float_inputs(seed)
            outputs = [blank(tensor) for tensor in run.problem.outputs]
            timing = device.time(step.module, run.problem.make_arguments(inputs, outputs))
        golden = goldens.get(step.name)
        if isinstance(run.problem, ModuleProblem) and before is None:  # once, of open sizes
            overflows = list_overflows(run.problem.kernel.module)
            verdict = replace(verdict, left_open=(*verdict.left_open, *overflows))
        yield replace(verdict, before=before, golden=golden, timing=timing)
        before = step


def _make_verdict(run: Run, step: Step, judged: Judgement, checked_on: str) -> Verdict:
    """The verdict of a step, with what the rules about memory say of the last."""
    found, left_open = judged.findings, tuple[str, ...]()
    if step is run.steps[-1]:
        label = run.label(step)
        for check in (check_bounds, check_ownership):
            found = (*found, *check(step.module, where=label))
        left_open = tuple(list_left_open(step.module))
    status, reason = (Status.WRONG, "") if found else (judged.status, judged.reason)
    is_scaled = bool(getattr(run.problem.kernel, "scaled_to", ()))  # its lines are in no file
    placed = tuple(found) if is_scaled else _place(found, step)
    verdict = Verdict(run, step, None, None, status, placed, checked_on, reason, judged.part)
    return replace(verdict, left_open=left_open, unrun=judged.unrun)


def _place(findings: Iterable[Finding], step: Step) -> Findings:
    """The findings with the step's place; TVM numbers the lines of a file, and calls it <str>."""
    file, _, line = step.location.rpartition(":")
    placed = [finding.at(step.location) for finding in findings]
    if not line.isdecimal():
        return tuple(placed)
    named = (it.message.replace("[<str>:", f"[{file}:") for it in placed)
    return tuple(replace(it, message=text) for it, text in zip(placed, named, strict=True))


def _judge_step(
    run: Run,
    fallbacks: Callable[[], Sequence[Run]],
    smaller: Callable[[], Sequence[Run]],
    step: Step,
    device: Device,
    seed: int,
) -> tuple[Judgement, str]:
    """What is said of a step, and what of it was run where: on the device, or on the CPU what the
    device does not run, at the shape of the golden example, since it may be slow at the run's own.
    """
    cpu, obstacle = CpuDevice(), device.find_obstacle(step.module)
    # Without its instructions yet, each lane computes all of its warp's tile: minutes, simulated.
    is_slow = run.recipe.arch and device.name == "simulator" and not cpu.find_obstacle(step.module)
    first = Judgement(Status.NOT_JUDGED, reason=obstacle or "")
    if device.name == cpu.name or not (is_slow or obstacle):
        first, judged_run = _judge_in_time(run, smaller, step, step.module, device, seed)
        if first.device or device.name == cpu.name:
            return first, _name_place(first.device, judged_run)
    for other in fallbacks():
        module = next((each.module for each in other.steps if each.name == step.name), None)
        if module is None or cpu.find_obstacle(module) is not None:
            continue
        found, other = _judge_in_time(other, smaller, step, module, cpu, seed)
        is_same = run.problem.options == other.problem.options and run.config == other.config
        note = "" if is_same else ", the recipe's example"
        if first.findings:  # TVM does not lower it for the device
            new = (it for it in found.findings if it not in first.findings)
            found = replace(first, findings=(*first.findings, *new), device=found.device)
        return found, f"{_name_place(found.device, other)}{note}"
    if not first.reason:
        first = replace(first, reason=str(cpu.find_obstacle(step.module)))
    return first, NO_DEVICE


def _judge_in_time(
    run: Run,
    smaller: Callable[[], Sequence[Run]],
    step: Step,
    module: tvm.IRModule,
    device: Device,
    seed: int,
) -> tuple[Judgement, Run]:
    """What is said of a step's module in a run, and the run that it is said of: one at smaller
    sizes, where the numbers in a program's text are too large for the device.
    """
    where = run.label(step)
    seconds = 0.0 if isinstance(device, SAMPLERS) else device.estimate(module)
    is_slow = seconds > SLOW
    own = Judgement(Status.NOT_JUDGED, reason=f"a run takes {device.name} about {seconds:,.0f} s")
    if not is_slow:
        own = judge_numbers(run.problem, module, device, where=where, seed=seed)
    for scaled in smaller() if own.status is Status.NOT_JUDGED else ():
        each = next(it.module for it in scaled.steps if it.name == step.name)
        judged = judge_numbers(scaled.problem, each, device, where=where, seed=seed)
        if judged.status is not Status.NOT_JUDGED:
            reason = f"not at its own sizes: {own.reason}"
            return replace(judged, part="smaller sizes", reason=reason), scaled
    if is_slow:
        own = judge_numbers(run.problem, module, device, where=where, seed=seed)
    return own, run


def _name_place(device: str, run: Run) -> str:
    """``cpu 64x48x32``; the device alone of a module, which has no sizes."""
    return f"{device} {run.problem.shape_text}".rstrip() if device else NO_DEVICE


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
    for name, it in changed.items():
        text = "x".join(map(str, it)) if isinstance(it, tuple | list) else str(it).lower()
        words.append(f"{name}={text}")
    return " ".join(filter(None, words))
