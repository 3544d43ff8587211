"""TVM, s_tir/dlight/gpu/rmsnorm.py: the schedule of `RMSNormRule`.

The rule asks for six blocks in one order, with a row of its own length. The function here is of
that form, written anew; `by_hand` does what is done there, `with_tirstep` the same, for any norm
or softmax.
"""

from tvm.s_tir import Schedule
from tvm.script import tirx as T

from tirstep.transforms.plans import schedule_function


@T.prim_func(s_tir=True)
def rms_norm(
    x: T.Buffer((5, 1024), "float32"),
    gain: T.Buffer((1024,), "float32"),
    out: T.Buffer((5, 1024), "float32"),
):
    square = T.sblock_alloc_buffer((5, 1024))
    total = T.sblock_alloc_buffer((5,))
    scale = T.sblock_alloc_buffer((5,))
    for i, k in T.grid(5, 1024):
        with T.sblock("square"):
            vi, vk = T.axis.remap("SS", [i, k])
            square[vi, vk] = x[vi, vk] * x[vi, vk]
    for i, k in T.grid(5, 1024):
        with T.sblock("total"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                total[vi] = T.float32(0)
            total[vi] = total[vi] + square[vi, vk]
    for i in range(5):
        with T.sblock("scale"):
            vi = T.axis.spatial(5, i)
            scale[vi] = T.rsqrt(total[vi] * T.float32(0.0009765625) + T.float32(1e-5))
    for i, k in T.grid(5, 1024):
        with T.sblock("out"):
            vi, vk = T.axis.remap("SS", [i, k])
            out[vi, vk] = x[vi, vk] * scale[vi] * gain[vk]


def by_hand(sch: Schedule) -> None:
    """A row for each thread block, 128 threads, vectors of four."""
    square, total, scale, out = (
        sch.get_sblock(name) for name in ("square", "total", "scale", "out")
    )
    row, column = sch.get_loops(out)
    sch.bind(row, "blockIdx.x")
    _, thread, vector = sch.split(column, [None, 128, 4])
    sch.bind(thread, "threadIdx.x")
    sch.vectorize(vector)
    sch.compute_inline(scale)
    sch.compute_inline(square)
    sch.compute_at(total, row, preserve_unit_loops=True)
    sch.set_scope(total, 0, "shared")
    reduced = sch.get_loops(total)[-1]
    rest, thread = sch.split(reduced, [None, 128])
    sch.reorder(thread, rest)
    sch.bind(thread, "threadIdx.x")


def with_tirstep(sch: Schedule) -> None:
    """The plan of rows, with a config for this length."""
    schedule_function(sch)
