"""What TVM generates for a GPU: the CUDA source, and the host's part that launches its kernels."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tvm
from tvm.ir import Call
from tvm.ir.instrument import pass_instrument
from tvm.tirx import AllocBuffer, Var

from tirstep.transforms.gpu_limits import MAX_SHARED_BYTES
from tirstep.transforms.queries import constant, find_all

from ...compiling import compile_module
from ..device import Arrays, DeviceError
from ..refusals import refusals_as
from ..simulator import TARGET
from ..simulator.written import find_written

SPLIT_PASS = "tirx.SplitHostDevice"
AXES = tuple(f"{kind}.{axis}" for kind in ("blockIdx", "threadIdx") for axis in "xyz")
KERNEL_LAUNCH = 2  # TVM's calling convention of what the host launches
DYNAMIC = "tirx.use_dyn_shared_memory"
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
        """The names of the kernels."""
        return sorted(
            str(variable.name_hint)
            for variable, function in self.lowered.functions_items()
            if int(function.attrs.get("calling_conv", 0)) == KERNEL_LAUNCH
        )

    @property
    def has_vectors(self) -> bool:
        """Whether the source reads or writes several elements at once."""
        return _VECTOR.search(self.source) is not None

    @property
    def dynamic_bytes(self) -> int:
        """The most dynamic shared memory of a launch; what a GPU has where it is symbolic."""
        launches = [call for call in find_all(self.lowered["main"].body, Call) if _is_launch(call)]
        sizes = [_pair_extents(call).get(DYNAMIC, 0) for call in launches]
        known = [constant(size) for size in sizes]
        return max(
            (MAX_SHARED_BYTES["shared.dyn"] if size is None else size for size in known), default=0
        )

    @property
    def parameters(self) -> list[Any]:
        """The buffers that ``main`` takes."""
        return list(self.lowered["main"].params)


@dataclass(frozen=True)
class Buffer:
    """A buffer in global memory: an argument, or what the host allocates between kernels."""

    name: str
    shape: tuple[int, ...]
    item_bytes: int
    data: np.ndarray[Any, Any] | None  # None for what begins unwritten
    is_written: bool = False  # by a kernel: nobody may read what it holds before


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel; an argument is a buffer's number, or the value of an integer.

    `bytes` are by scope: shared memory of a block, locals of a thread.
    """

    kernel: str
    extents: dict[str, int]
    arguments: tuple[tuple[str, int], ...]
    bytes: dict[str, int]


def generate(module: tvm.IRModule, *, pipeline: str | None = None) -> Generated:
    """Have TVM generate a module's source; raises `DeviceError` where it refuses. Needs no GPU.

    `pipeline` is the name of one that is registered with TVM, in place of the module's own.
    """
    seen: list[tvm.IRModule] = []

    @pass_instrument
    class Watch:
        def run_after_pass(self, lowered: tvm.IRModule, info: Any) -> None:
            if str(info.name) == SPLIT_PASS:
                seen.append(lowered)

    with refusals_as("TVM does not generate CUDA source"):
        executable = compile_module(module, TARGET, instruments=[Watch()], pipeline=pipeline)
    imported = executable.mod.imports
    if not imported:
        raise DeviceError("TVM generates no kernel for the module; bind its loops first")
    return Generated(str(imported[0].inspect_source()), seen[-1])


