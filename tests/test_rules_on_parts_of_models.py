"""Rules on what models fuse: grouped queries, norms that return their sums, and scatter."""

from __future__ import annotations

import pytest
import tvm
from relax_functions import find_difference, make_functions
from tvm.relax import op
from tvm.s_tir import SBlock
from tvm.script import tirx as T
from tvm.tirx import PrimFunc

from tirstep import rules
from tirstep.transforms.tir import find_all, get_axis

GPU = tvm.target.Target("nvidia/nvidia-h100")


@T.prim_func(s_tir=True)
def grouped_queries(
    q: T.Buffer((1, 4, 10, 16)), k: T.Buffer((1, 2, 22, 16)), out: T.Buffer((1, 4, 10, 22))
):
    scores = T.sblock_alloc_buffer((1, 4, 10, 22))
    for b, h, i, j, d in T.grid(1, 4, 10, 22, 16):
        with T.sblock("scores"):
            vb, vh, vi, vj, vd = T.axis.remap("SSSSR", [b, h, i, j, d])
            with T.init():
                scores[vb, vh, vi, vj] = T.float32(0)
            scores[vb, vh, vi, vj] += q[vb, vh, vi, vd] * k[vb, vh // 2, vj, vd]
    for b, h, i, j in T.grid(1, 4, 10, 22):
        with T.sblock("scaled"):
            vb, vh, vi, vj = T.axis.remap("SSSS", [b, h, i, j])
            out[vb, vh, vi, vj] = scores[vb, vh, vi, vj] * T.float32(0.25)


@T.prim_func(s_tir=True)
def norm_and_its_sum(
    a: T.Buffer((5, 70)),
    b: T.Buffer((5, 70)),
    total: T.Buffer((5, 70)),
    out: T.Buffer((5, 70)),
):
    squares = T.sblock_alloc_buffer((5,))
    for i, j in T.grid(5, 70):
        with T.sblock("total"):
            vi, vj = T.axis.remap("SS", [i, j])
            total[vi, vj] = a[vi, vj] + b[vi, vj]
    for i, j in T.grid(5, 70):
        with T.sblock("squares"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                squares[vi] = T.float32(0)
            squares[vi] = squares[vi] + total[vi, vj] * total[vi, vj]
    for i, j in T.grid(5, 70):
        with T.sblock("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = total[vi, vj] * T.rsqrt(squares[vi] / T.float32(70) + T.float32(1))


@pytest.mark.parametrize(
    ("function", "rule", "kernels"), [(grouped_queries, "matmul", 1), (norm_and_its_sum, "rows", 2)]
)
def test_rules_take_it_and_are_right(function: PrimFunc, rule: str, kernels: int) -> None:
    made = {each.name: each.apply(function, GPU, False) for each in rules.cuda()}
    taken = {name: sch for name, sch in made.items() if sch is not None}
    assert list(taken) == [rule]
    module = taken[rule].mod
    loops = find_all(module["main"].body, tvm.tirx.For)
    assert sum(get_axis(loop) == "blockIdx.x" for loop in loops) == kernels
    assert find_difference(module, function) == ""


def test_a_block_that_says_nothing_of_its_writes_is_left_with_a_reason() -> None:
    """Relax makes such ones; what reads and writes them is known to nobody."""
    tensors = ((8, 24), (6, 1, "int64"), (6, 24))
    (function,) = make_functions(lambda x, i, u: op.scatter_nd(x, i, u), *tensors).values()
    (block,) = (it for it in find_all(function.body, SBlock) if "scatter" in it.name_hint)
    assert not block.writes
    ours = rules.cuda()
    assert all(rule.apply(function, GPU, False) is None for rule in ours)
    sentence = "block 'scatter_nd_generic' does not say what it writes"
    assert [sentence in str(rule.reasons) for rule in ours] == [False, False, True, True]
