"""What `check` says of the kernels of the package tirx-kernels, all or those that are named.

Each kernel's own benchmark begins at its smallest configuration, with tensors in the host's memory.
What it compiles is not compiled, and what it launches is judged at the arguments of that launch.
A person finds out whose fault it is if one is wrong.
"""

import ctypes
import importlib.abc
import importlib.machinery
import math
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, patch

import numpy as np
import stand_ins
import tvm_ffi
from tvm.ir import Call
from tvm.script import tirx as T
from tvm.target import Target
from tvm.tirx import (
    Bind,
    DeclBuffer,
    Evaluate,
    IntImm,
    PrimFunc,
    SeqStmt,
    Var,
    decl_buffer,
)
from tvm_ffi import structural_map

from tirstep.lowering_checks.compile.compiling import make_main
from tirstep.lowering_checks.devices.simulator import ADDRESSES, SimulatorDevice, lower
from tirstep.lowering_checks.devices.simulator.bulk_copies import encode_image
from tirstep.lowering_checks.devices.simulator.function_semantics import read_call
from tirstep.lowering_checks.devices.simulator.memory import get_numpy_dtype
from tirstep.lowering_checks.devices.simulator.run_state import get_location
from tirstep.lowering_checks.devices.simulator.statements import translate_statement
from tirstep.lowering_checks.judgement import Status, judge_numbers
from tirstep.lowering_checks.reference import ModuleKernel
from tirstep.transforms.tir import find_all

_TYPES = "UINT8 UINT16 UINT32 INT32 UINT64 INT64 FLOAT16 FLOAT32 FLOAT64 BFLOAT16"
_SWIZZLES = "Swizzle.CU_TENSOR_MAP_SWIZZLE", "NONE 32B 64B 128B"
_COMPARED = (
    *("cuda", "cudnn", "cutlass", "deep_ep", "deep_gemm", "fla", "flash_attn", "flash_mla"),
    *("flashinfer", "quack", "triton"),
)


