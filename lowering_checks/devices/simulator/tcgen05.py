"""Blackwell's tensor cores: tcgen05, whose sums lie in tensor memory.

From the PTX ISA, section 9.7.16 "TensorCore 5th Generation Family Instructions"; each function
names its own. What may be in flight, and what a thread must wait for before it accesses tensor
memory, stands in `tensor_memory`. What an instruction reads in shared memory may not change until
its commit has arrived, and needs ``fence.proxy.async`` behind stores of threads (9.7.16.6.5).

Products and their sum are computed in float64 and rounded once to the type of D; tensor cores keep
fewer bits, in an order that NVIDIA leaves open. Integers that fit are exact in both.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from tvm.backend.cuda.cpp.descriptors import (
    encode_instr_descriptor_block_scaled_uint32,
    encode_instr_descriptor_dense_uint32,
)

from tirstep.transforms.gpu_limits import WARP

from ...device import Array
from .clusters import UNDEFINED, find_pointer, has_block, list_blocks, read_address
from .function_semantics import Pointer, Semantics, Threads, get_lanes, pick
from .ptx_calls import get_type, name_operands
from .run_state import UnsupportedError
from .shared_memory import Rows, SharedMemory
from .tensor_cores import widen
from .tensor_memory import AFTER, COLUMNS, FEWEST_COLUMNS, KIND, LANES
from .warpgroups import place_tile, read_registers

_WIDTHS = {0: 16, 1: 128, 2: 128, 4: 64, 6: 32}
"""Bytes of a row by the swizzle of a descriptor, bits 61 to 63 (9.7.16.4.1)."""
_SWIZZLES = (0, 6, 4, 2, 1)
"""That by TVM's numbers: none, 32, 64 and 128 bytes, and 128 in chunks of 32."""
_UNIT, _FIELD = 16, (1 << 14) - 1
_TYPES = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "i8": {0: "u8", 1: "s8"},
    **{kind: {0: "e4m3", 1: "e5m2"} for kind in ("f8f6f4", "mxf8f6f4")},
    **{kind: {1: "e2m1x2"} for kind in ("mxf4", "mxf4nvf4")},
}
"""Types of the elements of A and B, by the fields of an instruction descriptor (9.7.16.4.2)."""
_SHAPE_AND_TYPES = 0x1F << 24 | 0x3F << 17 | 0x3F << 7 | 3 << 4
"""The bits of an instruction descriptor that say so."""
_SUMS = {0: np.dtype("float16"), 1: np.dtype("float32"), 2: np.dtype("int32")}
_ROW_BYTES = 32
"""Bytes of a row of A per instruction, for all types (9.7.16.2.1)."""
_OWN: tuple[int | None, ...] = (None,)
_COPIES = {"": (0,), "warpx4": (0, 32, 64, 96), "warpx2::02_13": (0, 64), "warpx2::01_23": (0, 32)}
"""Where tcgen05.cp copies to, by its multicast: lanes further on."""


class _UndefinedError(Exception):
    """An instruction of which no more than a finding is left."""


