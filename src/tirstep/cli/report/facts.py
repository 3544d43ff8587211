"""The facts of a step, as the report shows them."""

from __future__ import annotations

from tirstep.lowering_checks import CheckError
from tirstep.lowering_checks.facts.find import facts_of_lowering
from tirstep.lowering_checks.passes import Lowering
from tirstep.modules import Problem

from .model import FactPart, FactsPart


def list_facts(lowering: Lowering, problem: Problem) -> FactsPart:
    """The facts of a lowered step, or why there are none."""
    try:
        facts = facts_of_lowering(lowering, problem=problem)
    except CheckError as error:
        return FactsPart((), str(error))
    rows = tuple(
        FactPart(row.group, row.key or row.name, row.name, row.value, row.unit)
        for row in facts.rows()
    )
    return FactsPart(rows if facts.kernels else (), facts.refusal)