class _Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Libraries that kernels are compared with: mocks, with stand-ins of what makes inputs."""

    def __init__(self) -> None:
        driver, nvrtc = MagicMock(), {"nvrtcVersion": lambda: (0, 13, 2)}
        driver.cuTensorMapEncodeTiled = lambda *it: (
            driver.CUresult.CUDA_SUCCESS,
            SimpleNamespace(opaque=encode_in_memory(*it)),
        )
        for prefix, names in (("DataType.CU_TENSOR_MAP_DATA_TYPE", _TYPES), _SWIZZLES):
            kind, _, start = prefix.partition(".")
            numbers = {f"{start}_{name}": at for at, name in enumerate(names.split())}
            setattr(driver, f"CUtensorMap{kind}", SimpleNamespace(**numbers))
        driver.cuuint64_t = driver.cuuint32_t = int
        self.held = {**stand_ins.MODULES, "cuda.bindings.nvrtc": nvrtc}
        self.held["cuda.bindings"] = {"driver": driver}

    def find_spec(self, name: str, *_: Any) -> Any:
        is_compared = name.partition(".")[0] in _COMPARED
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if is_compared else None

    def create_module(self, spec: Any) -> Any:
        below = {key.rpartition(".")[::2]: it for key, it in self.held.items()}
        held = {name: SimpleNamespace(**it) for (at, name), it in below.items() if at == spec.name}
        held |= self.held.get(spec.name, {})
        return MagicMock(__spec__=spec, __path__=[], **held)

    def exec_module(self, module: Any) -> None:
        pass


@dataclass
class Tensor:
    """Where an argument lies in memory: its storage, and the bytes from where on and how many."""

    storage: Any
    begin: int
    size: int

    @staticmethod
    def of(given: Any) -> "Tensor":
        """What a tensor reaches, whose elements may lie apart."""
        import torch

        with torch._C.DisableTorchFunction():
            pairs = zip(given.shape, given.stride(), strict=True)
            extent = 1 + sum((size - 1) * step for size, step in pairs) if given.numel() else 0
            begin, size = (it * given.element_size() for it in (given.storage_offset(), extent))
            return Tensor(given.untyped_storage(), begin, size)

    @property
    def bytes(self) -> Any:
        """A view, through which it can be changed."""
        import torch

        whole = torch.empty(0, dtype=torch.uint8).set_(self.storage)
        return whole[self.begin : self.begin + self.size].numpy()

    @property
    def address(self) -> int:
        """Of a GPU, where storages are far apart."""
        number = _STORAGES.setdefault(self.storage.data_ptr(), len(_STORAGES) + 1)
        return (number << 40) + self.begin


@dataclass
class Launch:
    """A function that a kernel launches, with the arguments of its first launch."""

    function: PrimFunc
    given: list[Any]
    places: list[Tensor | None]


_STORAGES: dict[int, int] = {}
_BY_ADDRESS: dict[int, Tensor] = {}
_IN_MEMORY: list[Tensor] = []
"""What tensors hold addresses of, as numbers or in images of tensor maps."""
_MAPS: dict[int | bytes, tuple[Any, ...]] = {}
"""What tensor maps describe, by where they lie or what they are."""


def get_address(tensor: Any) -> int:
    place = Tensor.of(tensor)
    _BY_ADDRESS[place.address] = place
    return place.address


def find_tensor(address: int) -> Tensor:
    """From an address on, the rest of the storage in which it lies."""
    for place in _BY_ADDRESS.values():
        first, whole = place.address - place.begin, place.storage.nbytes()
        if first <= address < first + whole:
            return Tensor(place.storage, address - first, whole - (address - first))
    raise KeyError(f"no tensor is at the address {address}")


def encode(place: Any, dtype: str, rank: int, data: Any, *fields: int) -> None:
    _MAPS[place.value] = find_tensor(data.value), dtype, rank, *fields


def encode_in_memory(kind: int, rank: int, address: int, *arrays: Any) -> Any:
    """The words of a tensor map, for a tensor."""
    *lists, _, swizzle, _, _ = arrays
    _IN_MEMORY.append(find_tensor(address))
    flat = [int(each) for one in lists for each in one]
    modes = 0, swizzle, 0, 0, kind
    image = encode_image(address, "uint8", flat, *modes)
    _MAPS[image.tobytes()] = _IN_MEMORY[-1], "uint8", rank, *flat, *modes
    return image.view(np.uint64)


def encode_by_driver(place: Any, kind: Any, rank: Any, data: Any, *arrays: Any) -> int:
    """The driver's function with its numbers of types, for those that TVM does not name."""
    *lists, interleave, swizzle, promotion, fill = arrays
    dtype = {13: "float4_e2m1fn", 14: "float4_e2m1fn"}[int(kind)]
    forced = () if int(kind) == 13 else (int(kind),)
    flat = [int(each) for one in lists for each in one]
    encode(place, dtype, rank.value, data, *flat, interleave, swizzle, promotion, fill, *forced)
    return 0


