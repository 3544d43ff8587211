"""Pairs of dependent reductions to fuse, made of the texts of their updates, and what they give."""

from __future__ import annotations

import numpy as np
import tvm
from kernels import parse_kernel
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tirstep.lowering_checks.devices import CpuDevice
from tirstep.transforms import fuse_reductions

ROWS, COLUMNS = 5, 24

Plain = parse_kernel("""
    A (5, 24), s (5,)
    m (5,)
    for i, k in T.grid(5, 24):
        with T.sblock("first", "SR", i, k):
            with T.init():
                m[vi] = T.min_value("float32")
            m[vi] = T.max(m[vi], A[vi, vk])
    for i, k in T.grid(5, 24):
        with T.sblock("second", "SR", i, k):
            s[vi] += T.exp(A[vi, vk] - m[vi])
""")

_PAIR = """
A ({rows}, {columns}) {dtype}, B ({rows}, {columns}) {dtype},
s ({rows},) {dtype}
m = T.sblock_alloc_buffer(({rows},), "{dtype}")
for i, k in T.grid({rows}, {columns}):
    with T.sblock("first", "SR", i, k):
        a = T.meta_var(A[vi, vk])
        with T.init():
            m[vi] = {begin}
        m[vi] = {find}
for i, k in T.grid({rows}, {columns}):
    with T.sblock("second", "SR", i, k):
        a = T.meta_var(A[vi, vk])
        b = T.meta_var(B[vi, vk])
        with T.init():
            s[vi] = {start}
        s[vi] = {use}
"""
LEAST = "T.min_value('{dtype}')"
PRODUCERS = {
    "max": (LEAST, "T.max(m[vi], a)"),
    "max of -inf": ("T.{dtype}('-inf')", "T.max(m[vi], a)"),
    "min": ("T.max_value('{dtype}')", "T.min(m[vi], a)"),
    "sum": ("T.{dtype}(0)", "m[vi] + a"),
    "squares": ("T.{dtype}(0)", "m[vi] + a * a"),
    "product": ("T.{dtype}(1)", "m[vi] * a"),
}


def make_pair(
    producer: str, use: str, start: str = "T.{dtype}(0)", dtype: str = "float64"
) -> tvm.IRModule:
    """Blocks "first", which finds m of a, and "second", which uses it: `use` is an update of s."""
    begin, find = PRODUCERS[producer]
    parts = {"begin": begin, "find": find, "use": use, "start": start}
    texts = {name: part.replace("{dtype}", dtype) for name, part in parts.items()}
    return parse_kernel(_PAIR.format(rows=ROWS, columns=COLUMNS, dtype=dtype, **texts))


def fuse_pair(module: tvm.IRModule, tile: int | None = None, accumulate: str = "in place"):
    """The schedule of a pair, fused in steps of a tile, or of one element."""
    sch = Schedule(module)
    producer, consumer = sch.get_sblock("first"), sch.get_sblock("second")
    loop = sch.get_loops(producer)[1]
    if tile is not None:
        loop = sch.split(loop, [None, tile])[0]
    fuse_reductions(sch, producer, consumer, loop, accumulate=accumulate)
    return sch


def draw(dtype: str = "float64", *, is_masked: bool, is_positive: bool = False) -> list[np.ndarray]:
    """A and B; of A, rows may begin, end or be interrupted with -inf."""
    generator = np.random.default_rng(1)
    if not dtype.startswith("float"):
        return [generator.integers(-5, 6, (ROWS, COLUMNS)).astype(dtype) for _ in range(2)]
    first, second = (generator.standard_normal((ROWS, COLUMNS)).astype(dtype) for _ in range(2))
    if is_positive:
        first = abs(first) + 0.1
    if is_masked:
        first[1, :7] = first[2, 9:] = first[3, 3:16] = -np.inf
    return [first, second]


def run_pair(module: tvm.IRModule, inputs: list[np.ndarray]) -> np.ndarray:
    """The consumer's result, by LLVM."""
    dtype = inputs[-1].dtype
    blank = np.full(ROWS, np.nan if dtype.kind == "f" else -99, dtype)
    return CpuDevice().compile(module)([*inputs, blank])[-1]


def find_blocks(sch: Schedule, *names: str) -> list[SBlockRV]:
    return [sch.get_sblock(name) for name in names]
