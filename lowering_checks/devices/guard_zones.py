"""Guard zones: memory around a tensor that no kernel may touch, so that stray stores are seen."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm

from ..device import Array, Arrays, DeviceFinding

GUARD_BYTES = 4096
ALIGNMENT = 256
"""In bytes, of a tensor behind its guard zone: what a GPU gives an allocation, and enough for LLVM.
"""
FILLERS = tuple(range(0x7B, 0x73, -1))
"""Bytes of guard zones: large finite numbers in all types, another for each argument, so that what
is loaded from one zone and stored to another is seen as well."""


class GuardedTensor:
    """A tensor in a device's memory with a guard zone in front of it and one behind it.

    A zone is as long as the tensor, at least `GUARD_BYTES`: an index of a swapped or doubled extent
    still lands in it, and so does no harm to other memory.
    """

    def __init__(self, name: str, array: Array, number: int, device: Any) -> None:
        self._filler = FILLERS[number % len(FILLERS)]
        self.name, self._dtype, self._shape = name, array.dtype, array.shape
        self.zone_bytes = -(-max(array.nbytes, GUARD_BYTES) // ALIGNMENT) * ALIGNMENT
        self._inside = slice(self.zone_bytes, self.zone_bytes + array.nbytes)
        content = np.full(array.nbytes + 2 * self.zone_bytes, self._filler, np.uint8)
        content[self._inside] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._memory = tvm.runtime.tensor(content, device)
        # TVM's own view notes where it begins as an offset, which a compiled function refuses
        # ("Invalid byte_offset"); DLPack lets the address of the data say the same.
        begin = {"dtype": str(array.dtype), "relative_byte_offset": self.zone_bytes}
        capsule = self._memory._create_view(array.shape, **begin).__dlpack__()
        head = _DLTensor.from_address(_get_address(capsule, b"dltensor"))
        head.data, head.byte_offset = head.data + head.byte_offset, 0
        self.tensor = tvm.runtime.from_dlpack(capsule)  # which keeps these bytes alive

    def read(self) -> tuple[Array, list[DeviceFinding]]:
        """What the tensor holds, and the stray stores: one finding, if there is any."""
        content = self._memory.numpy()
        array = content[self._inside].copy().view(self._dtype).reshape(self._shape)
        count, size = array.size, self._dtype.itemsize
        before = np.flatnonzero(content[: self.zone_bytes] != self._filler) - self.zone_bytes
        behind = np.flatnonzero(content[self._inside.stop :] != self._filler)
        strays = sorted({*(before // size).tolist(), *(behind // size + count).tolist()})
        if not strays:
            return array, []
        message = f"store to {self.name}[{strays[0]}] ({self.name} has {count} elements)"
        return array, [DeviceFinding("out of bounds", self.name, message, "", len(strays))]


def run_in_guard_zones(
    call: Callable[..., object], names: Sequence[str | None], arguments: Arrays, device: Any
) -> tuple[Arrays, list[DeviceFinding]]:
    """Call a compiled function with its arguments in a device's memory, each within guard zones.

    `names` are None of numbers (arrays of shape ()), which are handed over as such. Returns the
    arguments as they are afterwards, and the stray stores.
    """
    guarded = [
        None if name is None else GuardedTensor(name, array, place, device)
        for place, (name, array) in enumerate(zip(names, arguments, strict=True))
    ]
    pairs = [*zip(guarded, arguments, strict=True)]
    call(*(array.item() if zone is None else zone.tensor for zone, array in pairs))
    results = [(array, []) if zone is None else zone.read() for zone, array in pairs]
    return [array for array, _ in results], [stray for _, strays in results for stray in strays]


class _DLTensor(ctypes.Structure):
    """The head of what DLPack hands over, as its dlpack.h lays it out."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint8 * 4),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


_get_address = ctypes.pythonapi.PyCapsule_GetPointer
_get_address.restype = ctypes.c_void_p
_get_address.argtypes = (ctypes.py_object, ctypes.c_char_p)
