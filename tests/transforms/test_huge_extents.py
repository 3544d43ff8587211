"""Rules that try iterations one by one try some of many, and end at once near 2**31 of them.

Without a limit each of these would take minutes or all memory, so that a limit of a few seconds
is set around each.
"""

import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
import tvm
from tvm.s_tir import Schedule
from tvm.script import ir as I
from tvm.script import tirx as T
from tvm.tirx import EQ, And, ForKind, Var

from tirstep.transforms.legality.lifetimes import find_lost_reads
from tirstep.transforms.legality.lowered_memory import find_leaked_variables, find_missing_barriers
from tirstep.transforms.legality.pipelines import find_broken_pipelines
from tirstep.transforms.legality.quotients import is_pinned
from tirstep.transforms.legality.vectors import find_taken_apart

HUGE = 2**31 - 8
Guard = Callable[[Any], Any]
SECONDS = 20


@pytest.fixture(autouse=True)
def in_seconds() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"still trying iterations after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    ("condition", "pinned"),
    [
        (lambda i: i < 5, False),
        (lambda i: i * 4 < 3, True),
        (lambda i: i >= HUGE - 2, False),
        (lambda i: EQ(i, 2**20), True),  # neither the first nor the last ones: taken for so
        (lambda i: And(i >= 2**20, i < 2**21), True),
    ],
)
def test_of_many_iterations_some_tell_whether_a_guard_lets_one_in(
    condition: Guard, *, pinned: bool
):
    i = Var("i", "int32")
    assert is_pinned([condition(i)], i, HUGE) is pinned


def test_a_row_behind_a_guard_may_have_as_many_iterations_as_there_are():
    @I.ir_module
    class Rows:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((HUGE,), "float32"), B: T.Buffer((HUGE,), "float32")):
            for t in T.thread_binding(1, thread="blockIdx.x"):
                S = T.sblock_alloc_buffer((8,), scope="local")
                for i in range(HUGE):
                    with T.sblock("S"):
                        vi = T.axis.spatial(HUGE, i)
                        T.where(i * 3 < 8 + t)
                        S[vi % 8] = A[vi]

    assert find_leaked_variables(Rows) == []


def always(k: Any) -> Any:
    return k >= 0


def make_pipeline(extent: int, used: Guard, copied: Guard = always, **options: Any) -> tvm.IRModule:
    """A copy and its use, asynchronously, each where a guard lets it be.

    TVM's parser does not find a module in a function whose head takes several lines.
    """
    unrolled, kind = options.get("unrolled", 1), options.get("kind", T.serial)
    notes = {
        "software_pipeline_stage": [0, options.get("ahead", 1)],
        "software_pipeline_order": [0, 1],
        "software_pipeline_async_stages": [0],
    }

    @I.ir_module
    class Pipeline:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((HUGE,), "float32"), B: T.Buffer((16,), "float32")):
            S = T.sblock_alloc_buffer((1,), scope="shared")
            for u in T.unroll(unrolled):
                for t in T.thread_binding(16, thread="threadIdx.x"):
                    for k in kind(extent, annotations=notes):
                        for _ in range(1):
                            with T.sblock("S"):
                                vk = T.axis.spatial(HUGE, k)
                                T.where(copied(k + u))
                                S[0] = A[vk]
                        for _ in range(1):
                            with T.sblock("B"):
                                vt = T.axis.spatial(16, t)
                                T.where(used(k + u))
                                B[vt] = B[vt] + S[0]

    return Pipeline


def name_faults(module: tvm.IRModule) -> str:
    return "; ".join(fault.problem for fault in find_broken_pipelines(module))


def test_a_pipeline_without_guards_may_be_as_long_as_it_likes():
    assert name_faults(make_pipeline(HUGE, always)) == ""


def test_copies_of_a_long_piece_that_nothing_uses_are_refused_together():
    module = make_pipeline(HUGE, used=lambda k: k >= HUGE - 1)
    assert "would copy in iterations 0 to" in name_faults(module)


def test_what_never_runs_in_a_long_piece_is_not_asked_for_one_by_one():
    module = make_pipeline(HUGE, used=lambda k: k < 0, copied=lambda k: k < 0)
    assert name_faults(module) == ""


