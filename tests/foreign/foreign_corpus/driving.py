"""The corpus played through: states, calls on copies, and what became of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tvm.s_tir import Schedule
from tvm_ffi import structural_hash

from tirstep.lowering_checks.ownership import check_ownership
from tirstep.transforms import TransformError, keep_in_registers
from tirstep.transforms.schedule import LOOK

from . import Foreign
from .calls import Call, list_calls
from .judging import FINDING, UNBUILT, is_on_a_gpu, judge
from .states import bind_rest, make_state

REFUSED, RAW, BARE, TORN = "refused", "raw error", "bare refusal", "changed by a refusal"
"""A bare refusal has TVM's words, and no advice of ours."""


class Outcome(NamedTuple):
    """What became of a call on a function in a state: a verdict of `judging`, or one of these, or
    "accepted" where another call made the same; and a refusal's sentence, or what is wrong.
    """

    function: str
    state: str
    call: Call
    verdict: str
    text: str

    def __str__(self) -> str:
        return f"{self.function}, {self.state}: {self.call}: {self.verdict}: {self.text}"


def play(foreign: Foreign, state: str) -> Iterator[Outcome]:
    """Make all calls on a function in a state, and judge what comes of them.

    Results that are one program are judged once. Fragments of sums that other threads are yet to
    hold, as the check of ownership says, are half-way, and so is what a state was half-way to.
    """
    start = make_state(foreign.function, state)
    if start is None:
        return
    seen, is_begun = {structural_hash(start.mod)}, bool(check_ownership(_bind(start).mod))
    for call in list_calls(start):
        sch = start.copy()
        verdict, text = _make(call, sch)
        if verdict == "accepted":
            mark = structural_hash(sch.mod)
            if mark not in seen:
                owned = check_ownership(sch.mod) if call.transform == "lay_in_quads" else []
                owned += check_ownership(_bind(sch).mod) if is_begun else []
                verdict, text = (
                    (UNBUILT, f"half-way: {owned[0]}")
                    if owned
                    else judge_schedule(foreign, _finish(call, sch))
                )
            seen.add(mark)
        yield Outcome(foreign.name, state, call, verdict, text)


def _make(call: Call, sch: Schedule) -> tuple[str, str]:
    before = structural_hash(sch.mod)
    try:
        call.run(sch)
    except TransformError as error:
        if structural_hash(sch.mod) != before:
            return TORN, str(error)
        return (BARE if error.advice == LOOK else REFUSED), str(error)
    except Exception as error:  # every other one is a finding
        return RAW, f"{type(error).__name__}: {str(error).strip()[-300:]}"
    return "accepted", ""


def _finish(call: Call, sch: Schedule) -> Schedule:
    """The schedule with a block that was placed under threads in their registers, where that goes.

    In global memory the blocks of a GPU would write over each other's: a placed block is half-way.
    """
    if not call.transform.endswith("compute_block_at"):
        return sch
    whole = Schedule(sch.mod)
    try:
        keep_in_registers(whole, whole.get_sblock(call.handles[0]))
    except (TransformError, RuntimeError):
        return sch
    return whole


def judge_schedule(foreign: Foreign, sch: Schedule) -> tuple[str, str]:
    """The verdict on a schedule, with what it leaves unbound on threads, where that goes."""
    whole = _bind(sch)
    if is_on_a_gpu(whole.mod):
        verdict, text = judge(foreign, whole.mod, "simulator")
        # What may yet get threads of its own is told at the end of a recipe, and by `check`.
        if verdict == FINDING and (unfinished := check_ownership(whole.mod)):
            return UNBUILT, str(unfinished[0])
        if verdict != UNBUILT:
            return verdict, text
    return judge(foreign, sch.mod, "cpu")


def _bind(sch: Schedule) -> Schedule:
    """The schedule with what it leaves unbound on threads; itself where that does not go."""
    whole = Schedule(sch.mod)  # of loops of varying lengths that were split TVM makes no copy
    try:
        bind_rest(whole)
    except (TransformError, RuntimeError, IndexError):
        return sch
    return whole
