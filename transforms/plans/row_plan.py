"""The plan of rows: softmax, norms, sums and means, all blocks in one kernel."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace

from tvm.error import InternalError
from tvm.ir import Call, TensorLoad
from tvm.s_tir import SBlock, Schedule, ScheduleError
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import Add, Bind, BufferStore, FloorDiv, IterVar, Max, Min, Mul
from tvm.tirx.analysis import undefined_vars

from tirstep.tvm_compat import get_op_name

from ..loops import fuse_loops
from ..queries import get_root, get_sblock_name, is_reduction
from ..recipes.row_ladders import RowConfig, rank_configs
from ..recipes.row_ladders import schedule_rows as schedule_blocks
from ..recipes.tiled_product import join_iterators
from ..recipes.time_model import read_gpu
from ..schedule import TransformError, inlines, transform
from ..tir import constant, find_all, get_elements, is_among
from .flat import LEFT_OVER, schedule_flat
from .roles import (
    Mismatch,
    Plan,
    Roles,
    find_obstacle,
    find_row_iterators,
    have_same_extents,
    inline_others,
    list_sblocks,
    make_roles,
)

ROWS = "rows"
PLAIN_ROWS = RowConfig(threads=256, tail="guard")
"""Rows of any length, that are read again by each block."""
_MANY, _MOST_PACKED = 1 << 16, 16
_DEAR = ("exp", "exp2", "exp10", "tanh", "erf", "sigmoid", "log", "pow", "sin", "cos")
"""Functions whose values are kept where several blocks read them, as far as there are registers."""


@transform
@inlines
def schedule_rows(sch: Schedule, blocks: Sequence[SBlockRV], *, config: RowConfig) -> None:
    """Let threads share the rows of some blocks, as the recipes of softmax and norms do.

    A row consists of the dimensions that are reduced, whichever these are; the other dimensions
    together number the rows. Other blocks are inlined into these, including one after the result if
    TVM can invert its indices, such as the reshape after a group norm. Results that are written
    before any reduction, such as the sum that a norm takes and also returns, are separate kernels.

    rewrite: ``for i, k: S[i] += A[i, k]`` and ``for i, k: B[i, k] = A[i, k] / S[i]`` ->
        ``for i in blockIdx.x: (for k in threadIdx.x: S_local += A[i, k]); (for k in
        threadIdx.x: B[i, k] = A[i, k] / S_local)``
    consumes: the loops of all blocks; the other blocks, which are inlined
    requires: blocks that `match_rows` finds, the result last; ``tail="guard"`` for open sizes
    """
    _inline_around(sch, blocks)
    left = list_sblocks(sch)
    before = _count_results_before(sch, left)
    for block in left[:before]:
        schedule_flat(sch, block, config=LEFT_OVER)
    left = left[before:]
    if len(left) != len(blocks):
        names = ", ".join(f"'{get_sblock_name(sch, block)}'" for block in left)
        raise TransformError(
            f"of the function's blocks {names} are left, and {len(blocks)} are to share rows",
            "pass the blocks that match_rows finds",
        )
    results = _list_results(sch, blocks)
    rows = [find_row_iterators(sch, block, results) for block in blocks]
    every = [list(sch.get(block).iter_vars) for block in blocks]
    for block, row, iterators in zip(blocks, rows, every, strict=True):
        # Make two loops of a block's: one over the rows, and one over a row inside.
        loops = list(sch.get_loops(block))
        places = range(len(iterators))
        inner = [at for at in places if is_among(iterators[at].var, [it.var for it in row])]
        outer = [at for at in places if at not in inner]
        if config.parts > 1 and inner and outer:  # which cut iterators, not loops
            sizes = [constant(it.dom.extent) or 1 for it in iterators]
            sch.transform_block_layout(block, join_iterators((outer, inner), sizes, places))
            made = sch.get(block).writes[0].source
            if is_reduction(sch, block) and block is not blocks[-1] and len(made.shape) > 1:
                shape = [constant(extent) or 1 for extent in made.shape]
                flat = range(len(shape))
                sch.transform_layout(block, ("write", 0), join_iterators((flat,), shape, flat))
            continue
        of_rows, of_row = ([loops[at] for at in group] for group in (outer, inner))
        if not of_rows:
            of_rows = [sch.add_unit_loop(loops[0] if loops else block)]
        elif of_row:
            sch.reorder(*of_rows, *of_row)
        for several in (of_rows, of_row):
            if len(several) > 1:
                fuse_loops(sch, several)
        if not of_row:
            sch.add_unit_loop(block)
    for _ in schedule_blocks(sch, config, blocks):
        pass


def _inline_around(sch: Schedule, blocks: Sequence[SBlockRV]) -> None:
    """Inline all other blocks into those of rows, as far as TVM can."""
    left = inline_others(sch, list_sblocks(sch), kept=blocks)
    if _is_behind(sch, left, blocks):
        sch.reverse_compute_inline(left[-1])


def _count_results_before(sch: Schedule, blocks: Sequence[SBlockRV]) -> int:
    """How many blocks in front of the first reduction write results of the function.

    A norm that returns what it normalizes, too, the sum with a residual, has one: a kernel of its
    own, since what others read of a result cannot be inlined.
    """
    count = 0
    for block in blocks:
        made = get_root(sch, block).alloc_buffers
        written = [region.source for region in sch.get(block).writes]
        if is_reduction(sch, block) or any(is_among(buffer, made) for buffer in written):
            break
        count += 1
    return count


def match_rows(sch: Schedule) -> Roles | Mismatch:
    """The reductions of a function over rows of one length, with what stands between, or why none.

    Nothing changes: what is inlined on the way is so on a copy.
    """
    every = list_sblocks(sch)
    reason = find_obstacle(sch, every)
    if not reason and not any(is_reduction(sch, block) for block in every):
        reason = "no block reduces"
    if reason:
        return Mismatch(ROWS, reason)
    trial, kept = sch.copy(), []
    for block in every:  # what costs more than its store and load, for several readers
        calls = (get_op_name(it) for it in find_all(sch.get(block).body, Call))
        called = {name.rpartition(".")[2] for name in calls}
        if called & set(_DEAR) and len(sch.get_consumers(block)) > 1:
            kept.append(block)
    left = inline_others(trial, every, kept=kept)
    left = left[_count_results_before(trial, left) :]
    reason = _find_difference(trial, left)
    # What reads a reduction's result, and is neither one itself nor the last block.
    finish = [
        block
        for block in every
        if sch.get_consumers(block) and not is_reduction(sch, block)
        if any(is_reduction(sch, it) for it in sch.get_producers(block))
    ]
    if reason and len(finish) == 1:  # the last block may become part of that
        folded = sch.copy()
        rest = inline_others(folded, every, kept=[*kept, *finish])
        rest = rest[_count_results_before(folded, rest) :]
        if _is_behind(folded, rest, finish):
            with contextlib.suppress(ScheduleError, InternalError, ValueError):
                folded.reverse_compute_inline(rest[-1])
                trial, left = folded, rest[:-1]
                reason = _find_difference(trial, left)
    return Mismatch(ROWS, reason) if reason else make_roles(trial, ROWS, left)


def _is_behind(sch: Schedule, left: Sequence[SBlockRV], blocks: Sequence[SBlockRV]) -> bool:
    """Whether the last block that is left reads the last one of some blocks, and no other."""
    *_, end = left
    producers = [sch.get(each) for each in sch.get_producers(end)]
    result = sch.get(blocks[-1])
    is_other = not sch.get(end).same_as(result) and not is_reduction(sch, end)
    return is_other and bool(producers) and all(it.same_as(result) for it in producers)


def _list_results(sch: Schedule, blocks: Sequence[SBlockRV]) -> list[object]:
    """The buffers that the reductions among blocks write."""
    return [
        region.source
        for block in blocks
        if is_reduction(sch, block)
        for region in sch.get(block).writes
    ]


def _find_difference(sch: Schedule, blocks: Sequence[SBlockRV]) -> str:
    """Why blocks are not a kernel of rows; "" if they are."""
    results = _list_results(sch, blocks)
    ends = [block for block in blocks if not sch.get_consumers(block)]
    if len(ends) != 1 or not sch.get(ends[0]).same_as(sch.get(blocks[-1])):
        names = ", ".join(f"'{get_sblock_name(sch, block)}'" for block in ends)
        return f"the blocks {names} write results, and in a kernel of rows only the last one may"
    first = sch.get(blocks[0])
    if not is_reduction(sch, blocks[0]):
        return f"block '{first.name_hint}' comes before any reduction, and cannot be inlined"
    for block in blocks:
        node, row = sch.get(block), find_row_iterators(sch, block, results)
        others = [it for it in node.iter_vars if not is_among(it.var, [each.var for each in row])]
        is_last = block is blocks[-1]
        if not row and not is_last:
            return f"block '{node.name_hint}' goes over no dimension of a row"
        if is_reduction(sch, block) and not _is_known(node):
            several = f" to {len(node.writes)} results at a time" if len(node.writes) > 1 else ""
            return (
                f"block '{node.name_hint}' reduces{several} in a form that TVM does not lower over "
                "threads: it must be x = x + term, for example, with x first, or two such sums"
            )
        # Whether what is read over all of a reduction is read again for other results: a product by
        # a vector reuses the vector alone, and what it is read once for is its time.
        spatial, reduced = (
            [it.var for it in node.iter_vars if it.iter_type == kind]
            for kind in (IterVar.DataPar, IterVar.CommReduce)
        )
        long = [it.var for it in node.iter_vars if constant(it.dom.extent) != 1]
        written, reused = [region.source for region in node.writes], list[bool]()
        for buffer, indices in get_elements(node.body):
            used = [var for index in indices for var in undefined_vars(index)]
            missed = [var for var in long if not is_among(var, used)]
            if not is_among(buffer, written) and not any(is_among(it, reduced) for it in missed):
                reused.append(any(is_among(it, spatial) for it in missed))
        if is_reduction(sch, block) and len(reused) > 1 and all(reused):
            return (
                f"block '{node.name_hint}' reads each element of several tensors again for other "
                "results, as a convolution does, and threads of a row keep none for these"
            )
        known = find_row_iterators(sch, blocks[0], results)
        rows = [it for it in first.iter_vars if not is_among(it.var, [each.var for each in known])]
        if (row and not have_same_extents(row, known)) or not have_same_extents(others, rows):
            return (
                f"the rows of block '{node.name_hint}' are not those of block '{first.name_hint}'"
            )
    return ""


def _is_known(node: SBlock) -> bool:
    """Whether a reduction is written as TVM looks for it over threads.

    A sum, product, maximum or minimum, or two sums at a time, as the moments of a norm.
    """
    stores, results = find_all(node.body, BufferStore), len(node.writes)
    is_alone = isinstance(node.body, BufferStore)
    if node.init is None or len(stores) != results or is_alone != (results == 1) or results > 2:
        return False
    bound = {bind.var: bind.value for bind in find_all(node.body, Bind)}
    kinds = (Add, Mul, Max, Min) if is_alone else (Add,)
    for store in stores:
        value = bound.get(store.value, store.value)
        if not isinstance(value, kinds):
            return False
        if not (isinstance(value.a, TensorLoad) and value.a.source.same_as(store.buffer)):
            return False
    return True


def choose_row_configs(
    sch: Schedule, roles: Roles, device: str, _tensor_cores: bool
) -> list[RowConfig]:
    """Configs for rows: by the rules of the recipes for rows, and one of rows of any length."""
    sch, blocks = sch.copy(), roles.blocks
    _inline_around(sch, blocks)
    block = next(each for each in blocks if is_reduction(sch, each))
    node = sch.get(block)
    row = find_row_iterators(sch, block, [])
    length = _multiply(row)
    height = _multiply([it for it in node.iter_vars if it.iter_type != IterVar.CommReduce])
    # The places of the row among the result's dimensions; none if it has one number for a row.
    found = find_row_iterators(sch, blocks[-1], _list_results(sch, blocks))
    variables = [] if is_reduction(sch, blocks[-1]) else [it.var for it in found]
    iterators = sch.get(blocks[-1]).iter_vars
    axes = [at for at, it in enumerate(iterators) if is_among(it.var, variables)]
    dimensions = len(sch.get(blocks[-1]).iter_vars)
    is_inner = len(row) == 1 and axes in ([], [dimensions - 1])
    if length is None or not is_inner:
        return [PLAIN_ROWS]
    dtype, gpu = node.reads[0].source.dtype, read_gpu(device)
    sums = sum(is_reduction(sch, each) for each in blocks) if axes else 0
    ranked = rank_configs(height or _MANY, length, dtype, sums=sums, gpu=gpu)
    configs = [config if height else replace(config, rows=1) for config, _ in ranked]
    chosen, without = configs[0], [it for it in configs if not it.clusters]
    whole = next(it for it in without if it.parts == 1)
    plain = replace(PLAIN_ROWS, threads=whole.threads, rows=whole.rows)
    # How many elements of a row stand in one word that the block unpacks.
    words = [it for it in find_all(node.body, TensorLoad) if "int" in str(it.source.dtype)]
    last = [it.indices[-1] for it in words if len(it.indices)]
    counts = [constant(index.b) or 0 for index in last if isinstance(index, FloorDiv)]
    if packed := [count for count in counts if 1 < count <= _MOST_PACKED]:
        plain = replace(plain, vector=min(packed))
    # Parts of some functions are refused, such as those of two results at a time.
    return list(
        dict.fromkeys([chosen, without[0], whole, plain, replace(plain, rows=1), PLAIN_ROWS])
    )


def _multiply(iterators: Sequence[IterVar]) -> int | None:
    """How many points iterators have together; None of an open size."""
    extents = [constant(iterator.dom.extent) for iterator in iterators]
    return None if None in extents else math.prod(extent or 1 for extent in extents)


ROWS_PLAN = Plan(
    ROWS,
    match_rows,
    lambda sch, roles, config: schedule_rows(sch, list(roles.blocks), config=config),
    choose_row_configs,
    (RowConfig,),
)
