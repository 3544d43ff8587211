"""Profile the recipes of ladders with NVIDIA's ncu, for their pages in docs/ladders.

One launch of the last step of each recipe, at the shape and type of the ladder's page. The counters
go into benchmarks/results/profile-<ladder>-<gpu>.json, of which `make docs` writes the page, with
the times of `tirstep bench`. ncu runs over another process of this file for each recipe,
``--launch REQUEST``, which compiles and launches it once.

Names and meanings of metrics: NVIDIA, "Nsight Compute: Profiling Guide", metrics reference.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import tvm

from tirstep.bench import BenchError, shorten
from tirstep.bench.cases import CaseChoice, PlannedCase, plan_cases
from tirstep.bench.results import write_json
from tirstep.bench.session import get_options, list_configs_of, name_candidate
from tirstep.cli.bench import make_machine, slug
from tirstep.cli.wrong_use import UseError
from tirstep.lowering_checks import run_recipe
from tirstep.lowering_checks.compile.compiling import compile_module
from tirstep.lowering_checks.device import blank
from tirstep.modules import KernelError, get_kernel
from tirstep.transforms.recipes import LADDERS, find_recipe

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks/results"
LAUNCH = "--launch"
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
CONFLICTS = tuple(
    f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared{op}.sum" for op in ("", "_op_ld", "_op_st")
)
"""Of shared memory's banks: all, or where a GPU does not count these, those of each kind."""
DURATION = "gpu__time_duration.sum"
STALL = ("smsp__average_warps_issue_stalled_", "_per_issue_active.ratio")
NANOSECONDS = ("ns", "nsecond")
"""The unit of durations, as ncu spells it by its version."""
SLOWEST = 600.0
"""Seconds for ncu and a recipe under it."""

Document = dict[str, Any]
"""Of a ladder under the profiler: where, with what, when, how, and by recipe its kernels in the
order of their launches, or a note that says why there are none. A recipe is named as a benchmark's
candidate: with its tail, where it has one.
"""


def read_profile(file: Path) -> Document:
    """The document of a file."""
    return dict(json.loads(file.read_text(encoding="utf-8")))


def find_profile(document: Document, recipe: str) -> Document | None:
    """What was counted of a recipe, by its candidate's name; None if it was not profiled."""
    return next((it for it in document["recipes"] if it["recipe"] == recipe), None)


