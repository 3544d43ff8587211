"""Rows of any length and number: what the rules choose is accepted and right."""

import math
import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kernels import parse_kernel
from pairs import check_pair
from tvm.s_tir import Schedule
from tvm.script import from_source
from tvm.script import tirx as T

from tirstep.lowering_checks import check_numbers, get_device
from tirstep.lowering_checks.facts import get_facts
from tirstep.modules import get_kernel, softmax
from tirstep.transforms import TransformError
from tirstep.transforms.plans import schedule_function
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.recipes.row_ladders import (
    CLUSTER_VECTOR,
    LONG,
    RowConfig,
    rank_cuts,
    rank_rows,
    schedule_rows,
)
from tirstep.transforms.recipes.time_model import H200, read_gpu

KERNELS = ("row_sum", "softmax", "rms_norm", "layer_norm", "matvec")


def choose(kernel: str, m: int, n: int, dtype: str = "float32", device: str = "NVIDIA H200"):
    sch = Schedule(get_kernel(kernel)(m, n, dtype=dtype))
    return rank_rows(sch, "x", read_gpu(device))[0][0]


@settings(max_examples=6)
@given(
    kernel=st.sampled_from(KERNELS),
    m=st.integers(1, 9),
    n=st.one_of(st.integers(1, 300), st.integers(1, 40).map(lambda n: 8 * n)),
    dtype=st.sampled_from(("float32", "float16")),
)
@example(kernel="layer_norm", m=560, n=3, dtype="float32")
@example(kernel="softmax", m=1, n=32769, dtype="float16")
def test_what_is_chosen_is_right(kernel, m, n, dtype):
    problem = get_kernel(kernel).problem(m, n, dtype=dtype)
    sch = Schedule(problem.module)
    list(RECIPES[f"{kernel}_best"].run(sch))
    device = get_device("cpu" if n > 10_000 else "simulator")
    assert check_numbers(problem, sch.mod, device, where="best") == []


@pytest.mark.parametrize("kernel", ["row_sum", "matvec"])
def test_a_long_row_is_cut_in_parts(kernel):
    problem = get_kernel(kernel).problem(1, 1 << 15)
    sch = Schedule(problem.module)
    names = [step.name for step in RECIPES[f"{kernel}_best"].run(sch)]
    assert names == ["cut_in_parts", "spread_over_threads", "rounds", "parts_combined"]
    assert check_numbers(problem, sch.mod, get_device("cpu"), where="best") == []


@pytest.mark.share(6)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("kernel", "m", "n", "device"),
    [
        ("row_sum", 1, 1000003, "cpu"),
        ("matvec", 3, 77777, "cpu"),
        ("row_sum", 3, 77777, "simulator"),
        ("matvec", 1, 120008, "simulator"),
        ("matvec", 2, 40001, "simulator"),
    ],
)
def test_few_rows_that_nothing_divides_are_cut(kernel, m, n, device, dtype):
    problem = get_kernel(kernel).problem(m, n, dtype=dtype)
    sch = Schedule(problem.module)
    *_, rounds, end = RECIPES[f"{kernel}_best"].run(sch)
    assert (rounds.name, end.name) == ("rounds", "parts_combined")
    assert check_numbers(problem, sch.mod, get_device(device), where="best") == []


@pytest.mark.share(4)
@settings(max_examples=12)
@given(
    kernel=st.sampled_from(KERNELS),
    m=st.integers(1, 5),
    n=st.one_of(st.integers(99, 999), st.integers(10, 99).map(lambda n: 8 * n)),
    dtype=st.sampled_from(("float32", "float16", "bfloat16")),
    threads=st.sampled_from((8, 32, 64)),
    each=st.sampled_from((0, 2, 4, 8)),
    parts=st.integers(2, 40),
)
@example(kernel="row_sum", m=1, n=1, dtype="float32", threads=64, each=8, parts=3)
@example(kernel="matvec", m=40, n=1539, dtype="bfloat16", threads=8, each=8, parts=7)
@example(kernel="row_sum", m=2, n=9 * 64, dtype="float16", threads=32, each=4, parts=9)
@example(kernel="softmax", m=1, n=9, dtype="float32", threads=8, each=2, parts=3)
@example(kernel="softmax", m=2, n=1001, dtype="float16", threads=64, each=0, parts=3)
@example(kernel="layer_norm", m=2, n=9, dtype="float32", threads=8, each=2, parts=5)
@example(kernel="layer_norm", m=3, n=1000, dtype="bfloat16", threads=32, each=0, parts=8)
@example(kernel="rms_norm", m=1, n=776, dtype="float16", threads=32, each=0, parts=2)
def test_any_parts_of_any_rows_are_right(kernel, m, n, dtype, threads, each, parts):
    """Read in rounds, or kept in registers where `each` is 0."""
    problem = get_kernel(kernel).problem(m, n, dtype=dtype)
    sch = Schedule(problem.module)
    config = RowConfig(
        threads=threads, vector=8, each=each, in_registers=not each, parts=parts, tail="guard"
    )
    list(schedule_rows(sch, config))
    assert check_numbers(problem, sch.mod, get_device("simulator"), where="parts") == []