class HostPart:
    """Walks ``main`` as the split pass leaves it, and notes what it allocates and launches.

    There every kernel is called by name, with its buffers, its integers, and the extents of its
    launch in the order of the call's ``launch_params``; nothing has to be read off the source or
    matched by names. Shapes may be symbolic: they take their values from the arguments.
    """

    def __init__(self, generated: Generated, arguments: Arrays) -> None:
        self._lowered = generated.lowered
        self._values: dict[Any, int] = {}
        self._numbers: dict[Any, int] = {}
        self.buffers: list[Buffer] = []
        self.launches: list[Launch] = []
        for parameter, data in zip(generated.parameters, arguments, strict=True):
            for extent, size in zip(parameter.shape, data.shape, strict=True):
                if isinstance(extent, Var):
                    self._values[extent] = size
            self._add(parameter, data)
        self._walk(generated.lowered["main"].body)

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
            self._numbers[body.buffer] = self._find_number(body.data)
        elif kind == "Bind":
            self._values[body.var] = self._evaluate(body.value)
        elif kind == "For":  # one round of launches after the other
            first, count = self._evaluate(body.min), self._evaluate(body.extent)
            for step in range(first, first + count):
                self._values[body.loop_var] = step
                self._walk(body.body)
        elif kind == "Evaluate":
            self._call(body.value)
        else:
            raise DeviceError(
                f'the device "host" does not run {kind} outside of a GPU kernel; '
                "choose another device"
            )

    def _add(self, buffer: Any, data: np.ndarray[Any, Any] | None) -> None:
        self._numbers[buffer] = len(self.buffers)
        shape = tuple(self._evaluate(extent) for extent in buffer.shape)
        name, item_bytes = str(buffer.name), _item_bytes(buffer)
        self.buffers.append(Buffer(name, shape, item_bytes, data))

    def _call(self, call: Any) -> None:
        if not _is_launch(call):
            return
        extents = {tag: self._evaluate(size) for tag, size in _pair_extents(call).items()}
        kernel, *passed = list(call.args)[: len(call.args) - len(extents)]
        name = str(kernel.value)
        used = {"shared.dyn": extents.pop(DYNAMIC, 0)}
        used.update({scope: self._count_bytes(name, scope) for scope in ("shared", "local")})
        if unknown := [tag for tag in extents if tag not in AXES]:
            raise DeviceError(
                f"the kernel is launched with '{unknown[0]}', which the device \"host\" does not "
                f"know; bind its loops to {', '.join(AXES)}"
            )
        arguments = tuple(self._read_argument(one) for one in passed)
        self.launches.append(Launch(name, extents, arguments, used))
        function = self._lowered[name]
        written = find_written(function.body)
        for parameter, (kind, number) in zip(function.params, arguments, strict=True):
            if kind == "buffer" and parameter in written:
                self.buffers[number] = replace(self.buffers[number], is_written=True)

    def _count_bytes(self, kernel: str, scope: str) -> int:
        buffers = [node.buffer for node in find_all(self._lowered[kernel].body, AllocBuffer)]
        return sum(
            math.prod(self._evaluate(extent) for extent in buffer.shape) * _item_bytes(buffer)
            for buffer in buffers
            if str(buffer.scope()) == scope
        )

    def _read_argument(self, argument: Any) -> tuple[str, int]:
        number = self._numbers.get(argument.args[0]) if isinstance(argument, Call) else None
        return ("integer", self._evaluate(argument)) if number is None else ("buffer", number)

    def _find_number(self, data: Any) -> int:
        return self._numbers[data.args[0]]

    def _evaluate(self, expression: Any) -> int:
        if (known := constant(expression)) is not None:
            return known
        analyzer = tvm.sym.Analyzer()
        for variable, value in self._values.items():
            analyzer.bind(variable, tvm.tirx.IntImm(str(variable.ty), value))
        result = constant(analyzer.simplify(expression))
        if result is None:
            raise DeviceError(f"the shapes of the arguments do not say what {expression} is")
        return result


def _is_launch(call: Any) -> bool:
    return isinstance(call, Call) and str(getattr(call.op, "name", "")) == "tirx.call_ffi_kernel"


def _pair_extents(call: Any) -> dict[str, Any]:
    """The last arguments of a launch, by what they are: the extent of an axis, mostly."""
    tags = [str(tag) for tag in call.attrs.launch_params]
    return dict(zip(tags, list(call.args)[len(call.args) - len(tags) :], strict=True))


def _item_bytes(buffer: Any) -> int:
    dtype = tvm.DataType(str(buffer.dtype))
    return (dtype.bits * dtype.lanes + 7) // 8
