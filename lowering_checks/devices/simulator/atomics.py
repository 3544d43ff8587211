"""Atomic operations, ``atomicAdd`` and its relatives, as calls of C++ and as PTX's atom and red;
and what they, ld, st and fences order.

Semantics from the CUDA C++ Programming Guide, section "Atomic Functions", and the PTX ISA, section
"Memory Consistency Model". Threads that come to one do so in any order: the one in which they
change a cell is drawn, so that what a program makes of the values that it gets back must not depend
on it.

A thread that releases, or stores behind its fence, leaves in the cell what it did and what it knows
of others; one that acquires what is there, or loads it and passes a fence, knows of that
(`RunState.known`). What read, change and write makes of a cell goes on with what was there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm.ir import Call

from tirstep.transforms.tir import find_all

from ...device import Array
from .function_semantics import Pointer, Semantics, Threads, get_lanes, read_call
from .ptx_calls import fill_register, get_type, name_operands, read_ptx_call
from .run_state import RunState, UnsupportedError, spread_to

_CHANGES: dict[str, Callable[..., Any]] = {
    "add": lambda old, value: old + value,
    "sub": lambda old, value: old - value,
    "exch": lambda old, value: value,
    "min": min,
    "max": max,
    "and": lambda old, value: old & value,
    "or": lambda old, value: old | value,
    "xor": lambda old, value: old ^ value,
    "inc": lambda old, value: old + old.dtype.type(1) if old < value else old.dtype.type(0),
    "dec": lambda old, value: value if old == 0 or old > value else old - old.dtype.type(1),
    "cas": lambda old, compared, value: value if old == compared else old,
}
"""What a cell becomes, of what it held and what a thread gives."""
WAIT = "cuda.wait_until"
STRONG = ("relaxed", "acquire", "release", "acq_rel", "volatile")
_WITH_ORDER = ("ptx.ld", "ptx.st", "ptx.red", "ptx.atom")


def find_order(kernel: Any) -> str:
    """What the threads of a kernel may order by strong operations and fences: "gpu" what any of
    them does, "cta" what those of one thread block do; nothing where it is empty.
    """
    found = ""
    for call in find_all(kernel, Call):
        name, arguments = read_call(call)
        if name in ("cuda.thread_fence", "__threadfence", WAIT):
            return "gpu"
        if name != "ptx.fence" and not name.startswith(_WITH_ORDER):
            continue
        ptx = read_ptx_call(name, arguments)
        words = {} if ptx is None else ptx[1]
        if name == "ptx.fence" or words.get("sem") in STRONG[name in ATOMICS :]:
            found = "cta"
            if words["scope"] != "cta":
                return "gpu"
    return found


class Releases:
    """What cells of the memories tell those that acquire them, of threads of any block; nothing
    in kernels where none is asked.

    Vectors are as `RunState.tell_known` makes them. A release of scope .cta tells its own block
    alone, and an acquisition of that scope hears of no other.
    """

    def __init__(self, state: RunState, is_asked: bool = False) -> None:
        self._state, self._is_asked = state, is_asked
        # By cell, and by the block that released.
        self._there: dict[Any, dict[int, tuple[bool, Array]]] = {}
        self._fenced: dict[int, tuple[bool, Array]] = {}  # by lane, at its last fence
        self._heard: dict[int, list[tuple[int, bool, Array]]] = {}  # by lane, since then

    def fence(self, threads: Threads, words: tuple[str, ...]) -> None:
        """Each thread has what it did released by its stores behind, and acquires what its loads
        before have heard of."""
        if not self._is_asked:
            return
        is_inside = "cta" in words
        for lane in get_lanes(threads):
            for block, is_narrow, told in self._heard.pop(lane, ()):
                self._learn(lane, block, is_narrow or is_inside, told)
            self._fenced[lane] = is_inside, self._tell(lane)
        self._state.interval += 1

    def order(
        self,
        threads: Threads,
        pointer: Pointer,
        semantics: str,
        scope: str,
        *,
        loads: bool = True,
        stores: bool = True,
    ) -> None:
        """What a strong operation makes known, of its own semantics and of fences around."""
        if not self._is_asked:
            return
        acquires, releases = (semantics in (it, "acq_rel") for it in ("acquire", "release"))
        blocks = self._state.batch.block
        for lane in get_lanes(threads):
            cell, is_inside = pointer.locate(lane), scope == "cta"
            there = self._there.get(cell, {})
            for block, (is_narrow, told) in there.items() if loads else ():
                if acquires:
                    self._learn(lane, block, is_narrow or is_inside, told)
                else:
                    self._heard.setdefault(lane, []).append((block, is_narrow or is_inside, told))
            if not stores:
                continue
            if not loads:
                there = {}
            left = (is_inside, self._tell(lane)) if releases else self._fenced.get(lane)
            if left is not None:
                own = int(blocks[lane, 0])
                before = there.get(own)
                if before is not None and before[0] == left[0]:
                    left = left[0], np.maximum(before[1], left[1])
                there = {**there, own: left}
            self._there[cell] = there
        self._state.interval += 1

    def _tell(self, lane: int) -> Array:
        told = self._state.tell_known(lane).copy()
        told[lane % self._state.batch.group] = self._state.interval + 1
        return told

    def _learn(self, lane: int, block: int, is_narrow: bool, told: Array) -> None:
        batch, known = self._state.batch, self._state.known
        is_same = block == int(batch.block[lane, 0])
        if known is not None and (is_same or not is_narrow):
            known[:, lane] = np.maximum(known[:, lane], told)


def access_strongly(
    threads: Threads,
    pointer: Pointer,
    elements: Array,
    words: dict[str, str],
    values: Array | None = None,
) -> Array:
    """A load, or a store of values, that races with no other strong operation; what was there."""
    found: list[Array] = []

    def run(data: Array, places: Array) -> None:
        found.append(data[places])
        if values is not None:
            active = np.flatnonzero(threads.active)
            if (data[places[active]] != values[active]).any():
                threads.gpu.mbarriers.progress += 1
            data[places[active]] = values[active]

    pointer.change_atomically(run, elements, reads=values is None)
    kinds = {"loads": values is None, "stores": values is not None}
    threads.gpu.releases.order(threads, pointer, words["sem"], words.get("scope", ""), **kinds)
    return found[0]


def report_endless(threads: Threads, waiting: Array | None, what: str) -> None:
    """Threads that wait for what nobody does any more return, so that the run goes on."""
    lanes = threads.state.get_active(waiting)
    who = threads.state.describe_lane(int(np.argmax(lanes)))
    threads.report("deadlock", what, f"{who} waits forever for another value of {what}")
    threads.state.exit_threads(waiting)


def _change(
    change: Callable[..., Any],
    threads: Threads,
    pointer: Pointer,
    *given: Any,
    semantics: str = "relaxed",
    scope: str = "gpu",
) -> Array:
    """Each thread changes its cell, one after the other; what each found there."""
    shape, dtype = (threads.lanes, 1), pointer.dtype
    operands = [spread_to(np.asarray(value).astype(dtype), shape)[:, 0] for value in given]
    order = np.flatnonzero(threads.active)
    threads.gpu.order.shuffle(order)
    found = np.zeros(shape, dtype)

    def run(data: Array, places: Array) -> None:
        for lane in order:
            found[lane] = old = data[places[lane, 0]]
            data[places[lane, 0]] = new = change(old, *(operand[lane] for operand in operands))
            threads.gpu.mbarriers.progress += bool(new != old)

    pointer.change_atomically(run)
    threads.gpu.releases.order(threads, pointer, semantics, scope)
    return found


def _change_by_ptx(threads: Threads, *given: Any) -> None:
    """``atom`` stores what it found in registers, which ``red`` does not have; of a vector or a
    packed type each element is changed by itself.
    """
    words, operands = name_operands(threads.name, given)
    (address,), (dtype, packed) = operands["addr"], get_type(words["type"])
    if not isinstance(address, Pointer):
        raise UnsupportedError(f"{threads.name} is not supported in another block's shared memory")
    memory, size = address.memory.reinterpret(dtype), address.dtype.itemsize
    first = address.offset * size // dtype.itemsize
    values = [np.broadcast_to(it, (threads.lanes, 1)) for it in operands["value"]]
    if packed > 1:  # integers hold the bits of two
        bits = np.hstack([it.astype(f"uint{8 * packed * dtype.itemsize}") for it in values])
        halves = bits.view(dtype)
        values = [halves[:, at : at + 1] for at in range(halves.shape[1])]
    found = [
        _change(
            _CHANGES[words["op"]],
            threads,
            Pointer(threads, memory, first + element),
            *operands.get("compare", ()),
            value,
            semantics=words["sem"] or "relaxed",
            scope=words["scope"],
        )
        for element, value in enumerate(values)
    ]
    for place, register in enumerate(operands.get("d", ())):
        fill_register(register, np.hstack(found[place * packed : (place + 1) * packed]))


FENCES: dict[str, Semantics] = dict.fromkeys(
    ("cuda.thread_fence", "__threadfence", "ptx.fence"),
    lambda threads, *words: threads.gpu.releases.fence(threads, words),
)
ATOMICS: dict[str, Semantics] = {
    **{
        f"atomic{'CAS' if name == 'cas' else name.title()}": functools.partial(_change, change)
        for name, change in _CHANGES.items()
    },
    "cuda.atomic_add": functools.partial(_change, _CHANGES["add"]),
    "cuda.atomic_cas": functools.partial(_change, _CHANGES["cas"]),
    **dict.fromkeys(
        (
            *("ptx.red", "ptx.atom", "ptx.atom_cas", "ptx.atom_exch"),
            *(
                f"ptx.{name}_{of}"
                for name in ("red", "atom")
                for of in ("half", "vec_f32", "vec_half")
            ),
        ),
        _change_by_ptx,
    ),
}