LEAST = "T.float32(-340282346638528859811704183484516925440.0)"


@pytest.mark.parametrize(
    ("kernel", "m", "n", "dtype", "threads", "parts"),
    [
        ("softmax", 2, 1001, "float32", 64, 2),
        ("softmax", 3, 512, "float16", 16, 8),
        ("layer_norm", 3, 1000, "bfloat16", 32, 8),
        ("rms_norm", 5, 776, "float32", 32, 2),
        ("softmax", 1, 96, "float32", 8, 3),
    ],
)
def test_the_parts_of_a_cluster_are_read_once(kernel, m, n, dtype, threads, parts):
    problem = get_kernel(kernel).problem(m, n, dtype=dtype)
    sch = Schedule(problem.module)
    config = RowConfig(
        threads=threads, vector=4, in_registers=True, parts=parts, clusters=True, tail="guard"
    )
    assert [*schedule_rows(sch, config)][-1] == "fused_in_clusters"
    assert check_numbers(problem, sch.mod, get_device("simulator"), where="cluster") == []
    assert check_numbers(problem, sch.mod, get_device("cpu"), where="cluster") == []  # two kernels
    facts = get_facts(sch.mod)
    (launch,) = facts.kernels
    assert launch.blocks == m * parts
    assert "barrier_cluster_wait" in facts.source


