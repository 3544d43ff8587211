"""``tirstep facts``: what the GPU gets of each step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from .formatting import format_shape
from .request import (
    Config,
    Dtype,
    FunctionName,
    Json,
    KernelOptions,
    OnlyStep,
    RecipeName,
    Request,
    Shape,
    TargetName,
    do_each,
    make_request,
    pick_step,
    run_requested,
)
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.lowering_checks import Run
    from tirstep.lowering_checks.facts import CompiledFacts, Fact, Facts
    from tirstep.transforms.recipes import Recipe, Step

    from .json_output import Document
    from .screen import Screen


def command(
    recipe: RecipeName,
    step: OnlyStep = None,
    target: TargetName = "cuda",
    arch: Annotated[
        list[str] | None,
        typer.Option(
            "--arch",
            metavar="ARCH",
            help="Compile for this architecture, such as sm_80; may be given several times.",
        ),
    ] = None,
    all_archs: Annotated[
        bool, typer.Option("--all-archs", help="Compile for every architecture from sm_75 on.")
    ] = False,
    counts: Annotated[
        bool,
        typer.Option(
            "--counts",
            help="Count what the first GPU block does, on the simulator: seconds for each step.",
        ),
    ] = False,
    shape: Shape = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    config: Config = None,
    function: FunctionName = None,
    json: Json = False,
) -> int:
    """Say what the GPU gets of each step.

    The launch, memory accesses, barriers; with --arch or --all-archs also registers, spills,
    occupancy and instructions, for which it needs a compiler for CUDA (pip install 'tirstep[cuda]',
    or nvcc), but no GPU; with --counts traffic and bank conflicts. What stands in a loop, and a
    call of a helper, counts once. Without --shape, that of the recipe's own example.
    """
    if arch and all_archs:
        raise UseError("--all-archs is every architecture; give it without --arch")
    request = make_request(shape, dtype, option, config, function=function)
    archs = choose_architectures(arch or [], all_archs=all_archs)
    asked = FactsOptions(target, archs, counts, None)
    do = partial(show_recipe, request=request, step=step, asked=asked, as_json=json)
    return do_each(recipe, request, do, as_json=json)


def show_recipe(
    recipe: Recipe, request: Request, step: str | None, asked: FactsOptions, *, as_json: bool
) -> int:
    """Print the facts of a recipe's steps, or of one."""
    run = run_requested(recipe, request, example="default")
    steps = run.steps if step is None else (pick_step(run, step),)
    options = replace(asked, reference=_run_reference(run, request))
    return show_facts(run, steps, options, as_json=as_json)


@dataclass(frozen=True)
class FactsOptions:
    """What is asked for; `reference` is the run whose facts a shape may lose."""

    target: str
    architectures: Sequence[str]
    counts: bool
    reference: Run | None


def show_facts(run: Run, steps: Sequence[Step], options: FactsOptions, *, as_json: bool) -> int:
    """Print the facts of some steps."""
    from .json_output import print_document, run_keys
    from .screen import Screen

    screen = Screen()
    with screen.working():
        found = [_get_step_facts(screen, run, step, options) for step in steps]
    if as_json:
        keys = [_step_keys(facts) for facts in found]
        print_document("facts", **run_keys(run), target=options.target, steps=keys)
    else:
        _show(screen, run, found)
    return 0


@dataclass(frozen=True)
class _Counted:
    """The facts that the simulator counted, or why there are none."""

    rows: Sequence[Fact] = ()
    error: str | None = None


@dataclass(frozen=True)
class _StepFacts:
    """The facts of a step, and `notes` of what its shape loses.

    Attributes
    ----------
    counted : None where nothing was to be counted
    compiled : for each architecture that was asked for
    """

    step: Step
    label: str
    facts: Facts
    notes: Sequence[str]
    counted: _Counted | None
    compiled: Sequence[CompiledFacts]


def choose_architectures(names: Sequence[str], *, all_archs: bool) -> tuple[str, ...]:
    """The names of architectures that are asked for; an unknown one, or none to compile with, is
    refused.
    """
    from tirstep.lowering_checks.facts import ARCHITECTURES, get_architecture, get_compiler

    chosen = tuple(ARCHITECTURES) if all_archs else tuple(dict.fromkeys(names))
    for name in chosen:
        get_architecture(name)
    if chosen:
        get_compiler()
    return chosen


def _get_step_facts(screen: Screen, run: Run, step: Step, options: FactsOptions) -> _StepFacts:
    from tirstep.lowering_checks.facts import compile_everywhere, get_facts
    from tirstep.lowering_checks.steps import step_label

    screen.doing(f"lowering {run.label(step)}")
    facts = get_facts(step.module, options.target, problem=run.problem)
    notes = _find_notes(facts, step, options)
    counted = None
    if options.counts and facts.refusal is None:
        screen.doing(f"counting {run.label(step)}")
        counted = _count(run, step)
    compiled: Sequence[CompiledFacts] = ()
    if options.architectures and facts.refusal is None and facts.language == "cuda":
        screen.doing(f"compiling {run.label(step)}")
        compiled = compile_everywhere(facts, options.architectures)
    return _StepFacts(step, step_label(step), facts, notes, counted, compiled)


