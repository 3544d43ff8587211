"""Blackwell's tensor cores: tcgen05, whose sums lie in tensor memory.

From the PTX ISA, section 9.7.16 "TensorCore 5th Generation Family Instructions"; each function
names its own. Which instruction may be in flight beside which one, and what a thread must wait for
before it accesses tensor memory, stands in `tensor_memory`. What an instruction reads in shared
memory may not change until its commit has arrived, and stores of threads to it need
``fence.proxy.async`` in between (9.7.16.6.5); an alloc, a dealloc and the permit take effect at
once (9.7.16.6.1).

Products and their sum are computed in float64 and rounded once to the type of D; tensor cores keep
fewer bits, in an order that NVIDIA leaves open. Integers that fit are exact in both.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from tvm.backend.cuda.cpp.descriptors import (
    encode_instr_descriptor_block_scaled_uint32,
    encode_instr_descriptor_dense_uint32,
)

from tirstep.transforms.gpu_limits import WARP

from ...device import Array
from .clusters import UNDEFINED, find_pointer, has_block, list_blocks, tell_address
from .function_semantics import Pointer, Semantics, Threads, get_lanes, pick
from .ptx_calls import get_type, name_operands
from .run_state import UnsupportedError
from .shared_memory import Rows
from .tensor_cores import widen
from .tensor_memory import (
    AFTER,
    BEFORE,
    COLUMNS,
    FEWEST_COLUMNS,
    KIND,
    LANES,
    Operation,
    TensorMemory,
)
from .warpgroups import place_tile, read_registers

DEADLOCK = "deadlock"
LOADS, STORES = "tcgen05.ld", "tcgen05.st"
"""The queues that ``tcgen05.wait`` waits for."""
_WIDTHS = {0: 16, 2: 128, 4: 64, 6: 32}
"""Bytes of a row by the swizzle of a descriptor, bits 61 to 63 (9.7.16.4.1)."""
_UNIT, _FIELD = 16, (1 << 14) - 1
_DEPTH_BYTES = 32
"""Of a row of A that one instruction multiplies, whatever its type (9.7.16.2.1)."""
_TYPES = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": {0: "e4m3", 1: "e5m2"},
    "i8": {0: "u8", 1: "s8"},
    "mxf8f6f4": {0: "e4m3", 1: "e5m2"},
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}
"""Of the elements of A and B, by the fields of an instruction descriptor (9.7.16.4.2)."""
_SUMS = {0: np.dtype("float16"), 1: np.dtype("float32"), 2: np.dtype("int32")}


# ---- Allocation, 9.7.16.7


def _allocate(threads: Threads, *given: Any) -> None:
    """9.7.16.7.1: a warp gets columns, whose first one it stores to shared memory; it waits until
    there are as many."""
    _, operands = name_operands(threads.name, given)
    (target,), (count,) = operands["dst"], operands["ncols"]
    memory, starts = _use(threads, given), np.zeros((threads.lanes, 1), np.uint32)
    for warp in threads.groups(WARP):
        lane, wanted = int(warp[0]), int(pick(count, warp[0]))
        taken = memory.allocated[threads.state.batch.block[lane, 0]]
        if not FEWEST_COLUMNS <= wanted <= COLUMNS or wanted & wanted - 1:
            text = f"of {wanted} columns, which must be a power of two from 32 to 512"
            _report(threads, lane, text)
            wanted = min(COLUMNS, max(FEWEST_COLUMNS, 1 << (wanted - 1).bit_length()))
        if not memory.may_allocate[threads.state.batch.block[lane, 0]]:
            _report(threads, lane, "after its block has relinquished the permit", UNDEFINED)
        free = [it for it in range(0, COLUMNS, wanted) if not taken[it : it + wanted].any()]
        if not free:
            text = f"waits forever for {wanted} columns, of which {(taken == 0).sum()} are left"
            _report(threads, lane, text, DEADLOCK)
            threads.state.exit_threads(threads.get_mask(warp))
            continue
        taken[free[0] : free[0] + wanted] = taken.max() + 1
        starts[warp] = free[0]
        target.store(0, starts, threads.get_mask(warp))


def _free(threads: Threads, *given: Any) -> None:
    """9.7.16.7.1: columns of one allocation are given back, all of them."""
    _, operands = name_operands(threads.name, given)
    (address,), (count,) = operands["taddr"], operands["ncols"]
    memory = _use(threads, given)
    for warp in threads.groups(WARP):
        lane, start, wanted = int(warp[0]), *(int(pick(it, warp[0])) for it in (address, count))
        taken = memory.allocated[threads.state.batch.block[lane, 0]]
        number = taken[start] if 0 <= start < COLUMNS else 0
        if not number or not np.array_equal(
            np.flatnonzero(taken == number), np.arange(start, start + wanted)
        ):
            _report(threads, lane, f"of {wanted} columns from {start} on, which are no allocation")
            continue
        memory.free(warp, start, wanted, threads.location)


def _relinquish(threads: Threads, *given: Any) -> None:
    memory = _use(threads, given)
    for warp in threads.groups(WARP):
        memory.may_allocate[threads.state.batch.block[warp[0], 0]] = False


def _use(threads: Threads, given: Sequence[Any]) -> TensorMemory:
    """The tensor memory, of instructions that must all be of one block or of pairs of blocks."""
    memory = threads.gpu.tensor_memory
    group = 2 if any(isinstance(it, str) and it == "cta_group::2" for it in given) else 1
    lanes = get_lanes(threads)
    if lanes and memory.group not in (0, group):
        _report(threads, lanes[0], "with another cta_group than before in its kernel", UNDEFINED)
    memory.group = memory.group or group
    return memory


def _report(threads: Threads, lane: int, text: str, kind: str = KIND) -> None:
    message = f"{threads.name} by {threads.state.describe_lane(lane)} {text}"
    threads.report(kind, KIND, message)


# ---- Registers, 9.7.16.8


@functools.cache
def _place_fragment(shape: str, count: int, split: int) -> tuple[Array, Array]:
    """9.7.16.2.3.1: the lane and the column of each register of each thread: (32, registers)."""
    thread, register = np.indices((WARP, count))
    group, inside = thread // 4, thread % 4
    if shape == "32x32b":
        return thread, register
    if shape == "16x64b":
        return group + thread % 2 * 8, register * 2 + inside // 2
    if shape == "16x128b":
        return group + register % 2 * 8, register // 2 * 4 + inside
    if shape == "16x256b":
        return group + register // 2 % 2 * 8, register // 4 * 8 + inside * 2 + register % 2
    return thread % 16, register + thread // 16 * split  # 16x32bx2


def _find_rows(
    threads: Threads, words: Any, operands: dict[str, list[Any]]
) -> Iterator[tuple[Array, Rows]]:
    """What each warp loads or stores, of the 32 lanes of its number in its warpgroup (9.7.16.2.2):
    of those that the address names, or of its first ones where that names none.
    """
    (address,), split = operands["taddr"], int(operands.get("imm_half_splitoff", [0])[0])
    lanes, columns = _place_fragment(words["shape"], len(operands["r"]), split)
    if words.get("pack") or words.get("unpack"):
        raise UnsupportedError(f"the simulator does not support {threads.name} of 16 bits")
    for warp in threads.groups(WARP):
        given = np.array([int(pick(address, lane)) for lane in warp])
        if (given != given[0]).any():
            _report(threads, warp[0], "with another address than other threads of its warp")
        first, column = int(given[0]) >> 16, int(given[0]) & 0xFFFF
        own, most = int(threads.numbers[warp[0], 0]) // WARP % 4 * WARP, int(lanes.max())
        first = own + first if first + most < WARP else first
        if not own <= first or first + most >= own + WARP:
            text = f"of lanes {first} to {first + most}, whose warp has those from {own} to "
            _report(threads, warp[0], f"{text}{own + WARP - 1}")
            continue
        rows = _take(threads, int(warp[0]), first + lanes, column + columns)
        if rows is not None:
            yield warp, rows


def _take(
    threads: Threads, lane: int, lanes: Array, columns: Array, rank: int | None = None
) -> Rows | None:
    """Elements of tensor memory that a lane accesses, for its warp or its block."""
    lanes, columns = np.broadcast_arrays(lanes, columns)
    if lanes.max() >= LANES or columns.max() >= COLUMNS:
        text = f"reaches lane {lanes.max()} and column {columns.max()}, of {LANES} and {COLUMNS}"
        _report(threads, lane, text, "out of bounds")
        return None
    elements = (lanes * COLUMNS + columns).reshape(1, -1)
    return Rows([lane], elements, np.ones(elements.shape, bool), None if rank is None else [rank])


def _load(threads: Threads, *given: Any) -> None:
    """9.7.16.8.1: tcgen05.ld, whose registers are there behind tcgen05.wait::ld."""
    words, operands = name_operands(threads.name, given)
    registers, memory = operands["r"], threads.gpu.tensor_memory
    bits = np.zeros((threads.lanes, len(registers)), np.uint32)
    mask = np.zeros((threads.lanes, 1), bool)
    for warp, rows in _find_rows(threads, words, operands):
        operation = memory.begin(rows.lanes[0], ("ld",))
        values = memory.begin_load(operation, rows, threads.location, "tcgen05.ld of")
        bits[warp], mask[warp] = values.reshape(WARP, -1), True
        threads.defer(LOADS, lambda _, it=operation: it.end(), threads.get_mask(warp))
    file, cells = read_registers(threads, registers)
    if file.dtype.itemsize > bits.itemsize:
        raise UnsupportedError(f"{threads.name} fills registers of 32 bits, not {file.name}")
    used = "tcgen05.ld that fills"
    file.begin_update(cells, bits.view(file.dtype), False, mask, threads.location, used=used)
    threads.defer(LOADS, lambda ready: file.end_update(cells, ready & mask), mask)
    threads.state.interval += 1


def _store(threads: Threads, *given: Any) -> None:
    """9.7.16.8.2: tcgen05.st, whose cells are there behind tcgen05.wait::st."""
    words, operands = name_operands(threads.name, given)
    columns = [np.broadcast_to(np.asarray(it), (threads.lanes, 1)) for it in operands["r"]]
    bits = [
        it.copy().view(np.uint32) if it.dtype.itemsize == 4 else it.astype(np.uint32)
        for it in columns
    ]
    memory, values = threads.gpu.tensor_memory, np.hstack(bits)
    for warp, rows in _find_rows(threads, words, operands):
        operation = memory.begin(rows.lanes[0], ("st",))
        memory.put(operation, rows, threads.location, values[warp].reshape(1, -1))
        threads.defer(STORES, lambda _, it=operation: it.end(), threads.get_mask(warp))
    threads.state.interval += 1


def _wait(threads: Threads, action: str, *_: str) -> None:
    """9.7.16.8.3: the warp waits for all its loads, or stores, before; each of its lanes then."""
    queue, state = LOADS if action == "wait::ld" else STORES, threads.state
    threads.commit(queue)
    threads.wait(queue)
    state.interval += 1
    assert state.known is not None
    for warp in threads.groups(WARP):
        state.known[0, warp, warp[0] % state.batch.group] = state.interval


def _fence(threads: Threads, action: str) -> None:
    """9.7.16.11.1."""
    kind = action.removeprefix("fence::")
    threads.state.pass_fence(kind, threads.active, hears=kind == AFTER)


# ---- Shared memory, 9.7.16.4.1 and 9.7.16.9


class _Tile(NamedTuple):
    """Which elements of a matrix in shared memory are read: `rows` of `depth` elements along k,
    or along the rows where they go across k."""

    rows: int
    depth: int
    dtype: np.dtype[Any]
    is_across: bool = False


def _read_tile(
    threads: Threads,
    operation: Operation,
    descriptor: int,
    tile: _Tile,
    what: str,
    rank: int | None,
) -> Array | None:
    """A matrix as a descriptor of shared memory describes it, in the block of a rank; None where
    there is none.
    """
    lane, (start, leading, stride) = (
        operation.lane,
        ((descriptor >> bit & _FIELD) * _UNIT for bit in (0, 16, 32)),
    )
    code, base = descriptor >> 61 & 7, descriptor >> 49 & 7
    memory = threads.gpu.find_shared(start)
    if memory is None or code not in (*_WIDTHS, 1) or not descriptor >> 46 & 1:
        text = f"with a descriptor {descriptor:#x}, which describes no shared memory"
        _report(threads, lane, text, UNDEFINED)
        return None
    if code == 1 or base or descriptor >> 52 & 1:
        raise UnsupportedError(
            f"the simulator does not support {threads.name} with descriptor {descriptor:#x}: its "
            "swizzle of 32 bytes at a time, base offset or absolute stride"
        )
    dtype, width = tile.dtype, _WIDTHS[code]
    if dtype.itemsize < memory.shadow.unit and not tile.is_across:  # several at a time
        dtype = np.dtype(f"uint{8 * memory.shadow.unit}")
    item = dtype.itemsize
    row, k = np.indices((tile.rows, tile.depth * tile.dtype.itemsize // item))
    address = place_tile(start, (leading, stride), width, row, k, item, is_across=tile.is_across)
    viewed = memory.reinterpret(dtype)
    elements = (address - memory.shadow.begin).reshape(1, -1) // item
    ranks = None if rank is None else [rank]
    rows = Rows([lane], elements, np.ones(elements.shape, bool), ranks)
    values = viewed.load(rows, None, threads.location, kind=what)
    location = threads.location
    operation.ends.append(lambda: viewed.end_matrix(rows, values, None, location, what))
    made: Array = np.ascontiguousarray(values).view(tile.dtype).reshape(tile.rows, tile.depth)
    return made


_COPIES = {"": (0,), "warpx4": (0, 32, 64, 96), "warpx2::02_13": (0, 64), "warpx2::01_23": (0, 32)}
"""Where tcgen05.cp copies to, by its multicast: lanes further on."""


def _copy(threads: Threads, *given: Any) -> None:
    """9.7.16.9.2: tcgen05.cp, from shared to tensor memory, of one block or of both of a pair."""
    words, operands = name_operands(threads.name, given)
    (address,), (descriptor,) = operands["taddr"], operands["s_desc"]
    if words["dst_fmt"] or words["shape"] == "4x256b":
        text = " ".join(filter(None, words.values()))
        raise UnsupportedError(f"the simulator does not support {threads.name} of {text}")
    lanes, bits = map(int, words["shape"].removesuffix("b").split("x"))
    row, column = np.indices((lanes, bits // 32))
    if words["multicast"] == "warpx2::01_23":  # warps 0 and 1 get the first half
        row = row + row // 32 * 32
    memory = _use(threads, given)
    for lane in get_lanes(threads):
        operation, to = _issue(threads, lane, ("cp",)), int(pick(address, lane))
        for rank in _list_pair(threads, lane, words):
            tile = _Tile(lanes, bits // 8, np.dtype(np.uint8))
            what = "tcgen05.cp from"
            read = _read_tile(threads, operation, int(pick(descriptor, lane)), tile, what, rank)
            if read is None:
                return
            brought = np.ascontiguousarray(read).view(np.uint32).reshape(1, -1)
            for further in _COPIES[words["multicast"]]:
                at = (to >> 16) + row + further, (to & 0xFFFF) + column
                rows = _take(threads, lane, *at, rank)
                if rows is not None:
                    memory.put(operation, rows, threads.location, brought)
    threads.state.interval += 1


def _issue(threads: Threads, lane: int, kind: tuple[Any, ...]) -> Operation:
    """An operation of which the lane's next commit tells."""
    memory = threads.gpu.tensor_memory
    operation = memory.begin(lane, kind)
    memory.issued.setdefault(lane, []).append(operation)
    return operation


