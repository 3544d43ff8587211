"""Memory that TVM gives to two buffers, and makes another program of the schedule.

StorageRewrite lets a buffer take the place of the one that it is computed from, element by element,
where that is not read any more (`find_overwritten`). It does not ask whether a kernel writes either
of them several times: a store of the first one then falls onto the second, or a store of the second
one is computed from itself.

Dynamic shared memory becomes one buffer behind the pass that puts barriers in. A buffer that is not
used any more leaves its place to one of another type, or to the one that is computed from it, and
threads write what others have yet to read (`find_merged`). Where the storage rewrite is off, there
is more (`find_overlaps`):
MergeSharedMemoryAllocations gives the place of a buffer that is not used any more to a later one.
Where that is larger, it may reach into a third one behind it that is still in use: TVM 0.27 counts
the offsets of both from the smaller one's end. With the storage rewrite on, buffers come to that
pass one behind the other.

A tile whose rows are swizzled, which a warpgroup's instructions read by descriptors, must begin at
a multiple of eight of its rows, wherever TVM puts it there: its instructions take the swizzle from
the address (`find_misplaced_tiles`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from tvm.error import InternalError
from tvm.ir import Call, IRModule, TensorLoad
from tvm.s_tir import SBlock
from tvm.s_tir.transform import MergeSharedMemoryAllocations
from tvm.sym import Analyzer
from tvm.tirx import (
    Add,
    AllocBuffer,
    AttrStmt,
    Broadcast,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    PrimFunc,
)
from tvm.tirx import all as all_of
from tvm.tirx.analysis import undefined_vars
from tvm_ffi import structural_equal

from tirstep.transforms.enumeration import meets_again
from tirstep.transforms.hopper.wgmma_intrinsics import CHUNK_BYTES, CODES
from tirstep.transforms.pass_options import lower_around
from tirstep.transforms.passes.barriers import find_uses
from tirstep.transforms.tir import (
    Place,
    cached_by_module,
    constant,
    find_all,
    find_axes,
    get_axis,
    get_children,
    get_elements,
    get_places,
    is_among,
    list_functions,
    substitute,
)
from tirstep.tvm_compat import get_op_name, get_pointed

SCOPE = "shared.dyn"
_REWRITING = "tirx.StorageRewrite"
_SYNCHRONIZING = "s_tir.ThreadSync"
_ON_THE_WAY = ("s_tir.CompactBufferAllocation", "tirx.FlattenBuffer")
"""What other rules run, so that a module is lowered once for them and for this one."""
_OWN_AXES = {"global": (), "shared": ("blockIdx",)}
"""The axes along which each has a buffer of its own, by scope.

