"""Questions about a schedule."""

import inspect

from kernels import parse_kernel
from tvm.s_tir import Schedule

from tirstep import transforms as tr

# Two reductions and a result that two blocks read.
Attention = parse_kernel("""
    A (4, 16, 6), B (4, 6, 12), D (4, 16), E (4, 16, 12)
    C = T.sblock_alloc_buffer((4, 16, 12))
    for b, i, j, k in T.grid(4, 16, 12, 6):
        with T.sblock("scores", "SSSR", b, i, j, k):
            C[vb, vi, vj] += A[vb, vi, vk] * B[vb, vk, vj]
    for b, i, j in T.grid(4, 16, 12):
        with T.sblock("sums", "SSR", b, i, j):
            D[vb, vi] += C[vb, vi, vj]
    for b, i, j in T.grid(4, 16, 12):
        with T.sblock("shares", "SSS", b, i, j):
            E[vb, vi, vj] = C[vb, vi, vj] / D[vb, vi]
""")


def start(module=Attention):
    return Schedule(module, debug_mask="all")


def name_loops(sch, loops):
    return [tr.queries.get_loop_name(sch, loop) for loop in loops]


def test_spatial_and_reduction_loops():
    sch = start()
    block = sch.get_sblock("scores")
    assert name_loops(sch, tr.get_spatial_loops(sch, block)) == ["b", "i", "j"]
    assert name_loops(sch, tr.get_reduction_loops(sch, block)) == ["k"]
    _, i, _, k = sch.get_loops(block)
    tr.split_loop(sch, k, inner=2)
    tr.split_loop(sch, i, inner=4)
    assert name_loops(sch, tr.get_spatial_loops(sch, block)) == ["b", "i_0", "i_1", "j"]
    assert name_loops(sch, tr.get_reduction_loops(sch, block)) == ["k_0", "k_1"]


def test_a_fused_loop_that_feeds_both_is_a_reduction_loop():
    sch = start()
    block = sch.get_sblock("scores")
    *_, j, k = sch.get_loops(block)
    tr.fuse_loops(sch, [j, k])
    assert name_loops(sch, tr.get_reduction_loops(sch, block)) == ["j_k_fused"]


def test_an_epilogue_is_the_one_consumer_of_an_intermediate_buffer():
    sch = start()
    scores, sums, shares = (sch.get_sblock(name) for name in ("scores", "sums", "shares"))
    assert tr.find_epilogue(sch, scores) is None  # two consumers
    assert tr.find_epilogue(sch, sums) is None  # D is an output
    assert tr.find_epilogue(sch, shares) is None  # no consumer
    copy = sch.cache_write(sums, 0, "global")
    assert sch.get(tr.find_epilogue(sch, sums)).same_as(sch.get(copy))


def test_the_public_queries_say_what_they_answer():
    public = [it for name, it in vars(tr.queries).items() if not name.startswith("_")]
    own = [it for it in public if getattr(it, "__module__", "") == tr.queries.__name__]
    assert len(own) > 10
    assert all(map(inspect.getdoc, own))
