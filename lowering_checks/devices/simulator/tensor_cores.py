"""Tensor cores: ldmatrix, stmatrix and mma, with a matrix distributed over the registers of a warp.

Layouts from the PTX ISA, section "Warp Level Matrix Instructions" (ldmatrix; stmatrix; matrix
fragments for mma.m16n8k*). In one formula: a 32-bit register holds ``e = 4 / itemsize`` elements of
a row of A, or of a column of B; lane ``t`` has ``g = t // 4`` and ``q = t % 4``. Element j of
register r is

- of A, row ``g + 8 * (r % 2)``, column ``4 * e * (r // 2) + e * q + j``;
- of B, row ``4 * e * r + e * q + j``, column ``g``;
- of C, which holds two elements in each register pair, row ``g + 8 * r``, column ``2 * q + j``.

Products and their sum are computed in float64 and rounded once to the type of C; tensor cores keep
fewer bits, in an order that NVIDIA leaves open. Inputs of integers that fit are exact in both.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm

from tirstep.transforms.gpu_limits import WARP

from ...device import Array
from .clusters import point_at
from .function_semantics import Pointer, Semantics, Threads
from .memory import LocalMemory, get_numpy_dtype
from .ptx_calls import ELEMENTS, fill_register, get_type, name_operands
from .run_state import UnsupportedError

_ACCUMULATORS = ("float16", "float32", "int32")
_ROW_BYTES = 16


def _load_matrices(
    threads: Threads,
    is_transposed: int,
    count: int,
    kind: str,
    target: Pointer,
    target_offset: Any,
    source: Pointer,
    source_offset: Any,
    *,
    result: str,
) -> None:
    """ldmatrix: 8 lanes address the rows of each 8×8 matrix of b16, and all lanes get a share.

    Whether TVM's generator takes the elements for bytes depends on `result`, the type of the call,
    which is int8 where it is not known: TVM's printer loses it.
    """
    size = source.dtype.itemsize
    is_of_bytes = tvm.DataType(result).bits == 8
    if kind != ".b16" or (is_transposed and size != 2 and not (size == 1 and is_of_bytes)):
        raise UnsupportedError(
            f"the simulator supports ldmatrix of .b16, not of {kind} from {source.dtype} "
            f"{'transposed' if is_transposed else ''}".rstrip()
        )
    if is_transposed and is_of_bytes:
        # TVM's own: ldmatrix cannot transpose bytes, so each thread loads its 16 one by one.
        thread, place = threads.numbers % WARP, np.arange(16)
        rows = place % 8 // 4 * 16 + thread % 4 * 4 + place % 4
        offsets = rows * source_offset + thread // 4 + place // 8 * 8
        for index in place:
            target.store(target_offset + int(index), source.load(offsets[:, index : index + 1]))
        return
    warps, words = _read_matrices(threads, source, source_offset, count, bool(is_transposed))
    shares = words.view(source.dtype)
    place = target_offset + np.arange(shares.shape[-1])
    target.store(place, threads.spread(warps, shares), threads.get_mask(warps))


def _read_matrices(
    threads: Threads, source: Pointer, offset: Any, count: int, is_transposed: bool
) -> tuple[Array, Array]:
    """The lanes of each warp, and each lane's share of each matrix: of shape (warps, 32, count)."""
    warps = threads.groups(WARP)
    lanes = threads.get_mask(warps[:, : 8 * count])
    rows = source.load(offset + np.arange(_ROW_BYTES // source.dtype.itemsize), lanes)[warps]
    halves = np.ascontiguousarray(rows[:, : 8 * count]).view(np.uint16)
    matrices = halves.reshape(len(warps), count, 8, 8)
    if is_transposed:
        matrices = matrices.swapaxes(2, 3)
    words = np.ascontiguousarray(matrices).view(np.uint32).reshape(len(warps), count, WARP)
    threads.count("matrix_loads")
    return warps, np.ascontiguousarray(words.swapaxes(1, 2))


def _store_matrices(threads: Threads, *given: Any) -> None:
    """stmatrix: all lanes have a share of each 8×8 matrix of b16, and 8 lanes address its rows."""
    words, operands = name_operands(threads.name, given)
    target = point_at(threads, given[0])
    registers, is_transposed = operands["r"], bool(words["trans"])
    count = len(registers)
    warps = threads.groups(WARP)
    shares = [
        np.broadcast_to(each, (threads.lanes, 1))[warps].astype(np.uint32) for each in registers
    ]
    halves = np.ascontiguousarray(np.concatenate(shares, axis=-1)).view(np.uint16)
    halves = halves.reshape(len(warps), 8, 4, count, 2).transpose(0, 3, 1, 2, 4)
    matrices = halves.reshape(len(warps), count, 8, 8)
    if is_transposed:
        matrices = matrices.swapaxes(2, 3)
    rows = np.zeros((len(warps), WARP, 8), np.uint16)
    rows[:, : 8 * count] = matrices.reshape(len(warps), 8 * count, 8)
    values = np.ascontiguousarray(rows).view(target.dtype)
    lanes = threads.get_mask(warps[:, : 8 * count])
    target.store(np.arange(values.shape[-1]), threads.spread(warps, values), lanes)


def _transpose(threads: Threads, target: Any, share: Any, *words: str) -> None:
    """movmatrix: an 8×8 matrix of b16, of whose rows four lanes have one, becomes its transpose."""
    warps = threads.groups(WARP)
    shares = np.broadcast_to(share, (threads.lanes, 1))[warps].astype(np.uint32)
    halves = np.ascontiguousarray(shares).view(np.uint16).reshape(len(warps), 8, 8)
    made = np.ascontiguousarray(halves.swapaxes(1, 2)).view(np.uint32).reshape(len(warps), WARP, 1)
    fill_register(target, threads.spread(warps, made), threads.get_mask(warps))


def _multiply(threads: Threads, shape: str, *arguments: Any) -> None:
    """mma.sync: C += A × B, of the fragments of a warp.

    The arguments are two layouts, three types, then a pointer and an offset for each of A, B and C,
    whether integers saturate, and for matrices of bits an operator.
    """
    layouts, types, operands = arguments[:2], arguments[2:5], arguments[5:]
    pairs = zip(operands[0:6:2], operands[1:6:2], strict=True)
    a, b, c = pointers = [pointer.shift(offset) for pointer, offset in pairs]
    saturates, *bits = operands[6:]
    # TVM's names of types, but for integers', are those of PTX with fp for f.
    names = [ELEMENTS.get(name.replace("fp", "f"), name) for name in types]
    depth = int(shape.removeprefix("m16n8k")) if shape.startswith("m16n8k") else 0
    size = a.dtype.itemsize
    is_supported = (
        layouts == ("row", "col")
        and depth * size in (_ROW_BYTES, 2 * _ROW_BYTES)
        and names[2] in _ACCUMULATORS
        and (names[2] == "int32") == (names[0] in ("int8", "uint8"))
        and (names[0] != "float32" or types[0] == "tf32")
        and all(get_numpy_dtype(it) == own.dtype for it, own in zip(names, pointers, strict=True))
        and b.dtype.itemsize == size
    )
    if not is_supported:
        buffers = ", ".join(f"{pointer.name} of {pointer.dtype}" for pointer in pointers)
        raise UnsupportedError(
            f"the simulator does not support {threads.name} {shape} "
            f"{' '.join([*layouts, *types])} of {buffers}"
        )
    if bits:
        raise UnsupportedError(f"the simulator does not support mma of bits with {bits[0]}")
    warps = threads.groups(WARP)
    lanes = threads.get_mask(warps)
    left = _gather(a, warps, lanes, _place("a", depth, size))
    right = _gather(b, warps, lanes, _place("b", depth, size))
    sums = _gather(c, warps, lanes, _place("c"))
    shares = _add_product(left, right, sums, types[:2], saturates=bool(saturates))
    c.store(np.arange(4), threads.spread(warps, shares), lanes)
    threads.count("matrix_multiplies")


def _add_product(
    left: Array, right: Array, sums: Array, kinds: Sequence[str], *, saturates: bool
) -> Array:
    """C + A × B of each warp, as the four elements of each lane: of shape (warps, 32, 4)."""
    wide = np.int64 if sums.dtype == np.int32 else np.float64
    result = np.matmul(widen(left, wide, kinds[0]), widen(right, wide, kinds[1]))
    result = result + sums.astype(wide)
    if saturates and wide is np.int64:
        result = np.clip(result, -(2**31), 2**31 - 1)
    shares = np.empty((len(sums), WARP * 4), sums.dtype)
    shares[:, _place("c").ravel()] = result.astype(sums.dtype).reshape(len(sums), 16 * 8)
    return shares.reshape(len(sums), WARP, 4)


def _load_registers(threads: Threads, *given: Any) -> None:
    """ldmatrix of TIRx: each 8×8 matrix of b16 in a register of 32 bits of its own."""
    words, operands = name_operands(threads.name, given)
    registers, source = operands["r"], point_at(threads, operands["p"][0])
    if words["type"] != "b16" or words["shape"] != "m8n8":
        raise UnsupportedError(
            f"the simulator supports ldmatrix of .m8n8 and .b16, not of .{words['shape']} and "
            f".{words['type']}"
        )
    warps, shares = _read_matrices(threads, source, 0, len(registers), bool(words["trans"]))
    for place, register in enumerate(registers):
        own = threads.spread(warps, shares[..., place : place + 1])
        fill_register(register, own, threads.get_mask(warps))


def _multiply_registers(threads: Threads, *given: Any) -> None:
    """mma.sync of TIRx: D = A × B + C, of registers of 32 bits, in which two halves are."""
    words, operands = name_operands(threads.name, given)
    is_known = words["shape"].startswith("m16n8k") and words["dtype"] == words["ctype"]
    if not is_known or (words["alayout"], words["blayout"]) != ("row", "col"):
        text = " ".join(filter(None, words.values()))
        raise UnsupportedError(f"the simulator does not support {threads.name} {text}")
    depth, warps = int(words["shape"].removeprefix("m16n8k")), threads.groups(WARP)

    def take(operand: str, places: Array) -> Array:
        """A matrix for each warp."""
        columns = [np.broadcast_to(it, (threads.lanes, 1)) for it in operands[operand]]
        bits = np.hstack([it.astype(it.dtype, copy=True).view(np.uint32) for it in columns])
        dtype, _ = get_type(words[f"{operand}type"])
        return np.ascontiguousarray(bits).view(dtype)[warps].reshape(len(warps), -1)[:, places]

    size = get_type(words["atype"])[0].itemsize
    left, right = (take(it, _place(it, depth, size)) for it in "ab")
    kinds, saturates = (words["atype"], words["btype"]), bool(words.get("satfinite"))
    shares = _add_product(left, right, take("c", _place("c")), kinds, saturates=saturates)
    rows = np.ascontiguousarray(threads.spread(warps, shares)).view(np.uint32)
    for place, register in enumerate(operands["d"]):
        fill_register(register, rows[:, place : place + 1], threads.get_mask(warps))
    threads.count("matrix_multiplies")


def widen(values: Array, wide: Any, kind: str) -> Array:
    """The values as tensor cores take them: of tf32 they ignore the 13 lowest bits."""
    if kind == "tf32":
        values = (np.ascontiguousarray(values).view(np.uint32) & 0xFFFFE000).view(np.float32)
    return values.astype(wide)


def _gather(pointer: Pointer, warps: Array, lanes: Array, places: Array) -> Array:
    """A matrix for each warp, of the fragments of its lanes."""
    count = places.size // WARP
    fragments = pointer.load(np.arange(count), lanes)[warps]
    return fragments.reshape(len(warps), WARP * count)[:, places]


@functools.cache
def _place(operand: str, depth: int = 0, size: int = 4) -> Array:
    """Where an element of A, B or C lies: lane times the elements of a lane, plus its place there.

    C and D have the same places, two elements in each register pair.
    """
    shape = {"a": (16, depth), "b": (depth, 8), "c": (16, 8)}[operand]
    count = 2 if operand == "c" else 4 // size
    lane, register, element = np.indices((WARP, math.prod(shape) // (WARP * count), count))
    group, along = lane // 4, lane % 4 * count + element
    if operand == "a":
        row, column = group + 8 * (register % 2), 16 // size * (register // 2) + along
    elif operand == "b":
        row, column = 16 // size * register + along, group
    else:
        row, column = group + 8 * register, along
    places = np.empty(shape, np.int64)
    places[row, column] = np.arange(row.size).reshape(row.shape)
    return places


def _fill(threads: Threads, count: int, target: Pointer, offset: Any) -> None:
    """TVM's own: zeros for the accumulators of a thread."""
    target.store(offset + _get_share(threads, target, count) + np.arange(count), 0)


def _get_share(threads: Threads, pointer: Pointer, count: int) -> Any:
    """What TVM adds to the offset later, where a buffer is of scope "warp"."""
    memory = pointer.memory
    is_of_warps = isinstance(memory, LocalMemory) and memory.is_of_warps
    return threads.numbers % WARP * count if is_of_warps else 0


def _store_matrix(
    threads: Threads,
    rows: int,
    columns: int,
    target: Pointer,
    source: Pointer,
    source_offset: Any,
    stride: Any,
) -> None:
    """TVM's own: the accumulators of a warp, two mma wide, as a 16×16 tile."""
    if (rows, columns) != (16, 16):
        raise UnsupportedError(
            f"the simulator supports {threads.name} of 16×16, not {rows}×{columns}"
        )
    lane, place = threads.numbers % WARP, np.arange(8)
    row = place % 4 // 2 * 8 + lane // 4
    column = place // 4 * 8 + lane % 4 * 2 + place % 2
    share = _get_share(threads, source, 8)
    values, offsets = source.load(source_offset + share + place), row * stride + column
    for index in place:
        target.store(offsets[:, index : index + 1], values[:, index : index + 1])


TENSOR_CORES: dict[str, Semantics] = {
    "ptx_legacy.ldmatrix": _load_matrices,
    "ptx_legacy.mma": _multiply,
    "ptx.stmatrix": _store_matrices,
    "ptx.ldmatrix": _load_registers,
    "ptx.movmatrix": _transpose,
    **dict.fromkeys(("ptx.mma", "ptx.mma_f16acc", "ptx.mma_int"), _multiply_registers),
    "mma_fill_legacy": _fill,
    "mma_store_legacy": _store_matrix,
}
TYPED = frozenset({"ptx_legacy.ldmatrix"})
"""Functions whose semantics depend on the type of the call: they get it as `result`."""
