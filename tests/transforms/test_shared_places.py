"""Buffers in places that TVM makes too small, or gives to two of them at a time.

Each schedule is made with TVM's own primitive first, and is wrong; then a transform refuses it.
"""

from __future__ import annotations

import numpy as np
from kernels import at_block
from pairs import find_wrong, refuses
from tvm.s_tir import Schedule
from tvm.tirx import IntImm

from tirstep import transforms as tr
from tirstep.lowering_checks import check_numbers, get_device, run_recipe
from tirstep.lowering_checks.legality import block_summary, guard
from tirstep.lowering_checks.legality.lowered_memory import find_small_allocations
from tirstep.modules import (
    Problem,
    depthwise_conv2d,
    layer_norm,
    relu,
    softmax,
    transpose,
    vector_add,
    window_sum,
)
from tirstep.transforms.enumeration import list_values
from tirstep.transforms.recipes import RECIPES


def test_a_tile_that_begins_anywhere_in_its_rows():
    """Of two neighbours that begin at 0, 1, 2..., rows of two take one place, or two."""
    problem = transpose.problem(32, 5)
    sch = Schedule(problem.module)
    sizes = {"tile": 64, "threads": 64, "padding": 1, "vector": 2}
    for _ in zip(
        range(3), RECIPES["transpose_vectors"].run(sch, **sizes, tail="guard"), strict=False
    ):
        pass
    block = sch.get_sblock("B")
    tr.split_loop(sch, sch.get_loops(block)[4], inner=5, tail="guard")
    copy = tr.stage_operand_at(
        sch, block, sch.get_loops(block)[2], operand=0, threads=64, vector=1, tail="refuse"
    )
    assert find_wrong(problem, sch) == []
    raw = sch.copy()
    raw.transform_layout(
        copy, ("write", 0), lambda i, j: (i, j // 2, j % 2), assume_injective_transform=True
    )
    assert "out of bounds: store to A_shared_shared[32, 0, 0]" in " ".join(find_wrong(problem, raw))
    with refuses(sch, "TVM would make 'A_shared_shared' smaller than what is used of it"):
        tr.fold_tile(sch, copy, row=2)
    tr.fold_tile(sch, copy, row=4)
    assert find_wrong(problem, sch) == []


def test_a_fold_in_a_pipeline_that_is_yet_to_be_bound():
    """TVM lowers no pipeline around threads alone, and on a CPU it is a loop like any other."""
    problem = window_sum.problem(16, width=5)
    sch = Schedule(problem.module)
    (block,) = sch.get_child_blocks(sch.get_sblock("root"))
    (loop,) = sch.get_loops(block)
    copy = tr.cache_read_at(sch, block, loop, operand=0, scope="shared.dyn")
    tr.prefetch_through_registers(sch, loop, [copy])
    tr.fetch_cooperatively(sch, copy, threads=8, vector=4, tail="guard")
    raw = sch.copy()
    raw.transform_layout(
        copy, ("write", 0), lambda i: (i // 2, i % 2), assume_injective_transform=True
    )
    assert check_numbers(problem, raw.mod, get_device("cpu"), where="here")
    with refuses(sch, "TVM would use other elements of 'A_shared.dyn' than the schedule does"):
        tr.fold_tile(sch, copy, row=2)


def test_a_padding_in_whose_place_its_powers_are():
    """Each thread block pads all of A once more, and the powers of the others are in its place."""
    problem = softmax.problem(1, 7)
    sch, power, *_ = at_block(problem.module, "exp")
    tr.pad_block(sch, power, multiples=(4, 2))
    tr.reverse_compute_block_at(sch, sch.get_sblock("A_pad"), sch.get_loops(power)[1])
    others = [sch.get_sblock(name) for name in ("max", "largest_pad", "sum", "B")]
    for block in others:
        tr.bind_loop(sch, sch.get_loops(block)[0], axis="blockIdx.x")
    loop = sch.get_loops(power)[0]
    raw = sch.copy()
    raw.bind(loop, "blockIdx.x")
    assert "race: store to A_pad[0, 0]" in " ".join(find_wrong(problem, raw))
    with refuses(sch, "TVM would keep 'power_pad' in the place of 'A_pad', from which it is comp"):
        tr.bind_loop(sch, loop, axis="blockIdx.x")


def test_a_result_in_its_own_tile_s_place_by_the_same_threads():
    """Each thread writes where it alone has read: that is no fault."""
    problem = relu.problem(64)
    sch, block, *_ = at_block(problem.module, "B")
    grid, threads = tr.split_loop(sch, sch.get_loops(block)[0], inner=32)
    tr.bind_loop(sch, grid, axis="blockIdx.x")
    tr.bind_loop(sch, threads, axis="threadIdx.x")
    tr.cache_write_at(sch, block, threads, scope="shared.dyn")
    tr.cache_read_at(sch, block, threads, operand=0, scope="shared.dyn")
    assert find_wrong(problem, sch) == []


def test_a_sum_of_one_thread_beside_virtual_threads():
    problem = depthwise_conv2d.problem(1, 2, 3, 1, 1)
    sch = Schedule(problem.module)
    for _ in RECIPES["depthwise_conv2d_naive"].run(sch):
        pass
    _, channels, *_, taps, _ = sch.get_loops(sch.get_sblock("Y"))
    tr.bind_loop(sch, taps, axis="threadIdx.x")
    raw = sch.copy()
    raw.bind(channels, "vthread.y")
    assert "Y[0, 0, 2, 0] is" in " ".join(find_wrong(problem, raw))
    with refuses(sch, "loop 'ry' is a reduction of block 'Y' over threads, in a kernel with loop"):
        tr.bind_loop(sch, channels, axis="vthread.y")


def test_analysis_beyond_32_bits_is_a_refusal(monkeypatch):
    sch, block, loop = at_block(vector_add(2**31 - 1), "C")
    options = {"operand": 0, "threads": 4, "vector": 2, "tail": "guard"}
    with refuses(sch, "stage_operand_at: iterator 'v0' of block 'A_shared' would reach 21474"):
        tr.stage_operand_at(sch, block, loop, **options)
    monkeypatch.setattr(block_summary, "_BITS", None)
    tr.stage_operand_at(sch, block, loop, **options)
    loop, *_ = sch.get_loops(block := sch.get_sblock("A_shared"))
    with refuses(sch, r"cache_row_at: .* outside of its -268435456 along dimension"):
        tr.cache_row_at(sch, block, loop, operand=0)
    monkeypatch.setattr(guard, "summarize", lambda module: IntImm("int32", 2**31))
    with refuses(sch, "cache_row_at: TVM cannot analyze what this would make: .* exceeds"):
        tr.cache_row_at(sch, block, loop, operand=0)


def test_numbers_that_are_far_apart_are_told_in_little_memory():
    """The first and the last iterations of 2**31 are tried: to count all takes 16 GiB."""
    assert list_values(np.array([0, 2**50, 5, 5])) == [0, 5, 2**50]
    sch, block, loop = at_block(vector_add(2**31 - 1), "C")
    copy = tr.cache_read_at(sch, block, loop, operand=1, scope="local")
    assert sch.get(copy).writes[0].source.scope() == "local"


def test_a_loop_of_an_extent_that_is_no_constant_goes_no_further():
    """The rows that a run of 16 sums reads are two in each iteration: by ``a // 16 - b // 16``."""
    config = {"threads": 64, "taps": 4, "each": 16, "in_registers": True, "tail": "guard"}
    options = {"dtype": "float16", "acc": "float16", "over": "padded"}
    recipe = RECIPES["conv1d_coalesced"]
    run = run_recipe(recipe, {"m": 172, "n": 30}, options=options, config=config)
    assert find_small_allocations(run.steps[-1].module) == []


def cache_rows(length: int) -> tuple[Problem, Schedule]:
    """A row of a thread block in registers, of which each of 8 threads has a part."""
    problem = layer_norm.problem(m=3, n=length)
    sch = Schedule(problem.module)
    RECIPES["layer_norm_vectors"](sch, threads=8, vector=1, tail="guard")
    return problem, sch


def test_a_guard_that_lets_one_iteration_in_does_not_leak_its_loop() -> None:
    """TVM takes ``(thread + i) % 8`` in an iteration for where the registers begin, and writes i
    where there is none.
    """
    problem, sch = cache_rows(7)
    loop = sch.get_loops(sch.get_sblock("A_local"))[-1]
    with refuses(sch, "would use loop 'ax1_1_1' after its end: its guard leaves one iteration,"):
        tr.split_loop(sch, loop, inner=8, tail="guard")
    sch.split(loop, [None, 8])
    assert "uninitialized read: load of A_local" in " ".join(find_wrong(problem, sch))


def test_a_guard_that_lets_several_iterations_in_is_right() -> None:
    problem, sch = cache_rows(14)
    tr.split_loop(sch, sch.get_loops(sch.get_sblock("A_local"))[-1], inner=8, tail="guard")
    assert find_wrong(problem, sch) == []
