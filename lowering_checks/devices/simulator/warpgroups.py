"""Hopper's tensor cores: wgmma, whose matrices lie in shared memory and whose sums in registers.

From the PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions". A
descriptor has 64 bits: the address in bits 0 to 13, two strides from bits 16 and 32 on, all of
these in units of 16 bytes, and the swizzle in bits 62 and 63. Here bits 52 to 61, which hardware
ignores, hold the number of the memory: addresses begin anew in each.

An instruction begins when it is issued and ends at the wait for its group. In between

- its sums may not be loaded or stored, but by instructions of the same kind, which run in order,
  and neither may the registers of A, where it takes A from these;
- what it reads may not change. It counts as a load at both ends, so that a later store of another
  thread needs a barrier behind the wait.

``wgmma.fence`` must stand between other accesses of these registers and the instruction, and
``fence.proxy.async`` between stores to shared memory and the instruction, in the thread that stored
or in the one that issues it.

Products and their sum are computed in float64 and rounded once to the type of the sums; tensor
cores keep fewer bits, in an order that NVIDIA leaves open. Integers that fit are exact in both. Of
float32 operands the last 13 bits are ignored, and of sums of float8 the last 10 are cut off, as was
measured on an H100 (Zhang and others, SageAttention2, 2024, section 3.2).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...device import Array
from .function_semantics import Pointer, Semantics, Threads
from .memory import REGISTERS, LocalMemory, RegisterView
from .ptx_calls import get_type, name_operands
from .run_state import UnsupportedError
from .shared_memory import MATRIX, SharedMemory
from .tensor_cores import widen

WARPGROUP = 128
ROWS = 64
WGMMA = "wgmma"
"""The queue of these instructions."""
_WIDTHS = {0: 16, 1: 128, 2: 64, 3: 32}
"""Bytes of a row by the swizzle of a descriptor."""
_ENCODED = (0, 3, 2, 1)
"""The same by TVM's numbers: none, 32, 64 and 128 bytes."""
_UNIT = 16
_FIELD = (1 << 14) - 1
_MEMORY_BIT = 52
_BANK_BIT = 7
"""Chunks are exchanged by the bits of the address above the 128 bytes of all banks."""
FRAGMENT = 4
"""The registers of 32 bits that a thread has of A: one row of eight, the other, and the next k."""


_Read = tuple[Array, Callable[[Array], None]]
"""A matrix for each warpgroup as an instruction begins, and what ends its reading for lanes."""