Registers that a loop writes again are allocated inside of it, and take no place outside.
"""
OPTION = "pass_config.tirx.disable_storage_rewrite"


class _Life(NamedTuple):
    """A buffer, and the first and the last place in program order that uses it."""

    buffer: Any
    first: int
    last: int


@cached_by_module(2)
def find_overlaps(module: IRModule) -> list[str]:
    """The buffers in use into whose place TVM may let a larger one reach: where one that began
    before them is not in use any more, and another one begins.
    """
    found = []
    for function in list_functions(module):
        roots = find_all(function.body, SBlock)[:1]
        is_off = any(bool(root.annotations.get(OPTION, False)) for root in roots)
        lives = _find_lives(get_places(function.body)) if is_off else []
        for before, within, after in itertools.permutations(lives, 3):
            is_free = before.last < after.first
            if is_free and before.first < within.first < after.first <= within.last:
                found.append(str(within.buffer.name))
    return found


def _find_lives(places: list[Place]) -> list[_Life]:
    lives: dict[Any, _Life] = {}
    for at, place in enumerate(places):
        for region in (*place.block.reads, *place.block.writes) if place.kernel is not None else ():
            if str((buffer := region.source).scope()) == SCOPE:
                lives[buffer] = lives.get(buffer, _Life(buffer, at, at))._replace(last=at)
    return [*lives.values()]


@cached_by_module(4)
def find_overwritten(module: IRModule, *, is_last: bool = False) -> list[tuple[str, str, str]]:
    """The buffers in whose place TVM keeps another one, that one, and the block of a kernel that
    writes one of the two again.

    TVM's passes are run where a kernel computes one buffer from another and writes elements of
    either more than once. Empty where it does not lower. If a module `is_last`, a thread axis of
    the kernel on which a block has no loop counts, too: it runs in all threads of that axis.
    """
    found: list[tuple[str, str, str]] = []
    for function in list_functions(module):
        # Pairs of buffers, the second one computed from the first, of which one is written again.
        places = [place for place in get_places(function.body) if place.is_innermost]
        kernels = [place for place in places if place.kernel is not None]
        pairs = []
        for place in kernels:
            for store in find_all(place.block.body, BufferStore):
                taker, scope = store.buffer, store.buffer.scope()
                sources = dict.fromkeys(it.source for it in find_all(store.value, TensorLoad))
                if scope not in _OWN_AXES or taker in sources or taker in function.params:
                    continue
                for source in sources:
                    is_alike = source.scope() == scope and source.dtype == taker.dtype
                    if is_alike and source not in function.params:
                        pairs.append((source, taker, place))
        for source, taker, place in pairs:
            inside = [other for other in kernels if is_among(place.kernel, [other.kernel])]
            outside = [o for o in places if not is_among(o.block, [i.block for i in inside])]
            if not _OWN_AXES[str(source.scope())] and any(
                load.source.same_as(buffer)
                for others, buffer in ((inside, taker), (outside, source))
                for other in others
                for load in find_all(other.block.body, TensorLoad)
            ):
                continue
            for writer in inside:
                if any(_writes_again(writer, buffer, is_last) for buffer in (source, taker)):
                    found.append((str(source.name), str(taker.name), writer.name))
                    break
    around = lower_around(module, [_REWRITING]).get(_REWRITING) if found else None
    if around is None:
        return []
    common: set[tuple[str, str]] = set()  # the buffers of which TVM makes one, two and two
    for variable, function in around.before.functions_items():
        after = around.after[variable].body
        homes, storage = _find_homes(after), dict[Any, set[str]]()
        elements = zip(get_elements(function.body), get_elements(after), strict=True)
        for (old, _), (new, _) in elements:
            storage.setdefault(homes.get(new, new), set()).add(str(old.name))
        for names in storage.values():
            common.update(itertools.permutations(names, 2))
    return [item for item in found if item[:2] in common]


def _writes_again(place: Place, buffer: Any, is_last: bool) -> bool:
    """Whether a block writes an element of a buffer more than once in a kernel."""
    stores = [s for s in find_all(place.block.body, BufferStore) if s.buffer.same_as(buffer)]
    own = (*_OWN_AXES[str(buffer.scope())], "none")
    kernel: Any = place.kernel
    host = list(itertools.takewhile(lambda loop: not loop.same_as(kernel), place.loops))
    loops = [loop for loop in place.loops if not (get_axis(loop) or "").startswith(own)]
    if stores and is_last:
        # The axes of the kernel with several values on which there is none of the loops.
        bound = [loop for loop in find_all(kernel, For) if constant(loop.extent) != 1]
        idle = {*map(get_axis, bound)} - {*map(get_axis, loops)}
        if any(axis and "Idx" in axis and not axis.startswith(own) for axis in idle):
            return True
    return any(
        meets_again(
            [substitute(index, place.values) for index in store.indices],
            all_of(True, *place.guards),
            [loop for loop in loops if not is_among(loop, host)],
        )
        for store in stores
    )


@cached_by_module(4)
def find_merged(module: IRModule) -> list[tuple[str, str]]:
    """Buffers in dynamic shared memory, by name, and those that get their place too early.

    TVM's passes are run where a block computes one such buffer from another, or one is first used
    behind the last use of another. Empty where it does not lower.
    """
    for function in list_functions(module):
        stores = [it for it in find_all(function.body, BufferStore) if it.buffer.scope() == SCOPE]
        if any(
            load.source.scope() == SCOPE and not load.source.same_as(store.buffer)
            for store in stores
            for load in find_all(store.value, TensorLoad)
        ):
            break
        lives = _find_lives(get_places(function.body))
        if any(one.last < other.first for one, other in itertools.permutations(lives, 2)):
            break
    else:
        return []
    around = lower_around(module, [*_ON_THE_WAY, *[_SYNCHRONIZING] * 2]).get(_SYNCHRONIZING)
    if around is None:
        return []
    try:
        merged = MergeSharedMemoryAllocations()(around.after)
    except InternalError:  # as TVM itself will, and a device says what to do
        return []
    found: list[tuple[str, str]] = []
    for variable, function in around.after.functions_items():
        spans: _Spans = {}  # without those of which nobody knows where they lie
        moves = zip(get_elements(function.body), get_elements(merged[variable].body), strict=True)
        for (buffer, before), (_, after) in moves:
            if buffer.scope() == SCOPE and buffer not in spans:
                begin, count = find_offset(before[0], after[0]), constant(buffer.shape[0])
                if begin is not None and count is not None:
                    size = buffer.dtype.itemsize
                    spans[buffer] = (begin * size, (begin + count) * size)
        pairs = (find_all(each.body, BufferStore) for each in (function, merged[variable]))
        for old, new in zip(*pairs, strict=True):
            loads = (find_all(store.value, TensorLoad) for store in (old, new))
            for load, moved in zip(*loads, strict=True):
                used = old.buffer, load.source
                if used[0].same_as(used[1]) or any(it.scope() != SCOPE for it in used):
                    continue
                is_own = new.buffer.dtype == moved.source.dtype and bool(
                    structural_equal(new.indices[0], moved.indices[0])
                )
                known = [spans[it] for it in used if it in spans]
                if len(known) < 2 or (_overlap(*known) and not is_own):  # nobody knows of others
                    found.append((str(load.source.name), str(old.buffer.name)))
        found += _find_unordered(function, spans)
        found += _find_interleaved(function, spans)
    return list(dict.fromkeys(found))


_Spans = dict[Any, tuple[int, int]]
"""The first byte of each buffer in dynamic shared memory, and the first one behind it."""


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _find_unordered(function: PrimFunc, spans: _Spans) -> Iterator[tuple[str, str]]:
    """Buffers of a function with barriers, and those in their place, with none between their uses.

    Loads and stores alone are looked at: what instructions copy, mbarriers order.
    """
    found = find_uses(function)
    uses = [
        use
        for use in found.uses
        if use.buffer in spans and use.launch and not isinstance(use.statement, Evaluate)
    ]
    for first, last in itertools.combinations(uses, 2):
        if first.launch != last.launch or first.buffer.same_as(last.buffer):
            continue
        # They may be of one place, and not of each thread's own element.
        one, other = spans[first.buffer], spans[last.buffer]
        is_own = (
            one[0] == other[0]
            and first.buffer.dtype == last.buffer.dtype
            and structural_equal(first.indices[0], last.indices[0])
        )
        if is_own or not _overlap(one, other) or not (first.is_write or last.is_write):
            continue
        if math.prod(found.threads[first.launch].values()) == 1:
            continue
        # A barrier is missing between the two, or from the later one to the next iteration's.
        common = [loop for loop in first.loops if is_among(loop, last.loops)]
        rounds = [found.spans[loop] for loop in common[found.outer[first.launch] :]]
        if not found.has_barrier(first.place, last.place) or any(
            not (found.has_barrier(last.place, end) or found.has_barrier(begin, first.place))
            for begin, end in rounds
        ):
            yield str(first.buffer.name), str(last.buffer.name)


def _find_interleaved(function: PrimFunc, spans: _Spans) -> Iterator[tuple[str, str]]:
    """Buffers of which one is used between the uses of another one in its place.

    All that names a buffer uses it, instructions too, which get a pointer. Of those that had one
    place before, other rules ask.
    """
    homes = _find_homes(function.body)
    pairs = [
        (one, other)
        for one, other in itertools.combinations(spans, 2)
        if _overlap(spans[one], spans[other])
        if not homes.get(one, one).same_as(homes.get(other, other))
    ]
    if not pairs:
        return
    lives: dict[Any, tuple[int, int]] = {}
    for at, statement in enumerate(_list_statements(function.body)):
        for used in undefined_vars(statement):
            lives[used] = (lives.get(used, (at,))[0], at)
    for one, other in pairs:
        life, other_life = (lives.get(each) for each in (one, other))
        if life is not None and other_life is not None:
            (first, last), (begin, end) = life, other_life
            if first < end and begin < last:
                yield str(one.name), str(other.name)


def _find_homes(body: Any) -> dict[Any, Any]:
    """The buffers that others lie in."""
    bases = {node.buffer: get_pointed(node.data) for node in find_all(body, DeclBuffer)}
    return {view: base for view, base in bases.items() if base is not None}


def _list_statements(node: Any) -> Iterator[Any]:
    """The statements of a function without blocks that hold no others, in program order."""
    children = get_children(node)
    for child in children:
        yield from _list_statements(child)
    if not children and not isinstance(node, (AllocBuffer, DeclBuffer)):
        yield node


def find_offset(before: Any, after: Any) -> int | None:
    """The constant that was added to an index, to each lane of a vector's; None for another one."""
    if structural_equal(before, after):
        return 0
    added: Any = None
    if isinstance(after, Add):
        sides = ((after.a, after.b), (after.b, after.a))
        added = next((other for side, other in sides if structural_equal(side, before)), None)
    if added is None:
        added = Analyzer().simplify(after - before)
    return constant(added.value if isinstance(added, Broadcast) else added)


