"""Shared memory of a block behind a guard, at which TVM ends the process."""

from __future__ import annotations

from tvm.ir import IRModule
from tvm.s_tir import SBlockRealize
from tvm.tirx import PrimFunc

from tirstep.transforms.tir import constant, find_all


def find_guarded_allocation(module: IRModule) -> tuple[str, str] | None:
    """A buffer in shared memory that belongs to a block behind a guard, and that block; or None.

    TVM narrows such a buffer by the guard after it has left it (CompactBufferAllocation: "hint_it
    != hint_map_->end()"), in a destructor, which ends the whole process. Blocks in blocks alone
    have buffers of their own; those of all others belong to the root.
    """
    for function in module.functions.values():
        if not isinstance(function, PrimFunc):
            continue
        for realize in find_all(function.body, SBlockRealize):
            if constant(realize.predicate) is not None:
                continue
            for buffer in realize.block.alloc_buffers:
                if buffer.scope().startswith("shared"):
                    return str(buffer.name), str(realize.block.name_hint)
    return None
