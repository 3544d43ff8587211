"""Equal shares of a sum's steps for all GPU blocks, whatever the number of tiles: stream-K.

The decomposition is that of M. Osama and others (Stream-K: Work-centric Parallel Decomposition for
Dense Matrix-Matrix Multiplication on the GPU, 2023). A kernel has parts of a sum on one axis of GPU
blocks and tiles on another, and goes through the steps of one part of one tile in a serial loop. To
the sum of all parts it does not matter in which of them a step is added up, so that steps may move
from part to part: `stream_steps` marks the loop, and the pass `StreamSteps` moves them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
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
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_equal, structural_map

from .enumeration import count_values, is_of
from .hopper.tma_tiles import TMA_PREFIX
from .pass_options import set_pipeline
from .queries import get_loop_name, get_root
from .rewriting import edit_loop
from .schedule import TransformError, transform
from .tir import (
    Place,
    constant,
    find_all,
    get_axis,
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
    """
    if workers < parts:
        return None
    # As many as there are, with all parts of the last tile, and as many as a tile has parts.
    others = (tiles - 1) * steps // (workers - parts + 1) + 1
    least = max(-(-tiles * steps // workers), others, -(-steps // parts))
    each = _find_share(tiles, steps, parts, least)
    return Shares(tiles, steps, parts, each, (tiles - 1) * steps // each + parts)


def _find_share(tiles: int, steps: int, parts: int, least: int) -> int:
    """The smallest share, of so many steps at least, of which no more than `parts` meet; of tiles
    whose many steps begin anywhere in a share, one that is known to do.
    """
    if parts == 1:  # which ends where a tile does
        return -(-least // steps) * steps
    enough = max(least, -(-(steps - 1) // (parts - 1)))
    if tiles * steps > _COUNTED:
        return enough
    tried = (it for it in range(least, enough) if count_parts(tiles, steps, it) <= parts)
    return next(tried, enough)


def find_other_use(body: Any, kernel: For, buffer: Any, at: int) -> str | None:
    """The name of what does anything with the parts in a buffer but to add up all of them.

    `at` is the dimension of parts, `kernel` what writes them, in a function's body.
    """
    inside = find_all(kernel, SBlock)
    places = [place for place in get_places(body) if not is_among(place.block, inside)]
    using = [place for place in places if place.is_innermost and _uses(place.block, buffer)]
    for place in using:
        if not _adds_up(place, buffer, at) or _is_read_meanwhile(place, at, places):
            return f"block '{place.name}'"
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


def _uses(block: SBlock, buffer: Any) -> bool:
    """Whether a block reads or writes a buffer, by what it declares or by what it does."""
    used = [region.source for region in get_regions(block)]
    used += [matched.source.source for matched in block.match_buffers]
    used += [store.buffer for store in find_all(block, BufferStore)]
    used += [load.source for load in find_all(block, TensorLoad)]
    return is_among(buffer, used)


def _adds_up(place: Place, buffer: Any, at: int) -> bool:
    """Whether a block adds up all parts, each as often, and uses them for nothing else."""
    store = place.block.body
    if not isinstance(store, BufferStore) or not is_sum(store):
        return False
    load, loads = store.value.b, find_all(place.block, TensorLoad)
    if [it for it in loads if it.source.same_as(buffer)] != [load]:
        return False
    index = load.indices[at]
    others = [it for n, it in enumerate(load.indices) if n != at]
    reduced = [it.var for it in place.block.iter_vars if it.iter_type == IterVar.CommReduce]
    return (
        not place.block.match_buffers
        and is_among(index, reduced)
        and not any(is_used(index, it) for it in others)
        and _takes_all(place, index, constant(buffer.shape[at]))
    )


def _takes_all(place: Place, index: Any, count: int | None) -> bool:
    """Whether an iterator has each of so many values as often, whatever the others have."""
    loops = _find_deciding(place, index)
    variables = [loop.loop_var for loop in loops]
    items = [item.var for item in place.block.iter_vars if not item.var.same_as(index)]
    if any(is_used(it, place.values[item]) for item in items for it in variables):
        return False
    guards = [it for it in place.guards if any(is_used(each, it) for each in variables)]
    if not all(is_of(variables, it) for it in guards):
        return False
    times = count_values(place.values[index], guards, loops)
    return set(times) == set(range(count or 0)) and len(set(times.values())) == 1


def _is_read_meanwhile(place: Place, at: int, places: list[Place]) -> bool:
    """Whether another block uses a sum to which not all parts have been added."""
    store = place.block.body
    loops = _find_deciding(place, store.value.b.indices[at])
    others = [it for it in places if it.is_innermost and it is not place]
    return any(
        _uses(other.block, store.buffer) and any(is_among(it, loops) for it in other.loops)
        for other in others
    )


def _find_deciding(place: Place, index: Any) -> list[For]:
    """The loops that decide over an iterator."""
    return [it for it in place.loops if is_used(it.loop_var, place.values[index])]


STREAMS = "tirstep_streams"
"""The annotation of a loop over steps: how many GPU blocks share those of all tiles, at most."""
PARTS_AXIS, TILES_AXIS = "blockIdx.y", "blockIdx.x"


@dataclass
class Stream:
    """A kernel whose GPU blocks are to share steps.

    Attributes
    ----------
    parts, tiles, steps : its loops; those of parts and of tiles follow each other
    shares : of the GPU blocks
    written : the buffers that blocks under the loops write
    private : those of GPU blocks and threads, which come to lie inside of the kernel
    own : the buffers that the function allocates
    apart : those that have a dimension of parts, and which that is
    """

    parts: For
    tiles: For
    steps: For
    shares: Shares
    written: list[Any]
    private: list[Any]
    own: list[Any]
    apart: list[tuple[Any, int]] = field(default_factory=list)

    @property
    def nest(self) -> tuple[For, For]:
        """The loops of parts and of tiles, the outer one first."""
        is_outer = self.parts.body.same_as(self.tiles)
        return (self.parts, self.tiles) if is_outer else (self.tiles, self.parts)


def plan_stream(body: Any, loop: For, workers: int) -> tuple[Stream, For]:
    """What a loop over steps is part of, and what its kernel becomes.

    `body` is the function's. Raises `TransformError` where that cannot be.
    """
    stream = _read(body, loop, workers)
    _require_terms(body, stream)
    kernel = _write(stream)
    for buffer, at in stream.apart:
        user = find_other_use(body, stream.nest[0], buffer, at)
        if user is not None:
            raise TransformError(
                f"{user} does not add up all parts of '{buffer.name}', or does more with them",
                "leave the parts as they are",
            )
    return stream, kernel


def _read(body: Any, loop: For, workers: int) -> Stream:
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
            f"loop '{name}' is no serial loop of two steps or more, with tiles and parts around it "
            "that are constant in number",
            "split the sum of a part into steps, and leave them serial",
        )
    if any(str(key).startswith(TMA_PREFIX) for it in find_all(loop, For) for key in it.annotations):
        raise TransformError(
            f"loop '{name}' waits for bulk copies, whose barriers count the steps of one tile",
            "let threads copy tiles: prefetch_asynchronously",
        )
    count, steps, number = (extent or 1 for extent in extents)
    if (shares := share_steps(count, steps * number, number, workers)) is None:
        raise TransformError(
            f"{workers} GPU blocks are fewer than the {number} parts of a sum",
            f"use {number} or more, or fewer parts",
        )
    written = [it.buffer for it in find_all(tiles, BufferStore)]
    written += [it.source for block in find_all(tiles, SBlock) for it in block.writes]
    allocated = list_allocated(body)
    private = [it for it in allocated if str(it.scope()) != "global"]
    allocated += [it.buffer for it in find_all(body, AllocBuffer)]
    return Stream(parts, tiles, loop, shares, written, private, allocated)


@dataclass
class _Rewriting:
    """The kernel's body, whose steps are those of all parts.

    Attributes
    ----------
    first : a worker's first step in a tile, or the iterator that has it
    values : of iterators, in the loops of before
    zeros : the part, in variables that tell it
    loose : variables of which only some expressions together tell a step
    moved : iterators that tell a step, and count from the first one already
    """

    stream: Stream
    first: Any
    values: dict[Any, Any] = field(default_factory=dict)
    zeros: dict[Any, Any] = field(default_factory=dict)
    loose: list[Any] = field(default_factory=list)
    moved: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        part, step = self.stream.parts.loop_var, self.stream.steps.loop_var
        self.zeros[part] = const(0, part.ty.dtype)
        self.loose += [part, step]

    def rewrite(self, node: Any) -> Any:
        if isinstance(node, For):
            if any(self._is_loose(it) for it in (node.min, node.extent)):
                raise self._refuse(node.extent)
            return edit_loop(node, body=self.rewrite(node.body))
        if isinstance(node, SeqStmt):
            return SeqStmt([self.rewrite(part) for part in node.seq])
        if isinstance(node, SBlockRealize):
            return self._rewrite_block(node)
        if isinstance(node, IfThenElse):
            raise self._refuse(node.condition)
        return self._rewrite_statement(node)

    def _is_loose(self, expression: Any) -> bool:
        return any(is_used(it, expression) for it in self.loose)

    def _refuse(self, expression: Any) -> TransformError:
        return TransformError(
            f"{expression} depends on the part, or on the step within it, in a way of its own",
            "leave the parts as they are",
        )

    def _find_factors(self, expression: Any) -> tuple[int, int]:
        """By how much an expression grows with the part, and with the step."""
        whole = substitute(expression, self.values)
        loops = [self.stream.parts.loop_var, self.stream.steps.loop_var]
        factors = [constant(it) for it in detect_linear_equation(whole, loops)[:2]]
        if len(factors) != 2 or None in factors:
            raise self._refuse(whole)
        return factors[0] or 0, factors[1] or 0

    def _is_step(self, part: int, step: int) -> bool:
        number = constant(self.stream.steps.extent) or 1
        return step != 0 and part == number * step

    def _move(self, expression: Any, step: int) -> Any:
        """What grows with the step, counted from the first step of the tile, not of the part."""
        if any(is_used(it, expression) for it in self.moved):
            raise self._refuse(substitute(expression, self.values))
        moved = self._put_zeros(expression) + self.first * step
        return Analyzer().simplify(moved)

    def _put_zeros(self, expression: Any) -> Any:
        return Analyzer().simplify(substitute(expression, self.zeros))

    def _place(self, index: Any, buffer: Any = None, at: int = 0) -> Any:
        """An index in a buffer."""
        if not self._is_loose(index):
            return index
        part, step = self._find_factors(index)
        if self._is_step(part, step):
            return self._move(index, step)
        if (part, step) != (1, 0) or not is_among(buffer, self.stream.written):
            raise self._refuse(substitute(index, self.values))
        if is_among(buffer, self.stream.private):
            return self._put_zeros(index)  # a worker has one part there at a time
        if str(buffer.scope()) != "global":
            raise TransformError(
                f"'{buffer.name}' in {buffer.scope()} memory is allocated by no block, and may be "
                "one for all parts",
                "allocate it with T.sblock_alloc_buffer",
            )
        if not is_among(buffer, self.stream.own):
            raise TransformError(
                f"parts of '{buffer.name}' are seen outside of the function, which is given it",
                "leave the parts as they are",
            )
        self.stream.apart.append((buffer, at))
        return index

    def _rewrite_block(self, realize: SBlockRealize) -> Any:
        block, around = realize.block, self.first
        if self._is_loose(realize.predicate):
            raise self._refuse(realize.predicate)
        pairs = zip(block.iter_vars, realize.iter_values, strict=True)
        bound = [self._bind(item, value) for item, value in pairs]
        items, values = [item for item, _ in bound], [value for _, value in bound]
        if self.first is around and self._reduces_steps(block):
            # Sums lie where the loops of their reductions are: a step alone is one of these.
            steps = self.stream.shares.steps
            first = Var("vfirst", self.stream.steps.loop_var.ty)
            items.append(IterVar(Range.from_min_extent(0, steps), first, IterVar.DataPar))
            values.append(around)
            self.first = first
        self._require_sum(block)
        changed = replace_fields(
            block,
            iter_vars=items,
            reads=[self._place_region(it) for it in block.reads],
            writes=[self._place_region(it) for it in block.writes],
            body=self.rewrite(block.body),
            init=None if block.init is None else self._rewrite_statement(block.init),
            match_buffers=[
                MatchBufferRegion(it.buffer, self._place_region(it.source))
                for it in block.match_buffers
            ],
        )
        self.first = around
        return SBlockRealize(values, realize.predicate, changed)

    def _bind(self, item: IterVar, value: Any) -> tuple[IterVar, Any]:
        """An iterator and its value; notes what of the part and the step it tells."""
        new, domain = value, item.dom
        if self._is_loose(value):
            part, step = self._find_factors(value)
            if self._is_step(part, step):
                new = self._move(value, step)
                self.moved.append(item.var)
            elif part == 0:
                self.loose.append(item.var)
                extent = domain.extent * (constant(self.stream.parts.extent) or 1)
                domain = Range.from_min_extent(domain.min, extent)
            elif (part, step) == (1, 0):
                self.loose.append(item.var)
                self.zeros[item.var] = const(0, item.var.ty.dtype)
            else:
                raise self._refuse(value)
        self.values[item.var] = substitute(value, self.values)
        return IterVar(domain, item.var, item.iter_type, item.thread_tag), new

    def _reduces_steps(self, block: SBlock) -> bool:
        reduced = (it.var for it in block.iter_vars if it.iter_type == IterVar.CommReduce)
        return any(self._is_loose(it) and self._find_factors(it)[1] for it in reduced)

    def _require_sum(self, block: SBlock) -> None:
        """Refuse a block that reduces over steps, and not by a sum or by an instruction, and one
        that begins with its first step."""
        if not any(
            item.iter_type == IterVar.CommReduce and self._find_factors(item.var)[1]
            for item in block.iter_vars
        ):
            return
        body = block.body
        adds_up = not isinstance(body, BufferStore) or is_sum(body)
        if block.init is not None or not adds_up:
            raise TransformError(
                f"block '{block.name_hint}' "
                + ("does not add up" if block.init is None else "begins with the first step"),
                "take the initialization of a sum out in front of its steps: "
                "decompose_reduction_at",
            )

    def _place_region(self, region: Any) -> Any:
        ranges = [
            Range.from_min_extent(self._place(it.min, region.source, at), it.extent)
            for at, it in enumerate(region.region)
        ]
        return BufferRegion(region.source, ranges)

    def _rewrite_statement(self, statement: Any) -> Any:
        if not self._is_loose(statement):
            return statement
        bare = _replace_indices(statement, lambda _index, _buffer, _at: const(0))
        if self._is_loose(bare):
            raise self._refuse(bare)
        return _replace_indices(statement, self._place)


def _replace_indices(statement: Any, replace: Callable[[Any, Any, int], Any]) -> Any:
    def load(node: TensorLoad) -> Any:
        indices = [replace(it, node.source, at) for at, it in enumerate(node.indices)]
        return BufferLoad(node.source, indices)

    def store(node: BufferStore) -> Any:
        indices = [replace(it, node.buffer, at) for at, it in enumerate(node.indices)]
        return BufferStore(node.buffer, node.value, indices)

    return structural_map(statement, [(TensorLoad, load), (BufferStore, store)])


def _require_terms(body: Any, stream: Stream) -> None:
    """Refuse a kernel whose steps do more than to add terms of their own to sums, or use what the
    step before left; and one whose other blocks do more with the sums than to copy them.
    """
    inside = _find_outermost(stream.steps.body)
    updates = [it.block for it in inside if _reduces(it, stream.steps)]
    sums = [region.source for block in updates for region in block.writes]
    later = [region.source for it in inside for region in it.block.writes]
    made: list[Any] = []
    for block in (it.block for it in inside):
        own = [it.source for it in block.writes] if is_among(block, updates) else []
        for buffer in _list_read(block):
            is_left = is_among(buffer, later) and not is_among(buffer, made)
            if is_left and not is_among(buffer, own):
                raise _refuse_use(block, buffer)
        made += [] if own else [it.source for it in block.writes]
    under = find_all(stream.steps, SBlock)
    for block in find_all(body, SBlock):
        is_around = any(it.same_as(stream.steps) for it in find_all(block, For))
        if is_around or is_among(block, under):
            continue
        for buffer in _list_read(block):
            if is_among(buffer, made) and not is_among(buffer, sums):
                raise _refuse_use(block, buffer)
    for block in find_all(stream.tiles, SBlock):
        if not is_among(block, under):
            _require_copies(block, stream)


def _require_copies(block: SBlock, stream: Stream) -> None:
    for store in find_all(block, BufferStore):
        used = [it.source for it in find_all(store.value, TensorLoad)]
        used = [it for it in used if is_among(it, stream.written)]
        if used and not isinstance(store.value, TensorLoad):
            raise _refuse_use(block, used[0])


def _find_outermost(body: Any) -> list[SBlockRealize]:
    """The blocks that are in no other one."""
    found = find_all(body, SBlockRealize)
    inner = [it for each in found for it in find_all(each.block.body, SBlockRealize)]
    return [it for it in found if not is_among(it, inner)]


def _reduces(realize: SBlockRealize, loop: For) -> bool:
    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    return any(
        item.iter_type == IterVar.CommReduce and is_used(loop.loop_var, value)
        for item, value in pairs
    )


def _list_read(block: SBlock) -> list[Any]:
    """What a block reads; of a sum, what its terms do, too."""
    if isinstance(block.body, BufferStore):
        return [it.source for it in find_all(block.body, TensorLoad)]
    return [it.source for it in block.reads]


def _refuse_use(block: SBlock, buffer: Any) -> TransformError:
    return TransformError(
        f"block '{block.name_hint}' computes with '{buffer.name}', which other steps change",
        "leave the parts as they are",
    )


def _write(stream: Stream) -> For:
    """The kernel with a worker on each GPU block, which goes through its tiles."""
    tile, part, step = (it.loop_var for it in (stream.tiles, stream.parts, stream.steps))
    tiles, steps, parts, each, workers = stream.shares
    worker, visit = Var("worker", tile.ty), Var("visit", tile.ty)
    simplify = Analyzer().simplify
    begin = simplify(floordiv(larger((worker - (parts - 1)) * each + steps - 1, const(0)), steps))
    end = smaller(floordiv((worker + 1) * each - 1, const(steps)) + 1, const(tiles))
    first = smaller(larger(worker * each - tile * steps, const(0)), const(steps))
    count = smaller((worker + 1) * each - tile * steps, const(steps)) - first

    def shorten(loop: For) -> For:
        if not loop.loop_var.same_as(step):
            return loop
        kept = {key: it for key, it in loop.annotations.items() if key != STREAMS}
        return For(step, const(0), count, loop.kind, loop.body, None, kept)

    nest = _Rewriting(stream, first).rewrite(stream.nest[1].body)
    nest = structural_map(nest, (For, shorten))
    nest = substitute(nest, {part: worker - floordiv(tile * steps, const(each))})
    nest = substitute(nest, {tile: begin + visit})
    nest = For(visit, const(0), simplify(end - begin), ForKind.SERIAL, nest)
    bound = stream.tiles.thread_binding
    span = None if bound.dom is None else Range.from_min_extent(0, workers)
    axis = IterVar(span, Var(bound.var.name, bound.var.ty), bound.iter_type, bound.thread_tag)
    kept = stream.tiles.annotations
    return For(worker, const(0), const(workers), ForKind.THREAD_BINDING, nest, axis, kept)


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
    kept: list[Any] = []
    for loop in find_all(function.body, For):
        if STREAMS not in loop.annotations:
            continue
        try:
            workers = constant(loop.annotations[STREAMS]) or 1
            stream, kernel = plan_stream(function.body, loop, workers)
        except TransformError:
            kept.append(loop.loop_var)
            continue
        outer = stream.nest[0].loop_var

        def replace(node: For, outer: Any = outer, kernel: Any = kernel) -> For:
            return kernel if node.loop_var.same_as(outer) else node

        function = function.with_body(structural_map(function.body, (For, replace)))

    def forget(loop: For) -> For:
        if STREAMS not in loop.annotations:
            return loop
        rest = {key: it for key, it in loop.annotations.items() if str(key) != STREAMS}
        return edit_loop(loop, annotations=rest)

    return function.with_body(structural_map(function.body, (For, forget))) if kept else function
