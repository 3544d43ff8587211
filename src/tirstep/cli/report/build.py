"""From judged runs to the values of a report. Nothing here prints or writes."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import tvm

import tirstep
from tirstep.lowering_checks import (
    CheckError,
    Counts,
    Device,
    Run,
    Verdict,
    print_module,
)
from tirstep.lowering_checks.compile.compiling import get_target
from tirstep.lowering_checks.compile.passes import Lowering, lower_through_passes
from tirstep.lowering_checks.devices import SimulatorDevice, Timing
from tirstep.lowering_checks.devices.simulator.access_counts import AccessCounts
from tirstep.lowering_checks.diff import blame_texts, carry_blame
from tirstep.lowering_checks.facts import counted_rows, facts_of_lowering
from tirstep.lowering_checks.steps import step_label
from tirstep.lowering_checks.verdict import golden_word, numbers_word
from tirstep.modules import AnyProblem
from tirstep.transforms.recipes import Step

from ..formatting import describe_recipe, format_shape, get_dtype
from ..judging import JudgedRecipe, Tell
from .links import link_source, note_lines
from .loops import find_buffers, find_nests
from .machine_code import get_machine_code
from .model import (
    ChecksPart,
    CountsPart,
    FactsPart,
    MachineCodePart,
    PassPart,
    Peaks,
    PythonPart,
    RecipePart,
    Report,
    SourcePart,
    StepPart,
    Text,
    TimePart,
)
from .python_source import find_python

Functions = tuple[tuple[str, int], ...]
COMPACTS = "s_tir.CompactBufferAllocation"
LINKED = ("cuda", "opencl")
"""Languages whose sources have a line or more for each statement."""
NOT_THE_LAST = "it was made of the last step alone; --every-step makes it of all"

# CUDA driver API, CUdevice_attribute.
CLOCK_RATE, MEMORY_CLOCK_RATE, MEMORY_BUS_WIDTH = 13, 36, 37
MULTIPROCESSORS, MAJOR, MINOR = 16, 75, 76
# CUDA C++ Programming Guide, "Arithmetic Instructions": float32 multiply-adds a clock and SM.
LANES = {(7, 0): 64, (7, 5): 64, (8, 0): 64}
LANES_SINCE_8_6 = 128


def build_report(parts: Sequence[RecipePart], *, device: Device | None, target: str) -> Report:
    """A report of recipes that `build_recipe` made; `device` is None where nothing was checked."""
    return Report(
        title=_find_title(parts),
        device=None if device is None else device.description,
        target=target,
        versions={"tirstep": tirstep.__version__, "TVM": tvm.__version__},
        peaks=find_peaks() if device is not None and device.has_clock else None,
        recipes=tuple(parts),
    )


def build_recipe(
    rung: JudgedRecipe,
    *,
    is_judged: bool,
    target: str,
    counts: Mapping[int, Counts | None] = MappingProxyType({}),
    example: ExampleCounts | None = None,
    every_step: bool = False,
    tell: Tell = lambda text: None,
) -> RecipePart:
    """Lower every step of a recipe, and put together all that the page shows of it.

    `counts` are the simulator's, by the numbers of the steps, and `example` those at the recipe's
    own example; `tell` hears what goes on. Machine code is made of the last step, or of all.
    """
    run = rung.run if rung.error is None else None
    problem = None if run is None else run.problem
    sizes = {} if run is None else {**run.recipe.config, **run.config}
    builder = StepBuilder(rung, counts, example, every_step, target, tell)
    return RecipePart(
        name=rung.recipe.name,
        about=describe_recipe(rung.recipe),
        kernel=rung.recipe.kernel_name,
        status=rung.status if is_judged or rung.status != "ok" else None,
        steps=() if run is None else builder.build(run),
        shape="" if problem is None else format_shape(problem.shape),
        dtype="" if problem is None else get_dtype(problem),
        config={name: str(value) for name, value in sizes.items()},
        refusal=rung.refusal,
        flops=None if problem is None else problem.flops,
        bytes=None if problem is None else problem.bytes,
        example_shape="" if example is None else format_shape(example.problem.shape),
        example_bytes=None if example is None else example.problem.bytes,
        findings=tuple(rung.own_findings),
    )


def _find_title(parts: Sequence[RecipePart]) -> str:
    """The kernels, with their shape and type where all recipes have one."""
    ran = [part for part in parts if part.steps]
    kernels = ", ".join(dict.fromkeys(part.kernel for part in parts))
    shapes = {part.shape.replace("x", "×") for part in ran}
    dtypes = {part.dtype for part in ran}
    return " ".join([kernels, *(names.pop() for names in (shapes, dtypes) if len(names) == 1)])


@dataclass(frozen=True)
class ExampleCounts:
    """The counts of a recipe's steps, by number, at its own example; None where none are there."""

    problem: AnyProblem
    counts: Mapping[int, Counts | None]


