"""The loops of `overlap_products` and `alternate_warpgroups`: what runs under groups of wgmma.

The first statement of an iteration and its last one are groups of wgmma each. With
`overlap_products` the loop is turned by one of them: the first group of the next iteration is
issued, behind it the last one of this iteration, and what lies between the two is computed while
that runs. With `alternate_warpgroups` warpgroups take turns to issue the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm.ir import Call
from tvm.script import tirx as T
from tvm.tirx import Evaluate, For, ForKind, IntImm, SeqStmt
from tvm_ffi import structural_map

from tirstep.tvm_compat import get_op_name

from ..schedule import TransformError
from ..tir import find_all, get_elements, is_among, substitute
from .pingpong import PingPong
from .tma_pipeline import Pipeline, join

WAIT = "wgmma_wait_group"


def run_overlapped(pipeline: Pipeline, done: Callable[[Any], list[Any]]) -> list[Any]:
    """What computes, of warps with roles; `done` says that an iteration's stage is empty.

    The first iteration has its own first group, and the last one its own last group.
    """
    first, *between, last = pipeline.compute()
    counters = pipeline.rounds.buffers
    own = [each for each in find_registers(last) if not is_among(each, counters)]
    require_independent(find_registers(first), own, pipeline.loop.loop_var.name)
    step = pipeline.loop.loop_var
    # The place of the first statement that uses registers of the last one.
    uses = [any(is_among(each, own) for each in find_registers(part)) for part in between]
    kept = uses.index(True) if True in uses else len(uses)
    ahead = step + 1

    def at(value: Any, statements: list[Any]) -> list[Any]:
        return [substitute(each, {step: value}) for each in statements]

    wait, turns = pipeline.wait_for_tile(), PingPong.of(pipeline)
    zero = IntImm("int32", 0)
    body = [
        *at(ahead, [wait, *turns.begin_turn(), _drop_wait(first)]),
        _drop_wait(last),
        *turns.end_turn(),
        _wait_for_groups(1),
        *at(ahead, between[:kept]),
        _wait_for_groups(0),
        *done(step),
        *at(ahead, between[kept:]),
    ]
    loop = pipeline.loop
    turned = For(step, zero, loop.extent - 1, ForKind.SERIAL, join(body), None, pipeline.notes)
    end = loop.extent - 1
    begin = [*turns.open(), *at(zero, [wait, first, *between])]
    return [*begin, turned, *at(end, [last]), *done(end), *turns.close()]


def run_in_turns(pipeline: Pipeline, done: Callable[[Any], list[Any]]) -> list[Any]:
    """What computes, of warpgroups that take turns and do not overlap their own iterations.

    A turn is the last products of an iteration and the first ones of the next.
    """
    first, *between, last = pipeline.compute()
    turns = PingPong.of(pipeline)
    body = [
        pipeline.wait_for_tile(),
        _drop_wait(first),
        *turns.end_turn(),
        _wait_for_groups(0),
        *between,
        *turns.begin_turn(),
        last,
        *done(pipeline.loop.loop_var),
    ]
    begin = [*turns.open(), *turns.begin_turn()]
    return [*begin, pipeline.loop_over(body), *turns.end_turn(), *turns.close()]


def require_independent(first: list[Any], last: list[Any], name: str) -> None:
    """Refuse the buffers of two statements that cannot change places, since they share one."""
    shared = [each for each in first if is_among(each, last)]
    if shared:
        raise TransformError(
            f"the first and the last products of loop '{name}' both use '{shared[0].name}'",
            "overlap products that have sums and fragments of their own",
        )


def _drop_wait(statement: Any) -> Any:
    """A statement without the wait for its own group."""

    def rewrite(sequence: Any) -> Any:
        kept = [part for part in sequence.seq if not _is_wait(part)]
        return sequence if len(kept) == len(sequence.seq) else join(kept)

    return structural_map(statement, (SeqStmt, rewrite))


def count_waits(statement: Any) -> int:
    """How often a statement waits for groups of wgmma."""
    return sum(_is_wait(each) for each in find_all(statement, Evaluate))


def _is_wait(statement: Any) -> bool:
    if not isinstance(statement, Evaluate) or not isinstance(statement.value, Call):
        return False
    return get_op_name(statement.value).endswith(WAIT)


def _wait_for_groups(in_flight: int) -> Evaluate:
    return Evaluate(T.ptx.wgmma.wait_group.sync.aligned(in_flight))


def find_registers(statement: Any) -> list[Any]:
    """The buffers in registers whose elements a statement loads or stores."""
    return [buffer for buffer, _ in get_elements(statement) if str(buffer.scope()) == "local"]
