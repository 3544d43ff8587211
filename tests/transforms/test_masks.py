"""Loops that end where masks hide what is left: what becomes of them, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from pairs import check_pair, refuses
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.lowering_checks import check_numbers, get_device
from tirstep.modules import attention
from tirstep.transforms import bind_loop, end_loop_at_mask, get_pipeline, split_loop, unroll_loop
from tirstep.transforms.recipes import RECIPES


def make_masked_sum(term: object, first: int = 0) -> tvm.IRModule:
    """B(16) = sums over the rows of A(16, 24) of a term of (i, k, A[i, k])."""

    @I.ir_module
    class MaskedSum:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((16, 24), "float32"), B: T.Buffer((16,), "float32")):
            for i in range(16):
                for k in range(first, 24):
                    with T.sblock("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + term(vi, vk, A[vi, vk])

    return MaskedSum


@I.ir_module
class MaskedCopy:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((16, 24), "float32"), B: T.Buffer((16, 24), "float32")):
        for i, k in T.grid(16, 24):
            with T.sblock("B"):
                vi, vk = T.axis.remap("SS", [i, k])
                B[vi, vk] = T.if_then_else(vk <= vi, A[vi, vk], T.float32(0))


def see(i, k, value):
    return T.if_then_else(k <= i, value, T.float32(0))


Masked = make_masked_sum(see)


@I.ir_module
class Scaled:
    """The sums of what a mask lets through, times a parameter that nobody knows."""

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((16, 24), "float32"), n: T.int32, B: T.Buffer((16,), "float32")):
        for i, k in T.grid(16, 24):
            with T.sblock("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + T.if_then_else(vk <= vi, A[vi, vk], T.float32(0)) * T.Cast(
                    "float32", n
                )


def test_what_a_parameter_makes_of_hidden_elements_is_not_known() -> None:
    sch = Schedule(Scaled)
    loop = sch.get_loops(sch.get_sblock("B"))[1]
    with refuses(sch, "computes 'n', of which is not known whether it changes anything"):
        end_loop_at_mask(sch, loop)


@I.ir_module
class Marked:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((16, 24), "float32"), B: T.Buffer((16,), "float32")):
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"tir_pipeline": "tirstep"})
            for i_0 in T.thread_binding(4, thread="blockIdx.x"):
                for i_1 in T.thread_binding(4, thread="threadIdx.x"):
                    for k_0 in T.serial(6, annotations={"tirstep_ends_at_mask": 1}):
                        for k_1 in range(4):
                            with T.sblock("B"):
                                vi = T.axis.spatial(16, i_0 * 4 + i_1)
                                vk = T.axis.reduce(24, k_0 * 4 + k_1)
                                T.reads(A[vi, vk])
                                T.writes(B[vi])
                                with T.init():
                                    B[vi] = T.float32(0)
                                B[vi] = B[vi] + T.if_then_else(vk <= vi, A[vi, vk], T.float32(0))


def bind(sch: Schedule) -> LoopRV:
    """A row for each thread; the loop over tiles of its elements."""
    row, k = sch.get_loops(sch.get_sblock("B"))
    outer, inner = split_loop(sch, row, inner=4)
    bind_loop(sch, outer, axis="blockIdx.x")
    bind_loop(sch, inner, axis="threadIdx.x")
    return split_loop(sch, k, inner=4).outer


def get_source(module: tvm.IRModule) -> str:
    pipeline = get_pipeline(module)
    executable = tvm.compile(module, target="nvidia/nvidia-h100", tir_pipeline=pipeline)
    return executable.mod.imports[0].inspect_source()


def test_end_loop_at_mask_marks_a_loop() -> None:
    check_pair(Masked, lambda sch: end_loop_at_mask(sch, bind(sch)), Marked)


def test_a_block_ends_with_the_last_of_its_threads_and_reads_nothing_behind() -> None:
    assert "k_0 < (((int)blockIdx.x) + 1)" in get_source(Marked)
    values = np.random.default_rng(0).integers(-9, 9, (16, 24)).astype(np.float32)
    seen = np.tril(np.ones((16, 24), bool))
    inputs = np.where(np.arange(24) < 4 * (np.arange(16)[:, None] // 4 + 1), values, np.nan)
    blank = np.full(16, np.nan, np.float32)
    program = get_device("simulator").compile(Marked)
    got = program([inputs.astype(np.float32), blank])[-1]
    np.testing.assert_array_equal(got, np.where(seen, values, 0).sum(axis=1))
    assert not program.findings


@pytest.mark.parametrize(
    ("term", "sentence"),
    [
        (lambda i, k, value: value, "no condition under loop 'k_0' hides all that comes behind"),
        (lambda i, k, value: T.if_then_else(i <= k, value, T.float32(0)), "no condition"),
        (lambda i, k, value: T.if_then_else(k % 5 <= i, value, T.float32(0)), "no condition"),
        (
            lambda i, k, value: T.if_then_else(k <= i, value, T.float32(1)),
            "an iteration of loop 'k_0' in which all is hidden changes 'B'",
        ),
        (lambda i, k, value: see(i, k, value) + value, "all is hidden changes 'B'"),
        (lambda i, k, value: T.asinh(see(i, k, value)), "computes asinh, of which is not known"),
    ],
)
def test_end_loop_at_mask_refuses_what_could_not_end(term: object, sentence: str) -> None:
    sch = Schedule(make_masked_sum(term))
    loop = bind(sch)
    with refuses(sch, sentence):
        end_loop_at_mask(sch, loop)


def test_a_loop_that_is_bound_or_begins_elsewhere_is_refused() -> None:
    sch = Schedule(Masked)
    loop = bind(sch)
    outer, *_ = sch.get_loops(sch.get_sblock("B"))
    with refuses(sch, "is already bound"):
        end_loop_at_mask(sch, outer)
    sch.unroll(loop)
    with refuses(sch, "unrolled"):
        end_loop_at_mask(sch, loop)
    sch = Schedule(make_masked_sum(see, first=8))
    _, late = sch.get_loops(sch.get_sblock("B"))
    with refuses(sch, "loop 'k' begins at 8; choose one that begins at 0"):
        end_loop_at_mask(sch, late)


def test_what_is_written_where_all_is_hidden_is_not_left_out() -> None:
    sch = Schedule(MaskedCopy)
    _, k = sch.get_loops(sch.get_sblock("B"))
    with refuses(sch, "an iteration of loop 'k' in which all is hidden changes 'B'"):
        end_loop_at_mask(sch, k)


def test_what_comes_under_the_loop_later_must_change_nothing_either() -> None:
    sch = Schedule(Masked)
    loop = bind(sch)
    end_loop_at_mask(sch, loop)
    with refuses(sch, "unroll|annotat|no condition"):
        unroll_loop(sch, loop)


@pytest.mark.parametrize(
    ("queries", "keys", "window"), [(8, 8, None), (8, 20, None), (8, 8, 3), (4, 4, None)]
)
def test_causal_attention_is_right_and_computes_no_hidden_tiles(
    queries: int, keys: int, window: int | None
) -> None:
    recipe = RECIPES["attention_causal_ended"]
    problem = attention.problem(1, 1, queries, keys, 4, causal=True, window=window)
    sch = recipe(Schedule(problem.module), **recipe.golden.config)
    device = get_device("simulator")
    assert check_numbers(problem, sch.mod, device, where=recipe.name) == []
    inputs = problem.float_inputs(0)
    if keys == queries == 8:  # the first block of 4 queries sees 4 of 8 keys: none of it is read
        inputs[2][:, :, 4:] = np.nan
        got = device.compile(sch.mod)([*inputs, np.zeros((1, 1, 8, 4), np.float32)])[-1]
        assert np.isfinite(got[0, 0, :4]).all()
        assert np.isnan(got[0, 0, 4:]).any()
