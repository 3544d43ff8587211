"""Software pipelines: the next tile is on its way while this one is computed.

The passes of asynchronous copies are TVM's LowerAsyncDMA made faster, and the right waits. TVM's
pass visits the body of an attribute twice, and so that of an attribute within seven others 128
times: a second for a kernel of attention, more than all other passes take together. Around a kernel
such attributes are mostly thread axes. All of them but the outermost are loops here while TVM's
pass runs, which visits these once and knows of their variables what it knows of the axes'. The
outermost stays, for what the pass notes on its first visit.

Where the products of a tile come before the copies of a later one, TVM's InjectSoftwarePipeline
adds up what may be in flight for each copy, where all copies of an iteration are one group: of two
copies it lets ``2 * (stages - 2)`` groups be in flight, where ``stages - 2`` is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.s_tir.transform import LowerAsyncDMA as LowerInTvm
from tvm.sym import Analyzer
from tvm.tirx import AttrStmt, BitwiseAnd, BufferStore, For, ForKind, SeqStmt, const
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from .annotations import ASYNC, LOCAL_STAGE, ORDER, STAGE, count_statements
from .layout import require_copy
from .loops import UNROLL, require_constant, require_serial
from .pass_options import set_pass_option, set_pipeline
from .queries import get_enclosing_loops, get_loop_name, get_root, get_sblock_name
from .schedule import TransformError, transform
from .tir import (
    THREAD_EXTENT,
    bind_ranges,
    constant,
    find_all,
    find_axes,
    get_operands,
    get_regions,
    is_among,
    is_choice,
)

DOUBLE_BUFFER = "double_buffer_scope"


@transform
def prefetch_fragments(sch: Schedule, loop: LoopRV) -> None:
    """Load the fragments of a loop's next iteration into registers while this one computes.

    rewrite: ``for k: load(k); compute(k)`` -> ``load(0); for k: load(k + 1); compute(k)``, when
        the module is lowered
    consumes: nothing
    requires: a loop, not bound, with two or more iterations and not pipelined yet, whose body is
        copies into registers followed by one computation; a call before the loop around it is
        pipelined; fragments that are used only in the loop, each written by one copy, which writes
        in each iteration all that is used; sources that the loop does not write (TVM would compute
        with fragments of another iteration)
    guarded: each lane reads only its own fragments, and no stage is written while it is read
    """
    parts = require_pipeline(sch, loop)
    blocks = [block for part in parts[:-1] for block in find_all(part, SBlock)]
    for block in blocks:
        scopes = {str(region.source.scope()) for region in block.writes}
        if scopes != {"local"}:
            raise TransformError(
                f"block '{block.name_hint}' writes scope '{', '.join(sorted(scopes)) or None}', "
                "not registers",
                "pipeline copies into shared memory with prefetch_through_registers",
            )
        _require_one_store(block)
    require_own_tiles(sch, loop, blocks)
    copies, rest = len(parts) - 1, count_statements(parts[-1])
    sch.annotate(loop, STAGE, [0] * copies + [1] * rest)
    sch.annotate(loop, ORDER, list(range(copies + rest)))


@transform
def prefetch_through_registers(sch: Schedule, loop: LoopRV, copies: Sequence[SBlockRV]) -> None:
    """Fetch the next tiles into registers while these are used, then store them to shared memory.

    The shared buffers are doubled. Loads from global memory are issued before the computation, and
    their results are stored after it, so that their latency is hidden.

    rewrite: ``for k: A_shared = A[k]; compute(k)`` -> ``A_shared[0] = A[0]; for k: r = A[k + 1];
        compute(A_shared[k % 2]); A_shared[(k + 1) % 2] = r``, when the module is lowered
    consumes: nothing
    requires: a loop as for `prefetch_fragments`, whose body is the copies, in their order, and one
        statement that computes; copies of one store each into shared memory, and tiles that meet
        the requirements for fragments there
    guarded: each thread stores the registers that it fetched, and no stage is written while it is
        read
    """
    parts = require_pipeline(sch, loop)
    require_copies(sch, loop, copies, parts)
    for copy in copies:
        sch.annotate(copy, LOCAL_STAGE, 1)
        sch.annotate(copy, DOUBLE_BUFFER, 0)
    count, rest = len(copies), count_statements(parts[-1])
    before = 1 if rest == 3 else rest  # the statements that come before the stores
    loads = [place for index in range(count) for place in (index, count + before + index)]
    computing = list(range(count, count + before))
    if rest == 3:
        stages, computing = [0, 1, 1], [2 * count + 1, count, 2 * count + 2]
    else:
        stages = [1] * rest
    sch.annotate(loop, STAGE, [0, 0] * count + stages)
    sch.annotate(loop, ORDER, [*loads, *computing])


@transform
def prefetch_asynchronously(
    sch: Schedule,
    loop: LoopRV,
    copies: Sequence[SBlockRV],
    *,
    stages: int = 3,
    fragments_first: bool = False,
    products_first: bool = False,
) -> None:
    """Keep asynchronous copies of the next iterations' tiles to shared memory in flight.

    The shared buffers become `stages` times as large. The pass options that this needs are recorded
    in the module (`set_pass_option`). Plain copies of 4, 8 or 16 bytes per thread, zero padding
    included, become cp.async, which needs compute capability 8.0; others become loads and stores,
    which are correct, but wait for global memory.

    With `fragments_first`, the first fragments of the next tile are loaded before the last ones of
    this tile are multiplied, if the computation is a pipeline of fragments: its multiplications
    then need not wait for shared memory at the beginning of each tile. This needs one more tile to
    have arrived, so one fewer is in flight.

    With `products_first`, a tile is multiplied before the copies into the previous tile's stage are
    issued, so that products of two tiles may be in flight (`tensorize_warpgroups`). In that order
    TVM waits for too few copies; the pass `CorrectAsyncWaits` corrects that, in the pipeline for
    which the module asks from then on (`set_pipeline`).

    rewrite: ``for k: A_shared = A[k]; compute(k)`` -> ``for k: copy A[k + stages - 1]; wait for
        A[k]; compute(k)``, when the module is lowered
    consumes: nothing
    requires: what `prefetch_through_registers` requires, except that without `fragments_first` and
        `products_first` any number of statements may compute, if they have no shared memory of
        their own; stages from 2 to the iterations of the loop; vectors of adjacent elements in the
        source and in the tile (of others TVM copies wrong elements); something to copy in each
        iteration (TVM omits empty groups, but counts them when it waits); for `fragments_first` a
        computation that `prefetch_fragments` made a pipeline, and 3 stages or more; for
        `products_first` a computation that is not a pipeline, and 3 stages or more; no
        `suggest_unrolling` of the loop or of one around it
    guarded: vectors of adjacent elements, copied by all threads, and waits that cover each group of
        copies
    """
    parts = require_pipeline(sch, loop)
    require_copies(sch, loop, copies, parts, takes_more=not (fragments_first or products_first))
    extent = require_constant(sch, loop)
    if not 2 <= stages <= extent:
        raise TransformError(
            f"stages={stages} does not fit loop '{get_loop_name(sch, loop)}' of {extent} "
            "iterations",
            f"use 2 to {extent}" if extent > 2 else "use 2",
        )
    for node in [*get_enclosing_loops(sch, loop), sch.get(loop)]:
        if UNROLL in node.annotations:
            raise TransformError(
                f"loop '{node.loop_var.name}' is marked by suggest_unrolling, under which TVM "
                "cannot say how many copies to wait for",
                "suggest to unroll loops inside of the pipeline only",
            )
    last, count, name = stages - 1, len(copies), get_loop_name(sch, loop)
    rest = sum(count_statements(part) for part in parts[count:])
    if fragments_first:
        if rest != 3:
            raise TransformError(
                f"what loop '{name}' computes is not a pipeline of fragments, so there are no "
                "first ones to load earlier",
                "call prefetch_fragments on the loop inside of it, or leave fragments_first out",
            )
        if stages < 3:
            raise TransformError(
                f"stages={stages} of loop '{name}' leave no tile in flight while the next one is "
                "read",
                "use 3 stages or more with fragments_first",
            )
        computing, order = [last - 1, last, last], [*range(count), count + 1, count, count + 2]
    elif products_first:
        if rest != 1:
            raise TransformError(
                f"what loop '{name}' computes is itself a pipeline, whose parts run later",
                "leave products_first out, or do not pipeline the loop inside of it",
            )
        if stages < 3:
            raise TransformError(
                f"stages={stages} of loop '{name}' leave no copy in flight while a tile is used",
                "use 3 stages or more with products_first",
            )
        computing, order = [last], [*range(1, count + 1), 0]
        set_pipeline(sch)
    else:
        computing, order = [last] * rest, list(range(count + rest))
    sch.annotate(loop, STAGE, [0] * count + computing)
    sch.annotate(loop, ORDER, order)
    sch.annotate(loop, ASYNC, [0])
    if stages == 2:
        # TVM keeps one buffer for two stages where no thread reads what it wrote itself.
        for copy in copies:
            sch.annotate(copy, DOUBLE_BUFFER, 0)
    set_pass_option(sch, name="tirx.use_async_copy", value=True)
    if any(sch.get(copy).writes[0].source.dtype.itemsize == 4 for copy in copies):
        # Otherwise TVM retypes the buffers to vectors and then finds lanes that do not match.
        set_pass_option(sch, name="tirx.disable_storage_rewrite", value=True)


def require_pipeline(sch: Schedule, loop: LoopRV) -> list[Any]:
    """The statements of a loop's body; refuse a loop that cannot become a pipeline."""
    node, name = sch.get(loop), get_loop_name(sch, loop)
    if node.kind != ForKind.UNROLLED:
        require_serial(sch, loop)
    if STAGE in node.annotations:
        raise TransformError(f"loop '{name}' is a pipeline already", "pipeline a loop once")
    for outer in get_enclosing_loops(sch, loop):
        if STAGE in outer.annotations:
            raise TransformError(
                f"loop '{outer.loop_var.name}' around loop '{name}' is a pipeline already, which "
                "counts the statements in its body",
                "pipeline the inner loop first",
            )
    if require_constant(sch, loop) < 2:
        raise TransformError(f"loop '{name}' runs once", "leave it as it is, or use smaller steps")
    parts = list(node.body.seq) if isinstance(node.body, SeqStmt) else [node.body]
    if len(parts) < 2:
        raise TransformError(
            f"loop '{name}' has one statement in its body, and nothing to fetch ahead",
            "place copies there first, with stage_operand_at or cache_read_at",
        )
    return parts


