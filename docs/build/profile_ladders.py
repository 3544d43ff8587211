"""Profile the recipes of ladders with NVIDIA's ncu, for their pages in docs/ladders.

One launch of the last step of each recipe, at the shape and type of the ladder's page, or at one
that is given. The counters go into benchmarks/results/profile-<kernel>-<gpu>.json, of which `make
docs` writes the page, with the times of `tirstep bench`. Shape, type and recipes that are given
are part of the name: profile-<kernel>-<gpu>-<shape>-<type>-<recipe>.json. ncu runs over another
process of this file, ``--launch REQUEST ANSWER``, which launches every recipe once.

Names and meanings of metrics: NVIDIA, "Nsight Compute: Profiling Guide", metrics reference.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import tvm

from tirstep.bench import BenchError, shorten
from tirstep.bench.cases import CaseChoice, plan_cases
from tirstep.bench.compile_pool import CompileJob, compile_all, get_cache_folder, installed
from tirstep.bench.machine import Machine
from tirstep.bench.results import Case, write_json
from tirstep.bench.runner import get_options
from tirstep.bench.session import COMPILE_LIMIT, list_configs_of, name_candidate
from tirstep.cli.bench import make_machine, make_suffix, parse_sizes, slug
from tirstep.cli.wrong_use import UseError
from tirstep.lowering_checks import run_recipe
from tirstep.lowering_checks.compile.compiling import compile_module
from tirstep.lowering_checks.devices.device import blank
from tirstep.modules import KernelError, Problem, get_kernel
from tirstep.transforms.recipes import LADDERS, Recipe, find_recipe

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
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"
DURATION = "gpu__time_duration.sum"
STALL = ("smsp__average_warps_issue_stalled_", "_per_issue_active.ratio")
MICROSECONDS: Mapping[str, float] = MappingProxyType({"ns": 1e-3, "nsecond": 1e-3})
"""Of the base unit, as ncu spells it by its version."""


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
    complete = [row for row in rows[1:] if len(row) == len(header)]
    return [_read_launch(dict(zip(header, row, strict=True)), units) for row in complete]


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
        if (value := next((value for value in values if value is not None), None)) is not None:
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
    return {state: spent / total for state, spent in cycles.items() if spent > 0} if total else {}


def _number(cell: str) -> float | None:
    """A cell's number; None for ``n/a``, ``nan`` and nothing."""
    try:
        value = float(cell.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


VERSION = 1
"""Of the document's form; a file of another version is refused."""


@dataclass(frozen=True)
class RecipeProfile:
    """The kernels of one recipe in the order of their launches; `note` says why there are none.

    `recipe` is its name as a benchmark's candidate: with its tail, where it has one.
    """

    recipe: str
    kernels: tuple[KernelProfile, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class ProfileRun:
    """A ladder's recipes under the profiler: where, with what, when, how, and the counters."""

    kernel: str
    shape: Mapping[str, int]
    options: Mapping[str, object]
    device: Mapping[str, object]
    versions: Mapping[str, str]
    date: str
    method: Mapping[str, object]
    recipes: tuple[RecipeProfile, ...]

    @property
    def dtype(self) -> str:
        """The type of the inputs."""
        return str(self.options["dtype"])

    def find(self, recipe: str) -> RecipeProfile | None:
        """The profile of a recipe, by its candidate's name; None if it was not profiled."""
        return next((profile for profile in self.recipes if profile.recipe == recipe), None)


def read_profile(file: Path) -> ProfileRun:
    """Read a file; raises `BenchError` for any other document, OSError without one."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        if document.pop("command") != "profile" or document.pop("version") != VERSION:
            raise ValueError
        recipes = tuple(_read_recipe(recipe) for recipe in document.pop("recipes"))
        return ProfileRun(**document, recipes=recipes)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise BenchError(
            f"{file} is no profile of tirstep in form {VERSION}; write it again on a GPU with: "
            "docs/build/profile_ladders.py"
        ) from None


def _read_recipe(document: Mapping[str, Any]) -> RecipeProfile:
    kernels = tuple(KernelProfile(**kernel) for kernel in document["kernels"])
    return RecipeProfile(document["recipe"], kernels, document["note"])


def write_profile(run: ProfileRun, file: Path) -> None:
    """Write the run; whoever reads the file meanwhile sees the old one or the new one."""
    write_json({"command": "profile", "version": VERSION, **asdict(run)}, file)


SLOWEST = 600.0
"""Seconds for ncu and all kernels under it."""

Tell = Callable[[str], None]


def find_ncu() -> str:
    """The profiler; raises `BenchError` where it is not in PATH."""
    found = shutil.which("ncu")
    if found is None:
        raise BenchError(
            "NVIDIA's profiler ncu (Nsight Compute) is not in PATH; it comes with the CUDA toolkit"
        )
    return found


def profile_recipes(
    problem: Problem, recipes: Sequence[Recipe], machine: Machine, *, cache: Path, tell: Tell
) -> ProfileRun:
    """Profile one launch of the last step of each recipe at one problem.

    A recipe whose sizes do not divide the shape is profiled with each of its tails that can, under
    the names that these have in a benchmark: a page shows the one whose time it shows. Each is
    compiled ahead, without the profiler, into the folder `cache`. What does not compile or run has
    a note. Raises `BenchError` where there is no ncu, or where it may not count.
    """
    ncu = find_ncu()
    chosen = [(recipe, sizes) for recipe in recipes for sizes in list_configs_of(recipe, problem)]
    jobs = [
        CompileJob(recipe.name, dict(problem.shape), get_options(recipe, problem), sizes)
        for recipe, sizes in chosen
    ]
    tell(f"compiling {len(jobs)} recipes")
    compile_all(jobs, machine.target, cache, limit=COMPILE_LIMIT, report=lambda done, reason: None)
    request = {
        "kernel": problem.kernel.name,
        "shape": dict(problem.shape),
        "options": dict(problem.options),
        "recipes": [
            {"candidate": name_candidate(recipe, sizes), "recipe": recipe.name, "config": sizes}
            for recipe, sizes in chosen
        ],
        "cache": str(cache),
        "seed": 0,
    }
    tell(f"profiling {len(jobs)} recipes")
    launches, launched = _run(ncu, request)
    return ProfileRun(
        kernel=problem.kernel.name,
        shape=dict(problem.shape),
        options=dict(problem.options),
        device=machine.device,
        versions={**machine.versions, "ncu": _find_version(ncu)},
        date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        method={
            "launches": "one of each recipe, replayed by ncu for each group of counters",
            "clocks": "as they are (--clock-control none)",
            "caches": "cleared by ncu before each replay",
            "sections": [*SECTIONS],
        },
        recipes=assign(launches, launched),
    )


def make_command(ncu: str, log: Path, request: Path, answer: Path) -> list[str]:
    """The command line of the profiler over the process that launches."""
    sections = [part for name in SECTIONS for part in ("--section", name)]
    options = ["--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]
    options += ["--target-processes", "application-only", "--kernel-name", "regex:^main_kernel"]
    command = [sys.executable, __file__, LAUNCH, str(request), str(answer)]
    return [ncu, *options, *sections, "--log-file", str(log), *command]


def assign(
    launches: Sequence[KernelProfile], launched: Sequence[dict[str, Any]]
) -> tuple[RecipeProfile, ...]:
    """Give the launches, in their order, to the recipes that launched them.

    Raises `BenchError` unless the names agree: counters of the wrong kernel are worse than none.
    """
    left = list(launches)
    profiles = []
    for recipe in launched:
        names = sorted(recipe["kernels"])
        own, left = left[: len(names)], left[len(names) :]
        if sorted(kernel.name for kernel in own) != names:
            raise BenchError(
                f"{recipe['recipe']} has the kernels {', '.join(names)}, and ncu counted "
                f"{', '.join(kernel.name for kernel in own) or 'none'} in their place; profile "
                "it alone"
            )
        profiles.append(RecipeProfile(recipe["recipe"], tuple(own), recipe["note"]))
    if left:
        raise BenchError(f"ncu counted {len(left)} launches more than the recipes have kernels")
    return tuple(profiles)


def _run(ncu: str, request: dict[str, Any]) -> tuple[list[KernelProfile], Sequence[dict[str, Any]]]:
    with tempfile.TemporaryDirectory() as folder:
        wanted, answer, log = (
            Path(folder, name) for name in ("request.json", "answer.json", "log.csv")
        )
        write_json(request, wanted)
        try:
            done = subprocess.run(
                make_command(ncu, log, wanted, answer),
                capture_output=True,
                text=True,
                timeout=SLOWEST,
            )
        except subprocess.TimeoutExpired:
            raise BenchError(
                f"ncu takes longer than {SLOWEST:g} s; profile fewer recipes, or a smaller shape"
            ) from None
        text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
        if "ERR_NVGPUCTRPERM" in text + done.stdout:
            raise BenchError(
                "ncu may not read this GPU's counters (ERR_NVGPUCTRPERM); run it as root, or let "
                "the administrator allow it to all users"
            )
        if not answer.is_file():
            lines = [
                line for line in (text + done.stdout + done.stderr).splitlines() if line.strip()
            ]
            reason = lines[-1].strip() if lines else f"code {done.returncode}"
            raise BenchError(f"the process under ncu ended before its last kernel: {reason}")
        launched = json.loads(answer.read_text(encoding="utf-8"))["launched"]
        return read_table(text), launched


def _find_version(ncu: str) -> str:
    done = subprocess.run([ncu, "--version"], capture_output=True, text=True, timeout=60)
    words = [line for line in done.stdout.splitlines() if line.startswith("Version")]
    return words[0].removeprefix("Version ").split(" ")[0] if words else ""


Compile = Callable[[tvm.IRModule], Any]
Upload = Callable[[Any], Any]

_KERNEL = re.compile(r'extern "C" __global__ void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\(')


@dataclass(frozen=True)
class Launched:
    """The kernels of a candidate's recipe that ran; `note` says why there are none."""

    recipe: str
    kernels: tuple[str, ...] = ()
    note: str = ""


def launch_all(
    request: Mapping[str, Any], compile_: Compile, upload: Upload, sync: Callable[[], None]
) -> list[Launched]:
    """Launch each recipe once, on random inputs and an output that is filled with NaN.

    A recipe that does not compile, or leaves NaN in its output, has a note; the others go on.
    """
    kernel = get_kernel(request["kernel"])
    problem = kernel.problem(**request["shape"], **request["options"])
    inputs = [upload(array) for array in problem.float_inputs(request["seed"])]
    launched = []
    for wanted in request["recipes"]:
        try:
            launched.append(_launch(wanted, problem, inputs, compile_, upload, sync))
        except Exception as error:  # whatever TVM and CUDA raise: the others still run
            launched.append(Launched(wanted["candidate"], note=shorten(error)))
    return launched


def find_kernel_names(source: str) -> tuple[str, ...]:
    """The kernels of a CUDA source, which declares each of them first."""
    return tuple(dict.fromkeys(_KERNEL.findall(source)))


def _launch(
    wanted: Mapping[str, Any],
    problem: Problem,
    inputs: Sequence[Any],
    compile_: Compile,
    upload: Upload,
    sync: Callable[[], None],
) -> Launched:
    recipe = find_recipe(wanted["recipe"])
    options = get_options(recipe, problem)
    run = run_recipe(recipe, problem.shape, options=options, config=wanted["config"])
    executable = compile_(run.steps[-1].module)
    outputs = [upload(blank(tensor)) for tensor in problem.outputs]
    executable["main"](*problem.make_arguments(inputs, outputs))
    sync()
    names = find_kernel_names(find_source(executable))
    counts = {
        tensor.name: _count_nan(output.numpy())
        for tensor, output in zip(problem.outputs, outputs, strict=True)
    }
    notes = [
        f"{missing} elements of the output{f' {name}' if len(counts) > 1 else ''} were not "
        "written, or are NaN"
        for name, missing in counts.items()
        if missing
    ]
    return Launched(wanted["candidate"], names, "; ".join(notes))


def _count_nan(array: Any) -> int:
    return 0 if array.dtype.kind in "iu" else int(np.isnan(array.astype(np.float64)).sum())


def find_source(executable: Any) -> str:
    """The CUDA source of what TVM compiled."""
    return "\n".join(str(part.inspect_source()) for part in executable.mod.imports)


def launch_request(request_file: str, answer_file: str) -> None:
    """What the process under ncu does, on the first CUDA device."""
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    device = tvm.cuda(0)
    target = tvm.target.Target.from_device(device)

    def upload(array: Any) -> Any:
        return tvm.runtime.tensor(np.ascontiguousarray(array), device)

    with installed(Path(request["cache"])):
        launched = launch_all(
            request, lambda module: compile_module(module, target), upload, device.sync
        )
    write_json({"launched": [asdict(each) for each in launched]}, Path(answer_file))


def main(arguments: list[str]) -> int:
    """Profile, write the files and say what is in them; 2 where it cannot be done."""
    if arguments[:1] == [LAUNCH]:
        launch_request(*arguments[1:])
        return 0
    from ladder_pages import find_ladders

    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("kernel", nargs="*", help="ladders [default: all that have a page]")
    parser.add_argument("--shape", help="1024x512x2048 [default: that of the page]")
    parser.add_argument("--dtype", help="[default: that of the page, or float32]")
    parser.add_argument("--recipe", action="append", help="only this one; may be repeated")
    parser.add_argument("--save", type=Path, default=RESULTS, metavar="DIR")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.kernel if name not in LADDERS]:
        parser.error(f"there is no ladder of {', '.join(unknown)}; there are {', '.join(LADDERS)}")
    try:
        pages = {found.ladder.name: found.case for found in find_ladders(RESULTS)}
        kernels = find_kernels(options, [*pages])
        find_ncu()
        machine = make_machine("profile_ladders")
        for kernel in kernels:
            run = profile(kernel, options, pages.get(kernel), machine)
            show(run, options.save / name_file(kernel, run, options))
    except (BenchError, UseError, KernelError) as error:
        print(f"profile_ladders: {error}", file=sys.stderr)
        return 2
    return 0


def find_kernels(options: argparse.Namespace, pages: Sequence[str]) -> Sequence[str]:
    """The chosen ladders; raises `UseError` where there are none, or too many."""
    given = [name for name in ("shape", "dtype", "recipe") if getattr(options, name)]
    if given and len(options.kernel) != 1:
        names = " and ".join(f"--{name}" for name in given)
        raise UseError(f"{names} must come with one ladder, not with {len(options.kernel)}")
    if not (options.kernel or pages):
        raise UseError(
            f"no run in {RESULTS} has measured a ladder, so none has a page; name a ladder, or "
            "measure them before with tirstep bench --save"
        )
    return options.kernel or pages


def name_file(ladder: str, run: ProfileRun, options: argparse.Namespace) -> str:
    """A file's name: what was chosen is in it, as in those of `tirstep bench --save`."""
    shapes = [parse_sizes(options.shape)] if options.shape else []
    suffix = make_suffix(CaseChoice([], shapes, options.dtype, options.recipe or []))
    return f"profile-{ladder}-{slug(str(run.device['name']))}{suffix}.json"


def profile(
    kernel: str, options: argparse.Namespace, page: Case | None, machine: Machine
) -> ProfileRun:
    """The chosen recipes, at the chosen shape."""
    names = options.recipe or [recipe.name for recipe in LADDERS[kernel]]
    if options.shape:
        shape = parse_sizes(options.shape)
    else:
        shape = tuple((page.shape if page else LADDERS[kernel].shape).values())
    dtype = options.dtype or (page.dtype if page else "float32")
    cases, _ = plan_cases(CaseChoice([LADDERS[kernel].kernel], [shape], dtype, names, quick=True))
    return profile_recipes(
        cases[0].problem,
        cases[0].recipes,
        machine,
        cache=get_cache_folder(),
        tell=lambda line: print(line, file=sys.stderr, flush=True),
    )


def show(run: ProfileRun, file: Path) -> None:
    """Write a profile and say what is in it."""
    write_profile(run, file)
    for profiled in run.recipes:
        times = ", ".join(f"{kernel.duration_us:,.1f} us" for kernel in profiled.kernels)
        note = f"; {profiled.note}" if profiled.note else ""
        print(f"{profiled.recipe}: {times or 'no kernel'}{note}")
    print(f"wrote {file}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
