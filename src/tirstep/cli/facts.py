"""``tirstep facts``: what the GPU gets of each step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from .formatting import format_shape
from .request import (
    RECIPE_OPTIONS,
    Architectures,
    Json,
    OnlyStep,
    RecipeName,
    Request,
    TargetName,
    pick_step,
    run_each,
    with_options,
)
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.lowering_checks import Run
    from tirstep.lowering_checks.facts import CompiledFacts, Fact, Facts
    from tirstep.transforms.recipes import Step

    from .json_output import Document
    from .screen import Screen


@with_options(*RECIPE_OPTIONS)
def command(
    recipe: RecipeName,
    request: Request,
    step: OnlyStep = None,
    target: TargetName = "cuda",
    arch: Architectures = None,
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
    archs = choose_architectures(arch or [], all_archs=all_archs)

    def show(run: Run) -> int:
        from .json_output import print_document, run_keys
        from .screen import Screen

        steps = run.steps if step is None else (pick_step(run, step),)
        screen, found = Screen(), []
        with screen.working():
            for each in steps:
                screen.doing(f"lowering {run.label(each)}")
                found.append(_get_step_facts(screen, run, each, target, archs, counts))
        if json:
            documents = [_step_keys(facts) for facts in found]
            print_document("facts", **run_keys(run), target=target, steps=documents)
        else:
            _show(screen, run, found)
        return 0

    return run_each(recipe, request, show, as_json=json, example="default")


def choose_architectures(names: Sequence[str], *, all_archs: bool = False) -> tuple[str, ...]:
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


@dataclass(frozen=True)
class _StepFacts:
    """The facts of a step.

    Attributes
    ----------
    counted : what the simulator counted, or why there is none; None where nothing was to be counted
    compiled : for each architecture that was asked for
    """

    step: Step
    label: str
    facts: Facts
    counted: Sequence[Fact] | str | None
    compiled: Sequence[CompiledFacts]

    @property
    def rows(self) -> Sequence[Fact]:
        """All but the compiled ones."""
        counted = () if self.counted is None or isinstance(self.counted, str) else self.counted
        return (*self.facts.rows(), *counted)


def _get_step_facts(
    screen: Screen,
    run: Run,
    step: Step,
    target: str,
    architectures: Sequence[str],
    counts: bool,
) -> _StepFacts:
    from tirstep.lowering_checks import DeviceError, count_accesses
    from tirstep.lowering_checks.facts import compile_everywhere, counted_rows, get_facts
    from tirstep.lowering_checks.steps import step_label

    facts = get_facts(step.module, target, problem=run.problem)
    counted: Sequence[Fact] | str | None = None
    if counts and facts.refusal is None:
        screen.doing(f"counting {run.label(step)}")
        try:
            found = count_accesses(run.problem, step.module)
            counted = tuple(counted_rows(found, run.problem.bytes))
        except DeviceError as error:
            counted = str(error)
    compiled: Sequence[CompiledFacts] = ()
    if architectures and facts.refusal is None and facts.language == "cuda":
        screen.doing(f"compiling {run.label(step)}")
        compiled = compile_everywhere(facts, architectures)
    return _StepFacts(step, step_label(step), facts, counted, compiled)


def _show(screen: Screen, run: Run, found: Sequence[_StepFacts]) -> None:
    from .tables import show_facts_table

    shape = format_shape(run.problem.shape)
    screen.line((run.recipe.name, "bold"), (f"  {shape}" if shape else "", "dim"))
    lowered = [facts for facts in found if facts.facts.refusal is None]
    if lowered:
        show_facts_table(screen, {facts.label: facts.rows for facts in lowered})
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


def _remarks(found: _StepFacts, first: str | None) -> Iterator[tuple[str, str, str]]:
    """What is to be said of a step below the tables: a word, its style, and a sentence.

    `first` is the first step with facts, where that comes later.
    """
    if found.facts.refusal is not None:
        refusal = found.facts.refusal
        if first is not None and found.facts.lowered is not None:
            refusal += f" before step {first}"
        yield "no facts", "dim", f"{found.label}: {refusal}"
    if isinstance(found.counted, str):
        yield "no counts", "dim", f"{found.label}: {found.counted}"


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
    from .json_output import read_keys

    counted: Document | None = None
    if isinstance(found.counted, str):
        counted = {"refused": found.counted, "facts": []}
    elif found.counted is not None:
        counted = {"refused": None, "facts": [fact._asdict() for fact in found.counted]}
    own = found.facts.rows() if found.facts.kernels else ()
    return {
        **read_keys(found.step, "number=index name source=location"),
        "refused": found.facts.refusal,
        "facts": [fact._asdict() for fact in own],
        "counted": counted,
        "compiled": [
            {
                **read_keys(each, "architecture compiler refused=refusal"),
                "facts": [fact._asdict() for fact in each.rows()],
            }
            for each in found.compiled
        ],
    }
