"""Facts of launches that the simulator counted: of the first GPU block of each, as it runs."""

from __future__ import annotations

from collections.abc import Iterator

from ..devices.simulator.counts import Counts
from .model import SCOPES, Fact

GROUP = "first GPU block, simulated"


def counted_rows(counts: Counts, least: int | None) -> Iterator[Fact]:
    """The counts as rows; a scope that the block does not access has none.

    `least` are the bytes that the kernel must move at least; None where they are not known.
    """
    yield Fact(GROUP, "counted_barriers", "barriers passed", counts.barriers)
    by_warp = {
        "cp.async": counts.async_copies,
        "ldmatrix": counts.matrix_loads,
        "mma": counts.matrix_multiplies,
    }
    for name, count in by_warp.items():
        yield Fact(GROUP, f"counted_{name.replace('.', '_')}", f"{name}, by warp", count)
    for scope in SCOPES:
        if scope not in counts.scopes:
            continue
        one = counts.scopes[scope]
        yield Fact(GROUP, f"{scope}_requests", f"{scope} requests, by warp", one.requests)
        yield Fact(GROUP, f"{scope}_traffic", f"{scope} traffic", one.bytes, "bytes")
        if scope == "global":
            yield Fact(GROUP, "sectors", "32-byte sectors", one.sectors)
            times = round(counts.traffic / least, 2) if least else None
            name = "traffic of all GPU blocks, as a multiple of the least"
            yield Fact(GROUP, "traffic_over_least", name, times)
        else:
            per_request = round(one.wavefronts_per_request, 2)
            yield Fact(GROUP, "wavefronts", "wavefronts", one.wavefronts)
            yield Fact(GROUP, "wavefronts_per_request", "wavefronts per request", per_request)
            yield Fact(GROUP, "bank_conflicts", "bank conflicts", one.bank_conflicts)
