"""Measure what the simulator costs as the work grows, for docs/simulator-cost.md.

Every recipe is lowered once and run several times, on one core; times are medians. A run is one
call of the program with checked inputs, without the comparison with NumPy. The page is rendered
from the results alone, so that a test can hold the two against each other.
"""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.tirx import AttrStmt, BufferStore, For

from tirstep.files import write_file
from tirstep.lowering_checks import DeviceError, Run, get_device, run_recipe
from tirstep.lowering_checks.devices.device import blank
from tirstep.lowering_checks.devices.simulator import lower
from tirstep.transforms.recipes import find_recipe
from tirstep.transforms.tir import constant

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "simulator-cost.md"
RESULTS = ROOT / "benchmarks" / "results" / "simulator-cost.json"

SMALL, CUBES = (64, 48, 32), tuple((edge, edge, edge) for edge in (128, 256, 512))
CASES = (
    *(("matmul_shared", shape) for shape in (SMALL, *CUBES)),
    *(("matmul_naive", shape) for shape in (SMALL, *CUBES[:2])),
    *(("matmul_shared_blocking", shape) for shape in (SMALL, *CUBES[:2])),
)
BOUNDS = {("matmul_shared", SMALL): 0.5, ("matmul_shared", (256, 256, 256)): 20.0}
"""Seconds that a run on one core is to stay below."""
LONGEST = 60.0
"""Seconds of a run; cases that would take longer, going by the case before, are left out."""
SECONDS, MOST = 10.0, 7
"""Runs are repeated three times at least, then until so many seconds or so often."""


def main() -> None:
    """Measure all cases, and write the results and the page."""
    rows: list[dict[str, Any]] = []
    for name, shape in CASES:
        row = measure(name, shape, rows)
        rows.append(row)
        print(json.dumps(row), flush=True)
    results = {"machine": describe_machine(), "longest_s": LONGEST, "rows": rows}
    write_file(RESULTS, json.dumps(results, indent=2) + "\n")
    write_file(PAGE, render(results))


def measure(name: str, shape: tuple[int, ...], before: list[dict[str, Any]]) -> dict[str, Any]:
    """One row: a recipe at a shape, on the simulator and on two other devices."""
    recipe = find_recipe(name)
    sizes = dict(zip("mnk", shape, strict=True))
    run = run_recipe(recipe, sizes, config=recipe.golden.config)
    statements = count_thread_statements(lower(run.steps[-1].module))
    row = {
        "recipe": name,
        "shape": list(shape),
        "config": {**recipe.config, **run.config},
        "thread_statements": statements,
    }
    costs = [row["ns_per_statement"] for row in before if row["recipe"] == name]
    if costs and (costs[-1] or math.inf) * 1e-9 * statements > LONGEST:
        empty = dict.fromkeys(("lowering_s", "simulator_s", "ns_per_statement", "cpu_s", "host_s"))
        return {**row, "repeats": 0, **empty}
    simulated = time_device("simulator", run)
    assert simulated is not None
    lowering, seconds, repeats = simulated
    others = {f"{device}_s": time_device(device, run) for device in ("cpu", "host")}
    return {
        **row,
        "repeats": repeats,
        "lowering_s": lowering,
        "simulator_s": seconds,
        "ns_per_statement": seconds / statements * 1e9,
        **{key: None if found is None else found[1] for key, found in others.items()},
    }


def time_device(name: str, run: Run) -> tuple[float, float, int] | None:
    """Seconds of compiling and of one run, and the repeats; None where the device is not here."""
    try:
        device = get_device(name)
    except DeviceError:
        return None
    start = time.perf_counter()
    program = device.compile(run.steps[-1].module)
    compiling = time.perf_counter() - start
    arguments = [*run.problem.integer_inputs(0), *map(blank, run.problem.outputs)]
    seconds = list(repeat(lambda: program(arguments)))
    assert not program.findings
    return compiling, statistics.median(seconds), len(seconds)


