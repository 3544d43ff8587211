"""Two kernels in one launch, whose clusters of thread blocks exchange what the first one computes.

A kernel that combines the partial results of another one launches after it, and reads its inputs
again. Where it needs those of its neighbours only, a cluster of blocks runs both: a barrier of the
cluster (PTX ISA, "barrier.cluster") stands between them, which makes visible to the cluster what
its blocks wrote to global memory, and what a thread has loaded before stays in its registers.

`fuse_kernels_in_clusters` checks and marks the second kernel; `FuseMarkedKernels` makes one of the
two when the module is lowered. TVM launches a kernel in clusters that has the thread axis
clusterCtaIdx.x. Around reductions over threads it takes no such axis: it stands around the barrier.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import tvm_ffi
from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.script import tirx as T
from tvm.tirx import (
    AllocBuffer,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    IterVar,
    SeqStmt,
    Var,
    stmt_seq,
)
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from ..gpu_limits import MAX_CLUSTER
from ..pass_options import set_pipeline
from ..queries import get_loop_name, get_root
from ..rewriting import leave_out, map_elements
from ..schedule import TransformError, transform
from ..tir import (
    THREAD_EXTENT,
    bind_ranges,
    constant,
    find_all,
    get_axis,
    get_iterator_values,
    substitute,
)

MARK = "pragma_tirstep_cluster"
"""Ours, of the second kernel's loop: how many blocks of a cluster run both kernels."""
GRID, RANK = "blockIdx.x", "clusterCtaIdx.x"


def get_capability(architecture: str) -> int:
    """The compute capability of an architecture, 90 for ``"sm_90a"``; 0 for another name."""
    number = architecture.removeprefix("sm_").rstrip("af")
    return int(number) if number.isdigit() else 0


def has_clusters(architecture: str) -> bool:
    """Whether thread blocks come in clusters: from compute capability 9.0 on."""
    return get_capability(architecture) >= 90


