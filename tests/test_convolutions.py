"""Convolutions of Relax, and other sums of products over several loops, by the rules of dlight."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import tvm
from kernels import parse_functions
from relax_functions import find_difference, make_functions
from tvm.relax import op
from tvm.s_tir import SBlock, Schedule
from tvm.tirx import PrimFunc

from tirstep import rules
from tirstep.transforms import TransformError
from tirstep.transforms.plans import (
    GemmConfig,
    WindowsConfig,
    match_convolution,
    schedule_convolution,
    schedule_function,
    schedule_windows,
)
from tirstep.transforms.plans.plan import narrow_indices
from tirstep.transforms.plans.roles import list_sblocks
from tirstep.transforms.queries import is_reduction
from tirstep.transforms.tir import find_all

GPU = tvm.target.Target("nvidia/nvidia-h100")
HALF = "float16"


def convolve(data: str, filters: str, **options: Any) -> Callable[..., Any]:
    def build(x: Any, weight: Any) -> Any:
        return op.nn.conv2d(x, weight, data_layout=data, kernel_layout=filters, **options)

    return build


def convolve_and_finish(x: Any, weight: Any, bias: Any) -> Any:
    convolved = op.nn.conv2d(x, weight, padding=1)
    return op.nn.silu(op.add(convolved, bias))


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "channels first": (convolve("NCHW", "OIHW", padding=1), ((2, 16, 8, 8), (64, 16, 3, 3))),
    "channels last": (convolve("NHWC", "HWIO", padding=1), ((2, 8, 8, 16), (3, 3, 16, 64))),
    "last, filters by output": (convolve("NHWC", "OHWI"), ((2, 6, 9, 8), (70, 3, 2, 8))),
    "stride and dilation": (
        convolve("NCHW", "OIHW", strides=2, padding=2, dilation=2),
        ((1, 5, 11, 9), (70, 5, 3, 2)),
    ),
    "one pixel each": (convolve("NCHW", "OIHW"), ((2, 24, 7, 5), (66, 24, 1, 1))),
    "patches": (convolve("NCHW", "OIHW", strides=4), ((1, 3, 12, 8), (72, 3, 4, 4))),
    "a bias and a function": (
        convolve_and_finish,
        ((2, 8, 4, 5), (66, 8, 3, 3), (1, 66, 1, 1)),
    ),
    "one dimension": (
        lambda x, weight: op.nn.conv1d(x, weight, padding=2),
        ((1, 12, 20), (68, 12, 5)),
    ),
    "transposed": (
        lambda x, weight: op.nn.conv2d_transpose(x, weight, strides=2),
        ((1, 6, 5, 4), (6, 65, 3, 3)),
    ),
}


def schedule(function: PrimFunc, *, tensor_cores: bool) -> tuple[str, Any]:
    for rule in rules.cuda(tensor_cores=tensor_cores):
        made = rule.apply(function, GPU, False)
        if made is not None:
            return rule.name, made.mod
    raise AssertionError("no rule takes it")


@pytest.mark.share(9)
@pytest.mark.parametrize("name", CASES)
def test_a_convolution_is_a_product_on_tensor_cores(name: str) -> None:
    build, shapes = CASES[name]
    (function,) = make_functions(build, *((*shape, HALF) for shape in shapes)).values()
    rule, module = schedule(function, tensor_cores=True)
    assert rule == "convolution"
    assert "wgmma" in module.script()
    assert find_difference(module, function) == ""


WINDOWED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "squares of pixels": (convolve("NCHW", "OIHW", padding=1), ((2, 32, 16, 32), (32, 32, 3, 3))),
    "a bias and a residual": (
        lambda x, weight, bias, rest: op.add(convolve_and_finish(x, weight, bias), rest),
        ((1, 64, 8, 32), (96, 64, 3, 3), (1, 96, 1, 1), (1, 96, 8, 32)),
    ),
    "a residual first": (
        lambda x, weight, rest: op.add(rest, op.nn.conv2d(x, weight, padding=(0, 1, 2, 3))),
        ((2, 32, 8, 32), (64, 32, 3, 3), (2, 64, 8, 34)),
    ),
    "sums as they are": (
        convolve("NCHW", "OIHW", padding=1, out_dtype="float32"),
        ((1, 32, 8, 32), (64, 32, 3, 3)),
    ),
    "odd rows": (convolve("NCHW", "OIHW", strides=2), ((1, 24, 14, 9), (40, 24, 3, 3))),
    "channels last": (
        convolve("NHWC", "HWIO", padding=2, dilation=2),
        ((2, 9, 11, 24), (3, 3, 24, 48)),
    ),
    "filters last": (convolve("NHWC", "OHWI", padding=1), ((2, 9, 11, 24), (48, 3, 3, 24))),
}


@pytest.mark.parametrize("name", WINDOWED)
def test_the_tma_copies_windows_of_any_layout(name: str) -> None:
    """No matrix of windows is written: copies are as large as operands and results."""
    build, shapes = WINDOWED[name]
    (function,) = make_functions(build, *((*shape, HALF) for shape in shapes)).values()
    narrow = narrow_indices(function)
    sch = Schedule(narrow)
    plan, config = schedule_function(sch, tensor_cores=True)
    assert (plan, type(config)) == ("convolution", WindowsConfig)
    assert find_difference(sch.mod, narrow) == ""
    largest = max(math.prod(map(int, it.shape)) for it in narrow.params)
    made = [it for block in find_all(sch.mod["main"].body, SBlock) for it in block.alloc_buffers]
    assert all(math.prod(map(int, it.shape)) <= largest for it in made if it.scope() == "global")


def test_what_is_no_convolution_of_images_is_left_to_the_matrix_of_windows() -> None:
    (function,) = make_functions(CASES["one dimension"][0], *CASES["one dimension"][1]).values()
    sch = Schedule(narrow_indices(function))
    (block,) = match_convolution(sch).blocks
    with pytest.raises(TransformError, match="has 2 iterators of pixels, 1 of filters and 1 of 2"):
        schedule_windows(sch, block, config=WindowsConfig(device="NVIDIA H200"))


@pytest.mark.parametrize("name", ["channels first", "last, filters by output"])
def test_without_tensor_cores_it_is_a_product_on_threads(name: str) -> None:
    build, shapes = CASES[name]
    (function,) = make_functions(build, *shapes).values()
    rule, module = schedule(function, tensor_cores=False)
    assert rule == "convolution"
    assert "ptx.wgmma" not in module.script()
    assert find_difference(module, function) == ""


FUNCTIONS = parse_functions("""
contract: A (6, 4, 10, 8) float16, B (8, 10, 9) float16, C (9, 4, 6)
    j:9 b:4 a:6 k:10 s:8  C[j, b, a] += T.Cast("float32", B[s, k, j]) * T.Cast(
        "float32", A[a, b, k, s])

