from kernel import Matmul
from tiled import tiled
from tvm.s_tir import Schedule


def test_tiled(tir_golden, tir_check):
    sch = Schedule(Matmul)
    for step in tiled(sch):
        tir_golden(sch, step)
    tir_check(sch, Matmul)
