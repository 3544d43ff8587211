"""Kernels as people write them first: each thread has four elements, one after the other."""

from tvm.script import tirx as T


@T.prim_func
def axpy(
    X: T.Buffer((4096,), "float32"),
    Y: T.Buffer((4096,), "float32"),
    Z: T.Buffer((4096,), "float32"),
):
    for bx in T.thread_binding(8, thread="blockIdx.x"):
        for tx in T.thread_binding(128, thread="threadIdx.x"):
            for i in range(4):
                Z[bx * 512 + tx * 4 + i] = (
                    X[bx * 512 + tx * 4 + i] * T.float32(2) + Y[bx * 512 + tx * 4 + i]
                )


@T.prim_func
def total(X: T.Buffer((4096,), "float32"), Z: T.Buffer((1024,), "float32")):
    for bx in T.thread_binding(8, thread="blockIdx.x"):
        for tx in T.thread_binding(128, thread="threadIdx.x"):
            Z[bx * 128 + tx] = T.float32(0)
            for i in range(4):
                Z[bx * 128 + tx] = Z[bx * 128 + tx] + X[bx * 512 + tx * 4 + i]
