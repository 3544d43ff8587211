"""Clusters of thread blocks: their barriers, and what of them reaches another block's memory; and
ld and st of PTX, which reach it at an address of mapa, and the own one's at a pointer.

Semantics from the PTX ISA, sections "barrier.cluster", "mapa", "ld" and "st". Blocks of a cluster
run in the same batch of the simulator, so that all of them have begun; whether a thread may take
that for granted is what a barrier of the cluster says, or an mbarrier behind one. A block's shared
memory lasts until it ends: it must know by then of all that other blocks do to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from tirstep.transforms.gpu_limits import WARP

from ...device import Array
from .atomics import STRONG, access_strongly
from .function_semantics import Pointer, Semantics, Threads, get_lanes, pick
from .memory import Memory
from .ptx_calls import fill_register, get_type, join_registers, name_operands
from .run_state import UnsupportedError
from .shared_memory import Rows, SharedMemory
from .tensor_memory import AFTER

if TYPE_CHECKING:
    from .simulated_gpu import SimulatedGpu

DEADLOCK, UNDEFINED = "deadlock", "undefined operation"
GLOBAL = 1 << 40
"""Addresses from here on are those of global memory."""
_RANK_BIT = 24
"""Bit of an address in a cluster's shared memory where the block's rank begins, above the byte
within the block; as on GPUs, where programs reach the even block by a mask."""


class Meetings:
    """The barriers of the clusters that run, which threads arrive at and wait for apart."""

    def __init__(self, gpu: SimulatedGpu) -> None:
        self.gpu = gpu
        self._arrived: Array = np.zeros(0, np.int64)
        self._passed: Array = np.zeros(0, np.int64)
        self._times: list[Array] = []  # when each lane released what it did, and when it came
        self._told: list[Array] = []  # what those that arrived knew
        self._visits: dict[tuple[int, int], int] = {}
        self._begin = gpu.state.interval

    def arrive(self, threads: Threads, *, releases: bool) -> None:
        """Threads arrive, and release what they did before unless that is relaxed."""
        batch, active = threads.state.batch, threads.active[:, 0]
        if not self._arrived.size:
            self._arrived, self._passed = np.zeros((2, batch.lanes), np.int64)
        twice = active & (self._arrived > self._passed)
        self._report(threads, twice, "a second time, before it has waited", UNDEFINED)
        self.gpu.state.interval += 1
        active = active & ~twice
        for phase in np.unique(self._arrived[active]):
            while len(self._times) <= phase:
                self._times.append(np.zeros((2, batch.lanes), np.int64))
                self._told.append(np.zeros((batch.lanes // batch.group, batch.group), np.int64))
            lanes = active & (self._arrived == phase)
            self._times[phase][int(not releases) :, lanes] = self.gpu.state.interval
            for lane in np.flatnonzero(lanes) if releases else ():
                told = self._told[phase][lane // batch.group]
                np.maximum(told, threads.state.tell_known(int(lane)), out=told)
        self._arrived[active] += 1
        self.gpu.mbarriers.progress += 1

    def wait(self, threads: Threads) -> None:
        """Threads wait for all of their cluster that have not returned."""
        batch = threads.state.batch
        active = threads.active[:, 0]
        early = active & (self._arrived == self._passed) if self._arrived.size else active
        self._report(threads, early, "waits forever: it has not arrived", DEADLOCK)
        waiting = active & ~early
        while waiting.any():
            waiting = self._pass(waiting)
            if waiting.any() and not self.gpu.let_others_run():
                self._report(threads, waiting, "waits forever for others to arrive", DEADLOCK)
                early = early | waiting
                break
        if early.any():
            threads.state.exit_threads(early.reshape(batch.lanes, 1))

    def _pass(self, waiting: Array) -> Array:
        """Let those go on whose clusters have arrived; returns the others.

        They know of what all of their cluster did before they arrived.
        """
        state, batch = self.gpu.state, self.gpu.state.batch
        exited = np.zeros(batch.lanes, bool) if state.exited is None else state.exited[:, 0]
        come = np.where(exited, np.iinfo(np.int64).max, self._arrived)
        come = come.reshape(-1, batch.group).min(axis=1).repeat(batch.group)
        ready: Array = waiting & (come > self._passed)
        assert state.known is not None
        for phase in np.unique(self._passed[ready]):
            some = ready & (self._passed == phase)
            by_cluster, came = self._times[phase].reshape(2, -1, batch.group)
            lanes, after = np.flatnonzero(some), state.get_fences(AFTER)
            came = np.where(some[:, None], came.repeat(batch.group, 0), 0)
            after.known = np.maximum(after.known, came)  # the wait acquires, as that fence does
            by_cluster = np.maximum(by_cluster, self._told[phase])  # what others knew of others
            knows: Array = np.maximum(state.known[0, lanes], by_cluster[lanes // batch.group])
            state.known[0, lanes] = knows
            whole = np.asarray(some.reshape(batch.blocks, -1).all(axis=1))
            state.begin_interval(whole, by_cluster.min(axis=1).repeat(batch.cluster))
        self._passed[ready] += 1
        return waiting & ~ready

    def visit(self, lane: int, block: int) -> None:
        """A lane reaches the shared memory of another block."""
        if self.gpu.state.batch.block[lane, 0] != block:
            self._visits[block, lane] = self.gpu.state.interval

    def reach(self, threads: Threads, lane: int, block: int) -> None:
        """A lane loads or stores in another block, which must have begun."""
        self.visit(lane, block)
        batch = threads.state.batch
        first = block % batch.cluster * batch.threads
        known = threads.state.tell_known(lane)[first : first + batch.threads]
        if known.max() <= self._begin:
            wrong = np.arange(batch.lanes) == lane
            text = "reaches a block that may not have begun: put a barrier of the cluster before it"
            self._report(threads, wrong, text, UNDEFINED)

    def report_left(self) -> None:
        """Findings about blocks that may have ended when another one reached their memory."""
        state = self.gpu.state
        if not self._visits:
            return
        batch = state.batch
        for (block, lane), time in self._visits.items():
            first = block * batch.threads
            inside = range(first, first + batch.threads)
            if all(state.tell_heard(each)[lane % batch.group] <= time for each in inside):
                message = (
                    f"{state.describe_lane(lane)} reaches the shared memory of the block of "
                    f"{state.describe_lane(first)}, which may have ended: let it wait for "
                    "that, or put a barrier of the cluster after it"
                )
                state.log.add_sentence(UNDEFINED, message)
                return

    def _report(self, threads: Threads, wrong: Array, text: str, kind: str) -> None:
        def describe(at: tuple[int, ...]) -> str:
            return f"{threads.name} by {threads.state.describe_lane(at[0])} {text}"

        threads.state.log.add(kind, threads.name, threads.location, wrong, describe)


def _arrive(threads: Threads, *modifiers: str) -> None:
    threads.gpu.meetings.arrive(threads, releases="relaxed" not in modifiers)


def _wait(threads: Threads, *modifiers: str) -> None:
    threads.gpu.meetings.wait(threads)


def _meet(threads: Threads) -> None:
    _arrive(threads)
    _wait(threads)


def _map_address(threads: Threads, result: Pointer, own: Any, rank: Any, *modifiers: str) -> None:
    """mapa: where what an address names lies in another block of the cluster."""
    own = read_address(threads, own)
    ranks = np.asarray(rank, np.int64)
    ranks = np.where((ranks < 0) | (ranks > 0xFF), 0xFF, ranks)
    value = np.asarray(own, np.int64) & (1 << _RANK_BIT) - 1 | ranks << _RANK_BIT
    result.store(0, np.broadcast_to(value, (threads.lanes, 1)).astype(result.dtype))


def _convert_address(threads: Threads, result: Pointer, pointer: Any, *modifiers: str) -> None:
    """cvta: the number of a pointer in the window of its memory, here of shared memory alone."""
    number = np.broadcast_to(read_address(threads, pointer), (threads.lanes, 1))
    fill_register(result, number.astype(np.uint64))


def _read_special(threads: Threads, bits: int, name: str) -> Array:
    """PTX ISA, section "Special Registers": those that say where a thread stands."""
    batch = threads.state.batch
    found = {
        "laneid": threads.numbers % WARP,
        "warpid": threads.numbers // WARP,
        "cluster_ctarank": batch.block % batch.cluster,
        "cluster_nctarank": np.full((1, 1), batch.cluster),
        "smid": batch.first + batch.block,  # one of them for each block
    }
    if name not in found:
        raise UnsupportedError(f"the simulator does not know the special register %{name}")
    return np.broadcast_to(found[name], (threads.lanes, 1)).astype(f"int{bits}")


def read_address(threads: Threads, given: Any) -> Any:
    """The number of an argument, which may be a pointer."""
    is_pointer = isinstance(given, Pointer)
    return tell_address(threads.gpu, given.memory, given.offset) if is_pointer else given


def tell_address(gpu: SimulatedGpu, memory: Memory, offset: Any) -> Any:
    """The number that a pointer into shared memory is, of which instructions take 32 bits."""
    if not isinstance(memory, SharedMemory):
        raise UnsupportedError(f"the simulator knows no number of a pointer to {memory.name}")
    if memory.dtype == ml_dtypes.float4_e2m1fn:
        return tell_address(gpu, *_pack(memory, offset))
    if memory.shadow.is_global:
        places = offset if isinstance(offset, int) else np.asarray(offset, np.int64)
        return memory.shadow.begin + places * memory.dtype.itemsize
    byte, batch = memory.shadow.begin + offset * memory.dtype.itemsize, gpu.state.batch
    if batch.cluster > 1:
        byte = byte + (batch.block % batch.cluster << _RANK_BIT)
    return byte if isinstance(byte, int) else np.asarray(byte).astype(np.uint32)


def _pack(memory: Any, offset: Any) -> tuple[Any, Any]:
    """Elements of four bits as the bytes in which two of them lie."""
    if np.any(offset % 2) or (memory.shadow.is_global and np.any(offset != memory.low)):
        raise UnsupportedError(f"the simulator keeps the 4-bit elements of {memory.name} in bytes")
    half = memory.view(memory.name, np.dtype("uint8"), memory.size // 2, memory.low // 2)
    return half, offset // 2


def find_pointer(
    threads: Threads, address: Any, lane: int, dtype: np.dtype[Any] | None = None
) -> Pointer | None:
    """What a lane's address points at; None, and a finding, where there is no block.

    It may be a pointer, which is the lane's own already.
    """
    if isinstance(address, Pointer):
        if address.dtype == ml_dtypes.float4_e2m1fn and isinstance(address.memory, SharedMemory):
            packed = _pack(address.memory, address.get_place(lane))
            address = Pointer(threads, *packed, address.rank)
        if dtype is None or dtype.itemsize == address.dtype.itemsize:
            return address
        place = address.get_place(lane) * address.dtype.itemsize // dtype.itemsize
        return Pointer(threads, address.memory.reinterpret(dtype), place, address.rank)
    byte, rank = int(pick(address, lane)), None
    if byte < GLOBAL:
        rank, byte = byte >> _RANK_BIT, byte & (1 << _RANK_BIT) - 1
    memory = threads.gpu.find_memory(byte)
    if memory is None:
        message = f"{threads.name} at address {byte} by {threads.state.describe_lane(lane)}, where "
        kind = "global" if rank is None else "shared"
        threads.report("out of bounds", threads.name, f"{message}no {kind} memory is")
        return None
    viewed = memory if dtype is None else memory.reinterpret(dtype)
    place = (byte - memory.shadow.begin) // viewed.dtype.itemsize
    is_there = rank is None or has_block(threads, rank, lane)
    return Pointer(threads, viewed, place, rank) if is_there else None


def list_pointers(
    threads: Threads, address: Any, dtype: np.dtype[Any] | None = None
) -> Iterator[tuple[int, Pointer]]:
    """The lanes of a call, and what the address of each points at; none where there is no block."""
    for lane in get_lanes(threads):
        if (pointer := find_pointer(threads, address, lane, dtype)) is not None:
            yield lane, pointer


def has_block(threads: Threads, rank: int, lane: int) -> bool:
    """Whether there is a block of that rank in a lane's cluster; a finding where there is none."""
    size = threads.state.batch.cluster
    if 0 <= rank < size:
        return True
    message = (
        f"{threads.name} to block {rank} of a cluster of {size} by "
        f"{threads.state.describe_lane(lane)}"
    )
    threads.report(UNDEFINED, threads.name, message)
    return False


