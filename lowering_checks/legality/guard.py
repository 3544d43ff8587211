"""The legality verifier that runs after every transform, and what it remembers.

A transform may fail in an unforeseen way. So the modules before and after it are compared: no block
is lost, and none of the rules (rules.py) finds in the new module what it did not find in the old.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from tvm.ir import IRModule
from tvm.s_tir import SBlockRealize
from tvm.tirx import AllocBuffer, DeclBuffer, PrimFunc
from tvm_ffi import StructuralKey

from tirstep.transforms.schedule import Change, Fault
from tirstep.transforms.tir import LARGEST_INDEX, constant, find_all, get_places, list_functions

from .block_summary import summarize
from .reads import find_leaks
from .rules import OF_LOWERING, OF_PLACES, OF_SIZES, REPORT, SMALLER, Rule

_RENAMED = "_update"
"""How TVM renames a block whose initialization becomes a block of its own."""
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
            return leak
    old, new = summarize(before), summarize(after)
    for name, blocks in () if change.inlines else old.blocks.items():
        if new.blocks[name] + new.blocks[name + _RENAMED] - old.blocks[name + _RENAMED] < blocks:
            return Fault(f"block '{name}' would be gone", f"{REPORT}, or do this step earlier")
    for name in old.outputs - new.outputs:
        return Fault(f"the tensor '{name}' would not be written any more", REPORT)
    if (fault := find_first(OF_SIZES, before, after)) is not None:
        return fault
    largest = max(old.large.values(), default=0)  # a copy is no larger than what there was
    for name, elements in new.large.items():
        if name not in old.large and elements > largest:
            return Fault(
                f"'{name}' would have {elements} elements, and indices of 32 bits end at "
                f"{LARGEST_INDEX}",
                SMALLER,
            )
    if (fault := find_first(OF_PLACES, before, after)) is not None:
        return fault
    if (guarded := _find_guarded_allocation(after)) is not None:  # TVM cannot be asked about it
        if _find_guarded_allocation(before) is not None:
            return None
        return Fault(
            f"'{guarded[0]}' would be shared memory of block '{guarded[1]}', which is under a "
            "guard, and TVM crashes when it lowers that",
            "choose sizes that divide for the loops around that block, or scope='local'",
        )
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
    functions = [function for _, function in after.functions_items()]
    is_tir = all(isinstance(function, PrimFunc) for function in functions)  # others are like none
    sound = set[bool]()
    if is_tir:
        sound = _recall(StructuralKey(functions), _list_names(functions))  # type: ignore[call-arg]
    if True in sound or (sound and not asks_reads):
        return None
    is_sound = True
    for rule in (rule for rule in OF_LOWERING if asks_reads or not rule.needs_motion):
        is_empty, fault = rule.find_new(before, after)
        if fault is not None:
            return fault
        is_sound = is_sound and is_empty
    sound |= {asks_reads} if is_sound else set()
    return None


def _find_guarded_allocation(module: IRModule) -> tuple[str, str] | None:
    """A buffer in shared memory that belongs to a block behind a guard, and that block; or None.

    TVM narrows such a buffer by the guard after it has left it (CompactBufferAllocation: "hint_it
    != hint_map_->end()"), in a destructor, which ends the whole process. Blocks in blocks alone
    have buffers of their own; those of all others belong to the root.
    """
    for function in list_functions(module):
        for realize in find_all(function.body, SBlockRealize):
            if constant(realize.predicate) is not None:
                continue
            for buffer in realize.block.alloc_buffers:
                if buffer.scope().startswith("shared"):
                    return str(buffer.name), str(realize.block.name_hint)
    return None


# What was found sound before: recipes of a ladder begin with the same steps, and one schedule is
# made again where sizes are tried, tests run, or a file is watched. What is found depends on a
# module's functions and on the names of its buffers alone.

_MOST = 256
"""Modules that are kept: some ten megabytes."""


def _list_names(functions: list[PrimFunc]) -> tuple[str, ...]:
    """Those of buffers: names of loops and blocks may be other ones."""
    named = [variable for function in functions for variable in function.params]
    for body in [function.body for function in functions]:
        named += [it for place in get_places(body) for it in place.block.alloc_buffers]
        named += [it.buffer for kind in (AllocBuffer, DeclBuffer) for it in find_all(body, kind)]
    return tuple(str(it.name) for it in named)


@functools.lru_cache(maxsize=_MOST)
def _recall(_functions: StructuralKey, _names: tuple[str, ...]) -> set[bool]:
    """Where nothing was found in modules like this one: True if lost reads were asked for, too."""
    return set()
