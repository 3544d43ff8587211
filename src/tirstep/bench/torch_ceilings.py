"""A GPU's own limits, measured as contenders are: copies, multiplications, an empty launch."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from .fma import THREADS, count_fma_operations, make_empty_kernel, make_fma_kernel
from .machine import Launch, Machine
from .results import Ceilings, summarize

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
    additions in registers; that of float16 and bfloat16 is what PyTorch reaches in a large matrix
    product. Other types have none.
    """
    how: dict[str, str] = {}
    copy, how["copy"] = _measure_copy(machine)
    flops: dict[str, float] = {}
    for dtype in dict.fromkeys(dtypes):
        if dtype == "float32":
            flops[dtype], how[dtype] = _measure_fma(machine, properties.multi_processor_count)
        elif dtype in ("float16", "bfloat16"):
            flops[dtype], how[dtype] = _measure_product(machine, getattr(torch, dtype))
    one = torch.empty(1, device="cuda")
    (empty,) = _time(machine, machine.compile(make_empty_kernel(), [one]))
    how["empty"] = "a kernel of one thread that writes one number"
    fitting = [size for size in moved if 2 * size <= machine.free_bytes()]
    copies = {str(size): 1e6 * min(_time_copies(machine, size // 8)) for size in fitting}
    how["copies_us"] = "by the driver or by a kernel with another sign, whichever is faster"
    machine.clear()
    return Ceilings(copy, flops, 1e6 * empty, how, copies)


def _measure_copy(machine: Machine) -> tuple[float, str]:
    """The fastest of several."""
    rates = {}
    for size in COPY_BYTES:
        words = min(size, machine.free_bytes() // 8) // 4
        by_driver, by_kernel = _time_copies(machine, words)
        mebibytes = 4 * words >> 20
        rates[f"a copy of {mebibytes} MiB by the driver"] = 8 * words / by_driver
        rates[f"a kernel that copies {mebibytes} MiB with another sign"] = 8 * words / by_kernel
    how = max(rates, key=lambda one: rates[one])
    return rates[how], f"{how}, bytes read and written: the fastest of {len(rates)} copies"


def _time_copies(machine: Machine, words: int) -> tuple[float, float]:
    """Seconds in which the driver and a kernel copy so many words of four bytes.

    The driver's own copy is slow in a recorded graph at some sizes.
    """
    words = max(words, 1)
    source, target = torch.rand(words, device="cuda"), torch.empty(words, device="cuda")
    launches = (
        functools.partial(target.copy_, source),
        functools.partial(torch.neg, source, out=target),
    )
    by_driver, by_kernel = _time(machine, *launches)
    return by_driver, by_kernel


def _measure_fma(machine: Machine, multiprocessors: int) -> tuple[float, str]:
    blocks = BLOCKS_PER_SM * multiprocessors
    x = torch.tensor([0.999, 0.001], device="cuda")
    y = torch.empty(blocks * THREADS, device="cuda")
    (seconds,) = _time(machine, machine.compile(make_fma_kernel(blocks, FMA_STEPS), [x, y]))
    how = "multiplications with additions in registers, eight independent chains for each thread"
    return count_fma_operations(blocks, FMA_STEPS) / seconds, how


def _measure_product(machine: Machine, dtype: torch.dtype) -> tuple[float, str]:
    a, b = (torch.rand(MATRIX, MATRIX, device="cuda").sub_(0.5).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    (seconds,) = _time(machine, lambda: torch.mm(a, b, out=out))
    return 2 * MATRIX**3 / seconds, f"torch.mm of {MATRIX}×{MATRIX}×{MATRIX}, random values"


def _time(machine: Machine, *launches: Launch) -> list[float]:
    """The median of each in seconds; they take turns."""
    replays = [machine.record(launch, None) for launch in launches]
    times = machine.time(replays, [ROUNDS] * len(replays))
    return [summarize(seconds).median_us / 1e6 for seconds in times]
