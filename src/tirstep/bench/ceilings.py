"""A GPU's own limits, measured as candidates are: copies, multiplications, an empty launch."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.modules import matmul

from .peers import PEERS
from .results import Ceilings, summarize
from .session import Launch

if TYPE_CHECKING:
    from .torch_machine import TorchMachine as Machine

THREADS = 256
CHAINS = 8
UNROLLED = 64


def make_fma_kernel(blocks: int, steps: int) -> tvm.IRModule:
    """A bound module: each thread has 8 chains of `steps` dependent sums c = c * X[0] + X[1].

    `blocks` blocks of 256 threads; `steps` is a multiple of 64. X has 2 elements, Y one for each
    thread. The chains do not depend on each other, so that the units of an SM are always fed, and
    each ends in Y, so that none of them can be left out. See `count_fma_operations`.
    """
    all_threads, rounds = blocks * THREADS, steps // UNROLLED

    @I.ir_module
    class FMA:
        @T.prim_func(s_tir=True)
        def main(X: T.Buffer((2,), "float32"), Y: T.Buffer((all_threads,), "float32")):
            T.func_attr({"tirx.noalias": True})
            sums = T.sblock_alloc_buffer((all_threads, CHAINS), "float32", scope="local")
            for b in T.thread_binding(blocks, thread="blockIdx.x"):
                for t in T.thread_binding(THREADS, thread="threadIdx.x"):
                    for c in T.unroll(CHAINS):
                        with T.sblock("begin"):
                            vi = T.axis.spatial(all_threads, b * THREADS + t)
                            vc = T.axis.spatial(CHAINS, c)
                            sums[vi, vc] = T.Cast("float32", vi + vc)
                    for _ in T.serial(rounds):
                        for _ in T.unroll(UNROLLED):
                            for c in T.unroll(CHAINS):
                                with T.sblock("step"):
                                    vi = T.axis.spatial(all_threads, b * THREADS + t)
                                    vc = T.axis.opaque(CHAINS, c)
                                    sums[vi, vc] = sums[vi, vc] * X[0] + X[1]
                    for c in T.unroll(CHAINS):
                        with T.sblock("end"):
                            vi = T.axis.spatial(all_threads, b * THREADS + t)
                            vc = T.axis.reduce(CHAINS, c)
                            with T.init():
                                Y[vi] = T.float32(0)
                            Y[vi] = Y[vi] + sums[vi, vc]

    return FMA


def count_fma_operations(blocks: int, steps: int) -> int:
    """Two for each multiplication with its addition."""
    return 2 * blocks * THREADS * CHAINS * steps


PRODUCTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "float16": {"out": "float16"},
        "bfloat16": {"out": "bfloat16"},
        "tf32": {},
        "int8": {"transpose_b": True},
        "float8_e4m3fn": {"acc": "fp22", "out": "bfloat16", "transpose_b": True},
    }
)
"""Types whose peak is that of a matrix product, with the other options of matmul."""

ROUNDS = 15
COPY_BYTES = (1 << 30, 1 << 28)
MATRIX = 8192
BLOCKS_PER_SM = 8
FMA_STEPS = 1 << 16


def measure_ceilings(
    machine: Machine, properties: Any, dtypes: Sequence[str], moved: Sequence[int]
) -> Ceilings:
    """Copy bandwidth in bytes a second, peaks in operations a second, the empty launch in us.

    `moved` are numbers of bytes, read and written, whose copies are timed, too, but for those that
    do not fit into the device's memory. The peak of float32 is that of multiplications and
    additions in registers; those of the types of tensor cores are what PyTorch reaches in a large
    matrix product. Other types have none.
    """

    import torch

    how: dict[str, str] = {}
    rates = {}
    for size in COPY_BYTES:
        words = min(size, machine.free_bytes() // 8) // 4
        by_driver, by_kernel = _time_copies(machine, words)
        mebibytes = 4 * words >> 20
        rates[f"a copy of {mebibytes} MiB by the driver"] = 8 * words / by_driver
        rates[f"a kernel that copies {mebibytes} MiB with another sign"] = 8 * words / by_kernel
    fastest = max(rates, key=lambda name: rates[name])
    how["copy"] = f"{fastest}, bytes read and written: the fastest of {len(rates)} copies"
    flops: dict[str, float] = {}
    for dtype in dict.fromkeys(dtypes):
        if dtype == "float32":
            blocks = BLOCKS_PER_SM * properties.multi_processor_count
            x = torch.tensor([0.999, 0.001], device="cuda")
            y = torch.empty(blocks * THREADS, device="cuda")
            (took,) = _time(machine, machine.compile(make_fma_kernel(blocks, FMA_STEPS), [x, y]))
            flops[dtype] = count_fma_operations(blocks, FMA_STEPS) / took
            chains = "eight independent chains for each thread"
            how[dtype] = f"multiplications with additions in registers, {chains}"
        elif dtype in PRODUCTS:
            problem = matmul.problem(MATRIX, MATRIX, MATRIX, dtype=dtype, **PRODUCTS[dtype])
            sizes, output = (2, MATRIX, MATRIX), problem.outputs[0]
            if dtype == "int8":
                a, b = torch.randint(-128, 128, sizes, device="cuda").to(torch.int8)
            else:
                stored = getattr(torch, problem.inputs[0].dtype)
                a, b = torch.rand(*sizes, device="cuda").sub_(0.5).to(stored)
            out = torch.empty(*output.shape, dtype=getattr(torch, output.dtype), device="cuda")
            launch = PEERS["torch"].get_function("matmul")([a, b], out, problem)
            (took,) = _time(machine, launch)
            flops[dtype] = problem.flops / took
            how[dtype] = f"PyTorch's product of {MATRIX}×{MATRIX}×{MATRIX}, random values"
    number = torch.empty(1, device="cuda")
    (empty,) = _time(machine, functools.partial(number.fill_, 1.0))
    how["empty"] = "a kernel of PyTorch's that writes one number"
    fitting = [size for size in moved if 2 * size <= machine.free_bytes()]
    copies = {str(size): 1e6 * min(_time_copies(machine, size // 8)) for size in fitting}
    how["copies_us"] = "by the driver or by a kernel with another sign, whichever is faster"
    machine.clear()
    return Ceilings(rates[fastest], flops, 1e6 * empty, how, copies)


def _time_copies(machine: Machine, words: int) -> tuple[float, float]:
    """Seconds in which the driver and a kernel copy so many words of four bytes.

    The driver's own copy is slow in a recorded graph at some sizes.
    """

    import torch

    words = max(words, 1)
    source, target = torch.rand(words, device="cuda"), torch.empty(words, device="cuda")
    launches = (
        functools.partial(target.copy_, source),
        functools.partial(torch.neg, source, out=target),
    )
    by_driver, by_kernel = _time(machine, *launches)
    return by_driver, by_kernel


def _time(machine: Machine, *launches: Launch) -> list[float]:
    """The median of each in seconds; they take turns."""
    replays = [machine.record(launch, ()) for launch in launches]
    times = machine.time(replays, [ROUNDS] * len(replays))
    return [summarize(seconds).median_us / 1e6 for seconds in times]
