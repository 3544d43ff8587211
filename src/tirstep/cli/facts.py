"""``tirstep facts``: what the GPU gets of each step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tirstep.lowering_checks import DeviceError, Run, count_accesses, run_recipe
from tirstep.lowering_checks.facts import (
    ARCHITECTURES,
    CompiledFacts,
    Fact,
    Facts,
    compile_everywhere,
    counted_rows,
    find_losses,
    get_architecture,
    get_compiler,
    get_facts,
)
from tirstep.lowering_checks.steps import step_label
from tirstep.modules import KernelError
from tirstep.transforms.errors import TransformError
from tirstep.transforms.recipes import Step

from .documents import Document, print_document, run_keys
from .facts_table import print_facts
from .screen import Screen
from .selection import format_shape, pick_recipe, pick_step, run_wished
from .wishes import Wish

WITHOUT_NVDISASM = (
    "there is no nvdisasm here to read the machine code with; pip install 'tirstep[cuda]'"
)


@dataclass(frozen=True)
class _Counted:
    """The facts that the simulator counted, or why there are none."""

    rows: Sequence[Fact] = ()
    refusal: str | None = None


@dataclass(frozen=True)
class _StepFacts:
    """The facts of a step, and `notes` of what its shape loses.

    Attributes
    ----------
    counted : None where nothing was to be counted
    compiled : for each architecture that was asked for
    """

    step: Step
    facts: Facts
    notes: Sequence[str]
    counted: _Counted | None
    compiled: Sequence[CompiledFacts]


def find_architectures(names: Sequence[str], *, all_archs: bool) -> tuple[str, ...]:
    """The names of architectures that are asked for; an unknown one, or none to compile with, is
    refused.
    """
    wanted = tuple(ARCHITECTURES) if all_archs else tuple(dict.fromkeys(names))
    for name in wanted:
        get_architecture(name)
    if wanted:
        get_compiler()
    return wanted


def show_facts(
    name: str,
    wish: Wish,
    step_name: str | None,
    target: str,
    architectures: Sequence[str],
    *,
    counts: bool,
    as_json: bool,
) -> int:
    """Print the facts of the steps of a recipe, or of one of them; with `counts`, those of the
    simulator, too.
    """
    run = run_wished(pick_recipe(name), wish, example="seed")
    steps = run.steps if step_name is None else (pick_step(run, step_name),)
    screen = Screen()
    reference = _run_reference(run, wish)
    found = []
    with screen.working():
        for step in steps:
            screen.doing(f"lowering {run.label(step)}")
            facts = get_facts(step.module, target, problem=run.problem)
            notes = _find_notes(facts, step, reference, target)
            counted = None
            if counts and facts.refusal is None:
                screen.doing(f"counting {run.label(step)}")
                counted = _count(run, step)
            compiled: Sequence[CompiledFacts] = ()
            if architectures and facts.refusal is None and facts.language == "cuda":
                screen.doing(f"compiling {run.label(step)}")
                compiled = compile_everywhere(facts, architectures)
            found.append(_StepFacts(step, facts, notes, counted, compiled))
    if as_json:
        print_document("facts", **run_keys(run), target=target, steps=[_keys(o) for o in found])
    else:
        _print(screen, run, found)
    return 0


def _count(run: Run, step: Step) -> _Counted:
    try:
        counts = count_accesses(run.problem, step.module)
        return _Counted(tuple(counted_rows(counts, run.problem.bytes)))
    except DeviceError as error:
        return _Counted(refusal=str(error))


def _run_reference(run: Run, wish: Wish) -> Run | None:
    """The recipe at its tutorial's shape, with the sizes and options that are wished."""
    if wish.shape is None:
        return None
    recipe = run.recipe
    try:
        return run_recipe(
            recipe,
            recipe.default_example.shape,
            options=run.problem.options,
            config=dict(run.config),
        )
    except (TransformError, KernelError):
        return None


def _find_notes(facts: Facts, step: Step, reference: Run | None, target: str) -> list[str]:
    twins = {} if reference is None else {one.name: one for one in reference.steps}
    if reference is None or step.name not in twins:
        return []
    theirs = get_facts(twins[step.name].module, target, problem=reference.problem)
    return find_losses(facts, theirs, place=f"at {format_shape(reference.problem.shape)}")


def _print(screen: Screen, run: Run, found: Sequence[_StepFacts]) -> None:
    screen.line((run.recipe.name, "bold"), (f"  {format_shape(run.problem.shape)}", "dim"))
    lowered = [one for one in found if one.facts.refusal is None]
    if lowered:
        print_facts(screen, {step_label(one.step): _rows(one) for one in lowered})
    for one in lowered:
        if one.compiled:
            _print_compiled(screen, one)
    remarks = [remark for one in found for remark in _remarks(one)]
    if remarks:
        screen.line()
    for word, style, sentence in remarks:
        screen.line((f"{word}  ", style), sentence, wrap=True)


def _rows(one: _StepFacts) -> Sequence[Fact]:
    return (*one.facts.rows(), *(one.counted.rows if one.counted is not None else ()))


def _remarks(one: _StepFacts) -> Iterator[tuple[str, str, str]]:
    """What is to be said of a step below the tables: a word, its style, and a sentence."""
    label = step_label(one.step)
    if one.facts.refusal is not None:
        yield "no facts", "dim", f"{label}: {one.facts.refusal}"
    if one.counted is not None and one.counted.refusal is not None:
        yield "no counts", "dim", f"{label}: {one.counted.refusal}"
    for note in one.notes:
        yield "note", "yellow", f"{label}: {note}"


def _print_compiled(screen: Screen, one: _StepFacts) -> None:
    screen.line()
    compiler = one.compiled[0].compiler
    screen.line((step_label(one.step), "bold"), (f"  compiled by {compiler}", "dim"))
    ran = {each.architecture: each.rows() for each in one.compiled if each.refusal is None}
    if ran:
        print_facts(screen, ran)
    for each in one.compiled:
        if each.refusal is not None:
            screen.line(("refused  ", "bold red"), each.refusal, wrap=True)
    if any(kernel.instructions is None for each in one.compiled for kernel in each.kernels):
        screen.line(("no instructions  ", "dim"), WITHOUT_NVDISASM, wrap=True)


def _keys(one: _StepFacts) -> Document:
    return {
        "number": one.step.index,
        "name": one.step.name,
        "source": one.step.location,
        "refused": one.facts.refusal,
        "notes": list(one.notes),
        "facts": [fact._asdict() for fact in one.facts.rows()] if one.facts.kernels else [],
        "counted": None if one.counted is None else _counted_keys(one.counted),
        "compiled": [
            {
                "architecture": each.architecture,
                "compiler": each.compiler,
                "refused": each.refusal,
                "facts": [fact._asdict() for fact in each.rows()],
            }
            for each in one.compiled
        ],
    }


def _counted_keys(counted: _Counted) -> Document:
    return {"refused": counted.refusal, "facts": [fact._asdict() for fact in counted.rows]}