@transform
def fuse_kernels_in_clusters(sch: Schedule, first: LoopRV, second: LoopRV, *, blocks: int) -> None:
    """Run a kernel and the one that follows it in one launch, with a cluster barrier between them.

    Each cluster of `blocks` neighbours on blockIdx.x runs both kernels for its own results. What
    threads copied to registers for the first kernel is not loaded again for the second.

    rewrite: ``for b in blockIdx.x: P[b // 4, b % 4] = f(A[b])`` and ``for b in blockIdx.x: B[b] =
        g(A[b], P[b // 4, :])`` -> ``for b in blockIdx.x: P[b // 4, b % 4] = f(A[b]); barrier of 4
        blocks; B[b] = g(A[b], P[b // 4, :])``, when the module is lowered
    consumes: nothing
    requires: two loops on blockIdx.x, one directly after the other, alike in threads and extent,
        which `blocks`, from 2 to 8, divides; of the first one's results a cluster writes and reads
        a span of its own, along one index; no other tensor is written that both access, unless
        there is one cluster; compute capability 9.0
    """
    one, other = sch.get(first), sch.get(second)
    names = f"loops '{get_loop_name(sch, first)}' and '{get_loop_name(sch, second)}'"
    analyzer = bind_ranges([*find_all(one.body, For), *find_all(other.body, For)])
    axes, others = (
        {axis: it.extent for it in find_all(kernel, For) if (axis := get_axis(it))}
        for kernel in (one, other)
    )
    pairs = [
        pair
        for body in find_all(get_root(sch, first).body, SeqStmt)
        for pair in itertools.pairwise(body.seq)
    ]
    if (
        not any(former.same_as(one) and latter.same_as(other) for former, latter in pairs)
        or [axis for axis in axes if axis.startswith("blockIdx")] != [GRID]
        or axes.keys() != others.keys()
        or not all(analyzer.can_prove_equal(axes[axis], others[axis]) for axis in axes)
    ):
        raise TransformError(
            f"{names} are not kernels of the same threads and blocks on {GRID}, one directly after "
            "the other",
            "bind both alike, with nothing between them",
        )
    if not 2 <= blocks <= MAX_CLUSTER or not analyzer.can_prove_equal(one.extent % blocks, 0):
        raise TransformError(
            f"clusters of {blocks} do not divide the {one.extent} blocks of {names}",
            f"use 2 to {MAX_CLUSTER} blocks, which divide the extent of {GRID}",
        )
    values = get_iterator_values(get_root(sch, first))
    touched = []
    for kernel in (one, other):
        found = find_all(kernel, SBlock)
        regions = [(it, True) for block in found for it in block.writes]
        regions += [(it, False) for block in found for it in block.reads]
        touched.append([it for it in regions if it[0].source.scope() == "global"])

    def find_spans(region: Any, kernel: For) -> set[tuple[int, int]]:
        """The indices that stay in a span of their cluster's own, and how long that is."""
        number, rank = (Var(name, kernel.loop_var.ty) for name in ("cluster", "rank"))
        analyzer.bind(number, Range(0, kernel.extent // blocks))
        analyzer.bind(rank, Range(0, blocks))
        place, found = {kernel.loop_var: number * blocks + rank}, set()
        for at, it in enumerate(region.region):
            first = substitute(substitute(it.min, values), place)
            ends = first, first + it.extent - 1
            span = constant(analyzer.simplify(substitute(first, {number: number + 1}) - first)) or 0
            if span > 0 and all(analyzer.can_prove_equal(end // span, number) for end in ends):
                found.add((at, span))
        return found

    is_alone = analyzer.can_prove_equal(one.extent, blocks)
    for (mine, writes), (theirs, rewrites) in itertools.product(*touched):
        if is_alone or not (writes or rewrites) or not mine.source.same_as(theirs.source):
            continue
        if rewrites or not find_spans(mine, one) & find_spans(theirs, other):
            raise TransformError(
                f"blocks of other clusters of {names} access '{mine.source.name}', too, which one "
                "of the two kernels writes",
                f"let each cluster, {GRID} // {blocks}, have a span of its own in both, or leave "
                "two kernels",
            )
    sch.annotate(second, MARK, blocks)
    set_pipeline(sch)


@prim_func_pass(opt_level=0, name="tirstep.FuseMarkedKernels")
def FuseMarkedKernels(function: Any, *_: Any) -> Any:  # noqa: N802 - named like TVM's
    """Make one kernel of two that `fuse_kernels_in_clusters` has marked, before FlattenBuffer.

    rewrite: ``with launch: first`` and ``with launch: second`` -> ``with launch: first; barrier of
        the cluster; second``, where a loop of the second kernel that copies to registers what one
        of the first has copied is left out; on other targets than cuda they stay two
    """
    target = (function.attrs or {}).get("target")
    is_cuda = target is not None and target.kind.name == "cuda"

    def fuse(sequence: SeqStmt) -> Any:
        parts: list[Any] = []
        for part in sequence.seq:
            is_marked = isinstance(part, AttrStmt) and part.attr_key == MARK
            if is_marked and is_cuda:
                parts.append(_fuse(parts.pop(), part.body, part.value))
            else:
                parts.append(part.body if is_marked else part)
        return stmt_seq(*parts)

    if not any(node.attr_key == MARK for node in find_all(function.body, AttrStmt)):
        return function
    return function.with_body(structural_map(function.body, (SeqStmt, fuse)))


def _fuse(first: AttrStmt, second: AttrStmt, blocks: Any) -> AttrStmt:
    """The first of two kernels, which goes on with the second after a barrier of the cluster."""
    launch, body = _open_launch(first)
    axes, rest = _open_launch(second)
    own = {str(axis.node.thread_tag): axis.node.var for axis in launch}
    rest = substitute(rest, {axis.node.var: own[str(axis.node.thread_tag)] for axis in axes})
    stored = Counter(store.buffer for part in (body, rest) for store in find_all(part, BufferStore))
    copies, same = _find_copies(body, stored), dict[Any, Any]()

    def move(buffer: Any, indices: Any) -> Any:
        return (same[buffer], indices) if buffer in same else None

    for buffer, loop in _find_copies(rest, stored).items():
        for kept, copied in copies.items():
            same[buffer] = kept
            if tvm_ffi.structural_equal(map_elements(loop, move), copied):
                rest = leave_out(rest, loop.same_as)
                break
            del same[buffer]
    rest = leave_out(rest, lambda it: isinstance(it, AllocBuffer) and it.buffer in same)
    rest = map_elements(rest, move)
    rank = IterVar(Range(0, blocks), Var("rank", "int32"), IterVar.ThreadIndex, RANK)
    names = "barrier.cluster.arrive.release.aligned", "barrier.cluster.wait.acquire.aligned"
    barrier = SeqStmt([Evaluate(T.ptx[name]()) for name in names])
    joined: Any = stmt_seq(body, AttrStmt(rank, THREAD_EXTENT, blocks, barrier), rest)
    for axis in reversed(launch):
        joined = AttrStmt(axis.node, axis.attr_key, axis.value, joined)
    return joined


def _open_launch(kernel: Any) -> tuple[list[AttrStmt], Any]:
    """The thread axes of a kernel, outermost first, and its body."""
    axes = []
    while isinstance(kernel, AttrStmt) and kernel.attr_key == THREAD_EXTENT:
        axes.append(kernel)
        kernel = kernel.body
    return axes, kernel


def _find_copies(body: Any, stored: Counter[Any]) -> dict[Any, For]:
    """The loops of a kernel that alone fill registers, from global memory that neither kernel
    stores to, by buffer; `stored` counts the stores of both.
    """
    found = {}
    for loop in body.seq if isinstance(body, SeqStmt) else []:
        stores = find_all(loop, BufferStore) if isinstance(loop, For) else []
        loads = [load.source for load in find_all(loop, TensorLoad)] if stores else []
        is_kept = all(it.scope() == "global" and it not in stored for it in loads)
        own = stores[0].buffer if len(stores) == 1 and is_kept else None
        if own is not None and stored[own] == 1 and own.scope() == "local":
            found[own] = loop
    return found
