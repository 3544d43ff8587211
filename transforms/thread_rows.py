"""Rows: one row of a matrix by all threads of a thread block, each with its share in registers.

A share is the same in every block of a kernel: thread t of T takes the vectors t, t + T, t + 2 T of
the row. What a thread writes for itself it can then keep in registers, and needs no barrier for.

TVM lowers a reduction over threads of a warp to shuffles down, after which the first lane of the
group has the result, and one more that gives it to the others. The pass `ExchangeByButterflies`
lets all lanes of a group reduce together instead.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any, NamedTuple

import tvm_ffi
from tvm.ir import Call, TensorLoad
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.script import tirx as T
from tvm.tirx import Add, AttrStmt, Bind, BufferStore, Max, Min, Mul, SeqStmt, Var
from tvm.tirx.analysis import undefined_vars
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from tirstep.tvm_compat import get_op_name

from .binding import bind_loop
from .caching import list_consumers, require_operand
from .gpu_limits import WARP
from .loops import Tail, require_factors, require_serial
from .pass_options import set_pass_option, set_pipeline
from .placement import require_around, require_scalar_place
from .queries import get_enclosing_loops, get_extent, get_own_loops, get_root, get_sblock_name
from .schedule import TransformError, transform
from .tir import (
    THREAD_EXTENT,
    constant,
    find_all,
    find_axes,
    get_axis,
    get_iterator_values,
    is_among,
    list_allocated,
    number_threads,
    substitute,
)
from .vectorize import LANES, MAX_VECTOR_BYTES, WIDEST, vectorize_loop

LAST, FIRST = -1, -2
"""TVM's numbers for places under a loop: right before the first reader, and before all else."""


class Spread(NamedTuple):
    """The loops of a row that is spread over threads, outermost first."""

    steps: LoopRV
    threads: LoopRV
    elements: LoopRV


@transform
def spread_over_threads(
    sch: Schedule, block: SBlockRV, *, threads: int, vector: int = 1, tail: Tail = "refuse"
) -> Spread:
    """Spread a block's innermost loop over threads, `vector` neighbouring elements at a time.

    Adjacent threads take adjacent vectors, so that a warp's accesses are contiguous. A reduction
    becomes one over threads, which TVM lowers to warp shuffles.

    rewrite: ``for k in n`` -> ``for k_0 in n / vector / threads: for k_1 in threadIdx.x:
        for k_2 in vector``
    consumes: the loop
    returns: its three parts; the last one is serial still (`vectorize_loop`)
    requires: a loop of the block's own, serial; what `bind_loop` requires; `vector` divides the
        extent and `threads` the number of vectors, or ``tail="guard"``, which guards the steps; for
        a vectorized loop over elements, `vector` must divide the extent even then
    guarded: each thread reads registers of its own
    """
    own = get_own_loops(sch, block)
    if not own:
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' has no loop of its own",
            "place the other blocks outside of its innermost loop first",
        )
    require_serial(sch, own[-1])
    factors = {"threads": threads, "vector": vector}
    require_factors(sch, own[-1], factors, tail)
    # One after the other: the guard of the second split is the same for a whole vector.
    vectors, elements = sch.split(own[-1], [None, vector])
    steps, among = sch.split(vectors, [None, threads])
    bind_loop(sch, among, axis="threadIdx.x")
    return Spread(steps, among, elements)


@transform
def keep_in_registers(sch: Schedule, block: SBlockRV) -> None:
    """Keep the results of a block in registers of the threads that compute them.

    If threads share a row, each keeps its own elements, in an array with a dimension for the
    thread, which the pipeline "tirstep" removes again (`set_pipeline`). TVM's storage reuse is
    switched off: it would leave the result of a reduction over threads in shared memory.

    rewrite: ``P[i, k] = ...`` -> ``P_local[i, k_0, k_1, k_2] = ...`` with the thread k_1
    consumes: nothing
    requires: a block that writes intermediate buffers, not the kernel's tensors; readers under the
        same outermost loop, whose threads read only what they have written themselves
    guarded: each thread reads registers of its own
    """
    name = get_sblock_name(sch, block)
    allocated = list_allocated(get_root(sch, block))
    for region in sch.get(block).writes:
        buffer = region.source
        if not is_among(buffer, allocated):
            raise TransformError(
                f"block '{name}' writes '{buffer.name}', a tensor of the kernel's",
                "compute it in registers and copy it out with cache_write_at",
            )
    outermost = get_enclosing_loops(sch, block)[:1]
    for reader in sch.get_consumers(block):
        around = get_enclosing_loops(sch, reader)[:1]
        if not (outermost and around and outermost[0].same_as(around[0])):
            raise TransformError(
                f"blocks '{get_sblock_name(sch, block)}' and '{get_sblock_name(sch, reader)}' have "
                "no loop in common, and would be two kernels",
                "bring them together with compute_block_at first",
            )
    for place in range(len(sch.get(block).writes)):
        sch.set_scope(block, place, "local")
        share = _find_share(sch, block, sch.get(block).writes[place])
        if share is not None:
            _lay_out(sch, block, share, place)
    set_pass_option(sch, name="tirx.disable_storage_rewrite", value=True)


