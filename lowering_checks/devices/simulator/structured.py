"""Runs modules of any stage: as a schedule leaves them, and after each of TVM's passes.

A slow and neutral reading of TIR, for finding out which step or pass is at fault. What stands
outside of thread-bound loops runs as plain loops; within them, as on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm.tirx import AttrStmt, BufferStore

from tirstep.transforms.queries import find_all

from ...entry import MAIN, name_main
from ..device import Arrays, DeviceError, Program
from ..fault import Fault
from . import SimulatorDevice
from .expressions import translate
from .faults import FaultLog, UnsupportedError
from .flatten import Flat, flatten
from .grid import Array
from .machine import Machine
from .shadow import Shadow
from .shared_memory import SharedMemory
from .statements import translate_statement

MAX_STORES = {"host": 2_000_000, "launch": 50_000_000}
"""Stores that are run before the interpreter declines: some seconds of each."""
MAX_REGISTERS = 1 << 27


class Interpreter(SimulatorDevice):
    """A device for modules of any stage.

    `in_order`: the module stands before TVM's pass that inserts barriers, and threads wait for one
    another after every store. `is_compact`: it stands behind the pass that makes buffers as small
    as a GPU's block needs, so that shared memory can be counted; by default where it is not
    `in_order`. `at_once`: iterations of data-parallel blocks run at once where there are few
    threads (see `spread`).

    Attributes
    ----------
    has_spread : whether it did that in the module that was compiled last
    """

    name = "interpreter"
    description = "interpreter of TIR (NumPy)"

    def __init__(
        self, *, in_order: bool = True, is_compact: bool | None = None, at_once: bool = True
    ) -> None:
        super().__init__()
        self.in_order, self.at_once = in_order, at_once
        self.is_compact = not in_order if is_compact is None else is_compact
        self.has_spread = False

    def find_obstacle(self, module: tvm.IRModule) -> str | None:
        """None: what cannot be run says so when it is compiled or run."""
        return None

    def compile(self, module: tvm.IRModule) -> Program:
        """Take in a module; raises `DeviceError` for one that cannot be run as it stands."""
        module = name_main(module)
        if len(module.functions) != 1:
            raise DeviceError("the interpreter runs modules of one function")
        try:
            flat = flatten(module[MAIN], in_order=self.in_order, at_once=self.at_once)
        except UnsupportedError as error:
            raise DeviceError(str(error)) from error
        self.has_spread = flat.has_spread
        _require_small(flat.body)

        def run(arguments: Arrays) -> tuple[Arrays, Sequence[Fault]]:
            try:
                return _interpret(flat, arguments, self.in_order, self.is_compact)
            except UnsupportedError as error:
                raise DeviceError(str(error)) from error

        return Program(run)


def _interpret(
    flat: Flat, arguments: Arrays, in_order: bool, is_compact: bool
) -> tuple[Arrays, Sequence[Fault]]:
    machine = StructuredMachine(FaultLog(), in_order=in_order, is_compact=is_compact)
    cells = [np.array(array).reshape(-1) for array in arguments]
    written = {node.buffer for node in find_all(flat.body, BufferStore)}
    for buffer, data in zip(flat.parameters, cells, strict=True):
        machine.add_global(buffer, data, is_input=buffer not in written)
    with np.errstate(all="ignore"):
        machine.run(flat.body)
    shaped = [data.reshape(array.shape) for data, array in zip(cells, arguments, strict=True)]
    return shaped, machine.now.log.faults()


class StructuredMachine(Machine):
    """A machine that also runs loops on the host, and threads that wait after every store."""

    def __init__(self, log: FaultLog, *, in_order: bool, is_compact: bool) -> None:
        super().__init__(log)
        self.in_order, self.is_compact = in_order, is_compact

    def run(self, node: Any) -> None:
        """Run a statement on the host."""
        kind = type(node).__name__
        if not _has_launch(node):
            translate_statement(node)(self, None)
        elif kind == "SeqStmt":
            for statement in node.seq:
                self.run(statement)
        elif kind == "AttrStmt" and node.attr_key == "thread_extent":
            self.launch(node)
        elif kind == "AttrStmt":
            self.run(node.body)
        elif kind == "For":
            start = translate(node.min)(self, None)
            for step in range(translate(node.extent)(self, None)):
                self.values[node.loop_var] = start + step
                self.run(node.body)
        elif kind == "IfThenElse" and node.else_case is None:
            if translate(node.condition)(self, None):
                self.run(node.then_case)
        else:
            raise UnsupportedError(f"the interpreter does not run {kind} around a GPU kernel")

    def add_global(self, buffer: Any, data: Array, *, is_input: bool) -> None:
        """The same, in a memory that the host can use, too."""
        self._add(buffer, HostMemory(self, str(buffer.name), data, is_input))

    def allocate(self, buffer: Any) -> None:
        """The same, for registers of a reasonable number only: they are not compact yet."""
        lanes = self.batch.lanes if self.batch is not None and buffer.scope() == "local" else 0
        if int(buffer.shape[0]) * lanes > MAX_REGISTERS:
            raise UnsupportedError(
                f"{buffer.name} is not compact yet and takes too much memory; "
                "choose a smaller shape"
            )
        super().allocate(buffer)

    def pass_barrier(self, mask: Array | None) -> None:
        """While threads are in order, a barrier is no statement of the program's."""
        if not self.in_order:
            super().pass_barrier(mask)
            return
        self.begin_interval()

    def _count_bytes(self, buffer: Any, scope: str, size: int) -> None:
        if self.is_compact:
            super()._count_bytes(buffer, scope, size)


