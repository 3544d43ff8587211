"""Loops that end where masks hide what is left: what becomes of them, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from kernels import at_block, parse_kernel
from masked_sums import bind_masked_sum, make_masked_sum, see
from pairs import check_pair, refuses
from tvm.s_tir import Schedule
from tvm.script import from_source
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep import transforms as tr
from tirstep.lowering_checks import check_numbers, get_device
from tirstep.modules import attention
from tirstep.transforms.recipes import RECIPES

MaskedCopy = parse_kernel("""
    A (16, 24), B (16, 24)
    for i, k in T.grid(16, 24):
        with T.sblock("B", "SS", i, k):
            B[vi, vk] = T.if_then_else(vk <= vi, A[vi, vk], T.float32(0))
""")


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
    with refuses(sch, "computes 'n', and it is not known whether that changes anything where all"):
        tr.end_loop_at_mask(sch, loop)


Marked = parse_kernel("""
    A (16, 24), B (16,)
    with T.sblock("root"):
        T.sblock_attr({"tir_pipeline": "tirstep"})
        for i_0 in T.thread_binding(4, thread="blockIdx.x"):
            for i_1 in T.thread_binding(4, thread="threadIdx.x"):
                for k_0 in T.serial(6, annotations={"tirstep_ends_at_mask": 1}):
                    for k_1 in range(4):
                        with T.sblock("B"):
                            vi = T.axis.spatial(16, i_0 * 4 + i_1)
                            vk = T.axis.reduce(24, k_0 * 4 + k_1)
                            B[vi] += T.if_then_else(vk <= vi, A[vi, vk], T.float32(0))
