"""The net behind all transforms: no block is lost, what is read is written, every loop runs."""

import pytest
from kernels import parse_kernel
from pairs import refuses
from tvm.s_tir import Schedule
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.transforms import decompose_reduction_at, inline_producers, split_loop
from tirstep.transforms.decorators import composite, transform
from tirstep.transforms.legality.net import find_fault, inlines

Chain = parse_kernel("""
    A (8,), C (8,)
    P = T.sblock_alloc_buffer((8,))
    for i in range(8):
        with T.sblock("P"):
            vi = T.axis.spatial(8, i)
            P[vi] = A[vi] + T.float32(1)
    for i in range(8):
        with T.sblock("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = P[vi] * T.float32(2)
""")


def lose_producer(sch, block):
    for producer in sch.get_producers(block):
        sch.compute_inline(producer)


@pytest.mark.parametrize("decorate", [composite, transform])
def test_a_transform_that_loses_a_block_is_refused_and_changes_nothing(decorate):
    lose = decorate(lose_producer)
    sch = Schedule(Chain)
    block, loop = sch.get_sblock("C"), sch.get_loops(sch.get_sblock("P"))[0]
    with refuses(sch, "lose_producer: block 'P' would be gone; report it, with the steps that led"):
        lose(sch, block)
    split_loop(sch, loop, inner=4)  # the handles from before are alive
    assert [str(sch.get(producer).name_hint) for producer in sch.get_producers(block)] == ["P"]


def test_a_transform_that_declares_what_it_inlines_is_not_refused():
    @composite
    @inlines
    def inline_all(sch, block):
        lose_producer(sch, block)

    sch = Schedule(Chain)
    inline_all(sch, sch.get_sblock("C"))
    assert not sch.get_producers(sch.get_sblock("C"))
    other = Schedule(Chain)
    inline_producers(other, other.get_sblock("C"))
    assert find_fault(lose_producer, sch.mod, other.mod) is None


@pytest.mark.parametrize("decorate", [composite, transform])
def test_a_composite_inlines_what_one_within_it_declares(decorate):
    @decorate
    @inlines
    def inline_all(sch, block):
        lose_producer(sch, block)

    @composite
    def inline_within(sch, block):
        inline_all(sch, block)

    sch = Schedule(Chain)
    inline_within(sch, sch.get_sblock("C"))
    assert not sch.get_producers(sch.get_sblock("C"))


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
            with T.sblock("{second}"):
                vi = T.axis.spatial(8, i)
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
    fault = find_fault(lose_producer, Chain, after)
    assert fault is not None
    assert fault.problem == problem
    assert fault.advice
    assert find_fault(lose_producer, after, after) is None
    assert find_fault(lose_producer, after, Schedule(after).copy().mod) is None


def test_what_was_broken_before_is_no_fault_of_the_transform():
    broken = make_chain(extent=0)
    sch = Schedule(broken)
    block = sch.get_sblock("C")
    split_loop(sch, sch.get_loops(block)[0], inner=4)
    assert len(sch.get_loops(block)) == 2


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
    fault = find_fault(lose_producer, make(2**16, 2**16), after)
    if is_short:
        assert fault is not None
        assert fault.problem == "block 'C' of 4294967296 points would run 1480589312 times"
    else:
        assert fault is None


def test_buffers_that_indices_of_32_bits_do_not_reach():
    fault = find_fault(lose_producer, Chain, make_chain(size=2**31 - 1))
    assert fault is None

    Large = parse_kernel("""
        A (8,), C (8,)
        P = T.sblock_alloc_buffer((2**16, 2**16))
        for i in range(8):
            with T.sblock("P"):
                vi = T.axis.spatial(8, i)
                P[vi, 0] = A[vi] + T.float32(1)
        for i in range(8):
            with T.sblock("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = P[vi, 0] * T.float32(2)
    """)

    fault = find_fault(lose_producer, Chain, Large)
    assert fault is not None
    assert "'P' would have 4294967296 elements, and indices of 32 bits end at" in fault.problem


def test_blocks_that_tvm_renames_are_still_there():
    @I.ir_module
    class Twice:
        @T.prim_func(s_tir=True)
        def first(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
            for i, k in T.grid(4, 8):
                with T.sblock("B"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[vi, vk]

        @T.prim_func(s_tir=True)
        def second(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
            for i, k in T.grid(4, 8):
                with T.sblock("B"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[vi, vk]

    sch = Schedule(Twice)
    for name in ("second", "first"):
        sch.work_on(name)
        block = sch.get_sblock("B", name)
        decompose_reduction_at(sch, block, sch.get_loops(block)[1])
    assert find_fault(lose_producer, Twice, sch.mod) is None
    fault = find_fault(lose_producer, sch.mod, Twice)
    assert fault is not None
    assert fault.problem in {f"block '{name}.B_init' would be gone" for name in ("first", "second")}


def test_parts_of_buffers_under_other_names_count_as_written():
    Matched = parse_kernel("""
        A (8,), C (8,)
        for i in range(2):
            with T.sblock("outer"):
                vi = T.axis.spatial(2, i)
                part = T.match_buffer(A[vi * 4 : vi * 4 + 4], (4,), offset_factor=1)
                out = T.match_buffer(C[vi * 4 : vi * 4 + 4], (4,), offset_factor=1)
                for j in range(4):
                    with T.sblock("C"):
                        vj = T.axis.spatial(4, j)
                        out[vj] = part[vj] + T.float32(1)
    """)

    sch = Schedule(Matched)
    split_loop(sch, sch.get_loops(sch.get_sblock("C"))[0], inner=2)
    assert len(sch.get_loops(sch.get_sblock("C"))) == 2
