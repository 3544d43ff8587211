"""Pipelines stay what their notes say: each test shows the wrong one first, then who refuses it."""

import pytest
from kernels import at_block
from pairs import find_wrong, refuses
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV

from tirstep import transforms as tr
from tirstep.modules import Problem, window_sum


def note_pipeline(sch: Schedule, loop: LoopRV, *, stages: int) -> None:
    """The notes of `prefetch_asynchronously`, with nothing asked."""
    sch.annotate(loop, "software_pipeline_stage", [0, stages - 1])
    sch.annotate(loop, "software_pipeline_order", [0, 1])
    sch.annotate(loop, "software_pipeline_async_stages", [0])
    for name in ("tirx.use_async_copy", "tirx.disable_storage_rewrite"):
        tr.set_pass_option(sch, name=name, value=True)


def copy_windows(n: int, per_thread: int, inner: int, rounds: int = 1) -> tuple[Problem, Schedule]:
    """Window sums in guarded steps, of which each copies its windows, also where none is summed."""
    problem = window_sum.problem(n, width=3)
    sch, block, *_ = at_block(problem.module, "C")
    tr.tile_block(sch, block, threads=[3], per_thread=[per_thread], tail="guard")
    loop = sch.get_loops(block)[-1]
    if rounds > 1:
        loop = tr.split_loop(sch, loop, inner=per_thread // rounds).inner
    step = tr.split_loop(sch, loop, inner=inner, tail="guard").inner
    tr.stage_operand_at(sch, block, step, operand=0, threads=3, scope="shared", tail="guard")
    return problem, sch


# Copies of steps that sum nothing: their places are used again by the steps behind, or in the next
# round. With 3 stages the place of step k is that of step k + 3.
@pytest.mark.parametrize(
    ("n", "per_thread", "inner", "rounds", "stages", "at"),
    [(12, 2, 8, 1, 3, 2), (12, 2, 8, 1, 4, 2), (24, 4, 5, 2, 3, 2), (12, 2, 5, 2, 2, 1)],
)
def test_copies_that_nothing_waits_for(n, per_thread, inner, rounds, stages, at):
    problem, sch = copy_windows(n, per_thread, inner, rounds)
    copy, step = sch.get_sblock("A_shared"), sch.get_loops(sch.get_sblock("C"))[-1]
    tr.unroll_loop(sch, step)
    plain = sch.copy()
    note_pipeline(plain, step, stages=stages)
    if stages == 2:
        plain.annotate(copy, "double_buffer_scope", 0)
    wrong = find_wrong(problem, plain.mod)
    assert "race: store to A_shared" in wrong[0]
    assert "while an asynchronous copy to it" in wrong[0]
    with refuses(
        sch,
        f"prefetch_asynchronously: block 'A_shared' would copy in iteration {at} of loop '.*' "
        "what nothing uses; TVM leaves out the wait for that, and the next copy to the same ",
    ):
        tr.prefetch_asynchronously(sch, step, [copy], stages=stages)
