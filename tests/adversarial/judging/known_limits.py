"""The misses, false alarms and refusals that are known, each with its reason.

A program that is not here is caught if it is wrong and found right if it is right. A limit that
holds no longer must go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from programs import PROGRAMS

from .devices import FALSE_ALARM, HOST, MISSED, REFUSED, SIMULATOR

_UNKNOWN = re.compile(r"while |thread_return|shuffle_xor")
_ASSEMBLY = re.compile(r"cp_async_raw|copy_where|ptx_legacy")


@dataclass(frozen=True)
class Limit:
    """What a device does with some programs, and why."""

    device: str
    outcome: str
    reason: str
    names: tuple[str, ...]


LIMITS = (
    Limit(
        SIMULATOR,
        MISSED,
        "it takes an ldmatrix by its operands, TVM's generator by the type of the call as well",
        ("transposed ldmatrix whose call has no type",),
    ),
    Limit(
        SIMULATOR,
        MISSED,
        "one interval between barriers is counted for all blocks of a batch",
        (
            "barrier in one block, and the other needs it too",
            "block of one round has no barrier of its own",
        ),
    ),
    Limit(
        SIMULATOR,
        MISSED,
        "of each cell one reader is kept, and readers of other blocks are forgotten at a barrier",
        (
            "stencil in place over blocks, own cell first",
            "cell that both blocks load and one stores behind a barrier",
        ),
    ),
    Limit(
        SIMULATOR,
        MISSED,
        "a lane and its source must take part, and not all lanes that the mask names",
        ("half a warp shuffles with the mask of all lanes",),
    ),
    Limit(
        SIMULATOR,
        MISSED,
        "whether a cell was written is known of its place, and not of each buffer that lies there",
        (
            "load of an unwritten buffer in a dead one's place",
            "unwritten half of a buffer over two dead ones",
        ),
    ),
    Limit(
        SIMULATOR,
        MISSED,
        "what all threads share is a Python integer",
        ("int32 overflow of an index that all threads share",),
    ),
    Limit(
        SIMULATOR,
        MISSED,
        "narrow integers wrap, as TIR says, and do not promote, as C says",
        (
            "int8 * int8, widened",
            "int8 + int8 compared",
            "uint8 - uint8, widened",
            "int16 * int16, widened",
        ),
    ),
    Limit(
        SIMULATOR,
        MISSED,
        "NumPy defines what C leaves undefined",
        (
            "floor division by a loaded zero",
            "remainder by a loaded zero",
            "left shift by a loaded 32",
            "smallest int32 divided by a loaded -1",
            "float 3e9 to int32",
        ),
    ),
    Limit(
        SIMULATOR,
        MISSED,
        "shared memory is held against its limits scope by scope, local memory not at all",
        (
            "40 KB of static and 200 KB of dynamic shared memory",
            "32 KB of static and 196 KB of dynamic shared memory",
            "600000 bytes of local memory in a thread",
        ),
    ),
    Limit(
        SIMULATOR,
        MISSED,
        "TVM's simplifier folds them in passes behind the last one that the simulator runs",
        (
            "NaN found by x != x",
            "infinity minus itself",
            "floor division of a negative int8 that was a uint32",
        ),
    ),
    Limit(
        SIMULATOR,
        MISSED,
        "it rounds as IEEE says, and NVIDIA's compiler is told --use_fast_math",
        ("subnormal float32 doubled", "rounding error of a product, by subtraction"),
    ),
    Limit(
        SIMULATOR,
        FALSE_ALARM,
        "values are not compared where several threads store one and load it back",
        (
            "all threads store one value and load it back",
            "blocks store the same values and load their own",
        ),
    ),
    Limit(
        SIMULATOR,
        FALSE_ALARM,
        "TVM loads element by element where it cannot prove the alignment",
        ("vector load from element 2",),
    ),
    Limit(
        SIMULATOR,
        FALSE_ALARM,
        "NumPy's maximum and minimum keep NaN, its casts do not saturate",
        (
            "max(NaN, 0)",
            "min(NaN, 3) and min(3, NaN)",
            "NaN and infinities to int32",
            "NaN and infinities to uint32",
            "NaN and infinities of float64 to int32",
            "NaN and infinities of float64 to uint32",
        ),
    ),
    Limit(
        SIMULATOR,
        REFUSED,
        "it does not know while, return and shuffles by xor",
        tuple(one.name for one in PROGRAMS if _UNKNOWN.search(one.script)),
    ),
    Limit(
        HOST,
        REFUSED,
        "the generated source has a GPU's instructions in assembly, which no C++ compiler for a "
        "CPU knows",
        tuple(one.name for one in PROGRAMS if _ASSEMBLY.search(one.script)),
    ),
    Limit(
        HOST,
        MISSED,
        "threads run one at a time from wait to wait: what differs must differ between two orders, "
        "and here it does not",
        (
            "cell that both blocks load and one stores behind a barrier",
            "all threads add to one cell",
        ),
    ),
    Limit(
        HOST,
        MISSED,
        "what nobody wrote is found where other garbage makes other results: here the numbers "
        "that were there are the same both times, or NaN",
        (
            "output loaded before anything stored to it",
            "shuffle of a register that half of the lanes never wrote",
            "load of an unwritten buffer in a dead one's place",
            "unwritten half of a buffer over two dead ones",
            "register written in one arm and read by all",
        ),
    ),
    Limit(
        HOST,
        MISSED,
        "lanes that the mask names are waited for wherever they shuffle",
        ("each half of a warp its own shuffle with the mask of all lanes",),
    ),
    Limit(
        HOST,
        MISSED,
        "the CPU computes as x86 and IEEE say, and not as a GPU",
        (
            "float 3e9 to int32",
            "left shift by a loaded 32",
            "subnormal float32 doubled",
            "rounding error of a product, by subtraction",
        ),
    ),
    Limit(
        HOST,
        FALSE_ALARM,
        "a CPU makes the smallest number of what does not fit",
        (
            "NaN and infinities to int32",
            "NaN and infinities to uint32",
            "NaN and infinities of float64 to int32",
            "NaN and infinities of float64 to uint32",
        ),
    ),
    Limit(
        HOST,
        MISSED,
        "static and dynamic shared memory are not added up, and local memory has no limit",
        (
            "40 KB of static and 200 KB of dynamic shared memory",
            "32 KB of static and 196 KB of dynamic shared memory",
            "600000 bytes of local memory in a thread",
        ),
    ),
    Limit(
        HOST,
        FALSE_ALARM,
        "threads that have ended count at a barrier",
        ("warp that returns before a barrier of the others",),
    ),
)


def find_limits(device: str) -> Mapping[str, Limit]:
    """The limits of a device by the names of programs."""
    return {name: limit for limit in LIMITS if limit.device == device for name in limit.names}
