"""wgmma m64nNk*: where it finds its matrices, and its tensor intrinsics.

From the PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions". A
warpgroup is four warps. An instruction multiplies 64 rows of A by up to 256 columns of B, over 32
bytes of k. It reads both from shared memory, which a descriptor of 64 bits describes, and its sums
lie in the registers of all 128 threads. The layouts are used by the intrinsics, by the transforms
that lay tiles, by tests and by the pictures of the documents.

A warpgroup multiplies a tile of A by a tile of B in one group of instructions. A buffer of sums has
a row for each thread of the warpgroup in its description, and each thread uses the first row of its
own. The intrinsics are registered under names that begin with ``tirstep_wgmma_``.

The instructions run on their own while the threads go on. What orders them is in the intrinsic of
the product, in the order that the PTX ISA asks for:

1. ``fence.proxy.async`` and a barrier: what threads stored to shared memory, copied
   asynchronously or not, is there for the instructions, which read it on another way;
2. ``wgmma.fence``: what was done to the registers of the sums is done;
3. the instructions, and ``commit_group``, which makes one group of them;
4. ``wait_group``, which leaves the last `in_flight` groups to run. Before the sums are read, the
   store waits for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import tvm
from tvm.script import tirx as T

from ..schedule import TransformError, query
from ..tensor_cores.fragments import (
    ROW_BYTES,
    SCOPE,
    all_of,
    describe_product,
    get_depth,
    make_fill,
    make_store,
    register_intrinsic,
)

ROWS = 64
"""Rows of A and of the accumulator, per instruction."""
THREADS = 128
"""Threads per warpgroup."""
MAX_COLUMNS = 256
"""Columns of B and of the accumulator, per instruction."""
CHUNK_BYTES = 16
"""Bytes that a swizzle moves, and that an asynchronous copy takes at most."""
GROUP = 8
"""Rows that are swizzled together."""
BANK_BYTES = 128
"""Bytes of all shared-memory banks side by side."""
Swizzle = Literal[16, 32, 64, 128]
"""The bytes of a row of a tile; its chunks change places within it. 16 is no swizzle."""
SWIZZLES: tuple[Swizzle, ...] = (128, 64, 32, 16)
CODES: dict[int, int] = {16: 0, 32: 1, 64: 2, 128: 3}
"""TVM's numbers of the swizzles of a descriptor."""
NARROW_COLUMNS = (*range(8, 33, 8), *range(48, 225, 16))
"""Those that an instruction of 8-bit integers takes, as its syntax has them."""


def place_in_accumulator(row: Any, column: Any) -> tuple[Any, Any]:
    """The thread of a sum of a tile of 64 rows, and its place among those of the thread; numbers or
    expressions of TIR.

    Each warp has 16 rows, and of these thread ``4 * g + q`` has the rows ``g`` and ``g + 8`` and
    of each 8 columns the two from ``2 * q`` on: the layout of mma.sync, for any number of columns.
    """
    thread = row // 16 * 32 + row % 8 * 4 + column % 8 // 2
    return thread, column // 8 * 4 + row % 16 // 8 * 2 + column % 2


def get_accumulated(thread: Any, element: Any) -> tuple[Any, Any]:
    """The row and the column of what lies at a place: the inverse of `place_in_accumulator`."""
    row = thread // 32 * 16 + thread % 32 // 4 + element % 4 // 2 * 8
    return row, element // 4 * 8 + thread % 4 * 2 + element % 2


def choose_swizzle(row_bytes: int, *, rounds_up: bool = False) -> Swizzle:
    """The widest swizzle for rows of so many bytes: 128, 64, 32, or 16, which is none.

    It divides them; with `rounds_up` it is no longer than they are, and the last slab has room.
    """
    return next(
        (it for it in SWIZZLES if row_bytes % it == 0 or (rounds_up and row_bytes > it)),
        SWIZZLES[-1],
    )


