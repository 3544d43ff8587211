"""A kernel of multiplications and additions in registers alone: it runs at the arithmetic peak."""

from __future__ import annotations

import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

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


def make_empty_kernel() -> tvm.IRModule:
    """A bound module of one thread that writes one number: its time is what a launch takes."""

    @I.ir_module
    class Empty:
        @T.prim_func(s_tir=True)
        def main(Y: T.Buffer((1,), "float32")):
            T.func_attr({"tirx.noalias": True})
            for b in T.thread_binding(1, thread="blockIdx.x"):
                with T.sblock("Y"):
                    vi = T.axis.spatial(1, b)
                    Y[vi] = T.float32(1)

    return Empty