def require_copies(
    sch: Schedule,
    loop: LoopRV,
    copies: Sequence[SBlockRV],
    parts: list[Any],
    *,
    takes_more: bool = False,
) -> None:
    """Refuse a loop that is not the copies into shared memory, and one statement that computes, or
    with `takes_more` any number of these, which write no shared memory.
    """
    name = get_loop_name(sch, loop)
    for index, copy in enumerate(copies):
        scope = str(require_copy(sch, copy).source.scope())
        if scope not in ("shared", "shared.dyn"):
            raise TransformError(
                f"block '{get_sblock_name(sch, copy)}' writes scope '{scope}'",
                "name copies into shared memory",
            )
        inside = find_all(parts[index], SBlock) if index < len(parts) else []
        if len(inside) != 1 or not inside[0].same_as(sch.get(copy)):
            raise TransformError(
                f"block '{get_sblock_name(sch, copy)}' is not statement {index + 1} of loop "
                f"'{name}'",
                "name the copies that stand first in the loop, in their order",
            )
        _require_one_store(sch.get(copy))
    rest = parts[len(copies) :]
    blocks = [block for part in rest for block in find_all(part, SBlock)]
    written = [str(region.source.scope()) for block in blocks for region in block.writes]
    writes_shared = any(scope.startswith("shared") for scope in written)  # as unnamed copies do
    computes = len(rest) == 1 or (takes_more and len(rest) > 1 and not writes_shared)
    if not copies or not computes:
        raise TransformError(
            f"loop '{name}' has {len(parts)} statements for {len(copies)} copies",
            "name all copies of the loop; one statement that computes follows them "
            "(decompose the reduction outside of the loop first)",
        )
    require_own_tiles(sch, loop, [sch.get(copy) for copy in copies])


