"""Bulk copies and reductions, which one thread asks for: cp.async.bulk, cp.reduce.async.bulk.

Semantics from the PTX ISA, sections "cp.async.bulk" and "cp.async.bulk.tensor", and of tensor maps
from the CUDA driver API, ``cuTensorMapEncodeTiled``. A load arrives at an mbarrier; a store belongs
to a group that its thread commits and waits for. They go through the asynchronous proxy: what
threads stored themselves it sees behind ``fence.proxy.async`` of the thread that stored it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from tvm.backend.cuda.ptx.table import TABLE

from ...device import BLOCK_AXES, Array
from .clusters import find_pointer, list_blocks, list_pointers
from .function_semantics import Pointer, Semantics, Threads, get_lanes, pick
from .mbarriers import Arrival
from .memory import Arrive, Memory, get_numpy_dtype
from .ptx_calls import PREFIX, fill_register, get_type, join_registers, name_operands
from .run_state import UnsupportedError, locate_blocks
from .shared_memory import BULK_LOAD, BULK_STORE, MAP, Rows, SharedMemory

BULK = "cp.async.bulk"
"""The queue of bulk stores: of what they read in shared memory."""
WRITTEN = "cp.async.bulk, written"
"""The same of what they write, for which ``wait_group.read`` does not wait."""
ALIGNMENT = {"tensor": 128, "linear": 16}
"""Bytes that a copy's place in shared memory is a multiple of."""
_PAIR = "cta_group::2"
_REDUCTIONS = {"add": np.add, "min": np.minimum, "max": np.maximum}
_FOUR_BITS, _SPREAD_BY_16 = 13, 14
"""The driver's types for 4-bit numbers: that lie side by side, or with gaps in shared memory."""
_TYPES = (
    *("uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64"),
    *("bfloat16", "float32", "float32", "float32", "uint8", "uint8"),
)
"""Types of elements by the driver's numbers; those of 4 bits are taken two at a time."""
_NUMBERS = {"float4_e2m1fn": _FOUR_BITS, "int4": _FOUR_BITS, "uint4": _FOUR_BITS}
_NUMBERS |= {name: number for number, name in reversed([*enumerate(_TYPES[:10])])}
_OF_PTX = (*range(8), 10, 8, 9, 11, 12)
"""The driver's numbers by PTX's (PTX ISA, section "tensormap.replace")."""
_IMAGE = np.dtype(
    [
        *(("global_address", "u8"), ("global_stride", "u8", 4), ("global_dim", "u4", 5)),
        *(("others", "u4"), ("zeros", "S64")),
    ]
)
"""A tensor map's 128 bytes: fields of ``tensormap.replace``, and the number of all other ones. How
they lie there on a GPU is not told; but kernels know that the second half is zero."""
_OTHERS: dict[int, dict[str, Any]] = {}
MAP_FENCE = "fence.proxy.tensormap"


def _number(others: dict[str, Any]) -> int:
    """The number of fields, in whatever function they were encoded."""
    known = (number for number, it in _OTHERS.items() if it == others)
    number = next(known, 0x7E500000 + len(_OTHERS))
    _OTHERS[number] = others
    return number


def encode_image(address: int, described: str, sizes: Sequence[int], *modes: int) -> Array:
    """The bytes of a tensor map, from the arguments of the driver in its order.

    `modes` are interleave, swizzle, promotion, fill, and the driver's number of the type, if it is
    not the `described` one.
    """
    image, rank = np.zeros(1, _IMAGE), (len(sizes) + 1) // 4
    ends = itertools.pairwise((0, rank, 2 * rank - 1, 3 * rank - 1, 4 * rank - 1))
    shape, pitches, box, steps = (list(sizes[first:end]) for first, end in ends)
    image["global_address"], image["global_dim"][0, :rank] = address, shape
    image["global_stride"][0, : rank - 1] = pitches
    interleave, swizzle, _, fill, *forced = modes
    of_size = {1: 0, 2: 1, 4: 2, 8: 4}
    number = _NUMBERS.get(described) or of_size[get_numpy_dtype(described).itemsize]
    elements = {"rank": rank - 1, "elemtype": next((it for it in forced if it >= 0), number)}
    modes_of = {"fill_mode": fill, "swizzle_mode": swizzle, "interleave_layout": interleave}
    tile = {"box_dim": (box + [1] * 5)[:5], "element_stride": (steps + [1] * 5)[:5]}
    image["others"] = _number({**elements, **modes_of, **tile})
    return image.view(np.uint8)


