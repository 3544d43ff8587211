"""The steps of one run, each with its program, passes, source, facts and verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import tvm

from tirstep.lowering_checks import Counts, Finding, Run, Verdict, print_module
from tirstep.lowering_checks.compile.passes import Lowering, lower_through_passes
from tirstep.lowering_checks.diff import blame_texts, carry_blame
from tirstep.lowering_checks.steps import step_label
from tirstep.lowering_checks.verdict import golden_word, numbers_word
from tirstep.transforms.recipes import Step

from ..rungs import Rung
from .counts import counts_part
from .facts import list_facts
from .loops import find_buffers, find_nests
from .model import ChecksPart, FindingPart, PassPart, SourcePart, StepPart, TimePart
from .texts import Text

Doing = Callable[[str], None]
Functions = tuple[tuple[str, int], ...]
COMPACTS = "s_tir.CompactBufferAllocation"


@dataclass(frozen=True)
class StepBuilder:
    """Makes the parts of one rung's steps; `counts` are by the steps' numbers."""

    rung: Rung
    counts: Mapping[int, Counts | None]
    target: str
    doing: Doing

    def build(self, run: Run) -> tuple[StepPart, ...]:
        """All steps of the run."""
        programs = [Text.of(print_module(step.module)) for step in run.steps]
        authors = blame_texts([program.lines for program in programs])
        lowerings = []
        for step in run.steps:
            self.doing(f"lowering {run.label(step)}")
            lowerings.append(lower_through_passes(step.module, self.target))
        sources = self._sources(lowerings)
        return tuple(
            self._step(run, *parts)
            for parts in zip(run.steps, programs, authors, lowerings, sources, strict=True)
        )

    def _step(
        self,
        run: Run,
        step: Step,
        program: Text,
        authors: Sequence[int],
        lowering: Lowering,
        source: SourcePart,
    ) -> StepPart:
        counts = self.counts.get(step.index)
        compacted = [one.module for one in lowering.passes if one.name == COMPACTS]
        verdict = next((one for one in self.rung.verdicts if one.step is step), None)
        return StepPart(
            label=step_label(step),
            name=step.name,
            source=step.location,
            tir=program,
            authors=tuple(authors),
            trace=Text.of(str(step.trace)),
            device_source=source,
            passes=_pass_parts(lowering, program, tuple(authors)),
            pass_count=len(lowering.passes),
            nests=find_nests(step.module),
            buffers=find_buffers(step.module, compacted[0] if compacted else None),
            facts=list_facts(lowering, run.problem, counts),
            checks=None if verdict is None else _checks_part(verdict),
            time=None if verdict is None else _time_part(self.rung, verdict),
            counts=None if counts is None else counts_part(counts),
        )

    def _sources(self, lowerings: Sequence[Lowering]) -> list[SourcePart]:
        """The sources of successive steps: the first that has one is the author of all of it."""
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


def _pass_parts(
    lowering: Lowering, program: Text, authors: tuple[int, ...]
) -> tuple[PassPart, ...]:
    """The passes that changed the module, with the blame of the text that each was given."""
    parts: list[PassPart] = []
    known, last = {program: authors}, program
    printed = {_find_functions(lowering.module): program}
    for one in lowering.changed:
        before, after = (_print_once(module, printed) for module in (one.before, one.module))
        if before not in known:  # a part of the module alone, the device's perhaps
            known[before] = _carry(known[last], last, before, one.number)
        known[after] = _carry(known[before], before, after, one.number)
        last = after
        spent = round(one.seconds * 1e3, 3)
        parts.append(PassPart(one.number, one.name, spent, before, after, known[after]))
    return tuple(parts)


def _carry(authors: tuple[int, ...], before: Text, after: Text, number: int) -> tuple[int, ...]:
    return tuple(carry_blame(authors, before.lines, after.lines, author=-number))


def _print_once(module: tvm.IRModule, printed: dict[Functions, Text]) -> Text:
    """A module's text; printing takes far longer than seeing that it was printed already."""
    functions = _find_functions(module)
    if functions not in printed:
        printed[functions] = Text.of(print_module(module))
    return printed[functions]


def _find_functions(module: tvm.IRModule) -> Functions:
    """The functions by name and identity; they never change, and the log of passes keeps them."""
    return tuple((str(name.name_hint), hash(one)) for name, one in module.functions_items())


def finding_part(finding: Finding) -> FindingPart:
    """A finding, for the page."""
    return FindingPart(
        finding.check, finding.where, finding.location, finding.message, finding.detail
    )


def _checks_part(verdict: Verdict) -> ChecksPart:
    return ChecksPart(
        golden=golden_word([verdict]),
        numbers=numbers_word([verdict]),
        checked_on=verdict.checked_on,
        findings=tuple(finding_part(one) for one in verdict.findings),
    )


def _time_part(rung: Rung, verdict: Verdict) -> TimePart | None:
    timing = verdict.timing
    if timing is None:
        return None
    return TimePart(
        median=timing.median * 1e6,
        lower=timing.lower * 1e6,
        upper=timing.upper * 1e6,
        repeats=timing.repeats,
        gflops=(rung.flops_per_second(timing) or 0) / 1e9,
    )
