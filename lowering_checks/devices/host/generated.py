"""What TVM generates for a GPU: the CUDA source, and the host's part that launches its kernels."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass, field, replace
from typing import Any

import tvm
from tvm.sym import Analyzer
from tvm.tirx import AllocBuffer, Var

from tirstep.transforms.gpu_limits import MAX_EXTENTS, MAX_SHARED_BYTES
from tirstep.transforms.tir import constant, find_all
from tirstep.tvm_compat import get_pointed

from ...compile.compiling import TARGET, compile_unrun
from ...compile.instruments import Snapshot
from ...compile.launches import (
    DYNAMIC_SHARED,
    SPLIT_PASS,
    count_item_bytes,
    find_kernels,
    find_launches,
    read_launch,
)
from ..device import Array, Arrays, DeviceError, convert_tvm_errors, is_scalar
from ..simulator.merged_memory import find_written_buffers

_VECTOR = re.compile(r"\*\(\w+\*\)\(")  # as in *(float4*)(A + 4 * i)


@dataclass(frozen=True)
class Generated:
    """A module as TVM generates it for a GPU.

    To plant a bug, change `source` with ``dataclasses.replace`` and compile the result with
    `HostDevice.compile_generated`.

    Attributes
    ----------
    source : the CUDA C++ of all kernels
    lowered : the module behind TVM's pass that splits host from device: its ``main`` launches the
        kernels
    """

    source: str
    lowered: tvm.IRModule = field(repr=False)

    @property
    def kernels(self) -> list[str]:
        return sorted(find_kernels(self.lowered))

    @property
    def has_vectors(self) -> bool:
        """Whether the source reads or writes several elements at once."""
        return _VECTOR.search(self.source) is not None

    @property
    def dynamic_bytes(self) -> int:
        """The most dynamic shared memory of a launch; what a GPU has where it is symbolic."""
        launches = find_launches(self.lowered["main"].body, find_kernels(self.lowered))
        known = [constant(launch.extents.get(DYNAMIC_SHARED, 0)) for launch in launches]
        return max(
            (MAX_SHARED_BYTES["shared.dyn"] if size is None else size for size in known), default=0
        )

    @property
    def parameters(self) -> list[Any]:
        """The buffers that ``main`` takes."""
        return list(self.lowered["main"].params)


@dataclass(frozen=True)
class HostBuffer:
    """A buffer in global memory: an argument, or what the host allocates between kernels."""

    name: str
    shape: tuple[int, ...]
    item_bytes: int
    data: Array | None  # None for what begins uninitialized
    is_written: bool = False  # by a kernel: what it holds before must not be loaded, unless given


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel; an argument is a buffer's number, or the value of an integer, or the
    bits of another number.

    `bytes` are by scope: shared memory of a thread block, locals of a thread.
    """

    kernel: str
    extents: dict[str, int]
    arguments: tuple[tuple[str, int], ...]
    bytes: dict[str, int]


def generate(module: tvm.IRModule, *, pipeline: str | None = None) -> Generated:
    """Have TVM generate a module's source; raises `DeviceError` where it refuses. Needs no GPU.

    `pipeline` is the name of one that is registered with TVM, in place of the module's own.
    """
    split = Snapshot(SPLIT_PASS)
    with convert_tvm_errors("TVM does not generate CUDA source", module):
        executable = compile_unrun(
            module, TARGET, instruments=[split.instrument()], pipeline=pipeline
        )
    imported = executable.mod.imports
    if not imported:
        raise DeviceError("TVM generates no kernel for the module; bind its loops first")
    return Generated(str(imported[0].inspect_source()), split.module)


