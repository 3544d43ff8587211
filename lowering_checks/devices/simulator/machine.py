"""The machine: the memories and launches of a lowered module."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm.tirx import AttrStmt, BufferStore, Var

from tirstep.transforms.queries import find_all

from ..device import DeviceError
from .counts import Counts
from .expressions import UnsupportedError, numpy_type, translate
from .faults import FaultLog
from .grid import Array, Batch, split_grid
from .local_memory import LocalMemory
from .memory import Memory, SharedMemory, garbage
from .statements import translate_statement

MAX_EXTENTS = {
    "blockIdx.x": 2**31 - 1,
    "blockIdx.y": 2**16 - 1,
    "blockIdx.z": 2**16 - 1,
    "threadIdx.x": 1024,
    "threadIdx.y": 1024,
    "threadIdx.z": 64,
}
"""Of a launch, as CUDA documents them for every compute capability since 3.0."""
MAX_THREADS = 1024
MAX_SHARED_BYTES = {"shared": 48 << 10, "shared.dyn": 227 << 10}
"""Of one block, static and dynamic, on compute capability 9.0."""


class Machine:
    """Runs one function: its launches one after the other, each in batches of GPU blocks."""

    def __init__(self, log: FaultLog) -> None:
        self.log = log
        self.values: dict[Var, Any] = {}
        self.memories: dict[Var, Memory] = {}
        self.line = ""
        self.interval = 0
        self.counts = Counts()
        self.batch: Batch | None = None
        self.extents: dict[str, int] = {}
        self.shared_bytes: dict[str, int] = {}

    def add_global(self, buffer: Var, data: Array, *, is_input: bool) -> None:
        """A buffer in global memory; inputs are written before the kernel begins."""
        self.memories[buffer] = SharedMemory(
            str(buffer.name),
            data,
            data.size,
            self.log,
            is_global=True,
            is_written=not is_input,
            starts_written=is_input,
        )

    def launch(self, body: Any) -> None:
        """Run one GPU kernel: a nest of thread extents."""
        extents = self._read_extents(body)
        run = translate_statement(body)
        for memory in self.memories.values():
            memory.extents, memory.counts = extents, self.counts
            if isinstance(memory, SharedMemory):
                memory.begin_launch()
        self.shared_bytes = {}
        for batch in split_grid(extents):
            self.batch = batch
            self.interval += 1
            for memory in self.memories.values():
                if isinstance(memory, SharedMemory):
                    memory.enter(batch, self.interval)
            self.extents = extents
            run(self, None)
        self.batch = None

    def _read_extents(self, body: Any) -> dict[str, int]:
        extents: dict[str, int] = {}
        for node in find_all(body, AttrStmt):
            if node.attr_key == "thread_extent":
                axis, extent = str(node.node.thread_tag), int(node.value)
                if axis not in MAX_EXTENTS:
                    raise DeviceError(
                        f"the kernel uses the thread axis '{axis}', which a GPU does not have; "
                        f"bind its loops to {', '.join(MAX_EXTENTS)}"
                    )
                if extents.setdefault(axis, extent) != extent:
                    self.log.add_sentence(
                        "launch",
                        f"'{axis}' has the extents {extents[axis]} and {extent} in one kernel, "
                        f"which is launched with {extents[axis]}",
                    )
        for axis, extent in extents.items():
            if extent > MAX_EXTENTS[axis]:
                self.log.add_sentence(
                    "launch",
                    f"'{axis}' has the extent {extent}, and a GPU takes {MAX_EXTENTS[axis]} there "
                    "at most",
                )
        threads = math.prod(size for axis, size in extents.items() if "threadIdx" in axis)
        if threads > MAX_THREADS:
            self.log.add_sentence(
                "launch", f"a block has {threads} threads, and a GPU takes {MAX_THREADS} at most"
            )
        return extents

    def allocate(self, buffer: Var) -> None:
        """Make a buffer: registers, shared memory of the blocks, or global memory."""
        size = math.prod(int(extent) for extent in buffer.shape)
        dtype, scope, name = numpy_type(buffer.dtype), str(buffer.scope()), str(buffer.name)
        if self.batch is None:
            data = np.full(size, garbage(dtype), dtype)
            self.add_global(buffer, data, is_input=False)
            return
        if scope == "local":
            memory: Memory = LocalMemory(name, size, dtype, self.log, self.batch)
        elif scope in ("shared", "shared.dyn"):
            data = np.full(size * self.batch.blocks, garbage(dtype), dtype)
            memory = SharedMemory(
                name, data, size, self.log, is_global=False, is_written=True, starts_written=False
            )
            memory.enter(self.batch, self.interval)
            self._count_shared(scope, size * dtype.itemsize)
        else:
            raise UnsupportedError(f"the simulator does not know the scope '{scope}' of {name}")
        memory.extents, memory.counts = self.extents, self.counts
        self.memories[buffer] = memory

    def _count_shared(self, scope: str, size: int) -> None:
        assert self.batch is not None
        if self.batch.first == 0:
            self.shared_bytes[scope] = self.shared_bytes.get(scope, 0) + size
            if (used := self.shared_bytes[scope]) > MAX_SHARED_BYTES[scope]:
                self.log.add_sentence(
                    "launch",
                    f"a block needs {used} bytes of scope '{scope}', and a GPU has "
                    f"{MAX_SHARED_BYTES[scope]} at most",
                )

    def pass_barrier(self, mask: Array | None) -> None:
        """All threads of a block, or none of them, come to a barrier."""
        assert self.batch is not None
        self.interval += 1
        if mask is not None:
            here = mask.reshape(self.batch.blocks, self.batch.threads)
            if (here.any(axis=1) & ~here.all(axis=1)).any():
                self.log.add_sentence(
                    "divergent barrier",
                    "only some threads of a block come to a barrier: the others never do",
                )
        if self.batch.first == 0:
            self.counts.barriers += 1
        for memory in self.memories.values():
            if isinstance(memory, SharedMemory):
                memory.pass_barrier(self.interval)


def run_function(machine: Machine, body: Any) -> None:
    """Run a function's body on the host: declarations, allocations, launches."""
    kind = type(body).__name__
    if kind == "SeqStmt":
        for statement in body.seq:
            run_function(machine, statement)
    elif kind == "AttrStmt" and body.attr_key == "thread_extent":
        machine.launch(body)
    elif kind == "AttrStmt":
        run_function(machine, body.body)
    elif kind == "For":  # a loop on the host: one launch after the other
        first, count = (int(translate(part)(machine, None)) for part in (body.min, body.extent))
        for step in range(first, first + count):
            machine.values[body.loop_var] = step
            run_function(machine, body.body)
    elif kind in ("DeclBuffer", "AllocBuffer", "Bind"):
        translate_statement(body)(machine, None)
    elif kind == "Evaluate":
        return
    else:
        raise UnsupportedError(f"the simulator does not run {kind} outside of a GPU kernel")


def find_written(body: Any) -> set[str]:
    """The names of the buffers that a function stores to."""
    return {str(node.buffer.name) for node in find_all(body, BufferStore)}
