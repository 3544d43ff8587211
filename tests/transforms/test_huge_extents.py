"""Rules that try iterations one by one try some of many, and end at once near 2**31 of them.

Without a limit each of these would take minutes or all memory, so that a limit of a few seconds
is set around each.
"""

import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest
import tvm
from kernels import parse_kernel
from pairs import refuses
from tvm.s_tir import Schedule

from tirstep import transforms as tr
from tirstep.lowering_checks.legality.lowered_memory import find_missing_barriers
from tirstep.lowering_checks.legality.pipelines import find_broken_pipelines
from tirstep.lowering_checks.legality.reads import find_lost_reads
from tirstep.modules import transpose

HUGE = 2**31 - 8
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


def make_pipeline(extent: int, used: str, **options: Any) -> tvm.IRModule:
    """A copy and its use, asynchronously, the use where a guard lets it be."""
    unrolled, kind = options.get("unrolled", 1), options.get("kind", "serial")
    notes = {
        "software_pipeline_stage": [0, options.get("ahead", 1)],
        "software_pipeline_order": [0, 1],
        "software_pipeline_async_stages": [0],
    }
    return parse_kernel(f"""
        A ({HUGE},), B (16,)
        S = T.sblock_alloc_buffer((1,), scope="shared")
        for u in T.unroll({unrolled}):
            for t in T.thread_binding(16, thread="threadIdx.x"):
                for k in T.{kind}({extent}, annotations={notes}):
                    for _ in range(1):
                        with T.sblock("S"):
                            vk = T.axis.spatial({HUGE}, k)
                            T.where(k + u >= 0)
                            S[0] = A[vk]
                    for _ in range(1):
                        with T.sblock("B", "S", t):
                            T.where({used})
                            B[vt] = B[vt] + S[0]
    """)


def name_faults(module: tvm.IRModule) -> str:
    return "; ".join(fault.problem for fault in find_broken_pipelines(module))


def test_a_pipeline_without_guards_may_be_as_long_as_it_likes():
    assert name_faults(make_pipeline(HUGE, "k + u >= 0")) == ""


def test_copies_of_a_long_piece_that_nothing_uses_are_refused_together():
    module = make_pipeline(HUGE, used=f"k + u >= {HUGE - 1}")
    assert "would copy in iterations 0 to" in name_faults(module)


@pytest.mark.parametrize(
    "options",
    [
        {"unrolled": HUGE // 2 - 100, "extent": HUGE // 2},
        {"kind": "unroll", "extent": HUGE},
        {"ahead": 2**30, "extent": HUGE},
    ],
    ids=["unrolled around it", "unrolled itself", "stages ahead"],
)
def test_too_many_iterations_written_out_with_guards_are_refused(options: dict[str, Any]):
    module = make_pipeline(**options, used="k + u >= 1")
    assert "TVM would write out" in name_faults(module)


def test_many_iterations_of_loops_without_any_inside_are_not_all_tried():
    Deep = parse_kernel(f"""
        A (8,), B (8,)
        S = T.sblock_alloc_buffer((8,))
        for i in range(8):
            for k in range({HUGE}):
                for m in range(T.max(0, k - {HUGE - 2})):
                    with T.sblock("S", "S", i):
                        T.where(m < 1)
                        S[vi] = A[vi]
        for i in range(8):
            with T.sblock("B", "S", i):
                B[vi] = S[vi]
    """)
    assert find_lost_reads(Deep) == {}  # too many to look for any


def test_threads_that_no_gpu_takes_are_not_asked_for_races():
    Threads = parse_kernel(f"""
        A ({HUGE},), B ({HUGE},)
        S = T.sblock_alloc_buffer((1024,), scope="shared")
        for t in T.thread_binding({HUGE}, thread="threadIdx.x"):
            with T.sblock("S", "S", t):
                S[vt // 2 % 1024] = A[vt]
            with T.sblock("B", "S", t):
                B[vt] = S[1023 - vt % 1024]
    """)
    assert find_missing_barriers(Threads) == []


def test_a_store_of_a_huge_tile_is_refused_at_once() -> None:
    sch = Schedule(transpose.problem(46340, 46340).module)
    block = sch.get_sblock("B")
    with refuses(sch, "copies more elements than shared memory has room for"):
        tr.store_by_tma(sch, block)
