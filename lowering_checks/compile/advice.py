"""What to do where TVM refuses to lower a schedule, by the words of its refusal."""

from __future__ import annotations

import re
from typing import Any

import tvm
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock
from tvm.tirx import AllocBuffer, BufferStore, For

from tirstep.transforms.tir import find_all, get_axis, list_functions

_GLOBAL_IN_KERNEL = "Cannot allocate global memory"
_ADVICE = {
    "Cannot insert syncs inside condition": (
        "a barrier would be under a guard that excludes some threads: choose sizes that "
        "divide, pad the block (pad_block) before it is tiled, or fetch shared memory at a loop "
        "outside of the guard"
    ),
    "(allow_append_) is": "a condition loads from shared memory: load it into a register first",
    "buffer_byte_offsets": (
        "a buffer in dynamic shared memory is not allocated in the kernel: keep it in scope "
        '"shared", or let one kernel hold all blocks that use it'
    ),
    "has been used before definition": (
        "a block's buffer would be allocated outside of a loop that it needs: bind or split "
        "the loop before the block is cached, or leave a loop of one iteration as it is"
    ),
    "all the reduction-related loops to be the deepest": (
        "a sum over threads needs its reduction loops innermost, around only its block, and "
        "none of them unrolled or on another axis: reorder_loops, or leave a loop of one "
        "iteration as it is"
    ),
    "Expect the ancestor loops to be serial": (
        "a tile that comes through registers needs serial loops around it: prefetch_through_"
        "registers before the loop is unrolled, or not at all"
    ),
    "load_remap_": (
        "two sums over threads would be stored to one buffer: give each a buffer of its own "
        "(cache_write_at), split one of them, or leave the loop around them serial"
    ),
    "(red_buf0": (
        "a sum over threads would be written out several times: leave the loop around it serial, "
        "or give its pipeline 2 stages"
    ),
    "with a different const bound": (
        "one loop variable would have two extents: give all loops of a thread axis one extent"
    ),
}
_BARE = re.compile(r"Check failed: .*(is false|\(\S+ vs\. \S+\)) ?:?")
"""A check of TVM's that says nothing but its own condition."""
_UNKNOWN = (
    "TVM gives no other reason: undo the last steps one by one, try another order, or choose "
    "sizes that divide"
)


def add_advice(reason: str, module: tvm.IRModule | None = None, told: str = "") -> str:
    """A reason of TVM's, as it is told, and what to do about it where that is known, of a module or
    of any."""
    told = told or reason
    if module is not None and (remedy := find_remedy(module, reason)):
        return f"{remedy} ({told})"
    advice = next((advice for words, advice in _ADVICE.items() if words in reason), "")
    if not advice and _BARE.fullmatch(reason.strip()):
        advice = _UNKNOWN
    return f"{told.rstrip(' :;')}; {advice}" if advice else told


def find_remedy(module: tvm.IRModule, reason: str) -> str:
    """What a reason of TVM's means for the scheduled module; empty where that is not known."""
    if _GLOBAL_IN_KERNEL not in reason:
        return ""
    found = []  # intermediate buffers in global memory that one kernel alone writes and reads
    for function in list_functions(module):
        bound = [loop for loop in find_all(function.body, For) if "Idx" in (get_axis(loop) or "")]
        inner = [nested for loop in bound for nested in find_all(loop.body, For)]
        kernels = [loop for loop in bound if not any(loop.same_as(nested) for nested in inner)]
        blocks = find_all(function.body, SBlock)
        buffers = [buffer for block in blocks for buffer in block.alloc_buffers]
        for buffer in (*buffers, *(node.buffer for node in find_all(function.body, AllocBuffer))):
            if str(buffer.scope()) == "global":
                uses = [count for kernel in kernels if (count := _count_uses(kernel, buffer))]
                if len(uses) == 1 and uses[0] == _count_uses(function.body, buffer):
                    found.append(str(buffer.name))
    names = list(dict.fromkeys(found))
    stays = "stays in global memory inside a kernel"
    if len(names) > 1:
        stays = "stay in global memory inside kernels"
    if not names:
        return ""
    return (
        f"{', '.join(names)} {stays}: keep_in_registers where each thread uses its own elements, "
        "or, before the block is placed, cache_write_at into shared memory and inline_producers of "
        "its reader"
    )


def _count_uses(node: Any, buffer: Any) -> int:
    stores = sum(store.buffer.same_as(buffer) for store in find_all(node, BufferStore))
    return stores + sum(load.source.same_as(buffer) for load in find_all(node, TensorLoad))
