"""A table as ``ncu --csv --page raw --print-units base`` prints it, made by hand: no GPU here."""

from __future__ import annotations

from collections.abc import Mapping

STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
HEAD = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream")
HEAD += ("Block Size", "Grid Size", "Device", "CC")
METRICS: Mapping[str, tuple[str, str]] = {
    "gpu__time_duration.sum": ("ns", "57,600"),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "71.25"),
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": ("%", "55.5"),
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": ("%", "12.5"),
    "lts__t_sector_hit_rate.pct": ("%", "83.1"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", "24.9"),
    "launch__registers_per_thread": ("register/thread", "128"),
    "launch__waves_per_multiprocessor": ("", "0.12"),
    "sm__inst_executed.avg.per_cycle_active": ("inst/cycle", "2.61"),
    "sm__inst_issued.avg.pct_of_peak_sustained_active": ("%", "65.3"),
    "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active": ("%", "n/a"),
    "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active": ("%", "60.7"),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": ("", "1,024"),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": ("", "76"),
    STALL.format("selected"): ("inst", "1.00"),
    STALL.format("not_selected"): ("inst", "0.5"),
    STALL.format("short_scoreboard"): ("inst", "1.5"),
    STALL.format("barrier"): ("inst", "0.75"),
    STALL.format("long_scoreboard"): ("inst", "0.25"),
    "breakdown: sm__throughput": ("", "sm__inst_issued (65.3%)"),
}
"""Units and values of a kernel that the SMs bind."""


def make_table(*launches: Mapping[str, str]) -> str:
    """What ncu writes into its log: its own lines, the header, the units, a row for each launch.

    A launch has ``Kernel Name``, and what differs from `METRICS`.
    """
    rows = [[*HEAD, *METRICS], [*("" for _ in HEAD), *(unit for unit, _ in METRICS.values())]]
    for number, launch in enumerate(launches):
        cells = {name: value for name, (_, value) in METRICS.items()}
        cells |= {"ID": str(number), "Process Name": "python3.12", "CC": "9.0"}
        cells |= {"Block Size": "(256, 1, 1)", "Grid Size": "(16, 4, 1)", **launch}
        rows.append([cells.get(name, "1") for name in rows[0]])
    lines = [",".join(f'"{cell}"' for cell in row) for row in rows]
    own = ["==PROF== Connected to process 4242 (/usr/bin/python3.12)"]
    own += [
        f'==PROF== Profiling "{launch["Kernel Name"]}": 0%....100% - 38 passes'
        for launch in launches
    ]
    return "\n".join([*own, "==PROF== Disconnected from process 4242", *lines, ""])
