"""What `check` says of the kernels of the package tirx-kernels, all or those that are named.

Each kernel's own benchmark begins at its smallest configuration, with tensors in the host's memory.
What it compiles is not compiled, and what it launches is judged at the arguments of that launch.
A person finds out whose fault it is if one is wrong.
"""

import ctypes
import importlib.abc
import importlib.machinery
import multiprocessing
import os
import re
import sys
import time
from collections import Counter
from functools import partial
from typing import Any
from unittest.mock import MagicMock, patch

import numpy as np
import tvm_ffi
from tvm.ir import Call
from tvm.script import tirx as T
from tvm.tirx import Bind, Evaluate, PrimFunc, SeqStmt, decl_buffer
from tvm_ffi import structural_map

from tirstep.lowering_checks.compile.compiling import make_main
from tirstep.lowering_checks.devices.simulator import SimulatorDevice, lower
from tirstep.lowering_checks.devices.simulator.function_semantics import read_call
from tirstep.lowering_checks.devices.simulator.memory import get_numpy_dtype
from tirstep.lowering_checks.devices.simulator.run_state import get_location
from tirstep.lowering_checks.devices.simulator.statements import translate_statement
from tirstep.lowering_checks.judgement import judge_numbers
from tirstep.lowering_checks.reference import ModuleKernel
from tirstep.transforms.tir import find_all

_COMPARED = (
    *("cuda", "cudnn", "cutlass", "deep_ep", "deep_gemm", "flash_attn", "flash_mla", "flashinfer"),
    *("quack", "triton"),
)


class _Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Libraries that kernels are compared with, where they are not installed: mocks."""

    def find_spec(self, name: str, *_: Any) -> Any:
        is_compared = name.partition(".")[0] in _COMPARED
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if is_compared else None

    def create_module(self, spec: Any) -> Any:
        return MagicMock(__spec__=spec, __path__=[])

    def exec_module(self, module: Any) -> None:
        pass


def note_launches(name: str, launches: dict[PrimFunc, list[Any]]) -> None:
    """Put the functions that a kernel launches into a dictionary, with their first arguments.

    What tensor maps the host encodes before is encoded by the functions themselves, in front of
    their launches.
    """
    import torch
    from tirx_kernels import registry, runner

    sys.meta_path.append(_Absent())
    kernel = registry.load_kernel(name, strict=True)
    (digits,) = re.findall("[0-9]+", kernel.KERNEL_META["runtime_cuda_archs"][0])
    asked, maps = dict[int, torch.Tensor](), dict[int, tuple[Any, ...]]()

    def get_address(tensor: torch.Tensor) -> int:
        """A GPU's memory begins at multiples of 256."""
        storage = tensor.untyped_storage().data_ptr()
        address = storage // 256 * 256 + tensor.storage_offset() * tensor.element_size()
        asked[address] = tensor
        return address

    class InHostMemory(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, called: Any, types: Any, given: Any = (), named: Any = None):
            if called in (torch.Tensor.cuda, torch.Tensor.device.__get__):
                return given[0] if called is torch.Tensor.cuda else torch.device("cuda", 0)
            if called is torch.Tensor.data_ptr:
                with torch._C.DisableTorchFunction():
                    return get_address(*given)
            if called is not torch.device:
                given = ["cpu" if str(it).startswith("cuda") else it for it in given]
                named = {key: "cpu" if key == "device" else it for key, it in (named or {}).items()}
            return called(*given, **(named or {}))

    def read(given: Any, parameter: Any) -> Any:
        if isinstance(given, int | float):
            return np.array(given, get_numpy_dtype(parameter.ty))
        bits = given.detach().reshape(-1).clone(memory_format=torch.contiguous_format)
        bits = bits.view(torch.uint8).numpy()
        if not hasattr(parameter, "dtype"):
            return bits
        values = bits.view(get_numpy_dtype(parameter.dtype))
        return values.reshape(given.shape) if values.size == given.numel() else values

    def encode(place: Any, dtype: str, rank: int, data: Any, *fields: int) -> None:
        maps[place.value] = asked[data.value], dtype, rank, *fields

    def launch(function: PrimFunc, *given: Any) -> None:
        parameters, arguments, host = [], [], []
        for parameter, argument in zip(function.params, given, strict=True):
            if not isinstance(argument, ctypes.c_void_p):
                parameters.append(parameter)
                arguments.append(argument)
        for parameter, argument in zip(function.params, given, strict=True):
            if isinstance(argument, ctypes.c_void_p):
                tensor, dtype, rank, *fields = maps[argument.value]
                place = [at for at, it in enumerate(arguments) if it is tensor]
                if not place:
                    shape = [tensor.numel() * tensor.element_size()]
                    source = decl_buffer(shape, "uint8", f"of_{parameter.name}")
                    parameters.append(source)
                    arguments.append(tensor)
                buffer = parameters[place[0] if place else -1]
                host.append(Bind(parameter, T.tvm_stack_alloca("tensormap", 1)))
                name = "runtime.cuTensorMapEncodeTiled"
                call = T.call_packed(name, parameter, dtype, rank, buffer.data, *fields)
                host.append(Evaluate(call))
        if host:
            body = SeqStmt([*host, function.body])
            function = PrimFunc(parameters, body, function.ret_type, attrs=function.attrs)
        launches.setdefault(function, [*map(read, arguments, function.params)])

    def compile_nothing(module: Any, *_: Any, **__: Any) -> Any:
        function = module if isinstance(module, PrimFunc) else module["main"]
        compiled = MagicMock(side_effect=partial(launch, function))
        compiled.jit.return_value = compiled.main = compiled
        compiled.__getitem__.return_value = compiled
        return compiled

    tvm_ffi.register_global_func("runtime.cuTensorMapEncodeTiled", encode, override=True)
    make, torch.cuda = torch.Generator, MagicMock(**{"current_device.return_value": 0})
    torch.Generator = lambda device=None: make("cpu")
    major, minor = torch.cuda.get_device_capability.return_value = divmod(int(digits), 10)
    gpu = MagicMock(multi_processor_count=4, shared_memory_per_block_optin=232448)
    gpu.major, gpu.minor = major, minor
    torch.cuda.get_device_properties.return_value = gpu
    runner.bench = lambda functions, **_: [it() for it in functions.values()]
    with InHostMemory(), patch.object(runner.tvm, "compile", compile_nothing):
        configs = [{key: it[key] for key in it if key != "label"} for it in kernel.CONFIGS]
        config = min(configs, key=lambda it: sum(n for n in it.values() if type(n) is int))
        kernel.prepare_bench(**config).run_gpu()


