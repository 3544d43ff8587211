"""What the profiler counted for a rung, in a table and in a few sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from tirstep.bench.profile.counters import KernelProfile, find_longest
from tirstep.bench.profile.results import ProfileRun, RecipeProfile
from tirstep.bench.tables import NOTHING, Table

BUSY = 60.0
"""Percent of a peak below which nothing is busy enough to be what limits a kernel: Nsight Compute's
rule for its section "Speed Of Light"."""

COLUMNS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "SM": ("sm_pct", "{:.0f} %"),
        "memory": ("memory_pct", "{:.0f} %"),
        "DRAM": ("dram_pct", "{:.0f} %"),
        "L2 hits": ("l2_hit_pct", "{:.0f} %"),
        "FMA pipe": ("fma_pct", "{:.0f} %"),
        "issue slots": ("issue_pct", "{:.0f} %"),
        "IPC": ("ipc", "{:.2f}"),
        "occupancy": ("occupancy_pct", "{:.0f} %"),
        "registers": ("registers", "{:.0f}"),
        "bank conflicts": ("bank_conflicts", "{:,.0f}"),
    }
)
STATES: Mapping[str, str] = MappingProxyType(
    {
        "long_scoreboard": "data from global memory",
        "short_scoreboard": "data from shared memory",
        "barrier": "the other warps at a barrier",
        "mio_throttle": "a place in the queue of shared memory",
        "lg_throttle": "a place in the queue of global memory",
        "tex_throttle": "a place in the queue of the texture unit",
        "math_pipe_throttle": "a pipe that computes",
        "wait": "the fixed latency of an instruction",
        "dispatch_stall": "the dispatcher",
        "no_instruction": "instructions to be fetched",
        "branch_resolving": "the target of a branch",
        "imc_miss": "constants",
        "drain": "stores at the end",
        "membar": "a memory fence",
    }
)
"""What a warp waits for in a state; the profiler's own name is given beside it."""
AT_WORK = ("selected", "not_selected")
"""States in which a warp issues, or could: no stall."""


def make_counter_table(profile: RecipeProfile) -> Table:
    """A row for each kernel of a recipe."""
    header = ["kernel", "grid × block", "µs", *COLUMNS]
    rows = [
        [
            f"`{kernel.name}`",
            f"{_extents(kernel.grid)} × {_extents(kernel.block)}",
            f"{kernel.duration_us:,.1f}",
            *(_cell(kernel, *column) for column in COLUMNS.values()),
        ]
        for kernel in profile.kernels
    ]
    return Table(header, rows, len(header) - 2)


def describe_limit(profile: RecipeProfile, run: ProfileRun) -> str:
    """What binds the longest kernel of a recipe, and what its warps wait for."""
    kernel = find_longest(profile.kernels)
    sentences = [_name_limit(kernel), _name_waves(kernel, run), _name_stalls(kernel)]
    text = " ".join(one for one in sentences if one)
    if len(profile.kernels) > 1:
        return f"Of `{kernel.name}`, which takes the longest: {text}"
    return text


def _name_limit(kernel: KernelProfile) -> str:
    of_peak = {
        "the SMs": kernel.counters.get("sm_pct"),
        "the paths to memory and caches": kernel.counters.get("memory_pct"),
        "DRAM": kernel.counters.get("dram_pct"),
    }
    known = {name: value for name, value in of_peak.items() if value is not None}
    if not known:
        return ""
    # Where DRAM is the busiest of the paths to memory, both have its value.
    busiest = max(known, key=lambda name: (round(known[name]), name == "DRAM"))
    others = ", ".join(f"{name} {known[name]:.0f} %" for name in known if name != busiest)
    told = f"{known[busiest]:.0f} % of the peak"
    rest = f" ({others})" if others else ""
    if known[busiest] < BUSY:
        return (
            f"Latency binds it: nothing is busy, {busiest} the most at {told}{rest}, and less than "
            f"{BUSY:.0f} % means waiting."
        )
    return f"Bound by {busiest}, at {told}{rest}."


def _name_waves(kernel: KernelProfile, run: ProfileRun) -> str:
    """Too few blocks for the GPU, where that is so."""
    blocks = 1
    for extent in re.findall(r"\d+", kernel.grid):
        blocks *= int(extent)
    count = run.device.get("multiprocessors")
    if not isinstance(count, int) or blocks >= count:
        return ""
    return f"Its blocks, {blocks}, leave {count - blocks} of {count} SMs idle."


def _name_stalls(kernel: KernelProfile) -> str:
    stalls = {state: of for state, of in kernel.stalls.items() if state not in AT_WORK}
    first = sorted(stalls, key=lambda state: (-stalls[state], state))[:2]
    if not first:
        return ""
    parts = [
        f"{STATES.get(state, state.replace('_', ' '))} (`{state}`, {100 * stalls[state]:.0f} % of "
        "their time)"
        for state in first
    ]
    return f"Warps wait for {', then for '.join(parts)}."


def _extents(text: str) -> str:
    """``(16, 8, 1)`` as ``16×8``; one block or thread as ``1``."""
    extents = re.findall(r"\d+", text)
    while len(extents) > 1 and extents[-1] == "1":
        extents.pop()
    return f"({'×'.join(extents)})" if len(extents) > 1 else "".join(extents)


def _cell(kernel: KernelProfile, counter: str, form: str) -> str:
    value = kernel.counters.get(counter)
    return NOTHING if value is None else form.format(value)
