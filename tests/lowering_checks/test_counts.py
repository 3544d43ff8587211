"""Counts of a launch's accesses, held against what warps do by hand."""

import numpy as np
import pytest
import tvm
from golden_runs import run_golden
from tvm.s_tir import Schedule
from tvm.script import tirx as T

from tirstep.lowering_checks import Counts, DeviceError, count_accesses, run_recipe
from tirstep.lowering_checks.devices.device import blank
from tirstep.lowering_checks.devices.simulator import lower, simulate, simulated_gpu
from tirstep.lowering_checks.devices.simulator.access_counts import AccessCounts, _count_access
from tirstep.lowering_checks.devices.simulator.periodic_loops import (
    find_periods,
    is_decided_by_memory,
)
from tirstep.lowering_checks.facts import get_facts
from tirstep.modules import Problem, get_kernel
from tirstep.transforms import bind_loop, cache_read_at, fetch_cooperatively, tile_block
from tirstep.transforms.recipes import find_recipe

ADD = get_kernel("vector_add").problem(n=256)
MATMUL = get_kernel("matmul").problem(m=32, n=32, k=32)


def test_neighbouring_threads_share_sectors() -> None:
    sch = Schedule(ADD.module)
    tile_block(sch, sch.get_sblock("C"), threads=(64,))
    counts = count_accesses(ADD, sch.mod)
    accesses = counts.scopes["global"]
    # Two warps, two loads and a store each; 32 float32 of a warp fill four sectors of 32 bytes.
    assert (accesses.requests, accesses.sectors, accesses.bytes) == (6, 24, 3 * 64 * 4)
    assert accesses.sectors_per_request == 4.0
    assert (counts.barriers, set(counts.scopes)) == (0, {"global"})


def test_threads_that_lie_far_apart_do_not() -> None:
    sch = Schedule(ADD.module)
    (loop,) = sch.get_loops(sch.get_sblock("C"))
    threads, blocks = sch.split(loop, [32, None])
    sch.reorder(blocks, threads)
    bind_loop(sch, blocks, axis="blockIdx.x")
    bind_loop(sch, threads, axis="threadIdx.x")
    assert count_accesses(ADD, sch.mod).scopes["global"].sectors_per_request == 32.0


def count_with_tile_of_a(letters: tuple[str, str]) -> Counts:
    """One warp's 32 elements of C, a column or a row of it, with the rows of A in shared memory."""
    sch = Schedule(MATMUL.module)
    block = sch.get_sblock("C")
    threads = (32, 1) if letters == ("x", "y") else (1, 32)
    tile = tile_block(sch, block, threads=threads, axes=letters)
    copy = cache_read_at(sch, block, tile.threads[-1], operand=0, scope="shared")
    fetch_cooperatively(sch, copy, threads=(32,), tail="guard")
    return count_accesses(MATMUL, sch.mod)


def test_a_column_of_shared_memory_has_bank_conflicts() -> None:
    counts = count_with_tile_of_a(("x", "y"))
    # Every thread has a row of A of its own, 32 elements on: all 32 of a warp in one bank, k times.
    assert counts.scopes["shared"].bank_conflicts == 32 * 31
    assert counts.barriers == 1


def test_a_broadcast_of_shared_memory_has_none() -> None:
    assert count_with_tile_of_a(("y", "x")).scopes["shared"].bank_conflicts == 0


def test_the_first_block_alone_is_counted_as_in_a_run_of_all() -> None:
    run = run_golden(find_recipe("matmul_shared"))
    module, problem = run.steps[-1].module, run.problem
    arguments = [*problem.integer_inputs(0), *map(blank, problem.outputs)]
    assert count_accesses(problem, module) == simulate(module, arguments).counts


