"""Shuffles, votes and reductions: what the threads of a warp, or of a block, exchange in one call.

Semantics: CUDA C++ Programming Guide, Warp Vote, Warp Reduce and Warp Shuffle Functions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tirstep.transforms.gpu_limits import WARP

from ...device import Array
from .function_semantics import Pointer, Semantics, Threads
from .ptx_calls import fill_register, name_operands
from .run_state import Batch

_SOURCES: dict[str, Callable[..., Any]] = {
    "tvm_warp_shuffle": lambda lane, source, width: source % width + 0 * lane,
    "tvm_warp_shuffle_down": lambda lane, by, width: np.where(
        lane % width + by < width, lane % width + by, lane % width
    ),
    "tvm_warp_shuffle_up": lambda lane, by, width: np.where(
        lane % width >= by, lane % width - by, lane % width
    ),
    # It may read the segments before its own, and none behind it.
    "tvm_warp_shuffle_xor": lambda lane, bits, width: np.where(
        lane ^ bits < lane - lane % width + width, (lane ^ bits) - lane + lane % width, lane % width
    ),
}
"""The source of each lane of a warp, counted from the beginning of its segment of `width` lanes."""
_CUDA_SOURCES = {
    f"__shfl{ending}_sync": _SOURCES[f"tvm_warp_shuffle{ending}"]
    for ending in ("", "_up", "_down", "_xor")
}
STEPS = {"sum": (np.add, 0.0), "max": (np.maximum, -np.inf), "min": (np.minimum, np.inf)}
"""TVM's reductions: what combines two values, and the value that changes none."""