def repeat(call: Callable[[], object]) -> Iterator[float]:
    """The seconds of each call, after one to warm up where calls are short."""
    spent, count = 0.0, 0
    warm = False
    while count < 3 or (spent < SECONDS and count < MOST):
        start = time.perf_counter()
        call()
        seconds = time.perf_counter() - start
        if not warm and seconds < 1.0:
            warm = True
            continue
        spent, count, warm = spent + seconds, count + 1, True
        yield seconds


def count_thread_statements(lowered: tvm.IRModule) -> int:
    """How many stores the threads of a lowered module come to, whatever guards say of them."""
    return _count(lowered["main"].body)


def _count(statement: Any) -> int:
    if isinstance(statement, BufferStore):
        return 1
    factor = 1
    if isinstance(statement, For):
        factor = constant(statement.extent) or 1
    elif isinstance(statement, AttrStmt) and statement.attr_key == "thread_extent":
        factor = constant(statement.value) or 1
    names = ("body", "then_case", "else_case")
    inside = [child for name in names if (child := getattr(statement, name, None)) is not None]
    inside += list(getattr(statement, "seq", None) or ())
    return factor * sum(map(_count, inside))


def describe_machine() -> dict[str, Any]:
    """What the numbers depend on."""
    return {
        "cores": os.cpu_count(),
        "threads_used": 1,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "tvm": tvm.__version__,
    }


def render(results: dict[str, Any]) -> str:
    """The page, from the results alone."""
    machine, rows = results["machine"], results["rows"]
    return "\n".join(
        [
            "# What the simulator costs",
            "",
            "Generated by `make bench-simulator` from benchmarks/results/simulator-cost.json; do "
            "not edit.",
            "",
            f"On one core of a machine with {machine['cores']}, {machine['system']}, Python "
            f"{machine['python']}, NumPy {machine['numpy']}, TVM {machine['tvm']}. Times are",
            "medians of one run of a recipe's last step, at float32 and with the sizes of its "
            "goldens; lowering comes once before.",
            "A thread-statement is a store that one thread comes to; × says how many times the "
            "device's own time the simulator takes.",
            "",
            "| recipe | shape | thread-statements | lowering s | run s | ns per thread-statement "
            "| cpu s | × | host s | × | repeats |",
            "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
            *map(_render_row, rows),
            "",
            *_render_notes(results),
            "",
        ]
    )


def _render_row(row: dict[str, Any]) -> str:
    seconds = row["simulator_s"]
    cells = [
        f"`{row['recipe']}`",
        _spell_shape(row["shape"]),
        f"{row['thread_statements']:,}",
        _spell(row["lowering_s"]),
        _spell(seconds),
        _spell(row["ns_per_statement"]),
    ]
    for device in ("cpu_s", "host_s"):
        other = row[device]
        ratio = None if seconds is None or not other else seconds / other
        cells += [_spell(other), _spell(ratio)]
    return f"| {' | '.join([*cells, str(row['repeats'])])} |"


def _render_notes(results: dict[str, Any]) -> list[str]:
    notes = []
    for (name, shape), bound in BOUNDS.items():
        row = find_row(results, name, shape)
        kept = row["simulator_s"] < bound
        notes.append(
            f"- `{name}` at {_spell_shape(shape)} takes {_spell(row['simulator_s'])} s, and is to "
            f"take less than {bound:g} s: {'kept' if kept else 'NOT kept'}."
        )
    if any(row["simulator_s"] is None for row in results["rows"]):
        notes.append(
            f"- — is a run that would take more than {results['longest_s']:g} s, going by the "
            "shape before, or a device that the machine does not have."
        )
    return notes


def find_row(results: dict[str, Any], name: str, shape: tuple[int, ...]) -> dict[str, Any]:
    """The row of a recipe at a shape."""
    (row,) = [
        result
        for result in results["rows"]
        if (result["recipe"], tuple(result["shape"])) == (name, shape)
    ]
    return row


def _spell_shape(shape: Any) -> str:
    return "×".join(map(str, shape))


def _spell(number: float | None) -> str:
    """Three digits, which is more than times repeat to."""
    if number is None:
        return "—"
    digits = max(0, 2 - math.floor(math.log10(number))) if number > 0 else 0
    return f"{number:,.{digits}f}"


if __name__ == "__main__":
    main()
