"""Edits of a schedule's trace: instructions of TVM left out, or done with another attribute.

A trace is what a recipe did, whoever wrote the recipe and however: these edits hold as long as its
steps do what they do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tvm.s_tir.schedule import Instruction, Trace

from tirstep.transforms.recipes import Step

Change = Callable[[Instruction], Instruction | None]


@dataclass(frozen=True)
class TraceEdit:
    """A change of the instructions of one kind.

    Attributes
    ----------
    kind : of the instructions, as TVM calls it: "Split", "Bind", "CacheRead"
    change : gives the instruction in the place of another; None leaves it out
    step : only the instructions of this step of the recipe; empty: of all steps
    which : only this one of the instructions found, counted from 0
    axis : for "Bind": only what is bound to this axis
    """

    kind: str
    change: Change
    step: str = ""
    which: int | None = None
    axis: str = ""

    def apply(self, trace: Sequence[tuple[str, Instruction]]) -> list[tuple[str, Instruction]]:
        """The trace with the edit; raises `LookupError` where there is nothing to edit.

        Each instruction stands behind the name of its step.
        """
        found = [place for place, item in enumerate(trace) if self._is_meant(*item)]
        if self.which is not None:
            found = found[self.which : self.which + 1]
        if not found:
            what = f"{self.kind} {self.axis}".strip()
            where = f"step '{self.step}'" if self.step else "any step"
            raise LookupError(
                f"no occurrence {self.which or 0} of {what} in {where}: fix the mutant"
            )
        edited = {place: self.change(trace[place][1]) for place in found}
        changed = [(step, edited.get(place, old)) for place, (step, old) in enumerate(trace)]
        return [(step, instruction) for step, instruction in changed if instruction is not None]

    def _is_meant(self, step: str, instruction: Instruction) -> bool:
        return (
            instruction.kind.name == self.kind
            and self.step in ("", step)
            and self.axis in ("", *instruction.attrs[:1])
        )


def edit_trace(steps: Sequence[Step], edits: Sequence[TraceEdit]) -> Trace:
    """The trace of a recipe's last step after all edits, one after the other."""
    trace = list(_name_instructions(steps))
    for edit in edits:
        trace = edit.apply(trace)
    return Trace([instruction for _, instruction in trace], {})


def _name_instructions(steps: Sequence[Step]) -> Iterator[tuple[str, Instruction]]:
    for before, step in pairwise(steps):
        for instruction in step.trace.insts[len(before.trace.insts) :]:
            yield step.name, instruction


def drop_instruction(kind: str, *, axis: str = "") -> TraceEdit:
    """Leave out the instructions of a kind."""
    return TraceEdit(kind, lambda instruction: None, axis=axis)


def rebind(axis: str, other: str) -> TraceEdit:
    """Bind to another axis what is bound to one."""
    return TraceEdit("Bind", lambda bind: _copy(bind, attrs=[other]), axis=axis)


def cache_in(scope: str) -> TraceEdit:
    """Read through copies in another scope."""
    return TraceEdit("CacheRead", lambda read: _copy(read, attrs=[read.attrs[0], scope]))


def split_by(*factors: int, step: str, which: int | None = None) -> TraceEdit:
    """Split a step's loops by other factors, the outermost of which is left open."""
    return TraceEdit(
        "Split",
        lambda split: _copy(split, inputs=[split.inputs[0], None, *factors]),
        step=step,
        which=which,
    )


def split_without_predicate(step: str, which: int | None = None) -> TraceEdit:
    """Split a step's loops as if the factors divided their extents."""
    return TraceEdit(
        "Split", lambda split: _copy(split, attrs=[split.attrs[0], True]), step=step, which=which
    )


def _copy(
    instruction: Instruction,
    inputs: Sequence[object] | None = None,
    attrs: Sequence[object] | None = None,
) -> Instruction:
    return Instruction(
        instruction.kind,
        list(instruction.inputs) if inputs is None else inputs,
        list(instruction.attrs) if attrs is None else attrs,
        list(instruction.outputs),
    )
