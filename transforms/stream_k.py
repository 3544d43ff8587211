"""Equal shares of a sum's steps for all GPU blocks, whatever the number of tiles: stream-K.

The decomposition is that of M. Osama and others (Stream-K: Work-centric Parallel Decomposition for
Dense Matrix-Matrix Multiplication on the GPU, 2023). A kernel has parts of a sum on one axis of GPU
blocks and tiles on another, and goes through the steps of one part of one tile in a serial loop. To
the sum of all parts it does not matter in which of them a step is added up, so that steps may move
from part to part: `stream_steps` marks the loop, and the pass `StreamSteps` moves them.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any, NamedTuple

from tvm.ir import Range, TensorLoad
from tvm.s_tir import MatchBufferRegion, SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.sym import Analyzer, detect_linear_equation
from tvm.tirx import (
    Add,
    AllocBuffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    IterVar,
    SeqStmt,
    Var,
    const,
    floordiv,
)
from tvm.tirx import max as larger
from tvm.tirx import min as smaller
from tvm.tirx.analysis import undefined_vars
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_equal, structural_map

from .enumeration import count_values
from .hopper.tma_tiles import TMA_PREFIX
from .pass_options import set_pipeline
from .queries import get_loop_name, get_root
from .rewriting import edit_loop, exchange, map_elements
from .schedule import TransformError, transform
from .tir import (
    constant,
    find_all,
    get_axis,
    get_elements,
    get_loops_around,
    get_places,
    get_regions,
    is_among,
    is_used,
    list_allocated,
    replace_fields,
    substitute,
)

_COUNTED = 1 << 21
"""Steps of all tiles among which the smallest share is looked for."""


class Shares(NamedTuple):
    """Equal shares of the steps of tiles, one after the other, of which a worker has one each.

    Attributes
    ----------
    tiles, steps, parts : of the result, of a tile, and of a tile's sum
    each : the steps of a share
    workers : GPU blocks; the last one may have nothing but a part without steps
    """

    tiles: int
    steps: int
    parts: int
    each: int
    workers: int


def count_parts(tiles: int, steps: int, each: int) -> int:
    """How many shares, of so many steps each, meet in one tile at most."""
    return max(
        (tile * steps + steps - 1) // each - tile * steps // each + 1
        for tile in range(min(tiles, each // math.gcd(steps, each)))
    )


def share_steps(tiles: int, steps: int, parts: int, workers: int) -> Shares | None:
    """The smallest equal shares for so many workers at most, of which no more than `parts` meet in
    a tile; None where there are fewer workers than parts.

    Of tiles whose many steps begin anywhere in a share, it is one that is known to do.
    """
    if workers < parts:
        return None
    # As many as there are, with all parts of the last tile, and as many as a tile has parts.
    others = (tiles - 1) * steps // (workers - parts + 1) + 1
    least = max(-(-tiles * steps // workers), others, -(-steps // parts))
    if parts == 1:  # which ends where a tile does
        each = -(-least // steps) * steps
    else:
        each = max(least, -(-(steps - 1) // (parts - 1)))
        tried = range(least, each if tiles * steps <= _COUNTED else least)
        each = next((it for it in tried if count_parts(tiles, steps, it) <= parts), each)
    return Shares(tiles, steps, parts, each, (tiles - 1) * steps // each + parts)


def find_other_use(body: Any, kernel: For, buffer: Any, at: int) -> str | None:
    """The name of what does anything with the parts in a buffer but to add up all of them.

    `at` is the dimension of parts, `kernel` what writes them, in a function's body.
    """

    def uses(block: SBlock, buffer: Any) -> bool:  # by what it declares or by what it does
        used = [region.source for region in get_regions(block)]
        used += [matched.source.source for matched in block.match_buffers]
        return is_among(buffer, [*used, *(it for it, _ in get_elements(block))])

    inside = find_all(kernel, SBlock)
    places = [it for it in get_places(body) if it.is_innermost and not is_among(it.block, inside)]
    using = [place for place in places if uses(place.block, buffer)]
    for place in using:
        # It is to add up all parts, each as often, and to use them for nothing else, while no other
        # block uses a sum to which not all of them have been added.
        block, store, other = place.block, place.block.body, f"block '{place.name}'"
        if not isinstance(store, BufferStore) or not is_sum(store) or block.match_buffers:
            return other
        load, loads = store.value.b, find_all(block, TensorLoad)
        if [it for it in loads if it.source.same_as(buffer)] != [load]:
            return other
        index = load.indices[at]
        reduced = [it.var for it in block.iter_vars if it.iter_type == IterVar.CommReduce]
        beside = any(is_used(index, it) for n, it in enumerate(load.indices) if n != at)
        if beside or not is_among(index, reduced):
            return other
        # The iterator has each value as often, whatever the others have.
        loops = [it for it in place.loops if is_used(it.loop_var, place.values[index])]
        variables = [loop.loop_var for loop in loops]
        rest = [place.values[it.var] for it in block.iter_vars if not it.var.same_as(index)]
        guards = [it for it in place.guards if any(is_used(each, it) for each in variables)]
        free = [var for it in guards for var in undefined_vars(it) if not is_among(var, variables)]
        if free or any(is_used(it, value) for value in rest for it in variables):
            return other
        times = count_values(place.values[index], guards, loops)
        takes_all = set(times) == set(range(constant(buffer.shape[at]) or 0))
        halfway = any(
            uses(it.block, store.buffer) and any(is_among(loop, loops) for loop in it.loops)
            for it in places
            if it is not place
        )
        if not takes_all or len(set(times.values())) != 1 or halfway:
            return other
    own = [*(place.block.body.value.b for place in using), *find_all(kernel, TensorLoad)]
    loads = [it for it in find_all(body, TensorLoad) if it.source.same_as(buffer)]
    return None if all(is_among(it, own) for it in loads) else "a condition, or a bound,"


def is_sum(store: BufferStore) -> bool:
    """Whether a store adds something else to what was there."""
    value = store.value
    before = BufferLoad(store.buffer, store.indices)
    if not isinstance(value, Add) or not structural_equal(value.a, before):
        return False
    return not any(it.source.same_as(store.buffer) for it in find_all(value.b, TensorLoad))


STREAMS = "tirstep_streams"
"""The annotation of a loop over steps: how many GPU blocks share those of all tiles, at most."""
PARTS_AXIS, TILES_AXIS = "blockIdx.y", "blockIdx.x"


def plan_stream(body: Any, loop: For, workers: int) -> tuple[For, For]:
    """The nest of parts and tiles around a loop over steps, and what that kernel becomes.

    `body` is the function's. Raises `TransformError` where that cannot be.
    """
    stream = _Stream(body, loop, workers)
    _require_terms(body, stream)
    kernel = stream.write()
    for buffer, at in stream.apart:
        user = find_other_use(body, stream.nest[0], buffer, at)
        if user is not None:
            raise TransformError(
                f"{user} does not add up all parts of '{buffer.name}', or does more with them",
                "leave the parts as they are",
            )
    return stream.nest[0], kernel


class _Stream:
    """A kernel whose GPU blocks are to share steps, and its body with the steps of all parts.

    Attributes
    ----------
    parts, tiles, steps : its loops; those of parts and of tiles follow each other
    nest : the loops of parts and of tiles, the outer one first
    shares : of the GPU blocks
    written : the buffers that blocks under the loops write
    private : those of GPU blocks and threads, which come to lie inside of the kernel
    own : the buffers that the function allocates
    apart : those that have a dimension of parts, and which that is
    first : a worker's first step in a tile, or the iterator that has it
    values : of iterators, in the loops of before
    zeros : the part, in variables that tell it
    loose : variables of which only some expressions together tell a step
    moved : iterators that tell a step, and count from the first one already
    """

    def __init__(self, body: Any, loop: For, workers: int) -> None:
        name = loop.loop_var.name
        around = {get_axis(it): it for it in get_loops_around(loop, find_all(body, For))}
        parts, tiles = around.get(PARTS_AXIS), around.get(TILES_AXIS)
        if (
            parts is None
            or tiles is None
            or not (parts.body.same_as(tiles) or tiles.body.same_as(parts))
        ):
            raise TransformError(
                f"loop '{name}' is not under parts on {PARTS_AXIS} and tiles on {TILES_AXIS}, one "
                "directly under the other",
                "cut the sum with rfactor_reduction, and bind its parts and its tiles",
            )
        extents = [constant(it.extent) for it in (tiles, loop, parts)]
        starts = [constant(it.min) for it in (tiles, loop, parts)]
        if None in extents or any(starts) or loop.kind != ForKind.SERIAL or extents[1] == 1:
            raise TransformError(
                f"loop '{name}' is no serial loop of two steps or more, with tiles and parts "
                "around it that are constant in number",
                "split the sum of a part into steps, and leave them serial",
            )
        inner = find_all(loop, For)
        if any(str(key).startswith(TMA_PREFIX) for it in inner for key in it.annotations):
            raise TransformError(
                f"loop '{name}' waits for bulk copies, whose barriers count the steps of one tile",
                "let threads copy tiles: prefetch_asynchronously",
            )
        count, self.each, number = (extent or 1 for extent in extents)
        shares = share_steps(count, self.each * number, number, workers)
        if shares is None:
            raise TransformError(
                f"{workers} GPU blocks are fewer than the {number} parts of a sum",
                f"use {number} or more, or fewer parts",
            )
        self.parts, self.tiles, self.steps, self.shares = parts, tiles, loop, shares
        self.nest = (parts, tiles) if parts.body.same_as(tiles) else (tiles, parts)
        self.written = [it.buffer for it in find_all(tiles, BufferStore)]
        self.written += [it.source for block in find_all(tiles, SBlock) for it in block.writes]
        self.own = list_allocated(body)
        self.private = [it for it in self.own if str(it.scope()) != "global"]
        self.own += [it.buffer for it in find_all(body, AllocBuffer)]
        self.apart: list[tuple[Any, int]] = []
        self.first: Any = None
        self.values: dict[Any, Any] = {}
        self.zeros: dict[Any, Any] = {parts.loop_var: const(0, parts.loop_var.ty.dtype)}
        self.loose: list[Any] = [parts.loop_var, loop.loop_var]
        self.moved: list[Any] = []

    def write(self) -> For:
        """The kernel with a worker on each GPU block, which goes through its tiles."""
        tile, part, step = (it.loop_var for it in (self.tiles, self.parts, self.steps))
        tiles, steps, parts, each, workers = self.shares
        worker, visit = Var("worker", tile.ty), Var("visit", tile.ty)
        simplify = Analyzer().simplify
        begin = larger((worker - (parts - 1)) * each + steps - 1, const(0))
        begin = simplify(floordiv(begin, steps))
        end = smaller(floordiv((worker + 1) * each - 1, const(steps)) + 1, const(tiles))
        first = smaller(larger(worker * each - tile * steps, const(0)), const(steps))
        count = smaller((worker + 1) * each - tile * steps, const(steps)) - first

        def shorten(loop: For) -> For:
            if not loop.loop_var.same_as(step):
                return loop
            kept = {key: it for key, it in loop.annotations.items() if key != STREAMS}
            return For(step, const(0), count, loop.kind, loop.body, None, kept)

        self.first = first
        nest = structural_map(self.rewrite(self.nest[1].body), (For, shorten))
        nest = substitute(nest, {part: worker - floordiv(tile * steps, const(each))})
        nest = substitute(nest, {tile: begin + visit})
        nest = For(visit, const(0), simplify(end - begin), ForKind.SERIAL, nest)
        bound = self.tiles.thread_binding
        span = None if bound.dom is None else Range.from_min_extent(0, workers)
        axis = IterVar(span, Var(bound.var.name, bound.var.ty), bound.iter_type, bound.thread_tag)
        kept = self.tiles.annotations
        return For(worker, const(0), const(workers), ForKind.THREAD_BINDING, nest, axis, kept)

    def rewrite(self, node: Any) -> Any:
        if isinstance(node, For):
            if any(self.is_loose(it) for it in (node.min, node.extent)):
                raise self.refuse(node.extent)
            return edit_loop(node, body=self.rewrite(node.body))
        if isinstance(node, SeqStmt):
            return SeqStmt([self.rewrite(part) for part in node.seq])
        if isinstance(node, SBlockRealize):
            return self.rewrite_block(node)
        if isinstance(node, IfThenElse):
            raise self.refuse(node.condition)
        return self.rewrite_statement(node)

    def is_loose(self, expression: Any) -> bool:
        return any(is_used(it, expression) for it in self.loose)

    def refuse(self, expression: Any) -> TransformError:
        return TransformError(
            f"{expression} depends on the part, or on the step within it, in a way of its own",
            "leave the parts as they are",
        )

    def find_factors(self, expression: Any) -> tuple[int, int]:
        """By how much an expression grows with the part, and with the step."""
        whole = substitute(expression, self.values)
        loops = [self.parts.loop_var, self.steps.loop_var]
        factors = [constant(it) for it in detect_linear_equation(whole, loops)[:2]]
        if len(factors) != 2 or None in factors:
            raise self.refuse(whole)
        return factors[0] or 0, factors[1] or 0

    def is_step(self, part: int, step: int) -> bool:
        return step != 0 and part == self.each * step

    def move(self, expression: Any, step: int) -> Any:
        """What grows with the step, counted from the first step of the tile, not of the part."""
        if any(is_used(it, expression) for it in self.moved):
            raise self.refuse(substitute(expression, self.values))
        return Analyzer().simplify(self.put_zeros(expression) + self.first * step)

    def put_zeros(self, expression: Any) -> Any:
        return Analyzer().simplify(substitute(expression, self.zeros))

    def place(self, index: Any, buffer: Any = None, at: int = 0) -> Any:
        """An index in a buffer."""
        if not self.is_loose(index):
            return index
        part, step = self.find_factors(index)
        if self.is_step(part, step):
            return self.move(index, step)
        if (part, step) != (1, 0) or not is_among(buffer, self.written):
            raise self.refuse(substitute(index, self.values))
        if is_among(buffer, self.private):
            return self.put_zeros(index)  # a worker has one part there at a time
        if str(buffer.scope()) != "global":
            raise TransformError(
                f"'{buffer.name}' in {buffer.scope()} memory is allocated by no block, and may be "
                "one for all parts",
                "allocate it with T.sblock_alloc_buffer",
            )
        if not is_among(buffer, self.own):
            raise TransformError(
                f"parts of '{buffer.name}' are seen outside of the function, which is given it",
                "leave the parts as they are",
            )
        self.apart.append((buffer, at))
        return index

    def rewrite_block(self, realize: SBlockRealize) -> Any:
        block, around = realize.block, self.first
        if self.is_loose(realize.predicate):
            raise self.refuse(realize.predicate)
        items, values = list[IterVar](), list[Any]()
        for item, value in zip(block.iter_vars, realize.iter_values, strict=True):
            new, domain = value, item.dom
            if self.is_loose(value):
                part, step = self.find_factors(value)
                if self.is_step(part, step):
                    new = self.move(value, step)
                    self.moved.append(item.var)
                elif part == 0:
                    self.loose.append(item.var)
                    extent = domain.extent * self.shares.parts
                    domain = Range.from_min_extent(domain.min, extent)
                elif (part, step) == (1, 0):
                    self.loose.append(item.var)
                    self.zeros[item.var] = const(0, item.var.ty.dtype)
                else:
                    raise self.refuse(value)
            self.values[item.var] = substitute(value, self.values)
            items.append(IterVar(domain, item.var, item.iter_type, item.thread_tag))
            values.append(new)
        reduced = [it.var for it in block.iter_vars if it.iter_type == IterVar.CommReduce]
        if self.first is around and any(
            self.is_loose(it) and self.find_factors(it)[1] for it in reduced
        ):
            # Sums lie where the loops of their reductions are: a step alone is one of these.
            first = Var("vfirst", self.steps.loop_var.ty)
            domain = Range.from_min_extent(0, self.shares.steps)
            items.append(IterVar(domain, first, IterVar.DataPar))
            values.append(around)
            self.first = first
        if any(self.find_factors(it)[1] for it in reduced):
            adds_up = not isinstance(block.body, BufferStore) or is_sum(block.body)
            if block.init is not None or not adds_up:
                raise TransformError(
                    f"block '{block.name_hint}' "
                    + ("does not add up" if block.init is None else "begins with the first step"),
                    "take the initialization of a sum out in front of its steps: "
                    "decompose_reduction_at",
                )
        changed = replace_fields(
            block,
            iter_vars=items,
            reads=[self.place_region(it) for it in block.reads],
            writes=[self.place_region(it) for it in block.writes],
            body=self.rewrite(block.body),
            init=None if block.init is None else self.rewrite_statement(block.init),
            match_buffers=[
                MatchBufferRegion(it.buffer, self.place_region(it.source))
                for it in block.match_buffers
            ],
        )
        self.first = around
        return SBlockRealize(values, realize.predicate, changed)

    def place_region(self, region: Any) -> Any:
        ranges = [
            Range.from_min_extent(self.place(it.min, region.source, at), it.extent)
            for at, it in enumerate(region.region)
        ]
        return BufferRegion(region.source, ranges)

    def rewrite_statement(self, statement: Any) -> Any:
        if not self.is_loose(statement):
            return statement
        bare = map_elements(statement, lambda buffer, at: (buffer, [const(0)] * len(at)))
        if self.is_loose(bare):
            raise self.refuse(bare)

        def move(buffer: Any, indices: Any) -> tuple[Any, list[Any]]:
            return buffer, [self.place(it, buffer, at) for at, it in enumerate(indices)]

        return map_elements(statement, move)


def _require_terms(body: Any, stream: _Stream) -> None:
    """Refuse a kernel whose steps do more than to add terms of their own to sums, or use what the
    step before left; and one whose other blocks do more with the sums than to copy them.
    """

    def require_not(is_used_there: bool, block: SBlock, buffer: Any) -> None:
        if is_used_there:
            raise TransformError(
                f"block '{block.name_hint}' computes with '{buffer.name}', which other steps "
                "change",
                "leave the parts as they are",
            )

    def list_read(block: SBlock) -> list[Any]:  # of a sum, what its terms do, too
        if isinstance(block.body, BufferStore):
            return [it.source for it in find_all(block.body, TensorLoad)]
        return [it.source for it in block.reads]

    found = find_all(stream.steps.body, SBlockRealize)
    nested = [it for each in found for it in find_all(each.block.body, SBlockRealize)]
    inside = [it for it in found if not is_among(it, nested)]
    updates = [
        it.block
        for it in inside
        if any(
            item.iter_type == IterVar.CommReduce and is_used(stream.steps.loop_var, value)
            for item, value in zip(it.block.iter_vars, it.iter_values, strict=True)
        )
    ]
    sums = [region.source for block in updates for region in block.writes]
    later = [region.source for it in inside for region in it.block.writes]
    made: list[Any] = []
    for block in (it.block for it in inside):
        own = [it.source for it in block.writes] if is_among(block, updates) else []
        for buffer in list_read(block):
            is_left = is_among(buffer, later) and not is_among(buffer, made)
            require_not(is_left and not is_among(buffer, own), block, buffer)
        made += [] if own else [it.source for it in block.writes]
    under = find_all(stream.steps, SBlock)
    for block in find_all(body, SBlock):
        is_around = any(it.same_as(stream.steps) for it in find_all(block, For))
        for buffer in [] if is_around or is_among(block, under) else list_read(block):
            require_not(is_among(buffer, made) and not is_among(buffer, sums), block, buffer)
    for block in find_all(stream.tiles, SBlock):
        for store in [] if is_among(block, under) else find_all(block, BufferStore):
            used = [it.source for it in find_all(store.value, TensorLoad)]
            used = [it for it in used if is_among(it, stream.written)]
            for buffer in used:
                require_not(not isinstance(store.value, TensorLoad), block, buffer)


@transform
def stream_steps(sch: Schedule, loop: LoopRV, *, workers: int) -> None:
    """Give GPU blocks equal shares of the steps of all tiles, one after the other.

    Tiles times parts seldom are a multiple of what a GPU runs at a time. Here each of `workers`
    GPU blocks has the same number of steps: the rest of a tile that another one began, whole tiles,
    and the beginning of one more. What it adds up of a tile is one part of the tile's sum; the
    block that adds up the parts stays as it is, and finds zeros where fewer workers meet in a tile
    than there are parts.

    The loop is marked, and its kernel becomes one of workers when the pipeline "tirstep" lowers it.
    Until then, and where a later step makes that impossible, parts are slices of one length, with
    the same sums. The order in which a sum adds up is another one. Of asynchronous copies none is
    in flight behind a step, since TVM counts them in loops of constant length alone: copies through
    registers (`prefetch_through_registers`) are faster here.

    rewrite: ``for p in blockIdx.y of 2: for t in blockIdx.x of 3: for s in 4: C[p, t] += A[t, p * 4
        + s]`` for 4 workers -> ``for w in blockIdx.x of 4: for t in tiles of w: for s in its steps
        there: C[w - t * 8 // 6, t] += A[t, max(w * 6 - t * 8, 0) + s]``, when the module is lowered
    consumes: nothing
    requires: a serial loop of two steps or more, under parts on blockIdx.y and tiles on blockIdx.x,
        one directly under the other, as `rfactor_reduction` and `bind_loop` make them; a sum that
        is initialized in front of it, of terms that use nothing of other steps, and that is copied
        at most before another block adds up all parts, which nobody else reads; no bulk copies; at
        least as many `workers` as parts, of which fewer are there where more than there are parts
        would meet in a tile
    """
    if workers < 1:
        raise TransformError(f"workers={workers} must be >= 1", "use an integer >= 1")
    node = sch.get(loop)
    if STREAMS in node.annotations:
        raise TransformError(
            f"loop '{get_loop_name(sch, loop)}' is shared already", "call this once"
        )
    plan_stream(get_root(sch, loop), node, workers)
    sch.annotate(loop, STREAMS, workers)
    set_pipeline(sch)


@prim_func_pass(opt_level=0, name="tirstep.StreamSteps")
def StreamSteps(function: Any, *_: Any) -> Any:  # noqa: N802 - named like TVM's
    """Give each GPU block an equal share of the steps of all tiles, as `stream_steps` has asked.

    The steps of a tile that are one worker's are one part of its sum. Where fewer workers meet in
    a tile than its sum has parts, the last part is zeros.

    A loop that cannot be part of a stream any more stays as it is, which computes the same.

    rewrite: ``for p in blockIdx.y of 2: for t in blockIdx.x of 3: for s in 4: C[p, t] += A[t, p * 4
        + s]`` for 4 workers -> ``for w in blockIdx.x of 4: for t in tiles of w: for s in its steps
        there: C[w - t * 8 // 6, t] += A[t, max(w * 6 - t * 8, 0) + s]``
    """
    for loop in find_all(function.body, For):
        if STREAMS in loop.annotations:
            with contextlib.suppress(TransformError):
                workers = constant(loop.annotations[STREAMS]) or 1
                nest, kernel = plan_stream(function.body, loop, workers)
                function = function.with_body(exchange(function.body, nest, kernel))

    def forget(loop: For) -> For:
        rest = {key: it for key, it in loop.annotations.items() if str(key) != STREAMS}
        return loop if len(rest) == len(loop.annotations) else edit_loop(loop, annotations=rest)

    return function.with_body(structural_map(function.body, (For, forget)))