@pytest.mark.parametrize(
    "options",
    [
        {"unrolled": HUGE // 2 - 100, "extent": HUGE // 2},
        {"kind": T.unroll, "extent": HUGE},
        {"ahead": 2**30, "extent": HUGE},
    ],
    ids=["unrolled around it", "unrolled itself", "stages ahead"],
)
def test_too_many_iterations_written_out_with_guards_are_refused(options: dict[str, Any]):
    module = make_pipeline(**options, used=lambda k: k >= 1)
    assert "TVM would write out" in name_faults(module)


def test_a_long_copy_one_by_one_is_known_by_some_of_its_neighbours():
    @I.ir_module
    class Pipeline:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((HUGE,), "float32"), B: T.Buffer((16,), "float32")):
            S = T.sblock_alloc_buffer((HUGE - 8,), scope="shared")
            for t in T.thread_binding(16, thread="threadIdx.x"):
                for k in T.serial(
                    2,
                    annotations={
                        "software_pipeline_stage": [0, 1],
                        "software_pipeline_order": [0, 1],
                        "software_pipeline_async_stages": [0],
                    },
                ):
                    for w in range(HUGE - 8):
                        with T.sblock("S"):
                            vk = T.axis.spatial(HUGE, k + w)
                            vw = T.axis.spatial(HUGE - 8, w)
                            S[vw] = A[vk]
                    for _ in range(1):
                        with T.sblock("B"):
                            vt = T.axis.spatial(16, t)
                            B[vt] = B[vt] + S[0]

    assert "block 'S' copies neighbours one by one in loop 'w'" in name_faults(Pipeline)


def test_a_vector_of_too_many_lanes_is_compared_at_some_of_them():
    @I.ir_module
    class Vector:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((HUGE,), "float32"), B: T.Buffer((HUGE,), "float32")):
            for i in T.vectorized(HUGE):
                with T.sblock("B"):
                    vi = T.axis.spatial(HUGE, i)
                    B[vi] = A[HUGE - 1 - vi]

    sch = Schedule(Vector)
    assert sch.get(sch.get_loops(sch.get_sblock("B"))[0]).kind == ForKind.VECTORIZED
    taken_apart = [buffer.name for _, buffer in find_taken_apart(sch, sch.get_sblock("B"))]
    assert taken_apart == ["A"]


def test_many_iterations_of_loops_without_any_inside_are_not_all_tried():
    @I.ir_module
    class Deep:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            S = T.sblock_alloc_buffer((8,))
            for i in range(8):
                for k in range(HUGE):
                    for m in range(T.max(0, k - HUGE + 2)):
                        with T.sblock("S"):
                            vi = T.axis.spatial(8, i)
                            T.where(m < 1)
                            S[vi] = A[vi]
            for i in range(8):
                with T.sblock("B"):
                    vi = T.axis.spatial(8, i)
                    B[vi] = S[vi]

    assert find_lost_reads(Deep) == {}  # too many to look for any


def test_a_region_of_many_elements_is_not_looked_at_one_by_one():
    @I.ir_module
    class Gather:
        @T.prim_func(s_tir=True)
        def main(J: T.Buffer((16,), "int32"), B: T.Buffer((16,), "float32")):
            S = T.sblock_alloc_buffer((HUGE,))
            with T.sblock("S"):
                T.reads()
                T.writes(S[1:HUGE])
                for j in range(HUGE - 1):
                    S[j + 1] = T.float32(1)
            for t in range(16):
                with T.sblock("B"):
                    vt = T.axis.spatial(16, t)
                    T.reads(J[vt], S[0:HUGE])
                    T.writes(B[vt])
                    B[vt] = S[J[vt]]

    assert find_lost_reads(Gather) == {}


def test_threads_that_no_gpu_takes_are_not_asked_for_races():
    @I.ir_module
    class Threads:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((HUGE,), "float32"), B: T.Buffer((HUGE,), "float32")):
            S = T.sblock_alloc_buffer((1024,), scope="shared")
            for t in T.thread_binding(HUGE, thread="threadIdx.x"):
                with T.sblock("S"):
                    vt = T.axis.spatial(HUGE, t)
                    S[vt // 2 % 1024] = A[vt]
                with T.sblock("B"):
                    vt = T.axis.spatial(HUGE, t)
                    B[vt] = S[1023 - vt % 1024]

    assert find_missing_barriers(Threads) == []