class _Issue:
    """An instruction that one lane issues, or one warp: of its block, or of both of a pair.

    Attributes
    ----------
    lanes, lane, block : the lanes that issue it, the first of them, and their block
    words, operands, values : its modifiers, its operands, and the first lane's own of these
    ranks : of the blocks: 9.7.16.5.1, those of which the last bit differs; None for the own one
    """

    def __init__(self, threads: Threads, lanes: Array, given: Sequence[Any]) -> None:
        self.threads, self.lanes, self.lane = threads, lanes, int(lanes[0])
        self.words, self.operands = name_operands(threads.name, given)
        self.values = {
            name: [pick(it, self.lane) for it in each] for name, each in self.operands.items()
        }
        self.memory, batch = threads.gpu.tensor_memory, threads.state.batch
        self.block, self.ranks = int(batch.block[self.lane, 0]), [*_OWN]
        if (group := self.words.get("cta_group", "")) == "cta_group::2":
            own = self.block % batch.cluster
            self.ranks = [it for it in (own & ~1, own | 1) if has_block(threads, it, self.lane)]
        if group and self.memory.group not in ("", group):
            self.report(f"beside others of {self.memory.group} in its kernel", UNDEFINED)
        self.memory.group = self.memory.group or group

    def begin(self, *kind: Any) -> None:
        """It is in flight, until the lane's next commit has arrived or the warp has waited."""
        self.operation = self.memory.begin(self.lane, kind)
        if len(self.lanes) == 1:
            self.memory.issued.setdefault(self.lane, []).append(self.operation)
        else:
            end, mask = self.operation.end, self.threads.get_mask(self.lanes)
            self.threads.defer(kind[0], lambda _: end(), mask)

    def report(self, text: str, kind: str = KIND) -> None:
        """A finding about it."""
        who = self.threads.state.describe_lane(self.lane)
        self.threads.report(kind, KIND, f"{self.threads.name} by {who} {text}")

    def get(self, name: str) -> int:
        """An operand of one value."""
        return int(self.values[name][0])

    def take(self, address: int, lanes: Any, columns: Any, rank: int | None = None) -> Rows:
        """Elements of tensor memory from an address on."""
        lanes, columns = np.broadcast_arrays((address >> 16) + lanes, (address & 0xFFFF) + columns)
        if (most := lanes.max()) >= LANES or columns.max() >= COLUMNS:
            text = f"reaches lane {most} and column {columns.max()}, of {LANES} and {COLUMNS}"
            self.report(text, "out of bounds")
            raise _UndefinedError
        return Rows.of(self.lane, lanes * COLUMNS + columns, rank)

    def load(self, address: int, lanes: Any, columns: Any, rank: int | None = None) -> Array:
        """What it reads in tensor memory, as bytes of each row of places."""
        rows = self.take(address, lanes, columns, rank)
        values = self.memory.begin_load(self.operation, rows, self.threads.location)
        return np.ascontiguousarray(values).view(np.uint8).reshape(len(lanes), -1)

    def change(self, rows: Rows, by: Any, *, is_added: int = 0) -> None:
        """What it stores to tensor memory: what a function makes of what is there, or values."""
        words = None if callable(by) else np.ascontiguousarray(by).view(np.uint32).reshape(1, -1)
        by, location = by if words is None else lambda _: words, self.threads.location
        self.memory.begin_update(self.operation, rows, location, by, is_added=is_added != 0)

    def read_tile(
        self, name: str, size: tuple[int, int], item: int, rank: int | None, *, is_across: int = 0
    ) -> Array:
        """What it reads in shared memory, where a descriptor says: rows of so many bytes.

        Of elements of `item` bytes, which may lie across the rows. (9.7.16.4.1, 9.7.16.10.6)
        """
        word, location = self.get(name), self.threads.location
        at = [(word >> bit & _FIELD) * _UNIT for bit in (0, 16, 32)]
        code, memory = word >> 61 & 7, self.threads.gpu.find_memory(at[0])
        if memory is None or code not in _SWIZZLES or not word >> 46 & 1:
            self.report(f"with a descriptor {word:#x}, which describes no memory", UNDEFINED)
            raise _UndefinedError
        has_chunks = code == _SWIZZLES[-1]
        if (has_chunks and not is_across) or word >> 49 & 0xF:
            text = f"chunks of 32 bytes along k, base offsets or absolute strides: {word:#x}"
            raise UnsupportedError(f"{self.threads.name} is not supported with {text}")
        item = item if is_across else max(item, memory.shadow.unit)  # several at a time
        row, k = np.indices((size[0], size[1] // item))
        how: Any = {"is_across": bool(is_across), "chunk": 32 if has_chunks else _UNIT}
        address = place_tile(at, _WIDTHS[code], row, k, item, **how)
        viewed = memory.reinterpret(np.dtype(f"uint{8 * item}"))
        assert isinstance(viewed, SharedMemory)
        cells = Rows.of(self.lane, (address - memory.shadow.begin) // item, rank)
        what = f"tcgen05.{self.operation.kind[0]} of"
        values = viewed.load(cells, None, location, kind=what)
        self.operation.ends.append(lambda: viewed.end_matrix(cells, values, None, location, what))
        return np.ascontiguousarray(values).view(np.uint8).reshape(size)


def _for_each(run: Callable[[_Issue], None], size: int = 1) -> Semantics:
    """What each lane issues by itself, or each warp."""

    def issue(threads: Threads, *given: Any) -> None:
        lanes = np.array(get_lanes(threads))[:, None] if size == 1 else threads.groups(size)
        for each in lanes:
            with contextlib.suppress(_UndefinedError):
                run(_Issue(threads, each, given))
        threads.state.interval += 1
        if run is _multiply:
            threads.count("matrix_multiplies")

    return issue


# ---- Allocation, 9.7.16.7


def _allocate(issue: _Issue) -> None:
    """9.7.16.7.1: a warp gets columns, whose first one it stores to shared memory; it waits until
    there are as many."""
    threads, count = issue.threads, issue.get("ncols")
    taken, mask = issue.memory.allocated[issue.block], threads.get_mask(issue.lanes)
    if not FEWEST_COLUMNS <= count <= COLUMNS or count & count - 1:
        issue.report(f"of {count} columns (a power of two from 32 to 512 can be)")
        count = min(COLUMNS, max(FEWEST_COLUMNS, 1 << (count - 1).bit_length()))
    if not issue.memory.may_allocate[issue.block]:
        issue.report("after its block has relinquished the permit", UNDEFINED)
    free = [it for it in range(0, COLUMNS, count) if not taken[it : it + count].any()]
    if not free:
        left = (taken == 0).sum()
        issue.report(f"waits forever for {count} columns, and {left} are left", "deadlock")
        threads.state.exit_threads(mask)
        return
    taken[free[0] : free[0] + count] = taken.max() + 1
    where, word = issue.operands["dst"][0], np.dtype("uint32")
    place = find_pointer(threads, where, int(issue.lanes[0]), word)
    if place is not None:
        place.store(0, free[0], mask)


def _free(issue: _Issue) -> None:
    """9.7.16.7.1: columns of one allocation are given back, all of them."""
    start, count, taken = *map(issue.get, ("taddr", "ncols")), issue.memory.allocated[issue.block]
    own = np.flatnonzero(taken == taken[start % COLUMNS])
    if np.array_equal(own, np.arange(start, start + count)) and taken[start]:
        issue.memory.free(issue.lane, own, issue.threads.location)
    else:
        issue.report(f"of {count} columns from {start} on, which no allocation returned")


def _relinquish(issue: _Issue) -> None:
    issue.memory.may_allocate[issue.block] = False


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


def _locate_fragment(issue: _Issue) -> tuple[int, Array, Array]:
    """What a warp loads or stores, of the 32 lanes of its number in its warpgroup (9.7.16.2.2): of
    those that the address names, or of its first ones where that names none.
    """
    if issue.words.get("pack") or issue.words.get("unpack"):
        raise UnsupportedError(f"the simulator does not support {issue.threads.name} of 16 bits")
    split = issue.get("imm_half_splitoff") if "imm_half_splitoff" in issue.values else 0
    lanes, columns = _place_fragment(issue.words["shape"], len(issue.operands["r"]), split)
    if len(given := {int(pick(issue.operands["taddr"][0], it)) for it in issue.lanes}) > 1:
        issue.report("with another address than other threads of its warp")
    first, column = divmod(issue.get("taddr"), 1 << 16) if given else (0, 0)
    own, most = int(issue.threads.numbers[issue.lane, 0]) // WARP % 4 * WARP, int(lanes.max())
    first += own if first + most < WARP else 0
    if not own <= first or first + most >= own + WARP:
        issue.report(f"of lanes {first} to {first + most}, whose warp has {own} to {own + 31}")
        raise _UndefinedError
    return first << 16 | column, lanes, columns


def _load(issue: _Issue) -> None:
    """9.7.16.8.1: tcgen05.ld, whose cells may change behind tcgen05.wait::ld, or a use of what it
    has filled. With `.red` the least or largest of a thread's registers is in another one, which
    is NaN if all are, with `.NaN` if any is."""
    at, threads, registers = _locate_fragment(issue), issue.threads, issue.operands["r"]
    issue.begin("ld")
    bits, mask = np.zeros((threads.lanes, len(registers)), np.uint32), threads.get_mask(issue.lanes)
    bits[issue.lanes] = issue.load(*at).view(np.uint32)
    file, cells = read_registers(threads, registers)
    if file.dtype.itemsize > bits.itemsize:
        raise UnsupportedError(f"{threads.name} fills registers of 32 bits, not {file.name}")
    file.begin_filling(cells, bits.view(file.dtype), mask, issue.operation.end)
    if "redval" in issue.operands:
        values, is_most = bits.view(get_type(issue.words["type"])[0]), issue.words["redop"] == "max"
        values = np.abs(values) if issue.words["abs"] else values
        choose = (np.fmin, np.fmax, np.minimum, np.maximum)[is_most + 2 * bool(issue.words["nan"])]
        chosen = choose.reduce(values, axis=1, keepdims=True)
        file, cells = read_registers(threads, issue.operands["redval"])
        file.begin_filling(cells, chosen.view(file.dtype), mask, issue.operation.end)


def _store(issue: _Issue) -> None:
    """9.7.16.8.2: tcgen05.st, whose cells are there behind tcgen05.wait::st."""
    address, lanes, columns = _locate_fragment(issue)
    issue.begin("st")
    values = [
        np.broadcast_to(np.asarray(it), (issue.threads.lanes, 1))[issue.lanes]
        for it in issue.operands["r"]
    ]
    bits = [it if it.dtype.itemsize == 4 else it.astype(np.uint32) for it in values]
    words = [np.ascontiguousarray(it).view(np.uint32) for it in bits]
    issue.change(issue.take(address, lanes, columns), np.hstack(words))


def _wait(threads: Threads, action: str, *_: str) -> None:
    """9.7.16.8.3: the warp waits for all its loads, or stores, before; each of its lanes then."""
    queue, state = action.removeprefix("wait::"), threads.state
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


# ---- What tensor cores do for a thread until its commit arrives


def _copy(issue: _Issue) -> None:
    """9.7.16.9.2: tcgen05.cp, from shared to tensor memory."""
    words = issue.words
    if words["dst_fmt"] or words["shape"] == "4x256b":
        text = " ".join(filter(None, words.values()))
        raise UnsupportedError(f"the simulator does not support {issue.threads.name} of {text}")
    lanes, bits = map(int, words["shape"].removesuffix("b").split("x"))
    row, column = np.indices((lanes, bits // 32))
    if words["multicast"] == "warpx2::01_23":  # warps 0 and 1 get the first half
        row = row + row // 32 * 32
    issue.begin("cp")
    for rank in issue.ranks:
        brought = issue.read_tile("s_desc", (lanes, bits // 8), 1, rank)
        for further in _COPIES[words["multicast"]]:
            issue.change(issue.take(issue.get("taddr"), row + further, column, rank), brought)


def _commit(issue: _Issue) -> None:
    """9.7.16.12.1: an mbarrier, or one in each block of a mask, gets an arrival when all that the
    thread has issued before has ended."""
    threads, lane, address = issue.threads, issue.lane, issue.values["mbar"][0]
    pending = [it for it in issue.memory.issued.get(lane, ()) if not it.is_over]
    issue.memory.issued[lane] = [*pending]

    def end() -> None:
        for operation in pending:
            operation.end()

    targets = [find_pointer(threads, address, lane)]
    if "mask" in issue.values:
        targets = [it for _, it in list_blocks(threads, address, issue.get("mask"), lane)]
    for pointer in filter(None, targets):
        threads.gpu.mbarriers.arrive_later(threads, pointer, lane, end)


# ---- Products, 9.7.16.10


@functools.cache
def _place_sums(rows: int, columns: int, is_folded: bool) -> tuple[Array, Array]:
    """9.7.16.10.5: the lane and column of each sum of a block: layouts A and D of 128 rows, F of
    64, and those that fold columns: B and E of 64 rows, G of 32."""
    row, column = np.indices((rows, columns))
    if is_folded and rows < LANES:
        wide = columns * rows // LANES
        return row + column // wide * rows, column % wide
    return (row // 16 * 32 + row % 16 if rows == 64 else row), column


def _multiply(issue: _Issue) -> None:
    """9.7.16.10.9: D = A × B, or D + A × B, as the instruction descriptor says (9.7.16.4.2)."""
    kind, target, word = issue.words["kind"][6:], issue.get("d_tmem"), issue.get("idesc")
    is_scaled, has_ws, ranks = kind.startswith("mx"), "ws" in issue.words, issue.ranks
    kinds = [_TYPES[kind].get(word >> bit & 7, "") for bit in (7, 10)]
    sums: Any = np.dtype("float32") if is_scaled else _SUMS.get(word >> 4 & 3)
    is_special = word & 7 or word >> (31 if is_scaled else 30)
    if not all(kinds) or sums is None or is_special or (has_ws and issue.get("zero_col_mask")):
        raise UnsupportedError(
            f"the simulator does not support {issue.threads.name} of kind::{kind} and descriptor "
            f"{word:#x}: other types, sparse matrices, shifts, or columns that are left out"
        )
    rows, columns = (word >> 24 & 0x1F) * 16 // len(ranks), (word >> 17 & 0x3F) * 8
    possible = (128,) if is_scaled else (32, 64, 128) if has_ws else (64, 128)  # 9.7.16.2.1
    step = 8 * len(ranks) if is_scaled else 32 if len(ranks) == 2 else 16 if rows == 128 else 8
    if rows not in possible or columns % step or not step <= columns <= 256:
        issue.report(f"of {rows}×{columns}, no shape of kind::{kind}", UNDEFINED)
        raise _UndefinedError
    # Transposed or negated factors make no other shape or type (9.7.16.6.2).
    layout = word & (_SHAPE_AND_TYPES & ~(3 << 4) if is_scaled else _SHAPE_AND_TYPES)
    issue.begin("mma", target, issue.words["cta_group"], kind, layout)
    items, across = [get_type(it)[0].itemsize for it in kinds], (word >> 15 & 1, word >> 16 & 1)
    size = columns // len(ranks), _ROW_BYTES
    halves = [issue.read_tile("b_desc", size, items[1], it, is_across=across[1]) for it in ranks]
    lanes, at = _place_sums(rows, columns, has_ws or len(ranks) == 2)
    is_added, masks = issue.get("enable_input_d"), issue.values.get("disable_output_lane", [0] * 8)
    for number, rank in enumerate(ranks):  # a bit for each lane of each block
        is_kept = np.array([*map(int, masks)])[4 * number + lanes // 32] >> lanes % 32 & 1 == 0
        if "a_desc" in issue.values:
            size = rows, _ROW_BYTES
            left = issue.read_tile("a_desc", size, items[0], rank, is_across=across[0])
        else:  # in the lanes of the sums (9.7.16.10.2), again in those of folded columns
            for column in np.unique(lanes[0], return_index=True)[1]:
                its = lanes[:, column : column + 1]
                left = issue.load(issue.get("a_tmem"), its, np.arange(_ROW_BYTES // 4), rank)
        sides = [
            _decode(*pair, kind) for pair in zip((left, np.vstack(halves)), kinds, strict=True)
        ]
        if is_scaled:
            sides[0] = sides[0] * _read_factors(issue, "sfa_tmem", 29, sides[0].shape, kind, rank)
            sides[1] = sides[1] * _read_factors(issue, "sfb_tmem", 4, sides[1].shape, kind, rank)
        sign = 1 - 2 * ((word >> 13 ^ word >> 14) & 1)
        terms, saturates = (sign * sides[0] @ sides[1].T)[is_kept], kind == "i8" and word & 8

        def add(there: Array, terms: Array = terms, saturates: Any = saturates) -> Array:
            """One sum in each word (9.7.16.10.4.1)."""
            bits = np.dtype(f"uint{8 * sums.itemsize}")
            made = terms + there.astype(bits).view(sums) if is_added else terms[None]
            made = np.clip(made, -(2**31), 2**31 - 1) if saturates else made
            return made.astype(sums).view(bits).astype(np.uint32)

        sums_there = issue.take(target, lanes[is_kept], at[is_kept], rank)
        issue.change(sums_there, add, is_added=is_added)


def _decode(values: Array, name: str, kind: str) -> Array:
    """Bytes of rows as numbers: of four bits two lie in a byte, the first one in its lower half."""
    if name == "e2m1x2":
        halves = np.stack([values & 0xF, values >> 4], axis=-1).reshape(len(values), -1)
        return halves.astype(np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    wide = np.int64 if kind == "i8" else np.float64
    return widen(np.ascontiguousarray(values).view(get_type(name)[0]), wide, name)


def _read_factors(
    issue: _Issue, name: str, bit: int, shape: tuple[int, ...], kind: str, rank: int | None
) -> Array:
    """9.7.16.10.7: the factors of A or B, one for each of their elements.

    That of row r lies in lane r % 32, and again in those of each other warp, of column r // 32;
    in as many bytes as a row has chunks, from that on which the descriptor names. Beyond the ISA,
    the upper two bits of the address may name it, too: NVIDIA's kernels leave it there.
    """
    word, (rows, depth), address = issue.get("idesc"), shape, issue.get(name)
    size = issue.words.get("scale_vec") or issue.words["block_size"]
    chunks = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4, "block16": 4}
    count, first = chunks.get(size, 1 if kind == "mxf8f6f4" else 2), word >> bit & 3
    dtype = ml_dtypes.float8_e8m0fnu if word >> 23 & 1 else ml_dtypes.float8_e4m3fn
    row = np.arange(rows)[:, None]
    address -= (first if address >> 30 == first else 0) << 30
    words = issue.load(address, row % 32 + np.arange(4) * 32, row // 32, rank)
    factors = np.ascontiguousarray(words[:, first : first + count]).view(dtype).astype(np.float64)
    return factors.repeat(depth // count, axis=1)


# ---- TVM's own functions beside the instructions


def _get_tensor_address(threads: Threads, address: Any, lane: Any, column: Any) -> Any:
    """An address so many lanes and columns further on."""
    given = np.asarray(address, np.int64)
    moved = (given + column & 0xFFFF) | ((given >> 16) + lane & 0xFFFF) << 16
    return moved.astype(np.uint32) if np.ndim(moved) else int(moved)


def _encode_tile(
    threads: Threads, target: Pointer, tile: Any, leading: Any, stride: Any, swizzle: Any
) -> None:
    """A descriptor of shared memory, stored to 64 bits of the thread."""
    start = np.asarray(read_address(threads, tile), np.int64) // _UNIT
    value = np.full((threads.lanes, 1), _SWIZZLES[int(swizzle)] << 61 | 1 << 46, np.uint64)
    for field, bit in ((start, 0), (leading, 16), (stride, 32)):
        value |= (np.asarray(field).astype(np.uint64) & np.uint64(_FIELD)) << np.uint64(bit)
    target.store(0, value)


def _encode_product(threads: Threads, target: Pointer, *given: Any) -> None:
    """An instruction descriptor, which TVM's own encoder makes and checks; with block scaling two
    types of factors follow, and two addresses."""
    if threads.name.endswith("scaled"):
        types, sizes, flags = given[:4], given[7:10], given[10:]
        word = encode_instr_descriptor_block_scaled_uint32(*sizes, *types, *flags)
    else:
        word = encode_instr_descriptor_dense_uint32(*given[3:6], *given[:3], *given[6:])
    target.store(0, word)


def _name_factors(threads: Threads, target: Pointer, number: Any) -> None:
    """In which bytes of a column the factors of A and B lie."""
    given = np.asarray(number).astype(np.uint32)
    target.store(0, target.load() & ~np.uint32(0x60000030) | given << 29 | given << 4)


_MULTIPLIES = [
    f"ptx.tcgen05_mma_{kind}{operand}"
    for kind in ("", "ws_", "block_scale_", "block_scale_block_")
    for operand in ("ss", "ts")
]
TCGEN05: dict[str, Semantics] = {
    # What is exclusive is all there is of a kernel that runs alone.
    **dict.fromkeys(
        ("ptx.tcgen05_alloc", "ptx.tcgen05_alloc_exclusive"), _for_each(_allocate, WARP)
    ),
    **dict.fromkeys(
        ("ptx.tcgen05_dealloc", "ptx.tcgen05_dealloc_exclusive"), _for_each(_free, WARP)
    ),
    "ptx.tcgen05_relinquish_alloc_permit": _for_each(_relinquish, WARP),
    **dict.fromkeys(
        [f"ptx.tcgen05_ld{red}{split}" for red in ("", "_red") for split in ("", "_split")],
        _for_each(_load, WARP),
    ),
    **dict.fromkeys(("ptx.tcgen05_st", "ptx.tcgen05_st_split"), _for_each(_store, WARP)),
    "ptx.tcgen05_wait": _wait,
    "ptx.tcgen05_fence": _fence,
    "ptx.tcgen05_cp": _for_each(_copy),
    **dict.fromkeys(_MULTIPLIES, _for_each(_multiply)),
    **dict.fromkeys(("ptx.tcgen05_commit", "ptx.tcgen05_commit_multicast"), _for_each(_commit)),
    "cuda.get_tmem_addr": _get_tensor_address,
    "cuda.tcgen05_encode_matrix_descriptor": _encode_tile,
    "cuda.tcgen05_encode_instr_descriptor": _encode_product,
    "cuda.tcgen05_encode_instr_descriptor_block_scaled": _encode_product,
    "cuda.runtime_instr_desc": _name_factors,
}
