"""Tiles that a warpgroup's instructions read by descriptors, and where TVM puts them.

TVM makes one buffer of all dynamic shared memory, in which tiles and whatever else lies there come
one behind the other. A tile whose rows are swizzled must begin at a multiple of eight of its rows:
its instructions take the swizzle from the address.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tvm.ir import Call, IRModule
from tvm.s_tir.transform import MergeSharedMemoryAllocations
from tvm.tirx import AllocBuffer, AttrStmt

from tirstep.transforms.hopper.wgmma_intrinsics import CHUNK_BYTES, CODES
from tirstep.transforms.pass_options import lower_around
from tirstep.transforms.tir import cached_by_module, constant, find_all, find_axes, is_among
from tirstep.tvm_compat import get_op_name

from .storage_reuse import find_offset

_SYNCHRONIZING = "s_tir.ThreadSync"
_ENCODING = "wgmma_encode_matrix_descriptor"
_WIDTHS = {code: width for width, code in CODES.items()}


class MisplacedTile(NamedTuple):
    """A tile that begins where its swizzle does not.

    Attributes
    ----------
    width, repeat : bytes of the swizzle, and of eight rows, after which it repeats
    """

    buffer: str
    width: int
    repeat: int


@cached_by_module(4)
def find_misplaced_tiles(module: IRModule) -> list[MisplacedTile]:
    """The tiles that would begin at no multiple of what their swizzle repeats after.

    TVM's passes are run where there are descriptors. Empty where it does not lower.
    """
    if not any(_find_encodings(function.body) for _, function in module.functions_items()):
        return []
    around = lower_around(module, [_SYNCHRONIZING] * 2).get(_SYNCHRONIZING)
    if around is None:
        return []
    merged = MergeSharedMemoryAllocations()(around.after)
    found: list[MisplacedTile] = []
    for variable, function in around.after.functions_items():
        kernels = (_find_kernels(each.body) for each in (function, merged[variable]))
        for kernel, new_kernel in zip(*kernels, strict=True):
            static = _count_static_bytes(kernel)
            calls = (_find_encodings(each) for each in (kernel, new_kernel))
            for old, new in zip(*calls, strict=True):
                width = _WIDTHS.get(constant(old.args[-1]) or 0, CHUNK_BYTES)
                tile = MisplacedTile(_name(old.args[1]), width, 8 * width)
                begin = _find_begin(old.args[1], new.args[1])
                if width > CHUNK_BYTES and (begin is None or (static + begin) % tile.repeat):
                    found.append(tile)
    return list(dict.fromkeys(found))


def _find_encodings(body: Any) -> list[Any]:
    return [call for call in find_all(body, Call) if get_op_name(call).endswith(_ENCODING)]


def _find_kernels(body: Any) -> list[Any]:
    launches = find_axes(body)
    inner = [node for launch in launches for node in find_all(launch.body, AttrStmt)]
    return [launch for launch in launches if not is_among(launch, inner)]


def _count_static_bytes(kernel: Any) -> int:
    """The static shared memory of a kernel, behind which a GPU puts the dynamic one.

    CUDA is told to align that to 64 bytes only, so that static memory moves it.
    """
    buffers = [node.buffer for node in find_all(kernel, AllocBuffer)]
    return sum(
        math.prod(constant(extent) or 0 for extent in buffer.shape) * buffer.dtype.itemsize
        for buffer in buffers
        if str(buffer.scope()) == "shared"
    )


def _name(pointer: Any) -> str:
    """The name of a pointer's buffer, of which it may be a view."""
    data = pointer.args[1]
    return str(data.args[0].name if isinstance(data, Call) else data.name)


def _find_begin(old: Any, new: Any) -> int | None:
    """The byte of dynamic shared memory at which a pointer's buffer begins.

    What counts is what was added to its index: that itself may be a variable by then.
    """
    dtype, _, index, *_ = old.args
    offset = find_offset(index, new.args[2])
    return None if offset is None else offset * int(dtype.ty.dtype.itemsize)