def note_launches(name: str, launches: dict[PrimFunc, Launch]) -> None:
    """Put the functions that a kernel launches into a dictionary, with their first arguments.

    What tensor maps the host encodes before is encoded by the functions themselves, in front of
    their launches.
    """
    import torch
    from tirx_kernels import registry, runner

    kernel = registry.load_kernel(name, strict=True)
    for module in [it for it in sys.modules if it.partition(".")[0] in _COMPARED]:
        del sys.modules[module]  # some of these PyTorch imports
    sys.meta_path.insert(0, _Absent())
    (digits,) = re.findall("[0-9]+", kernel.KERNEL_META["runtime_cuda_archs"][0])

    class InHostMemory(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, called: Any, types: Any, given: Any = (), named: Any = None):
            if called in (torch.Tensor.cuda, torch.Tensor.device.__get__):
                return given[0] if called is torch.Tensor.cuda else torch.device("cuda", 0)
            if called == torch.Tensor.is_cuda.__get__:
                return True
            if called is torch.Tensor.data_ptr:
                return get_address(*given)
            if called is not torch.device:
                given = ["cpu" if str(it).startswith("cuda") else it for it in given]
                named = {key: "cpu" if key == "device" else it for key, it in (named or {}).items()}
            return called(*given, **(named or {}))

    def read(given: Any, parameter: Any) -> Any:
        if isinstance(given, int | float):
            return np.array(given, get_numpy_dtype(parameter.ty))
        bits = (given if isinstance(given, Tensor) else Tensor.of(given)).bytes.copy()
        if not hasattr(parameter, "dtype"):
            return bits
        values = bits.view(get_numpy_dtype(parameter.dtype))
        shape = getattr(given, "shape", ())
        return values.reshape(shape) if values.size == math.prod(shape) else values

    def launch(function: PrimFunc, *given: Any) -> None:
        parameters, arguments, host = [], [], []
        for parameter, argument in zip(function.params, given, strict=True):
            if not isinstance(argument, ctypes.c_void_p):
                parameters.append(parameter)
                arguments.append(argument)
        places = [Tensor.of(it) if isinstance(it, torch.Tensor) else None for it in arguments]

        def find_place(tensor: Tensor, name: str) -> int:
            """The argument with a tensor's memory up to its end, or a new one with all of it."""
            first, end = tensor.begin, tensor.begin + tensor.size
            for at, it in enumerate(places):
                is_same = it is not None and it.storage.data_ptr() == tensor.storage.data_ptr()
                if is_same and it.begin <= first and it.begin + it.size == end:
                    return at
            whole = Tensor(tensor.storage, 0, tensor.storage.nbytes())
            parameters.append(decl_buffer([whole.size], "uint8", f"of_{name}"))
            arguments.append(whole)
            places.append(whole)
            return len(places) - 1

        for parameter, argument in zip(function.params, given, strict=True):
            if isinstance(argument, ctypes.c_void_p):
                where = argument.value
                image = where if where in _MAPS else ctypes.string_at(where, 128)
                tensor, dtype, rank, *fields = _MAPS[image]
                at = find_place(tensor, parameter.name)
                buffer, skipped = parameters[at], tensor.begin - places[at].begin
                size, other = (get_numpy_dtype(it).itemsize for it in (buffer.dtype, dtype))
                if size not in (1, other):  # the memory is bytes, of which both types are views
                    pairs = zip(buffer.shape, arguments[at].shape, strict=True)
                    sizes = [(it, IntImm(it.ty, n)) for it, n in pairs if isinstance(it, Var)]
                    parameters[at] = decl_buffer([places[at].size], "uint8", buffer.name)
                    arguments[at] = places[at]
                    host[:0] = [*starmap(Bind, sizes), DeclBuffer(buffer, data=parameters[at].data)]
                host.append(Bind(parameter, T.tvm_stack_alloca("tensormap", 1)))
                name = "runtime.cuTensorMapEncodeTiled"
                data = T.handle_add_byte_offset(buffer.data, skipped) if skipped else buffer.data
                call = T.call_packed(name, parameter, dtype, rank, data, *fields)
                host.append(Evaluate(call))
        for numbers in arguments:
            if isinstance(numbers, torch.Tensor) and numbers.dtype in (torch.int64, torch.uint64):
                found = set(numbers.reshape(-1).tolist()) & _BY_ADDRESS.keys()
                _IN_MEMORY.extend(_BY_ADDRESS[it] for it in sorted(found))
        for number, tensor in enumerate(_IN_MEMORY):
            find_place(tensor, f"map_{number}")
        arrays = [read(it, parameter) for it, parameter in zip(arguments, parameters, strict=True)]
        made = function
        if len(parameters) > len(function.params) or host:
            body = SeqStmt([*host, function.body]) if host else function.body
            made = PrimFunc(parameters, body, function.ret_type, attrs=function.attrs)
        made = made.with_attr(ADDRESSES, [it.address if it else 0 for it in places])
        made = made.with_attr("target", Target({"kind": "cuda", "arch": f"sm_{digits}a"}))
        launches.setdefault(function, Launch(made, arrays, places))

    def compile_nothing(module: Any, *_: Any, **__: Any) -> Any:
        function = module if isinstance(module, PrimFunc) else module["main"]
        compiled = MagicMock(side_effect=partial(launch, function))
        compiled.jit.return_value = compiled.main = compiled.mod = compiled
        compiled.__getitem__.return_value = compiled
        return compiled

    def open_library(name: Any, *given: Any, **named: Any) -> Any:
        if "cuda" not in str(name):
            return ctypes_open(name, *given, **named)
        driver = MagicMock(**{"cuInit.return_value": 0})
        driver.cuTensorMapEncodeTiled = encode_by_driver
        return driver

    tvm_ffi.register_global_func("runtime.cuTensorMapEncodeTiled", encode, override=True)
    make, torch.cuda = torch.Generator, MagicMock(**{"current_device.return_value": 0})
    torch.Generator = lambda device=None: make("cpu")
    torch.cuda.current_stream.return_value.cuda_stream = 0
    major, minor = torch.cuda.get_device_capability.return_value = divmod(int(digits), 10)
    gpu = MagicMock(multi_processor_count=4, shared_memory_per_block_optin=232448)
    gpu.major, gpu.minor = major, minor
    torch.cuda.get_device_properties.return_value = gpu
    runner.bench = lambda functions, **_: [it() for it in functions.values()]
    ctypes_open, ctypes.CDLL = ctypes.CDLL, open_library
    # Where a kernel has such a library, nvcc compiles it; it makes a schedule, and says 0.
    kernel._reference_library = lambda: MagicMock(**{f"{_FASTCU}.return_value": 0})
    for path in ("__init__.py", _GATHERED):
        (at := Path(os.environ["TIRX_FLASHINFER_SOURCE_ROOT"], "flashinfer", path)).parent.mkdir(
            parents=True, exist_ok=True
        )
        at.touch()
    with InHostMemory(), patch.object(runner.tvm, "compile", compile_nothing):
        configs = [{key: it[key] for key in it if key != "label"} for it in kernel.CONFIGS]
        config = min(configs, key=lambda it: sum(n for n in it.values() if type(n) is int))
        kernel.prepare_bench(**{**config, **_SMALLER.get(name, {})}).run_gpu()