""")


MarkedToSplit = from_source(Marked.script().replace("ends_at_mask", "splits_at_masks"))


def get_source(module: tvm.IRModule) -> str:
    pipeline = tr.get_pipeline(module)
    executable = tvm.compile(module, target="nvidia/nvidia-h100", tir_pipeline=pipeline)
    return executable.mod.imports[0].inspect_source()


def test_end_loop_at_mask_marks_a_loop() -> None:
    check_pair(Masked, lambda sch: tr.end_loop_at_mask(sch, bind_masked_sum(sch)), Marked)


def test_split_loop_at_mask_marks_a_loop() -> None:
    check_pair(Masked, lambda sch: tr.split_loop_at_mask(sch, bind_masked_sum(sch)), MarkedToSplit)


def test_launch_longest_first_marks_a_loop_that_ends() -> None:
    text = Marked.script().replace(
        '"tirstep_ends_at_mask": 1', '"tirstep_ends_at_mask": 1, "tirstep_longest_first": 1'
    )
    check_pair(Marked, mark_longest_first, from_source(text))


def mark_longest_first(sch: Schedule) -> None:
    tr.launch_longest_first(sch, sch.get_loops(sch.get_sblock("B"))[2])


def test_the_last_rows_are_those_of_the_first_block() -> None:
    sch = Schedule(Marked)
    mark_longest_first(sch)
    source = get_source(sch.mod)
    assert "k_0 < (4 - ((int)blockIdx.x))" in source
    assert "B_ptr[((((int)threadIdx.x) + 12) - (((int)blockIdx.x) * 4))]" in source
    values = np.random.default_rng(0).integers(-9, 9, (16, 24)).astype(np.float32)
    got = run_on_simulator(sch.mod, values)
    np.testing.assert_array_equal(got, np.tril(values).sum(axis=1))


def test_launch_longest_first_refuses_loops_that_do_not_grow() -> None:
    for module, sentence in (
        (Masked, "does not end at a mask, or its longest blocks come first already"),
        (
            make_masked_sum(lambda i, k, value: T.if_then_else(k < 9, value, 0.0)),
            "one axis of thread blocks",
        ),
        (make_masked_sum(lambda i, k, value: T.if_then_else(k < 16 - i, value, 0.0)), "one axis"),
    ):
        sch = Schedule(module)
        loop = bind_masked_sum(sch)
        if module is not Masked:
            tr.end_loop_at_mask(sch, loop)
        with refuses(sch, sentence):
            tr.launch_longest_first(sch, loop)
    sch = Schedule(Marked)
    mark_longest_first(sch)
    loop = sch.get_loops(sch.get_sblock("B"))[2]
    with refuses(sch, "its longest blocks come first already"):
        tr.launch_longest_first(sch, loop)


def run_on_simulator(module: tvm.IRModule, inputs: np.ndarray) -> np.ndarray:
    blank = np.full(16, np.nan, np.float32)
    program = get_device("simulator").compile(module)
    got = program([inputs.astype(np.float32), blank])[-1]
    assert not program.findings
    return got


@pytest.mark.parametrize(
    "hides",
    [
        lambda i, k: k <= i,
        lambda i, k: k < i + 5,
        lambda i, k: i >= k,
        lambda i, k: 2 * k < i,
        lambda i, k: T.And(k <= i, k < 9),
        lambda i, k: k <= i - 20,  # nothing is whole
        lambda i, k: k <= i + 30,  # and nothing is hidden
    ],
)
@pytest.mark.parametrize("ends", [False, True])
def test_a_loop_that_is_split_at_its_mask_computes_the_same(hides: object, ends: bool) -> None:
    sch = Schedule(make_masked_sum(lambda i, k, value: T.if_then_else(hides(i, k), value, 0.0)))
    loop = bind_masked_sum(sch)
    if ends:
        tr.end_loop_at_mask(sch, loop)
    tr.split_loop_at_mask(sch, loop)
    values = np.random.default_rng(0).integers(-9, 9, (16, 24)).astype(np.float32)
    plain = make_masked_sum(lambda i, k, value: T.if_then_else(hides(i, k), value, 0.0))
    want = get_device("cpu").compile(plain)([values, np.full(16, np.nan, np.float32)])[-1]
    np.testing.assert_array_equal(run_on_simulator(sch.mod, values), want)


def test_whole_tiles_are_not_masked() -> None:
    sch = Schedule(Masked)
    tr.split_loop_at_mask(sch, bind_masked_sum(sch))
    source = get_source(sch.mod)
    # Of rows 4 b to 4 b + 3 the tiles in front of the b-th are whole: 4 elements each.
    assert "k_0 < ((int)blockIdx.x); ++k_0" in source
    whole, rest = source.split("k_0 < ((int)blockIdx.x); ++k_0")[1].split("for (", 2)[1:]
    assert "condval" not in whole
    assert "condval" in rest


@pytest.mark.parametrize(
    "term",
    [
        lambda i, k, value: value,
        lambda i, k, value: T.if_then_else(i <= k, value, T.float32(0)),
        lambda i, k, value: T.if_then_else(k // 2 <= i, value, T.float32(0)),
        lambda i, k, value: T.if_then_else(T.Or(k <= i, k < 3), value, T.float32(0)),
    ],
)
def test_split_loop_at_mask_refuses_what_no_mask_hides_from_somewhere_on(term: object) -> None:
    sch = Schedule(make_masked_sum(term))
    loop = bind_masked_sum(sch)
    with refuses(sch, "no condition under loop 'k_0' holds up to some iteration; leave"):
        tr.split_loop_at_mask(sch, loop)


LIMITED = """
A (16, 24), L (16,) int32, B (16,)
for i, k in T.grid(16, 24):
    with T.sblock("B", "SR", i, k):
        B[vi] += T.if_then_else(vk < L[vi], A[vi, vk], T.float32(0))
"""
CHANGING = """
A (16, 24), L (16,) int32, B (16,)
for i in range(16):
    for k in range(24):
        with T.sblock("L", "SS", i, k):
            L[vi] = vk // 4 * 4 + 2
        with T.sblock("B", "SR", i, k):
            B[vi] += T.if_then_else(vk < L[vi], A[vi, vk], T.float32(0))
"""
BY_MARK = pytest.mark.parametrize("mark", [tr.end_loop_at_mask, tr.split_loop_at_mask])


@BY_MARK
def test_a_length_that_is_loaded_ends_or_splits_a_loop(mark: Callable[..., None]) -> None:
    sch, _, row, k = at_block(parse_kernel(LIMITED), "B")
    tr.bind_loop(sch, row, axis="blockIdx.x")
    mark(sch, k)
    rng = np.random.default_rng(0)
    values, lengths = rng.integers(-9, 9, (16, 24)), rng.integers(0, 25, 16)
    program = get_device("simulator").compile(sch.mod)
    inputs = [values.astype("float32"), lengths.astype("int32"), np.full(16, np.nan, "float32")]
    seen = np.arange(24) < lengths[:, None]
    np.testing.assert_array_equal(program(inputs)[-1], np.where(seen, values, 0).sum(axis=1))
    assert not program.findings


@BY_MARK
def test_a_length_that_changes_in_the_loop_is_not_known_before(mark: Callable[..., None]) -> None:
    sch, _, row, k = at_block(parse_kernel(CHANGING), "B")
    tr.bind_loop(sch, row, axis="blockIdx.x")
    with refuses(sch, "no condition under loop 'k'"):
        mark(sch, k)


NAMED = """
A (16, 24), L (16,) int32, B (16,)
for i in range(16):
    for j in range(6):
        for t in range(4):
            with T.sblock("B"):
                vi = T.axis.spatial(16, i)
                vk = T.axis.reduce(24, j * 4 + t)
                with T.init():
                    B[vi] = T.float32(0)
                q: T.let[T.int32] = vi + vk // 4
                B[vi] = B[vi] + T.if_then_else(vk < q, A[vi, vk], T.float32(0))