add_three: A (6, 5, 4), B (5, 4, 7), C (6, 7)
    i:6 j:7 k:5 s:4  C[i, j] = T.float32(0) -> C[i, j] + A[i, k, s] + B[k, s, j]

square: A (6, 5, 4), C (6,)
    i:6 k:5 s:4  C[i] += A[i, k, s] * A[i, k, s]

leave_open: A (m, 5, 4), B (5, 4, 7), C (m, 7)
    i:m j:7 k:5 s:4  C[i, j] += A[i, k, s] * B[k, s, j]

begin_at_one: A (6, 5, 4), B (5, 4, 7), C (6, 7)
    i:6 j:7 k:5 s:4  C[i, j] = T.float32(1) -> C[i, j] + A[i, k, s] * B[k, s, j]

multiply_its_sums: B (5, 4, 7), C (7,)
    for j, k, s in T.grid(7, 5, 4):
        with T.sblock("C"):
            vj, vk, vs = T.axis.remap("SRR", [j, k, s])
            T.reads(C[vj], B[vk, vs, vj])
            T.writes(C[vj])
            C[vj] += C[vj] * B[vk, vs, vj]

write_the_diagonal: A (7, 5, 4), B (5, 4, 7), C (7, 7)
    for i, j, k, s in T.grid(7, 7, 5, 4):
        with T.sblock("C"):
            vi, vj, vk, vs = T.axis.remap("SSRR", [i, j, k, s])
            C[vi, vi] += A[vi, vk, vs] * B[vk, vs, vj]

need_much_room: A (2, 64, 2050, 2050) float16, B (64, 64, 3, 3) float16,
    C (2, 64, 2048, 2048) float16
    n:2 o:64 y:2048 x:2048 c:64 i:3 j:3  C[n, o, y, x] += A[n, c, y + i, x + j] * B[o, c, i, j]
""")


def test_so_is_any_contraction() -> None:
    for tensor_cores in (True, False):
        rule, module = schedule(FUNCTIONS["contract"], tensor_cores=tensor_cores)
        assert rule == "convolution"
        assert find_difference(module, FUNCTIONS["contract"]) == ""


def make_depthwise() -> PrimFunc:
    def build(x: Any, weight: Any) -> Any:
        return op.nn.conv2d(x, weight, groups=6)

    (function,) = make_functions(build, (1, 6, 8, 8), (6, 1, 3, 3)).values()
    return narrow_indices(function)


OTHERS = [
    (FUNCTIONS.get(name) or make_depthwise(), reason)
    for name, reason in {
        "begin_at_one": "does not add up products of two operands, from zero on",
        "multiply_its_sums": "of two operands, from zero on",
        "write_the_diagonal": "is not indexed by its spatial iterators where it writes",
        "need_much_room": "by 576, whose matrices need 64-bit indices",
        "depthwise": "is in the indices of both operands, or of neither",
        "add_three": "does not add up products of two operands, from zero",
        "square": "reads 1 tensors",
        "leave_open": "has open sizes",
    }.items()
]


@pytest.mark.parametrize(("function", "reason"), OTHERS, ids=[reason for _, reason in OTHERS])
def test_what_is_no_convolution_is_told_and_not_scheduled(function: PrimFunc, reason: str) -> None:
    sch = Schedule(function)
    before = sch.mod.script()
    found = match_convolution(sch)
    assert not found
    assert reason in str(found)
    block = next(it for it in list_sblocks(sch) if is_reduction(sch, it))
    with pytest.raises(TransformError, match="match_convolution finds") as caught:
        schedule_convolution(sch, block, config=GemmConfig(tail="pad"))
    assert reason in str(caught.value)
    assert sch.mod.script() == before


def test_a_config_that_does_not_fit_changes_nothing() -> None:
    sch = Schedule(FUNCTIONS["contract"])
    (block,) = match_convolution(sch).blocks
    before = sch.mod.script()
    with pytest.raises(TransformError):
        schedule_convolution(sch, block, config=GemmConfig(tile_k=3, tail="refuse"))
    assert sch.mod.script() == before
