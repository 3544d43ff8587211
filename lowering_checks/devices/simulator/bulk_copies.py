"""Bulk copies: cp.async.bulk and cp.async.bulk.tensor, which one thread asks for.

Semantics from the PTX ISA, sections "cp.async.bulk" and "cp.async.bulk.tensor", and of tensor maps
from the CUDA driver API, ``cuTensorMapEncodeTiled``. A load arrives at an mbarrier; a store belongs
to a group that its thread commits and waits for. They go through the asynchronous proxy: what
threads stored themselves it sees behind ``fence.proxy.async`` of the thread that stored it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...device import Array
from .addresses import BlockPointer, get_lanes, has_block, pick
from .function_semantics import Pointer, Semantics, Threads
from .memory import Memory
from .run_state import UnsupportedError

BULK = "cp.async.bulk"
"""The queue of bulk stores: of what they read in shared memory."""
WRITTEN = "cp.async.bulk, written"
"""The same of what they write, for which ``wait_group.read`` does not wait."""
MULTICAST = "multicast::cluster"
ALIGNMENT = {"tensor": 128, "linear": 16}
"""Bytes that a copy's place in shared memory is a multiple of."""
_SWIZZLE_BITS = (0, 1, 2, 3)
"""Of an address, that change with the row: of no swizzle, and of 32, 64 and 128 bytes."""