"""


@BY_MARK
def test_a_bound_that_the_loop_gives_a_name_is_not_known_before(mark: Callable[..., None]) -> None:
    """In front of the loop there is none, and TVM did not lower what came out."""
    sch = Schedule(parse_kernel(NAMED))
    row, steps, _ = sch.get_loops(sch.get_sblock("B"))
    tr.bind_loop(sch, row, axis="blockIdx.x")
    with refuses(sch, "no condition under loop 'j'"):
        mark(sch, steps)


def test_a_loop_that_is_marked_and_bound_later_stays_bound() -> None:
    sch = Schedule(Masked)
    loop = bind_masked_sum(sch)
    tr.split_loop_at_mask(sch, loop)
    tr.bind_loop(sch, loop, axis="threadIdx.y")
    values = np.random.default_rng(0).integers(-9, 9, (16, 24)).astype(np.float32)
    want = np.tril(np.ones((16, 24))) * values
    np.testing.assert_array_equal(run_on_simulator(sch.mod, values), want.sum(axis=1))


@pytest.mark.parametrize(
    ("term", "sentence"),
    [
        (lambda i, k, value: value, "no condition under loop 'k_0' hides everything after some"),
        (lambda i, k, value: T.if_then_else(i <= k, value, T.float32(0)), "no condition"),
        (lambda i, k, value: T.if_then_else(k % 5 <= i, value, T.float32(0)), "no condition"),
        (
            lambda i, k, value: T.if_then_else(k <= i, value, T.float32(1)),
            "an iteration of loop 'k_0' in which all is hidden changes 'B'",
        ),
        (lambda i, k, value: see(i, k, value) + value, "all is hidden changes 'B'"),
        (lambda i, k, value: T.asinh(see(i, k, value)), "computes asinh, and it is not known"),
    ],
)
def test_end_loop_at_mask_refuses_what_could_not_end(term: object, sentence: str) -> None:
    sch = Schedule(make_masked_sum(term))
    loop = bind_masked_sum(sch)
    with refuses(sch, sentence):
        tr.end_loop_at_mask(sch, loop)


def test_a_loop_that_is_bound_or_begins_elsewhere_is_refused() -> None:
    sch = Schedule(Masked)
    loop = bind_masked_sum(sch)
    outer, *_ = sch.get_loops(sch.get_sblock("B"))
    with refuses(sch, "is already bound"):
        tr.end_loop_at_mask(sch, outer)
    sch.unroll(loop)
    with refuses(sch, "unrolled"):
        tr.end_loop_at_mask(sch, loop)
    sch, _, _, late = at_block(make_masked_sum(see, first=8), "B")
    with refuses(sch, "loop 'k' begins at 8; choose one that begins at 0"):
        tr.end_loop_at_mask(sch, late)


def test_a_sum_that_begins_in_a_block_of_its_own_is_refused() -> None:
    """After `blockize` the initialization is a block in another one."""
    sch = Schedule(Masked)
    _, k = sch.get_loops(sch.get_sblock("B"))
    outer, inner = sch.split(k, [None, 8])
    sch.blockize(inner)
    with refuses(sch, "block 'B_o' under loop 'k_0' initializes its result in a separate block,"):
        tr.end_loop_at_mask(sch, outer)


def test_what_is_written_where_all_is_hidden_is_not_left_out() -> None:
    sch, _, _, k = at_block(MaskedCopy, "B")
    with refuses(sch, "an iteration of loop 'k' in which all is hidden changes 'B'"):
        tr.end_loop_at_mask(sch, k)


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