_GATHERED = "fused_moe/cute_dsl/rubin/blockscaled_contiguous_gather_grouped_gemm_swiglu_fusion.py"
"""A file of FlashInfer that a kernel looks for, to import what is beside it."""
_FASTCU = "fastcu_nvfp4_prepare_schedule"
_FEW, _SPARSE = {"num_sms": 4}, {"s_q": 2, "s_kv": 256}
_GROUPS = {"num_groups": 2, "N": 512, "K": 512}
_ONE_HEAD = {"num_heads": 1, "num_value_heads": 1}
_BLOCK, _EXTRA = {"seqlen_kv": 128, "topk": 4}, {"extra_s_kv": 256, "extra_topk": 64}
_SMALLER: dict[str, dict[str, Any]] = {
    "deepgemm_sm100_fp8_mqa_logits": {**_FEW, "seq_len": 32, "seq_len_kv": 512},
    "deepgemm_sm100_fp4_mqa_logits": {**_FEW, "seq_len": 32, "seq_len_kv": 512},
    "deepgemm_sm100_fp8_paged_mqa_logits": _FEW,
    "deepgemm_sm100_fp4_paged_mqa_logits": _FEW,
    "deepgemm_sm100_fp8_bmm": {"H": 2, "R": 512, "D": 256},
    "deepgemm_sm100_k_grouped_fp8_gemm_contiguous": {"num_groups": 2, "M": 256, "N": 512},
    "deepgemm_sm100_m_grouped_fp8_gemm_contiguous": {**_GROUPS, "expected_m_per_group": 128},
    "deepgemm_sm100_m_grouped_fp8_gemm_masked": _GROUPS,
    "cudnn_sm100_dsa_sparse_attention_backward": {"seqlen_q": 4, "seqlen_kv": 256},
    "flash_attention4": {"seq_len": 256, "num_qo_heads": 1, "num_kv_heads": 1},
    "flash_attention_backward_sm100": {"seq_len": 256, "num_heads": 1},
    "gdn_cp_prefill_sm100": {"seq_lens": (256,), "cp_chunk_len": 128},
    "gdn_prefill_sm100": {"seq_lens": (128,)},
    "kda_backward_packed": {"num_qk_heads": 1, "num_v_heads": 2, "seq_lens": (65,)},
    "kda_forward_portfolio_multishape": {"seq_lens": (1,)},
    "msa_prefill_multishape": {"seqlen_q": 8, "num_qo_heads": 8, "num_kv_heads": 1, **_BLOCK},
    "recurrent_kda_decode_one_warp": {"num_seqs": 128, **_ONE_HEAD, "pool_size": 128},
    "sparse_flashmla_decode_head64": {"b": 1, "s_q": 1, "s_kv": 256, **_EXTRA},
    "sparse_flashmla_prefill_head128_phase1": {**_SPARSE, "topk": 256, "d_qk": 576},
    "sparse_flashmla_prefill_head64_phase1": {**_SPARSE, "topk": 128},
    "sparse_flashmla_prefill_head128_small_topk_phase1": {**_SPARSE, "topk": 128},
}
"""Sizes that are smaller than those of the package's own configurations."""


