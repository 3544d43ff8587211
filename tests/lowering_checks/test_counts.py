"""Counts of a launch's accesses, held against what warps do by hand."""

import pytest
import tvm
from golden_runs import run_golden
from kernels import at_block, parse_kernel

from tirstep.lowering_checks import Counts, DeviceError, count_accesses, run_recipe
from tirstep.lowering_checks.devices.simulator import simulated_gpu
from tirstep.lowering_checks.facts.lowered import is_decided_by_memory
from tirstep.modules import Problem, get_kernel
from tirstep.transforms import bind_loop, cache_read_at, fetch_cooperatively, tile_block
from tirstep.transforms.recipes import find_recipe

ADD = get_kernel("vector_add").problem(n=256)
MATMUL = get_kernel("matmul").problem(m=32, n=32, k=32)


def test_threads_that_lie_far_apart_do_not() -> None:
    sch, _, loop = at_block(ADD.module, "C")
    threads, blocks = sch.split(loop, [32, None])
    sch.reorder(blocks, threads)
    bind_loop(sch, blocks, axis="blockIdx.x")
    bind_loop(sch, threads, axis="threadIdx.x")
    assert count_accesses(ADD, sch.mod).scopes["global"].sectors_per_request == 32.0


def test_a_broadcast_of_shared_memory_has_no_bank_conflicts() -> None:
    """One warp's 32 elements of C, a column of it, with the rows of A in shared memory."""
    sch, block, *_ = at_block(MATMUL.module, "C")
    tile = tile_block(sch, block, threads=(1, 32), axes=("y", "x"))
    copy = cache_read_at(sch, block, tile.threads[-1], operand=0, scope="shared")
    fetch_cooperatively(sch, copy, threads=(32,), tail="guard")
    assert count_accesses(MATMUL, sch.mod).scopes["shared"].bank_conflicts == 0


PERIODIC = (
    "matmul_shared",
    "matmul_prefetched",
    "matmul_split_k",
    "depthwise_conv2d_blocks_2d",
    "softmax_online",
    "transpose_vectors",
    "conv1d_unrolled",
)


def count_every_iteration(
    monkeypatch: pytest.MonkeyPatch, problem: Problem, module: tvm.IRModule
) -> Counts:
    with monkeypatch.context() as patch:
        patch.setattr(simulated_gpu, "find_periods", lambda body: {})
        return count_accesses(problem, module)


@pytest.mark.parametrize("name", PERIODIC)
def test_loops_that_end_early_count_as_those_that_run_to_their_end(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_golden(find_recipe(name))
    module = run.steps[-1].module
    slow = count_every_iteration(monkeypatch, run.problem, module)
    assert count_accesses(run.problem, module) == slow


@pytest.mark.parametrize("k", [64, 80, 144])
def test_a_long_reduction_counts_as_if_it_ran(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_recipe(find_recipe("matmul_prefetched"), {"m": 128, "n": 128, "k": k})
    module = run.steps[-1].module
    slow = count_every_iteration(monkeypatch, run.problem, module)
    assert count_accesses(run.problem, module) == slow


def test_what_is_not_bound_is_refused() -> None:
    sentence = "there is no launch to count: not bound yet: C; bind its loops first"
    with pytest.raises(DeviceError, match=sentence):
        count_accesses(ADD, ADD.module)


@pytest.mark.parametrize(("index", "is_decided"), [("63 - i", False), ("I[i]", True)])
def test_inputs_are_drawn_where_memory_decides(index: str, is_decided: bool) -> None:
    program = f"A (64,), I (64,) int32, B (64,)\nfor i in range(64):\n    B[i] = A[{index}]"
    assert is_decided_by_memory(parse_kernel(program)["main"].body) == is_decided
