"""Convolutions of Relax, and other sums of products over several loops, by the rules of dlight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tvm
from relax_functions import find_difference, make_functions
from tvm.relax import op
from tvm.s_tir import Schedule
from tvm.script import tirx as T
from tvm.tirx import PrimFunc

from tirstep import rules
from tirstep.transforms import TransformError
from tirstep.transforms.plans import GemmConfig, match_convolution, schedule_convolution
from tirstep.transforms.plans.narrowing import narrow_indices
from tirstep.transforms.plans.roles import list_sblocks
from tirstep.transforms.queries import is_reduction

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


@pytest.mark.parametrize("name", CASES)
def test_a_convolution_is_a_product_on_tensor_cores(name: str) -> None:
    build, shapes = CASES[name]
    (function,) = make_functions(build, *((*shape, HALF) for shape in shapes)).values()
    rule, module = schedule(function, tensor_cores=True)
    assert rule == "convolution"
    assert "wgmma" in module.script()
    assert find_difference(module, function) == ""


@pytest.mark.parametrize("name", ["channels first", "last, filters by output"])
def test_without_tensor_cores_it_is_a_product_on_threads(name: str) -> None:
    build, shapes = CASES[name]
    (function,) = make_functions(build, *shapes).values()
    rule, module = schedule(function, tensor_cores=False)
    assert rule == "convolution"
    assert "ptx.wgmma" not in module.script()
    assert find_difference(module, function) == ""


@T.prim_func(s_tir=True)
def contract(
    A: T.Buffer((6, 4, 10, 8), HALF),
    B: T.Buffer((8, 10, 9), HALF),
    C: T.Buffer((9, 4, 6), "float32"),
) -> None:
    for j, b, a, k, s in T.grid(9, 4, 6, 10, 8):
        with T.sblock("C"):
            vj, vb, va, vk, vs = T.axis.remap("SSSRR", [j, b, a, k, s])
            with T.init():
                C[vj, vb, va] = T.float32(0)
            C[vj, vb, va] = C[vj, vb, va] + T.Cast("float32", B[vs, vk, vj]) * T.Cast(
                "float32", A[va, vb, vk, vs]
            )


def test_so_is_any_contraction() -> None:
    for tensor_cores in (True, False):
        rule, module = schedule(contract, tensor_cores=tensor_cores)
        assert rule == "convolution"
        assert find_difference(module, contract) == ""


def make_depthwise() -> PrimFunc:
    def build(x: Any, weight: Any) -> Any:
        return op.nn.conv2d(x, weight, groups=6)

    (function,) = make_functions(build, (1, 6, 8, 8), (6, 1, 3, 3)).values()
    return narrow_indices(function)


@T.prim_func(s_tir=True)
def add_three(
    A: T.Buffer((6, 5, 4), "float32"),
    B: T.Buffer((5, 4, 7), "float32"),
    C: T.Buffer((6, 7), "float32"),
) -> None:
    for i, j, k, s in T.grid(6, 7, 5, 4):
        with T.sblock("C"):
            vi, vj, vk, vs = T.axis.remap("SSRR", [i, j, k, s])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk, vs] + B[vk, vs, vj]


@T.prim_func(s_tir=True)
def square(A: T.Buffer((6, 5, 4), "float32"), C: T.Buffer((6,), "float32")) -> None:
    for i, k, s in T.grid(6, 5, 4):
        with T.sblock("C"):
            vi, vk, vs = T.axis.remap("SRR", [i, k, s])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk, vs] * A[vi, vk, vs]


@T.prim_func(s_tir=True)
def leave_open(a: T.handle, B: T.Buffer((5, 4, 7), "float32"), c: T.handle) -> None:
    m = T.int32()
    A = T.match_buffer(a, (m, 5, 4))
    C = T.match_buffer(c, (m, 7))
    for i, j, k, s in T.grid(m, 7, 5, 4):
        with T.sblock("C"):
            vi, vj, vk, vs = T.axis.remap("SSRR", [i, j, k, s])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk, vs] * B[vk, vs, vj]


@T.prim_func(s_tir=True)
def begin_at_one(
    A: T.Buffer((6, 5, 4), "float32"),
    B: T.Buffer((5, 4, 7), "float32"),
    C: T.Buffer((6, 7), "float32"),
) -> None:
    for i, j, k, s in T.grid(6, 7, 5, 4):
        with T.sblock("C"):
            vi, vj, vk, vs = T.axis.remap("SSRR", [i, j, k, s])
            with T.init():
                C[vi, vj] = T.float32(1)
            C[vi, vj] = C[vi, vj] + A[vi, vk, vs] * B[vk, vs, vj]


@T.prim_func(s_tir=True)
def multiply_its_sums(B: T.Buffer((5, 4, 7), "float32"), C: T.Buffer((7,), "float32")) -> None:
    for j, k, s in T.grid(7, 5, 4):
        with T.sblock("C"):
            vj, vk, vs = T.axis.remap("SRR", [j, k, s])
            T.reads(C[vj], B[vk, vs, vj])
            T.writes(C[vj])
            with T.init():
                C[vj] = T.float32(0)
            C[vj] = C[vj] + C[vj] * B[vk, vs, vj]


@T.prim_func(s_tir=True)
def write_the_diagonal(
    A: T.Buffer((7, 5, 4), "float32"),
    B: T.Buffer((5, 4, 7), "float32"),
    C: T.Buffer((7, 7), "float32"),
) -> None:
    for i, j, k, s in T.grid(7, 7, 5, 4):
        with T.sblock("C"):
            vi, vj, vk, vs = T.axis.remap("SSRR", [i, j, k, s])
            with T.init():
                C[vi, vi] = T.float32(0)
            C[vi, vi] = C[vi, vi] + A[vi, vk, vs] * B[vk, vs, vj]


@T.prim_func(s_tir=True)
def need_much_room(
    A: T.Buffer((2, 64, 2050, 2050), HALF),
    B: T.Buffer((64, 64, 3, 3), HALF),
    C: T.Buffer((2, 64, 2048, 2048), HALF),
) -> None:
    for n, o, y, x, c, i, j in T.grid(2, 64, 2048, 2048, 64, 3, 3):
        with T.sblock("C"):
            vn, vo, vy, vx, vc, vi, vj = T.axis.remap("SSSSRRR", [n, o, y, x, c, i, j])
            with T.init():
                C[vn, vo, vy, vx] = T.float16(0)
            C[vn, vo, vy, vx] = C[vn, vo, vy, vx] + A[vn, vc, vy + vi, vx + vj] * B[vo, vc, vi, vj]


OTHERS = [
    (begin_at_one, "does not add up products of two operands, from zero on"),
    (multiply_its_sums, "of two operands, from zero on"),
    (write_the_diagonal, "writes at other indices than its spatial iterators"),
    (need_much_room, "by 576, whose matrices 32 bits do not number"),
    (make_depthwise(), "is in the indices of both operands, or of none"),
    (add_three, "does not add up products of two operands, from zero"),
    (square, "reads 1 tensors"),
    (leave_open, "has open sizes"),
]


@pytest.mark.parametrize(("function", "reason"), OTHERS, ids=[reason for _, reason in OTHERS])
def test_what_is_no_convolution_is_told(function: PrimFunc, reason: str) -> None:
    sch = Schedule(function)
    before = sch.mod.script()
    found = match_convolution(sch)
    assert not found
    assert reason in str(found)
    assert sch.mod.script() == before


@pytest.mark.parametrize(("function", "reason"), OTHERS, ids=[reason for _, reason in OTHERS])
def test_what_is_no_convolution_is_not_scheduled_as_one(function: PrimFunc, reason: str) -> None:
    sch = Schedule(function)
    block = next(it for it in list_sblocks(sch) if is_reduction(sch, it))
    before = sch.mod.script()
    with pytest.raises(TransformError, match="match_convolution finds") as caught:
        schedule_convolution(sch, block, config=GemmConfig(tail="pad"))
    assert reason in str(caught.value)
    assert sch.mod.script() == before


def test_a_config_that_does_not_fit_changes_nothing() -> None:
    sch = Schedule(contract)
    (block,) = match_convolution(sch).blocks
    before = sch.mod.script()
    with pytest.raises(TransformError):
        schedule_convolution(sch, block, config=GemmConfig(tile_k=3, tail="refuse"))
    assert sch.mod.script() == before
