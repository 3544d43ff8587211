"""What to do where TVM refuses to lower a schedule, by the words of its refusal."""

from __future__ import annotations

import re

_ADVICE = {
    "Cannot insert syncs inside condition": (
        "a barrier would stand behind a guard that keeps some threads out: choose sizes that "
        "divide, pad the block (pad_block) before it is tiled, or fetch shared memory at a loop "
        "outside of the guard"
    ),
    "buffer_byte_offsets": (
        "a buffer in dynamic shared memory gets no place in the kernel: keep it in scope "
        '"shared", or let one kernel hold all blocks that use it'
    ),
    "has been used before definition": (
        "memory of a block would be placed outside of a loop that it needs: bind or split the loop "
        "before the block is cached, or leave a loop of one iteration as it is"
    ),
    "all the reduction-related loops to be the deepest": (
        "a sum over threads needs its reduction loops innermost, around its block alone, and none "
        "of them unrolled or on another axis: reorder_loops, or leave a loop of one iteration alone"
    ),
    "Expect the ancestor loops to be serial": (
        "a tile that comes through registers needs serial loops around it: prefetch_through_"
        "registers before the loop is unrolled, or not at all"
    ),
    "load_remap_": (
        "two sums over threads would be stored in one buffer: give each a buffer of its own "
        "(cache_write_at), or split one of them"
    ),
    "with a different const bound": (
        "one loop variable would have two extents: let all loops of a thread axis run equally often"
    ),
}
_BARE = re.compile(r"Check failed: .*(is false|\(\S+ vs\. \S+\)) ?:?")
"""A check of TVM's that says nothing but its own condition."""
_UNKNOWN = (
    "TVM gives no other reason: undo the last steps one by one, and order them otherwise, or "
    "choose sizes that divide"
)


def find_advice(reason: str) -> str:
    """What to do about a reason of TVM's; empty where the reason says enough itself."""
    for words, advice in _ADVICE.items():
        if words in reason:
            return advice
    return _UNKNOWN if _BARE.fullmatch(reason.strip()) else ""


def add_advice(reason: str) -> str:
    """A reason of TVM's, and what to do about it where that is known."""
    advice = find_advice(reason)
    return f"{reason.rstrip(' :;')}; {advice}" if advice else reason
