"""Roles: the blocks of a function that a plan schedules, or why it schedules none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm.error import InternalError
from tvm.s_tir import SBlock, Schedule, ScheduleError
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import IterVar
from tvm.tirx.analysis import undefined_vars
from tvm_ffi import structural_equal

from ..inlining import try_inlining
from ..layout import require_own_loops
from ..queries import get_enclosing_loops, get_sblock_name, is_reduction
from ..schedule import TransformError
from ..tir import constant, find_all, get_axis, get_elements, is_among

DEVICE = "NVIDIA H200"
"""The GPU that the time models know best; others are described by their properties."""


@dataclass(frozen=True)
class Roles:
    """The blocks that a plan schedules; all others of the function are inlined or left alone.

    Attributes
    ----------
    plan : the name of the plan: "matmul", "rows" or "flat"
    blocks : in program order, handles of the schedule that was asked; of "matmul" the one product,
        of "rows" the reductions and what reads them, the result last, of "flat" the results
    names : of these blocks
    """

    plan: str
    blocks: tuple[SBlockRV, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Mismatch:
    """Why a plan has nothing to schedule in a function; false, whereas roles are true."""

    plan: str
    reason: str

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"no {self.plan}: {self.reason}"


@dataclass(frozen=True)
class Plan:
    """A plan: schedules a whole function, with nothing left to bind.

    Attributes
    ----------
    name : "matmul", "convolution", "rows" or "flat"
    match : the roles of a function's blocks, or why it has none
    run : ``run(sch, roles, config)``
    choose : ``choose(sch, roles, device, tensor_cores)``, the configs to try, the best first
    configs : of the families of recipes whose rules it makes
    """

    name: str
    match: Callable[[Schedule], Roles | Mismatch]
    run: Callable[..., None]
    choose: Callable[[Schedule, Roles, str, bool], Sequence[Any]]
    configs: tuple[type, ...] = ()


def make_roles(sch: Schedule, plan: str, blocks: Sequence[SBlockRV]) -> Roles:
    """The roles of some blocks, which get their names from a schedule."""
    return Roles(plan, tuple(blocks), tuple(get_sblock_name(sch, block) for block in blocks))


def list_sblocks(sch: Schedule) -> list[SBlockRV]:
    """The blocks of the function that a schedule works on, outermost ones alone, in order.

    None of a function that TVM's parser gave no root block, whose one block calls a library, say.
    """
    try:
        root = sch.get_sblock("root")
    except (ScheduleError, InternalError):
        return []
    return list(sch.get_child_blocks(root))


def find_obstacle(sch: Schedule, blocks: Sequence[SBlockRV]) -> str:
    """Why blocks are not as a plan takes them, one serial loop for each iterator; "" if they are.

    A block that holds others, sorts or scans is none.
    """
    for block in blocks:
        node, name = sch.get(block), get_sblock_name(sch, block)
        if find_all(node.body, SBlock):
            return f"block '{name}' holds other blocks"
        if not node.writes:
            return f"block '{name}' does not declare what it writes, like Relax's for scatter"
        kinds = {iterator.iter_type for iterator in node.iter_vars}
        if kinds - {IterVar.DataPar, IterVar.CommReduce}:
            return f"block '{name}' has iterators that are neither spatial nor of a reduction"
        try:
            if sch.get_loops(block):  # else it computes a single number
                require_own_loops(sch, block, "schedule it before")
        except TransformError as error:
            return error.problem
    return ""


def inline_others(
    sch: Schedule, blocks: Sequence[SBlockRV], kept: Sequence[SBlockRV]
) -> list[SBlockRV]:
    """Inline all blocks but those that are kept, reduce or write results; those that are left."""
    left = list(blocks)
    for block in blocks:
        is_kept = is_among(sch.get(block), [sch.get(each) for each in kept])
        if is_kept or is_reduction(sch, block) or not sch.get_consumers(block):
            continue
        if try_inlining(sch, block):
            left.remove(block)
    return left


def is_bound(sch: Schedule, block: SBlockRV) -> bool:
    """Whether a block stands in a loop of a GPU's blocks or threads already."""
    return any(get_axis(loop) is not None for loop in get_enclosing_loops(sch, block))


def find_row_iterators(sch: Schedule, block: SBlockRV, results: Sequence[Any]) -> list[IterVar]:
    """The iterators of a block that go over a row, whose reductions write some results.

    Of a reduction it is that over which it reduces; of another block all those that are in no
    index of a result, or none where these have one value each.
    """
    node = sch.get(block)
    if is_reduction(sch, block):
        return [it for it in node.iter_vars if it.iter_type == IterVar.CommReduce]
    used: list[Any] = []
    for buffer, indices in get_elements(node.body):
        if is_among(buffer, results):
            used += [var for index in indices for var in undefined_vars(index)]
    found = [it for it in node.iter_vars if not is_among(it.var, used)]
    return found if any(constant(it.dom.extent) != 1 for it in found) else []


def have_same_extents(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether iterators go over the same extents, in the same order; those of 1 do not count."""
    first, second = (
        [it for it in each if constant(it.dom.extent) != 1] for each in (first, second)
    )
    if len(first) != len(second):
        return False
    return all(
        structural_equal(one.dom.extent, other.dom.extent)
        for one, other in zip(first, second, strict=True)
    )
