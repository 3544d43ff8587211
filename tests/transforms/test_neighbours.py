"""Whether the elements of a vector lie side by side."""

import pytest
from kernels import parse_kernel
from pairs import compile_for_cuda, refuses
from tvm.s_tir import Schedule
from tvm.tirx import ForKind

from tirstep.lowering_checks import check_numbers, get_device
from tirstep.modules import get_kernel
from tirstep.transforms import vectorize_loop
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.tir import Place, get_places
from tirstep.transforms.vectorize import find_scattered, find_taken_apart


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


def test_vectors_begin_aligned_in_every_row():
    sch = make_rows(24, pitch=32, lanes=8)
    vectorize_loop(sch, sch.get_loops(sch.get_sblock("B"))[-1])
    assert "A_ptr[" not in compile_for_cuda(sch.mod)  # no element of its own
    sch = make_rows(24, pitch=33, lanes=8)
    loop = sch.get_loops(sch.get_sblock("B"))[-1]
    with refuses(sch, "makes vectors of 8 elements that do not begin at multiples of the vector"):
        vectorize_loop(sch, loop)


def make_strided(stride: int, *, lanes: int = 4, dtype: str = "float8_e4m3fn") -> Schedule:
    """Vectors whose elements lie so many elements from each other in A."""
    last = abs(stride) * (lanes - 1)
    first = last if stride < 0 else 0
    module = parse_kernel(f"""
        A (8, {last + 1}) {dtype}, B (8, {lanes}) {dtype}
        for t in T.thread_binding(8, thread="threadIdx.x"):
            for e in range({lanes}):
                with T.sblock("B", "SS", t, e):
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
        with refuses(sch, rf"makes vectors of {lanes} elements that are not neighbours in 'A'"):
            vectorize_loop(sch, loop)
    sch.vectorize(loop)
    assert [buffer.name for _, buffer in find_scattered(find_place(sch, "B"))] == ["A"]
    apart = [(how, buffer.name) for how, buffer in find_taken_apart(find_place(sch, "B"))]
    assert ("are not neighbours", "A") in apart or stride == 0  # one element that is repeated


@pytest.mark.share(3)
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
