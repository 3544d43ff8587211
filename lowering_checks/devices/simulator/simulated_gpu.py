"""The simulated GPU: runs a lowered function, its launches, barriers and the memories in them."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from tvm.ir import TensorLoad
from tvm.tirx import AllocBuffer, AttrStmt, BufferStore, For, IfThenElse, Var, While

from tirstep.transforms.gpu_limits import MAX_EXTENTS, WARP
from tirstep.transforms.tir import constant, find_all, find_axes, is_used, substitute

from ...device import (
    BLOCK_AXES,
    Array,
    Arrays,
    DeviceError,
    find_excess_extents,
    find_excess_memory,
    is_scalar,
)
from .async_copies import AsyncQueue
from .atomics import Releases, find_order
from .bulk_copies import BULK, BULK_COPIES, WRITTEN, TensorMap
from .clusters import CLUSTERS, GLOBAL, Meetings
from .expressions import Address, translate
from .function_semantics import Threads
from .mbarriers import MBarriers
from .memory import (
    BufferKey,
    LocalMemory,
    Memory,
    count_lanes,
    fill,
    get_garbage,
    get_numpy_dtype,
)
from .merged_memory import Origin, SharedLayout, find_written_buffers, get_shared_layout
from .named_barriers import NAMED_BARRIERS, NamedBarriers
from .periodic_loops import Period, find_periods, inline_names
from .run_state import (
    CLUSTER_AXES,
    MOST_OF_CLUSTER,
    RunState,
    Shapes,
    UnsupportedError,
    count_places,
    split_grid,
)
from .shadow import Shadow
from .shared_memory import SharedMemory
from .statements import Execute, get_names, translate_statement
from .tcgen05 import TCGEN05
from .tensor_memory import MOST_BLOCKS, TensorMemory
from .turns import Turns
from .warp_shuffles import WARP_BARRIERS
from .warpgroups import PRODUCTS

_OF_WARPGROUPS = ("ptx.wgmma_", "ptx.setmaxnreg", "cuda.warpgroup_")
PROXIES = PRODUCTS | BULK_COPIES.keys() | TCGEN05.keys()
"""What reaches shared memory on another way than loads and stores."""
LEARNING = {"ptx.mbarrier_init", *NAMED_BARRIERS, *WARP_BARRIERS, *TCGEN05, *CLUSTERS}
"""What makes barriers of which each thread learns by itself."""
_LARGEST_SHARED = 2**26
"""Bytes of one buffer that are simulated: what exceeds a GPU's limit by less is a finding."""
_SWIZZLED = 1024
"""Arrays begin at multiples of so many bytes, of which no instruction asks for more."""
_SPAN_BYTES = 64
"""Thread blocks' copies of shared memory begin at multiples of this, which every type divides."""


class Memories(dict[BufferKey, Memory]):
    """The memory of each buffer. A module that a pass has spoiled may use one that has none yet,
    or none any more: a kernel's threads take theirs along.
    """

    def __missing__(self, key: BufferKey) -> Memory:
        buffer = key.buffer
        scope = str(buffer.scope()) if hasattr(buffer, "scope") else "global"
        why = "" if scope == "global" else f": what lies in '{scope}' lasts for one kernel"
        raise UnsupportedError(f"{buffer.name} is not defined where it is used{why}")


_POOL_BYTES = "tirx.dyn_smem_bytes"
_PLACES = 64
"""Arrays of shared memory begin at multiples of so many bytes, as TVM declares them."""


