"""Unfinished schedules: what is done by no thread, by several, or by the wrong one."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Iterator

import pytest
import tvm
from golden_runs import run_default_example
from kernels import at_block, parse_kernel
from pairs import compile_for_cuda
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.script import from_source
from tvm.script import tirx as T

from tirstep import transforms as tr
from tirstep.lowering_checks import (
    Device,
    check_numbers,
    check_ownership,
    get_device,
    judge_run,
    run_recipe,
)
from tirstep.lowering_checks.ownership import list_left_open, list_overflows
from tirstep.modules import Problem, matmul, row_sum, softmax, vector_add
from tirstep.transforms.recipes import find_recipe, recipe
from tirstep.transforms.recipes.recipe import Example


def get_loops(sch: Schedule, name: str) -> list[LoopRV]:
    return list(sch.get_loops(sch.get_sblock(name)))


def find(module: tvm.IRModule) -> list[str]:
    findings = check_ownership(module, where="here")
    assert all(finding.check == "threads" and finding.where == "here" for finding in findings)
    return [finding.message for finding in findings]


def is_wrong(problem: Problem, module: tvm.IRModule, device: Device | None = None) -> bool:
    device = device or get_device("simulator")
    return bool(check_numbers(problem, module, device, where="here"))


def bind_fetch_only(sch: Schedule) -> None:
    i, j, _ = get_loops(sch, "C")
    tr.bind_loop(sch, i, axis="blockIdx.x")
    tr.stage_operand_at(sch, sch.get_sblock("C"), j, operand=0, threads=32)


UPDATES = (
    "{} on '{}' would store the same elements of '{}' in block '{}', initial values and incomplete "
    "sums among them"
)


SHARED = pytest.mark.parametrize("scope", ["shared", "shared.dyn"])


def start_with_a_shared_result(sch: Schedule, scope: str) -> LoopRV:
    """C's sums and its copy on threads, under a loop that is left for the host."""
    i, j, _ = get_loops(sch, "C")
    copy = tr.cache_write_at(sch, sch.get_sblock("C"), i, scope=scope)
    tr.bind_loop(sch, j, axis="threadIdx.x")
    tr.bind_loop(sch, sch.get_loops(copy)[-1], axis="threadIdx.x")
    return i


@SHARED
def test_shared_memory_of_two_kernels_is_none(scope: str) -> None:
    problem = matmul.problem(4, 8, 4)
    sch = Schedule(problem.module)
    i = start_with_a_shared_result(sch, scope)
    name = "C_" + scope.replace(".", "_") + "_ptr"
    assert f"float* __restrict__ {name}" in compile_for_cuda(sch.mod)
    assert find(sch.mod) == [
        f"block 'C_{scope}' reads 'C_{scope}' ({scope} memory), which block 'C' writes in "
        "another kernel, so that TVM keeps one copy for all threads in global memory; bring them "
        "under one bound loop, or keep it in global memory"
    ]
    tr.bind_loop(sch, i, axis="blockIdx.x")
    assert find(sch.mod) == []
    assert re.search(rf"__shared__ \w+\(64\) float {name}\[", compile_for_cuda(sch.mod))
    assert not is_wrong(problem, sch.mod)


def test_a_diagonal_through_a_guard_and_through_iterators() -> None:
    """TVM takes both; `bind_loop` refuses both."""
    sch = Schedule(matmul(8, 8, 4))
    i, j, _ = get_loops(sch, "C")
    sch.bind(i, "blockIdx.x")
    plain = sch.copy()
    plain.bind(j, "blockIdx.x")
    assert find(plain.mod) == [
        "iterations of block 'C' run in no thread, since its loops 'i' and 'j' are both "
        "on 'blockIdx.x'; bind one of them to another axis, or bind the outer one first and fetch "
        "or spread the inner one afterwards"
    ]
    copy = tr.cache_write_at(sch, sch.get_sblock("C"), j)
    tr.spread_over_threads(sch, copy, threads=4, tail="guard")
    sch.bind(j, "threadIdx.x")
    assert any(
        message.startswith("iterations of block 'C_local' run in no thread, since its loops")
        for message in find(sch.mod)
    ), find(sch.mod)