def _encode(
    threads: Threads, target: Pointer, tile: Pointer, leading: Any, stride: Any, swizzle: int
) -> None:
    """TVM's own: a descriptor, stored to 64 bits of the thread."""
    memory = tile.memory
    if not isinstance(memory, SharedMemory) or memory.shadow.is_global:
        raise UnsupportedError(f"{threads.name} describes {tile.name}, which is not shared memory")
    width = _WIDTHS[_ENCODED[swizzle]]
    address = np.broadcast_to(tile.offset, (threads.lanes, 1)) * memory.dtype.itemsize
    repeats = _UNIT if width == _UNIT else 8 * width
    wrong = threads.active & ((memory.shadow.begin + address) % repeats != 0)

    def describe(at: tuple[int, ...]) -> str:
        return (
            f"descriptor of {tile.name} at byte {int(address[at])} by "
            f"{threads.state.describe_lane(at[0])} (a swizzle of {width} bytes begins at a "
            f"multiple of {repeats})"
        )

    threads.state.log.add("misaligned access", tile.name, threads.location, wrong, describe)
    fields = ((address // _UNIT, 0), (leading, 16), (stride, 32))
    value = np.full((threads.lanes, 1), _ENCODED[swizzle] << 62, np.uint64)
    for field, bit in fields:
        value |= (np.asarray(field).astype(np.uint64) & np.uint64(_FIELD)) << np.uint64(bit)
    target.store(0, value | np.uint64(threads.gpu.number_memory(memory) << _MEMORY_BIT))


def _pass(pass_: Callable[..., None], threads: Threads, *arguments: Any) -> None:
    threads.groups(WARPGROUP)
    pass_(threads, *(each for each in arguments if not isinstance(each, str)))


def _multiply(threads: Threads, *given: Any) -> None:
    """wgmma.mma_async: sums += A × B, or A × B alone where scale-d is 0."""
    words, operands = name_operands(threads.name, given)
    if words["dtype"] not in ("f32", "s32") or words.get("satfinite"):
        text = " ".join(filter(None, words.values()))
        raise UnsupportedError(f"the simulator does not support wgmma of {text}")
    scales = [*operands.get("scale_a", ()), *operands.get("scale_b", ())]
    if any(int(it) != 1 for it in scales):
        raise UnsupportedError("the simulator does not support wgmma of negated operands")
    columns, depth = map(int, words["shape"].removeprefix("m64n").split("k"))
    # Operands in shared memory of 16 bits may be transposed: their rows do not go along k.
    across = [bool(sum(map(int, operands.get(f"trans_{it}", ())))) for it in "ab"]
    kinds = words["atype"], words["btype"]
    groups = threads.groups(WARPGROUP)
    if not len(groups):
        return
    memory, cells = read_registers(threads, operands["d"])
    mask = threads.get_mask(groups)
    memory.require_fence(mask, threads.location)
    if "a" in operands:
        left, end_left = _read_fragments(threads, groups, operands["a"], kinds[0])
    else:
        at = np.indices((ROWS, depth))
        its = operands["a_desc"][0], kinds[0], at, across[0]
        left, end_left = _read_shared(threads, groups, *its)
    at = np.indices((depth, columns))[::-1]
    its = operands["b_desc"][0], kinds[1], at, across[1]
    right, end_right = _read_shared(threads, groups, *its)
    wide = np.int64 if kinds[0] in ("s8", "u8") else np.float64
    product = np.matmul(widen(left, wide, kinds[0]), widen(right, wide, kinds[1]))
    row, column = _place_sums(columns)  # as shares of its warpgroup: (groups, 128, elements)
    terms = threads.spread(groups, product[:, row, column])
    keep = _cut_off if kinds[0] in ("e4m3", "e5m2") else np.asarray
    is_added = bool(operands["scale_d"][0])
    memory.begin_update(cells, terms, is_added, mask, threads.location, keep)

    def arrive(ready: Array) -> None:
        for end in (end_left, end_right):
            end(ready & mask)
        memory.end_update(cells, ready & mask)

    threads.defer(WGMMA, arrive, mask)
    threads.count("matrix_multiplies")


def _read_fragments(
    threads: Threads, groups: Array, registers: Sequence[Pointer], kind: str
) -> _Read:
    """A in registers of 32 bits, which are pairs of neighbours in one buffer."""
    memory, places = read_registers(threads, registers)
    wanted = str(get_type(kind)[0])
    if str(memory.dtype) != wanted:
        raise UnsupportedError(
            f"{threads.name} multiplies {wanted}, and {memory.name} has {memory.dtype}"
        )
    mask = threads.get_mask(groups)
    memory.require_fence(mask, threads.location)
    cells = (places[:, None] + np.arange(2)[None, :, None]).reshape(-1, threads.lanes)
    values = memory.begin_reading(cells, mask, threads.location)
    made = np.zeros((len(groups), ROWS, 4 * FRAGMENT), values.dtype)
    row, k = _place_sums(4 * FRAGMENT)
    made[:, row, k] = values[groups]
    return made, functools.partial(memory.end_update, cells)


def read_registers(threads: Threads, registers: Sequence[Pointer]) -> tuple[LocalMemory, Array]:
    """Registers, which are those of one buffer: it, and their places as (registers, lanes)."""
    memory = registers[0].memory
    base = memory.base if isinstance(memory, RegisterView) else memory
    if not isinstance(base, LocalMemory) or any(it.memory is not memory for it in registers):
        raise UnsupportedError(f"{threads.name} has registers that are not of one buffer")
    places = np.stack([np.broadcast_to(it.offset, (threads.lanes, 1))[:, 0] for it in registers])
    if places.min() < 0 or places.max() >= memory.size:
        raise UnsupportedError(f"{threads.name} has registers beyond {memory.name}")
    if isinstance(memory, RegisterView):
        places = memory.locate_base(places.T).T
    return base, places


def _read_shared(
    threads: Threads, groups: Array, descriptor: Any, kind: str, at: Any, is_across: bool
) -> _Read:
    """A or B as descriptors describe them, whose elements are `at` a row and a k; each lane of a
    warpgroup reads a share."""
    words = np.broadcast_to(np.asarray(descriptor).astype(np.uint64), (threads.lanes, 1))[:, 0]
    described = words[groups]

    def tell(at: tuple[int, ...]) -> str:
        who = threads.state.describe_lane(groups[at])
        return f"{threads.name} with another descriptor by {who} than by its warpgroup's first"

    wrong = described != described[:, :1]
    log = threads.state.log
    log.add("divergent warp instruction", threads.name, threads.location, wrong, tell)
    chosen = [int(word) for word in described[:, 0]]
    kinds = {(word >> _MEMORY_BIT & 0x3FF, word >> 62) for word in chosen}
    if len(kinds) > 1:
        raise UnsupportedError(f"{threads.name} has tiles of several kinds in one launch")
    ((number, code),) = kinds
    memory, width = threads.gpu.get_numbered_memory(number), _WIDTHS[code]
    start, leading, stride = (  # of each, of shape (groups, 1, 1)
        np.array([word >> bit & _FIELD for word in chosen], np.int64)[:, None, None] * _UNIT
        for bit in (0, 16, 32)
    )
    wanted = str(get_type(kind)[0])
    if str(memory.dtype) != wanted:
        raise UnsupportedError(
            f"{threads.name} multiplies {wanted}, and {memory.name} has {memory.dtype}"
        )
    item = memory.dtype.itemsize
    row, k = at
    address = place_tile((start, leading, stride), width, row, k, item, is_across=is_across)
    elements = (address // item).reshape(len(groups), -1)
    share = -(-elements.shape[1] // WARPGROUP)
    # As many as all lanes of a warpgroup take, the first ones again.
    taken = elements[:, np.arange(WARPGROUP * share) % elements.shape[1]]
    mask = threads.get_mask(groups)
    index = threads.spread(groups, taken.reshape(len(groups), WARPGROUP, share))
    index[~mask[:, 0]] = memory.low
    values = memory.load(index, mask, threads.location, kind=MATRIX)
    rows = np.broadcast_to(values, index.shape)[groups].reshape(len(groups), -1)
    made = rows[:, : elements.shape[1]].reshape(len(groups), *row.shape)
    return made, lambda ready: memory.end_matrix(index, values, ready, threads.location)


def place_tile(
    at: Sequence[Any], width: int, row: Any, k: Any, item: int, *, is_across: bool, chunk: int = 16
) -> Any:
    """The addresses of a tile's elements, by where it begins, its leading and its other stride.

    Of `item` bytes in rows of `width`, whose chunks of so many bytes are exchanged; along k, or
    across it.
    """
    start, leading, stride = at
    if is_across:
        steps = (stride, leading) if width == _UNIT else (leading, stride)
        address = start + row * item % width + row * item // width * steps[0]
        repeats = width // chunk if chunk > _UNIT else 8
        address = address + k % repeats * width + k // repeats * steps[1]
    else:
        step = leading if width == _UNIT else width + 0 * leading
        address = start + row % 8 * width + row // 8 * stride
        address = address + k * item // width * step + k * item % width
    return address ^ (address >> _BANK_BIT & width // chunk - 1) * chunk


def _cut_off(sums: Array) -> Array:
    """What is kept of sums of float8: 14 bits, with the hidden one."""
    return (np.ascontiguousarray(sums).view(np.uint32) & 0xFFFFFC00).view(np.float32)


@functools.cache
def _place_sums(columns: int) -> tuple[Array, Array]:
    """The row and the column of each element of each thread: of sums, and of A in registers."""
    thread, element = np.indices((WARPGROUP, ROWS * columns // WARPGROUP))
    row = thread // 32 * 16 + thread % 32 // 4 + element // 2 % 2 * 8
    return row, element // 4 * 8 + thread % 4 * 2 + element % 2


PRODUCTS = frozenset(
    [f"ptx.wgmma_{kind}_ss" for kind in ("f16", "bf16", "tf32", "fp8", "int")]
    + [f"ptx.wgmma_{kind}_rs" for kind in ("f16", "bf16")]
)
"""Instructions whose first arguments are registers that they use."""
WARPGROUPS: dict[str, Semantics] = {
    "cuda.wgmma_encode_matrix_descriptor": _encode,
    "ptx.wgmma_fence": functools.partial(
        _pass, lambda threads: threads.state.pass_fence(REGISTERS, threads.active)
    ),
    "ptx.wgmma_commit_group": functools.partial(_pass, lambda threads: threads.commit(WGMMA)),
    "ptx.wgmma_wait_group": functools.partial(
        _pass, lambda threads, *left: threads.wait(WGMMA, *left)
    ),
    **dict.fromkeys(PRODUCTS, _multiply),
}
