"""The interface of a device, what it finds and refuses, and what all devices share."""

from __future__ import annotations

import itertools
import math
import re
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import tvm
from tvm.ir import Range
from tvm.s_tir import SBlock
from tvm.tirx import AttrStmt, BufferStore, For, IntImm, IterVar, Var
from tvm.tirx.analysis import undefined_vars
from tvm.tirx.buffer import BufferType
from tvm_ffi import structural_map

from tirstep.modules import Tensor
from tirstep.modules.dtypes import dtype_facts
from tirstep.transforms.gpu_limits import MAX_CLUSTER, MAX_EXTENTS, MAX_SHARED_BYTES, MAX_THREADS
from tirstep.transforms.tir import constant, find_all, find_axes, find_entries, get_axis, is_among
from tirstep.tvm_compat import with_parameters

from .compile.advice import add_advice

Array = np.ndarray[Any, Any]
Arrays = list[Array]
BLOCK_AXES = tuple(axis for axis in MAX_EXTENTS if axis.startswith("blockIdx"))
CLUSTER_AXIS = "clusterCtaIdx.x"
"""Along which TVM counts the thread blocks of a cluster: neighbours on blockIdx.x."""
THREAD_AXES = tuple(axis for axis in MAX_EXTENTS if axis.startswith("threadIdx"))
MAX_LOCAL_BYTES = 512 << 10
"""Registers and local memory per thread (CUDA C++ Programming Guide, "Compute Capabilities")."""
_HELD = (SBlock, BufferStore)
"""What threads hold of a kernel."""
TVM_MARK = "__tvm_ffi_error__"
"""What errors bear that come out of TVM's C++."""
_CALLING = " when calling:"
_REASONS = ("Error message:", "Check failed:", "InternalError: Check failed:", "CUDALaunch Error:")
"""How the line begins at which TVM's reason begins, behind or before a program."""
_COMPILER_ERROR = re.compile(r"\.cu\(\d+\): [a-z ]*error\b|^ptxas .*\b(error|fatal)\b")
"""Errors of NVRTC and nvcc, which name the compiled file, and of ptxas."""
_NO_PROSE = (
    *("#", "//", "@", "class Module", "def ", "with T.", "for ", "from tvm"),
    *("Error in pass:", "Location (TVMScript):", "Access path:", "Note: The underlined"),
)
"""How lines begin that are of a program, or say where in it something is."""


class DeviceError(RuntimeError):
    """A device cannot do what was requested: one sentence of what is wrong and what to do."""


class NotRunError(DeviceError):
    """A device lacks what a program needs, which may well be right."""


@dataclass(frozen=True)
class DeviceFinding:
    """One kind of error at one statement of a kernel: the first occurrence, and their number.

    Attributes
    ----------
    kind : ``"race"``, ``"uninitialized read"``, ``"out of bounds"``, ``"divergent barrier"``,
        ``"divergent shuffle"``, ``"divergent warp instruction"``, ``"misaligned access"``,
        ``"division by zero"``, ``"undefined operation"`` or ``"launch"``
    buffer : the buffer's name in the lowered module; empty for barriers and launches
    message : one sentence with index and threads
    location : the kernel's ``file:line``, where TVM keeps it; may be empty
    """

    kind: str
    buffer: str
    message: str
    location: str
    count: int

    def __str__(self) -> str:
        where = f" [{self.location}]" if self.location else ""
        more = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.kind}: {self.message}{more}{where}"