def get_tile_shape(
    rows: int, columns: int, *, bits: int, swizzle: int
) -> tuple[int, int, int, int]:
    """The slabs, rows, chunks and elements of a tile in shared memory; the last slab may have
    more columns than the tile."""
    chunk = CHUNK_BYTES * 8 // bits
    return -(-columns * bits // (8 * swizzle)), rows, swizzle // CHUNK_BYTES, chunk


def place_in_tile(
    row: Any, column: Any, *, bits: int, swizzle: int, is_one_slab: bool = False
) -> tuple[Any, Any, Any, Any]:
    """The place of an element of a tile whose columns lie side by side in global memory: its slab,
    its row, its chunk of 16 bytes in that row, and its place in the chunk.

    A row of the swizzle's bytes follows the other; where the tile is wider, the next slab holds
    the columns that are left. The chunks of a row are exchanged by the bits of their address above
    the 128 bytes that all banks hold, so that the same chunk of eight rows lies in different banks.
    `is_one_slab` says that there are no more columns than those of one: TVM cannot invert the
    quotient and the remainder of these.
    """
    size = bits // 8
    chunk = CHUNK_BYTES // size
    slab, inside = split_by(column, swizzle // size, is_one=is_one_slab)
    return slab, row, swizzle_chunk(row, inside // chunk, swizzle), column % chunk


def begin_with_slabs(column: Any, row: int, *, bits: int, swizzle: int) -> Any:
    """The column of an element where each `row` of so many elements begins at a slab, and the last
    slab of a row is padded.
    """
    each = swizzle * 8 // bits
    if row <= each or row % each == 0:
        return column
    return column // row * (-(-row // each) * each) + column % row


def split_by(index: Any, size: int, *, is_one: bool) -> tuple[Any, Any]:
    """The quotient and the remainder of an index; 0 and itself where there is but one part."""
    return (index * 0, index) if is_one else (index // size, index % size)


def swizzle_chunk(row: Any, chunk: Any, swizzle: int) -> Any:
    """Where a chunk of a row lies among those of its row."""
    chunks = swizzle // CHUNK_BYTES
    if chunks == 1:
        return chunk * 0
    each = BANK_BYTES // swizzle
    # The remainder changes nothing, but lets TVM see how many chunks there are.
    return (chunk ^ (row // each % chunks)) % chunks


def get_strides(slab_bytes: Any, *, swizzle: int, is_along_k: bool) -> tuple[Any, Any]:
    """The leading stride of a descriptor and the other one, in units of 16 bytes, for a tile whose
    slabs are so many bytes apart.

    `is_along_k` says that the elements of a row are neighbours along k, as those of A are; rows of
    B as (k, columns) go through its columns. Eight rows are one group, of which the next lies
    `stride` further on; `leading` is the way to the next slab, which along k is used without a
    swizzle only. Without one, rows of 8 columns have the two the other way round.
    """
    slab, group = slab_bytes // CHUNK_BYTES, GROUP * swizzle // CHUNK_BYTES
    if is_along_k:
        return (slab if swizzle == CHUNK_BYTES else 1), group
    return (group, slab) if swizzle == CHUNK_BYTES else (slab, group)


def get_step(slab_bytes: Any, step: Any, *, bits: int, swizzle: int, is_along_k: bool) -> Any:
    """How far the operand of a step of k lies from the first one's, in units of 16 bytes."""
    if not is_along_k:
        return step * (ROW_BYTES * 8 // bits) * (swizzle // CHUNK_BYTES)
    if swizzle < ROW_BYTES:
        return step * 2 * (slab_bytes // CHUNK_BYTES)
    each = swizzle // ROW_BYTES
    return step // each * (slab_bytes // CHUNK_BYTES) + step % each * (ROW_BYTES // CHUNK_BYTES)


def choose_columns(columns: int, *, dtype: str, multiple: int = 8) -> int | None:
    """The most columns of an instruction that divide a tile's; None where there are none.

    `multiple` is what they must be a multiple of, the columns of a slab where B is (k, columns),
    unless one instruction has all of them: the last slab may have more.
    """
    allowed = NARROW_COLUMNS if dtype.endswith("int8") else range(8, MAX_COLUMNS + 1, 8)
    fitting = [it for it in allowed if it == columns or columns % it == it % multiple == 0]
    return max(fitting, default=None)


PTX_TYPES = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "tf32",
    "int8": "s8",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
}
"""PTX types of the operands."""
SUMS = {"float32": "f32", "int32": "s32"}
"""PTX types of the accumulators."""
IN_SHARED: dict[str, Any] = {"offset_factor": 1, "scope": SCOPE}
IN_REGISTERS: dict[str, Any] = {"offset_factor": 1, "scope": "local"}
ARCHITECTURE = "sm_90a"
"""The only one with wgmma: later ones have other instructions."""
MAX_IN_FLIGHT = 7
"""Groups that a wait can leave in flight."""


@dataclass(frozen=True, kw_only=True)
class WgmmaTile:
    """The product of a warpgroup in one group of instructions.

    Attributes
    ----------
    dtype, acc : of the operands and of the sums
    rows, columns : of the warpgroup's tile of sums
    depth : its steps of k, each of one element
    transpose_b : whether B lies as (columns, k)
    swizzles : bytes of a row of A's tile and of B's
    in_flight : groups that may still run when this one is issued
    """

    dtype: str
    acc: str
    rows: int
    columns: int
    depth: int
    transpose_b: bool
    swizzles: tuple[int, int]
    in_flight: int = 0

    @property
    def bits(self) -> int:
        """Bits of an operand's element."""
        return int(tvm.DataType(self.dtype).bits)

    @property
    def step(self) -> int:
        """The depth of one instruction."""
        return get_depth(self.bits)

    @property
    def each(self) -> int:
        """The columns of one instruction; 0 where there are none that fit."""
        multiple = 8 if self.transpose_b else self.swizzles[1] * 8 // self.bits
        return choose_columns(self.columns, dtype=self.dtype, multiple=max(multiple, 8)) or 0

    @property
    def register(self) -> str:
        """The type that the sums have in registers: TVM binds those of integers as unsigned."""
        return "uint32" if self.acc == "int32" else self.acc

    @property
    def blocks(self) -> tuple[int, int]:
        """The instructions of a step, along the rows and along the columns."""
        return self.rows // ROWS, self.columns // self.each

    @property
    def sums_shape(self) -> tuple[int, int, int, int]:
        """The blocks, the threads and the elements of each."""
        return (*self.blocks, THREADS, self.share)

    @property
    def share(self) -> int:
        """The sums of one instruction that a thread holds."""
        return ROWS * self.each // THREADS

    def get_shape(self, operand: int) -> tuple[int, int, int, int]:
        """The shape of the tile of A, 0, or of B, 1, in shared memory."""
        sizes = (self.rows, self.depth) if operand == 0 else (self.depth, self.columns)
        sizes = sizes[::-1] if operand == 1 and self.transpose_b else sizes
        return get_tile_shape(*sizes, bits=self.bits, swizzle=self.swizzles[operand])

    def is_along_k(self, operand: int) -> bool:
        """Whether neighbours in an operand's rows are neighbours along k."""
        return operand == 0 or self.transpose_b

    def place_sum(self, row: Any, column: Any) -> tuple[Any, Any, Any, Any]:
        """Where a sum of the tile lies: the instruction's block, the thread, and the element."""
        down, inner = split_by(row, ROWS, is_one=self.rows == ROWS)
        right, across = split_by(column, self.each, is_one=self.columns == self.each)
        return (down, right, *place_in_accumulator(inner, across))

    def place_operand(self, operand: int, row: Any, column: Any) -> tuple[Any, ...]:
        """Where an element of A (row, k) or of B (k, column) lies in its tile."""
        at = (column, row) if operand == 1 and self.transpose_b else (row, column)
        is_one = self.get_shape(operand)[0] == 1
        swizzle = self.swizzles[operand]
        return place_in_tile(*at, bits=self.bits, swizzle=swizzle, is_one_slab=is_one)

    @property
    def name(self) -> str:
        """A suffix that makes the names of intrinsics unique."""
        b = "columns_k" if self.transpose_b else "k_columns"
        sizes = f"{self.rows}x{self.columns}x{self.depth}"
        swizzles = "_".join(map(str, self.swizzles))
        return f"{self.dtype}_{self.acc}_{sizes}_{b}_swizzled_{swizzles}_in_flight_{self.in_flight}"


class WgmmaIntrinsics(NamedTuple):
    """The names of the intrinsics of one tile.

    Attributes
    ----------
    fill : zeros for the sums
    multiply : C += A × B, of the whole tile
    store : the sums of one instruction, converted
    """

    fill: str
    multiply: str
    store: str


@query
def get_wgmma_intrinsics(
    tile: WgmmaTile, *, out: str | None = None, store_scope: str = "global"
) -> WgmmaIntrinsics:
    """The intrinsics of a warpgroup's tile, whose sums are stored as `out`, registered.

    Raises `TransformError` for types and tiles that wgmma does not multiply.
    """
    if tile.dtype not in PTX_TYPES:
        raise TransformError(
            f"wgmma does not multiply {tile.dtype}",
            f"use one of {', '.join(PTX_TYPES)}",
        )
    wanted = "int32" if tile.dtype == "int8" else "float32"
    if tile.acc != wanted:
        raise TransformError(
            f"products of {tile.dtype} are not summed in {tile.acc} here",
            f"sum them in {wanted}",
        )
    if tile.bits != 16 and not tile.transpose_b:
        raise TransformError(
            f"wgmma reads {tile.dtype} only along k, and B is stored as (k, columns)",
            "store B as (columns, k) in shared memory",
        )
    if tile.rows < ROWS or tile.rows % ROWS:
        raise TransformError(
            f"tile rows ({tile.rows}) must be a multiple of {ROWS} for wgmma",
            f"use a multiple of {ROWS}",
        )
    if not {*tile.swizzles} <= {*SWIZZLES}:
        raise TransformError(
            f"wgmma does not support swizzles of {tile.swizzles} bytes",
            f"use {', '.join(map(str, SWIZZLES))}",
        )
    if tile.columns < 1 or not tile.each:
        raise TransformError(
            f"no instruction of {tile.dtype} has columns that divide {tile.columns}"
            + ("" if tile.transpose_b else f" and that {tile.swizzles[1]} bytes divide"),
            "use a multiple of 16, or a narrower swizzle of B",
        )
    if tile.depth < 1 or tile.depth % tile.step:
        raise TransformError(
            f"tile depth ({tile.depth}) must be a multiple of {tile.step} for wgmma",
            f"use a multiple of {tile.step}",
        )
    if not 0 <= tile.in_flight <= MAX_IN_FLIGHT:
        raise TransformError(
            f"in_flight={tile.in_flight} is not a number of groups that a wait can leave in flight",
            f"use 0 to {MAX_IN_FLIGHT}",
        )
    out = out or tile.acc
    each = f"{tile.rows}x{tile.columns}_by_{tile.each}_{tile.acc}"
    store = f"tirstep_wgmma_store_{tile.each}_{tile.acc}_as_{out}_{store_scope.replace('.', '_')}"
    sums, sizes = (tile.sums_shape, tile.acc, IN_REGISTERS), (tile.rows, tile.columns)
    zeros, own = (sums, sizes, tile.place_sum, THREADS), ((THREADS, tile.share), tile.register)
    stored = ((*own, IN_REGISTERS), tile.acc, ((ROWS, tile.each), out, store_scope))
    return WgmmaIntrinsics(
        register_intrinsic(f"tirstep_wgmma_fill_{each}", lambda: make_fill(*zeros)),
        register_intrinsic(f"tirstep_wgmma_{tile.name}", lambda: _multiply(tile)),
        register_intrinsic(
            store, lambda: make_store(*stored, place_in_accumulator, get_accumulated, waits=True)
        ),
    )


def _multiply(tile: WgmmaTile) -> tuple[Any, Any]:
    shapes = tile.get_shape(0), tile.get_shape(1), tile.sums_shape
    dtype, acc, steps = tile.dtype, tile.register, tile.depth // tile.step
    all_a, all_b, all_c = (all_of(shape) for shape in shapes)

    def place(row: Any, column: Any, k: Any) -> tuple[Any, Any, Any]:
        a, b = tile.place_operand(0, row, k), tile.place_operand(1, k, column)
        return a, b, tile.place_sum(row, column)

    def widen(value: Any) -> Any:
        return value if dtype == tile.acc else T.Cast(tile.acc, value)

    def add(total: Any, a: Any, b: Any) -> Any:
        if acc == tile.acc:
            return total + widen(a) * widen(b)
        return tvm.tirx.Cast(acc, T.Cast(tile.acc, total) + widen(a) * widen(b))

    matched = [*((shape, dtype, IN_SHARED) for shape in shapes[:2]), (shapes[2], acc, IN_REGISTERS)]
    sizes = (tile.rows, tile.columns, tile.depth)
    description = describe_product(matched, sizes, place, add)
    # Of a tile's dimensions but the slabs, which lie as far apart as the block's whole tile wants.
    rows_a, rows_b = ([chunks * size, size, 1] for _, _, chunks, size in shapes[:2])
    down, across, _, share = tile.sums_shape

    @T.prim_func(s_tir=True)
    def multiply(left: T.handle, right: T.handle, sums: T.handle) -> None:
        s = T.int32()
        t = T.int32()
        A = T.match_buffer(left, shapes[0], dtype, strides=[s, *rows_a], **IN_SHARED)
        B = T.match_buffer(right, shapes[1], dtype, strides=[t, *rows_b], **IN_SHARED)
        C = T.match_buffer(sums, shapes[2], acc, **IN_REGISTERS)
        with T.sblock("root"):
            T.reads(C[all_c], A[all_a], B[all_b])
            T.writes(C[all_c])
            for _ in T.thread_binding(THREADS, "threadIdx.x"):
                # In a block: TVM takes the statements of a block for as many of a pipeline.
                with T.sblock("group"):
                    T.reads(C[all_c], A[all_a], B[all_b])
                    T.writes(C[all_c])
                    d = T.sblock_alloc_buffer((2,), "uint64", scope="local")
                    T.ptx.fence.proxy.async_.shared__cta()
                    T.evaluate(T.tvm_storage_sync(SCOPE))
                    T.evaluate(emit_descriptor(tile, 0, T.address_of(d[0]), A, s))
                    T.evaluate(emit_descriptor(tile, 1, T.address_of(d[1]), B, t))
                    T.ptx.wgmma.fence.sync.aligned()
                    for step in T.unroll(steps):
                        for i in T.unroll(down):
                            for j in T.unroll(across):
                                registers = T.meta_var([C[i, j, 0, n] for n in range(share)])
                                a = T.meta_var(find_operand(tile, 0, d[0], s, step, i))
                                b = T.meta_var(find_operand(tile, 1, d[1], t, step, j))
                                T.evaluate(emit_instruction(tile, registers, [a], b))
                    T.ptx.wgmma.commit_group.sync.aligned()
                    T.ptx.wgmma.wait_group.sync.aligned(tile.in_flight)

    return description, multiply


def emit_descriptor(tile: WgmmaTile, operand: int, target: Any, buffer: Any, slab: Any) -> Any:
    """The descriptor of an operand's tile, whose slabs are so many elements apart."""
    swizzle = tile.swizzles[operand]
    strides = get_strides(
        slab * (tile.bits // 8), swizzle=swizzle, is_along_k=tile.is_along_k(operand)
    )
    pointer = buffer.access_ptr("r", ptr_type=tile.dtype)
    encode = T.cuda.wgmma.encode_matrix_descriptor
    return encode(target, pointer, *strides, CODES[swizzle])


def find_operand(
    tile: WgmmaTile, operand: int, first: Any, slab: Any, step: Any, block: Any
) -> Any:
    """The descriptor of an instruction's operand, where that of the tile is the first one's.

    `slab` is the number of elements from one slab to the next.
    """
    slab_bytes = slab * (tile.bits // 8)
    swizzle, along = tile.swizzles[operand], tile.is_along_k(operand)
    at = get_step(slab_bytes, step, bits=tile.bits, swizzle=swizzle, is_along_k=along)
    lines = ROWS if operand == 0 else tile.each
    if along:
        at = at + block * (lines * swizzle // CHUNK_BYTES)
    else:
        at = at + block * (lines * tile.bits // 8 // swizzle) * (slab_bytes // CHUNK_BYTES)
    return first + tvm.tirx.Cast("uint64", at)


def emit_instruction(
    tile: WgmmaTile, sums: list[Any], a: list[Any], b: Any, adds: Any = True
) -> Any:
    """wgmma.mma_async of one step of k: sums += A × B, or sums = A × B where it does not add.

    `a` is the descriptor of A, or its four registers.
    """
    kind = PTX_TYPES[tile.dtype]
    shape = f"m{ROWS}n{tile.each}k{tile.step}"
    chain = T.ptx[f"wgmma.mma_async.sync.aligned.{shape}.{SUMS[tile.acc]}.{kind}.{kind}"]
    scales = [] if tile.dtype == "int8" else [1, 1]
    transposed = [0, int(not tile.transpose_b)] if tile.bits == 16 else []
    adds = T.bool(True) if adds is True else adds
    return chain(*sums, *a, b, adds, *scales, *transposed[len(a) > 1 :])
