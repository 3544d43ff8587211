"""The one error: what it says, what it knows, and what it keeps out."""

import re
from pathlib import Path

import kernels
import pytest
import tvm
from kernels import Matmul
from pairs import refuses
from tvm.error import InternalError
from tvm.s_tir import Schedule, ScheduleError
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tirstep import transforms as tr
from tirstep.transforms.schedule import transform


def start(**options):
    """A schedule, its block and the block's loops."""
    sch = Schedule(Matmul, **options)
    block = sch.get_sblock("C")
    return sch, block, *sch.get_loops(block)


def test_an_error_is_one_sentence_with_its_parts():
    error = tr.TransformError("split_loop", "loop 'i' runs 6 times", "choose a divisor")
    assert isinstance(error, ValueError)
    assert str(error) == "split_loop: loop 'i' runs 6 times; choose a divisor"
    error.kernel_line = "kernel.py:7"
    assert str(error).endswith("; choose a divisor [kernel kernel.py:7]")
    error.recipe, error.step, error.line = "naive", "input", "matmul.py:3"
    assert str(error).endswith(
        " [recipe naive, after step 'input', matmul.py:3; kernel kernel.py:7]"
    )
    error.caller = "tile_block"
    assert str(error).startswith("tile_block: split_loop: loop 'i' runs")


def test_an_error_names_the_kernel_s_line():
    sch, _, i, *_ = start()
    with refuses(sch, "split_loop") as caught:
        tr.split_loop(sch, i, inner=5)
    file, line = caught.value.kernel_line.rsplit(":", 1)
    assert file == kernels.__file__
    source = Path(file).read_text().splitlines()[int(line) - 1]
    assert "for i, j, k in T.grid(rows, columns, depth):" in source


def test_an_error_of_a_part_names_the_transform_that_was_called():
    sch, block, i, j, _ = start()
    tr.bind_loop(sch, i, axis="threadIdx.x")
    with refuses(
        sch, r"^stage_operand_at: bind_loop: loop 'ax0_ax1_fused_1' runs 8 times"
    ) as caught:
        tr.stage_operand_at(sch, block, j, operand=1, threads=8)
    assert (caught.value.transform, caught.value.caller) == ("bind_loop", "stage_operand_at")
    with refuses(sch, r"^split_loop: loop 'j' runs 12 times") as caught:
        tr.split_loop(sch, j, inner=5)
    assert caught.value.caller is None


@pytest.mark.parametrize("level", ["detail", "fast"])
def test_tvm_s_own_reason_comes_without_the_program(level):
    sch, _, _, _, k = start(error_render_level=level)
    inner = tr.split_loop(sch, k, inner=2).inner
    with refuses(sch, "^vectorize_loop: TVM refuses: The .vectorize. cannot be ful") as caught:
        tr.vectorize_loop(sch, inner)
    assert isinstance(caught.value.__cause__, ScheduleError)
    assert not re.search(r"#\d|Error message|IR with diagnostic|T\.grid", str(caught.value))
    assert len(str(caught.value)) < 400


def test_tvm_s_reason_has_the_names_of_blocks_and_loops():
    sch, _, _, _, k = start()
    with refuses(sch, r"TVM refuses: .* with regard to block 'C'\. .* contains k does not"):
        tr.bind_loop(sch, k, axis="blockIdx.x")
    i, j = sch.get_loops(sch.get_sblock("C"))[:2]
    sch.compute_at(sch.cache_read(sch.get_sblock("C"), 0, "shared"), j)
    with refuses(sch, r"TVM refuses: The loops are not in a chain .*Problematic stmt: loop 'j'"):
        tr.reorder_loops(sch, [k, i])


def test_a_dead_handle_is_named_by_its_kind():
    sch, block, i, *_ = start()
    tr.fuse_loops(sch, [i])
    with refuses(sch, r"split_loop: the loop handle is dead: .* or ask sch.get_loops\(block\) aga"):
        tr.split_loop(sch, i, inner=4)
    copy = sch.cache_read(block, 0, "shared")
    sch.compute_inline(copy)
    with refuses(sch, r"fetch_cooperatively: the block handle is dead: .* consumed its block; use"):
        tr.fetch_cooperatively(sch, copy, threads=4)


