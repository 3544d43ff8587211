"""Sums that begin before their initialization: of loops that go over outputs and terms at once."""

import pytest
from pairs import find_wrong, refuses
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV

from tirstep import transforms as tr
from tirstep.modules import Problem, row_sum


def fuse_all(problem: Problem, name: str, *, inner: int) -> tuple[Schedule, list[LoopRV]]:
    """One loop of outputs and terms, in two of which the second has `inner` iterations."""
    sch = Schedule(problem.module)
    fused = tr.fuse_loops(sch, sch.get_loops(sch.get_sblock(name)))
    return sch, list(tr.split_loop(sch, fused, inner=inner, tail="guard"))


@pytest.mark.parametrize("inner", [2, 3, 5])
def test_an_order_in_which_a_later_term_comes_before_the_first(inner: int):
    problem = row_sum.problem(3, 7)
    plain, (outer, last) = fuse_all(problem, "B", inner=inner)
    plain.reorder(last, outer)
    assert "elements are wrong" in find_wrong(problem, plain, "cpu")[0]

    sch, (outer, last) = fuse_all(problem, "B", inner=inner)
    assert find_wrong(problem, sch, "cpu") == []
    with refuses(
        sch,
        "reorder_loops: block 'B' would add to outputs before it initializes them, since loop "
        "'i_k_fused_1' goes over both its outputs and its terms; take the initialization out",
    ):
        tr.reorder_loops(sch, [last, outer])
    tr.decompose_reduction_at(sch, sch.get_sblock("B"), outer)
    tr.reorder_loops(sch, [last, outer])
    assert find_wrong(problem, sch, "cpu") == []
