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

_ASSEMBLY = re.compile(r"cp_async_raw|copy_where|ptx_legacy|T\.ptx|T\.cuda\.cluster_sync")


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
        "it rounds as IEEE says, and NVIDIA's compiler is told --use_fast_math",
        ("subnormal float32 doubled", "rounding error of a product, by subtraction"),
    ),
    Limit(
        HOST,
        REFUSED,
        "the generated source has a GPU's instructions in assembly, which no C++ compiler for a "
        "CPU knows",
        tuple(program.name for program in PROGRAMS if _ASSEMBLY.search(program.script)),
    ),
    Limit(
        HOST,
        MISSED,
        "threads run one at a time from wait to wait: what differs must differ between two orders, "
        "and here it does not",
        (
            "cell that both blocks load and one stores behind a barrier",
            "all threads add to one cell",
            "histogram of all threads in one array",
        ),
    ),
    Limit(
        HOST,
        MISSED,
        "what nobody wrote is found where other garbage makes other results: the values of a dead "
        "buffer are the same in all runs",
        (
            "load of an unwritten buffer in a dead one's place",
            "unwritten half of a buffer over two dead ones",
        ),
    ),
    Limit(
        HOST,
        MISSED,
        "the CPU rounds as IEEE says, and NVIDIA's compiler is told --use_fast_math",
        ("subnormal float32 doubled",),
    ),
    Limit(
        HOST,
        FALSE_ALARM,
        "a CPU makes something else of floats beyond the range of an integer than a GPU: the "
        "device says so",
        (
            "NaN and infinities to int32",
            "NaN and infinities to uint32",
            "NaN and infinities of float64 to int32",
            "NaN and infinities of float64 to uint32",
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
