"""The guard: asked of each change, once of several, not at all, and where there is none."""

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from kernels import parse_kernel
from tvm.s_tir import Schedule

from tirstep.transforms import TransformError, bind_loop, one_change, split_loop, unguarded
from tirstep.transforms.schedule import transform

Chain = parse_kernel("""
    A (64,), C (64,)
    P = T.sblock_alloc_buffer((64,), scope="local")
    for i in range(64):
        with T.sblock("P"):
            vi = T.axis.spatial(64, i)
            P[vi] = A[vi] + T.float32(1)
    for i in range(64):
        with T.sblock("C"):
            vi = T.axis.spatial(64, i)
            C[vi] = P[vi] * T.float32(2)
""")
LEAK = r"the threads of 'threadIdx.x' write the register buffer 'P' in block 'P', and block 'C'"


def start() -> tuple:
    sch = Schedule(Chain)
    return sch, *(sch.get_loops(sch.get_sblock(name))[0] for name in "PC")


def change(sch: Schedule, *calls: Callable[[], object], name: str = "one_change") -> None:
    with one_change(sch, name=name):
        for call in calls:
            call()


def test_several_transforms_are_one_change_where_the_last_one_makes_it_whole():
    sch, write, read = start()
    with pytest.raises(TransformError, match=f"^bind_loop: {LEAK}"):
        bind_loop(sch, write, axis="threadIdx.x")
    assert sch.mod.same_as(Chain)
    with one_change(sch):
        bind_loop(sch, write, axis="threadIdx.x")
        sch.compute_at(sch.get_sblock("P"), read)


def test_of_several_the_first_one_that_shows_it_is_named_and_nothing_has_changed():
    sch, write, read = start()
    with pytest.raises(TransformError, match=f"^bind_loop: {LEAK}") as refused:
        change(
            sch,
            lambda: split_loop(sch, read, inner=8),
            lambda: bind_loop(sch, write, axis="threadIdx.x"),
            lambda: split_loop(sch, sch.get_loops(sch.get_sblock("C"))[0], inner=2),
        )
    assert refused.value.place == 1
    assert sch.mod.same_as(Chain)
    assert sch.get(read) is not None


def test_what_is_done_between_transforms_has_the_name_of_the_change():
    sch, write, _ = start()
    with pytest.raises(TransformError, match=f"^by hand: {LEAK}"):
        change(
            sch,
            lambda: split_loop(sch, write, inner=8),
            lambda: sch.bind(sch.get_loops(sch.get_sblock("P"))[1], "threadIdx.x"),
            name="by hand",
        )
    assert sch.mod.same_as(Chain)


def test_what_an_earlier_part_broke_is_the_refusal_of_an_error_behind_it():
    sch, write, read = start()

    def bind() -> None:
        bind_loop(sch, write, axis="threadIdx.x")

    def split() -> None:
        split_loop(sch, read, inner=3)

    with pytest.raises(TransformError, match=LEAK):
        change(sch, lambda: change(sch, bind), split)
    with pytest.raises(TransformError, match="inner=3 does not divide"):
        change(sch, bind, split)
    assert sch.mod.same_as(Chain)


def test_a_refusal_within_that_is_caught_is_none():
    sch, write, read = start()
    with one_change(sch):
        with pytest.raises(TransformError, match="inner=3 does not divide"):
            split_loop(sch, write, inner=3)
        split_loop(sch, read, inner=8)
    assert len(sch.get_loops(sch.get_sblock("C"))) == 2


def test_an_interrupt_leaves_the_schedule_as_it_was():
    @transform
    def stop(sch: Schedule) -> None:
        sch.bind(sch.get_loops(sch.get_sblock("P"))[0], "threadIdx.x")
        raise KeyboardInterrupt

    sch, *_ = start()
    with pytest.raises(KeyboardInterrupt):
        stop(sch)
    assert sch.mod.same_as(Chain)


def test_unguarded_transforms_refuse_what_is_local_to_them():
    sch, write, _ = start()
    with unguarded():
        with pytest.raises(TransformError, match="inner=3 does not divide"):
            split_loop(sch, write, inner=3)
        bind_loop(sch, write, axis="threadIdx.x")
    assert not sch.mod.same_as(Chain)


def test_other_schedules_and_threads_are_asked_of_their_own():
    sch, *_ = start()
    found: list[str] = []

    def bind(other: Schedule) -> None:
        try:
            bind_loop(other, other.get_loops(other.get_sblock("P"))[0], axis="threadIdx.x")
        except TransformError as error:
            found.append(str(error))

    with one_change(sch):
        bind(Schedule(Chain))
        bind(sch.copy())
        worker = threading.Thread(target=bind, args=(Schedule(Chain),))
        worker.start()
        worker.join()
    assert len(found) == 3


WITHOUT_CHECKS = """
import sys
sys.modules["tirstep.lowering_checks"] = None
from tvm.s_tir import Schedule
from tirstep import transforms as t
from tirstep.modules import matmul, vector_add
sch = Schedule(matmul(64, 64, 32))
block = sch.get_sblock("C")
tile = t.tile_block(sch, block, threads=(8, 8))
k = t.split_reduction(sch, block, inner=8)
outer = sch.get_loops(block)[-2]
t.accumulate_in_registers(sch, block, tile.threads[-1])
copy = t.cache_read_at(sch, block, outer, operand=0, scope="shared")
t.fetch_cooperatively(sch, copy, threads=(8, 8))
t.decompose_reduction_at(sch, block, outer)
t.unroll_loop(sch, sch.get_loops(block)[-1])
one = Schedule(vector_add(64))
i = one.get_loops(one.get_sblock("C"))[0]
split = t.split_loop(one, i, inner=8)
t.fuse_loops(one, split)
sums = Schedule(matmul(64, 64, 32))
loop = sums.get_loops(sums.get_sblock("C"))[0]
t.bind_loop(sums, loop, axis="threadIdx.x")
try:
    t.split_loop(sums, loop, inner=7)
except t.TransformError as error:
    print(error)
print("tirstep.lowering_checks.legality.guard" in sys.modules)
"""


def test_transforms_do_without_the_checks_and_refuse_what_is_local():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_CHECKS], capture_output=True, text=True, check=True
    )
    refusal, is_there = done.stdout.splitlines()
    assert refusal.startswith("split_loop: loop 'i' ")
    assert is_there == "False"
