"""The process under the profiler: it launches every recipe of a request once, in order.

Its arguments are two files of JSON: what to launch, and where to say which kernels were launched.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tirstep.bench import shorten
from tirstep.bench.compile_pool import installed
from tirstep.bench.results import write_json
from tirstep.bench.runner import get_options
from tirstep.lowering_checks import run_recipe
from tirstep.lowering_checks.compile.compiling import compile_module
from tirstep.lowering_checks.devices.device import blank
from tirstep.modules import Problem, get_kernel
from tirstep.transforms.recipes import find_recipe

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


def main(request_file: str, answer_file: str) -> None:
    """Launch on the first CUDA device."""
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


if __name__ == "__main__":
    main(*sys.argv[1:])