def _list_pair(threads: Threads, lane: int, words: Any) -> list[int | None]:
    """The ranks of the blocks of an instruction: 9.7.16.5.1, those of which the last bit differs."""
    if words["cta_group"] == "cta_group::1":
        return [None]
    own = int(threads.state.batch.block[lane, 0]) % threads.state.batch.cluster
    return [rank for rank in (own & ~1, own | 1) if has_block(threads, rank, lane)]


# ---- Products, 9.7.16.10


class _Product(NamedTuple):
    """What an instruction multiplies, as its descriptor says (9.7.16.4.2).

    Attributes
    ----------
    kinds : PTX's types of A, of B
    """

    rows: int
    columns: int
    kinds: tuple[str, str]
    negated: tuple[bool, bool]
    across: tuple[bool, bool]
    sums: np.dtype[Any]
    saturates: bool

    @property
    def depth(self) -> int:
        """Elements along k."""
        return (
            64 if self.kinds[0] == "e2m1" else _DEPTH_BYTES // get_type(self.kinds[0])[0].itemsize
        )


def _read_product(threads: Threads, lane: int, word: int, kind: str, group: int) -> _Product:
    """An instruction descriptor; a finding where its shape is none of its kind's (9.7.16.2.1)."""
    kinds = [_TYPES[kind].get(word >> bit & 7) for bit in (7, 10)]
    is_scaled = kind.startswith("mx")
    sums = np.dtype("float32") if is_scaled else _SUMS.get(word >> 4 & 3)
    if None in kinds or sums is None or word & 7 or word >> (31 if is_scaled else 30):
        raise UnsupportedError(
            f"the simulator does not support {threads.name} of kind::{kind} with the instruction "
            f"descriptor {word:#x}: types of other sizes, sparse matrices or shifts"
        )
    rows, columns = (word >> 24 & 0x1F) << 4, (word >> 17 & 0x3F) << 3
    per_block, step = rows // group, 16 if rows // group == 128 and not is_scaled else 8
    least = step * group if group == 1 or is_scaled else 32
    is_known = per_block in ((128,) if is_scaled else (32, 64, 128))
    if not is_known or columns % least or not least <= columns <= 256:
        _report(threads, lane, f"of {rows}×{columns}, no shape of kind::{kind}", UNDEFINED)
    negated, across = ((bool(word >> bit & 1), bool(word >> bit + 1 & 1)) for bit in (13, 15))
    saturates = bool(word >> 3 & 1) and kind == "i8"
    return _Product(rows, columns, (str(kinds[0]), str(kinds[1])), negated, across, sums, saturates)


