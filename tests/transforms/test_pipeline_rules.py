"""Iterations of an asynchronous pipeline that copy nothing, whose group TVM waits for all the same.

Each refused schedule is made by TVM's primitives first, and shown to be a race.
"""

from typing import NamedTuple

from kernels import at_block
from pairs import find_wrong, refuses
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tirstep import transforms as tr
from tirstep.modules import Problem, matmul
from tirstep.transforms.loops import Split


class Staged(NamedTuple):
    """A product in steps of 4 along k, in groups of some steps with a guard."""

    problem: Problem
    sch: Schedule
    copies: list[SBlockRV]
    steps: Split


def stage(k: int, group: int) -> Staged:
    problem = matmul.problem(16, 16, k)
    sch, block, *_ = at_block(problem.module, "C")
    tr.tile_block(sch, block, threads=(4, 4), per_thread=(4, 4), tail="guard")
    threads = [loop for loop in sch.get_loops(block) if sch.get(loop).thread_binding is not None]
    tr.accumulate_in_registers(sch, block, threads[-1])
    loop = tr.split_reduction(sch, block, inner=4).outer
    copies = [
        tr.stage_operand_at(sch, block, loop, operand=operand, threads=(4, 4), vector=4)
        for operand in (0, 1)
    ]
    tr.decompose_reduction_at(sch, block, loop)
    return Staged(problem, sch, copies, tr.split_loop(sch, loop, inner=group, tail="guard"))


def annotate(sch: Schedule, loop: LoopRV) -> None:
    sch.annotate(loop, "software_pipeline_stage", [0, 0, 2])
    sch.annotate(loop, "software_pipeline_order", [0, 1, 2])
    sch.annotate(loop, "software_pipeline_async_stages", [0])
    for name in ("tirx.use_async_copy", "tirx.disable_storage_rewrite"):
        tr.set_pass_option(sch, name=name, value=True)


IDLE = r"block 'A_shared' would copy nothing in iterations? {}.* of loop 'k_0_1'.*; TVM leaves out"


def test_a_pipeline_of_more_iterations_than_there_are_steps():
    staged = stage(8, 3)
    annotate(staged.sch, staged.steps.inner)
    assert "is in flight" in find_wrong(staged.problem, staged.sch)[0]
    staged = stage(8, 3)
    with refuses(staged.sch, f"prefetch_asynchronously: {IDLE.format(2)}"):
        tr.prefetch_asynchronously(staged.sch, staged.steps.inner, staged.copies)