@dataclass
class TensorMap:
    """A tensor and the tiles that are copied of it; innermost dimensions first.

    Attributes
    ----------
    source, offset : where the tensor lies
    pitches : bytes from one element to the next along each dimension
    """

    source: Memory | None = None
    offset: int = 0
    shape: tuple[int, ...] = ()
    pitches: tuple[int, ...] = ()
    box: tuple[int, ...] = ()
    swizzle: int = 0

    def encode(self, memory: Memory, offset: int, sizes: Sequence[int], attributes: Any) -> None:
        """Describe a tensor, as the host does; raises `UnsupportedError` for what it may not."""
        rank = int(attributes.rank)
        shape, pitches = sizes[:rank], sizes[rank : 2 * rank - 1]
        box, steps = sizes[2 * rank - 1 : 3 * rank - 1], sizes[3 * rank - 1 :]
        size = memory.dtype.itemsize
        described = str(attributes.descriptor_dtype)
        if (other := np.dtype(described).itemsize) != size:
            memory.state.log.add_sentence(
                "tensor map",
                f"a tensor map of {memory.name}, whose elements have {size} bytes, describes "
                f"{described}, of {other}",
            )
        wrong = (
            any(pitch % 16 or pitch <= 0 for pitch in pitches)
            or any(not 1 <= extent <= 256 for extent in box)
            or box[0] * size % 16
            or any(step != 1 for step in steps)
            or int(attributes.interleave)
            or int(attributes.oob_fill)
        )
        swizzle = int(attributes.swizzle)
        if wrong or (swizzle and box[0] * size > 16 << swizzle):
            raise UnsupportedError(
                f"a tensor map of {memory.name} with shape {shape}, pitches {pitches}, box {box} "
                f"and swizzle {swizzle} is none that cuTensorMapEncodeTiled makes and the "
                "simulator supports"
            )
        self.source, self.offset = memory, offset
        self.shape, self.pitches = tuple(shape), (size, *pitches)
        self.box, self.swizzle = tuple(box), swizzle

    def find_elements(self, start: Sequence[int]) -> tuple[Array, Array]:
        """The places of a tile's elements in the tensor, and which of them lie inside."""
        assert self.source is not None
        at = np.indices(self.box[::-1]).reshape(len(self.box), -1)[::-1]
        places = [index + first for index, first in zip(at, start, strict=True)]
        inside = np.ones(places[0].shape, bool)
        elements = np.full(places[0].shape, self.offset, np.int64)
        for place, extent, pitch in zip(places, self.shape, self.pitches, strict=True):
            inside &= (place >= 0) & (place < extent)
            elements += place * (pitch // self.source.dtype.itemsize)
        return np.where(inside, elements, self.offset), inside

    def place_in_shared(self, first: int, size: int) -> Array:
        """Where a tile's elements lie in shared memory, from an address in elements of `size`."""
        addresses = (first + np.arange(math.prod(self.box))) * size
        bits = (1 << _SWIZZLE_BITS[self.swizzle]) - 1
        found: Array = (addresses ^ ((addresses >> 7 & bits) << 4)) // size
        return found


def _load_tensor(threads: Threads, target: Pointer, tensor_map: TensorMap, *rest: Any) -> None:
    """A tile arrives in shared memory, with zeros where it lies outside of the tensor."""
    source = _require_encoded(threads, tensor_map)
    rank = len(tensor_map.box)
    starts, barrier = rest[:rank], rest[rank]
    masks, others = _split_mask(rest[rank + 1 :])
    _require_plain(threads, others, ("async", "bulk", "tensor", f"{rank}d"))
    for lane in get_lanes(threads):
        start = [int(pick(each, lane)) for each in starts]
        elements, inside = tensor_map.find_elements(start)
        first = target.get_place(lane)
        _check_aligned(threads, target, first, lane, "tensor")
        places = tensor_map.place_in_shared(first, target.dtype.itemsize)
        to = (target, places), _find_places(threads, lane, barrier, masks)
        _begin_load(threads, lane, to, (source, elements, inside))
    threads.gpu.begin_step()


def _load(threads: Threads, target: Pointer, source: Pointer, size: Any, *rest: Any) -> None:
    """Neighbours arrive in shared memory."""
    barrier, (masks, others) = rest[0], _split_mask(rest[1:])
    _require_plain(threads, others, ("async", "bulk"))
    for lane in get_lanes(threads):
        whole = int(pick(size, lane))
        _check_size(threads, target, whole, lane)
        count = whole // target.dtype.itemsize
        first, begin = target.get_place(lane), source.get_place(lane)
        _check_aligned(threads, target, first, lane, "linear")
        _check_aligned(threads, source, begin, lane, "linear")
        inside, steps = np.ones(count, bool), np.arange(count)
        memory = source.memory.reinterpret(target.dtype)
        to = (target, first + steps), _find_places(threads, lane, barrier, masks)
        _begin_load(threads, lane, to, (memory, begin + steps, inside))
    threads.gpu.begin_step()


def _split_mask(rest: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
    """The mask of a cluster's blocks that get a copy, None for the own one, and the modifiers."""
    words = [each for each in rest if isinstance(each, str)]
    if MULTICAST not in words:
        return None, rest
    others = [each for each in rest[1:] if not isinstance(each, str)]
    return rest[0], [*others, *(word for word in words if word != MULTICAST)]


def _find_places(
    threads: Threads, lane: int, barrier: Pointer, masks: Any
) -> list[tuple[int | None, Pointer | BlockPointer]]:
    """The blocks that a lane's copy goes to, by their ranks, and the mbarrier in each."""
    if masks is None:
        return [(None, barrier)]
    mask, place = int(pick(masks, lane)), barrier.get_place(lane)
    ranks = [rank for rank in range(mask.bit_length()) if mask >> rank & 1]
    return [
        (rank, BlockPointer(barrier.memory, place, rank))
        for rank in ranks
        if has_block(threads, rank, lane)
    ]


def _begin_load(
    threads: Threads,
    lane: int,
    to: tuple[tuple[Pointer, Array], list[tuple[int | None, Pointer | BlockPointer]]],
    of: tuple[Memory, Array, Array],
) -> None:
    """Ask for a copy to places in the shared memory of blocks, `of` elements that are inside."""
    ((target, places), blocks), (source, elements, inside) = to, of
    _check_proxy(threads, source, lane, elements[inside], "asynchronous load of")
    values = source.load_rows([lane], elements[None], inside[None], threads.location)

    def check_source() -> None:
        source.check_rows([lane], elements[None], inside[None], values, threads.location)

    brought = np.where(inside, values, 0).astype(source.dtype, copy=False)
    if brought.dtype != target.dtype:
        brought = np.ascontiguousarray(brought).view(target.dtype)
    for rank, barrier in blocks:
        _begin_store_to(threads, lane, (target, places, brought), (rank, barrier), check_source)
    threads.count_once(lane, "bulk_copies")


def _begin_store_to(
    threads: Threads,
    lane: int,
    what: tuple[Pointer, Array, Array],
    where: tuple[int | None, Pointer | BlockPointer],
    check_source: Callable[[], None],
) -> None:
    """What a copy does in one block, at whose mbarrier it arrives."""
    mbarriers, (target, places, values), (rank, barrier) = threads.gpu.mbarriers, what, where
    found = mbarriers.get(threads, barrier, lane)
    if found is None:
        return
    if not found.is_fenced:
        text = "that no fence after its initialization made visible to bulk copies"
        mbarriers.report(threads, barrier, lane, text)
    memory, at = target.memory, (lane, places)
    _check_proxy(threads, memory, *at, "asynchronous store to", rank=rank)
    _report_unfenced(
        threads,
        memory,
        lane,
        memory.find_unordered_load(*at, rank=rank),
        ("asynchronous store to", "loaded"),
    )
    bring = memory.begin_store_rows([lane], places[None], values, threads.location, rank=rank)

    def arrive() -> None:
        check_source()
        bring()

    found.arriving.append((lane, arrive))
    found.bytes -= places.size * target.dtype.itemsize
    mbarriers.progress += 1


def _store_tensor(threads: Threads, tensor_map: TensorMap, *rest: Any) -> None:
    """A tile goes to the tensor, as far as it lies inside of it."""
    target = _require_encoded(threads, tensor_map)
    rank = len(tensor_map.box)
    starts, source = rest[:rank], rest[rank]
    _require_plain(threads, rest[rank + 1 :], ("async", "bulk", "tensor", f"{rank}d", "tile"))
    for lane in get_lanes(threads):
        start = [int(pick(each, lane)) for each in starts]
        elements, inside = tensor_map.find_elements(start)
        first = source.get_place(lane)
        _check_aligned(threads, source, first, lane, "tensor")
        places = tensor_map.place_in_shared(first, source.dtype.itemsize)
        _begin_store(threads, lane, (target, elements, inside), (source, places))
        target.mark_stored_by_map(elements[inside])
    threads.gpu.begin_step()


def _begin_store(
    threads: Threads, lane: int, to: tuple[Memory, Array, Array], of: tuple[Pointer, Array]
) -> None:
    (target, elements, inside), (source, places) = to, of
    everywhere = np.ones(places.shape, bool)
    _check_proxy(threads, source.memory, lane, places, "asynchronous load of")
    values = source.memory.load_rows([lane], places[None], everywhere[None], threads.location)
    kept = values[:, inside].view(target.dtype)
    bring = target.begin_store_rows([lane], elements[inside][None], kept, threads.location)

    def end_reading(lanes: Array) -> None:
        rows = [lane], places[None], everywhere[None], values
        source.memory.check_rows(*rows, threads.location)

    alone = np.zeros((threads.lanes, 1), bool)
    alone[lane] = True
    threads.defer(BULK, end_reading, alone)
    threads.defer(WRITTEN, lambda lanes: bring(), alone)
    threads.count_once(lane, "bulk_copies")


def _require_encoded(threads: Threads, tensor_map: Any) -> Memory:
    if not isinstance(tensor_map, TensorMap) or tensor_map.source is None:
        raise UnsupportedError(f"{threads.name} gets no tensor map that the host encoded")
    return tensor_map.source


def _require_plain(threads: Threads, rest: Sequence[Any], known: Sequence[str]) -> None:
    """Neither a cache policy nor another mode than that of tiles."""
    usual = {*known, "", "global", "shared::cluster", "shared::cta", "bulk_group", "tile"}
    others = [each for each in rest if each not in usual and each != "mbarrier::complete_tx::bytes"]
    if others:
        named = next((each for each in others if isinstance(each, str)), others[0])
        raise UnsupportedError(f"the simulator does not support {threads.name} with {named}")


def _check_aligned(threads: Threads, pointer: Pointer, place: int, lane: int, kind: str) -> None:
    size = ALIGNMENT[kind]
    if place * pointer.dtype.itemsize % size:
        message = (
            f"{threads.name} at {pointer.name}[{pointer.get_index(lane)}] by "
            f"{threads.state.describe_lane(lane)} (must begin at a multiple of {size} bytes)"
        )
        wrong = np.ones(1, bool)
        threads.state.log.add(
            "misaligned access", pointer.name, threads.location, wrong, lambda at: message
        )


def _check_size(threads: Threads, pointer: Pointer, size: int, lane: int) -> None:
    unit = ALIGNMENT["linear"]
    if size % unit:
        message = (
            f"{threads.name} of {size} bytes by {threads.state.describe_lane(lane)} (must be a "
            f"multiple of {unit} bytes)"
        )
        wrong = np.ones(1, bool)
        threads.state.log.add(
            "misaligned access", pointer.name, threads.location, wrong, lambda at: message
        )


def _check_proxy(
    threads: Threads,
    memory: Memory,
    lane: int,
    places: Array,
    what: str,
    *,
    rank: int | None = None,
) -> None:
    """What threads stored must be behind their fence, or one of this thread after a barrier."""
    found = memory.find_unseen_store(lane, places, rank=rank)
    _report_unfenced(threads, memory, lane, found, (what, "stored"))


def _report_unfenced(
    threads: Threads,
    memory: Memory,
    lane: int,
    found: tuple[int, int] | None,
    words: tuple[str, str],
) -> None:
    """Record that a thread accessed an element before, with no fence; `words` are both accesses."""
    if found is None:
        return
    (thread, place), (what, before) = found, words
    message = (
        f"{what} {memory.name}[{place}] by {threads.state.describe_lane(lane)}, which "
        f"{threads.state.describe_thread(thread)} {before} without fence.proxy.async after it"
    )
    wrong = np.ones(1, bool)
    threads.state.log.add(
        "missing proxy fence", memory.name, threads.location, wrong, lambda at: message
    )


def _commit(threads: Threads, *modifiers: str) -> None:
    for queue in (BULK, WRITTEN):
        threads.commit(queue)


def _wait(threads: Threads, in_flight: Any, *modifiers: str) -> None:
    """With `.read` until shared memory has been read; what is written may still be in flight."""
    threads.wait(BULK, in_flight)
    if "read" not in modifiers:
        threads.wait(WRITTEN, in_flight)


def _ignore(threads: Threads, *arguments: Any) -> None:
    """A prefetch of a tensor map, which changes no value."""


BULK_COPIES: dict[str, Semantics] = {
    "ptx.cp_async_bulk_tensor_g2s_cluster": _load_tensor,
    "ptx.cp_async_bulk_g2s_cluster": _load,
    "ptx.cp_async_bulk_tensor_s2g": _store_tensor,
    "ptx.cp_async_bulk_commit_group": _commit,
    "ptx.cp_async_bulk_wait_group": _wait,
    "ptx.prefetch": _ignore,
}