@functools.cache
def _place_sums(rows: int, columns: int, is_folded: bool) -> tuple[Array, Array]:
    """9.7.16.10.5: the lane and column of each sum of a block: layouts A and D of 128 rows, F of
    64, and those that fold columns: B and E of 64 rows, G of 32."""
    row, column = np.indices((rows, columns))
    if is_folded and rows < LANES:
        wide = columns * rows // LANES
        return row + column // wide * rows, column % wide
    return (row // 16 * 32 + row % 16 if rows == 64 else row), column


def _multiply(threads: Threads, *given: Any) -> None:
    """9.7.16.10.9: D = A × B, or D + A × B, for each thread that issues it."""
    words, operands = name_operands(threads.name, given)
    memory = _use(threads, given)
    for lane in get_lanes(threads):
        one = {name: [pick(it, lane) for it in each] for name, each in operands.items()}
        _multiply_once(threads, memory, lane, words, one)
    threads.state.interval += 1
    threads.count("matrix_multiplies")


def _multiply_once(
    threads: Threads, memory: TensorMemory, lane: int, words: Any, one: dict[str, list[Any]]
) -> None:
    ranks, kind = _list_pair(threads, lane, words), words["kind"].removeprefix("kind::")
    word, target = int(one["idesc"][0]), int(one["d_tmem"][0])
    product = _read_product(threads, lane, word, kind, len(ranks))
    if "ws" in words and int(one["zero_col_mask"][0]):
        raise UnsupportedError(f"the simulator does not support {threads.name} with a column mask")
    rows, what = product.rows // len(ranks), "tcgen05.mma of"
    is_folded = "ws" in words or len(ranks) == 2
    key = ("mma", target, words["cta_group"], product)
    operation, halves = _issue(threads, lane, key), []
    dtypes = [np.dtype(np.uint8) if it == "e2m1" else get_type(it)[0] for it in product.kinds]
    across = 2 if product.kinds[0] == "e2m1" else 1
    for rank in ranks:
        shape = product.columns // len(ranks), product.depth // across
        tile = _Tile(*shape, dtypes[1], product.across[1])
        read = _read_tile(threads, operation, int(one["b_desc"][0]), tile, what, rank)
        if read is None:
            return
        halves.append(_decode(read, product.kinds[1]))
    right = np.concatenate(halves)
    scales = (
        _read_scales(threads, operation, product, words, one, ranks) if "sfa_tmem" in one else None
    )
    is_added = bool(one["enable_input_d"][0])
    masks = [int(it) for it in one.get("disable_output_lane", ())]
    for number, rank in enumerate(ranks):
        lanes, columns = _place_sums(rows, product.columns, is_folded)
        left = _read_left(threads, operation, product, one, rank, lanes)
        if left is None:
            return
        wide = np.int64 if kind == "i8" else np.float64
        sides = [
            widen(it, wide, name) * (-1 if negated else 1)
            for it, name, negated in zip((left, right), product.kinds, product.negated, strict=True)
        ]
        if scales is not None:
            sides = [it * scale for it, scale in zip(sides, scales[number], strict=True)]
        terms = sides[0] @ sides[1].T
        at = (target >> 16) + lanes, (target & 0xFFFF) + columns
        is_kept = np.ones(lanes.shape, bool)
        if any(masks):
            bits = np.array(masks)[lanes // 32 % len(masks)] >> lanes % 32 & 1
            is_kept = bits == 0
        sums = _take(threads, lane, at[0][is_kept], at[1][is_kept], rank)
        if sums is None:
            return
        change = functools.partial(_add, product, terms[is_kept][None], is_added)
        memory.begin_update(
            operation, sums, threads.location, "tcgen05.mma to", change, is_added=is_added
        )


def _add(product: _Product, terms: Array, is_added: bool, words: Array) -> Array:
    """What sums become, as words of tensor memory, which hold one each (9.7.16.10.4.1)."""
    dtype = product.sums
    bits = np.dtype(f"uint{8 * dtype.itemsize}")
    if is_added:
        terms = terms + words.astype(bits).view(dtype)
    if product.saturates:
        terms = np.clip(terms, -(2**31), 2**31 - 1)
    return terms.astype(dtype).view(bits).astype(np.uint32)


def _read_left(
    threads: Threads,
    operation: Operation,
    product: _Product,
    one: dict[str, list[Any]],
    rank: int | None,
    lanes: Array,
) -> Array | None:
    """A of a block: in shared memory, or in tensor memory in the lanes of its sums (9.7.16.10.2)."""
    kind = product.kinds[0]
    dtype, packed = (np.dtype(np.uint8), 2) if kind == "e2m1" else (get_type(kind)[0], 1)
    rows = len(lanes)
    if "a_desc" in one:
        tile = _Tile(rows, product.depth // packed, dtype, product.across[0])
        descriptor, what = int(one["a_desc"][0]), "tcgen05.mma of"
        read = _read_tile(threads, operation, descriptor, tile, what, rank)
        return None if read is None else _decode(read, kind)
    address, words = int(one["a_tmem"][0]), np.arange(_DEPTH_BYTES // 4)[None]
    copies = [np.unique(it) for it in lanes.T[:: max(1, lanes.shape[1] // (LANES // rows))]]
    made = None
    for copy in {it.tobytes(): it for it in copies}.values():  # of columns that are folded
        at = (address >> 16) + copy[:, None], (address & 0xFFFF) + words
        taken = _take(threads, operation.lane, *at, rank)
        if taken is None:
            return None
        memory = threads.gpu.tensor_memory
        bits = memory.begin_load(operation, taken, threads.location, "tcgen05.mma of")
        values = _decode(np.ascontiguousarray(bits).view(dtype).reshape(rows, -1), kind)
        if made is not None and not np.array_equal(values, made, equal_nan=True):
            raise UnsupportedError(f"{threads.name} finds two unlike copies of A in tensor memory")
        made = values
    return made


def _decode(values: Array, kind: str) -> Array:
    """Elements as numbers: of four bits two lie in a byte, the first one in its lower half."""
    if kind != "e2m1":
        return values
    halves = np.stack([values & 0xF, values >> 4], axis=-1).reshape(len(values), -1)
    return halves.astype(np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)


def _read_scales(
    threads: Threads,
    operation: Operation,
    product: _Product,
    words: Any,
    one: dict[str, list[Any]],
    ranks: Sequence[int | None],
) -> list[tuple[Array, Array]]:
    """9.7.16.10.7: the factors of A and of B in each block, one for each of their elements.

    That of row r lies in lane r % 32, and again in those of each other warp, of column r // 32;
    in as many bytes as a row has chunks, from that on which the descriptor names.
    """
    word, count = int(one["idesc"][0]), int(words["scale_vec"].removeprefix("scale_vec::")[0])
    dtype = ml_dtypes.float8_e8m0fnu if word >> 23 & 1 else ml_dtypes.float8_e4m3fn
    found = []
    for rank in ranks:
        sides = []
        for name, bit, rows in (
            ("sfa_tmem", 29, product.rows // len(ranks)),
            ("sfb_tmem", 4, product.columns),
        ):
            address, first = int(one[name][0]), word >> bit & 3
            row = np.arange(rows)[:, None] + np.zeros(4, np.int64)
            lanes = (address >> 16) + row % 32 + np.arange(4) * 32
            taken = _take(threads, operation.lane, lanes, (address & 0xFFFF) + row // 32, rank)
            if taken is None or first + count > 4:
                raise UnsupportedError(f"{threads.name} has factors outside of tensor memory")
            memory = threads.gpu.tensor_memory
            bits = memory.begin_load(operation, taken, threads.location, "tcgen05.mma of")
            bits = np.ascontiguousarray(bits.reshape(rows, 4)[:, :1])
            factors = bits.view(np.uint8)[:, first : first + count].view(dtype).astype(np.float64)
            sides.append(factors.repeat(product.depth // count, axis=1))
        found.append((sides[0], sides[1]))
    return found


def _commit(threads: Threads, *given: Any) -> None:
    """9.7.16.12.1: an mbarrier, or one in each block of a mask, gets an arrival when all that the
    thread has issued before has ended."""
    _, operands = name_operands(threads.name, given)
    (address,), masks = operands["mbar"], operands.get("mask")
    memory = _use(threads, given)
    for lane in get_lanes(threads):
        pending = [it for it in memory.issued.get(lane, ()) if not it.is_over]
        memory.issued[lane] = pending

        def end(pending: Sequence[Operation] = (*pending,)) -> None:
            for operation in pending:
                operation.end()

        own = find_pointer(threads, address, lane)
        targets = [] if own is None else [own]
        if masks:
            mask = int(pick(masks[0], lane))
            targets = [pointer for _, pointer in list_blocks(threads, address, mask, lane)]
        for pointer in targets:
            threads.gpu.mbarriers.arrive_later(threads, pointer, lane, end)
    threads.state.interval += 1


def _get_tensor_address(threads: Threads, address: Any, lane: Any, column: Any) -> Any:
    """TVM's own: an address so many lanes and columns further on."""
    given = np.asarray(address, np.int64)
    moved = (given + column & 0xFFFF) | ((given >> 16) + lane & 0xFFFF) << 16
    return moved.astype(np.uint32) if np.ndim(moved) else int(moved)


def _encode_descriptor(
    threads: Threads, target: Pointer, tile: Any, leading: Any, stride: Any, swizzle: Any
) -> None:
    """TVM's own: a descriptor of shared memory, stored to 64 bits of the thread."""
    address = tell_address(threads.gpu, tile.memory, tile.offset)
    code = {0: 0, 1: 6, 2: 4, 3: 2, 4: 1}[int(swizzle)]
    value = np.full((threads.lanes, 1), code << 61 | 1 << 46, np.uint64)
    for field, bit in ((np.asarray(address) // _UNIT, 0), (leading, 16), (stride, 32)):
        value |= (np.asarray(field).astype(np.uint64) & np.uint64(_FIELD)) << np.uint64(bit)
    target.store(0, value)


def _encode_product(
    threads: Threads, target: Pointer, sums: str, left: str, right: str, *rest: Any
) -> None:
    """TVM's own: an instruction descriptor, which its own encoder makes and checks."""
    rows, columns, depth, across_a, across_b, group, *flags = map(int, rest)
    word = encode_instr_descriptor_dense_uint32(
        rows, columns, depth, sums, left, right, across_a, across_b, group, *flags
    )
    target.store(0, word)


def _encode_scaled(
    threads: Threads, target: Pointer, sums: str, left: str, right: str, factors: str, *rest: Any
) -> None:
    """The same with block scaling."""
    _, _, _, rows, columns, depth, across_a, across_b, group, *flags = rest
    sizes = map(int, (rows, columns, depth))
    flags = [int(it) for it in (across_a, across_b, group, *flags)]
    word = encode_instr_descriptor_block_scaled_uint32(*sizes, sums, left, right, factors, *flags)
    target.store(0, word)


def _name_factors(threads: Threads, target: Pointer, number: Any) -> None:
    """TVM's own: which bytes of a column the factors of A and B lie in."""
    word = target.load() & ~np.uint32(0x60000030)
    target.store(
        0,
        word
        | np.asarray(number).astype(np.uint32) << 29
        | np.asarray(number).astype(np.uint32) << 4,
    )


TCGEN05: dict[str, Semantics] = {
    "ptx.tcgen05_alloc": _allocate,
    "ptx.tcgen05_dealloc": _free,
    "ptx.tcgen05_relinquish_alloc_permit": _relinquish,
    **dict.fromkeys(("ptx.tcgen05_ld", "ptx.tcgen05_ld_split"), _load),
    **dict.fromkeys(("ptx.tcgen05_st", "ptx.tcgen05_st_split"), _store),
    "ptx.tcgen05_wait": _wait,
    "ptx.tcgen05_fence": _fence,
    "ptx.tcgen05_cp": _copy,
    **dict.fromkeys(
        [
            f"ptx.tcgen05_mma_{kind}{operand}"
            for kind in ("", "ws_", "block_scale_")
            for operand in ("ss", "ts")
        ],
        _multiply,
    ),
    **dict.fromkeys(("ptx.tcgen05_commit", "ptx.tcgen05_commit_multicast"), _commit),
    "cuda.get_tmem_addr": _get_tensor_address,
    "cuda.tcgen05_encode_matrix_descriptor": _encode_descriptor,
    "cuda.tcgen05_encode_instr_descriptor": _encode_product,
    "cuda.tcgen05_encode_instr_descriptor_block_scaled": _encode_scaled,
    "cuda.runtime_instr_desc": _name_factors,
}