class TensorMap:
    """A tensor and the tiles that are copied of it; innermost dimensions first.

    It is what an image describes; raises `UnsupportedError` for what that may not. Memory of bytes
    may hold elements of any type.

    Attributes
    ----------
    source, offset : where the tensor lies
    pitches : bytes from one element to the next along each dimension
    box, steps : how many elements a tile has along each dimension, and how far apart
    packed : how many of the program's elements one of these is
    """

    def __init__(self, threads: Threads, image: bytes) -> None:
        (fields,) = np.frombuffer(image, _IMAGE)
        memory: Any = threads.gpu.find_memory(begin := int(fields["global_address"]))
        if (others := _OTHERS.get(int(fields["others"]))) is None or memory is None:
            raise UnsupportedError(f"{threads.name} gets no tensor map that the host encoded")
        if fields["zeros"]:
            text = f"{threads.name} gets a tensor map whose second half is not zero"
            memory.state.log.add_sentence("tensor map", text, threads.location)
        rank, number, swizzle = others["rank"] + 1, others["elemtype"], others["swizzle_mode"]
        shape, box = fields["global_dim"].tolist()[:rank], others["box_dim"][:rank]
        pitches = fields["global_stride"].tolist()[: rank - 1]
        described, packed = _TYPES[number], 1 + (number >= _FOUR_BITS)
        is_odd = shape[0] % packed or box[0] % packed
        shape[0], box[0] = shape[0] // packed, box[0] // packed
        if memory.dtype.itemsize == 1:
            memory = memory.reinterpret(get_numpy_dtype(described))
        size = memory.dtype.itemsize
        offset = (begin - memory.shadow.begin) // size
        if (other := get_numpy_dtype(described).itemsize) != size:
            memory.state.log.add_sentence(
                "tensor map",
                f"a tensor map of {memory.name}, whose elements have {size} bytes, describes "
                f"{described}, of {other}",
            )
        wrong = (
            any(it % 16 or it <= 0 < n - 1 for it, n in zip(pitches, shape[1:], strict=True))
            or any(not 1 <= extent <= 256 for extent in box)
            or box[0] * size % 16
            or any(not 1 <= step <= 8 for step in others["element_stride"])
            or others["interleave_layout"]
            or others["fill_mode"]
            or swizzle > 4
            or is_odd
            or number == _SPREAD_BY_16
        )
        if wrong or (swizzle and box[0] * size > 16 << min(swizzle, 3)):
            raise UnsupportedError(
                f"a tensor map of {memory.name} with shape {shape}, pitches {pitches}, box "
                f"{box} and swizzle {swizzle} is not one that cuTensorMapEncodeTiled makes "
                "and the simulator supports"
            )
        # Of an element no step is taken along the innermost dimension.
        self.steps = (1, *others["element_stride"][1:rank])
        self.box = [-(-extent // step) for extent, step in zip(box, self.steps, strict=True)]
        self.source, self.offset, self.shape, self.pitches = memory, offset, shape, [size, *pitches]
        self.swizzle, self.packed = swizzle, packed

    def find_elements(self, start: Sequence[int]) -> tuple[Array, Array]:
        """The places of a tile's elements in the tensor, and which of them lie inside.

        With more numbers than dimensions, of one tile for each of those from the second on.
        """
        if len(start) > len(self.box):
            rows = [self.find_elements((start[0], row)) for row in start[1:]]
            elements, inside = map(np.concatenate, zip(*rows, strict=True))
            return elements, inside
        at = np.indices(self.box[::-1]).reshape(len(self.box), -1)[::-1]
        start = start[0] // self.packed, *start[1:]
        moved = zip(at, self.steps, start, strict=True)
        places = [index * step + first for index, step, first in moved]
        inside = np.ones(places[0].shape, bool)
        elements = np.full(places[0].shape, self.offset, np.int64)
        for place, extent, pitch in zip(places, self.shape, self.pitches, strict=True):
            inside &= (place >= 0) & (place < extent)
            elements += place * (pitch // self.source.dtype.itemsize)
        return np.where(inside, elements, self.offset), inside

    def place_in_shared(self, first: int, size: int, count: int) -> Array:
        """Where so many elements of a tile lie in shared memory, from an address in elements of
        `size`: with a swizzle of 32, 64 or 128 bytes, or of 128 in chunks of 32."""
        addresses = (first + np.arange(count)) * size
        bits, unit = (3, 5) if self.swizzle == 4 else ((1 << self.swizzle) - 1, 4)
        found: Array = (addresses ^ ((addresses >> 7 & bits) << unit)) // size
        return found


def _load_tensor(threads: Threads, *given: Any) -> None:
    """A tile arrives in shared memory, with zeros where it lies outside of the tensor."""
    words, operands = _read(threads, given)
    (address,), at = operands["dst_mem"], _find_arrival(words, operands)
    for lane in get_lanes(threads):
        tensor_map = _require_map(threads, operands["tmap"][0], lane)
        source = tensor_map.source
        elements = tensor_map.find_elements([int(pick(it, lane)) for it in operands["coords"]])
        if (target := find_pointer(threads, address, lane, source.dtype)) is None:
            continue
        first = target.get_place(lane)
        _check_aligned(threads, target, lane, "tensor")
        places = tensor_map.place_in_shared(first, target.dtype.itemsize, elements[0].size)
        _begin_load(threads, lane, (target, places), at, source, *elements)
    threads.state.interval += 1


def _load(threads: Threads, *given: Any) -> None:
    """Neighbours arrive in shared memory."""
    words, operands = _read(threads, given)
    for lane in get_lanes(threads):
        ends = [find_pointer(threads, operands[it][0], lane) for it in ("dst_mem", "src_mem")]
        target, source = ends
        if target is None or source is None:
            continue
        whole, unit = int(pick(operands["size"][0], lane)), ALIGNMENT["linear"]
        if whole % unit:
            what = f"{threads.name} of {whole} bytes by {threads.state.describe_lane(lane)}"
            message = f"{what} (must be a multiple of {unit} bytes)"
            threads.report("misaligned access", target.name, message)
        _check_aligned(threads, target, lane, "linear")
        _check_aligned(threads, source, lane, "linear")
        # Both as the larger type: another one may need finer cells than there are.
        dtype = max(target.dtype, source.dtype, key=lambda it: it.itemsize)
        pair = (find_pointer(threads, it, lane, dtype) for it in ends)
        to, taken = (it for it in pair if it is not None)
        row = np.arange(whole // dtype.itemsize)
        places, elements = (it.get_place(lane) + row for it in (to, taken))
        at, inside = _find_arrival(words, operands), np.ones(row.shape, bool)
        _begin_load(threads, lane, (to, places), at, taken.memory, elements, inside)
    threads.state.interval += 1


def _read(threads: Threads, given: Sequence[Any]) -> tuple[dict[str, str], dict[str, list[Any]]]:
    """A copy's modifiers and operands; a cache policy, which is one of these, changes no value."""
    words, operands = name_operands(threads.name, given)
    plain = () if words.get("op") == "reduce" else ("sem",)
    if others := [words[it] for it in (*plain, "cp_mask", "ignore_oob") if words.get(it)]:
        raise UnsupportedError(f"the simulator does not support {threads.name} with {others[0]}")
    return words, operands


def _find_arrival(words: dict[str, str], operands: dict[str, list[Any]]) -> tuple[Any, Any, bool]:
    """The mbarrier, the mask of a cluster's blocks that get a copy, None for the own one, and
    whether it is that of a pair of blocks."""
    mask = next(iter(operands.get("cta_mask", ())), None)
    return operands["mbar"][0], mask, words.get("cta_group") == _PAIR


def _begin_load(
    threads: Threads,
    lane: int,
    to: tuple[Pointer, Array],
    at: tuple[Any, Any, bool],
    memory: Memory,
    elements: Array,
    inside: Array,
) -> None:
    """Ask for a copy `to` places in shared memory, of elements that are `inside` of a memory.

    It goes to the own block, or to those of a mask, and arrives `at` the mbarrier of each; of pairs
    of blocks at that of the one whose rank is odd, or even, as that of the mbarrier's.
    """
    source, target = _require_shared(memory), to[0]
    taken = Rows([lane], elements[None], inside[None])
    _require_fence(threads, source, taken, "asynchronous load of")
    values = source.load(taken, None, threads.location, kind=BULK_LOAD)
    brought = np.where(inside, values, 0).astype(source.dtype, copy=False)
    if brought.dtype != target.dtype:
        brought = np.ascontiguousarray(brought).view(target.dtype)
    check = partial(source.check_unchanged, taken, values, None, threads.location)
    _deliver(threads, lane, to, at, brought, check)


def _deliver(
    threads: Threads,
    lane: int,
    to: tuple[Pointer, Array],
    at: tuple[Any, Any, bool],
    brought: Array,
    check: Callable[[], None] = lambda: None,
    *,
    by_proxy: bool = True,
) -> None:
    """Values that hardware brings for a lane, where the mbarrier `at` which they arrive completes;
    `check` runs then."""
    (target, places), (barrier, masks, is_of_pair), mbarriers = to, at, threads.gpu.mbarriers
    blocks: list[tuple[int | None, Any]] = [(None, barrier)]
    if masks is not None:
        blocks = [*list_blocks(threads, barrier, int(pick(masks, lane)), lane)]
    own = find_pointer(threads, barrier, lane)
    odd = threads.state.batch.block[lane, 0] if own is None or own.rank is None else own.rank
    for rank, address in blocks:
        pointer = find_pointer(threads, address, lane)
        if pointer is not None and rank is not None and is_of_pair:
            pointer = replace(pointer, rank=rank & ~1 | int(odd) & 1)
        if pointer is None or (found := mbarriers.get(threads, pointer, lane)) is None:
            continue
        if by_proxy and not mbarriers.is_fenced(found):
            text = "that no fence after its initialization made visible to bulk copies"
            mbarriers.report(threads, pointer, lane, text)
        stored = Rows.of(lane, places, target.rank if rank is None else rank)
        shared = _require_shared(target.memory)
        for before in ("stored", "loaded") if by_proxy else ():
            _require_fence(threads, shared, stored, "asynchronous store to", before)
        bring = shared.begin_store(stored, brought, None, threads.location, BULK_STORE)

        def arrive(bring: Arrive = bring) -> None:
            check()
            bring()

        found.arriving.append(Arrival(lane, arrive))
        found.bytes -= places.size * target.dtype.itemsize
        mbarriers.progress += 1


def _store_tensor(threads: Threads, *given: Any) -> None:
    """A tile goes to the tensor, as far as it lies inside of it."""
    words, operands = _read(threads, given)
    (address,) = operands["src_mem"]
    for lane in get_lanes(threads):
        tensor_map = _require_map(threads, operands["tmap"][0], lane)
        memory = tensor_map.source
        change = _find_reduction(threads, words, memory.dtype)
        start = [int(pick(each, lane)) for each in operands["coords"]]
        elements, inside = tensor_map.find_elements(start)
        if (pointer := find_pointer(threads, address, lane, memory.dtype)) is None:
            continue
        first = pointer.get_place(lane)
        _check_aligned(threads, pointer, lane, "tensor")
        places = tensor_map.place_in_shared(first, pointer.dtype.itemsize, elements.size)
        of = pointer.memory, places
        _begin_store(threads, lane, of, (memory, elements), inside, change)
        memory.mark_stored_by_map(elements[inside])
    threads.state.interval += 1


def _store(threads: Threads, *given: Any) -> None:
    """Neighbours go from shared to global memory."""
    words, operands = _read(threads, given)
    (target,), (address,), (size,) = (operands[it] for it in ("dst_mem", "src_mem", "size"))
    dtype = get_type(words["type"])[0] if words.get("redop") else None
    change = _find_reduction(threads, words, dtype)
    for lane, pointer in list_pointers(threads, address, dtype):
        _check_aligned(threads, pointer, lane, "linear")
        if pointer.dtype.itemsize < target.dtype.itemsize:  # whose cells may be no finer
            pointer = find_pointer(threads, pointer, lane, target.dtype) or pointer
        memory, steps = target.memory.reinterpret(pointer.dtype), int(pick(size, lane))
        _check_aligned(threads, target, lane, "linear")
        first = target.get_place(lane) * target.dtype.itemsize // memory.dtype.itemsize
        row = np.arange(steps // pointer.dtype.itemsize)
        inside, places = np.ones(row.shape, bool), pointer.get_place(lane) + row
        of = pointer.memory, places
        _begin_store(threads, lane, of, (memory, first + row), inside, change)
    threads.state.interval += 1


def _find_reduction(threads: Threads, words: dict[str, str], dtype: Any) -> Any:
    """PTX ISA, "cp.reduce.async.bulk" and "cp.reduce.async.bulk.tensor": what is done with each
    element, one at a time; None of a plain copy."""
    if not (named := words.get("redop")):
        return None
    if named not in _REDUCTIONS or dtype.kind not in "fiu" or dtype.itemsize < 4:
        raise UnsupportedError(f"the simulator does not support this {threads.name} of {dtype}")
    return _REDUCTIONS[named]


def _begin_store(
    threads: Threads,
    lane: int,
    of: tuple[Memory, Array],
    to: tuple[Memory, Array],
    inside: Array,
    change: Any,
) -> None:
    """Ask for a copy of places in shared memory to those elements of another that are `inside`, or
    for a `change` of these by what is there."""
    source, target = _require_shared(of[0]), _require_shared(to[0])
    taken, stored = (Rows.of(lane, it) for it in (of[1], to[1][inside]))
    _require_fence(threads, source, taken, "asynchronous load of")
    values = source.load(taken, None, threads.location, kind=BULK_LOAD)
    at = stored, values[:, inside].view(target.dtype), None, threads.location
    bring = (
        target.begin_store(*at, BULK_STORE) if change is None else target.begin_change(*at, change)
    )
    check = partial(source.check_unchanged, taken, values, None, threads.location)
    ends: list[Arrive] = [check, bring]
    for queue, end in zip((BULK, WRITTEN), ends, strict=True):
        threads.defer(queue, lambda _, end=end: end(), threads.get_mask(np.array([lane])))


def _require_shared(memory: Memory) -> SharedMemory:
    if not isinstance(memory, SharedMemory):
        raise UnsupportedError(
            f"bulk copies are between global and shared memory, not {memory.name}"
        )
    return memory


def _locate_image(threads: Threads, address: Any, lane: int) -> tuple[SharedMemory, Rows]:
    """Where the bytes of a tensor map lie."""
    if (pointer := find_pointer(threads, address, lane)) is None:
        raise UnsupportedError(f"{threads.name} gets no tensor map that the host encoded")
    places = pointer.get_place(lane) + np.arange(_IMAGE.itemsize // pointer.dtype.itemsize)
    return _require_shared(pointer.memory), Rows.of(lane, places, pointer.rank)


def _require_map(threads: Threads, address: Any, lane: int) -> TensorMap:
    """PTX ISA, "Proxies" and "membar / fence": what threads stored or replaced in a tensor map is
    there for copies that are ordered after a release of its proxy by these, and an acquisition
    of the map by the copying thread."""
    memory, rows = _locate_image(threads, address, lane)
    image = memory.load(rows, None, threads.location, kind=MAP).tobytes()
    if memory.shadow.is_tracked:
        _require_fence(threads, memory, rows, MAP, fence=MAP_FENCE)
        cell = memory.locate_cell(int(rows.elements[0, 0]), lane)
        if threads.gpu.acquired.get((lane, cell)) != image:  # by a lane, where anybody stored
            _require_fence(threads, memory, rows, MAP, fence=f"{MAP_FENCE}::generic.acquire")
    maps = threads.gpu.maps
    if image not in maps:
        maps[image] = TensorMap(threads, image)
    return maps[image]


def _replace(threads: Threads, *given: Any) -> None:
    """PTX ISA, "tensormap.replace": a field of a tensor map, which is stored as a whole."""
    words, operands = name_operands(threads.name, given)
    (address,), (new,), field = operands["addr"], operands["new_val"], words["field"]
    for lane in get_lanes(threads):
        memory, rows = _locate_image(threads, address, lane)
        image = memory.load(rows, None, threads.location)[0].copy().view(_IMAGE)
        value, place = int(pick(new, lane)), int(pick(operands.get("ord", [0])[0], lane))
        if field.startswith("global"):
            image[field].reshape(-1)[place : place + 1] = value
        elif known := _OTHERS.get(int(image["others"][0])):
            values = dict(enumerate(known[field])) if "ord" in operands else {}
            values[place] = _OF_PTX[value] if field == "elemtype" else value
            made = {**known, field: list(values.values()) if "ord" in operands else values[place]}
            image["others"] = _number(made)
        memory.store(rows, image.view(memory.dtype)[None], None, threads.location, is_vector=False)


def _acquire(threads: Threads, address: Any, *given: Any) -> None:
    """``fence.proxy.tensormap::generic.acquire``: what a tensor map is for a lane's copies."""
    for lane in get_lanes(threads):
        memory, rows = _locate_image(threads, address, lane)
        cell = memory.locate_cell(int(rows.elements[0, 0]), lane)
        image = memory.load(rows, None, threads.location, kind=MAP).tobytes()
        threads.gpu.acquired[lane, cell] = image


def _check_aligned(threads: Threads, pointer: Pointer, lane: int, kind: str) -> None:
    size = ALIGNMENT[kind]
    begin = pointer.memory.shadow.begin if isinstance(pointer.memory, SharedMemory) else 0
    if (begin + pointer.get_place(lane) * pointer.dtype.itemsize) % size:
        where = f"{pointer.name_place(lane)} by {threads.state.describe_lane(lane)}"
        message = f"{threads.name} at {where} (must begin at a multiple of {size} bytes)"
        threads.report("misaligned access", pointer.name, message)


def _require_fence(
    threads: Threads,
    memory: SharedMemory,
    rows: Rows,
    what: str,
    before: str = "stored",
    fence: str = "",
) -> None:
    """What threads stored or loaded must be behind their fence, or one of this thread after a
    barrier."""
    found = memory.find_unfenced(rows, loads=before == "loaded", fence=fence)
    if found is not None:
        who = threads.state.describe_lane(rows.lanes[0])
        other = threads.state.describe_thread(found[0])
        message = (
            f"{what} {memory.name_place(found[1])} by {who}, which {other} {before} without "
            f"{fence or 'fence.proxy.async'} after it"
        )
        threads.report("missing proxy fence", memory.name, message)


def _store_with_arrival(threads: Threads, address: Any, *given: Any) -> None:
    """PTX ISA, "st.async": registers go to a block of the cluster, whose mbarrier gets their bytes;
    no proxy is between them and threads' own accesses."""
    words, operands = name_operands(threads.name, (address, *given))
    (dtype, _), (barrier,) = get_type(words["type"]), operands["mbar"]
    stored = join_registers(operands["b"], dtype, threads.lanes)
    for lane, target in list_pointers(threads, address):
        brought = stored[lane : lane + 1]
        places = target.get_place(lane) + np.arange(brought.nbytes // target.dtype.itemsize)
        _deliver(
            *(threads, lane, (target, places), (barrier, None, False), brought.view(target.dtype)),
            by_proxy=False,
        )
    threads.state.interval += 1


def _try_cancel(threads: Threads, address: Any, barrier: Any, *words: str) -> None:
    """PTX ISA, "clusterlaunchcontrol.try_cancel": a cluster that has not begun is asked for, and a
    response of 16 bytes arrives as a bulk copy does: in all blocks of the cluster, or in one.

    Here every request is granted while there are such clusters.
    """
    for lane, target in list_pointers(threads, address):
        response = np.zeros((1, 4), np.uint32)
        if (block := threads.gpu.cancel_cluster()) is not None:
            at = locate_blocks(block, threads.state.extents)
            response[0] = *(at[axis] for axis in BLOCK_AXES), 1
        _check_aligned(threads, target, lane, "linear")
        places = target.get_place(lane) + np.arange(response.nbytes // target.dtype.itemsize)
        everybody = "multicast::cluster::all" in words
        masks = (1 << threads.state.batch.cluster) - 1 if everybody else None
        to, arrival = (target, places), (barrier, masks, False)
        _deliver(threads, lane, to, arrival, response.view(target.dtype))
    threads.state.interval += 1


def _query_cancel(threads: Threads, result: Pointer, response: Any, *words: str) -> None:
    """PTX ISA, "clusterlaunchcontrol.query_cancel": whether the request was granted, or where the
    cluster begins that its asker runs now."""
    fields = ["get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z", "is_canceled"]
    given = np.ascontiguousarray(np.broadcast_to(response, (threads.lanes, 1))).view(np.uint32)
    column = fields.index(next(it for it in words if it in fields))
    fill_register(result, given[:, column : column + 1])


def _commit(threads: Threads, *modifiers: str) -> None:
    for queue in (BULK, WRITTEN):
        threads.commit(queue)


def _wait(threads: Threads, in_flight: Any, *modifiers: str) -> None:
    """With `.read` until shared memory has been read; what is written may still be in flight."""
    threads.wait(BULK, in_flight)
    if "read" not in modifiers:
        threads.wait(WRITTEN, in_flight)


BULK_COPIES: dict[str, Semantics] = {
    "ptx.cp_async_bulk_tensor_g2s_cluster": _load_tensor,
    "ptx.cp_async_bulk_tensor_g2s_cta": _load_tensor,
    **dict.fromkeys([f"ptx.cp_async_bulk_{it}" for it in ("g2s_cluster", "g2s_cta", "s2c")], _load),
    "ptx.cp_async_bulk_tensor_s2g": _store_tensor,
    "ptx.cp_async_bulk_s2g": _store,
    "ptx.cp_reduce_async_bulk_tensor": _store_tensor,
    **dict.fromkeys(
        ("ptx.cp_reduce_async_bulk_s2g", "ptx.cp_reduce_async_bulk_s2g_f32_noftz"), _store
    ),
    "ptx.cp_async_bulk_commit_group": _commit,
    "ptx.cp_async_bulk_wait_group": _wait,
    **dict.fromkeys(("ptx.st_async", "ptx.st_async_vec"), _store_with_arrival),
    "ptx.clusterlaunchcontrol_try_cancel": _try_cancel,
    **dict.fromkeys(
        (
            "ptx.clusterlaunchcontrol_query_cancel_is_canceled",
            "ptx.clusterlaunchcontrol_query_cancel_get_first_ctaid",
        ),
        _query_cancel,
    ),
    **{f"{PREFIX}{name}": _replace for name in TABLE if name.startswith("tensormap_replace")},
    "ptx.fence_proxy_tensormap_acquire": _acquire,
    "ptx.fence_proxy_tensormap_release": lambda threads, *_: threads.state.pass_fence(
        MAP_FENCE, threads.active
    ),
    "ptx.prefetch": lambda threads, *_: None,  # of a tensor map, as of a tile: no value changes
    **dict.fromkeys(
        ("ptx.cp_async_bulk_tensor_prefetch", "ptx.cp_async_bulk_prefetch"),
        lambda threads, *_: None,
    ),
}
