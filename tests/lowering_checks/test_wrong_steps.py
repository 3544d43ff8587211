"""The first wrong step is named, by its number, or the pass that a right one asks too much of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernels import parse_kernel
from tvm.s_tir import Schedule
from tvm.script import from_source

from tirstep import transforms as tr
from tirstep.lowering_checks import get_device, judge_run, run_recipe
from tirstep.lowering_checks.bisect import (
    bisect_run,
    find_bad_pass,
    run_reproducer,
    write_reproducer,
)
from tirstep.lowering_checks.compile.passes import lower_through_passes
from tirstep.transforms.recipes import Example, recipe

GPU = "nvidia/nvidia-h100"
Body = Callable[[Schedule], Iterator[str]]
SIXTEEN = {"m": 16, "n": 16, "k": 16}


def split_without_a_guard(sch: Schedule) -> Iterator[str]:
    block = sch.get_sblock("C")
    tile = tr.tile_block(sch, block, threads=(4, 4))
    yield "tiled"
    sch.split(tr.get_reduction_loops(sch, block)[0], [None, 5], disable_predication=True)
    yield "split"
    tr.accumulate_in_registers(sch, block, tile.threads[1])
    yield "registers"


def misalign_vectors(sch: Schedule) -> Iterator[str]:
    """Each row of shared memory is an element longer than the vectors that are stored there."""
    block = sch.get_sblock("C")
    tile = tr.tile_block(sch, block, threads=(16,), fuse_threads=True)
    yield "tiled"
    copy = tr.stage_operand_at(
        sch, block, tile.blocks[0], operand=1, threads=16, vector=2, tail="refuse"
    )
    yield "staged"
    sch.storage_align(copy, 0, axis=0, factor=16, offset=1)
    yield "padded"
    tr.accumulate_in_registers(sch, block, tile.threads[0])
    yield "registers"


def ask_for_too_much_shared_memory(sch: Schedule) -> Iterator[str]:
    block = sch.get_sblock("C")
    i, j, _ = sch.get_loops(block)
    tr.bind_loop(sch, i, axis="blockIdx.x")
    yield "blocks"
    tr.bind_loop(sch, j, axis="threadIdx.x")
    yield "threads"
    sch.storage_align(tr.cache_read_at(sch, block, i, operand=1), 0, axis=0, factor=16384, offset=0)
    yield "aligned"


def share_a_fetch_over_blocks(sch: Schedule) -> Iterator[str]:
    block = sch.get_sblock("C")
    i, j, _ = sch.get_loops(block)
    tr.bind_loop(sch, i, axis="blockIdx.x")
    tr.bind_loop(sch, j, axis="blockIdx.y")
    yield "bound"
    copy = tr.cache_read_at(sch, block, i, operand=0)
    yield "cached"
    outer, _ = sch.split(sch.get_loops(copy)[-1], [None, 4])
    sch.bind(outer, "blockIdx.y")
    yield "fetch_bound"


def keep_a_copy_of_others(sch: Schedule) -> Iterator[str]:
    block = sch.get_sblock("C")
    i, j, _ = sch.get_loops(block)
    tr.bind_loop(sch, i, axis="blockIdx.x")
    tr.bind_loop(sch, j, axis="threadIdx.x")
    yield "bound"
    copy = sch.cache_read(block, 0, "shared")
    sch.compute_at(copy, i)
    sch.bind(sch.get_loops(copy)[-1], "threadIdx.x")
    yield "fetched"
    sch.set_scope(copy, 0, "local")
    yield "local"


def sum_over_threads_of_odd_rows(sch: Schedule) -> Iterator[str]:
    """TVM's LowerCrossThreadReduction, pass 3, loses the guard."""
    i, k = sch.get_loops(sch.get_sblock("B"))
    blocks, row = sch.split(i, [None, 2])
    yield "split"
    tr.bind_loop(sch, blocks, axis="blockIdx.x")
    tr.bind_loop(sch, row, axis="threadIdx.y")
    sch.bind(k, "threadIdx.x")
    yield "bound"


def compute_at_a_vector(sch: Schedule) -> Iterator[str]:
    """TVM's VectorizeLoop takes the producer's loop for the consumer's."""
    block = sch.get_sblock("C")
    (i,) = sch.get_loops(block)
    copy = sch.cache_read(block, 0, "global")
    _, vector = sch.split(i, [None, 8])
    sch.vectorize(vector)
    yield "vectorized"
    sch.compute_at(copy, vector)
    yield "computed_at"


def all_right(sch: Schedule) -> Iterator[str]:
    tr.tile_block(sch, sch.get_sblock("C"), threads=(4, 4))
    yield "tiled"


def make_run(body: Body, kernel: str = "matmul", shape: dict[str, int] | None = None):
    example = Example(shape or SIXTEEN)
    blocks = {"row_sum": ("B",), "matmul_bias_relu": ("C D",)}.get(kernel, ("C",))
    made = recipe(kernel=kernel, blocks=blocks, default_example=example, golden=example)(body)
    return run_recipe(made, example.shape)


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("body", "kernel", "shape", "number", "sentence"),
    [
        (split_without_a_guard, "matmul", None, 2, "out of bounds"),
        (misalign_vectors, "matmul", {"m": 16, "n": 16, "k": 4}, 3, "misaligned access"),
        (ask_for_too_much_shared_memory, "matmul", {"m": 4, "n": 4, "k": 4}, 3, "per thread block"),
        (share_a_fetch_over_blocks, "matmul", {"m": 4, "n": 4, "k": 16}, 3, "uninitialized read"),
        (keep_a_copy_of_others, "matmul", None, 3, "in a register of its own"),
    ],
)
def test_a_wrong_step_is_named(
    body: Body, kernel: str, shape: dict[str, int] | None, number: int, sentence: str
) -> None:
    run = make_run(body, kernel, shape)
    found = bisect_run(run).first_bad
    assert (found.kind, found.number, found.name) == ("step", number, run.steps[number].name)
    assert sentence in found.finding.message
    assert found.right.startswith(f"step {number - 1:02d}_")


