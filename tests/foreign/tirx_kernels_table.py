"""What `check` says of the kernels of the package tirx-kernels, all or those that are named.

Each kernel's own benchmark begins at its smallest configuration, with tensors in the host's memory.
What it compiles is not compiled, and what it launches is judged at the arguments of that launch.
A person finds out whose fault it is if one is wrong.
"""

import multiprocessing
import os
import re
import sys
from collections import Counter
from functools import partial
from typing import Any
from unittest.mock import MagicMock, patch

import numpy as np
from tvm.ir import Call
from tvm.tirx import Evaluate, PrimFunc

from tirstep.lowering_checks.compile.compiling import make_main
from tirstep.lowering_checks.devices.simulator import SimulatorDevice, lower
from tirstep.lowering_checks.devices.simulator.memory import get_numpy_dtype
from tirstep.lowering_checks.devices.simulator.statements import translate_statement
from tirstep.lowering_checks.judgement import judge_numbers
from tirstep.lowering_checks.reference import ModuleKernel
from tirstep.transforms.tir import find_all


def note_launches(name: str, launches: dict[PrimFunc, list[Any]]) -> None:
    """Put the functions that a kernel launches into a dictionary, with their first arguments."""
    import torch
    from tirx_kernels import registry, runner

    class InHostMemory(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, called: Any, types: Any, given: Any = (), named: Any = None):
            if called in (torch.Tensor.cuda, torch.Tensor.device.__get__):
                return given[0] if called is torch.Tensor.cuda else torch.device("cuda", 0)
            if called is torch.Tensor.data_ptr:  # a GPU's memory begins at multiples of 256
                return called(*given) // 256 * 256
            if called is not torch.device:
                given = ["cpu" if str(it).startswith("cuda") else it for it in given]
                named = {key: "cpu" if key == "device" else it for key, it in (named or {}).items()}
            return called(*given, **(named or {}))

    def read(given: Any, parameter: Any) -> Any:
        if isinstance(given, int | float):
            return np.array(given, get_numpy_dtype(parameter.ty))
        bits = given.detach().reshape(-1).clone(memory_format=torch.contiguous_format)
        bits = bits.view(torch.uint8).numpy().view(get_numpy_dtype(parameter.dtype))
        return bits.reshape(given.shape)

    def launch(function: PrimFunc, *given: Any) -> None:
        launches.setdefault(function, [*map(read, given, function.params)])

    def compile_nothing(module: Any, *_: Any, **__: Any) -> Any:
        return partial(launch, module if isinstance(module, PrimFunc) else module["main"])

    make, torch.cuda = torch.Generator, MagicMock(**{"current_device.return_value": 0})
    torch.Generator = lambda device=None: make("cpu")
    torch.cuda.get_device_capability.return_value = 10, 0
    gpu = MagicMock(multi_processor_count=4, shared_memory_per_block_optin=232448)
    torch.cuda.get_device_properties.return_value = gpu
    runner.bench = lambda functions, **_: [it() for it in functions.values()]
    with InHostMemory(), patch.object(runner.tvm, "compile", compile_nothing):
        kernel = registry.load_kernel(name, strict=True)
        configs = [{key: it[key] for key in it if key != "label"} for it in kernel.CONFIGS]
        config = min(configs, key=lambda it: sum(n for n in it.values() if type(n) is int))
        kernel.prepare_bench(**config).run_gpu()


def judge(name: str) -> list[tuple[str, str, set[str]]]:
    """For each function that a kernel launches a verdict, a sentence, and what is not known."""
    launches: dict[PrimFunc, list[Any]] = {}
    try:
        note_launches(name, launches)
    except Exception:  # what follows a launch compares it with other libraries
        if not launches:
            raise
    rows = []
    for function, given in launches.items():
        sizes, unknown = {}, set()
        for parameter, array in zip(function.params, given, strict=True):
            extents = getattr(parameter, "shape", (parameter,))
            sizes |= dict(zip(map(str, extents), array.shape or (array,), strict=False))
        kernel = ModuleKernel(make_main(function), name, recorded=given)
        problem = kernel.problem(**{it: int(sizes[it]) for it in kernel.size_names})
        for call in find_all(lower(problem.module)["main"].body, Call):
            try:
                translate_statement(Evaluate(call))
            except Exception as error:  # or it is a part of a statement, and none by itself
                unknown |= {*re.findall("not know the function '(.*?)'", str(error))}
        judged = judge_numbers(problem, problem.module, SimulatorDevice(), where=name)
        said = "; ".join(map(str, judged.findings)) or judged.reason
        rows.append((str(judged.status), said, unknown))
    return rows


def main() -> None:
    """Judge each kernel in a process of its own; print a line of each, and the counts."""
    try:
        import torch.distributed.tensor  # noqa: F401  before the class Generator is a function
        from tirx_kernels.registry import kernel_index
    except ImportError as error:
        print(f"none of the kernels of tirx-kernels is judged: {error}")
        return
    counts = Counter[str]()
    for name in sys.argv[1:] or sorted(kernel_index()):
        with multiprocessing.get_context("fork").Pool(1) as pool:
            try:
                rows = pool.apply_async(judge, [name]).get(timeout=300)
            except Exception as error:  # also that it takes longer
                rows = [("not judged", repr(error), set())]
        for status, said, unknown in rows:
            print(f"{status:12} {name}: {' '.join(said.split())}", flush=True)
            counts.update([status, *unknown])
    print("", *(f"{count:4} {it}" for it, count in counts.most_common()), sep="\n")


if __name__ == "__main__":
    os.environ |= {"TVM_FFI_DISABLE_TORCH_C_DLPACK": "1", "TIRX_PREPARE_NUM_SMS": "4"}
    main()
