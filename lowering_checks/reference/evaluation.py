"""Runs a function in float64 with errors: what it must compute, and how far off that may be.

One thread runs after the other; what they exchange in shared memory meanwhile is refused.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import tvm
from tvm.ir import Call, TensorLoad
from tvm.tirx import decl_buffer
from tvm.tirx.build import tir_to_runtime

from tirstep.modules import Tensor
from tirstep.modules.dtypes import dtype_facts
from tirstep.modules.error_bounds import get_units
from tirstep.modules.inputs import Array
from tirstep.modules.validation import UnjudgedError
from tirstep.transforms.passes.serial import make_threads_serial
from tirstep.transforms.tir import constant, find_all, find_entries

from ..compile.compiling import MAIN, UNOPTIMIZED
from ..device import DeviceError, convert_tvm_errors, is_scalar
from ..devices.simulator.flatten import flatten
from ..devices.simulator.merged_memory import find_private
from ..devices.simulator.run_state import UnsupportedError
from .conditions import GIVE_REFERENCE, RefusedError, name_exchange, refuse_call
from .index_ranges import find_exchange
from .narrowing import narrow
from .tracked import DOUBLE
from .tracking_pass import BEYOND, STATUS, TrackingPass

MOST_ELEMENTS = 2**26
LONG = 2**17
"""Statements of a run from which LLVM's optimizer is worth its time, which is half of all here."""
KEPT = 4
"""Answers: the inputs of a case are asked for its values and for its errors."""


@dataclass(frozen=True)
class Answer:
    """What a run came to.

    Attributes
    ----------
    values, errors : of each parameter that is stored to, by its place among the parameters, in
        float64 and in its shape; NaN and infinity where nothing can be said
    overflow : the largest ratio of the magnitude of an integer, or of a float that is stored to a
        parameter, to what its type holds
    is_outside : whether an index left its buffer
    outside : that access, ``"A[i + 3]"``, where it depends on no data, and its file and line
    ran : whether each of the function's `regions` ran
    """

    values: dict[int, Array]
    errors: dict[int, Array]
    overflow: float
    is_outside: bool
    ran: Array
    outside: tuple[str, str] | None = None

    @property
    def is_exact(self) -> bool:
        """Whether any legal order of the sums gives the same bits."""
        return all(not errors.any() for errors in self.errors.values()) and self.overflow <= 1

    def equals(self, other: Answer) -> bool:
        """Whether another run came to the same numbers."""
        return all(
            np.array_equal(values, other.values[place], equal_nan=True)
            and np.array_equal(self.errors[place], other.errors[place])
            for place, values in self.values.items()
        )

    @property
    def known(self) -> float:
        """The share of the elements of which something can be said; that of the worst output."""
        shares = [
            np.mean(np.isfinite(errors) & ~np.isnan(values)) if errors.size else 1.0
            for errors, values in zip(self.errors.values(), self.values.values(), strict=True)
        ]
        return float(min(shares, default=1.0))


