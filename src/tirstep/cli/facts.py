"""``tirstep facts``: what the GPU gets of each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .formatting import spell_shape
from .request import RECIPE_OPTIONS, Request, flag, option, pick_step, run_each, with_options
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.lowering_checks import Run
    from tirstep.lowering_checks.facts import CompiledFacts, Fact, Facts
    from tirstep.transforms.recipes import Step

    from .formats import Document


@with_options(*RECIPE_OPTIONS)
def command(
    *,
    recipe: str,
    request: Request,
    step: str | None,
    target: str,
    arch: list[str] | None = option(
        "--arch",
        "ARCH",
        "Compile for this architecture, such as sm_80; may be given several times.",
    ),
    all_archs: bool = flag("--all-archs", "Compile for every architecture from sm_75 on."),
    counts: bool = flag(
        "--counts",
        "Simulate the first thread block and count what it does; takes seconds per step.",
    ),
    json: bool,
) -> int:
    """Summarize what each step is as a GPU kernel.

    Launch, memory accesses, barriers; with --arch or --all-archs also registers, spills, occupancy
    and instructions, which needs a CUDA compiler (pip install 'tirstep[cuda]', or nvcc) but no GPU;
    with --counts memory traffic and bank conflicts. Bodies of loops and of helper functions count
    once.
    """
    if arch and all_archs:
        raise UseError("--all-archs includes every architecture; leave --arch out")
    archs = choose_architectures(arch or [], all_archs=all_archs)

    def show(run: Run) -> int:
        from tirstep.lowering_checks import DeviceError, count_accesses
        from tirstep.lowering_checks.facts import compile_everywhere, counted_rows, get_facts
        from tirstep.lowering_checks.facts.compiled import MISSING_NVDISASM
        from tirstep.lowering_checks.steps import step_label

        from .formats import print_document, read_keys, run_keys
        from .screen import Screen, show_facts_table

        screen = Screen()
        found: list[tuple[Step, Facts, Sequence[Fact] | str | None, Sequence[CompiledFacts]]] = []
        with screen.working():
            for each in run.steps if step is None else (pick_step(run, step),):
                screen.doing(f"lowering {run.label(each)}")
                facts = get_facts(each.module, target, problem=run.problem)
                counted: Sequence[Fact] | str | None = None
                if counts and facts.refusal is None:
                    screen.doing(f"counting {run.label(each)}")
                    try:
                        accesses = count_accesses(run.problem, each.module)
                        counted = tuple(counted_rows(accesses, run.problem.bytes))
                    except DeviceError as error:
                        counted = str(error)
                compiled: Sequence[CompiledFacts] = ()
                if archs and facts.refusal is None and facts.language == "cuda":
                    screen.doing(f"compiling {run.label(each)}")
                    compiled = compile_everywhere(facts, archs)
                found.append((each, facts, counted, compiled))
        if json:

            def refused_or_rows(refusal: str | None, rows: Sequence[Fact]) -> Document:
                return {"refused": refusal, "facts": [fact._asdict() for fact in rows]}

            documents = [
                {
                    **read_keys(it, "number=index name source=location"),
                    **refused_or_rows(facts.refusal, facts.rows() if facts.kernels else ()),
                    "counted": refused_or_rows(counted, ())
                    if isinstance(counted, str)
                    else counted and refused_or_rows(None, counted),
                    "compiled": [
                        {
                            **read_keys(each, "architecture compiler"),
                            **refused_or_rows(each.refusal, each.rows()),
                        }
                        for each in compiled
                    ],
                }
                for it, facts, counted, compiled in found
            ]
            print_document("facts", **run_keys(run), target=target, steps=documents)
            return 0
        # A table of the steps that launch a kernel, one of each that was compiled, and what is
        # missing below.
        screen.title(run.recipe.name, spell_shape(run.problem))
        columns: dict[str, list[Fact]] = {}
        remarks: list[tuple[str, str]] = []
        first = next((step_label(it) for it, facts, *_ in found if facts.refusal is None), None)
        for it, facts, counted, _ in found:
            label, refusal = step_label(it), facts.refusal
            if refusal is None:
                rows = () if isinstance(counted, str) else counted or ()
                columns[label] = [*facts.rows(), *rows]
            else:
                if first is not None and not columns and facts.lowered is not None:
                    refusal += f" before step {first}"
                remarks.append(("no facts", f"{label}: {refusal}"))
            if isinstance(counted, str):
                remarks.append(("no counts", f"{label}: {counted}"))
        if columns:
            show_facts_table(screen, columns)
        for it, _, _, compiled in found:
            if not compiled:
                continue
            screen.line()
            screen.line((step_label(it), "bold"), (f"  compiled by {compiled[0].compiler}", "dim"))
            if ran := {each.architecture: each.rows() for each in compiled if not each.refusal}:
                show_facts_table(screen, ran)
            for own in compiled:
                if own.refusal is not None:
                    screen.line(("refused  ", "bold red"), own.refusal)
            if any(kernel.instructions is None for each in compiled for kernel in each.kernels):
                screen.line(("no instructions  ", "dim"), MISSING_NVDISASM)
        if remarks:
            screen.line()
        for word, sentence in remarks:
            screen.line((f"{word}  ", "dim"), sentence)
        return 0

    return run_each(recipe, request, show, as_json=json)


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