class Program:
    """A compiled module: called with all arguments, outputs too, it returns them after the run.

    `parameters` are the function's, which the arguments must fit; without them, nothing is checked.

    Attributes
    ----------
    findings : what the device saw go wrong in the last run; always empty on devices that only
        compute
    in_out : the places of arguments that are stored to and hold values before the run, too: a
        device that looks for loads of what was never stored must know; to be set before a run
    checked : masks of the elements of outputs to look at, by their places; of others all
    find_unrun : what never ran in all its runs, a sentence for each line; nothing where that is
        not known
    stored, part : of the last run, which elements were stored to, by the places of arguments, and
        what of the program that was, ``"8 of 256 thread blocks"``, where not all of it
    """

    def __init__(
        self,
        run: Callable[[Arrays], tuple[Arrays, Sequence[DeviceFinding]]],
        parameters: Sequence[Any] | None = None,
    ) -> None:
        self._run, self._parameters = run, parameters
        self.findings: Sequence[DeviceFinding] = ()
        self.in_out: Collection[int] = ()
        self.checked: Mapping[int, Array] = {}
        self.stored: Mapping[int, Array] = {}
        self.find_unrun: Callable[[], list[str]] = list
        self.part = ""

    def __call__(self, arguments: Sequence[Array]) -> Arrays:
        given = [np.asarray(array, order="C") for array in arguments]
        if self._parameters is not None:
            require_arguments(self._parameters, given)
        arrays, self.findings = self._run(given)
        return arrays


@dataclass(frozen=True)
class Timing:
    """Times of one kernel call in seconds: the median of `repeats`, and the quartiles."""

    median: float
    lower: float
    upper: float
    repeats: int


class Device(Protocol):
    """Where modules run. Subclasses inherit what holds for a GPU's kernels without a GPU's clock.

    Attributes
    ----------
    name : the short name, as for ``--device``
    description : what it is, for people: the GPU's name, say
    has_clock : whether `time` says something about a GPU
    """

    name: str
    has_clock: bool = False

    @property
    def description(self) -> str: ...

    def find_obstacle(self, module: tvm.IRModule) -> str | None:
        """Why this device cannot run a module, in a few words; None if it can."""
        unbound = find_unbound_sblocks(module)
        return f"not bound yet: {', '.join(unbound)}" if unbound else None

    def estimate(self, module: tvm.IRModule) -> float:
        """About how many seconds a run of a module takes; 0 where that is not known, or little."""
        return 0.0

    def compile(self, module: tvm.IRModule) -> Program:
        """Compile a module; raises `DeviceError` where the compiler or the device refuses."""
        ...

    def time(self, module: tvm.IRModule, arguments: Sequence[Array]) -> Timing:
        """Time a module's ``main``; raises `DeviceError` on a device without a clock."""
        raise DeviceError(
            f'times on the device "{self.name}" say nothing about a GPU; use a machine with CUDA'
        )


def require_launchable(device: Device, module: tvm.IRModule) -> None:
    """Raise `DeviceError` for a module that a GPU cannot launch."""
    if (obstacle := device.find_obstacle(module)) is not None:
        raise NotRunError(f"the module cannot run on a GPU: {obstacle}; bind its loops first")


def find_unbound_sblocks(module: tvm.IRModule) -> list[str]:
    """The names of the SBlocks that run outside of a GPU's threads: they cannot be launched.

    An SBlock around threads is part of their kernel. Stores that are in no SBlock, or only in the
    one that TVM puts around a function ("root"), are listed by their buffers' names.
    """
    unbound: list[str] = []
    for _, function in module.functions_items():
        loops = [it for it in find_all(function.body, For) if "Idx" in (get_axis(it) or "")]
        # A virtual thread alone launches nothing.
        launches = [*loops, *find_entries(function.body), *find_axes(function.body)]
        held = {node for it in launches for kind in _HELD for node in find_all(it, kind)}
        for sblock in find_all(function.body, SBlock):
            is_around = sblock.name_hint == "root" or any(
                it in launches for kind in (For, AttrStmt) for it in find_all(sblock, kind)
            )
            if sblock not in held and not is_around:
                unbound.append(str(sblock.name_hint))
                held.update(find_all(sblock, BufferStore))
        stores = (it for it in find_all(function.body, BufferStore) if it not in held)
        unbound += dict.fromkeys(str(store.buffer.name) for store in stores)
    return unbound