@dataclass(frozen=True)
class StepBuilder:
    """Makes the parts of one rung's steps; `counts` are by the steps' numbers."""

    rung: JudgedRecipe
    counts: Mapping[int, Counts | None]
    example: ExampleCounts | None
    every_step: bool
    target: str
    tell: Tell

    def build(self, run: Run) -> tuple[StepPart, ...]:
        """All steps of the run."""
        programs = [Text.of(print_module(step.module)) for step in run.steps]
        authors = blame_texts([program.lines for program in programs])
        lowered = []
        for step in run.steps:
            self.tell(f"lowering {run.label(step)}")
            lowered.append(_lower(step.module, self.target))
        sources = list_sources([lowering for lowering, _ in lowered])
        pythons = find_python(run)
        return tuple(
            self._step(run, *parts)
            for parts in zip(run.steps, programs, authors, pythons, lowered, sources, strict=True)
        )

    def _step(
        self,
        run: Run,
        step: Step,
        program: Text,
        authors: Sequence[int],
        python: PythonPart | None,
        lowered: tuple[Lowering, tuple[int, ...]],
        source: SourcePart,
    ) -> StepPart:
        (lowering, links), counts = lowered, self.counts.get(step.index)
        at_example = None if self.example is None else self.example.counts.get(step.index)
        compacted = [each.module for each in lowering.passes if each.name == COMPACTS]
        verdict = next((each for each in self.rung.verdicts if each.step is step), None)
        machine_code = MachineCodePart(missing=NOT_THE_LAST)
        if self.every_step or step is run.steps[-1]:
            machine_code = get_machine_code_for(lowering, self.target)
        return StepPart(
            label=step_label(step),
            name=step.name,
            source=Path(step.location).name,
            python=python,
            tir=program,
            authors=tuple(authors),
            trace=Text.of(str(step.trace)),
            device_source=source,
            links=links,
            machine_code=machine_code,
            passes=build_passes(lowering, program, tuple(authors)),
            pass_count=len(lowering.passes),
            nests=find_nests(step.module),
            buffers=find_buffers(step.module, compacted[0] if compacted else None),
            facts=list_facts(lowering, run.problem, counts),
            checks=None if verdict is None else _checks_part(verdict),
            time=None if verdict is None else time_part(verdict.timing, run.problem),
            counts=None if counts is None else counts_part(counts),
            example_counts=None if at_example is None else counts_part(at_example),
        )


def _lower(module: tvm.IRModule, target: str) -> tuple[Lowering, tuple[int, ...]]:
    """A module's lowering, and the line of its TIR for each line of its device source."""
    noted, lines = note_lines(module)
    lowering = lower_through_passes(noted, target)
    linked = lowering.source and lowering.language in LINKED
    return lowering, link_source(lowering, lines) if linked else ()


def get_machine_code_for(lowering: Lowering, target: str) -> MachineCodePart:
    """The SASS of what was lowered for a target, or why there is none."""
    architecture = str(dict(get_target(target).attrs).get("arch", ""))
    return get_machine_code(lowering.source.strip("\n"), lowering.language, architecture)


def list_sources(lowerings: Sequence[Lowering]) -> list[SourcePart]:
    """The sources of successive steps; the first one that has a source is the author of it all."""
    parts, before, authors = [], Text(()), list[int]()
    for step, lowering in enumerate(lowerings):
        text = Text.of(lowering.source)
        if not text.lines:
            missing = "there is no device code" if not lowering.failed else str(lowering.failed)
            parts.append(SourcePart(lowering.language, None, (), missing))
            continue
        authors = carry_blame(authors, before.lines, text.lines, author=step)
        before = text
        parts.append(SourcePart(lowering.language, text, tuple(authors), None))
    return parts