def list_blocks(
    threads: Threads, address: Any, mask: int, lane: int
) -> Iterator[tuple[int, Pointer]]:
    """The blocks of a multicast's mask, and what lies in each where an address is."""
    pointer = find_pointer(threads, address, lane)
    for rank in range(mask.bit_length()) if pointer is not None else ():
        if mask >> rank & 1 and has_block(threads, rank, lane):
            assert pointer is not None
            yield rank, Pointer(threads, pointer.memory, pointer.get_place(lane), rank)


def _locate(
    threads: Threads, address: Any, dtype: np.dtype[Any]
) -> Iterator[tuple[SharedMemory, Rows]]:
    """The lanes of a call by the memory that their addresses lie in, as elements of a type."""
    found: dict[int, list[tuple[int, Pointer]]] = {}
    for lane, pointer in list_pointers(threads, address, dtype):
        if pointer.rank is not None:
            block = threads.state.batch.get_block(lane, pointer.rank)
            threads.gpu.meetings.reach(threads, lane, block)
            found.setdefault(id(pointer.memory), []).append((lane, pointer))
    for pairs in found.values():
        memory = pairs[0][1].memory
        if not isinstance(memory, SharedMemory):
            raise UnsupportedError(f"{memory.name} is not in shared memory, which blocks can reach")
        places = np.array([[pointer.get_place(lane)] for lane, pointer in pairs])
        ranks = [pointer.rank or 0 for _, pointer in pairs]
        lanes, active = [lane for lane, _ in pairs], np.ones(places.shape, bool)
        yield memory, Rows(lanes, places, active, ranks)


