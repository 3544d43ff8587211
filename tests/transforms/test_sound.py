"""Modules that are alike are asked about once; whatever a net goes by makes them others."""

import pytest
from kernels import parse_kernel
from tvm.s_tir import Schedule

from tirstep.transforms.legality import wrong_lowering
from tirstep.transforms.legality.net import find_fault
from tirstep.transforms.legality.sound import forget, recall


def make_copy(*, limit=8, scope="local", axis="threadIdx.x", note=0, factor=1):
    """A buffer that is written and read again, with one thing or another of its own."""
    kernel = parse_kernel(f"""
        A (8,), C (8,)
        P = T.sblock_alloc_buffer((8,), scope={scope!r})
        for i in range(8):
            with T.sblock("P"):
                vi = T.axis.spatial(8, i)
                T.where(i < {limit})
                P[vi] = A[vi] + T.float32({factor})
        for i in range(8):
            with T.sblock("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = P[vi] * T.float32(2)
    """)

    sch = Schedule(kernel)
    sch.bind(sch.get_loops(sch.get_sblock("C"))[0], axis)
    sch.annotate(sch.get_sblock("C"), "note", note)
    return sch.mod


def make_other_names():
    """`make_copy` with a buffer of another name."""
    return parse_kernel("""
        A (8,), C (8,)
        Q = T.sblock_alloc_buffer((8,), scope="local")
        for i in range(8):
            with T.sblock("P"):
                vi = T.axis.spatial(8, i)
                T.where(i < 8)
                Q[vi] = A[vi] + T.float32(1)
        for i in T.thread_binding(8, thread="threadIdx.x"):
            with T.sblock("C"):
                vi = T.axis.spatial(8, i)
                T.sblock_attr({"note": 0})
                C[vi] = Q[vi] * T.float32(2)
    """)


def test_modules_that_are_alike_are_known_by_one():
    assert recall(make_copy()) is recall(make_copy())


@pytest.mark.parametrize(
    "other",
    [
        make_copy(limit=7),
        make_copy(scope="shared"),
        make_copy(axis="threadIdx.y"),
        make_copy(note=1),
        make_copy(factor=2),
        make_other_names(),
    ],
)
def test_what_a_net_goes_by_makes_them_others(other):
    assert recall(other) is not recall(make_copy())


def test_nothing_is_found_twice_in_modules_that_are_alike(monkeypatch):
    """Lost reads that were not asked for, as loops alone lose none, are asked for when they are."""
    asked = []
    net, *others = wrong_lowering._READS
    asking = net._replace(find=lambda module: asked.append(module) or net.find(module))
    monkeypatch.setattr(wrong_lowering, "_READS", (asking, *others))
    forget()
    before = make_copy(limit=7)
    for steps, count in ((["Split"], 0), (["CacheRead"], 1), (["CacheRead"], 1), (["Split"], 1)):
        assert find_fault(make_copy, before, make_copy(), steps) is None
        assert len(asked) == count


def test_what_is_found_is_found_each_time():
    """Of the limit, which lets the last element unwritten."""
    for _ in range(2):
        fault = find_fault(make_copy, make_copy(), make_copy(limit=7), ["ComputeAt"])
        assert fault is not None
        assert "would read P[7], which block 'P' has not written" in fault.problem
