"""Flat twins of the buffers of TIR."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tvm
from tvm.tirx import Var, decl_buffer

from tirstep.transforms.queries import constant

from .faults import UnsupportedError


class FlatBuffers:
    """Finds the flat buffer and index of an access to a buffer of any shape, strides or region."""

    def __init__(self) -> None:
        self._twins: dict[Var, Var] = {}
        self._regions: dict[Var, Any] = {}

    def match(self, buffer: Var, region: Any) -> None:
        """Take a buffer as the region of another one, as a block's match_buffer says."""
        self._regions[buffer] = region

    def declare(self, view: Var, base: Var | None) -> None:
        """Take a flat buffer as another name of one that is known."""
        twin = None if base is None else self._twins.get(base)
        is_same = twin is not None and str(twin.dtype) == str(view.dtype)
        if twin is None or not is_same or len(view.shape) != 1:
            raise UnsupportedError(f"the interpreter does not know the view {view.name}")
        self._twins[view] = twin

    def place(self, buffer: Var, indices: Sequence[Any]) -> tuple[Var, Any]:
        """A flat buffer and the index into it."""
        while buffer in self._regions:
            region = self._regions[buffer]
            skipped = [integer(0)] * (len(region.region) - len(indices))
            shifted = zip(region.region, [*skipped, *indices], strict=True)
            indices, buffer = [one.min + index for one, index in shifted], region.source
        if len(buffer.shape) == 1 and not buffer.strides:
            return self.flatten(buffer), indices[0]
        place: Any = integer(0)
        for index, stride in zip(indices, _strides(buffer), strict=True):
            place = place + index * stride
        return self.flatten(buffer), place

    def flatten(self, buffer: Var) -> Var:
        """The flat twin of a buffer; itself if it is flat."""
        if buffer not in self._twins:
            twin = buffer
            if len(buffer.shape) != 1 or buffer.strides:
                size = (
                    require_constant(buffer.shape[0]) * _strides(buffer)[0] if buffer.shape else 1
                )
                twin = decl_buffer((size,), buffer.dtype, str(buffer.name), scope=buffer.scope())
            self._twins[buffer] = twin
        return self._twins[buffer]


def _strides(buffer: Var) -> list[int]:
    if buffer.strides:
        return [require_constant(stride) for stride in buffer.strides]
    shape = [require_constant(extent) for extent in buffer.shape]
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def require_constant(expression: Any) -> int:
    """The value of a constant; raises `UnsupportedError` for anything else."""
    value = constant(expression)
    if value is None:
        raise UnsupportedError(f"the interpreter wants a constant where {expression} stands")
    return value


def integer(value: int) -> Any:
    """A constant of TIR, of the type of indices."""
    return tvm.tirx.const(value, "int32")