def _shuffle(
    get_source: Callable[..., Any],
    threads: Threads,
    members: Any,
    value: Any,
    offset: Any,
    width: int = WARP,
    *warp_size: Any,
) -> Array:
    """The value of the source lane, for the lanes that a mask names as members."""
    batch = threads.state.batch
    values = np.broadcast_to(value, (batch.lanes, 1))
    lane = threads.numbers % WARP
    source = get_source(lane, offset, width) + (lane // width * width)
    partner = batch.lane - lane + source
    is_missing = partner // batch.threads != batch.block  # beyond the last thread: its own value
    partner = np.where(is_missing, batch.lane, partner)
    source = np.where(is_missing, lane, source)
    members = np.asarray(members).astype(np.int64)
    state, active = threads.state, threads.active
    named = members >> lane & members >> source & 1 == 1
    alone = active & ~(named & active[partner[:, 0]])  # both must reach it, and be named

    def describe(at: tuple[int, ...]) -> str:
        thread, other = (state.describe_lane(lane) for lane in (at[0], int(partner[at])))
        return f"shuffle to {thread} from {other}, which do not both take part in it"

    state.log.add("divergent shuffle", "", threads.location, alone, describe)
    _report_absent(threads, members, "divergent shuffle", "shuffle")
    return values[partner[:, 0]]


def _report_absent(threads: Threads, members: Any, kind: str, what: str) -> None:
    """All lanes that a mask names must reach an instruction, which waits for them."""
    if threads.mask is None:
        return
    state, active = threads.state, threads.active
    given = np.where(active, np.broadcast_to(members, active.shape), 0)
    bits = np.bitwise_or.reduce(_split_into_warps(state.batch, given), axis=-1, keepdims=True)
    absent = _join_warps(state.batch, bits >> np.arange(WARP) & 1 == 1) & ~active
    if state.exited is not None:
        absent &= ~state.exited

    def tell(at: tuple[int, ...]) -> str:
        return f"{what} whose mask names {state.describe_lane(at[0])}, which does not reach it"

    state.log.add(kind, "", threads.location, absent, tell)


def _sync_warp(threads: Threads, members: Any = 0xFFFFFFFF, *modifiers: str) -> None:
    """Lanes that a mask names wait for one another: each knows of what the others did and knew."""
    batch, known = threads.state.batch, threads.state.known
    assert known is not None
    members = np.asarray(members).astype(np.int64)
    _report_absent(threads, members, "divergent warp instruction", threads.name)
    warp = batch.block * (-(-batch.threads // WARP)) + threads.numbers // WARP
    group = (warp << WARP | members)[:, 0]  # those that wait with one mask
    threads.state.interval += 1
    for number in np.unique(group[threads.active[:, 0]]):
        lanes = np.flatnonzero(threads.active[:, 0] & (group == number))
        together = known[:, lanes].max(axis=1)
        together[:, lanes % batch.group] = threads.state.interval
        known[:, lanes] = together[:, None]


def _combine(
    threads: Threads, members: Any, value: Any, *, combine: Callable[[Array, Array], Array]
) -> Array:
    """For each lane what `combine` makes of the values of its warp, of shape (warps, 1, 32), and of
    which of them its mask names, of shape (warps, 32, 32).
    """
    batch = threads.state.batch
    members = np.broadcast_to(np.asarray(members).astype(np.int64), (batch.lanes, 1))
    _report_absent(threads, members, "divergent warp instruction", threads.name)
    values = _split_into_warps(batch, np.broadcast_to(value, (batch.lanes, 1)))
    named = _split_into_warps(batch, members)[..., None] >> np.arange(WARP) & 1 == 1
    named &= _split_into_warps(batch, threads.active)[..., None, :]
    return _join_warps(batch, combine(values[..., None, :], named))


_VOTES: dict[str, Callable[..., Array]] = {
    "all": lambda held, named: held == named,
    "any": lambda held, named: held != 0,
    "uni": lambda held, named: (held == named) | (held == 0),
    "ballot": lambda held, named: held,
}
"""Results of votes, from the bits of lanes whose predicate holds, and of the lanes in the mask."""


def _vote(mode: str) -> Semantics:
    def count(values: Array, named: Array) -> Array:
        bits = named.astype(np.int64) << np.arange(WARP)
        found = _VOTES[mode]((bits * (values != 0)).sum(axis=-1), bits.sum(axis=-1))
        return found.astype(np.uint32 if mode == "ballot" else np.int32)

    return functools.partial(_combine, combine=count)


_REDUCTIONS: dict[str, tuple[Any, Callable[[Any], int]]] = {
    "add": (np.add, lambda limits: 0),
    "min": (np.minimum, lambda limits: limits.max),
    "max": (np.maximum, lambda limits: limits.min),
    "and": (np.bitwise_and, lambda limits: limits.max),
    "or": (np.bitwise_or, lambda limits: 0),
    "xor": (np.bitwise_xor, lambda limits: 0),
}
"""Reductions of 32-bit integers with their identities; `and` has that of unsigned integers."""


def _reduce(operation: str) -> Semantics:
    step, get_empty = _REDUCTIONS[operation]

    def reduce(values: Array, named: Array) -> Array:
        there = np.where(named, values, values.dtype.type(get_empty(np.iinfo(values.dtype))))
        return step.reduce(there, axis=-1, dtype=values.dtype)

    return functools.partial(_combine, combine=reduce)


def reduce_in_warp(threads: Threads, value: Any, operation: str, width: int) -> Any:
    """TVM's reduction of `width` neighbouring lanes, by shuffles over ever smaller distances."""
    while width > 1:
        width //= 2
        other = _shuffle(_SOURCES["tvm_warp_shuffle_xor"], threads, 0xFFFFFFFF, value, width)
        value = STEPS[operation][0](value, other)
    return value


def _reduce_in_block(
    threads: Threads, value: Any, operation: str, warps: int, scratch: Pointer
) -> Array:
    """TVM's sum, largest or smallest value of a block: by warp, and then by the first warp.

    It is made of the barriers, stores and loads of the code that TVM generates for it, so that two
    calls that share their scratch memory race as they do there.
    """
    warp, lane = threads.numbers // WARP, threads.numbers % WARP
    scratch.store(warp, reduce_in_warp(threads, value, operation, WARP), lane == 0)
    threads.gpu.pass_barrier(threads.mask, threads.location)
    is_first = warp == 0
    found = scratch.load(np.minimum(lane, warps - 1), is_first & (lane < warps))
    found = np.where(lane < warps, found, found.dtype.type(STEPS[operation][1]))
    scratch.store(0, reduce_in_warp(threads, found, operation, WARP), is_first & (lane == 0))
    threads.gpu.pass_barrier(threads.mask, threads.location)
    return scratch.load(0)


def _vote_in_block(
    threads: Threads, predicate: Any, *, decide: Callable[..., Array], otherwise: bool
) -> Array:
    """A barrier, and whether all threads of the block say so, or any."""
    batch = threads.state.batch
    threads.gpu.pass_barrier(threads.mask, threads.location)
    held = np.where(threads.active, np.broadcast_to(predicate, (batch.lanes, 1)) != 0, otherwise)
    decided = decide(held.reshape(batch.blocks, batch.threads), axis=1)
    return np.repeat(decided, batch.threads).reshape(-1, 1).astype(np.int64)


def _vote_by_ptx(
    threads: Threads, result: Any, value: Any, members: Any, mode: str, *_: str
) -> None:
    fill_register(result, _vote(mode)(threads, members, value).astype(np.uint32))


def _get_active_mask(threads: Threads) -> Any:
    """The active lanes of a thread's warp, a bit for each."""
    batch = threads.state.batch
    if threads.mask is None and batch.threads % WARP == 0:
        return 0xFFFFFFFF
    rows = _split_into_warps(batch, threads.active)
    bits = (rows.astype(np.int64) << np.arange(WARP)).sum(axis=-1, keepdims=True)
    return _join_warps(batch, np.broadcast_to(bits, rows.shape)).astype(np.uint32)


def _split_into_warps(batch: Batch, column: Array) -> Array:
    """A column of the lanes as (blocks, warps, 32), filled up with zeros."""
    warps = -(-batch.threads // WARP)
    rows = np.zeros((batch.blocks, warps * WARP), column.dtype)
    rows[:, : batch.threads] = column.reshape(batch.blocks, batch.threads)
    return rows.reshape(batch.blocks, warps, WARP)


def _join_warps(batch: Batch, rows: Array) -> Array:
    """The inverse of `_split_into_warps`."""
    return rows.reshape(batch.blocks, -1)[:, : batch.threads].reshape(-1, 1)


def _shuffle_by_ptx(threads: Threads, *given: Any) -> None:
    """shfl.sync: the last lanes of segments, and which bits of a lane's number name its segment,
    are in `c`; where the source is in another segment, a lane gets its own value.
    """
    words, operands = name_operands(threads.name, given)
    (value,), (by,), (c,), (members,) = (operands[it] for it in ("a", "b", "c", "membermask"))
    last, segment = np.asarray(c) & 31, np.asarray(c) >> 8 & 31
    inside: list[Array] = []

    def find_source(lane: Array, offset: Any, _width: int) -> Array:
        offset = np.asarray(offset).astype(np.int64)
        first = lane & segment
        end = first | last & ~segment
        source = {
            "up": lane - offset,
            "down": lane + offset,
            "bfly": lane ^ offset,
            "idx": first | offset & ~segment,
        }[words["mode"]]
        inside.append((source >= end) if words["mode"] == "up" else (source <= end))
        return np.where(inside[0], source, lane)

    found = _shuffle(find_source, threads, members, value, np.asarray(by) & 31)
    fill_register(operands["d"][0], found)
    for register in operands.get("p", ()):
        fill_register(register, np.broadcast_to(inside[0], found.shape).astype(np.uint32))


def _reduce_by_ptx(threads: Threads, result: Any, value: Any, members: Any, *words: str) -> None:
    """redux.sync, of integers of 32 bits."""
    operation, kind = words[0], words[-1]
    given = np.asarray(value).astype(np.int32 if kind == "s32" else np.uint32)
    fill_register(result, _reduce(operation)(threads, members, given))


def _reduce_floats(
    threads: Threads, result: Any, value: Any, members: Any, operation: str, *words: str
) -> None:
    """redux.sync of .f32, which passes over NaN unless it says .NaN."""
    given = np.abs(value) if "abs" in words else np.asarray(value)
    step = getattr(np, f"{operation}imum" if "NaN" in words else f"f{operation}")
    empty = np.float32(np.inf if operation == "min" else -np.inf) if "NaN" in words else np.nan

    def reduce(values: Array, named: Array) -> Array:
        there = np.where(named, values, np.float32(empty))
        return np.asarray(step.reduce(there, axis=-1), np.float32)

    fill_register(result, _combine(threads, members, given, combine=reduce))


def _match(threads: Threads, *given: Any) -> None:
    """match.sync: the lanes that have a lane's value, or all of them if all have the same."""
    words, operands = name_operands(threads.name, given)
    (value,), (members,) = operands["a"], operands["membermask"]

    def find(values: Array, named: Array) -> Array:
        is_same = values == values[..., 0, :, None]
        return ((is_same & named).astype(np.int64) << np.arange(WARP)).sum(axis=-1)

    found = _combine(threads, members, value, combine=find)
    if words["mode"] == "all":
        found = np.where(found == np.asarray(members).astype(np.int64), found, 0)
    fill_register(operands["d"][0], found.astype(np.uint32))
    for register in operands.get("p", ()):
        fill_register(register, (found != 0).astype(np.uint32))


def _elect_by_ptx(threads: Threads, result: Any, predicate: Any, members: Any) -> None:
    """elect.sync: the first of the lanes that a mask names, for all of them."""
    members = np.broadcast_to(np.asarray(members).astype(np.int64), (threads.lanes, 1))
    _report_absent(threads, members, "divergent warp instruction", threads.name)
    first = np.log2((members & -members).astype(np.float64)).astype(np.uint32)
    fill_register(result, first)
    fill_register(predicate, (threads.numbers % WARP == first).astype(np.uint32))


WARP_BARRIERS: dict[str, Semantics] = dict.fromkeys(
    ("cuda.warp_sync", "ptx.bar_warp_sync", "__syncwarp"), _sync_warp
)
_OF_CUDA: dict[str, Semantics] = {
    **{name: functools.partial(_shuffle, source) for name, source in _CUDA_SOURCES.items()},
    "__activemask": _get_active_mask,
    **{f"__{mode}_sync": _vote(mode) for mode in ("ballot", "any", "all")},
    **{f"__reduce_{name}_sync": _reduce(name) for name in _REDUCTIONS},
}
"""Functions of CUDA C++; the reductions are those of unsigned numbers."""
WARP_SHUFFLES: dict[str, Semantics] = {
    **{name: functools.partial(_shuffle, source) for name, source in _SOURCES.items()},
    **_OF_CUDA,
    **{f"cuda.{name}": semantics for name, semantics in _OF_CUDA.items()},
    "cuda.any_sync": _OF_CUDA["__any_sync"],
    "cuda.ballot_sync": _OF_CUDA["__ballot_sync"],
    "cuda.reduce_add_sync_u32": _OF_CUDA["__reduce_add_sync"],
    "cuda.reduce_min_sync_u32": _OF_CUDA["__reduce_min_sync"],
    "cuda.warp_reduce": reduce_in_warp,
    "tvm_warp_activemask": _get_active_mask,
    "ptx.activemask": lambda threads, result, *_: fill_register(
        result, np.broadcast_to(np.uint32(_get_active_mask(threads)), (threads.lanes, 1))
    ),
    **dict.fromkeys(("ptx.shfl_sync", "ptx.shfl_sync_p"), _shuffle_by_ptx),
    **dict.fromkeys(("ptx.vote_sync", "ptx.vote_sync_ballot"), _vote_by_ptx),
    **dict.fromkeys(("ptx.match_any_sync", "ptx.match_all_sync", "ptx.match_all_sync_p"), _match),
    **dict.fromkeys(("ptx.redux_sync", "ptx.redux_sync_bitwise"), _reduce_by_ptx),
    "ptx.redux_sync_f32": _reduce_floats,
    "ptx.elect_sync": _elect_by_ptx,
    "cuda.thread_rank": lambda threads: threads.numbers.astype(np.int32),
    **WARP_BARRIERS,
}
_OF_BLOCKS: dict[str, Semantics] = {
    "syncthreads_and": functools.partial(_vote_in_block, decide=np.all, otherwise=True),
    "syncthreads_or": functools.partial(_vote_in_block, decide=np.any, otherwise=False),
}
BLOCK_REDUCTIONS: dict[str, Semantics] = {
    "cuda.cta_reduce": _reduce_in_block,
    **{f"{start}{name}": it for name, it in _OF_BLOCKS.items() for start in ("cuda.", "__")},
}