class Evaluation:
    """A function, compiled for being run so. Raises `UnjudgedError` for one that cannot be judged.

    `kernel` is the kernel's name; `arguments` are the function's. `wanted` has, by the places of
    outputs, masks of the elements to compute: of the others 0 comes out.

    Attributes
    ----------
    work : about how many statements a run is
    """

    def __init__(
        self,
        function: Any,
        arguments: Sequence[Tensor],
        kernel: str,
        wanted: Mapping[int, Array] = MappingProxyType({}),
    ) -> None:
        self.kernel, self.arguments, self.wanted = kernel, tuple(arguments), wanted
        if (elements := sum(math.prod(each.shape) for each in arguments)) > MOST_ELEMENTS:
            raise UnjudgedError(
                f"{kernel}: its arguments have {elements:,} elements, and up to {MOST_ELEMENTS:,} "
                "are computed in float64; choose smaller sizes"
            )
        try:
            self.tracked, self._narrowed, self.work = _track(function, wanted)
        except (RefusedError, UnsupportedError) as error:
            raise UnjudgedError(f"{kernel}: its numbers cannot be judged: {error}") from error

        buffers = enumerate(self.tracked.arguments)
        self.stored = {place for place, each in buffers if each is not None and each.is_stored}
        self._answers: dict[Any, tuple[Answer, Sequence[Array]]] = {}
        self._parts: dict[int, tuple[Array, dict[str, Any]]] = {}  # of the last run's inputs

    @functools.cached_property
    def _compiled(self) -> Any:
        """The module's ``main``, compiled by no more passes than plain loops need."""
        target = tvm.target.Target("llvm" if self.work >= LONG else UNOPTIMIZED)
        passes = [
            tvm.tirx.transform.BindTarget(target.with_host(target)),
            tvm.tirx.transform.AnnotateEntryFunc(),
            tvm.tirx.transform.SplitHostDevice(),
            tvm.tirx.transform.MakePackedAPI(),
            tvm.tirx.transform.LowerTVMBuiltin(),
            tvm.tirx.transform.LowerIntrin(),
        ]
        try:
            with convert_tvm_errors("TVM does not compile the program in float64"):
                lowered = tvm.ir.transform.Sequential(passes)(self.tracked.module)
                return tvm.runtime.Executable(tir_to_runtime(lowered, {}, target))[MAIN]
        except DeviceError as error:
            raise UnjudgedError(f"{self.kernel}: its numbers cannot be judged: {error}") from error

    def describe_unrun(self, ran: Array) -> list[str]:
        """A sentence for each of the function's regions that did not run, but for those inside."""
        said = []
        for region, is_run in zip(self.tracked.regions, ran, strict=True):
            if is_run or not (region.outer is None or ran[region.outer]):
                continue
            first, last = region.lines or ("", "")
            where = f"lines {first} to {last}" if first != last else f"line {first}"
            said.append(f"{where if region.lines else 'a part'} never ran: {region.reason}")
        return said

    def run(self, arguments: Sequence[Array]) -> Answer:
        """Run it on all arguments, in their order, of which outputs are as they are before."""
        key = tuple(
            array.tobytes() if place in self.stored else id(array)
            for place, array in enumerate(arguments)
        )
        if key not in self._answers:
            while len(self._answers) >= KEPT:
                del self._answers[next(iter(self._answers))]
            self._answers[key] = self._run(arguments), arguments  # which live as long as their ids
        return self._answers[key][0]

    def _run(self, arguments: Sequence[Array]) -> Answer:
        given: list[Any] = []
        kept: dict[int, dict[str, Any]] = {}
        masks = [self.wanted[place].astype(np.int8) for place in self._narrowed]
        pairs = zip(self.tracked.arguments, [*arguments, *masks], strict=True)
        for place, (buffer, array) in enumerate(pairs):
            if buffer is None:
                given.append(array.item())
                continue
            before, parts = self._parts.get(place, (None, {}))
            if before is not array:
                flat, parts = np.asarray(array).reshape(-1), {}
                wide = flat.astype(np.float64)
                for name, part in buffer.parts.items():
                    made = np.zeros_like(wide)
                    if name == "value":
                        made = wide if str(part.dtype) == DOUBLE else flat.astype(str(part.dtype))
                    elif name in ("magnitude", "unit"):
                        made = np.abs(wide) if name == "magnitude" else get_units(wide)
                    parts[name] = tvm.runtime.tensor(made)
            if buffer.is_stored:
                kept[place] = parts
            else:
                self._parts[place] = array, parts
            given += parts.values()
        status = tvm.runtime.tensor(np.zeros(self.tracked.status_size))
        with convert_tvm_errors("the program in float64 does not run"):
            self._compiled(*given, status)
        (lost, overflow, outside), ran = np.split(status.numpy(), [len(STATUS)])
        values, errors = {}, {}
        for place, parts in kept.items():
            shape = arguments[place].shape
            values[place] = parts["value"].numpy().astype(np.float64).reshape(shape)
            off = np.full(shape, math.inf) if lost else parts["error"].numpy().reshape(shape)
            # What a maximum is where one of the two is NaN differs from compiler to compiler.
            unknown = np.isnan(off) | np.isnan(values[place])
            errors[place] = np.where(unknown, math.inf, off)
            if place in self.wanted:
                for found in (values[place], errors[place]):
                    found[~self.wanted[place]] = 0.0
            facts = dtype_facts(self.arguments[place].dtype)
            if facts.is_float:  # how near the largest magnitude comes to what the type holds
                finite = values[place][np.isfinite(values[place])]
                overflow = max(overflow, float(np.abs(finite).max(initial=0.0)) / facts.largest)
        left = self.tracked.places[int(outside) - BEYOND] if outside >= BEYOND else None
        ran = ran[: len(self.tracked.regions)] > 0
        return Answer(values, errors, float(overflow), bool(outside), ran, left)


def _track(function: Any, wanted: Mapping[int, Array]) -> tuple[TrackingPass, list[int], float]:
    """A function in float64, which of the outputs `wanted` it is narrowed to, and about how many
    statements it runs.
    """
    for parameter in function.params:
        if is_scalar(parameter):
            continue
        shape = [constant(extent) or 1 for extent in parameter.shape]
        expected = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        strides = [constant(stride) for stride in parameter.strides]
        if constant(parameter.elem_offset) != 0 or strides not in ([], expected):
            raise RefusedError(
                f"the elements of its parameter {parameter.name} have strides, or an offset, "
                "that tirstep does not make arguments with; give it a dense buffer"
            )
    for call in find_all(function.body, Call):
        if name_exchange(call) is not None:
            refuse_call(call)
    if find_entries(function.body):
        raise RefusedError(f"its threads are those of a GPU; {GIVE_REFERENCE}")
    if (name := find_exchange(function.body)) is not None:
        raise RefusedError(f"threads exchange values in '{name}'; {GIVE_REFERENCE}")
    module = make_threads_serial(tvm.IRModule({MAIN: function}))
    flat, parameters, *_ = flatten(module[MAIN], in_order=True, at_once=False)
    loaded = {load.source for load in find_all(flat, TensorLoad)}
    plain = frozenset(place for place, buffer in enumerate(parameters) if buffer not in loaded)
    able = find_private(flat, [parameters[place] for place in wanted])
    narrowed = [place for place in wanted if parameters[place] in able]
    masks = {
        parameters[place]: decl_buffer(parameters[place].shape, "int8", "wanted")
        for place in narrowed
    }
    shares = {masks[parameters[it]]: float(wanted[it].mean()) for it in narrowed}
    body, work = narrow(flat, masks, shares)
    tracking = TrackingPass(body, (*parameters, *masks.values()), plain)
    return tracking, narrowed, work