def require_own_tiles(sch: Schedule, loop: LoopRV, copies: list[SBlock]) -> None:
    """Refuse copies that are not all an iteration uses of their buffers, and all that uses them.

    An iteration of a pipeline has a part of each buffer for itself, filled before the iterations
    in front of it are done.
    """
    node, name = sch.get(loop), get_loop_name(sch, loop)
    inside = find_all(node, SBlock)
    outside = [  # what neither stands in the loop nor encloses it
        block
        for block in find_all(get_root(sch, loop), SBlock)
        if not is_among(block, inside) and not is_among(node, find_all(block.body, For))
    ]
    for copy in copies:
        target = copy.writes[0].source
        for block in outside:
            if any(region.source.same_as(target) for region in get_regions(block)):
                raise TransformError(
                    f"block '{block.name_hint}' uses '{target.name}' outside of loop '{name}', "
                    "whose iterations would have tiles of their own",
                    "give that block a copy of its own",
                )
        for writer in inside:
            sources = [region.source for region in copy.reads]
            sources += [] if writer.same_as(copy) else [target]
            for region in writer.writes:
                if any(region.source.same_as(source) for source in sources):
                    raise TransformError(
                        f"block '{writer.name_hint}' writes '{region.source.name}' in loop "
                        f"'{name}', which block '{copy.name_hint}' would use ahead of it",
                        "leave such a loop as it is",
                    )
        # TVM knows of each block whether its producers in the same iteration write all it reads.
        for reader in inside:
            if any(region.source.same_as(target) for region in reader.reads):
                flags = sch.state._get_cached_flags(sch.state.get_sref(reader))
                if not flags.region_cover:
                    raise TransformError(
                        f"block '{reader.name_hint}' may read cells of '{target.name}' that block "
                        f"'{copy.name_hint}' does not write in the same iteration of loop "
                        f"'{get_loop_name(sch, loop)}'",
                        "copy all that an iteration reads",
                    )


