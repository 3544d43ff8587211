"""The plan of elementwise functions: casts, activations, reshapes, splits, permutations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvm.ir import Call
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import BufferStore, For, ForKind

from ..loops import fuse_loops
from ..pass_options import lower_around
from ..queries import get_root, get_sblock_name, is_reduction
from ..recipes.element_ladders import FlatConfig, schedule
from ..schedule import TransformError, inlines, transform
from ..tir import (
    bind_ranges,
    constant,
    find_all,
    get_elements,
    get_places,
    is_among,
    is_choice,
    is_used,
    substitute,
)
from ..vectorize import find_scattered
from .roles import Mismatch, Plan, Roles, find_obstacle, inline_others, list_sblocks, make_roles

FLAT = "flat"
_VECTORS = "tirx.VectorizeLoop"
_MOST_GATHERED = 4
LEFT_OVER = FlatConfig(threads=256, vector=8, tail="guard")
"""The config for any function, and for what another plan leaves over."""


@transform
@inlines
def schedule_flat(sch: Schedule, block: SBlockRV, *, config: FlatConfig) -> None:
    """Spread a block of any number of dimensions over threads, as the elementwise recipes do.

    rewrite: ``for i, j: B[i, j] = f(A[i, j])`` -> ``for f_0 in blockIdx.x: for f_1 in
        threadIdx.x: for f_2 in T.vectorized(vector): B[...] = f(A[...])``
    consumes: the block's loops
    requires: a block that does not reduce, with one serial loop for each of its dimensions;
        ``tail="guard"`` for open sizes
    """
    if is_reduction(sch, block):
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' reduces",
            "use schedule_rows or schedule_matmul, or bind only its spatial loops",
        )
    loops = list(sch.get_loops(block)) or [sch.add_unit_loop(block)]
    if len(loops) > 1:
        fuse_loops(sch, loops)
    for _ in schedule(sch, config, block):
        pass
    if reason := find_gather(get_root(sch, block).body):
        raise TransformError(reason, "take vectors of 4 elements or fewer")


def find_gather(body: Any) -> str:
    """Why CUDA compiles no vector that a kernel gathers out of elements apart; or "".

    TVM writes ``make_uint4`` of eight elements of 16 bits, which takes four words (nvcc 13.0).
    One element that is repeated is no gather.
    """
    for place in get_places(body):
        written = [store.buffer for store in find_all(place.block.body, BufferStore)]
        for loop, buffer in find_scattered(place):
            lanes, bits = constant(loop.extent) or 1, int(buffer.dtype.bits)
            if lanes <= _MOST_GATHERED or bits != 16 or is_among(buffer, written):
                continue
            analyzer, lane = bind_ranges(place.loops), loop.loop_var
            reads = [it for read, it in get_elements(place.block.body) if read.same_as(buffer)]
            inner = [substitute(index, place.values) for it in reads for index in it]
            if any(is_used(lane, it) and is_used(lane, analyzer.simplify(it)) for it in inner):
                return (
                    f"block '{place.name}' gathers vectors of {lanes} elements of 16 bits from "
                    f"'{buffer.name}', where they do not lie side by side"
                )
    return ""


def schedule_results(sch: Schedule, roles: Roles, config: FlatConfig) -> None:
    """Spread each of the roles' blocks over threads, and inline all others."""
    inline_others(sch, list_sblocks(sch), kept=roles.blocks)
    for block in roles.blocks:
        schedule_flat(sch, block, config=config)


def match_flat(sch: Schedule) -> Roles | Mismatch:
    """The results of a function without reductions, one kernel each, or why there are none.

    Nothing changes: what is inlined on the way is so on a copy. What TVM cannot inline is a kernel
    of its own.
    """
    blocks = list_sblocks(sch)
    reduced = [get_sblock_name(sch, block) for block in blocks if is_reduction(sch, block)]
    reason = f"block '{reduced[0]}' reduces" if reduced else find_obstacle(sch, blocks)
    if not reason and not blocks:
        reason = "the function has no blocks under a root block"
    if reason:
        return Mismatch(FLAT, reason)
    trial = sch.copy()
    return make_roles(trial, FLAT, inline_others(trial, blocks, kept=[]))


def choose_flat(sch: Schedule, roles: Roles, *_: object) -> list[FlatConfig]:
    """Configs for elements: in vectors where there are some, and one by one.

    One by one first where TVM would take vectors apart: a condition that it tells for each element
    makes a loop over them of each thread, whose loads lie a vector apart from the next thread's.
    """
    single = replace(LEFT_OVER, vector=1)
    if any(map(is_choice, find_all(get_root(sch, roles.blocks[0]).body, Call))):
        trial = sch.copy()
        try:
            schedule_results(trial, roles, LEFT_OVER)
        except TransformError:
            return [single]
        around = lower_around(trial.mod, [_VECTORS])
        functions = around[_VECTORS].before.functions.values() if around else ()
        vectors = [
            loop
            for function in functions
            for loop in find_all(function.body, For)
            if loop.kind == ForKind.VECTORIZED
        ]
        if any(
            is_choice(call) and is_used(loop.loop_var, call.args[0])
            for loop in vectors
            for call in find_all(loop.body, Call)
        ):
            return [single, LEFT_OVER]
    return [LEFT_OVER, single]


FLAT_PLAN = Plan(FLAT, match_flat, schedule_results, choose_flat, (FlatConfig,))
