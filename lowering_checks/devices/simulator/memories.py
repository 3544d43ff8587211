"""The memories of a machine: made, looked at as other buffers, and forgotten."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm.tirx import Var

from .calls import Address
from .expressions import translate
from .faults import UnsupportedError
from .grid import Array, Batch
from .layout import Layout, find_layout
from .local_memory import LocalMemory
from .memory import Memory, Moment, VectorMemory, count_lanes, garbage, numpy_type
from .queues import Queue
from .shadow import Shadow
from .shared_memory import SharedMemory, make_global
from .warp_memory import WarpMemory

_SPAN_BYTES = 64
"""Blocks' copies of shared memory begin at multiples of this, which every type's size divides."""


class Memories:
    """Buffers and what lies in them; a `Machine` runs functions that use them.

    `origins` says of buffers in merged shared memory, by name, which buffer each was before.
    """

    def __init__(self, now: Moment) -> None:
        self.now = now
        self.line = ""
        self.values: dict[Var, Any] = {}
        self.memories: dict[Var, Memory] = {}
        self._shadows: list[Shadow] = []
        self._queues: dict[str, Queue] = {}
        self._layout = Layout({}, {}, {})
        self.origins: Mapping[str, str] = {}

    @property
    def batch(self) -> Batch | None:
        """The threads that run; None between launches."""
        return self.now.running

    def queue(self, name: str) -> Queue:
        """What hardware does beside the threads that run, by its kind."""
        if name not in self._queues:
            self._queues[name] = Queue(self.now.batch.lanes)
        return self._queues[name]

    def evaluate(self, size: Any) -> int:
        """A size that all threads agree on."""
        return int(translate(size)(self, None))

    def add_global(self, buffer: Var, data: Array, *, is_input: bool) -> None:
        """A buffer in global memory; inputs are written before the kernel begins."""
        name = str(buffer.name)
        memory = make_global(name, data, self.now, is_written=not is_input, starts_written=is_input)
        self._add(buffer, memory)

    def allocate(self, buffer: Var) -> None:
        """Make a buffer: registers, shared memory of the blocks, or global memory."""
        lanes = count_lanes(buffer.dtype)
        size = self._find_size(buffer)
        dtype, scope, name = numpy_type(buffer.dtype), str(buffer.scope()), str(buffer.name)
        if self.batch is None:
            self.add_global(buffer, np.full(size, garbage(dtype), dtype), is_input=False)
        elif scope == "local":
            self._count_bytes(buffer, scope, size * dtype.itemsize)
            self.memories[buffer] = LocalMemory(name, size, dtype, self.now)
        elif scope == "warp":
            self.memories[buffer] = WarpMemory(name, size, dtype, self.now)
        elif scope in ("shared", "shared.dyn"):
            self._allocate_shared(buffer, size, dtype)
            self._count_bytes(buffer, scope, size * dtype.itemsize)
        else:
            raise UnsupportedError(f"the simulator does not know the scope '{scope}' of {name}")
        if lanes > 1:
            self.memories[buffer] = VectorMemory(self.memories[buffer], lanes)

    def declare(self, buffer: Var, address: Address) -> None:
        """Make a buffer that lies in another one, from its beginning."""
        lanes, size = count_lanes(buffer.dtype), self._find_size(buffer)
        memory, dtype = address.memory, numpy_type(buffer.dtype)
        low = self._layout.offsets.get(buffer)
        if low is None:  # then all that the other one has
            low, size = 0, memory.size * memory.dtype.itemsize // dtype.itemsize
        view = memory.view(str(buffer.name), dtype, size, low, self._layout.marks.get(buffer, 0))
        self.memories[buffer] = VectorMemory(view, lanes) if lanes > 1 else view

    def begin_launch(self, extents: Mapping[str, int], body: Any) -> None:
        """Begin a kernel: nobody has touched anything yet."""
        self.now.extents, self._layout = extents, find_layout(body, self.origins)
        for shadow in self._shadows:
            shadow.begin_launch()

    def begin_interval(self, passed: Array | None = None) -> None:
        """Begin a barrier interval, of all GPU blocks that run or of those of a mask."""
        for shadow in self._shadows:
            shadow.pass_barrier(passed)
        self.now.begin_interval(passed)

    def begin_batch(self, batch: Batch) -> None:
        """Begin with other GPU blocks, which order nothing."""
        self.now.begin_batch(batch)
        self._queues = {}

    def end_batch(self, outside: Mapping[Var, Memory]) -> None:
        """Forget what the GPU blocks had for themselves; `outside` is what was there before."""
        for shadow in self._shadows:
            shadow.end_batch()
        self.memories = dict(outside)
        self._shadows = [shadow for shadow in self._shadows if shadow.is_global]

    def _find_size(self, buffer: Var) -> int:
        shape = math.prod(self.evaluate(extent) for extent in buffer.shape)
        return shape * count_lanes(buffer.dtype)

    def _add(self, buffer: Var, memory: SharedMemory) -> None:
        self.memories[buffer] = memory
        self._shadows.append(memory.shadow)

    def _allocate_shared(self, buffer: Var, size: int, dtype: np.dtype[Any]) -> None:
        """Cells are as large as the smallest type that the buffer is seen as."""
        unit = self._layout.units.get(buffer, dtype.itemsize)
        filler = garbage(dtype)
        if unit > dtype.itemsize:
            size, dtype = -(-size * dtype.itemsize // unit), np.dtype(f"uint{8 * unit}")
            filler = np.iinfo(dtype).max  # all bits set: NaN in every type of floats
        step = _SPAN_BYTES // dtype.itemsize
        span, ratio = -(-size // step) * step, dtype.itemsize // unit
        blocks = self.now.batch.blocks
        shadow = Shadow(
            span * blocks * ratio,
            span * ratio,
            unit,
            self.now,
            is_global=False,
            is_written=True,
            starts_written=False,
        )
        data = np.full(span * blocks, filler, dtype)
        self._add(buffer, SharedMemory(str(buffer.name), data, shadow, size=size))

    def _count_bytes(self, buffer: Var, scope: str, size: int) -> None:
        """Take notice of an allocation: bytes of a block's shared memory, or of a thread's."""
        raise NotImplementedError