def note_all(name: str) -> dict[PrimFunc, list[Any]]:
    launches: dict[PrimFunc, list[Any]] = {}
    try:
        note_launches(name, launches)
    except Exception:  # what follows a launch compares it with other libraries
        if not launches:
            raise
    return launches


def judge_launch(name: str, function: PrimFunc, given: list[Any]) -> Any:
    sizes = {}
    for parameter, array in zip(function.params, given, strict=True):
        extents = getattr(parameter, "shape", (parameter,))
        sizes |= dict(zip(map(str, extents), array.shape or (array,), strict=False))
    kernel = ModuleKernel(make_main(function), name, recorded=given)
    problem = kernel.problem(**{it: int(sizes[it]) for it in kernel.size_names})
    return judge_numbers(problem, problem.module, SimulatorDevice(), where=name)


def judge(name: str) -> list[tuple[str, str, set[str]]]:
    """For each function that a kernel launches a verdict, a sentence, and what is not known."""
    rows = []
    for function, given in note_all(name).items():
        unknown = set()
        for call in find_all(lower(make_main(function))["main"].body, Call):
            try:
                translate_statement(Evaluate(call))
            except Exception as error:  # or it is a part of a statement, and none by itself
                unknown |= {*re.findall("not know the function '(.*?)'", str(error))}
        judged = judge_launch(name, function, given)
        said = "; ".join(map(str, judged.findings)) or judged.reason
        rows.append((str(judged.status), said, unknown))
    return rows


def take_out(name: str) -> list[tuple[str, str, set[str]]]:
    """What is found where one line that synchronizes is taken out, of up to three of its kinds, in
    functions that are clean with all of them.
    """

    def get_site(node: Any) -> tuple[str, str] | None:
        called = read_call(node.value)[0] if isinstance(node.value, Call) else ""
        is_one = _SYNCHRONIZES.search(called) and not _NO_DUTY.search(called)
        return (called, get_location(node)) if is_one else None

    rows = []
    for function, given in note_all(name).items():
        sites = [*dict.fromkeys(filter(None, map(get_site, find_all(function.body, Evaluate))))]
        if not sites or judge_launch(name, function, given).findings:
            continue
        for site in {called: (called, at) for called, at in sites[::-1]}.values():

            def drop(node: Any, site: Any = site) -> Any:
                return Evaluate(0) if get_site(node) == site else node

            judged = judge_launch(name, structural_map(function, (Evaluate, drop)), given)
            said = str(judged.findings[0]) if judged.findings else "nothing is found"
            rows.append((str(judged.status), f"without {site[0]} [{site[1]}]: {said}", set[str]()))
            if len(rows) == 3:
                return rows
    return rows


_SYNCHRONIZES = re.compile(r"(?<!a)sync|bar_|barrier|fence|wait|arrive|commit")
_NO_DUTY = re.compile("shfl|vote|redux|elect|match|relinquish|_init|inval|prefetch|griddep")


def main() -> None:
    """Judge each kernel in a process of its own; print a line of each, and the counts.

    With `--without` first, what is found where a line that synchronizes is taken out.
    """
    try:
        import torch.distributed.tensor  # noqa: F401  before the class Generator is a function
        from tirx_kernels.registry import kernel_index
    except ImportError as error:
        print(f"none of the kernels of tirx-kernels is judged: {error}")
        return
    counts = Counter[str]()
    ask = take_out if "--without" in sys.argv else judge
    for name in [it for it in sys.argv[1:] if it[0] != "-"] or sorted(kernel_index()):
        begun = time.monotonic()
        with multiprocessing.get_context("fork").Pool(1) as pool:
            try:
                rows = pool.apply_async(ask, [name]).get(timeout=300)
            except Exception as error:  # also that it takes longer
                rows = [("not judged", repr(error), set())]
        for status, said, unknown in rows:
            seconds = time.monotonic() - begun
            print(f"{status:12} {name}, {seconds:.0f} s: {' '.join(said.split())}", flush=True)
            counts.update([status, *unknown])
    print("", *(f"{count:4} {it}" for it, count in counts.most_common()), sep="\n")


if __name__ == "__main__":
    os.environ |= {"TVM_FFI_DISABLE_TORCH_C_DLPACK": "1", "TIRX_PREPARE_NUM_SMS": "4"}
    os.environ |= {"TIRSTEP_COMPILE_STATEMENTS": "1e6"}
    main()
