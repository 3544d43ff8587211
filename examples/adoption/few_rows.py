"""MLC-LLM, compiler_pass/low_batch_specialization.py: another schedule for products of few rows.

There, dlight's rule for few rows and that for products are asked in turn, by the number of rows.
The function here multiplies by weights of four bits, written anew in the form of
quantization/utils.py; `by_hand` does what the rule for few rows does, `with_tirstep` chooses a
config by the number of rows.
"""

from tvm.s_tir import Schedule
from tvm.script import tirx as T

from tirstep.transforms.plans import GemmConfig, match_matmul, schedule_matmul


@T.prim_func(s_tir=True)
def few_rows(
    x: T.Buffer((4, 64), "float32"),
    packed: T.Buffer((32, 8), "uint32"),
    scales: T.Buffer((32, 2), "float32"),
    out: T.Buffer((4, 32), "float32"),
):
    weights = T.sblock_alloc_buffer((32, 64))
    for j, k in T.grid(32, 64):
        with T.sblock("weights"):
            vj, vk = T.axis.remap("SS", [j, k])
            weights[vj, vk] = (
                T.Cast(
                    "float32",
                    T.bitwise_and(
                        T.shift_right(packed[vj, vk // 8], T.Cast("uint32", vk % 8 * 4)),
                        T.uint32(15),
                    ),
                )
                - T.float32(7)
            ) * scales[vj, vk // 32]
    for i, j, k in T.grid(4, 32, 64):
        with T.sblock("out"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                out[vi, vj] = T.float32(0)
            out[vi, vj] = out[vi, vj] + x[vi, vk] * weights[vj, vk]


def by_hand(sch: Schedule) -> None:
    """A column for each thread block, whose threads share the sums of all rows."""
    block = sch.get_sblock("out")
    sch.compute_inline(sch.get_sblock("weights"))
    row, column, k = sch.get_loops(block)
    sch.reorder(column, row, k)
    sch.bind(column, "blockIdx.x")
    rest, thread, few = sch.split(k, [None, 16, 2])
    sch.reorder(row, thread, rest, few)
    sch.bind(thread, "threadIdx.x")
    sch.annotate(rest, "pragma_auto_unroll_max_step", 64)
    sch.annotate(rest, "pragma_unroll_explicit", 1)


def with_tirstep(sch: Schedule) -> None:
    """Tiles as flat as the rows are few; the unpacking becomes part of the fetch."""
    (block,) = match_matmul(sch).blocks
    rows = int(sch.get(block).iter_vars[0].dom.extent)
    threads = (4, 8) if rows <= 8 else (8, 16)
    config = GemmConfig(threads=threads, thread_tile=(1, 4), tile_k=16, tail="pad")
    schedule_matmul(sch, block, config=config)