def _require_one_store(block: SBlock) -> None:
    is_store = isinstance(block.body, BufferStore)
    is_instruction = len(block.match_buffers) == 2 and len(block.writes) == 1  # of ldmatrix
    if block.init is not None or not (is_store or is_instruction):
        raise TransformError(
            f"block '{block.name_hint}' is more than one store",
            "place copies in the loop with cache_read_at, and compute after them",
        )


@prim_func_pass(opt_level=0, name="s_tir.LowerAsyncDMA")
def LowerAsyncDMA(  # noqa: N802 - a pass is named like TVM's
    function: Any, module: Any, context: Any
) -> Any:
    """Lower a function as TVM's pass of this name does: its result, sooner.

    rewrite: none of its own
    """
    axes: dict[Any, AttrStmt] = {}
    outermost = next((each.node for each in find_axes(function.body)), None)

    def hide(node: AttrStmt) -> Any:
        if node.attr_key != THREAD_EXTENT or node.node.same_as(outermost):
            return node
        variable = node.node.var
        axes[variable] = node
        zero = const(0, variable.ty.dtype)
        return For(variable, zero, node.value, ForKind.SERIAL, node.body)

    def show(loop: For) -> Any:
        node = axes.get(loop.loop_var)
        if node is None:
            return loop
        return AttrStmt(node.node, node.attr_key, loop.extent, loop.body, node.span)

    hidden = function.with_body(structural_map(function.body, (AttrStmt, hide)))
    variable = tvm.ir.GlobalVar("main")
    with tvm.transform.PassContext(opt_level=context.opt_level, config=dict(context.config)):
        lowered = LowerInTvm()(tvm.IRModule({variable: hidden}))[variable]
    return function.with_body(structural_map(lowered.body, (For, show)))


WAIT, COMMIT = "async_wait_inflight_count", "async_commit_queue_scope"


@prim_func_pass(opt_level=0, name="tirstep.CorrectAsyncWaits")
def CorrectAsyncWaits(function: Any, *_: Any) -> Any:  # noqa: N802 - named like TVM's
    """Lower the number of copies in flight at a wait to that of the next wait, one group later.

    The next wait is for the next tile, and one more group is committed by then: as many may be in
    flight. Waiting for more copies than needed is right as well, so that the pass changes no
    result but those that were wrong.

    In a loop that ends at a mask TVM chooses the number by where the loop ends: it becomes the
    least one that may be chosen, as instructions want one that is known.

    rewrite: ``for k: (wait 4; compute(k); copy(k + 3)); wait 2; compute(...)`` ->
        ``for k: (wait 2; compute(k); copy(k + 3)); wait 2; compute(...)``
    """
    right: list[tuple[Any, int]] = []
    following: int | None = None  # what the next wait leaves in flight
    commits = 0  # groups until then
    analyzer = bind_ranges(find_all(function.body, For))
    # The waits of a function from the last one on, those of a loop once.
    for node in reversed(find_all(function.body, AttrStmt)):  # each before those within it
        if node.attr_key == COMMIT:
            commits += 1
        elif node.attr_key == WAIT:
            count = _find_least(node.value, analyzer)
            if constant(node.value) is None:
                right.append((node, count))
            if following is not None and commits == 1 and count > following:
                count = following
                right.append((node, count))
            following, commits = count, 0

    def rewrite(node: Any) -> Any:
        counts = [count for wait, count in right if wait.same_as(node)]
        if not counts:
            return node
        value = const(min(counts), node.value.ty.dtype)
        return AttrStmt(node.node, node.attr_key, value, node.body, node.span)

    if not right:
        return function
    return function.with_body(structural_map(function.body, (AttrStmt, rewrite)))


def _find_least(value: Any, analyzer: Analyzer) -> int:
    """The least that a number of copies in flight can be."""
    if not is_choice(value):
        return constant(analyzer.simplify(value)) or 0
    condition, first, second = value.args
    if all(map(analyzer.can_prove, get_operands(condition, BitwiseAnd))):  # it proves none of that
        return _find_least(first, analyzer)
    return min(_find_least(first, analyzer), _find_least(second, analyzer))
