"""Invariants that are checked after every transform, behind its own checks.

A transform may fail in an unforeseen way. So the functions before and after it are
compared: no block is lost, every buffer that is read is written, and in the same life of it, every
loop runs at least once, TVM loses no guard, and lowers pipelines and sums to what they say.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvm.ir import IRModule

from tirstep.transforms.schedule import Change, Fault
from tirstep.transforms.tir import (
    LARGEST_INDEX,
)

from .block_summary import Summary, summarize
from .guarded_allocations import find_guarded_allocation
from .reads import blame_leak, find_leaks
from .rules import OF_LOWERING, OF_PLACES, OF_SIZES, Rule
from .sound import recall

_RENAMED = "_update"
"""How TVM renames a block whose initialization becomes a block of its own."""
_REPORT = "report it, with the steps that led here"
_SMALLER = "choose smaller sizes, or give the kernel int64 loops"
_LOOPS_ALONE = {
    "Annotate",
    "Bind",
    "Fuse",
    "GetChildBlocks",
    "GetConsumers",
    "GetLoops",
    "GetProducers",
    "GetSBlock",
    "Parallel",
    "Reorder",
    "Split",
    "StorageAlign",
    "Unannotate",
    "Unroll",
    "Vectorize",
}
"""Primitives that move no block, so that each still finds what it found before."""
_SHARING = {"Bind", "CacheRead", "CacheWrite", "ComputeAt", "ReverseComputeAt", "SetScope"}
"""Primitives that decide whose memory a block reads. Behind others TVM may tell less of that."""


def find_fault(change: Change) -> Fault | None:
    """What a change lost or broke in a module, or None."""
    before, after, primitives = change.before, change.after, change.primitives
    if primitives is None or not _SHARING.isdisjoint(primitives):
        for leak in find_leaks(after).values():
            return blame_leak(leak)
    old, new = summarize(before), summarize(after)
    for name, blocks in () if change.inlines else old.blocks.items():
        if new.blocks[name] + new.blocks[name + _RENAMED] - old.blocks[name + _RENAMED] < blocks:
            return Fault(f"block '{name}' would be gone", f"{_REPORT}, or do this step earlier")
    for name in old.outputs - new.outputs:
        return Fault(f"the tensor '{name}' would not be written any more", _REPORT)
    fault = (
        find_first(OF_SIZES, before, after)
        or _find_larger(old, new)
        or find_first(OF_PLACES, before, after)
    )
    if fault is not None:
        return fault
    if (guarded := find_guarded_allocation(after)) is not None:  # TVM cannot be asked about it
        return _find_guarded_tile(before, *guarded)
    moves_blocks = primitives is None or not _LOOPS_ALONE.issuperset(primitives)
    return find_wrong_lowering(before, after, asks_reads=moves_blocks)


def find_first(rules: Iterable[Rule], before: IRModule, after: IRModule) -> Fault | None:
    """The first fault that rules find in a module, and not in the one before."""
    faults = (rule.find_new(before, after)[1] for rule in rules)
    return next((fault for fault in faults if fault is not None), None)


def find_wrong_lowering(before: IRModule, after: IRModule, *, asks_reads: bool) -> Fault | None:
    """What TVM would make another program of in a module, and would not have in the one before.

    Whether reads are lost is asked on demand: loops alone lose none.
    """
    known = recall(after)
    if known.is_sound and (known.has_all_reads or not asks_reads):
        return None
    is_sound = True
    for rule in (rule for rule in OF_LOWERING if asks_reads or not rule.is_moved):
        is_empty, fault = rule.find_new(before, after)
        if fault is not None:
            return fault
        is_sound = is_sound and is_empty
    known.is_sound = is_sound
    known.has_all_reads = is_sound and asks_reads
    return None


def _find_guarded_tile(before: IRModule, buffer: str, block: str) -> Fault | None:
    if find_guarded_allocation(before) is not None:
        return None
    return Fault(
        f"'{buffer}' would be shared memory of block '{block}', which stands behind a guard, and "
        "TVM ends the process where it lowers that",
        "choose sizes that divide for the loops around that block, or scope='local'",
    )


def _find_larger(old: Summary, new: Summary) -> Fault | None:
    """A tensor that is too large: a copy of one is no larger than what the kernel had before."""
    largest = max(old.large.values(), default=0)
    for name, elements in new.large.items():
        if name not in old.large and elements > largest:
            return Fault(
                f"'{name}' would have {elements} elements, and indices of 32 bits end at "
                f"{LARGEST_INDEX}",
                _SMALLER,
            )
    return None