def test_an_axis_with_two_extents() -> None:
    sch = Schedule(matmul(8, 8, 4))
    i, j, _ = get_loops(sch, "C")
    tr.bind_loop(sch, i, axis="blockIdx.x")
    copy = tr.cache_write_at(sch, sch.get_sblock("C"), i, scope="shared")
    tr.bind_loop(sch, j, axis="threadIdx.x")
    inner = tr.split_loop(sch, sch.get_loops(copy)[-1], inner=4).inner
    sch.bind(inner, "threadIdx.x")
    assert find(sch.mod) == [
        "loop 'ax1_1' on 'threadIdx.x' runs 4 times and loop 'j' of the same kernel 8 times, "
        "and a launch has one extent; split the longer one"
    ]


def test_blocks_that_are_in_no_kernel() -> None:
    sch = Schedule(softmax(4, 8))
    assert find(sch.mod) == []  # nothing is bound: a program for the CPU
    tr.bind_loop(sch, get_loops(sch, "max")[0], axis="blockIdx.x")
    assert find(sch.mod) == [
        f"block '{name}' is outside of any kernel, and would run on the host, on a GPU's "
        "memory; bind its loops, or place it under a bound one"
        for name in ("exp", "sum", "B")
    ]


def test_a_sum_over_the_outermost_threads() -> None:
    """`bind_loop` refuses it: TVM gives all threads one cell for their parts of the sum."""
    problem = row_sum.problem(1, 8)
    sch = Schedule(problem.module)
    fused = tr.fuse_loops(sch, get_loops(sch, "B"))
    sch.bind(fused, "threadIdx.x")
    assert is_wrong(problem, sch.mod)
    assert find(sch.mod) == [
        "block 'B' reduces over the outermost bound loop of its kernel, 'i_k_fused' on "
        "'threadIdx.x', whose threads would add to one shared element; bind a spatial loop "
        "around it"
    ]


InPlace = parse_kernel("""
    A (16,), B (16,)
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for t in T.thread_binding(8, thread="threadIdx.x"):
            with T.sblock("A"):
                vi = T.axis.spatial(16, i * 4 + t)
                T.where(i * 4 + t < 16)
                A[vi] = A[vi] * T.float32(2)
            with T.sblock("B"):
                vi = T.axis.spatial(16, i * 4 + (t + 1) % 4)
                T.where(t < 4)
                B[vi] = A[vi]
""")


def test_in_place_updates_that_overlap_and_their_readers() -> None:
    updated, read = find(InPlace)
    assert updated.startswith(UPDATES.format("thread blocks", "blockIdx.x", "A", "A"))
    assert read.startswith(
        "block 'B' would read elements of 'A' that others on 'threadIdx.x' write"
    )


