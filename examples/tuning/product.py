"""A project without tirstep: its function, and the database that it applies with only TVM."""

import sys

import numpy as np
import tvm
from tvm.s_tir.meta_schedule.database import JSONDatabase
from tvm.s_tir.meta_schedule.tir_integration import compile_tir
from tvm.script import ir as I
from tvm.script import tirx as T


def make_product(m: int, n: int, k: int) -> tvm.IRModule:
    """C = A B: block "C", loops i, j and p."""
    M, N, K = m, n, k

    @I.ir_module
    class Product:
        @T.prim_func(s_tir=True)
        def main(
            A: T.Buffer((M, K)),
            B: T.Buffer((K, N)),
            C: T.Buffer((M, N)),
        ):
            for i, j, p in T.grid(M, N, K):
                with T.sblock("C"):
                    vi, vj, vp = T.axis.remap("SSR", [i, j, p])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vp] * B[vp, vj]

    return Product


def build_tuned(folder: str, m: int, n: int, k: int):
    """The product as the database schedules it; raises ValueError where it has no such product."""
    target = tvm.target.Target("llvm")
    database = JSONDatabase(work_dir=folder, allow_missing=False)
    sch = compile_tir(database, make_product(m, n, k)["main"], target)
    if sch is None:
        raise ValueError(f"{folder} has no product of {m}x{n}x{k}")
    return tvm.compile(sch.mod, target)


if __name__ == "__main__":
    m, n, k = 48, 64, 32
    executable = build_tuned(sys.argv[1], m, n, k)
    a, b = (np.random.default_rng(0).random(shape, "float32") for shape in ((m, k), (k, n)))
    c = tvm.runtime.tensor(np.zeros((m, n), "float32"))
    executable["main"](tvm.runtime.tensor(a), tvm.runtime.tensor(b), c)
    np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-5)
    print("tuned, right, and without tirstep:", "tirstep" not in sys.modules)