def _count(run: Run, step: Step) -> _Counted:
    from tirstep.lowering_checks import DeviceError, count_accesses
    from tirstep.lowering_checks.facts import counted_rows

    try:
        counts = count_accesses(run.problem, step.module)
        return _Counted(tuple(counted_rows(counts, run.problem.bytes)))
    except DeviceError as error:
        return _Counted(error=str(error))


def _run_reference(run: Run, request: Request) -> Run | None:
    """The recipe at its own example's shape, with the config and options that are requested."""
    from tirstep.lowering_checks import run_recipe
    from tirstep.modules import KernelError
    from tirstep.transforms.errors import TransformError

    if request.shape is None:
        return None
    shape, config = run.recipe.default_example.shape, dict(run.config)
    try:
        return run_recipe(run.recipe, shape, options=run.problem.options, config=config)
    except (TransformError, KernelError):
        return None


def _find_notes(facts: Facts, step: Step, options: FactsOptions) -> list[str]:
    from tirstep.lowering_checks.facts import find_losses, get_facts

    reference = options.reference
    twins = {} if reference is None else {twin.name: twin for twin in reference.steps}
    if reference is None or step.name not in twins:
        return []
    theirs = get_facts(twins[step.name].module, options.target, problem=reference.problem)
    return find_losses(facts, theirs, place=f"at {format_shape(reference.problem.shape)}")


def _show(screen: Screen, run: Run, found: Sequence[_StepFacts]) -> None:
    from .tables import show_facts_table

    shape = format_shape(run.problem.shape)
    screen.line((run.recipe.name, "bold"), (f"  {shape}" if shape else "", "dim"))
    lowered = [facts for facts in found if facts.facts.refusal is None]
    if lowered:
        show_facts_table(screen, {facts.label: _rows(facts) for facts in lowered})
    for facts in lowered:
        if facts.compiled:
            _show_compiled(screen, facts)
    first = found.index(lowered[0]) if lowered else 0
    remarks = [
        remark
        for place, facts in enumerate(found)
        for remark in _remarks(facts, lowered[0].label if place < first else None)
    ]
    if remarks:
        screen.line()
    for word, style, sentence in remarks:
        screen.line((f"{word}  ", style), sentence, wrap=True)


def _rows(found: _StepFacts) -> Sequence[Fact]:
    return (*found.facts.rows(), *(found.counted.rows if found.counted is not None else ()))


def _remarks(found: _StepFacts, first: str | None) -> Iterator[tuple[str, str, str]]:
    """What is to be said of a step below the tables: a word, its style, and a sentence.

    `first` is the first step with facts, where that comes later.
    """
    if found.facts.refusal is not None:
        refusal = found.facts.refusal
        if first is not None and found.facts.lowered is not None:
            refusal += f" before step {first}"
        yield "no facts", "dim", f"{found.label}: {refusal}"
    if found.counted is not None and found.counted.error is not None:
        yield "no counts", "dim", f"{found.label}: {found.counted.error}"
    for note in found.notes:
        yield "note", "yellow", f"{found.label}: {note}"


def _show_compiled(screen: Screen, found: _StepFacts) -> None:
    from tirstep.lowering_checks.facts.compiled import MISSING_NVDISASM

    from .tables import show_facts_table

    screen.line()
    compiler = found.compiled[0].compiler
    screen.line((found.label, "bold"), (f"  compiled by {compiler}", "dim"))
    ran = {each.architecture: each.rows() for each in found.compiled if each.refusal is None}
    if ran:
        show_facts_table(screen, ran)
    for each in found.compiled:
        if each.refusal is not None:
            screen.line(("refused  ", "bold red"), each.refusal, wrap=True)
    if any(kernel.instructions is None for each in found.compiled for kernel in each.kernels):
        screen.line(("no instructions  ", "dim"), MISSING_NVDISASM, wrap=True)


def _step_keys(found: _StepFacts) -> Document:
    counted = found.counted
    return {
        "number": found.step.index,
        "name": found.step.name,
        "source": found.step.location,
        "refused": found.facts.refusal,
        "notes": list(found.notes),
        "facts": _fact_keys(found.facts.rows()) if found.facts.kernels else [],
        "counted": None
        if counted is None
        else {"refused": counted.error, "facts": _fact_keys(counted.rows)},
        "compiled": [
            {
                "architecture": each.architecture,
                "compiler": each.compiler,
                "refused": each.refusal,
                "facts": _fact_keys(each.rows()),
            }
            for each in found.compiled
        ],
    }


def _fact_keys(facts: Sequence[Fact]) -> list[Document]:
    return [fact._asdict() for fact in facts]
