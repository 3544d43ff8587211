"""The net behind all transforms: no block is lost, what is read is written, every loop runs."""

import pytest
from kernels import parse_kernel
from tvm.s_tir import Schedule

from tirstep.lowering_checks.legality.guard import find_fault
from tirstep.transforms.schedule import Change

Chain = parse_kernel("""
    A (8,), C (8,)
    P = T.sblock_alloc_buffer((8,))
    for i in range(8):
        with T.sblock("P", "S", i):
            P[vi] = A[vi] + T.float32(1)
    for i in range(8):
        with T.sblock("C", "S", i):
            C[vi] = P[vi] * T.float32(2)
""")


def make_chain(*, extent=8, size=8, writer=True, output=True, names=("P", "C")):
    """`Chain` with something broken; the loops' extent alone is, without a change of the blocks."""
    first, second = names
    return parse_kernel(f"""
        A (8,), C (8,)
        P = T.sblock_alloc_buffer(({size},))
        Q = T.sblock_alloc_buffer((8,))
        for i in range({extent}):
            with T.sblock("{first}"):
                vi = T.axis.spatial(8, i)
                {"P" if writer else "Q"}[vi] = A[vi] + T.float32(1)
        for i in range(8):
            with T.sblock("{second}", "S", i):
                {"C" if output else "Q"}[vi] = P[vi] * T.float32(2)
    """)


@pytest.mark.parametrize(
    ("after", "problem"),
    [
        (make_chain(names=("P", "D")), "block 'C' would be gone"),
        (make_chain(output=False), "the tensor 'C' would not be written any more"),
        (make_chain(writer=False), "block 'C' would read 'P', which no block writes"),
        (make_chain(extent=0), "loop 'i' would run 0 times"),
        (make_chain(extent=-5), "loop 'i' would run -5 times"),
    ],
)
def test_what_is_broken_is_named_where_it_was_whole_before(after, problem):
    fault = find_fault(Change("lose", Chain, after, ()))
    assert fault.problem == problem
    assert fault.advice
    assert find_fault(Change("lose", after, after, ())) is None
    assert find_fault(Change("lose", after, Schedule(after).copy().mod, ())) is None


@pytest.mark.parametrize(("runs", "is_short"), [(2**16, False), (1480589312, True)])
def test_loops_that_wrap_around_to_something_positive(runs, is_short):
    """2**16 rows of 2**16: whoever fuses them to 2**32 gets 0, and others any number."""

    def make(outer, inner):
        Points = parse_kernel(f"""
            A (1,) int8, C (1,) int8
            for i in range({outer}):
                for j in range({inner}):
                    with T.sblock("C"):
                        vi = T.axis.spatial(65536, i)
                        vj = T.axis.spatial(65536, j)
                        T.reads(A[0])
                        T.writes(C[0])
                        C[0] = A[0] + T.Cast("int8", vi + vj)
        """)

        return Points

    after = make(runs, 1) if is_short else make(2**15, 2**17)
    fault = find_fault(Change("lose", make(2**16, 2**16), after, ()))
    if is_short:
        assert fault.problem == "block 'C' of 4294967296 points would run 1480589312 times"
    else:
        assert fault is None


def test_buffers_that_indices_of_32_bits_do_not_reach():
    fault = find_fault(Change("lose", Chain, make_chain(size=2**31 - 1), ()))
    assert fault is None

    Large = parse_kernel("""
        A (8,), C (8,)
        P = T.sblock_alloc_buffer((2**16, 2**16))
        for i in range(8):
            with T.sblock("P", "S", i):
                P[vi, 0] = A[vi] + T.float32(1)
        for i in range(8):
            with T.sblock("C", "S", i):
                C[vi] = P[vi, 0] * T.float32(2)
    """)

    fault = find_fault(Change("lose", Chain, Large, ()))
    assert "'P' would have 4294967296 elements, and indices of 32 bits end at" in fault.problem