def test_what_a_gpu_alone_shows_the_script_finds_with_tirstep(tmp_path: Path) -> None:
    """And where there is no tirstep, it says so, and does not end well."""
    script = tmp_path / "why.py"
    found = bisect_run(make_run(keep_a_copy_of_others)).first_bad
    assert found is not None
    write_reproducer(found, script)
    shown = run_reproducer(script)
    assert shown.is_shown, shown.text
    assert shown.text.startswith("tirstep finds: step 0 main: ")
    assert "in a register of its own" in shown.text
    script.write_text(script.read_text().replace("from tirstep.", "from no_tirstep."))
    shown = run_reproducer(script)
    assert (shown.is_shown, shown.text) == (
        False,
        "A CPU with only TVM does not show it; with tirstep installed, this script does.",
    )


def make_refused(sch: Schedule) -> Iterator[str]:
    """A state on the way that TVM does not lower, and a right one behind it."""
    block = sch.get_sblock("C")
    tile = tr.tile_block(sch, block, threads=(4, 4))
    tr.reverse_compute_block_at(sch, sch.get_sblock("D"), tile.threads[1])
    yield "fused"
    tr.keep_in_registers(sch, block)
    yield "registers"


REMEDY = (
    "C stays in global memory inside a kernel: keep_in_registers where each thread uses its own "
    "elements, or, before the block is placed, cache_write_at into shared memory and "
    "inline_producers of its reader ("
)


def test_check_goes_on_behind_a_step_that_tvm_refuses() -> None:
    run = make_run(make_refused, "matmul_bias_relu", {"m": 8, "n": 8, "k": 4})
    _, fused, registers = judge_run(run, get_device("simulator"))
    assert [finding.check for finding in fused.findings] == ["lowering"]
    assert fused.findings[0].message.startswith(f"TVM does not lower the module: {REMEDY}")
    assert fused.checked_on == "cpu 8x8x4"
    assert (registers.findings, registers.checked_on) == ((), "simulator 8x8x4")


def test_a_refused_step_that_is_wrong_has_both_findings() -> None:
    run = make_run(make_refused, "matmul_bias_relu", {"m": 8, "n": 8, "k": 4})
    text = run.steps[1].module.script()
    assert "C[vi, vj] + bias" in text
    wrong = replace(
        run.steps[1], module=from_source(text.replace("C[vi, vj] + b", "C[vi, vj] - b"))
    )
    run = replace(run, steps=(run.steps[0], wrong, run.steps[2]))
    _, fused, registers = judge_run(run, get_device("simulator"))
    assert [finding.check for finding in fused.findings] == ["lowering", "numbers"]
    assert registers.findings == ()
    found = bisect_run(run).first_bad
    assert (found.kind, found.number) == ("step", 1)


def test_a_refused_step_is_told_where_nothing_is_wrong(tmp_path: Path) -> None:
    """The step before is told, the diff is not empty, and the script shows the refusal."""
    found = bisect_run(make_run(make_refused, "matmul_bias_relu", {"m": 8, "n": 8, "k": 4}))
    bad = found.first_bad
    assert bad.kind == "refused"
    assert bad.label.startswith("step 1 fused, refused by tvm.compile, behind step 01_fused ")
    assert bad.right.endswith(" (right: interpreter)")
    assert bad.finding.message.startswith(REMEDY)
    assert bad.diff.added
    assert not any(text.startswith("01") for text in found.not_run)
    write_reproducer(bad, tmp_path / "why.py")
    shown = run_reproducer(tmp_path / "why.py")
    assert shown.is_shown
    assert shown.text.startswith("TVM refuses the module: Check failed")


def test_a_pass_that_a_right_step_asks_too_much_of() -> None:
    found = bisect_run(make_run(compute_at_a_vector, "vector_add", {"n": 64})).first_bad
    assert (found.kind, found.name) == ("pass", "tirx.VectorizeLoop")


def test_the_pass_that_loses_the_guard_of_a_reduction_is_named() -> None:
    """`why` named LowerThreadAllreduce, pass 46, which does as it is told."""
    run = make_run(sum_over_threads_of_odd_rows, "row_sum", {"m": 5, "n": 32})
    found = bisect_run(run).first_bad
    assert (found.kind, found.name) == ("pass", "s_tir.LowerCrossThreadReduction")
    passes = lower_through_passes(run.steps[-1].module, GPU).passes
    assert found.number == next(step.number for step in passes if step.name == found.name)


def test_right_steps_accuse_nobody() -> None:
    assert bisect_run(make_run(all_right)).first_bad is None


# Threads hand results on through global memory, for which TVM puts no barriers in.
ThroughGlobalMemory = parse_kernel("""
    A (64,), C (64,), D (64,)
    for _ in T.thread_binding(1, thread="blockIdx.x"):
        for i in T.thread_binding(64, thread="threadIdx.x"):
            with T.sblock("C", "S", i):
                C[vi] = A[vi]
        for i in T.thread_binding(64, thread="threadIdx.x"):
            with T.sblock("D", "S", i):
                D[vi] = C[63 - vi]
""")


def test_a_race_in_global_memory_is_no_fault_of_the_pass_that_puts_barriers_in() -> None:
    array = np.arange(64, dtype="float32")
    blank = np.zeros(64, "float32")
    found = find_bad_pass(
        ThroughGlobalMemory, [array, blank, blank], [array, array[::-1].copy()], GPU
    )
    assert found.kind == "step"
    assert "race" in found.finding.message