class TranslatedKernel:
    """A kernel, a nest of thread extents, as it runs, and what its text says of it.

    Attributes
    ----------
    has_proxies, read_only : as of `RunState`
    in_step : so many neighbouring threads are in step everywhere: a warp, or a warpgroup where
        there are instructions of these, and no roles of the warps of one
    knows : whether its threads learn of one another in another way than by barriers of their block
    pool_bytes : how large a pool of TIRx's is, which names no size where it is allocated
    static_bytes : of shared memory, which lies in front of what is dynamic
    most_blocks : how many thread blocks run in one batch at most; None for any number
    cancels : whether clusters run in the place of others, which begin one after the other
    order : what threads may order by strong operations, as `find_order` says
    """

    def __init__(self, body: Any) -> None:
        names, self.run, self.order = get_names(body), translate_statement(body), find_order(body)
        self.has_proxies = not names.isdisjoint(PROXIES)
        self.knows = not names.isdisjoint(LEARNING)
        self.has_tensor_memory = not names.isdisjoint(TCGEN05)
        is_together = any(name.startswith(_OF_WARPGROUPS) for name in names)
        self.in_step = 4 * WARP if is_together and not self.has_tensor_memory else WARP
        self.read_only: frozenset[str] = frozenset()
        if self.has_proxies:
            loaded = {str(load.source.name) for load in find_all(body, TensorLoad)}
            stored = {str(store.buffer.name) for store in find_all(body, BufferStore)}
            self.read_only = frozenset(loaded - stored)
        pools = [it.value for it in find_all(body, AttrStmt) if it.attr_key == _POOL_BYTES]
        self.pool_bytes, self.static_bytes = max(map(int, pools), default=0), 0
        for buffer in {it.buffer for it in find_all(body, AllocBuffer)}:
            if str(buffer.scope()) == "shared":
                own = math.prod(constant(it) or 1 for it in buffer.shape) * buffer.dtype.itemsize
                self.static_bytes += -(-own // _PLACES) * _PLACES
        self.cancels = "ptx.clusterlaunchcontrol_try_cancel" in names
        is_alone = self.cancels or _waits_apart(body)
        self.most_blocks = 1 if is_alone else MOST_BLOCKS if self.has_tensor_memory else None


def _waits_apart(kernel: Any) -> bool:
    """Whether thread blocks wait for mbarriers in other loops than their neighbours, or in other
    iterations: blocks of a batch go on together, and one would wait for another one's loop.
    """
    around = [it for kind in (For, IfThenElse, While) for it in find_all(kernel, kind)]
    waiting = [
        it for it in around if any("mbarrier" in name and "wait" in name for name in get_names(it))
    ]
    if not waiting:
        return False
    blocks = [it.node.var for it in find_axes(kernel) if "blockIdx" in str(it.node.thread_tag)]
    values = inline_names(kernel)
    for node in waiting:
        asked = node.extent if isinstance(node, For) else node.condition
        asked = substitute(asked, values)
        if find_all(asked, TensorLoad) or any(is_used(block, asked) for block in blocks):
            return True
    return False


class SimulatedGpu:
    """Runs one function: its launches one after the other, each in batches of thread blocks.

    With `first_only`, no more than the first thread block of a launch runs, for its counts alone,
    and of a loop only what counts otherwise than before (`periodic_loops`).
    `choose` says which thread blocks of a launch run, by its extents and body; None for all.
    `kernels` are those that were translated before, by their bodies. `origins` maps views of merged
    shared memory to the buffers that they were before. Threads that are `in_order` wait for one
    another after every store; while buffers are not compact, their sizes are no finding.
    """

    most_registers: float = math.inf
    promotes = True  # in threads, whose code is C++: none in iterations of a CPU's that run at once
    kernel: TranslatedKernel  # that runs

    def __init__(
        self,
        *,
        first_only: bool = False,
        origins: Mapping[Any, Origin] | None = None,
        kernels: dict[Any, TranslatedKernel] | None = None,
        in_order: bool = False,
        is_compact: bool = True,
        choose: Callable[[Mapping[str, int], Any], Array | None] | None = None,
        shapes: Shapes | None = None,
    ) -> None:
        self.choose, self.stored = choose, dict[int, Array]()
        self.ran = set[int]()  # the hashes of the stores
        self.in_order, self.is_compact = in_order, is_compact
        self.first_only, self.origins = first_only, origins or {}
        self.kernels = {} if kernels is None else kernels
        self.state = RunState(shapes=dict(shapes or {}))
        self.location = ""  # of the statement that runs
        # By the hashes of variables, which are their identities: == between two of them makes an
        # expression, and takes as long as a statement.
        self.values: dict[int, Any] = {}
        self.memories = Memories()
        self._shadows: list[Shadow] = []
        self._globals: list[SharedMemory] = []
        self.maps: dict[bytes, TensorMap] = {}
        self.acquired: dict[tuple[int, Any], bytes] = {}  # images of tensor maps, by lane and cell
        self.periods: Mapping[Any, Period] = {}
        self._waiting, self._canceled = list[int](), set[int]()  # first blocks of clusters
        self._of_kernels = Memories()
        self._queues: dict[str, AsyncQueue] = {}
        self._numbered: list[SharedMemory] = []
        self._tensor_memory: TensorMemory | None = None
        self.mbarriers, self.turns = MBarriers(self), Turns()
        self.order = np.random.default_rng(0)  # of what threads do in any order
        self.named_barriers, self.meetings = NamedBarriers(self), Meetings(self)
        self.releases, self._begun = Releases(self.state), set[tuple[Any, int | None]]()
        self.part: Array | None = None  # the lanes of what runs apart; None for all
        layout: SharedLayout = {}, {}, {}
        self._units, self._offsets, self._buffer_ids = layout
        self._allocated: dict[BufferKey, SharedMemory] = {}
        self._counted: dict[BufferKey, tuple[str, int]] = {}
        self.deadline: float | None = None

    # ---- Functions and launches

    def run(
        self,
        parameters: Sequence[Var],
        body: Any,
        arguments: Sequence[Array],
        in_out: Collection[int] = (),
        addresses: Sequence[int] = (),
    ) -> Arrays:
        """Run a function on copies of its arguments; of those that it stores to the ones at the
        places `in_out` hold values before. Sizes that it leaves open are those of its arguments.
        They lie at `addresses`, if any are given: other arguments may hold these.
        """
        kept, written = {parameters[place] for place in in_out}, find_written_buffers(body)
        copies = [np.array(array).reshape(-1) for array in arguments]
        shadows: dict[int, Shadow] = {}
        for place, (buffer, data) in enumerate(zip(parameters, copies, strict=True)):
            array = arguments[place]
            if is_scalar(buffer):
                self.values[hash(buffer)] = data[0]
                continue
            for extent, size in zip(buffer.shape, array.shape, strict=False):
                if isinstance(extent, Var):
                    self.values[hash(extent)] = size
            if array.ndim > 1:
                self.state.shapes[str(buffer.name), array.size] = array.shape
            how = {"is_input": buffer not in written, "is_kept": buffer in kept}
            address = addresses[place] if addresses else 0
            memory = self.add_global(str(buffer.name), data, address, **how)
            self.memories[BufferKey(buffer)] = memory
            if buffer in written:
                shadows[place] = self._shadows[-1]
        with np.errstate(all="ignore"):
            translate_statement(body)(self, None)  # on the host
        self.stored = {
            place: (it.written if it.written.size else it.writer >= 0).reshape(
                arguments[place].shape
            )
            for place, it in shadows.items()
        }
        return [data.reshape(array.shape) for data, array in zip(copies, arguments, strict=True)]

    def launch(self, body: Any) -> None:
        """Run one GPU kernel: a nest of thread extents."""
        self.require_time()
        extents: dict[str, int] = {}
        for node in find_axes(body):
            size = node.value
            if constant(size) is None:  # TVM may have named parts of it between two thread axes
                size = substitute(size, inline_names(body))
            axis, extent = str(node.node.thread_tag), self.evaluate(size)
            if axis.startswith("preferred") or (extent == 1 and axis.startswith("cluster")):
                continue
            if axis not in MAX_EXTENTS and axis not in CLUSTER_AXES:
                raise DeviceError(
                    f"the kernel uses the thread axis '{axis}', which a GPU does not have; "
                    f"bind its loops to {', '.join(MAX_EXTENTS)}"
                )
            if extents.setdefault(axis, extent) != extent:
                self.state.log.add_sentence(
                    "launch",
                    f"'{axis}' has the extents {extents[axis]} and {extent} in one kernel, "
                    f"which is launched with {extents[axis]}",
                )
        for axis, inner in zip(BLOCK_AXES, CLUSTER_AXES, strict=True):
            size, blocks = extents.get(inner, 1), extents.get(axis, 1)
            if size < 1 or blocks % size:
                raise DeviceError(
                    f"{blocks} blocks along '{axis}' are not whole clusters of {size}; launch a "
                    "multiple of them"
                )
        if (cluster := count_places(extents, CLUSTER_AXES)) > MOST_OF_CLUSTER:
            message = f"a cluster of {cluster} blocks exceeds a GPU's limit of {MOST_OF_CLUSTER}"
            self.state.log.add_sentence("launch", message)
        of_grid = {axis: it for axis, it in extents.items() if axis not in CLUSTER_AXES}
        for sentence in find_excess_extents(of_grid):
            self.state.log.add_sentence("launch", sentence)
        if body not in self.kernels:
            self.kernels[body] = TranslatedKernel(body)
        kernel, counts = self.kernels[body], self.state.counts
        self.kernel = kernel
        self.state.extents, layout = extents, get_shared_layout(body, self.origins)
        self._units, self._offsets, self._buffer_ids = layout
        self.periods = find_periods(body) if self.first_only else {}
        self.state.has_proxies, self.state.read_only = kernel.has_proxies, kernel.read_only
        self.state.launch += 1
        for shadow in self._shadows:
            shadow.begin_launch()
        self._counted = {}
        before, sectors = self.memories, counts.sectors
        outside = Memories(before | self._of_kernels)  # what is there before
        self.memories = Memories(outside)
        self.state.chosen = None if self.choose is None else self.choose(extents, body)
        chosen, most = self.state.chosen, kernel.most_blocks
        is_joint = kernel.order == "gpu" and cluster == 1 and not self.first_only
        limits: Any = {"most": None if is_joint else most, "is_joint": is_joint}
        batches = [*split_grid(extents, first_only=self.first_only, chosen=chosen, **limits)]
        self._waiting = [it.first for it in batches] if kernel.cancels and chosen is None else []
        canceled = self._canceled = set[int]()
        for batch in batches:
            if batch.first in canceled:
                continue  # another one runs in its place
            self._waiting = [it for it in self._waiting if it > batch.first]
            knows = kernel.knows or kernel.order != "" or batch.cluster > 1
            self.state.begin_batch(batch, knows=knows, hears=kernel.has_tensor_memory)
            self._queues, self._numbered = {}, []
            self.mbarriers, self.named_barriers = MBarriers(self), NamedBarriers(self)
            self.meetings, self.releases = Meetings(self), Releases(self.state, kernel.order != "")
            self._begun = set()
            if is_joint and batch.blocks > 1:
                parts = [batch.block == number for number in range(batch.blocks)]
                self.run_parts(kernel.run, parts, may_split=True)
            else:
                kernel.run(self, None)
            self.mbarriers.report_left()
            self.meetings.report_left()
            if self._tensor_memory is not None:
                self._tensor_memory.report_left()
                self._tensor_memory = None
            if BULK in self._queues and self._queues[BULK].work:
                self.state.log.add_sentence(
                    "unfinished bulk store",
                    "a bulk store reads shared memory when the kernel ends: no thread waits "
                    "for its group",
                )
            if WRITTEN in self._queues:  # what bulk stores have read they write by now
                self._queues[WRITTEN].wait(self.state.get_active(None), 0)
            for shadow in self._shadows:
                shadow.end_batch()
            self.memories, self._allocated = Memories(outside), {}
            self.acquired.clear()
            self._shadows = [shadow for shadow in self._shadows if shadow.is_global]
        self.memories = before
        self.state.running = self.state.exited = None
        counts.add_launch(count_places(extents, BLOCK_AXES), sectors)

    def cancel_cluster(self) -> int | None:
        """The first block of a cluster that has not begun, and does not begin then; or None."""
        if not self._waiting:
            return None
        self._canceled.add(self._waiting[0])
        return self._waiting.pop(0)

    def require_time(self) -> None:
        """Called in every iteration of a loop: give up behind the deadline of a command."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise UnsupportedError(
                "the time that is left is too short to interpret it; choose a smaller shape, or "
                "give a longer timeout"
            )

    def evaluate(self, size: Any) -> int:
        """A size that all threads agree on."""
        known = constant(size)
        return int(translate(size)(self, None)) if known is None else known

    @property
    def tensor_memory(self) -> TensorMemory:
        """The tensor memory of the thread blocks that run."""
        if self._tensor_memory is None:
            self._tensor_memory = TensorMemory(self.state)
            self._shadows.append(self._tensor_memory.shadow)
        return self._tensor_memory

    def get_queue(self, name: str) -> AsyncQueue:
        """What hardware does asynchronously for the threads that run, by its kind."""
        if name not in self._queues:
            self._queues[name] = AsyncQueue(self.state.batch.lanes)
        return self._queues[name]

    def number_memory(self, memory: SharedMemory) -> int:
        """The number of a memory in descriptors, which have an address alone."""
        if memory not in self._numbered:
            self._numbered.append(memory)
        return self._numbered.index(memory)

    def get_numbered_memory(self, number: int) -> SharedMemory:
        """The memory of a number; raises `UnsupportedError` for one that was not described."""
        if number >= len(self._numbered):
            raise UnsupportedError(
                "a descriptor that no wgmma_encode_matrix_descriptor made has no memory in the "
                "simulator"
            )
        return self._numbered[number]

    def find_memory(self, address: int) -> SharedMemory | None:
        """The global memory in which an address lies, or the shared memory of a block."""
        for memory in (*self._allocated.values(), *self._globals):
            shadow = memory.shadow
            if 0 <= address - shadow.begin < shadow.span * shadow.unit:
                return memory
        return None

    def run_periodic(self, period: Period, count: int, run: Callable[[int], None]) -> None:
        """Run the iterations of a loop that count differently, and count the others."""
        head, length, tail = period
        times, rest = divmod(count - head - tail, length)
        for step in (*range(head), *range(count - tail - rest, count)):
            run(step)
        before = self.state.counts.copy()
        for step in range(head, head + length):
            run(step)
        self.state.counts.repeat_since(before, times - 1)

    # ---- Parts of a kernel that wait for one another

    def run_apart(self, mask: Array | None, run: Execute, halves_of: int = 0) -> None:
        """Run a statement for the threads in step at a time: while some wait, others go on.

        With `halves_of` 1 for a half of the threads at a time; with more, of those in step.
        Each part has its own variables, and buffers that it allocates; behind the statement lanes
        have the variables of their part.
        """
        is_serial = self.state.running is None  # the host's loops wait for nobody
        if is_serial or self.turns.are_taken or (halves_of and self.in_order):
            run(self, mask)
            return
        batch, active = self.state.batch, self.state.get_active(mask)
        group = batch.lane % batch.threads // self.kernel.in_step
        if halves_of:
            unit = 1 if halves_of == 1 else self.kernel.in_step
            first = batch.lane - batch.lane % batch.threads % unit
            group = self.order.integers(0, 2, batch.lanes)[first]
        self.run_parts(run, [active & (group == number) for number in np.unique(group[active])])

    def run_parts(self, run: Execute, parts: list[Array], **how: bool) -> None:
        """Run a statement for these lanes at a time, as `run_apart` says."""
        before, outer = (self.values, self.memories, self.location), self.part
        ended: list[tuple[Array, dict[int, Any]]] = []

        def run_part(part: Array) -> None:
            values, memories, self.location = before
            self.values, self.memories, self.part = dict(values), Memories(memories), part
            run(self, part)
            ended.append((part, self.values))

        runs = [functools.partial(run_part, part) for part in parts]
        self.turns.run_together(runs, **how)
        self.values, self.memories, self.location = before
        self.part = outer
        values = self.values  # each lane has the variables that its part of the kernel has bound
        for key in {key for _, own in ended for key in own}:
            bound = [(part, own[key]) for part, own in ended if key in own]
            for part, value in [it for it in bound if it[1] is not values.get(key)]:
                other: Any = values.get(key)
                if other is None or not isinstance(value, np.ndarray | np.number | int | float):
                    values[key] = value
                elif np.ndim(value) or np.ndim(other) or value != other:
                    values[key] = np.where(part, value, other)

    def let_others_run(self, *, waits: bool = True) -> bool:
        """Another part of the kernel goes on; False where none can, because all wait already.

        This one `waits` until something happens, or could go on itself.
        """
        kept = self.values, self.memories, self.location, self.part
        went_on = self.turns.give_up_turn(self.mbarriers.progress, waits=waits)
        self.values, self.memories, self.location, self.part = kept
        return went_on

    # ---- Barriers

    def pass_barrier(self, mask: Array | None, location: str = "") -> None:
        """All threads of a block that have not returned, or none of them, reach a barrier."""
        batch, exited = self.state.batch, self.state.exited
        if self.part is not None and self.state.known is not None:
            of_blocks = self.part.reshape(batch.blocks, -1)
            if (of_blocks.any(axis=1) & ~of_blocks.all(axis=1)).any():  # warps in roles
                NAMED_BARRIERS["ptx.bar_sync"](Threads(self, mask, "__syncthreads", location), 0)
                return
        passed: Array | None = None
        if self.in_order:  # then a barrier is no statement of the program's
            self.begin_interval()
            return
        if mask is not None:
            reached: Array = mask.reshape(batch.blocks, batch.threads)
            some: Array = np.any(reached, axis=1)
            if exited is not None:
                reached = np.logical_or(reached, exited.reshape(reached.shape))
            if (some & ~reached.all(axis=1)).any():
                text = "barrier reached by only some threads of a block"
                self.state.log.add_sentence("divergent barrier", text, location)
            passed = None if some.all() else some
        self.named_barriers.require_none_at_zero(passed)
        if batch.first == 0 and (passed is None or passed[0]):
            self.state.counts.barriers += 1
        self.begin_interval(passed)

    def begin_interval(self, passed: Array | None = None) -> None:
        """Begin a barrier interval, of all thread blocks that run or of those of a mask."""
        for shadow in self._shadows:
            shadow.pass_barrier(passed)
        self.state.begin_interval(passed)

    # ---- Memories

    def add_global(
        self, name: str, data: Array, address: int = 0, *, is_input: bool, is_kept: bool = False
    ) -> SharedMemory:
        """Data in global memory, at an address if one is given; inputs are written before the
        kernel begins."""
        shadow = Shadow(
            data.size,
            data.dtype.itemsize,
            self.state,
            is_written=not is_input,
            starts_written=is_input or is_kept,
        )
        last = max((it.shadow.begin for it in self._globals), default=0)
        shadow.begin = address or (last // GLOBAL + 1) * GLOBAL
        self._globals.append(SharedMemory(name, data, shadow))
        self._shadows.append(shadow)
        return self._globals[-1]

    def allocate(self, buffer: Var, *, of_kernels: bool = False) -> None:
        """Make a buffer: registers, shared memory of thread blocks, or global memory; one that is
        `of_kernels` and allocated outside of them is all thread blocks', and the host has it not.
        """
        key, size = BufferKey(buffer), self._count_scalars(buffer)
        dtype, scope, name = get_numpy_dtype(buffer.dtype), str(buffer.scope()), str(buffer.name)
        if self.state.running is None:
            data = np.full(size, get_garbage(dtype), dtype)
            to = self._of_kernels if of_kernels else self.memories
            to[key] = self.add_global(name, data, is_input=False)
        elif scope in ("local", "warp"):
            if scope == "local":
                if size * self.state.batch.lanes > self.most_registers:
                    raise UnsupportedError(
                        f"{name} is not compact yet and takes too much memory; "
                        "choose a smaller shape"
                    )
                self._count_bytes(key, scope, size * dtype.itemsize)
            if size * dtype.itemsize > _LARGEST_SHARED:
                raise UnsupportedError(
                    f"'{name}' has {size} elements of {dtype} for each thread, more than the "
                    "simulator keeps; no GPU has as much"
                )
            whole = {"is_of_warps": scope == "warp"}
            unit = self._units.get(buffer, dtype.itemsize)
            cell = dtype if unit == dtype.itemsize else np.dtype(f"uint{8 * unit}")
            memory = LocalMemory(name, size * dtype.itemsize // unit, cell, self.state, **whole)
            self.memories[key] = memory.view(name, dtype, size, 0)
        elif scope in ("shared", "shared.dyn"):
            # TIRx says later how large a pool is.
            size = size or self.kernel.pool_bytes // dtype.itemsize
            if size * dtype.itemsize > _LARGEST_SHARED:
                raise UnsupportedError(
                    f"'{name}' has {size} elements of {dtype}, more shared memory than the "
                    "simulator keeps; no GPU has as much"
                )
            # Blocks that run apart come here one after the other.
            block = None
            if self.state.is_joint and self.part is not None:
                block = int(self.state.batch.block[self.part].min())
            if key not in self._allocated:
                self._allocated[key] = self._make_shared(buffer, size, dtype)
                self._shadows.append(self._allocated[key].shadow)
                fill(self._allocated[key].data, self.state.garbage)
            elif (key, block) in self._begun:
                # The same memory in all iterations, where others may be in the one before.
                self._allocated[key].shadow.begin_lifetime(block)
                if block is None:
                    fill(self._allocated[key].data, self.state.garbage)
            self._begun.add((key, block))
            self.memories[key] = self._allocated[key]
            self._count_bytes(key, scope, size * dtype.itemsize)
        else:
            raise UnsupportedError(f"the simulator does not support the scope '{scope}' of {name}")

    def declare(self, buffer: Var, address: Address) -> None:
        """Make a buffer that lies in another one, from its beginning."""
        size = self._count_scalars(buffer)
        memory, dtype = address.memory, get_numpy_dtype(buffer.dtype)
        low = self._offsets.get(buffer)
        if low is None:  # then all that the other one has
            low, size = 0, memory.size * memory.dtype.itemsize // dtype.itemsize
        view = memory.view(str(buffer.name), dtype, size, low, self._buffer_ids.get(buffer, 0))
        self.memories[BufferKey(buffer)] = view

    def _count_scalars(self, buffer: Var) -> int:
        return math.prod(map(self.evaluate, buffer.shape)) * count_lanes(buffer.dtype)

    def _make_shared(self, buffer: Var, size: int, dtype: np.dtype[Any]) -> SharedMemory:
        """Cells are as large as the smallest type that the buffer is viewed as."""
        unit = self._units.get(buffer, dtype.itemsize)
        filler = get_garbage(dtype)
        if unit > dtype.itemsize:
            size, dtype = -(-size * dtype.itemsize // unit), np.dtype(f"uint{8 * unit}")
            filler = np.iinfo(dtype).max  # all bits set: NaN in every type of floats
        step = _SPAN_BYTES // dtype.itemsize
        span, ratio = -(-size // step) * step, dtype.itemsize // unit
        count = span * self.state.batch.blocks
        shadow = Shadow(count * ratio, unit, self.state, span=span * ratio)
        others = [it.shadow for it in self._allocated.values()]
        end = max((it.begin + it.span * it.unit for it in others), default=0)
        shadow.begin = -(-end // _SWIZZLED) * _SWIZZLED
        if str(buffer.scope()) == "shared.dyn":
            shadow.begin += self.kernel.static_bytes % _SWIZZLED
        data = np.full(count, filler, dtype)
        return SharedMemory(str(buffer.name), data, shadow, size=size)

    def _count_bytes(self, buffer: BufferKey, scope: str, size: int) -> None:
        """Check bytes of a thread block's shared memory, or of a thread's, against the limits."""
        if self.state.batch.first or buffer in self._counted or not self.is_compact:
            return
        self._counted[buffer] = (scope, size)
        used: dict[str, int] = {}
        for kind, count in self._counted.values():
            used[kind] = used.get(kind, 0) + count
        for sentence in find_excess_memory(used):
            self.state.log.add_sentence("launch", sentence)