def require_arguments(parameters: Sequence[Any], arguments: Arrays) -> None:
    """Raise `DeviceError` for arrays that are not what a function takes; shapes may be symbolic."""
    if len(parameters) != len(arguments):
        names = ", ".join(str(parameter.name) for parameter in parameters)
        raise DeviceError(f"the module takes {names}, and {len(arguments)} arguments are given")
    sizes: dict[Any, int] = {}
    for parameter, array in zip(parameters, arguments, strict=True):
        extents, dtype = (
            ([], str(parameter.ty))
            if is_scalar(parameter)
            else (list(parameter.shape), str(parameter.dtype))
        )
        fits = len(extents) == array.ndim and dtype == str(array.dtype)
        for extent, size in zip(extents, array.shape, strict=False):
            if isinstance(extent, Var):
                sizes.setdefault(extent, size)
            fits = fits and sizes.get(extent, constant(extent)) in (size, None)
        if not fits:
            raise DeviceError(
                f"{parameter.name} is {dtype} of shape {_format_shape(extents)}, and the "
                f"argument is {array.dtype} of shape {_format_shape(array.shape)}"
            )


def close_extents(function: Any, values: Mapping[Var, Any]) -> Any:
    """A function with a constant for each variable that the shapes of its parameters leave open.

    TVM's `specialize` takes constants for parameters that are numbers, wherever they stand in a
    shape (n + 1, say), so they become such parameters first. It takes these parameters away; one
    that the function had itself stays, and nothing reads it any more. It forgets how long the axes
    of `T.launch_thread` are.
    """
    own = {each: Var(each.name, each.ty) for each in function.params if each in values}
    params = [*values, *(own.get(each, each) for each in function.params)]
    closed = with_parameters(function, params).specialize(dict(values))

    def close(launch: AttrStmt) -> AttrStmt:
        axis, extent = launch.node, launch.value
        if not isinstance(axis, IterVar):
            return launch
        span = Range.from_min_extent(0, extent)
        axis = IterVar(span, axis.var, axis.iter_type, axis.thread_tag)
        return AttrStmt(axis, launch.attr_key, extent, launch.body)

    return structural_map(closed, [(AttrStmt, close)])


def get_open_sizes(function: Any) -> dict[str, Any]:
    """The sizes that a function takes from the shapes of its arguments, by name.

    One may be a parameter as well: ``n: T.int32, A: T.Buffer((n,))``.
    """
    found: dict[str, Any] = {}
    for parameter in function.params:
        if is_scalar(parameter):
            continue
        for extent in parameter.shape:
            for variable in undefined_vars(extent):
                found.setdefault(str(variable.name), variable)
    return found


def close_for(function: Any, arguments: Arrays) -> Any:
    """A function that leaves sizes open, at those of its arguments; raises `DeviceError`."""
    require_arguments(function.params, arguments)
    pairs = [*zip(function.params, arguments, strict=True)]
    shapes = [(it.shape, array.shape) for it, array in pairs if not is_scalar(it)]
    used = get_open_sizes(function).values()
    values = {
        extent: IntImm(str(extent.ty), int(size))
        for shape in shapes
        for extent, size in zip(*shape, strict=True)
        if isinstance(extent, Var)
    }
    values |= {it: IntImm(str(it.ty), int(array)) for it, array in pairs if is_among(it, used)}
    try:
        return close_extents(function, values)
    except (ValueError, RuntimeError) as error:
        raise DeviceError(f"the arguments do not fit the shapes: {get_reason(error)}") from error


def is_scalar(parameter: Any) -> bool:
    """Whether a parameter is a number, and no buffer; its argument is an array of shape ()."""
    return not isinstance(parameter.ty, BufferType)


def _format_shape(shape: Sequence[Any]) -> str:
    """A shape as NumPy writes it."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def run(program: Program, inputs: Arrays, outputs: Sequence[Tensor]) -> Arrays:
    """Run a program on inputs, with outputs filled as `blank` does."""
    return program([*inputs, *map(blank, outputs)])[len(inputs) :]


def blank(tensor: Tensor) -> Array:
    """An output before the run: NaN, or the farthest integer from 0, which few kernels compute."""
    facts = dtype_facts(tensor.dtype)
    filler = np.nan if facts.is_float else facts.smallest or facts.largest
    return np.full(tensor.shape, filler, dtype=facts.numpy)


def find_excess_extents(extents: Mapping[str, int]) -> Iterator[str]:
    """A sentence for each limit of a GPU that a launch's extents of thread axes exceed."""
    for axis, extent in extents.items():
        if extent < 0:
            yield f"extent {extent} of '{axis}' is negative"
        limit = MAX_CLUSTER if axis == CLUSTER_AXIS else MAX_EXTENTS[axis]
        if extent > limit:
            yield f"extent {extent} of '{axis}' exceeds a GPU's limit of {limit}"
    threads = math.prod(extents.get(axis, 1) for axis in THREAD_AXES)
    if threads > MAX_THREADS:
        yield f"a thread block of {threads} threads exceeds a GPU's limit of {MAX_THREADS}"