def note_all(name: str) -> list[Launch]:
    launches: dict[PrimFunc, Launch] = {}
    try:
        note_launches(name, launches)
    except Exception:  # what follows a launch compares it with other libraries
        if not launches:
            raise
    return [*launches.values()]


def make_problem(name: str, function: PrimFunc, given: list[Any]) -> Any:
    sizes = {}
    for parameter, array in zip(function.params, given, strict=True):
        extents = getattr(parameter, "shape", (parameter,))
        sizes |= dict(zip(map(str, extents), array.shape or (array,), strict=False))
    kernel = ModuleKernel(make_main(function), name, recorded=given)
    return kernel.problem(**{it: int(sizes[it]) for it in kernel.size_names})


def judge_launch(name: str, function: PrimFunc, given: list[Any]) -> Any:
    problem = make_problem(name, function, given)
    return judge_numbers(problem, problem.module, SimulatorDevice(), where=name)


def hand_on(device: SimulatorDevice, problem: Any, launch: Launch, later: list[Launch]) -> None:
    """Run a launch, and put what it stores into the arguments of those after it."""
    program = device.compile(problem.module)
    program.in_out = problem.loaded_outputs
    results = program(launch.given)
    for at, source in enumerate(launch.places):
        new, old = (
            np.ascontiguousarray(it[at]).reshape(-1).view(np.uint8)
            for it in (results, launch.given)
        )
        changed = new != old
        if at in program.stored:
            changed |= np.repeat(program.stored[at].reshape(-1), results[at].dtype.itemsize)
        pairs = [pair for it in later for pair in zip(it.places, it.given, strict=True)]
        for place, array in pairs if source is not None else ():
            if place is not None and place.storage.data_ptr() == source.storage.data_ptr():
                first = max(place.begin, source.begin)
                end = min(place.begin + place.size, source.begin + source.size)
                here = slice(first - source.begin, max(first, end) - source.begin)
                there = array.reshape(-1).view(np.uint8)[first - place.begin :][
                    : max(0, end - first)
                ]
                there[changed[here]] = new[here][changed[here]]


def judge(name: str) -> list[tuple[str, str, set[str]]]:
    """For each function that a kernel launches a verdict, a sentence, and what is not known."""
    rows = []
    launches = note_all(name)
    for number, launch in enumerate(launches):
        problem = make_problem(name, launch.function, launch.given)
        device, unknown = SimulatorDevice(), set()
        judged = judge_numbers(problem, problem.module, device, where=name)
        is_judged = judged.status is not Status.NOT_JUDGED
        for call in [] if is_judged else find_all(lower(problem.module)["main"].body, Call):
            try:
                translate_statement(Evaluate(call))
            except Exception as error:  # or it is a part of a statement, and none by itself
                unknown |= {*re.findall("not know the function '(.*?)'", str(error))}
        said = "; ".join(map(str, judged.findings)) or judged.reason
        rows.append((str(judged.status), said, unknown))
        if later := launches[number + 1 :]:
            if not is_judged:
                said = "what it gets is made by a launch that is not judged"
                return [*rows, *((str(Status.NOT_JUDGED), said, set[str]()) for _ in later)]
            hand_on(device, problem, launch, later)
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
    for launch in note_all(name):
        function, given = launch.function, launch.given
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
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TIRX_FLASHINFER_SOURCE_ROOT"] = folder
        main()
