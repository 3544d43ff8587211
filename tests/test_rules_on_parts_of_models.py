"""Rules on what models fuse: grouped queries, norms that return their sums, and scatter."""

from __future__ import annotations

import pytest
import tvm
from kernels import parse_functions
from relax_functions import find_difference, make_functions
from tvm.relax import op
from tvm.s_tir import SBlock

from tirstep import rules
from tirstep.transforms.tir import find_all, get_axis

GPU = tvm.target.Target("nvidia/nvidia-h100")


FUNCTIONS = parse_functions("""
grouped_queries: q (1, 4, 10, 16), k (1, 2, 22, 16), out (1, 4, 10, 22)
    scores (1, 4, 10, 22)
    b:1 h:4 i:10 j:22 d:16  scores[b, h, i, j] += q[b, h, i, d] * k[b, h // 2, j, d]
    b:1 h:4 i:10 j:22  out[b, h, i, j] = scores[b, h, i, j] * T.float32(0.25)

norm_and_its_sum: a (5, 70), b (5, 70), total (5, 70), out (5, 70)
    squares (5,)
    i:5 j:70  total[i, j] = a[i, j] + b[i, j]
    i:5 j:70  squares[i] += total[i, j] * total[i, j]
    i:5 j:70  out[i, j] = total[i, j] * T.rsqrt(squares[i] / T.float32(70) + T.float32(1))
""")


@pytest.mark.parametrize(
    ("name", "rule", "kernels"), [("grouped_queries", "matmul", 1), ("norm_and_its_sum", "rows", 2)]
)
def test_rules_take_it_and_are_right(name: str, rule: str, kernels: int) -> None:
    function = FUNCTIONS[name]
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
    sentence = "block 'scatter_nd_generic' does not declare what it writes, like Relax's for"
    assert [sentence in str(rule.reasons) for rule in ours] == [False, False, False, True, True]
