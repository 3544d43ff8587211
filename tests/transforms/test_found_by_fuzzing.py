"""What tests/fuzz_schedules.py found: public transforms alone made these, and they were wrong.

Each test shows first that the schedule is wrong, and then which check names it or which transform
refuses it.
"""

import tvm
from tvm.s_tir import Schedule

from tirstep.lowering_checks import check_numbers, find_device
from tirstep.lowering_checks.unfinished import find_unfinished
from tirstep.modules import Problem, softmax
from tirstep.transforms import (
    bind_loop,
    pad_block,
    reverse_compute_block_at,
    split_loop,
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
