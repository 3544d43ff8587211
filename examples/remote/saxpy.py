"""Z = a X + Y, as TVMScript prints it, and a schedule of it: what a machine elsewhere is to run."""

from tvm.s_tir import Schedule
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.transforms import split_loop


@I.ir_module
class Saxpy:
    @T.prim_func(s_tir=True)
    def main(
        X: T.Buffer((1000,), "float32"),
        Y: T.Buffer((1000,), "float32"),
        Z: T.Buffer((1000,), "float32"),
    ):
        for i in range(1000):
            with T.sblock("Z"):
                v = T.axis.spatial(1000, i)
                Z[v] = T.float32(2.5) * X[v] + Y[v]


def in_vectors(sch: Schedule) -> None:
    """Eight elements at once."""
    (loop,) = sch.get_loops(sch.get_sblock("Z"))
    _, inner = split_loop(sch, loop, inner=8)
    sch.vectorize(inner)