PERIODIC = (
    "matmul_shared",
    "matmul_prefetched",
    "matmul_async",
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


def test_a_loop_whose_guard_changes_once_counts_right(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"m": 65, "n": 49, "k": 33}
    run = run_recipe(find_recipe("matmul_shared"), sizes, config={"tail": "guard"})
    module = run.steps[-1].module
    slow = count_every_iteration(monkeypatch, run.problem, module)
    assert count_accesses(run.problem, module) == slow


def test_of_the_tutorials_shape_a_few_iterations_run(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_recipe(find_recipe("matmul_shared"), {"m": 1024, "n": 512, "k": 2048})
    scopes = []
    add = Counts.add_access
    monkeypatch.setattr(
        Counts,
        "add_access",
        lambda counts, scope, *access: scopes.append(scope) or add(counts, scope, *access),
    )
    counts = count_accesses(run.problem, run.steps[-1].module)
    assert 0 < len(scopes) < counts.scopes["shared"].requests / 100


def test_an_address_out_of_memory_ends_no_loop_early() -> None:
    @T.prim_func(s_tir=True)
    def gather(index: T.Buffer((64,), "int32"), a: T.Buffer((64,), "float32")):
        for thread in T.thread_binding(32, thread="threadIdx.x"):
            for step in range(2):
                with T.sblock("gather"):
                    v = T.axis.spatial(64, step * 32 + thread)
                    a[v] = a[index[v]]

    lowered = lower(tvm.IRModule({"main": gather.with_attr("global_symbol", "main")}))
    assert is_decided_by_memory(lowered["main"].body)
    assert find_periods(lowered["main"].body) == {}
    plain = lower(run_golden(find_recipe("matmul_warps")).steps[-1].module)
    assert not is_decided_by_memory(plain["main"].body)
    assert find_periods(plain["main"].body)


def test_what_is_not_bound_is_refused() -> None:
    sentence = "there is no launch to count: not bound yet: C; bind its loops first"
    with pytest.raises(DeviceError, match=sentence):
        count_accesses(ADD, ADD.module)


@pytest.mark.parametrize("warp", [(2, 16), (4, 8)])
def test_pairs_of_threads_that_read_one_vector_take_half_of_the_wavefronts(
    warp: tuple[int, int],
) -> None:
    sizes = {"m": 128, "n": 128, "k": 16}
    problem = get_kernel("matmul").problem(**sizes)
    taken = {}
    for name in ("matmul_warps", "matmul_interleaved"):
        run = run_recipe(find_recipe(name), sizes, config={"warp": warp})
        shared = count_accesses(problem, run.steps[-1].module).scopes["shared"]
        taken[name] = (shared.requests, shared.wavefronts)
    # 16 steps of 8 warps, in which each of a thread's four strips loads a vector of A and one of B:
    # A's are shared by the threads of a row, B's only where two rows are interleaved.
    requests, wavefronts = taken["matmul_warps"]
    assert taken["matmul_interleaved"] == (requests, wavefronts - 16 * 8 * 4 * (4 - 2))


def test_wavefronts_of_vectors_that_no_two_threads_share() -> None:
    shared = AccessCounts()
    counts = Counts(scopes={"shared": shared})
    threads = np.arange(32)[:, None]
    everybody = np.ones((32, 1), dtype=bool)
    for address, wavefronts in (
        (threads, 4),  # all different
        (threads // 2, 2),  # t and t ^ 1
        (threads // 4 * 2 + threads % 2, 2),  # t and t ^ 2
        (threads % 16, 4),  # halves of the warp: no such pairs
        (threads * 0, 2),  # one for all
    ):
        before = shared.wavefronts
        counts.add_access("shared", address * 4 + np.arange(4), everybody, 4)
        assert shared.wavefronts - before == wavefronts
    assert shared.bank_conflicts == 0


def test_each_launch_counts_with_its_own_blocks() -> None:
    """Two kernels of 16 and 8 blocks are 24 blocks, and each brings its own traffic."""
    run = run_golden(find_recipe("matmul_split_k"))
    module = run.steps[-1].module
    grids = [kernel.blocks for kernel in get_facts(module).kernels]
    assert len(grids) == 2
    counts = count_accesses(run.problem, module)
    assert counts.blocks == sum(grids)
    assert counts.traffic >= run.problem.bytes


def test_traffic_is_that_of_all_blocks() -> None:
    """A sum of two vectors moves the least; a matrix product block by block moves A and B again."""
    sch = Schedule(ADD.module)
    tile_block(sch, sch.get_sblock("C"), threads=(64,))
    counts = count_accesses(ADD, sch.mod)
    assert (counts.blocks, counts.traffic) == (4, ADD.bytes)
    sch = Schedule(MATMUL.module)
    tile_block(sch, sch.get_sblock("C"), threads=(1, 32))
    counts = count_accesses(MATMUL, sch.mod)
    # 32 blocks of a warp: in each step of k one sector of A, four of B; the sum is read and
    # written, once more for the zero before it.
    steps, row = 32, 4 * 32
    assert (counts.blocks, counts.traffic) == (32, 32 * (steps * (32 + 3 * row) + row))


@pytest.mark.parametrize("scope", ["global", "shared"])
@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_an_access_that_was_met_counts_as_it_did(scope: str, itemsize: int):
    """Counts are kept by where the cells are from a multiple of 128 bytes on."""
    random = np.random.default_rng(itemsize)
    for _ in range(40):
        width = int(random.choice([1, 2, 4]))
        first = random.integers(0, 200, (64, 1)) * width
        cells, active = first + np.arange(width), random.random((64, width)) < 0.9
        active[:] = active[:, :1]
        for shift in (0, 128 // itemsize, 5 * 128 // itemsize, 3):
            counts = Counts()
            counts.add_access(scope, cells + shift, active, itemsize)
            lanes = np.flatnonzero(active[:, 0])
            alone = _count_access(scope, lanes, (cells + shift)[lanes] * itemsize, itemsize)
            assert counts.scopes[scope] == alone
