"""cp.async in the simulator: data arrives at the wait, and whoever comes too early is found."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from edits import COMMIT, WAIT, drop_barrier, drop_commit, edit_wait
from pipelines import CONSUMER_FIRST, IN_ORDER, asynchronous_matmul, tensor_core_matmul
from tvm.s_tir import Schedule
from tvm.script import from_source
from tvm.script import ir as I
from tvm.script import tirx as T
from tvm.tirx import AttrStmt

from tirstep.lowering_checks import check_numbers, get_device
from tirstep.lowering_checks.devices import DeviceFinding
from tirstep.lowering_checks.devices.simulator import (
    lower,
    simulate,
    simulate_lowered,
)
from tirstep.modules import Problem, matmul
from tirstep.transforms import set_pass_option

SIMULATOR = get_device("simulator")
PIPELINES: dict[str, tuple[Callable[..., tvm.IRModule], Problem]] = {
    "registers": (asynchronous_matmul, matmul.problem(32, 32, 40)),
    "tensor cores": (tensor_core_matmul, matmul.problem(64, 64, 128, dtype="float16")),
}


@functools.cache
def find_lowered(kind: str, stages: int, order: tuple[int, ...] = IN_ORDER) -> tvm.IRModule:
    make, _ = PIPELINES[kind]
    return lower(make(stages=stages, order=order))


def run(kind: str, lowered: tvm.IRModule) -> tuple[bool, list[DeviceFinding]]:
    """Whether the numbers are right, and what was found."""
    _, problem = PIPELINES[kind]
    outputs = [np.full(output.shape, np.nan, output.dtype) for output in problem.outputs]
    inputs = problem.integer_inputs(0)
    result = simulate_lowered(lowered, [*inputs, *outputs])
    (expected,) = problem.reference(inputs)
    return np.array_equal(result.arguments[-1], expected), result.findings


def later(node: Any) -> Any:
    """A wait that leaves one more group in flight."""
    return AttrStmt(node.node, node.attr_key, node.value + 1, node.body)


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize(("scope", "vector"), [("shared.dyn", 4), ("shared", 2), ("shared", 1)])
def test_an_asynchronous_matmul_is_right(stages: int, scope: str, vector: int) -> None:
    module = asynchronous_matmul(stages=stages, scope=scope, vector=vector)
    assert "cp_async_raw" in lower(module).script()
    problem = matmul.problem(32, 32, 40)
    assert check_numbers(problem, module, SIMULATOR, where="here") == []


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("kind", PIPELINES)
def test_every_wait_that_is_deleted_or_too_short_is_found(kind: str, stages: int) -> None:
    lowered = find_lowered(kind, stages)
    waits = lowered.script().count(WAIT)
    assert waits == stages
    for which in range(waits):
        for change in (later, lambda node: node.body):
            _, found = run(kind, edit_wait(lowered, which, change))
            assert {finding.kind for finding in found} == {"race"}
            assert "is in flight" in found[0].message


@pytest.mark.parametrize("kind", PIPELINES)
def test_every_barrier_of_a_pipeline_that_is_dropped_is_found(kind: str) -> None:
    lowered = find_lowered(kind, 3)
    barriers = lowered.script().count("tvm_storage_sync")
    assert barriers == 4  # one before each copy, one after each wait
    for which in range(barriers):
        _, found = run(kind, drop_barrier(lowered, which))
        assert {finding.kind for finding in found} == {"race"}


def test_a_wait_without_a_barrier_is_told_with_threads() -> None:
    _, found = run("registers", drop_barrier(find_lowered("registers", 3), 3))
    assert found[0].message == (
        "load of A_shared.dyn[128] by thread (1, 0, 0) of block (0, 0, 0) and store by thread "
        "(0, 0, 0) of block (0, 0, 0) with no barrier in between"
    )


@pytest.mark.parametrize("kind", PIPELINES)
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_lost_commit_is_found(kind: str, which: int) -> None:
    """Its copies belong to the next group, and a wait for their own waits for too little."""
    _, found = run(kind, drop_commit(find_lowered(kind, 3), which))
    assert {finding.kind for finding in found} == {"race"}


@pytest.mark.parametrize("stages", [3, 4])
@pytest.mark.parametrize("kind", PIPELINES)
def test_tvms_wait_for_a_consumer_that_comes_first_is_too_short(kind: str, stages: int) -> None:
    """With the order [1, 2, 0] TVM leaves 2 * (stages - 2) groups in flight, and not stages - 2."""
    lowered = find_lowered(kind, stages, CONSUMER_FIRST)
    assert f'"{WAIT}": {2 * (stages - 2)}' in lowered.script()
    is_right, found = run(kind, lowered)
    assert not is_right
    assert {finding.kind for finding in found} == {"race"}


@T.prim_func(s_tir=True)
def guarded(A: T.Buffer((100,), "float32"), B: T.Buffer((128,), "float32")):
    for thread in T.thread_binding(32, thread="threadIdx.x"):
        with T.sblock("B"):
            T.reads(A[0:100])
            T.writes(B[0:128])
            S = T.sblock_alloc_buffer((128,), scope="shared")
            with T.attr(0, COMMIT, 0):
                with T.attr(0, "async_scope", 1):
                    for i in range(4):
                        S[i * 32 + thread] = T.if_then_else(
                            i * 32 + thread < 100, A[i * 32 + thread], T.float32(0)
                        )
            with T.attr(0, "async_wait_queue_scope", 0):
                with T.attr(0, WAIT, 0):
                    for i in range(4):
                        B[thread * 4 + i] = S[(thread * 4 + i + 5) % 128]


def lower_guarded() -> tvm.IRModule:
    sch = Schedule(tvm.IRModule({"main": guarded}))
    set_pass_option(sch, name="tirx.use_async_copy", value=True)
    return lower(sch.mod)


def run_shifted(lowered: tvm.IRModule, size: int) -> tuple[np.ndarray, list[DeviceFinding]]:
    """What a kernel makes that shifts its input by 5 elements, shifted back; and its findings."""
    values = np.arange(size, dtype="float32") + 1
    result = simulate_lowered(lowered, [values, np.full(128, np.nan, "float32")])
    return np.roll(result.arguments[1], 5), result.findings


def test_a_guarded_copy_reads_nothing_and_stores_zeros() -> None:
    lowered = lower_guarded()
    assert "A_1.data, cse_v1, 4, i * 8 + threadIdx_x // 4 < 25)" in lowered.script()
    got, found = run_shifted(lowered, 100)
    assert found == []
    np.testing.assert_array_equal(got, np.append(np.arange(1, 101), np.zeros(28)))


def test_the_zeros_of_a_guarded_copy_do_not_wait() -> None:
    """TVM stores them itself: a deleted wait is a race for the 100 elements that are copied."""
    _, (finding,) = run_shifted(edit_wait(lower_guarded(), 0, lambda node: node.body), 100)
    assert (finding.kind, finding.count) == ("race", 100)


def test_a_copy_that_lost_its_guard_reads_beyond_the_end() -> None:
    text = lower_guarded().script().replace(", i * 8 + threadIdx_x // 4 < 25)", ")")
    _, (finding,) = run_shifted(from_source(text), 100)
    assert finding.kind == "out of bounds"
    assert (
        "load of A[100] by thread (4, 0, 0) of block (0, 0, 0) (A has 100 elements)"
        in finding.message
    )


@I.ir_module
class Explicit:
    """Copies, groups and waits as PTX spells them."""

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
        for thread in T.thread_binding(32, thread="threadIdx.x"):
            with T.sblock("B"):
                T.reads(A[0:128])
                T.writes(B[0:128])
                S = T.sblock_alloc_buffer((128,), scope="shared")
                T.evaluate(
                    T.ptx["cp.async.cg.shared.global"](
                        T.address_of(S[thread * 4]), T.address_of(A[thread * 4]), 16
                    )
                )
                T.evaluate(T.ptx["cp.async.commit_group"]())
                T.evaluate(T.ptx["cp.async.wait_group"](0))
                T.evaluate(T.tvm_storage_sync("shared"))
                for i in range(4):
                    B[thread * 4 + i] = S[(thread * 4 + i + 5) % 128]


CG, CA = '16, "async", "cg"', '16, "async", "ca"'
COMMIT_GROUP, WAIT_GROUP = (
    'T.ptx.cp("async", "commit_group", "")',
    'T.ptx.cp(0, "async", "wait_group", "")',
)
WAIT_ALL = 'T.ptx.cp("async", "wait_all", "")'
BARRIER = 'T.tvm_storage_sync("shared", T.bool(False), -1)'


def run_explicit(*edits: tuple[str, str]) -> tuple[np.ndarray, list[DeviceFinding]]:
    text = lower(Explicit).script()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    return run_shifted(from_source(text), 128)


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [(CG, CA)],
        [(WAIT_GROUP, WAIT_ALL)],
        [(COMMIT_GROUP, "T.evaluate(0)"), (WAIT_GROUP, WAIT_ALL)],
    ],
    ids=["cg", "ca", "wait_all", "wait_all without a group"],
)
def test_explicit_copies_are_right(edits) -> None:
    got, found = run_explicit(*edits)
    assert found == []
    np.testing.assert_array_equal(got, np.arange(1, 129))


@pytest.mark.parametrize(
    ("edits", "told"),
    [
        ([(WAIT_GROUP, "T.evaluate(0)")], "is in flight"),
        ([(COMMIT_GROUP, "T.evaluate(0)")], "is in flight"),
        ([(WAIT_GROUP, WAIT_GROUP.replace("0", "1"))], "is in flight"),
        ([(BARRIER, "T.evaluate(0)")], "with no barrier in between"),
        ([(BARRIER, WAIT_GROUP), (WAIT_GROUP, BARRIER)], "with no barrier in between"),
    ],
    ids=["no wait", "no commit", "one group short", "no barrier", "barrier before the wait"],
)
def test_explicit_copies_that_are_not_waited_for_race(edits, told: str) -> None:
    _, found = run_explicit(*edits)
    assert {finding.kind for finding in found} == {"race"}
    assert told in found[0].message


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        ("16, T.uint32(8), ", lambda place: place % 4 < 2),  # src-size: 8 bytes of 16
        ("16, threadIdx_x < 16, ", lambda place: place >= 64),  # ignore-src of the first half
    ],
    ids=["src-size", "ignore-src"],
)
def test_what_a_copy_leaves_out_is_zero(operands: str, expected) -> None:
    text = CA.replace("16, ", operands)
    edits = [(CG, text)]
    if "<" in operands:
        edits.append(('"global", "", "", "")', '"global", "", "", "p3")'))
    got, found = run_explicit(*edits)
    assert found == []
    place = np.arange(128)
    np.testing.assert_array_equal(got, np.where(expected(place), place + 1, 0))


def test_a_copy_of_a_misaligned_address_is_found() -> None:
    _, found = run_explicit(("T.address_of(A_1[cse_v1])", "T.address_of(A_1[cse_v1 % 124 + 1])"))
    assert {finding.kind for finding in found} == {"misaligned access"}
    assert "vector access at A[1] by " in found[0].message


def test_a_source_that_changes_before_the_wait_is_found() -> None:
    """The thread's own store comes between the copy and its wait: who is first is open."""
    change = (COMMIT_GROUP, f"{COMMIT_GROUP}\n            A_1[cse_v1] = T.float32(7)")
    early = ("T.ptx.cp(T.cuda", "A_1[cse_v1] = T.float32(3)\n            T.ptx.cp(T.cuda")
    _, found = run_explicit(early, change)
    told = [finding.message for finding in found if finding.kind == "race"]
    assert told == [
        "asynchronous copy from A[0] by thread (0, 0, 0) of block (0, 0, 0) in flight during a "
        "store by thread (0, 0, 0) of block (0, 0, 0)"
    ]


def test_a_store_to_where_a_copy_is_on_its_way_is_found() -> None:
    store = (COMMIT_GROUP, f"{COMMIT_GROUP}\n            S[cse_v1] = T.float32(0)")
    _, found = run_explicit(store)
    assert [finding.kind for finding in found] == ["race"]
    assert found[0].message.startswith("store to S[0] by thread (0, 0, 0)")
    assert "while an asynchronous copy to it by thread (0, 0, 0)" in found[0].message


def test_counts_see_asynchronous_copies() -> None:
    values = np.zeros(128, "float32")
    counts = simulate(Explicit, [values, values]).counts
    assert counts.async_copies == 1
    assert counts.scopes["global"].bytes == 128 * 4 * 2
    assert counts.scopes["shared"].bytes == 128 * 4 * 2
    assert counts.scopes["shared"].bank_conflicts == 4 * 3  # of the loads, 4 elements apart
