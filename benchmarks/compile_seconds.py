"""Measure what it takes to compile what is chosen for the drawn shapes, for docs/shapes.md.

Of all cases of the suites `product-shapes` and `row-shapes`, in one process that has imported TVM
and compiled a case of each: CPU seconds of this process for the schedule with its checks, for TVM's
way to CUDA source, and for NVRTC, which is of the extra "cuda". No GPU is needed.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tvm
from tvm.support.nvcc import compile_cuda

from tirstep.bench.cases import PRODUCT_SHAPES, ROW_SHAPES, CaseChoice, PlannedCase, plan_cases
from tirstep.files import write_file
from tirstep.lowering_checks import run_recipe
from tirstep.lowering_checks.compile.compiling import compile_unrun, get_target
from tirstep.lowering_checks.compile.cuda_source import drop_unused_traits
from tirstep.lowering_checks.facts.cuda_compilers import find_wheels

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "compile-seconds.json"
ARCHITECTURE = "sm_90a"


def main() -> None:
    """Measure all cases, and write the results."""
    root = find_wheels()
    if root is None:
        raise SystemExit("there is no NVRTC here; install it: pip install 'tirstep[cuda]'")
    os.environ["CUDA_PATH"] = str(root)
    os.environ["TVM_CUDA_NVRTC_EXTRA_OPTS"] = f"-I{root}/include/cccl"
    cases, _ = plan_cases(CaseChoice(names=(PRODUCT_SHAPES, ROW_SHAPES)))
    first = {(case.suite, case.problem.options["dtype"]): case for case in cases}
    for case in first.values():
        list(measure(case))
    rows = []
    for case in cases:
        for row in measure(case):
            rows.append(row)
            print(json.dumps(row), flush=True)
    write_file(RESULTS, json.dumps({"machine": describe_machine(), "rows": rows}, indent=1) + "\n")


def measure(case: PlannedCase) -> Iterator[dict[str, Any]]:
    """A row for each recipe of a case."""
    problem, target = case.problem, get_target("cuda")
    for recipe in case.recipes:
        at = [time.process_time()]
        run = run_recipe(recipe, problem.shape, options=problem.options)
        at.append(time.process_time())
        executable = compile_unrun(run.steps[-1].module, target)
        source = drop_unused_traits(executable.mod.imports[0].inspect_source())
        at.append(time.process_time())
        compile_cuda(source, "cubin", arch=ARCHITECTURE, compiler="nvrtc")
        at.append(time.process_time())
        schedule, lower, compiling = (end - begin for begin, end in itertools.pairwise(at))
        yield {
            "suite": case.suite,
            "recipe": recipe.name,
            "shape": list(problem.shape.values()),
            "dtype": problem.options["dtype"],
            "schedule_s": round(schedule, 3),
            "lower_s": round(lower, 3),
            "nvrtc_s": round(compiling, 3),
        }


def describe_machine() -> dict[str, Any]:
    """What the numbers depend on."""
    return {
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "tvm": tvm.__version__,
        "nvrtc": version("nvidia-cuda-nvrtc"),
    }


if __name__ == "__main__":
    main()