def point_at(threads: Threads, address: Any) -> Pointer:
    """Each lane's own, of numbers in one memory: global, or the shared memory of its block."""
    if isinstance(address, Pointer):
        return address
    numbers = np.broadcast_to(np.asarray(address).astype(np.int64), (threads.lanes, 1))
    is_global, rank = numbers >= GLOBAL, threads.state.batch.block % threads.state.batch.cluster
    bytes_of = np.where(is_global, numbers, numbers & (1 << _RANK_BIT) - 1)
    memory = threads.gpu.find_memory(int(bytes_of[threads.active][0]))
    is_own = is_global | (numbers >> _RANK_BIT == rank)
    if memory is None or not is_own[threads.active].all():
        raise UnsupportedError(f"{threads.name} is not supported at {int(numbers[0, 0]):#x}")
    place = (bytes_of - memory.shadow.begin) // memory.dtype.itemsize
    return Pointer(threads, memory, place)


def _access(threads: Threads, *given: Any) -> None:
    """ld and st: one register or several at a pointer, whatever the type of its memory."""
    words, operands = name_operands(threads.name, given)
    (address,), (dtype, _) = operands["addr"], get_type(words["type"])
    registers, stored = operands.get("d", ()), operands.get("value", ())
    if words["space"] == "shared::cluster":
        if set(words.values()) - {"", "shared::cluster", words["type"]}:
            raise UnsupportedError(
                f"the simulator supports {threads.name} of one register, without semantics, only "
                "in the shared memory of a cluster"
            )
        for memory, rows in _locate(threads, address, dtype):
            column, lanes = np.zeros((threads.lanes, 1), dtype), np.array(rows.lanes)
            if stored:
                column[:] = join_registers(stored, dtype, threads.lanes)
                memory.store(rows, column[lanes], None, threads.location, is_vector=False)
            for register in registers:
                column[lanes] = memory.load(rows, None, threads.location)
                register.store(0, column.view(register.dtype), threads.get_mask(lanes))
        return
    in_cluster = threads.state.batch.cluster > 1
    # Within a block of a cluster barriers order it.
    is_strong = words["sem"] in STRONG and not (words["scope"] == "cta" and in_cluster)
    if words.get("mmio") or (is_strong and in_cluster):
        raise UnsupportedError(
            f"the simulator does not know what {threads.name} of .{words['sem']} orders in clusters"
        )
    address, size = point_at(threads, address), len(registers or stored) * dtype.itemsize
    if size % address.dtype.itemsize:
        raise UnsupportedError(
            f"the simulator does not support {threads.name} of {size} bytes in {address.name}, "
            f"whose elements have {address.dtype.itemsize}"
        )
    elements, values = np.arange(size // address.dtype.itemsize), None
    if stored:
        values = join_registers(stored, dtype, threads.lanes).view(address.dtype)
    if is_strong:
        values = access_strongly(threads, address, elements, words, values)
    elif values is None:
        values = address.load(elements)
    else:
        address.store(elements, values)
    for place, register in enumerate(registers):
        bits = np.ascontiguousarray(values).view(dtype)
        fill_register(register, bits[:, place : place + 1])


CLUSTERS: dict[str, Semantics] = {
    "ptx.barrier_cluster_arrive": _arrive,
    "ptx.barrier_cluster_wait": _wait,
    "cuda.cluster_sync": _meet,
    **dict.fromkeys(("ptx.mapa", "ptx.mapa_u32"), _map_address),
    **dict.fromkeys(("ptx.cvta", "ptx.cvta_generic"), _convert_address),
    "cuda.mov_sreg": _read_special,
}
VECTOR_ACCESSES: dict[str, Semantics] = dict.fromkeys(
    [f"ptx.{kind}{width}" for kind in ("ld", "st") for width in ("", "_vec", "_vec256")], _access
)
