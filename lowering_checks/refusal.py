"""Why TVM does not lower a module, and what to do about it."""

from __future__ import annotations

from typing import Any

import tvm
from tvm.ir.expr import TensorLoad
from tvm.s_tir import SBlock
from tvm.tirx import BufferStore, For

from tirstep.transforms.queries import find_all, find_axis

from .passes import Failure

_GLOBAL_IN_KERNEL = "Cannot allocate global memory"


def explain_refusal(module: tvm.IRModule, failed: Failure) -> str:
    """One sentence: the buffers and the remedy where they are known, and TVM's own reason."""
    remedy = find_remedy(module, failed.reason)
    return f"{remedy} ({failed})" if remedy else str(failed)


def find_remedy(module: tvm.IRModule, reason: str) -> str:
    """What a reason of TVM's means for the scheduled module; empty where that is not known."""
    if _GLOBAL_IN_KERNEL not in reason:
        return ""
    buffers = find_global_in_kernels(module)
    if not buffers:
        return ""
    one = "a kernel" if len(buffers) == 1 else "kernels"
    stays = "stays" if len(buffers) == 1 else "stay"
    return (
        f"{', '.join(buffers)} {stays} in global memory inside {one}: keep_in_registers, or "
        "cache_read_at into shared memory"
    )


def find_global_in_kernels(module: tvm.IRModule) -> list[str]:
    """Intermediate buffers in global memory that one kernel both makes and uses up, by name."""
    found = []
    for _, function in module.functions_items():
        kernels = _find_kernels(function.body)
        for block in find_all(function.body, SBlock):
            for buffer in block.alloc_buffers:
                if str(buffer.scope()) != "global":
                    continue
                users = [kernel for kernel in kernels if _uses(kernel, buffer)]
                if len(users) == 1 and not _is_used_outside(function.body, kernels, buffer):
                    found.append(str(buffer.name))
    return list(dict.fromkeys(found))


def _find_kernels(body: Any) -> list[For]:
    """The outermost loops that are bound to a GPU."""
    bound = [loop for loop in find_all(body, For) if "Idx" in (find_axis(loop) or "")]
    inner = [one for loop in bound for one in find_all(loop.body, For)]
    return [loop for loop in bound if not any(loop.same_as(one) for one in inner)]


def _uses(node: Any, buffer: Any) -> bool:
    return _count_uses(node, buffer) > 0


def _count_uses(node: Any, buffer: Any) -> int:
    stores = sum(one.buffer.same_as(buffer) for one in find_all(node, BufferStore))
    return stores + sum(one.source.same_as(buffer) for one in find_all(node, TensorLoad))


def _is_used_outside(body: Any, kernels: list[For], buffer: Any) -> bool:
    inside = sum(_count_uses(kernel, buffer) for kernel in kernels)
    return _count_uses(body, buffer) > inside
