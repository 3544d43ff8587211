"""MLC-LLM, compiler_pass/attach_softmax_with_temperature.py: `apply_gpu_schedule`.

Chunks of a row have their maxima and sums of powers; this puts them together for each row. The
kernel here is of the same form, written anew; `by_hand` does what is done there, `with_tirstep`
the same.
"""

from tvm.s_tir import Schedule
from tvm.script import tirx as T

from tirstep.transforms import (
    bind_loop,
    compute_block_at,
    fuse_loops,
    keep_in_registers,
    spread_over_threads,
)


@T.prim_func(s_tir=True)
def softmax(
    logits: T.Buffer((3, 4, 64), "float32"),
    chunk_sums: T.Buffer((3, 4), "float32"),
    chunk_tops: T.Buffer((3, 4), "float32"),
    out: T.Buffer((3, 4, 64), "float32"),
):
    top = T.sblock_alloc_buffer((3,))
    total = T.sblock_alloc_buffer((3,))
    for i, c in T.grid(3, 4):
        with T.sblock("top"):
            vi, vc = T.axis.remap("SR", [i, c])
            with T.init():
                top[vi] = T.min_value("float32")
            top[vi] = T.max(top[vi], chunk_tops[vi, vc])
    for i, c in T.grid(3, 4):
        with T.sblock("total"):
            vi, vc = T.axis.remap("SR", [i, c])
            with T.init():
                total[vi] = T.float32(0)
            total[vi] = total[vi] + T.exp(chunk_sums[vi, vc] + chunk_tops[vi, vc] - top[vi])
    for i, c, j in T.grid(3, 4, 64):
        with T.sblock("out"):
            vi, vc, vj = T.axis.remap("SSS", [i, c, j])
            out[vi, vc, vj] = T.exp(logits[vi, vc, vj] - (T.log(total[vi]) + top[vi]))


def by_hand(sch: Schedule) -> None:
    """A chunk for each thread block, whose threads reduce the chunks of its row."""
    out = sch.get_sblock("out")
    row, chunk, column = sch.get_loops(out)
    outer = sch.fuse(row, chunk)
    sch.bind(outer, "blockIdx.x")
    inner, thread = sch.split(column, [None, 32])
    sch.reorder(thread, inner)
    sch.bind(thread, "threadIdx.x")
    for name in ("total", "top"):
        block = sch.get_sblock(name)
        sch.set_scope(block, 0, "shared")
        sch.compute_at(block, outer, preserve_unit_loops=True)
        rest, thread = sch.split(sch.get_loops(block)[-1], [None, 32])
        sch.reorder(thread, rest)
        sch.bind(thread, "threadIdx.x")


def with_tirstep(sch: Schedule) -> None:
    """The same, with both numbers of a row in registers."""
    top, total, out = (sch.get_sblock(name) for name in ("top", "total", "out"))
    outer = fuse_loops(sch, sch.get_loops(out)[:2])
    for block in (total, top):
        compute_block_at(sch, block, outer)
        keep_in_registers(sch, block)
    bind_loop(sch, outer, axis="blockIdx.x")
    for block in (out, total, top):
        spread_over_threads(sch, block, threads=32, tail="guard")