def make_open_sum(name: str) -> tvm.tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def total(a: T.handle, b: T.handle):
        m, n = T.int32(), T.int32()
        A = T.match_buffer(a, (m, n), "float32")
        B = T.match_buffer(b, (m,), "float32")
        for i, k in T.grid(m, n):
            with T.sblock("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]

    return total.with_attr("global_symbol", name)


def test_open_sizes_and_several_functions() -> None:
    functions = {name: make_open_sum(name) for name in ("first", "second")}
    sch = Schedule(tvm.IRModule(functions))
    for name in functions:
        block = sch.get_sblock("B", func_name=name)
        i, _ = sch.get_loops(block)
        outer, inner = tr.split_loop(sch, i, inner=4, tail="guard")
        tr.bind_loop(sch, outer, axis="blockIdx.x")
        if name == "first":
            tr.bind_loop(sch, inner, axis="threadIdx.x")
        else:
            with tr.unguarded():  # of a row of open length in shared memory
                tr.stage_operand_at(sch, block, inner, operand=0, threads=8)
    (message,) = find(sch.mod)
    assert message.startswith(UPDATES.format("threads", "threadIdx.x", "B", "B"))


@T.prim_func(s_tir=True)
def scan_by_hand(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
    part = T.alloc_buffer((65,), "int32")
    for _bx in T.thread_binding(1, thread="blockIdx.x"):
        with T.sblock("scan"):
            for tx in T.thread_binding(64, thread="threadIdx.x"):
                part[tx] = A[tx] * 2
                if tx == 0:
                    part[64] = A[0] * 4
    for _bx in T.thread_binding(1, thread="blockIdx.x"):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            C[tx] = part[tx] + part[64]


def test_a_block_that_binds_its_threads_itself_is_right() -> None:
    assert find(tvm.IRModule({"main": scan_by_hand})) == []


def test_a_large_kernel_is_judged_by_some_of_its_blocks_and_threads() -> None:
    sch, block, *_ = at_block(matmul(4096, 4096, 4096), "C")
    tile = tr.tile_block(sch, block, threads=(8, 8), per_thread=(2, 2))
    right = sch.copy()
    tr.accumulate_in_registers(right, block, tile.threads[1])
    for operand in (0, 1):
        tr.stage_operand_at(
            right, block, right.get_loops(block)[4], operand=operand, threads=(8, 8)
        )
    assert find(right.mod) == []
    copy = tr.cache_write_at(sch, block, tile.blocks[1], scope="shared")
    fused = tr.fuse_loops(sch, sch.get_loops(copy)[-2:])
    sch.bind(tr.split_loop(sch, fused, inner=16).inner, "blockIdx.x")
    assert any("C_shared" in message for message in find(sch.mod))


@recipe(
    kernel="matmul",
    blocks=("C",),
    default_example=Example({"m": 8, "n": 8, "k": 8}),
    golden=Example({"m": 8, "n": 8, "k": 8}),
)
def left_unfinished(sch: Schedule) -> Iterator[str]:
    """Only the fetch is on threads."""
    bind_fetch_only(sch)
    yield "fetched"


def test_the_last_step_of_a_recipe_is_judged_for_it_on_any_device() -> None:
    run = run_default_example(left_unfinished)
    verdicts = list(judge_run(run, get_device("cpu"), timed=False))
    assert [len(verdict.findings) for verdict in verdicts] == [0, 1]
    assert verdicts[-1].findings[0].check == "threads"
    assert verdicts[-1].findings[0].place.startswith("left_unfinished")


Doubled = parse_kernel("""
    A (32,) int32, C (4, 32) int32
    T.func_attr({"tirx.noalias": True})
    first = T.sblock_alloc_buffer((32,), "int32", scope="shared")
    second = T.sblock_alloc_buffer((32,), "int32", scope="shared")
    for _ in T.thread_binding(1, thread="blockIdx.x"):
        for t in T.thread_binding(32, thread="threadIdx.x"):
            with T.sblock("first"):
                vi = T.axis.spatial(32, t)
                first[vi] = A[vi]
        for t in T.thread_binding(32, thread="threadIdx.x"):
            with T.sblock("second"):
                vi = T.axis.spatial(32, t)
                second[vi] = first[vi] * 2
        for y in T.thread_binding(4, thread="threadIdx.y"):
            for t in T.thread_binding(32, thread="threadIdx.x"):
                with T.sblock("C"):
                    vy, vi = T.axis.remap("SS", [y, t])
                    C[vy, vi] = second[vi]
""")


def test_threads_that_compute_a_buffer_from_the_one_in_whose_place_it_is() -> None:
    """Each of four threads would double the same elements in place; along y nobody else runs."""
    (finding,) = check_ownership(Doubled)
    assert "would keep 'second' in the place of 'first', from which it is computed" in str(finding)
    fewer = Doubled.script().replace('(4, thread="threadIdx.y")', '(1, thread="threadIdx.y")')
    assert check_ownership(from_source(fewer)) == []


def test_a_loop_of_2_to_the_31_iterations_is_not_listed() -> None:
    """They took 16 GiB, and with less memory the check ended in NumPy's error."""
    sch, block, loop = at_block(vector_add(2**31 - 1), "C")
    tr.bind_loop(sch, loop, axis="blockIdx.x")
    tr.cache_write_at(sch, block, loop, scope="shared.dyn")
    tracemalloc.start()
    assert check_ownership(sch.mod) == []
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 28


ReadsAsManyAsItsBlockSays = parse_kernel("""
    A (2, 4) int32, C (2, 4, 8) int32
    S = T.sblock_alloc_buffer((8,), "int32", scope="shared")
    for b in T.thread_binding(2, thread="blockIdx.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            with T.sblock("S", "SS", b, t):
                S[vt] = A[vb, vt]
        for t in T.thread_binding(4, thread="threadIdx.x"):
            for j in range(b * 3 + 1):
                with T.sblock("C", "SSS", b, t, j):
                    C[vb, vt, vj] = S[vj]
""")


def test_a_loop_that_another_one_ends_has_the_values_that_it_has() -> None:
    """The variables of its bounds were taken for open sizes, and elements for read that are not."""
    assert check_ownership(ReadsAsManyAsItsBlockSays) == []
    more = ReadsAsManyAsItsBlockSays.script().replace("b * 3 + 1", "b * 4 + 1")
    (finding,) = check_ownership(from_source(more))
    assert "block 'C' would read S[4], which block 'S' has not written by then" in str(finding)


def test_a_window_whose_length_depends_on_the_taps_that_are_left() -> None:
    settings = {"threads": 32, "taps": 8, "each": 16, "tail": "guard"}
    run = run_recipe(find_recipe("conv1d_registers"), {"m": 23, "n": 12}, config=settings)
    assert check_ownership(run.steps[-1].module) == []


READS_BY_DATA = """# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(A: T.Buffer((N,), "int32"), I: T.Buffer((N,), "int32"), B: T.Buffer((N,), "int32")):
    for i in T.thread_binding(N, thread="threadIdx.x"):
        with T.sblock("B"):
            v = T.axis.spatial(N, i)
            """


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("B[v] = A[I[v]]", "'A' in block 'B': data decide which elements"),
        ("B[I[v]] = A[v]", "'B' in block 'B': data decide which elements"),
        (
            "B[v] = T.if_then_else(I[v] > 0, A[v], 0)",
            "'A' in block 'B': data decide whether it is accessed",
        ),
        ("B[v] = A[v] + I[v]", ""),
    ],
)
def test_what_the_rules_leave_open_is_told(statement: str, reason: str):
    for extent, more in ((256, None), (1 << 18, "more than 131072 iterations")):
        text = (READS_BY_DATA + statement).replace("N", str(extent))
        module = tvm.IRModule({"main": from_source(text)})
        others = [it for it in list_left_open(module) if it != reason]
        assert all(more and it.endswith(more) for it in others)
        assert bool(others) == bool(more)
        assert bool(reason) == (reason in list_left_open(module))
        assert not find(module)