class HostMemory(SharedMemory):
    """Global memory, which the host reads and writes element by element."""

    def __init__(self, machine: Machine, name: str, data: Array, is_input: bool) -> None:
        size, unit = data.size, data.dtype.itemsize
        shadow = Shadow(
            size,
            size,
            unit,
            machine.now,
            is_global=True,
            is_written=not is_input,
            starts_written=is_input,
        )
        super().__init__(name, data, shadow)
        self.machine = machine

    def load(self, index: Any, mask: Array | None, line: str) -> Any:
        if self.machine.batch is not None:
            return super().load(index, mask, line)
        cells = self._host_cells(index, mask, line, "reads")
        written = self.shadow.written
        if written.size and not np.all(written[cells]):
            self._note_host("uninitialized read", ~written[cells], mask, cells, line, "reads")
        return self.data[cells]

    def store(self, index: Any, value: Any, mask: Array | None, line: str) -> None:
        if self.machine.batch is not None:
            super().store(index, value, mask, line)
            return
        cells = self._host_cells(index, mask, line, "writes")
        if isinstance(cells, np.ndarray) and mask is not None:
            kept = np.broadcast_to(mask, cells.shape)
            cells, value = cells[kept], np.broadcast_to(value, kept.shape)[kept]
        self.data[cells] = value if np.ndim(cells) else np.ravel(value)[-1]
        if self.shadow.written.size:
            self.shadow.written[cells] = True

    def _host_cells(self, index: Any, mask: Array | None, line: str, verb: str) -> Any:
        if not isinstance(index, np.ndarray):
            if 0 <= index < self.size:
                return index
        elif mask is None and index.min() >= 0 and index.max() < self.size:
            return index
        wrong = (np.asarray(index) < 0) | (np.asarray(index) >= self.size)
        self._note_host("out of bounds", wrong, mask, index, line, verb)
        return np.clip(index, 0, self.size - 1)

    def _note_host(
        self, kind: str, wrong: Any, mask: Array | None, cells: Any, line: str, verb: str
    ) -> None:
        bad = np.atleast_1d(wrong if mask is None else wrong & mask)
        places = np.broadcast_to(np.atleast_1d(cells), bad.shape)
        end = (
            "nobody has written"
            if verb == "reads" and kind != "out of bounds"
            else (f"has {self.size} elements")
        )
        self.now.log.add(
            kind,
            self.name,
            line,
            bad,
            lambda at: f"the program {verb} {self.name}[{int(places[at])}], which {end}",
        )


def _has_launch(node: Any) -> bool:
    return any(one.attr_key == "thread_extent" for one in find_all(node, AttrStmt))


def _require_small(body: Any) -> None:
    """Decline what would take minutes."""
    counts = {"host": 0, "launch": 0}
    _count_stores(body, 1, {}, counts)
    for place, count in counts.items():
        if count > MAX_STORES[place]:
            raise DeviceError(
                f"the module stores {count} times, which is too much to interpret; "
                "choose a smaller shape"
            )


def _count_stores(node: Any, times: int, axes: dict[str, int], counts: dict[str, int]) -> None:
    kind = type(node).__name__
    if kind == "SeqStmt":
        for statement in node.seq:
            _count_stores(statement, times, axes, counts)
    elif kind == "For":
        extent = getattr(node.extent, "value", 1)
        _count_stores(node.body, times * int(extent), axes, counts)
    elif kind == "AttrStmt":
        if node.attr_key == "thread_extent":
            axes = {**axes, str(node.node.thread_tag): int(node.value)}
        _count_stores(node.body, times, axes, counts)
    elif kind == "IfThenElse":
        _count_stores(node.then_case, times, axes, counts)
    elif kind == "BufferStore":
        counts["launch" if axes else "host"] += times * math.prod(axes.values())
