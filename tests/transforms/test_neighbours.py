"""Whether the elements of a vector lie side by side."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels import parse_kernel
from pairs import compile_for_cuda, refuses
from tvm.s_tir import Schedule
from tvm.script import from_source
from tvm.tirx import ForKind

from tirstep.lowering_checks import check_numbers, get_device
from tirstep.modules import get_kernel
from tirstep.transforms import vectorize_loop
from tirstep.transforms.legality.vectors import find_scattered, find_taken_apart
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.tir import Place, get_places


def make_rows(
    length: int,
    *,
    shift: int = 0,
    steps: int = 3,
    threads: int = 12,
    lanes: int = 2,
    pitch: int = 0,
) -> Schedule:
    """A copy of elements that steps, threads and lanes number, out of rows of some length.

    `pitch`, if given, is from row to row.
    """
    count = steps * threads * lanes
    rows = (count + shift) // length + 1
    module = parse_kernel(f"""
        A ({rows}, {pitch or length}) float8_e4m3fn, B ({count},) float8_e4m3fn
        for t in T.thread_binding({threads}, thread="threadIdx.x"):
            for s in range({steps}):
                for e in range({lanes}):
                    with T.sblock("B"):
                        v = T.axis.spatial({count}, s * {threads * lanes} + t * {lanes} + e)
                        B[v] = A[(v + {shift}) // {length}, (v + {shift}) % {length}]
    """)
    return Schedule(module, debug_mask="all")


def find_place(sch: Schedule, name: str) -> Place:
    return next(place for place in get_places(sch.mod["main"].body) if place.name == name)


# 18 divides none of the steps' distances, 24 and 16: TVM by itself does not see that 2 and 4 do.
@pytest.mark.parametrize(("length", "shift", "threads"), [(18, 0, 12), (18, 4, 8), (16, 2, 64)])
def test_vectors_within_rows_are_neighbours_however_many_steps_number_them(length, shift, threads):
    sch = make_rows(length, shift=shift, threads=threads)
    vectorize_loop(sch, sch.get_loops(sch.get_sblock("B"))[-1])
    assert "__nv_fp8x2_e4m3*" in compile_for_cuda(sch.mod)


def test_vectors_begin_aligned_in_every_row():
    sch = make_rows(24, pitch=32, lanes=8)
    vectorize_loop(sch, sch.get_loops(sch.get_sblock("B"))[-1])
    assert "A_ptr[" not in compile_for_cuda(sch.mod)  # no element of its own
    sch = make_rows(24, pitch=33, lanes=8)
    loop = sch.get_loops(sch.get_sblock("B"))[-1]
    with refuses(sch, "makes vectors of 8 elements that do not begin at multiples of a vector in"):
        vectorize_loop(sch, loop)


def test_vectors_with_a_condition_for_each_lane_may_begin_anywhere():
    """TVM makes single elements of them."""
    text = make_rows(24, pitch=33, lanes=8).mod.script()
    guarded = 'T.if_then_else(v < 250, A[v // 24, v % 24], T.Cast("float8_e4m3fn", 0.0))'
    text = text.replace("= A[v // 24, v % 24]", f"= {guarded}")
    sch = Schedule(from_source(text), debug_mask="all")
    vectorize_loop(sch, sch.get_loops(sch.get_sblock("B"))[-1])
    assert "A_ptr[" in compile_for_cuda(sch.mod)


def test_indices_of_another_type_are_left_as_they_are():
    """The loop counts in int32, the index is divided in int64."""
    text = make_rows(18, steps=1).mod.script()
    assert "A[v // 18, v % 18]" in text
    wide = 'A[T.Cast("int64", v) // T.int64(18), T.Cast("int64", v) % T.int64(18)]'
    sch = Schedule(from_source(text.replace("A[v // 18, v % 18]", wide)), debug_mask="all")
    vectorize_loop(sch, sch.get_loops(sch.get_sblock("B"))[-1])
    assert "__nv_fp8x2_e4m3*" in compile_for_cuda(sch.mod)


@pytest.mark.parametrize(("length", "shift"), [(18, 1), (10, 2)])
def test_vectors_over_the_end_of_a_row_are_no_neighbours(length, shift):
    lanes = 2 if shift == 1 else 4
    sch = make_rows(length, shift=shift, lanes=lanes)
    loop = sch.get_loops(sch.get_sblock("B"))[-1]
    with refuses(sch, rf"makes vectors of {lanes} elements that are no neighbours in 'A'"):
        vectorize_loop(sch, loop)


def make_strided(stride: int, *, lanes: int = 4, dtype: str = "float8_e4m3fn") -> Schedule:
    """Vectors whose elements lie so many elements from each other in A."""
    last = abs(stride) * (lanes - 1)
    first = last if stride < 0 else 0
    module = parse_kernel(f"""
        A (8, {last + 1}) {dtype}, B (8, {lanes}) {dtype}
        for t in T.thread_binding(8, thread="threadIdx.x"):
            for e in range({lanes}):
                with T.sblock("B"):
                    vt, ve = T.axis.remap("SS", [t, e])
                    B[vt, ve] = A[vt, {first} + ve * {stride}]
    """)
    return Schedule(module, debug_mask="all")


@pytest.mark.parametrize("lanes", [2, 4])
@pytest.mark.parametrize("stride", [-4, -2, -1, 0, 2, 3, 4])
def test_only_a_stride_of_one_makes_neighbours(stride, lanes):
    sch = make_strided(stride, lanes=lanes)
    block = sch.get_sblock("B")
    loop = sch.get_loops(block)[-1]
    if stride:
        with refuses(sch, rf"makes vectors of {lanes} elements that are no neighbours in 'A'"):
            vectorize_loop(sch, loop)
    sch.vectorize(loop)
    assert [buffer.name for _, buffer in find_scattered(find_place(sch, "B"))] == ["A"]
    apart = [(how, buffer.name) for how, buffer in find_taken_apart(sch, block)]
    assert ("are no neighbours", "A") in apart or stride == 0  # one element that is repeated


@pytest.mark.parametrize("lanes", [2, 4])
def test_a_stride_of_one_makes_neighbours(lanes):
    sch = make_strided(1, lanes=lanes)
    sch.vectorize(sch.get_loops(sch.get_sblock("B"))[-1])
    assert [*find_scattered(find_place(sch, "B"))] == []


@pytest.mark.parametrize(
    "index",
    ["ve // 4", "ve % 1", "3 - ve", "ve // 2 * 2", "T.if_then_else(ve < 2, ve, 3)", "T.max(ve, 1)"],
)
def test_indices_that_stand_still_or_go_back_make_no_neighbours(index):
    """They depend on the lane, so they are not taken for one element that is repeated."""
    text = make_strided(1).mod.script()
    assert "A[vt, ve]" in text
    text = text.replace("B[vt, ve] = A[vt, ve]", f"B[vt, ve] = A[vt, {index}]")
    sch = Schedule(from_source(text), debug_mask="all")
    sch.vectorize(sch.get_loops(sch.get_sblock("B"))[-1])
    assert [buffer.name for _, buffer in find_scattered(find_place(sch, "B"))] == ["A"]


@given(
    length=st.integers(1, 40),
    shift=st.integers(0, 8),
    steps=st.integers(1, 3),
    threads=st.integers(1, 12),
    lanes=st.sampled_from([2, 4]),
)
def test_neighbours_are_held_against_counting(length, shift, steps, threads, lanes):
    """What is called neighbours is; where vectors divide the rows they are all found."""
    sch = make_rows(length, shift=shift, steps=steps, threads=threads, lanes=lanes)
    sch.vectorize(sch.get_loops(sch.get_sblock("B"))[-1])
    scattered = [buffer.name for _, buffer in find_scattered(find_place(sch, "B"))]
    if not scattered:
        firsts = range(shift, shift + steps * threads * lanes, lanes)
        assert all(first % length + lanes <= length for first in firsts)
    if length % lanes == 0 and shift % lanes == 0:
        assert scattered == []


# Rows among steps that do not divide them, and rows that are shorter than a vector.
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize(
    ("name", "shape", "sizes", "copy", "lanes"),
    [
        (
            "depthwise_conv2d_planes",
            (1, 1, 10, 10, 3),
            {"threads": (2, 8), "thread_tile": (8, 4)},
            "X_shared",
            2,
        ),
        ("transpose_vectors", (16, 48), {"threads": 64, "vector": 4}, "A_shared", 4),
        ("matmul_shared_blocking", (17, 2, 3), {"local_x": 2, "vector": 4}, "B_shared", 1),
        ("matmul_shared_blocking", (17, 36, 12), {"local_x": 2, "vector": 4}, "B_shared", 4),
    ],
)
def test_recipes_fetch_float8_with_guards(name, shape, sizes, copy, lanes, dtype):
    """In vectors where CUDA has them."""
    recipe = RECIPES[name]
    problem = get_kernel(recipe.kernel).problem(*shape, dtype=dtype)
    module = recipe.steps(problem.module, **sizes, tail="guard")[-1].module
    assert check_numbers(problem, module, get_device("simulator"), where=name) == []
    compile_for_cuda(module)
    sch = Schedule(module)
    innermost = sch.get(sch.get_loops(sch.get_sblock(copy))[-1])
    assert (innermost.extent if innermost.kind == ForKind.VECTORIZED else 1) == lanes
