"""ncu's table of raw metrics, and the few of them that are kept.

Names and meanings: NVIDIA, "Nsight Compute: Profiling Guide", metrics reference.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ..errors import BenchError

SECTIONS = (
    "SpeedOfLight",
    "ComputeWorkloadAnalysis",
    "MemoryWorkloadAnalysis",
    "MemoryWorkloadAnalysis_Tables",
    "LaunchStats",
    "Occupancy",
    "WarpStateStats",
)
"""What ncu is asked for: sections, since it knows which metrics of them a GPU has."""

COUNTERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "sm_pct": ("sm__throughput.avg.pct_of_peak_sustained_elapsed",),
        "memory_pct": ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",),
        "dram_pct": (
            "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
            "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        ),
        "l2_hit_pct": ("lts__t_sector_hit_rate.pct",),
        "occupancy_pct": ("sm__warps_active.avg.pct_of_peak_sustained_active",),
        "registers": ("launch__registers_per_thread",),
        "waves": ("launch__waves_per_multiprocessor",),
        "ipc": ("sm__inst_executed.avg.per_cycle_active",),
        "issue_pct": (
            "sm__inst_issued.avg.pct_of_peak_sustained_active",
            "sm__inst_issued.avg.pct_of_peak_sustained_elapsed",
        ),
        "fma_pct": (
            "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
            "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
            "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_elapsed",
        ),
    }
)
"""What is kept, and the metrics that have it: the first that a GPU has counts."""
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"
DURATION = "gpu__time_duration.sum"
STALL = ("smsp__average_warps_issue_stalled_", "_per_issue_active.ratio")
MICROSECONDS: Mapping[str, float] = MappingProxyType(
    {
        "ns": 1e-3,
        "nsecond": 1e-3,
        "us": 1.0,
        "usecond": 1.0,
        "ms": 1e3,
        "msecond": 1e3,
        "s": 1e6,
        "second": 1e6,
    }
)


@dataclass(frozen=True)
class KernelProfile:
    """One launch of one kernel.

    Attributes
    ----------
    grid, block : as ncu writes them, ``(16, 8, 1)``
    duration_us : under the profiler, whose clocks and caches are not those of a benchmark
    counters : by the names of `COUNTERS`, and ``"bank_conflicts"`` of shared memory; a metric that
        the GPU does not have is left out
    stalls : of the time between two instructions of a warp, the share that it spends in each state,
        0 to 1; ``"selected"``, when it issues, is one of them
    """

    name: str
    grid: str
    block: str
    duration_us: float
    counters: Mapping[str, float]
    stalls: Mapping[str, float]


def read_table(text: str) -> list[KernelProfile]:
    """The launches in what ``ncu --csv --page raw`` printed, in their order.

    Lines before the table and lines of ncu itself (``==PROF==``) are skipped. Raises `BenchError`
    where there is no table, and where a launch has no duration.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("==")]
    start = next((n for n, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise BenchError("ncu printed no table of metrics; see what it says without tirstep")
    header, *rows = csv.reader(lines[start:])
    if not rows or rows[0][0]:
        raise BenchError("ncu's table has no line of units; ncu of CUDA 11 or later prints one")
    units = dict(zip(header, rows[0], strict=False))
    whole = [row for row in rows[1:] if len(row) == len(header)]
    return [_read_launch(dict(zip(header, row, strict=True)), units) for row in whole]


def _read_launch(cells: Mapping[str, str], units: Mapping[str, str]) -> KernelProfile:
    name = cells["Kernel Name"].split("(")[0]
    duration = _number(cells.get(DURATION, ""))
    unit = units.get(DURATION, "")
    if duration is None or unit not in MICROSECONDS:
        raise BenchError(
            f"ncu counted no {DURATION} of {name} (its unit is '{unit}'); may it read the "
            "counters of this GPU?"
        )
    return KernelProfile(
        name=name,
        grid=cells.get("Grid Size", ""),
        block=cells.get("Block Size", ""),
        duration_us=duration * MICROSECONDS[unit],
        counters=_read_counters(cells),
        stalls=_read_stalls(cells),
    )


def _read_counters(cells: Mapping[str, str]) -> dict[str, float]:
    counters = {}
    for name, metrics in COUNTERS.items():
        values = [_number(cells.get(metric, "")) for metric in metrics]
        if (value := next((one for one in values if one is not None), None)) is not None:
            counters[name] = value
    total = _number(cells.get(f"{CONFLICTS}.sum", ""))
    parts = [_number(cells.get(f"{CONFLICTS}_op_{op}.sum", "")) for op in ("ld", "st")]
    if total is None and any(part is not None for part in parts):
        total = math.fsum(part or 0.0 for part in parts)
    if total is not None:
        counters["bank_conflicts"] = total
    return counters


def _read_stalls(cells: Mapping[str, str]) -> dict[str, float]:
    """Cycles in each state for each issued instruction, as shares of all of them."""
    before, after = STALL
    cycles = {
        metric.removeprefix(before).removesuffix(after): _number(cell) or 0.0
        for metric, cell in cells.items()
        if metric.startswith(before) and metric.endswith(after) and "not_issued" not in metric
    }
    total = math.fsum(cycles.values())
    return {state: of / total for state, of in cycles.items() if of > 0} if total else {}


def _number(cell: str) -> float | None:
    """A cell's number; None for ``n/a``, ``nan`` and nothing."""
    try:
        value = float(cell.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def find_longest(launches: Sequence[KernelProfile]) -> KernelProfile:
    """Of the kernels of one recipe, the one that takes the longest."""
    return max(launches, key=lambda one: one.duration_us)
