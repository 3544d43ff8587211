"""The facts of a step, as the report shows them."""

from __future__ import annotations

from tirstep.lowering_checks import CheckError, Counts
from tirstep.lowering_checks.compile.passes import Lowering
from tirstep.lowering_checks.facts import counted_rows, facts_of_lowering
from tirstep.modules import Problem

from .model import FactPart, FactsPart


def list_facts(lowering: Lowering, problem: Problem, counts: Counts | None) -> FactsPart:
    """The facts of a lowered step, with what the simulator counted; or why there are none."""
    try:
        facts = facts_of_lowering(lowering, problem=problem)
    except CheckError as error:
        return FactsPart((), str(error))
    if not facts.kernels:
        return FactsPart((), facts.refusal)
    counted = () if counts is None else counted_rows(counts, problem.bytes)
    rows = tuple(
        FactPart(row.group, row.key or row.name, row.name, row.value, row.unit)
        for row in (*facts.rows(), *counted)
    )
    return FactsPart(rows, facts.refusal)
