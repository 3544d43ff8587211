"""GPU programs whose status, right or wrong, is known by construction, by topic."""

from . import (
    arithmetic,
    async_copies,
    barriers,
    bulk_copies,
    clusters,
    global_memory,
    launches,
    limits,
    loop_buffers,
    merged_memory,
    nests,
    ring_buffers,
    shuffles,
    tails,
    tensor_cores,
    tensor_tails,
    types,
    vectors,
    warpgroups,
)
from .program import KINDS, RIGHT, WRONG, Program

FAMILIES = (
    barriers,
    global_memory,
    launches,
    shuffles,
    merged_memory,
    loop_buffers,
    async_copies,
    ring_buffers,
    bulk_copies,
    clusters,
    tensor_cores,
    tensor_tails,
    warpgroups,
    vectors,
    tails,
    arithmetic,
    types,
    nests,
    limits,
)
PROGRAMS: tuple[Program, ...] = tuple(program for family in FAMILIES for program in family.PROGRAMS)

__all__ = ["KINDS", "PROGRAMS", "RIGHT", "WRONG", "Program"]