def read_table(text: str) -> list[Document]:
    """The launches in what ``ncu --csv --page raw`` printed, in their order: a kernel's name, its
    ``grid`` and ``block`` as ncu writes them, ``(16, 8, 1)``, the microseconds under the profiler,
    the counters of `COUNTERS` that the GPU has with ``bank_conflicts`` of shared memory, and of the
    time between two instructions of a warp the share that it spends in each state, ``selected``,
    when it issues, among them.

    Raises `BenchError` where there is no table, and where a launch has no duration.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("==")]
    start = next((n for n, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise BenchError("ncu printed no table of metrics; see what it says without tirstep")
    header, *rows = csv.reader(lines[start:])
    unit = dict(zip(header, rows[0], strict=False)).get(DURATION, "")
    found = []
    for row in rows[1:]:
        cells = dict(zip(header, row, strict=True))
        numbers = {
            metric: value for metric in cells if (value := _number(cells[metric])) is not None
        }
        name = cells["Kernel Name"].split("(")[0]
        if DURATION not in numbers or unit not in NANOSECONDS:
            raise BenchError(
                f"ncu counted no {DURATION} of {name} (its unit is '{unit}'); may it read the "
                "counters of this GPU?"
            )
        counters = {
            counter: next(numbers[metric] for metric in metrics if metric in numbers)
            for counter, metrics in COUNTERS.items()
            if any(metric in numbers for metric in metrics)
        }
        whole, *parts = CONFLICTS
        if conflicts := [
            numbers[it] for it in ([whole] if whole in numbers else parts) if it in numbers
        ]:
            counters["bank_conflicts"] = math.fsum(conflicts)
        before, after = STALL
        cycles = {
            metric.removeprefix(before).removesuffix(after): value
            for metric, value in numbers.items()
            if metric.startswith(before) and metric.endswith(after) and "not_issued" not in metric
        }
        total = math.fsum(cycles.values())
        stalls = {state: spent / total for state, spent in cycles.items() if spent > 0}
        kernel: Document = {"name": name, "grid": cells["Grid Size"], "block": cells["Block Size"]}
        kernel |= {"duration_us": numbers[DURATION] / 1e3, "counters": counters, "stalls": stalls}
        found.append(kernel)
    return found


def _number(cell: str) -> float | None:
    """A cell's number; None for ``n/a``, ``nan`` and nothing."""
    try:
        value = float(cell.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def profile_case(planned: PlannedCase, machine: Any) -> Document:
    """Profile one launch of the last step of each recipe of a case.

    A recipe whose sizes do not divide the shape is profiled with each of its tails that can, under
    the names that these have in a benchmark: a page shows the one whose time it shows. What does
    not compile or run has a note. Raises `BenchError` where ncu may not count.
    """
    problem, profiles = planned.problem, []
    about: Document = {"shape": dict(problem.shape), "options": dict(problem.options)}
    for recipe in planned.recipes:
        for config in list_configs_of(recipe, problem):
            name = name_candidate(recipe, config)
            print(f"profiling {name}", file=sys.stderr)
            profile = profile_launch({"recipe": recipe.name, "config": config, **about})
            profiles.append({"recipe": name, "kernels": [], "note": "", **profile})
    version = subprocess.run(["ncu", "--version"], capture_output=True, text=True).stdout
    words = [line.split()[1] for line in version.splitlines() if line.startswith("Version ")]
    return {
        "command": "profile",
        "version": 1,
        "kernel": problem.kernel.name,
        **about,
        "device": machine.device,
        "versions": {**machine.versions, "ncu": words[0] if words else ""},
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "method": {
            "launches": "one of each recipe, replayed by ncu for each group of counters",
            "clocks": "as they are (--clock-control none)",
            "caches": "cleared by ncu before each replay",
            "sections": [*SECTIONS],
        },
        "recipes": profiles,
    }


def profile_launch(request: Document) -> Document:
    """Run ncu over the process that launches a recipe, which prints why it does not run: the
    kernels, or a note.
    """
    options = ["--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]
    options += ["--target-processes", "application-only", "--kernel-name", "regex:^main_kernel"]
    options += [word for section in SECTIONS for word in ("--section", section)]
    launched = [sys.executable, __file__, LAUNCH, json.dumps(request)]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.csv")
        command = ["ncu", *options, "--log-file", str(log), *launched]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SLOWEST)
        except subprocess.TimeoutExpired:
            return {"note": f"ncu takes longer than {SLOWEST:g} s"}
        text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    if "ERR_NVGPUCTRPERM" in text + done.stdout:
        raise BenchError(
            "ncu may not read this GPU's counters (ERR_NVGPUCTRPERM); run it as root, or let "
            "the administrator allow it to all users"
        )
    if done.returncode:
        said = [line for line in done.stdout.splitlines() if line.startswith("note: ")]
        ended = f"note: the process under ncu ended with {done.returncode}"
        return {"note": [ended, *said][-1].removeprefix("note: ")}
    return {"kernels": read_table(text)}


def launch(request: Document) -> None:
    """What the process under ncu does: it launches a recipe once, on the first CUDA device."""
    recipe, device = find_recipe(request["recipe"]), tvm.cuda(0)
    problem = get_kernel(recipe.kernel).problem(**request["shape"], **request["options"])
    options = get_options(recipe, problem)
    run = run_recipe(recipe, problem.shape, options=options, config=request["config"])
    target = tvm.target.Target.from_device(device)
    main = compile_module(run.steps[-1].module, target)["main"]
    blanks = [blank(tensor) for tensor in problem.outputs]
    arrays = problem.make_arguments(problem.float_inputs(0), blanks)
    main(*(tvm.runtime.tensor(np.ascontiguousarray(array), device) for array in arrays))
    device.sync()


def main(arguments: list[str]) -> int:
    """Profile, write the files and say what is in them; 2 where it cannot be done."""
    if arguments[:1] == [LAUNCH]:
        try:
            launch(json.loads(arguments[1]))
        except Exception as error:  # whatever TVM and CUDA raise
            print(f"note: {shorten(error)}")
            return 1
        return 0
    from ladder_pages import find_ladders

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("ladder", nargs="*", help="[default: all that have a page]")
    parser.add_argument("--save", type=Path, default=RESULTS, metavar="DIR")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.ladder if name not in LADDERS]:
        parser.error(f"there is no ladder of {', '.join(unknown)}; there are {', '.join(LADDERS)}")
    try:
        if shutil.which("ncu") is None:
            raise BenchError("NVIDIA's profiler ncu is not in PATH; it comes with the CUDA toolkit")
        pages = {found.ladder.name: found.case for found in find_ladders(RESULTS)}
        machine = make_machine("profile_ladders")
        for name in options.ladder or pages:
            ladder, page = LADDERS[name], pages.get(name)
            shape = tuple((page.shape if page else ladder.shape).values())
            dtype, names = page.dtype if page else "float32", [recipe.name for recipe in ladder]
            chosen = CaseChoice([ladder.kernel], [shape], dtype, names, quick=True)
            run = profile_case(plan_cases(chosen)[0], machine)
            file = options.save / f"profile-{name}-{slug(str(run['device']['name']))}.json"
            write_json(run, file)
            for it in run["recipes"]:
                times = ", ".join(f"{kernel['duration_us']:,.1f} us" for kernel in it["kernels"])
                print(f"{it['recipe']}: {times or it['note']}")
            print(f"wrote {file}", flush=True)
    except (BenchError, UseError, KernelError) as error:
        print(f"profile_ladders: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
