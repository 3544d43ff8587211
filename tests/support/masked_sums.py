"""A sum of what a mask lets through, for the tests of what becomes of masks."""

from __future__ import annotations

from typing import Any

import tvm
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.transforms import bind_loop, split_loop


def make_masked_sum(term: Any, first: int = 0) -> tvm.IRModule:
    """B(16) = sums over the rows of A(16, 24) of a term of (i, k, A[i, k])."""

    @I.ir_module
    class MaskedSum:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((16, 24), "float32"), B: T.Buffer((16,), "float32")):
            for i in range(16):
                for k in range(first, 24):
                    with T.sblock("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + term(vi, vk, A[vi, vk])

    return MaskedSum


def see(i: Any, k: Any, value: Any) -> Any:
    """The value up to the diagonal, 0 behind it."""
    return T.if_then_else(k <= i, value, T.float32(0))


def bind_masked_sum(sch: Schedule) -> LoopRV:
    """A row for each thread; the loop over tiles of its elements."""
    row, k = sch.get_loops(sch.get_sblock("B"))
    outer, inner = split_loop(sch, row, inner=4)
    bind_loop(sch, outer, axis="blockIdx.x")
    bind_loop(sch, inner, axis="threadIdx.x")
    return split_loop(sch, k, inner=4).outer
