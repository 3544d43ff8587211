"""What tests/fuzz_schedules.py found: public transforms alone made these, and they were wrong.

Each test shows first that the schedule is wrong, and then which check names it or which transform
refuses it.
"""

import pytest
import tvm
from pairs import refuses
from tvm.s_tir import Schedule

from tirstep.lowering_checks import check_numbers, find_device
from tirstep.lowering_checks.unfinished import find_unfinished
from tirstep.modules import Problem, depthwise_conv2d, softmax
from tirstep.transforms import (
    bind_loop,
    cache_read_at,
    pad_block,
    reverse_compute_block_at,
    split_loop,
    tile_block,
)


def find_wrong(problem: Problem, module: tvm.IRModule, device: str = "simulator") -> list[str]:
    found = check_numbers(problem, module, find_device(device), where="here")
    return [finding.message for finding in found]


def test_a_padding_that_reads_what_other_threads_write():
    """What a padding reads, it reads under a condition: the loops alone decide it."""
    problem = softmax.problem(1, 32, online=True)
    sch = Schedule(problem.module)
    pad_block(sch, sch.get_sblock("statistics"), multiples=(2, 4))
    wide, padding = sch.get_sblock("wide"), sch.get_sblock("W_pad")
    outer, inner = sch.get_loops(padding)
    reverse_compute_block_at(sch, wide, outer)
    bind_loop(sch, split_loop(sch, inner, inner=8).outer, axis="threadIdx.x")
    bind_loop(sch, split_loop(sch, sch.get_loops(wide)[-1], inner=4).inner, axis="threadIdx.x")
    bind_loop(sch, outer, axis="blockIdx.x")
    for block in sch.get_child_blocks(sch.get_sblock("root")):
        if sch.get(sch.get_loops(block)[0]).thread_binding is None:
            bind_loop(sch, sch.get_loops(block)[0], axis="blockIdx.x")
    assert "race" in find_wrong(problem, sch.mod)[0]
    messages = [finding.message for finding in find_unfinished(sch.mod)]
    assert any("in block 'W_pad', which other threads along" in message for message in messages)


@pytest.mark.parametrize("parts", [1, 2])
def test_threads_that_take_one_element_each_of_an_online_softmax(parts: int):
    """Masked elements, -inf, are a thread's own maximum: scales of exp(-inf - -inf) are NaNs."""
    problem = softmax.problem(4, 16, online=True)

    def spread(sch: Schedule):
        for block in sch.get_child_blocks(sch.get_sblock("root")):
            sch.bind(sch.get_loops(block)[0], "blockIdx.x")
        loop = sch.get_loops(sch.get_sblock("statistics"))[1]
        return (loop,) if parts == 1 else sch.split(loop, [4, 4])

    plain = Schedule(problem.module)
    for loop, axis in zip(spread(plain), ("threadIdx.x", "threadIdx.y"), strict=False):
        plain.bind(loop, axis)
    assert "is nan, and NumPy has" in find_wrong(problem, plain.mod)[0]

    sch = Schedule(problem.module)
    *first, last = spread(sch)
    for loop in first:
        bind_loop(sch, loop, axis="threadIdx.y")
    name = sch.get(last).loop_var.name
    with refuses(
        sch,
        f"bind_loop: loop '{name}' is a reduction of block 'statistics', of which each thread would"
        " take one element and begin with it instead of the maximum of nothing: elements of -inf,",
    ):
        bind_loop(sch, last, axis="threadIdx.x")
    bind_loop(sch, split_loop(sch, last, inner=1).outer, axis="threadIdx.x")
    assert find_wrong(problem, sch.mod) == []


def test_a_padding_in_guarded_loops_that_is_moved_under_its_fetch():
    """The guarded loops run more often than the padding has elements, the guard's part less."""
    problem = depthwise_conv2d.problem(2, 2, 3, 4, 3)

    def fetch(sch: Schedule):
        block = sch.get_sblock("padded")
        tile = tile_block(sch, block, threads=(4, 8), tail="guard")
        copy = cache_read_at(sch, block, tile.threads[1], operand=0, scope="local")
        return block, sch.get_loops(copy)[-2]

    plain = Schedule(problem.module)
    block, loop = fetch(plain)
    plain.reverse_compute_at(block, loop, preserve_unit_loops=True)
    assert "elements are wrong" in find_wrong(problem, plain.mod, "cpu")[0]

    sch = Schedule(problem.module)
    block, loop = fetch(sch)
    with refuses(
        sch, "reverse_compute_block_at: block 'padded' would compute 48 of its 120 elements: those"
    ):
        reverse_compute_block_at(sch, block, loop)