def test_a_loop_that_another_one_bounds_is_decided():
    text = """# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(A: T.Buffer((64, 64), "int32"), B: T.Buffer((64, 64), "int32")):
    for i in T.thread_binding(64, thread="threadIdx.x"):
        for j in range(i + 1):
            with T.sblock("B"):
                v, w = T.axis.remap("SS", [i, j])
                B[v, w] = A[v, w]
"""
    assert list_left_open(tvm.IRModule({"main": from_source(text)})) == []


OVERFLOW = "'A', 'B': its sizes are int32, and its indices overflow from"


@pytest.mark.parametrize(
    ("types", "told"),
    [
        (("int32", "int32"), [f"{OVERFLOW} n * m = "]),
        (("int64", "int64"), []),
        (("int32", None), [f"{OVERFLOW} n * 8 = "]),
    ],
)
def test_indices_beyond_32_bits_are_told_with_the_sizes_from_which_on(types, told):
    n, m = types
    size = "m" if m else "8"
    text = f"""
@T.prim_func(s_tir=True)
def main(a: T.handle, b: T.handle):
    n = T.{n}()
    m = T.{m or n}()
    A = T.match_buffer(a, (n, {size}))
    B = T.match_buffer(b, (n, {size}))
    for i, j in T.grid(n, {size}):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
"""
    found = list_overflows(tvm.IRModule({"main": from_source(text)}))
    assert [it.partition("2,147,483,648")[0] for it in found] == told
    flat = text.replace(f", (n, {size})", f", (n * {size},)").replace(
        "[vi, vj]", f"[vi * {size} + vj]"
    )
    found = list_overflows(tvm.IRModule({"main": from_source(flat)}))
    assert [it.partition("2,147,483,648")[0] for it in found] == told