class HostPart:
    """Walks ``main`` as the split pass leaves it, and notes what it allocates and launches.

    There every kernel is called by name, with its buffers, its numbers, and the extents of its
    launch in the order of the call's ``launch_params``; nothing has to be read off the source or
    matched by names. Shapes may be symbolic: they take their values from the arguments.
    """

    def __init__(self, generated: Generated, arguments: Arrays) -> None:
        self._lowered = generated.lowered
        self._values: dict[Any, int] = {}
        self._floats: dict[Any, int] = {}  # their bits
        self._numbers: dict[Any, int] = {}
        self.buffers: list[HostBuffer] = []
        self.launches: list[Launch] = []
        for parameter, data in zip(generated.parameters, arguments, strict=True):
            if is_scalar(parameter):
                self._add_number(parameter, data)
                continue
            for extent, size in zip(parameter.shape, data.shape, strict=True):
                if isinstance(extent, Var):
                    self._values[extent] = size
        for parameter, data in zip(generated.parameters, arguments, strict=True):
            if not is_scalar(parameter):  # with a shape that a later argument may tell: (n + 1,)
                self._add(parameter, data)
        self._walk(generated.lowered["main"].body)

    def _add_number(self, parameter: Any, data: Array) -> None:
        """A parameter that is no buffer: kernels get it as such."""
        if data.dtype.kind in "biu":
            self._values[parameter] = int(data)
        else:
            self._floats[parameter] = int.from_bytes(data.tobytes(), sys.byteorder)

    def _walk(self, body: Any) -> None:
        kind = type(body).__name__
        if kind == "SeqStmt":
            for statement in body.seq:
                self._walk(statement)
        elif kind == "AttrStmt":
            self._walk(body.body)
        elif kind == "AllocBuffer":
            self._add(body.buffer, None)
        elif kind == "DeclBuffer":
            self._numbers[body.buffer] = self._numbers[get_pointed(body.data)]
        elif kind == "Bind":
            self._values[body.var] = self._evaluate(body.value)
        elif kind == "For":  # one iteration of launches after the other
            first, count = self._evaluate(body.min), self._evaluate(body.extent)
            for value in range(first, first + count):
                self._values[body.loop_var] = value
                self._walk(body.body)
        elif kind == "Evaluate":
            self._call(body.value)
        else:
            raise DeviceError(
                f'the device "host" does not run {kind} outside of a GPU kernel; '
                "choose another device"
            )

    def _add(self, buffer: Any, data: Array | None) -> None:
        self._numbers[buffer] = len(self.buffers)
        shape = tuple(self._evaluate(extent) for extent in buffer.shape)
        name, item_bytes = str(buffer.name), count_item_bytes(buffer)
        self.buffers.append(HostBuffer(name, shape, item_bytes, data))

    def _call(self, call: Any) -> None:
        launch = read_launch(call, find_kernels(self._lowered))
        if launch is None:
            return
        name = launch.kernel
        extents = {tag: self._evaluate(size) for tag, size in launch.extents.items()}
        used = {"shared.dyn": extents.pop(DYNAMIC_SHARED, 0)}
        used.update({scope: self._count_bytes(name, scope) for scope in ("shared", "local")})
        if unknown := [tag for tag in extents if tag not in MAX_EXTENTS]:
            raise DeviceError(
                f"the kernel is launched with '{unknown[0]}', which the device \"host\" does not "
                f"support; bind its loops to {', '.join(MAX_EXTENTS)}"
            )
        arguments = tuple(self._read_argument(argument) for argument in launch.arguments)
        self.launches.append(Launch(name, extents, arguments, used))
        function = self._lowered[name]
        written = find_written_buffers(function.body)
        for parameter, (kind, number) in zip(function.params, arguments, strict=True):
            if kind == "buffer" and parameter in written:
                self.buffers[number] = replace(self.buffers[number], is_written=True)

    def _count_bytes(self, kernel: str, scope: str) -> int:
        buffers = [node.buffer for node in find_all(self._lowered[kernel].body, AllocBuffer)]
        return sum(
            math.prod(self._evaluate(extent) for extent in buffer.shape) * count_item_bytes(buffer)
            for buffer in buffers
            if str(buffer.scope()) == scope
        )

    def _read_argument(self, argument: Any) -> tuple[str, int]:
        if isinstance(argument, Var) and argument in self._floats:
            return "integer", self._floats[argument]
        number = self._numbers.get(get_pointed(argument))
        return ("integer", self._evaluate(argument)) if number is None else ("buffer", number)

    def _evaluate(self, expression: Any) -> int:
        if (known := constant(expression)) is not None:
            return known
        analyzer = Analyzer()
        for variable, value in self._values.items():
            analyzer.bind(variable, tvm.tirx.IntImm(str(variable.ty), value))
        result = constant(analyzer.simplify(expression))
        if result is None:
            raise DeviceError(f"the arguments do not say what {expression} is")
        return result
