"""The machine: the memories and launches of a lowered module."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.tirx import AttrStmt, Bind, Var

from tirstep.transforms.gpu_limits import MAX_EXTENTS, MAX_THREADS
from tirstep.transforms.queries import constant, find_all

from ..device import DeviceError
from ..launch_limits import find_excess
from .counts import Counts
from .expressions import translate
from .faults import FaultLog, UnsupportedError
from .grid import Array, split_grid
from .memories import Memories
from .memory import Moment
from .statements import Execute, translate_statement


class Machine(Memories):
    """Runs one function: its launches one after the other, each in batches of GPU blocks.

    With `first_only`, no more than the first GPU block of a launch runs. `kernels` are those that
    were translated before, by their bodies.
    """

    def __init__(self, log: FaultLog, *, first_only: bool = False) -> None:
        super().__init__(Moment(log))
        self.first_only = first_only
        self.kernels: dict[Any, Execute] = {}
        self._counted: dict[Var, tuple[str, int]] = {}

    @property
    def counts(self) -> Counts:
        """Of all launches, each counted in its first GPU block."""
        return self.now.counts

    def bind_sizes(self, buffers: Sequence[Var], shapes: Sequence[tuple[int, ...]]) -> None:
        """Take the sizes that a function leaves open from the shapes of its arguments."""
        for buffer, shape in zip(buffers, shapes, strict=True):
            for extent, size in zip(buffer.shape, shape, strict=True):
                if isinstance(extent, Var):
                    self.values[extent] = size

    def _find_extent(self, extent: Any, body: Any) -> int:
        if (known := constant(extent)) is not None:
            return known
        # Of sizes that are open; TVM may have named parts of it between two thread axes.
        for bind in find_all(body, Bind):
            if all(variable in self.values for variable in find_all(bind.value, Var)):
                self.values[bind.var] = translate(bind.value)(self, None)
        return self.evaluate(extent)

    def launch(self, body: Any) -> None:
        """Run one GPU kernel: a nest of thread extents."""
        extents = self._read_extents(body)
        if body not in self.kernels:
            self.kernels[body] = translate_statement(body)
        run = self.kernels[body]
        self.begin_launch(extents, body)
        self._counted = {}
        outside, sectors = dict(self.memories), self.counts.sectors
        for batch in split_grid(extents, first_only=self.first_only):
            self.begin_batch(batch)
            run(self, None)
            self.end_batch(outside)
        self.now.running = None
        blocks = math.prod(size for axis, size in extents.items() if axis.startswith("blockIdx"))
        self.counts.note_launch(blocks, sectors)

    def _read_extents(self, body: Any) -> dict[str, int]:
        extents: dict[str, int] = {}
        for node in find_all(body, AttrStmt):
            if node.attr_key == "thread_extent":
                axis, extent = str(node.node.thread_tag), self._find_extent(node.value, body)
                if axis not in MAX_EXTENTS:
                    raise DeviceError(
                        f"the kernel uses the thread axis '{axis}', which a GPU does not have; "
                        f"bind its loops to {', '.join(MAX_EXTENTS)}"
                    )
                if extents.setdefault(axis, extent) != extent:
                    self.now.log.add_sentence(
                        "launch",
                        f"'{axis}' has the extents {extents[axis]} and {extent} in one kernel, "
                        f"which is launched with {extents[axis]}",
                    )
        for axis, extent in extents.items():
            if extent < 0:
                self.now.log.add_sentence(
                    "launch", f"'{axis}' has the extent {extent}, and a GPU takes none below 1"
                )
            if extent > MAX_EXTENTS[axis]:
                self.now.log.add_sentence(
                    "launch",
                    f"'{axis}' has the extent {extent}, and a GPU takes {MAX_EXTENTS[axis]} there "
                    "at most",
                )
        threads = math.prod(size for axis, size in extents.items() if "threadIdx" in axis)
        if threads > MAX_THREADS:
            self.now.log.add_sentence(
                "launch", f"a block has {threads} threads, and a GPU takes {MAX_THREADS} at most"
            )
        return extents

    def _count_bytes(self, buffer: Var, scope: str, size: int) -> None:
        if self.now.batch.first or buffer in self._counted:
            return
        self._counted[buffer] = (scope, size)
        used: dict[str, int] = {}
        for kind, count in self._counted.values():
            used[kind] = used.get(kind, 0) + count
        for sentence in find_excess(used):
            self.now.log.add_sentence("launch", sentence)

    def pass_barrier(self, mask: Array | None) -> None:
        """All threads of a block that have not returned, or none of them, come to a barrier."""
        batch = self.now.batch
        passed: Array | None = None
        if mask is not None:
            here: Array = mask.reshape(batch.blocks, batch.threads)
            arrived: Array = np.any(here, axis=1)
            if self.now.ended is not None:
                here = np.logical_or(here, self.now.ended.reshape(here.shape))
            if (arrived & ~here.all(axis=1)).any():
                self.now.log.add_sentence(
                    "divergent barrier",
                    "only some threads of a block come to a barrier: the others never do",
                )
            passed = None if arrived.all() else arrived
        if batch.first == 0 and (passed is None or passed[0]):
            self.counts.barriers += 1
        self.begin_interval(passed)


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
