"""Runs ncu over a ladder."""

from __future__ import annotations

import datetime
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tirstep.modules import Problem
from tirstep.transforms.recipes import Recipe

from ..ahead import COMPILE_LIMIT
from ..contenders import find_options, find_variants, name_variant
from ..errors import BenchError
from ..farm import Job, compile_all
from ..machine import Machine
from ..results import write_json
from .counters import SECTIONS, KernelProfile, read_table
from .results import ProfileRun, RecipeProfile

TARGET = ("-m", "tirstep.bench.profile.launches")
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
    chosen = [(one, sizes) for one in recipes for sizes in find_variants(one, problem)]
    jobs = [
        Job(recipe.name, dict(problem.shape), find_options(recipe, problem), sizes)
        for recipe, sizes in chosen
    ]
    tell(f"compiling {len(jobs)} recipes")
    compile_all(jobs, machine.target, cache, limit=COMPILE_LIMIT, report=lambda done, reason: None)
    request = {
        "kernel": problem.kernel.name,
        "shape": dict(problem.shape),
        "options": dict(problem.options),
        "recipes": [
            {"contender": name_variant(recipe, sizes), "recipe": recipe.name, "config": sizes}
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
    command = [sys.executable, *TARGET, str(request), str(answer)]
    return [ncu, *options, *sections, "--log-file", str(log), *command]


def assign(
    launches: Sequence[KernelProfile], launched: Sequence[dict[str, Any]]
) -> tuple[RecipeProfile, ...]:
    """Give the launches, in their order, to the recipes that launched them.

    Raises `BenchError` unless the names agree: counters of the wrong kernel are worse than none.
    """
    left = list(launches)
    profiles = []
    for one in launched:
        names = sorted(one["kernels"])
        own, left = left[: len(names)], left[len(names) :]
        if sorted(kernel.name for kernel in own) != names:
            raise BenchError(
                f"{one['recipe']} has the kernels {', '.join(names)}, and ncu counted "
                f"{', '.join(kernel.name for kernel in own) or 'none'} in their place; profile "
                "it alone"
            )
        profiles.append(RecipeProfile(one["recipe"], tuple(own), one["note"]))
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
            lines = [one for one in (text + done.stdout + done.stderr).splitlines() if one.strip()]
            reason = lines[-1].strip() if lines else f"code {done.returncode}"
            raise BenchError(f"the process under ncu ended before its last kernel: {reason}")
        launched = json.loads(answer.read_text(encoding="utf-8"))["launched"]
        return read_table(text), launched


def _find_version(ncu: str) -> str:
    done = subprocess.run([ncu, "--version"], capture_output=True, text=True, timeout=60)
    words = [line for line in done.stdout.splitlines() if line.startswith("Version")]
    return words[0].removeprefix("Version ").split(" ")[0] if words else ""