@transform
def cache_row_at(
    sch: Schedule, block: SBlockRV, loop: LoopRV, *, operand: int, ahead: bool = False
) -> SBlockRV:
    """Copy what threads read of an operand under a loop into their registers, once for all readers.

    Each thread copies the elements that it reads itself, in vectors as long as those that `block`
    reads (`spread_over_threads`). The copy is placed right before its first reader or, with
    `ahead`, before everything else under the loop, so that its loads are in flight meanwhile.

    rewrite: ``for i: (for k: S += A[i, k]); (for k: B[i, k] = A[i, k] / S)`` ->
        ``for i: (for k: A_local[...] = A[i, k]); (for k: S += A_local[...]); ...``
    consumes: nothing
    returns: the copy block
    requires: `operand` counts the buffers that the block reads, from 0; a loop around the block,
        not vectorized; a block that is spread over threads along the operand's last dimension, and
        all other readers under the loop in the same way
    guarded: each thread copies only registers of its own
    """
    require_operand(sch, block, operand)
    require_around(sch, loop, block)
    require_scalar_place(sch, loop)
    region = sch.get(block).reads[operand]
    share = _find_share(sch, block, region)
    if share is None:
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' is not spread over threads along the last "
            f"dimension of '{region.source.name}'",
            "spread it with spread_over_threads first",
        )
    copy = sch.cache_read(block, operand, "local", *list_consumers(sch, block, loop, operand))
    sch.compute_at(copy, loop, preserve_unit_loops=True, index=FIRST if ahead else LAST)
    _lay_out(sch, copy, share)
    threads, vector = share
    spread = spread_over_threads(sch, copy, threads=threads, vector=vector, tail="guard")
    if vector in LANES:
        vectorize_loop(sch, spread.elements)
    return copy