_ENCODING = "wgmma_encode_matrix_descriptor"
_WIDTHS = {code: width for width, code in CODES.items()}


@cached_by_module(4)
def find_misplaced_tiles(module: IRModule) -> list[tuple[str, int, int]]:
    """The tiles that would begin at no multiple of what their swizzle repeats after, with the bytes
    of the swizzle, and of eight rows, after which it repeats.

    TVM's passes are run where there are descriptors. Empty where it does not lower.
    """

    def find_encodings(body: Any) -> list[Any]:
        return [it for it in find_all(body, Call) if get_op_name(it).endswith(_ENCODING)]

    if not any(find_encodings(function.body) for _, function in module.functions_items()):
        return []
    around = lower_around(module, [_SYNCHRONIZING] * 2).get(_SYNCHRONIZING)
    if around is None:
        return []
    merged = MergeSharedMemoryAllocations()(around.after)
    found: list[tuple[str, int, int]] = []
    for variable, function in around.after.functions_items():
        kernels: list[list[Any]] = []
        for each in (function, merged[variable]):
            launches = find_axes(each.body)
            inner = [node for launch in launches for node in find_all(launch.body, AttrStmt)]
            kernels.append([launch for launch in launches if not is_among(launch, inner)])
        for kernel, new_kernel in zip(*kernels, strict=True):
            # Behind a kernel's static shared memory a GPU puts the dynamic one. CUDA is told to
            # align that to 64 bytes only, so that static memory moves it.
            static = sum(
                math.prod(constant(extent) or 0 for extent in buffer.shape) * buffer.dtype.itemsize
                for buffer in [node.buffer for node in find_all(kernel, AllocBuffer)]
                if str(buffer.scope()) == "shared"
            )
            calls = map(find_encodings, (kernel, new_kernel))
            for old, new in zip(*calls, strict=True):
                width = _WIDTHS.get(constant(old.args[-1]) or 0, CHUNK_BYTES)
                # What counts is what was added to a pointer's index: that itself may be a variable
                # by then. Its buffer may be a view.
                dtype, data, index, *_ = old.args[1].args
                offset = find_offset(index, new.args[1].args[2])
                begin = None if offset is None else static + offset * int(dtype.ty.dtype.itemsize)
                if width > CHUNK_BYTES and (begin is None or begin % (8 * width)):
                    name = str(data.args[0].name if isinstance(data, Call) else data.name)
                    found.append((name, width, 8 * width))
    return list(dict.fromkeys(found))