def find_excess_memory(used: Mapping[str, int]) -> Iterator[str]:
    """A sentence for each limit of a GPU's memory that a kernel exceeds.

    `used` are bytes by scope, "shared" and "shared.dyn" of a thread block, "local" of a thread.
    Static and dynamic shared memory together have the limit of dynamic memory.
    """
    owners = dict.fromkeys(MAX_SHARED_BYTES, "thread block") | {"local": "thread"}
    for scope, limit in {**MAX_SHARED_BYTES, "local": MAX_LOCAL_BYTES}.items():
        if used.get(scope, 0) > limit:
            yield (
                f"{used[scope]} bytes of scope '{scope}' exceed a GPU's limit of {limit} per "
                f"{owners[scope]}"
            )
    static, dynamic = used.get("shared", 0), used.get("shared.dyn", 0)
    limit = max(MAX_SHARED_BYTES.values())
    if static and dynamic and static + dynamic > limit:
        yield (
            f"{static} bytes of static and {dynamic} of dynamic shared memory, {static + dynamic} "
            f"together, exceed a GPU's limit of {limit} per thread block"
        )


def is_tvm_error(error: Exception) -> bool:
    """Whether an error came out of TVM, or out of a tool that it runs (those are RuntimeErrors).

    TVM raises errors of many types for a module that it does not compile or run: ValueError for
    "Check failed", InternalError, and whatever type a pass names. All that come out of its C++ bear
    a mark; others are raised by its Python. What Python raises in our code is none: it is a mistake
    of ours, and must show as one.
    """
    if isinstance(error, RuntimeError) or hasattr(error, TVM_MARK):
        return True
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__")).partition(".")[0] in ("tvm", "tvm_ffi")


@contextmanager
def convert_tvm_errors(sentence: str, module: tvm.IRModule | None = None) -> Iterator[None]:
    """While this lasts, an error of TVM is a `DeviceError`: the sentence, TVM's reason, advice.

    The advice is about the `module`, where one is given.
    """
    try:
        yield
    except DeviceError:
        raise
    except Exception as error:
        if not is_tvm_error(error):
            raise
        raise DeviceError(f"{sentence}: {add_advice(get_reason(error), module)}") from error


def get_reason(error: Exception) -> str:
    """TVM's own reason, on one line, without the program that it prints before or after it, and
    without addresses, which differ from run to run.
    """
    text = re.sub(r"\b0x[0-9a-f]{9,16}\b ?", "", str(error))
    lines = [line.strip("\0 \t") for line in text.splitlines()]
    lines = [line for line in lines if line]
    if told := [line for line in lines if _COMPILER_ERROR.search(line)]:
        return told[0]  # of a log, in which warnings come first and source lines between
    called = next((at for at, line in enumerate(lines) if line.endswith(_CALLING)), None)
    if called is not None:  # what is wrong, the function with all its arguments, what it wants
        return ": ".join([lines[called].removesuffix(_CALLING), *lines[called + 2 :]])
    for start in _REASONS:
        first = next((number for number, line in enumerate(lines) if line.startswith(start)), None)
        if first is not None:
            rest = [lines[first].removeprefix("Error message:"), *lines[first + 1 :]]
            return " ".join(itertools.takewhile(_is_prose, rest)).strip() or lines[first]
    prose = [*itertools.takewhile(_is_prose, lines)] or [line for line in lines if _is_prose(line)]
    return prose[-1] if prose else type(error).__name__


def _is_prose(line: str) -> bool:
    return not line.startswith(_NO_PROSE)
