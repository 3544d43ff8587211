"""TVM's annotations of loops and blocks, and what those of a software pipeline mean."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import For

from .tir import constant, find_all

STAGE = "software_pipeline_stage"
ASYNC = "software_pipeline_async_stages"
ORDER = "software_pipeline_order"
LOCAL_STAGE = "tirx.manifest_shared_memory_local_stage"
SWIZZLE = "permuted_layout"
"""TVM's annotation: rows of 16-bit elements whose chunks of 16 bytes change places."""
ALIGNMENT = "buffer_dim_align"
"""The annotation of storage_align: for a buffer's axis, a factor and an offset of its stride."""
OWN_LANES = "tirstep_own_lanes"
"""Ours, of the root block of a function that computes with elements of fragments."""
TMA_IN_FLIGHT = "tirstep_tma_in_flight"
"""Ours, of a pipeline by the TMA: how many groups of wgmma may read tiles of iterations before."""


def computes_first(loop: For) -> bool:
    """Whether a pipeline issues its asynchronous copies behind what computes with earlier ones."""
    notes = loop.annotations
    if ASYNC not in notes or STAGE not in notes or ORDER not in notes:
        return False
    early = {int(stage) for stage in notes[ASYNC]}
    placed = [
        (int(at), int(stage) in early) for stage, at in zip(notes[STAGE], notes[ORDER], strict=True)
    ]
    return not min(placed)[1]


def count_statements(part: Any) -> int:
    """How many statements TVM makes of one in a pipeline's body, when it reads the note.

    A pipeline inside becomes three: what comes before, the loop, what comes after. A copy through
    registers becomes a load and a store, and a sum without a loop of its own and without a guard
    its beginning and an addition.
    """
    if isinstance(part, For) and STAGE in part.annotations:
        return 3
    if isinstance(part, SBlockRealize) and part.block.init is not None:
        return 2 if constant(part.predicate) == 1 else 1  # which a guard holds together
    blocks = find_all(part, SBlock)
    return 2 if len(blocks) == 1 and LOCAL_STAGE in blocks[0].annotations else 1