def build_passes(
    lowering: Lowering, program: Text, authors: tuple[int, ...]
) -> tuple[PassPart, ...]:
    """The passes that changed the module, with the blame of the text that each was given; `program`
    is the text of the module before them all.
    """
    parts: list[PassPart] = []
    known, last = {program: authors}, program
    printed = {_find_functions(lowering.module): program}

    def print_once(module: tvm.IRModule) -> Text:
        """Printing takes far longer than seeing that a module was printed already."""
        functions = _find_functions(module)
        if functions not in printed:
            printed[functions] = Text.of(print_module(module))
        return printed[functions]

    def carry(before: Text, after: Text, number: int) -> tuple[int, ...]:
        return tuple(carry_blame(known[before], before.lines, after.lines, author=-number))

    for each in lowering.changed:
        before, after = print_once(each.before), print_once(each.module)
        if before not in known:  # a part of the module alone, the device's perhaps
            known[before] = carry(last, before, each.number)
        known[after] = carry(before, after, each.number)
        last = after
        spent = round(each.seconds * 1e3, 3)
        parts.append(PassPart(each.number, each.name, spent, before, after, known[after]))
    return tuple(parts)


def _find_functions(module: tvm.IRModule) -> Functions:
    """The functions by name and identity; they never change, and the log of passes keeps them."""
    return tuple(
        (str(name.name_hint), hash(function)) for name, function in module.functions_items()
    )


def _checks_part(verdict: Verdict) -> ChecksPart:
    return ChecksPart(
        golden=golden_word([verdict]),
        numbers=numbers_word([verdict]),
        checked_on=verdict.checked_on,
        findings=tuple(verdict.findings),
        reference=verdict.run.problem.reference_name,
    )


def time_part(timing: Timing | None, problem: AnyProblem | None) -> TimePart | None:
    """A time, for the page."""
    if timing is None:
        return None
    flops = 0 if problem is None else problem.flops or 0
    return TimePart(
        median=timing.median * 1e6,
        lower=timing.lower * 1e6,
        upper=timing.upper * 1e6,
        repeats=timing.repeats,
        gflops=flops / timing.median / 1e9,
    )


def list_facts(lowering: Lowering, problem: AnyProblem, counts: Counts | None) -> FactsPart:
    """The facts of a lowered step, with what the simulator counted; or why there are none."""
    try:
        facts = facts_of_lowering(lowering, problem=problem)
    except CheckError as error:
        return FactsPart((), str(error))
    if not facts.kernels:
        return FactsPart((), facts.refusal)
    counted = () if counts is None else counted_rows(counts, problem.bytes)
    return FactsPart((*facts.rows(), *counted), facts.refusal)


def read_counts(device: Device, verdict: Verdict) -> Counts | None:
    """The counts of the run that gave a verdict, asked at once: a device keeps its last run's.

    None for other devices, and for a step that is wrong or that the simulator did not run.
    """
    if not isinstance(device, SimulatorDevice) or device.counts is None or verdict.numbers:
        return None
    if verdict.checked_on.partition(" ")[0] != device.name:  # a module may have no shape behind it
        return None
    return device.counts


def counts_part(counts: Counts) -> CountsPart:
    """The counts of a module's launches, for the page."""
    far = counts.scopes.get("global", AccessCounts())
    near = counts.scopes.get("shared", AccessCounts())
    return CountsPart(
        blocks=counts.blocks,
        barriers=counts.barriers,
        requests=far.requests,
        sectors=far.sectors,
        bytes=far.bytes,
        traffic=counts.traffic,
        shared_requests=near.requests,
        bank_conflicts=near.bank_conflicts,
    )


def find_peaks() -> Peaks | None:
    """The float32 and memory peaks of the first GPU from its clocks; None without a driver.

    They are the roofs of a roofline: Williams et al., CACM 52(4), 2009.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0):
        return None

    def read(attribute: int) -> int:
        value = ctypes.c_int()
        code = driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        return 0 if code else value.value

    lanes = LANES.get((read(MAJOR), read(MINOR)), LANES_SINCE_8_6)
    flops = 2.0 * lanes * read(MULTIPROCESSORS) * read(CLOCK_RATE) * 1e3
    # Memory moves data on both edges of its clock.
    moved = 2.0 * read(MEMORY_CLOCK_RATE) * 1e3 * read(MEMORY_BUS_WIDTH) / 8
    return Peaks(flops / 1e9, moved / 1e9) if flops and moved else None