def test_a_handle_of_the_wrong_kind_is_told_apart():
    sch, block, i, j, _ = start()
    with refuses(
        sch, r"split_loop: loop is a block handle, not a loop handle; get it with sch.get_l"
    ):
        tr.split_loop(sch, block, inner=4)
    with refuses(
        sch, r"tile_block: block is a loop handle, not a block handle; get it with sch.get_s"
    ):
        tr.tile_block(sch, i, threads=(4,))
    with refuses(sch, r"tile_block: block is 'C', not a block handle"):
        tr.tile_block(sch, "C", threads=(4,))
    with refuses(sch, r"compute_block_at: loop is None, not a loop handle"):
        tr.compute_block_at(sch, block, None)
    with refuses(sch, r"fuse_loops: loops is a block handle, not a loop handle"):
        tr.fuse_loops(sch, [i, block])
    with refuses(sch, r"reorder_loops: loops is not a list of loop handles; pass a list"):
        tr.reorder_loops(sch, j)


def test_a_refusal_that_a_composite_catches_leaves_nothing_of_the_part():
    @transform
    def halve(sch: Schedule, loop: LoopRV) -> None:
        tr.split_loop(sch, tr.split_loop(sch, loop, inner=2).outer, inner=3)

    @transform
    def halve_or_not(sch: Schedule, loop: LoopRV) -> None:
        try:
            halve(sch, loop)
        except tr.TransformError:
            tr.split_loop(sch, loop, inner=4)

    sch, block, i, *_ = start()
    halve_or_not(sch, i)
    assert [int(sch.get(loop).extent) for loop in sch.get_loops(block)] == [4, 4, 12, 6]
    kinds = [str(inst.kind.name) for inst in sch.trace.insts]
    assert [kind for kind in kinds if not kind.startswith("Get")] == ["Split"]


def test_a_transform_of_somebody_else_has_the_same_manners():
    @transform
    def parallelize(sch: Schedule, loop: LoopRV) -> None:
        sch.parallel(loop)

    sch, block, i, _, k = start()
    with refuses(sch, r"^parallelize: TVM refuses: .*block 'C'"):
        parallelize(sch, k)
    with refuses(sch, r"^parallelize: loop is a block handle, not a loop handle"):
        parallelize(sch, block)
    parallelize(sch, i)


def test_other_errors_come_through():
    @transform
    def stumble(sch: Schedule) -> None:
        raise tvm.error.InternalError("not ours")

    with pytest.raises(tvm.error.InternalError, match="not ours"):
        stumble(Schedule(Matmul))


def test_where_tvm_cannot_copy_a_schedule_a_refusal_says_what_changed(monkeypatch):
    """After tensorize of some loops `Schedule.copy` fails: transforms go on without a trial."""
    sch = Schedule(Matmul)
    block = sch.get_sblock("C")

    def fail(self):
        raise InternalError("unordered_map::at")

    monkeypatch.setattr(Schedule, "copy", fail)
    tr.unroll_loop(sch, sch.get_loops(block)[0])  # a single primitive
    tr.split_reduction(sch, block, inner=2)  # a composite
    assert len(sch.get_loops(block)) == 4
    before = sch.mod
    with pytest.raises(tr.TransformError, match="2 reduction loops, not one") as untouched:
        tr.split_reduction(sch, block, inner=4)
    assert "has changed" not in str(untouched.value)

    @transform
    def try_first(sch: Schedule) -> None:
        sch.copy()

    sentence = "try_first: TVM cannot copy this schedule, to try it out; tensorize after it"
    with pytest.raises(tr.TransformError, match=sentence):
        try_first(sch)
    assert sch.mod.same_as(before)

    @transform
    def fuse_and_refuse(sch: Schedule, block: SBlockRV) -> None:
        """Change the schedule, then refuse."""
        sch.fuse(*sch.get_loops(block)[:1])
        sch.annotate(block, "touched", 1)
        raise tr.TransformError("fuse_and_refuse", "it is late", "do not")

    with pytest.raises(
        tr.TransformError, match="do not; TVM cannot copy a schedule after tensorize"
    ):
        fuse_and_refuse(sch, block)