BUGS = {
    "the last part left out": ("softmax", {"8 + ax1_0_1 < 3": "8 + ax1_0_1 < 2"}),
    "maxima added up": (
        "softmax",
        {
            f"largest_local[vi] = {LEAST}": "largest_local[vi] = T.float32(0)",
            "T.max(largest_local[vi], largest_part[vi, vpart])": "largest_local[vi] + "
            "largest_part[vi, vpart]",
        },
    ),
    "sums of other maxima": (
        "softmax",
        {"T.exp(largest_part[vi, vpart] - ": "T.exp(T.float32(0) * "},
    ),
    "the last part as if it were full": ("layer_norm", {"T.min(41 - vpart * 16, 16)": "16"}),
    "means alike": (
        "layer_norm",
        {"(squares_part[vi, vpart] + ": "(squares_part[vi, vpart] + 0.0 * "},
    ),
    "the last element left out": ("rms_norm", {"T.if_then_else(v1 < 41": "T.if_then_else(v1 < 40"}),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_die_without_a_gpu(bug):
    kernel, changes = BUGS[bug]
    problem = get_kernel(kernel).problem(3, 41)
    sch = Schedule(problem.module)
    config = RowConfig(threads=8, vector=8, in_registers=True, parts=3, tail="guard")
    list(schedule_rows(sch, config))
    text, simulator = sch.mod.script(), get_device("simulator")
    assert not check_numbers(problem, from_source(text), simulator, where="parts")
    for right, wrong in changes.items():
        assert right in text
        text = text.replace(right, wrong)
    assert check_numbers(problem, from_source(text), simulator, where="parts")


Cut = parse_kernel("""
    A (2, 20), B (2,)
    T.func_attr({"tirx.noalias": True})
    with T.sblock("root"):
        T.sblock_attr({"tir_pipeline": "tirstep"})
        B_rf = T.sblock_alloc_buffer((2, 2))
        A_global_local = T.sblock_alloc_buffer((2, 4, 2, 4), scope="local")
        for part in T.thread_binding(4, thread="blockIdx.x"):
            for round in range(1):
                for unit in T.unroll(1):
                    for batch in T.unroll(2):
                        for thread in T.thread_binding(2, thread="threadIdx.x"):
                            for lane in T.vectorized(4):
                                with T.sblock("A_global_local"):
                                    i = T.axis.spatial(2, part % 2 + unit)
                                    k = T.axis.spatial(
                                        32, part // 2 * 16 + batch * 8 + thread * 4 + lane
                                    )
                                    A_global_local[i, k // 8, k % 8 // 4, k % 4] = T.if_then_else(
                                        k < 20, A[i, k], T.float32(0)
                                    )
                for batch in T.unroll(2):
                    for thread in T.thread_binding(2, thread="threadIdx.x"):
                        for lane in range(4):
                            with T.sblock("B_rf"):
                                own = T.axis.spatial(2, part // 2)
                                i = T.axis.spatial(2, part % 2)
                                k = T.axis.reduce(
                                    16, round * 16 + batch * 8 + thread * 4 + lane
                                )
                                with T.init():
                                    B_rf[own, i] = T.float32(0)
                                B_rf[own, i] = (
                                    B_rf[own, i]
                                    + A_global_local[i, own * 2 + k // 8, k % 8 // 4, k % 4]
                                )
        for row in T.thread_binding(2, thread="blockIdx.x"):
            for step in range(1):
                for thread in T.thread_binding(2, thread="threadIdx.x"):
                    for unit in range(1):
                        with T.sblock("B"):
                            own = T.axis.reduce(2, step * 2 + thread + unit)
                            i = T.axis.spatial(2, row)
                            B[i] += B_rf[own, i]
""")


def test_a_row_of_five_vectors_in_two_parts_of_four():
    """Past its end zeros are read, by the guard of a whole vector."""
    config = RowConfig(threads=2, vector=4, each=2, parts=2, tail="guard")

    def change(sch: Schedule) -> None:
        assert list(schedule_rows(sch, config))[-1] == "parts_combined"

    check_pair(get_kernel("row_sum")(2, 20), change, Cut, is_replayable=False)


def test_whole_vectors_are_read_of_parts_that_do_not_divide():
    sch = Schedule(get_kernel("matvec")(3, 99996))
    list(RECIPES["matvec_best"].run(sch))
    config = choose("matvec", 3, 99996)
    assert 99996 // 4 % config.parts > 0
    facts = get_facts(sch.mod)
    assert facts.values()["kernels"] == 2
    assert "float4*)(A_ptr" in facts.source
    assert "A_ptr[" not in facts.source


@settings(max_examples=40)
@given(
    m=st.integers(1, 2000),
    n=st.integers(LONG, 1 << 25),
    size=st.sampled_from((2, 4)),
    multiprocessors=st.integers(1, 200),
    sums=st.integers(0, 2),
)
def test_a_cut_is_what_the_schedule_makes(m, n, size, multiprocessors, sums):
    vector = max(lanes for lanes in (1, 2, 4, 8) if n % lanes == 0 and lanes * size <= 16)
    gpu = read_gpu(f"multiprocessors={multiprocessors}")
    cuts = rank_cuts(m, n, size=size, vector=vector, gpu=gpu, threads=1024, sums=sums)
    assert len({(cut.parts, cut.clusters) for cut in cuts}) == len(cuts)
    for cut in cuts:
        assert (cut.parts - 1) * cut.length < n <= cut.parts * cut.length
        assert cut.parts == 1 or m * cut.parts <= 4 * multiprocessors or sums
        lanes = min(vector, CLUSTER_VECTOR) if cut.clusters else vector
        assert cut.parts == 1 or cut.length >= cut.threads * max(cut.each, 1) * lanes
        assert (cut.each == 0) == (cut.parts > 1 and sums > 0)
        assert cut.us <= 1.1 * cuts[0].us or cut is not min(cuts, key=lambda it: it.us)
    assert [cut.us for cut in cuts[1:]] == sorted(cut.us for cut in cuts[1:])


def test_a_full_device_has_whole_rows():
    """Where DRAM gives no more, and where one block of each multiprocessor has asked for enough."""
    for m, n in ((600, 1 << 15), (1000, 32769), (132, 100000)):
        assert choose("row_sum", m, n).parts == 1
    # The more rows, the fewer parts, and the fewer multiprocessors, the fewer.
    parts = [choose("matvec", m, 153099).parts for m in (1, 4, 40, 120, 4000)]
    assert parts == sorted(parts, reverse=True)
    rows, gpus = (600, 1 << 15), (read_gpu(f"gigabytes={it}") for it in (2400, 4800))
    known = {"size": 4, "vector": 4, "threads": 1024}
    half, whole = (rank_cuts(*rows, gpu=gpu, **known)[0].memory for gpu in gpus)
    assert half == 2 * whole
    small = choose("matvec", 3, 153099, device="multiprocessors=8 gigabytes=300").parts
    assert 1 < small < choose("matvec", 3, 153099).parts


def test_the_rows_of_a_maximum_are_cut():
    """Zeros are no neutral element of it: a mask keeps them out where parts do not divide rows."""

    def cut(n: int) -> int:
        @T.prim_func(s_tir=True)
        def largest(A: T.Buffer((2, n), "float32"), B: T.Buffer((2,), "float32")):
            for i, k in T.grid(2, n):
                with T.sblock("B"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[vi] = T.min_value("float32")
                    B[vi] = T.max(B[vi], A[vi, vk])

        return schedule_function(Schedule(largest))[1]

    assert cut(1 << 16).parts == 16
    assert cut(32769).parts > 1


def test_the_rows_of_a_mean_are_cut():
    """The one result of a row is finished where its parts are combined."""
    n = 50001

    @T.prim_func(s_tir=True)
    def mean(A: T.Buffer((2, n), "float32"), B: T.Buffer((2,), "float32")):
        sums = T.sblock_alloc_buffer((2,))
        for i, k in T.grid(2, n):
            with T.sblock("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    sums[vi] = T.float32(0)
                sums[vi] = sums[vi] + A[vi, vk]
        for i in range(2):
            with T.sblock("B"):
                vi = T.axis.spatial(2, i)
                B[vi] = sums[vi] / T.float32(n)

    sch = Schedule(mean)
    config = schedule_function(sch)[1]
    assert config.parts > 1
    assert get_facts(sch.mod).values()["kernels"] == 2
    rows = np.random.default_rng(0).standard_normal((2, n), dtype=np.float32)
    program = get_device("cpu").compile(sch.mod)
    _, got = program([rows, np.zeros(2, np.float32)])
    np.testing.assert_allclose(got, rows.mean(axis=1, dtype=np.float64), atol=1e-6)


def test_the_rules():
    short = choose("softmax", 65536, 128)
    assert (short.threads, short.rows, short.in_registers) == (8, 16, True)
    # Of 132 multiprocessors each has at least two blocks, and a block a whole warp.
    assert choose("softmax", 600, 128).rows == 4
    assert choose("softmax", 4, 128).threads == 32
    # Of four bytes as of two, read one by one, a thread has as many.
    assert choose("softmax", 1000, 777, "float16") == choose("softmax", 1000, 777)
    long = choose("softmax", 512, 32768)
    assert (long.threads, long.in_registers, long.each, long.parts) == (1024, False, 2, 1)
    # Rows that the L2 cache does not hold are shared by clusters, where there are such.
    long = choose("softmax", 512, 65536)
    assert (long.threads, long.in_registers, long.parts, long.clusters) == (128, True, 8, True)
    assert not choose("softmax", 512, 65536, device="NVIDIA A100-SXM4-80GB").clusters
    assert choose("row_sum", 2, 1 << 20).parts == 128
    assert choose("row_sum", 2, 1 << 20, device="multiprocessors=16").parts == 32
    assert choose("row_sum", 600, 1 << 15).parts == 1
    # Norms and softmax: parts of 256 threads, 32 bytes each, or whole rows where these fill a GPU.
    before = {"device": "sm=80"}  # without clusters
    for kernel in ("softmax", "rms_norm", "layer_norm"):
        few = choose(kernel, 8, 72896, **before)
        assert (few.threads, few.in_registers, few.each, few.parts) == (256, True, 0, 36)
        assert choose(kernel, 2, 55077, "float16", **before).parts == 27
        assert choose(kernel, 256, 33000, "bfloat16").parts == 1
    assert choose("softmax", 105, 150272, **before).parts == 74
    assert choose("softmax", 128, 131072, "bfloat16", **before).parts == 1


@pytest.mark.parametrize("m", [7, 1000, 12345])
@pytest.mark.parametrize("n", [128, 2000, 8192, 20000])
def test_threads_of_several_warps_share_a_block_with_no_row_that_is_not_there(m, n):
    config = choose("softmax", m, n)
    assert config.threads <= 32 or m % config.rows == 0
    assert config.threads * config.rows <= 1024
    assert math.log2(config.threads).is_integer()


def test_open_sizes_and_an_unknown_gpu_are_refused():
    sch = Schedule(softmax.problem(8, 64, symbolic=("m",)).module)
    sentence = re.escape("softmax_best: the shape (m, 64) is not constant; give the kernel its")
    with pytest.raises(TransformError, match=sentence):
        list(RECIPES["softmax_best"].run(sch))
    with pytest.raises(TransformError, match="the properties of 'Voodoo' are not known"):
        list(RECIPES["softmax_best"].run(Schedule(softmax(8, 64)), device="Voodoo"))


@pytest.mark.parametrize(
    ("length", "dtype", "threads"),
    [
        (3264, "bfloat16", 128),
        (3520, "float16", 128),
        (4096, "bfloat16", 64),
        (3264, "float32", 128),
    ],
)
def test_halves_that_do_not_share_out_have_more_threads(length, dtype, threads):
    sch = Schedule(get_kernel("rms_norm").problem(1450, length, dtype=dtype).module)
    assert rank_rows(sch, "rms_norm_best", H200)[0][0].threads == threads