def find_vector(extent: int | None, dtype: Any, *, most: int) -> int:
    """The most elements, up to `most`, of a vector of 16 bytes that divides rows of an extent."""
    if extent is None:
        return 1
    widest = min(most, MAX_VECTOR_BYTES // dtype.itemsize)
    return max((it for it in LANES if it <= widest and extent % it == 0), default=1)


def find_guarded(size: int) -> int:
    """The most elements of so many bytes in a vector that CUDA has a type for under a guard."""
    return WIDEST if size > 1 else 4


def _find_share(sch: Schedule, block: SBlockRV, region: Any) -> tuple[int, int] | None:
    """How threads of the block's own distribute the last dimension of a region: how many there are,
    and how many elements each takes at a time; None if none do."""
    if not region.region:
        return None  # a scalar
    values = get_iterator_values(get_root(sch, block))
    used = undefined_vars(substitute(region.region[-1].min, values))
    vector = 1
    for loop in reversed(get_own_loops(sch, block)):
        node, extent = sch.get(loop), get_extent(sch, loop)
        if not any(node.loop_var.same_as(var) for var in used) or extent is None:
            continue
        if (get_axis(node) or "").startswith("threadIdx"):
            return extent, vector
        vector *= extent
    return None


def _lay_out(sch: Schedule, block: SBlockRV, share: tuple[int, int], written: int = 0) -> None:
    """Give a buffer that a block writes a dimension for the thread."""
    threads, vector = share

    def place(*at: Any) -> tuple[Any, ...]:
        last = at[-1]
        return (*at[:-1], last // (threads * vector), last // vector % threads, last % vector)

    # Different elements have different places; what is said of a row that does not divide is that
    # some places have no element, and nobody reads those.
    sch.transform_layout(block, ("write", written), place, assume_injective_transform=True)
    set_pipeline(sch)


COMMUTATIVE = (Add, Mul, Max, Min)
"""Operations that are bitwise commutative."""
MOST = 4
"""Lanes of a group. Of 16, exchanges by pairs made the decode form 4 % slower on an H100."""
SHUFFLE = "tirx.tvm_warp_shuffle"
DOWN = "tirx.tvm_warp_shuffle_down"


@prim_func_pass(opt_level=0, name="tirstep.ExchangeByButterflies")
def ExchangeByButterflies(function: Any, *_: Any) -> Any:  # noqa: N802 - named like TVM's
    """Let lanes exchange by pairs what they reduce, so that all of them have the result.

    Of the shuffles, each of which waits for the one before, there is one fewer, and the bits are
    the same: a lane's operands only change places. Groups are of two or four lanes, and begin at a
    multiple of that; what reduces is a sum, a product, a maximum or a minimum, and what a shuffle
    brings is used for that alone; the target is cuda.

    rewrite: ``t = shuffle_down(r, 2); r = r + t; t = shuffle_down(r, 1); r = r + t;
        r = shuffle(r, the group's first lane)`` -> ``t = shuffle_xor(r, 2); r = r + t;
        t = shuffle_xor(r, 1); r = r + t``
    """
    target = (function.attrs or {}).get("target")
    if target is None or target.kind.name != "cuda":  # Metal has no such shuffle in TVM
        return function
    if not any(get_op_name(call) == SHUFFLE for call in find_all(function.body, Call)):
        return function
    axes = find_axes(function.body)
    inner = {each.node.var for axis in axes for each in find_axes(axis.body)}

    def rewrite(node: AttrStmt) -> Any:
        is_kernel = node.attr_key == THREAD_EXTENT and node.node.var not in inner
        return _exchange(node) if is_kernel else node

    body = structural_map(function.body, (AttrStmt, rewrite))
    return function if body.same_as(function.body) else function.with_body(body)


def _exchange(kernel: AttrStmt) -> Any:
    """A kernel with butterflies, without the last shuffle, where a sequence has all of a group."""
    axes = {str(axis.node.thread_tag): axis for axis in find_axes(kernel)}
    names = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
    threads = [(axes[name].node.var, axes[name].value) for name in names if name in axes]
    number, analyzer = number_threads(threads)
    named = {bind.var: bind.value for bind in find_all(kernel, Bind)}
    # How often each buffer is loaded, and how often with what a shuffle has brought directly
    # before, to be combined with a lane's own value.
    loads = Counter(load.source for load in find_all(kernel, TensorLoad))
    pairs = (it for each in find_all(kernel, SeqStmt) for it in itertools.pairwise(each.seq))
    combined = Counter(
        down.buffer
        for part, following in pairs
        if (down := _read_shuffle(part, DOWN)) is not None
        if isinstance(following, BufferStore) and isinstance(following.value, COMMUTATIVE)
        if _is_at(following.value.b, down)
    )

    def is_first(lane: Any, size: int) -> bool:  # of a thread's group of so many lanes
        while bound := {it: named[it] for it in find_all(lane, Var) if it in named}:
            lane = substitute(lane, bound)
        return bool(analyzer.can_prove((lane - (number - number % size)) % WARP == 0))

    def exchange(sequence: SeqStmt) -> Any:
        parts = list(sequence.seq)
        for place, part in enumerate(parts):
            if (last := _read_shuffle(part, SHUFFLE)) is None:
                continue
            size = 1
            for at in range(place - 2, -1, -2):
                down, update = _read_shuffle(parts[at], DOWN), parts[at + 1]
                if down is None:
                    break
                combines = (  # a lane's own value with the one that was brought
                    isinstance(update, BufferStore)
                    and isinstance(update.value, COMMUTATIVE)
                    and _is_at(update.value.a, last)
                    and _is_at(update.value.b, down)
                    and _is_at(update, last)
                )
                # What was brought may be used elsewhere, too.
                if not combines or loads[down.buffer] != combined[down.buffer]:
                    break
                mask, value, distance, *rest = down.value.args
                is_same = tvm_ffi.structural_equal(value, last.value.args[1])
                if constant(distance) != size or not is_same:
                    break
                exchanged = T.tvm_warp_shuffle_xor(mask, value, distance, *rest)
                parts[at] = BufferStore(down.buffer, exchanged, down.indices)
                size *= 2
            if 1 < size <= MOST and is_first(last.value.args[2], size):
                return SeqStmt([*parts[:place], *parts[place + 1 :]])
            parts = list(sequence.seq)
        return sequence

    return structural_map(kernel, (SeqStmt, exchange))


def _read_shuffle(statement: Any, name: str) -> BufferStore | None:
    """A statement that stores what a shuffle of the whole warp brings."""
    if not isinstance(statement, BufferStore) or not isinstance(statement.value, Call):
        return None
    call = statement.value
    whole = get_op_name(call) == name and all(constant(size) == WARP for size in call.args[3:])
    return statement if whole else None


def _is_at(element: Any, store: BufferStore) -> bool:
    """Whether a load, or a store, is of the element that a statement stores to."""
    if not isinstance(element, (TensorLoad, BufferStore)):
        return False
    buffer = element.source if isinstance(element, TensorLoad) else element.buffer
    same = tvm_ffi.structural_equal(element.indices, store.indices)
    return bool(buffer.same_as(store.buffer) and same)
