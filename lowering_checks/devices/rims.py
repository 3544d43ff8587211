"""Rims: memory around a tensor that no kernel may touch, so that stray stores are seen."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm

from .device import Arrays
from .fault import Fault

RIM_BYTES = 4096
ALIGNMENT = 256
"""In bytes, of a tensor behind its rim: what a GPU gives an allocation, and enough for LLVM."""
FILLERS = tuple(range(0x7B, 0x73, -1))
"""Bytes of rims: large finite numbers in all types, another for each argument, so that what is read
from one rim and stored to another is seen as well."""


class RimmedTensor:
    """A tensor in a device's memory with a rim in front of it and one behind it.

    A rim is as long as the tensor, at least `RIM_BYTES`: an index of a swapped or doubled extent
    still ends in it, and so does no harm to other memory.
    """

    def __init__(self, name: str, array: np.ndarray[Any, Any], place: int, device: Any) -> None:
        self._filler = FILLERS[place % len(FILLERS)]
        self.name, self._dtype, self._shape = name, array.dtype, array.shape
        self.rim = -(-max(array.nbytes, RIM_BYTES) // ALIGNMENT) * ALIGNMENT
        self._inside = slice(self.rim, self.rim + array.nbytes)
        content = np.full(self.rim + array.nbytes + self.rim, self._filler, np.uint8)
        content[self._inside] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._memory = tvm.runtime.tensor(content, device)
        self.tensor = _view(self._memory, array.shape, str(array.dtype), self.rim)

    def read(self) -> tuple[np.ndarray[Any, Any], list[Fault]]:
        """What the tensor holds, and the stray stores: one fault, if there is any."""
        content = self._memory.numpy()
        array = content[self._inside].copy().view(self._dtype).reshape(self._shape)
        count, size = array.size, self._dtype.itemsize
        before = (np.flatnonzero(content[: self.rim] != self._filler) - self.rim) // size
        behind = np.flatnonzero(content[self._inside.stop :] != self._filler) // size + count
        strays = np.unique([*before, *behind])
        if not strays.size:
            return array, []
        text = f"somebody writes {self.name}[{int(strays[0])}], which has {count} elements"
        return array, [Fault("out of bounds", self.name, text, "", int(strays.size))]


def run_in_rims(
    call: Callable[..., object], names: Sequence[str], arguments: Arrays, device: Any
) -> tuple[Arrays, list[Fault]]:
    """Call a compiled function with its arguments in a device's memory, each within rims.

    Returns the arguments as they are afterwards, and the stray stores.
    """
    rimmed = [
        RimmedTensor(name, array, place, device)
        for place, (name, array) in enumerate(zip(names, arguments, strict=True))
    ]
    call(*[one.tensor for one in rimmed])
    read = [one.read() for one in rimmed]
    return [array for array, _ in read], [fault for _, faults in read for fault in faults]


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


_find_address = ctypes.pythonapi.PyCapsule_GetPointer
_find_address.restype = ctypes.c_void_p
_find_address.argtypes = (ctypes.py_object, ctypes.c_char_p)


def _view(memory: Any, shape: tuple[int, ...], dtype: str, start: int) -> Any:
    """A tensor within the bytes of another one, from byte `start` on; it keeps them alive.

    TVM's own view notes the start as an offset, which a compiled function refuses ("Invalid
    byte_offset"); DLPack lets the address of the data say the same.
    """
    capsule = memory._create_view(shape, dtype=dtype, relative_byte_offset=start).__dlpack__()
    head = _DLTensor.from_address(_find_address(capsule, b"dltensor"))
    head.data, head.byte_offset = head.data + head.byte_offset, 0
    return tvm.runtime.from_dlpack(capsule)
