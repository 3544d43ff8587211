"""Two kernels in one launch of clusters (`fuse_kernels_in_clusters`)."""

import re

import pytest
from kernels import parse_kernel
from pairs import check_pair, refuses
from tvm.s_tir import Schedule

from tirstep.experiments import make_subject
from tirstep.lowering_checks import check_numbers, get_device
from tirstep.lowering_checks.facts import get_facts
from tirstep.modules import get_kernel
from tirstep.transforms import fuse_kernels_in_clusters
from tirstep.transforms.hopper.cluster_launch import has_clusters
from tirstep.transforms.recipes.row_ladders import RowConfig, schedule_rows


def make_kernels(kernel: str = "softmax", parts: int = 4):
    """Rows of 3 x 256 in parts by two kernels; the schedule and the loops of both."""
    sch = Schedule(get_kernel(kernel)(3, 256))
    config = RowConfig(threads=16, vector=4, in_registers=True, parts=parts, tail="guard")
    list(schedule_rows(sch, config))
    first = {"softmax": "max_part", "rms_norm": "sum_rf", "row_sum": "B_rf"}[kernel]
    return sch, *(sch.get_loops(sch.get_sblock(name))[0] for name in (first, "B"))


KERNELS = """
with T.sblock("root"):
    P = T.sblock_alloc_buffer((2, 3))
    for b in T.thread_binding(6, thread="blockIdx.x"):
        with T.sblock("P"):
            vr, vp = T.axis.spatial(2, b // 3), T.axis.spatial(3, b % 3)
            P[vr, vp] = A[vr * 3 + vp, 0]
    for b in T.thread_binding(6, thread="blockIdx.x"):
        for t in range(4):
            with T.sblock("B"):
                vr, vp = T.axis.spatial(2, b // 3), T.axis.spatial(3, b % 3)
                vt = T.axis.spatial(4, t)
                B[vr * 3 + vp, vt] = A[vr * 3 + vp, vt] + P[vr, 0] * P[vr, 1] * P[vr, 2]
"""
Pair = parse_kernel(f"A (6, 4), B (6, 4)\n{KERNELS.strip()}")


def test_fuse_kernels_in_clusters_pair():
    def change(sch):
        first, second = (sch.get_loops(sch.get_sblock(name))[0] for name in "PB")
        fuse_kernels_in_clusters(sch, first, second, blocks=3)

    head, loop, rest = KERNELS.rpartition('for b in T.thread_binding(6, thread="blockIdx.x"')
    marked = f'{head}{loop}, annotations={{"pragma_tirstep_cluster": 3}}{rest}'
    root = 'with T.sblock("root"):\n'
    after = marked.replace(root, f'{root}    T.sblock_attr({{"tir_pipeline": "tirstep"}})\n')
    check_pair(Pair, change, after)


def test_two_kernels_become_one_that_loads_once():
    sch, first, second = make_kernels()
    before = get_facts(sch.mod)
    fuse_kernels_in_clusters(sch, first, second, blocks=4)
    (kernel,) = get_facts(sch.mod).kernels
    source = get_facts(sch.mod).source
    assert [it.blocks for it in before.kernels] == [12, 12]
    assert kernel.blocks == 12
    loads = re.compile(r"float4\*\)\(A_ptr \+")
    assert len(loads.findall(before.source)) == 2 * len(loads.findall(source)) > 0
    arrive, wait = (source.rindex(f"barrier_cluster_{it}") for it in ("arrive", "wait"))
    assert source.index("largest_part_ptr[((int)blockIdx.x)] =") < arrive < wait


@pytest.mark.parametrize(
    ("kernel", "blocks", "reason"),
    [
        ("softmax", 1, "clusters of 1 do not divide"),
        ("softmax", 5, "clusters of 5 do not divide the 12 blocks"),
        ("softmax", 12, "clusters of 12 do not divide"),
        ("softmax", 2, "blocks of other clusters of loops"),
        ("softmax", 6, "access 'largest_part', too"),
        ("rms_norm", 4, "access 'squares.rf', too"),  # whose parts are rows apart
        ("row_sum", 4, "are not kernels of the same threads and blocks"),
    ],
)
def test_fuse_kernels_in_clusters_refuses(kernel, blocks, reason):
    sch, first, second = make_kernels(kernel)
    with refuses(sch, reason):
        fuse_kernels_in_clusters(sch, first, second, blocks=blocks)


def test_kernels_in_another_order_are_refused():
    sch, first, second = make_kernels()
    with refuses(sch, "one directly after the other"):
        fuse_kernels_in_clusters(sch, second, first, blocks=4)


InPlace = parse_kernel("""
    A (8, 4), B (8, 4)
    for b in T.thread_binding(8, thread="blockIdx.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            with T.sblock("B"):
                vb, vt = T.axis.remap("SS", [b, t])
                B[vb, vt] = A[7 - vb, vt] + T.float32(1)
    for b in T.thread_binding(8, thread="blockIdx.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            with T.sblock("A"):
                vb, vt = T.axis.remap("SS", [b, t])
                A[vb, vt] = T.float32(2)
""")


def test_what_the_second_kernel_overwrites_is_refused():
    """A cluster may be done with both kernels before another one begins."""
    sch = Schedule(InPlace)
    first, second = (sch.get_loops(sch.get_sblock(name))[0] for name in ("B", "A"))
    with refuses(sch, "access 'A', too"):
        fuse_kernels_in_clusters(sch, first, second, blocks=2)


SUMS = """
    A (12, 32), B (12, 32)
    with T.sblock("root"):
        P = T.sblock_alloc_buffer((12,))
        for r in T.thread_binding(12, thread="blockIdx.x"):
            for c in T.thread_binding(32, thread="threadIdx.x"):
                with T.sblock("P"):
                    vr, vc = T.axis.remap("SR", [r, c])
                    with T.init():
                        P[vr] = T.float32(0)
                    P[vr] = P[vr] + A[vr, vc]
        for r in T.thread_binding(12, thread="blockIdx.x"):
            for c in T.thread_binding(32, thread="threadIdx.x"):
                with T.sblock("B"):
                    vr, vc = T.axis.remap("SS", [r, c])
                    B[vr, vc] = A[vr, vc] - P[vr // 4 * 4] * P[{other}]
"""


@pytest.mark.parametrize(
    ("other", "blocks", "reason"),
    [
        ("vr // 4 * 4 + 3", 4, ""),
        ("11 - vr", 12, "clusters of 12 do not divide"),
        ("(vr // 4 * 4 + 4) % 12", 4, "of other clusters"),
        ("vr // 4 * 4 + 3", 2, "of other clusters"),
        ("vr", 4, ""),
    ],
)
def test_a_flat_buffer_of_results_has_a_span_for_each_cluster(other, blocks, reason):
    module = parse_kernel(SUMS.format(other=other))
    sch = Schedule(module)
    first, second = (sch.get_loops(sch.get_sblock(name))[0] for name in "PB")
    if reason:
        with refuses(sch, reason):
            fuse_kernels_in_clusters(sch, first, second, blocks=blocks)
        return
    fuse_kernels_in_clusters(sch, first, second, blocks=blocks)
    assert len(get_facts(sch.mod).kernels) == 1
    subject = make_subject("sums", module)
    program = get_device("simulator").compile(sch.mod)
    assert subject.oracle.check(program, "simulator", "sums") == []


UPDATED = parse_kernel("""
    A (4, 8), P (4, 8), B (4, 8)
    with T.sblock("root"):
        L = T.sblock_alloc_buffer((4, 8), scope="local")
        K = T.sblock_alloc_buffer((4, 8), scope="local")
        for r in T.thread_binding(4, thread="blockIdx.x"):
            for c in T.thread_binding(2, thread="threadIdx.x"):
                for v in range(4):
                    with T.sblock("L"):
                        vr, vc = T.axis.spatial(4, r), T.axis.spatial(8, c * 4 + v)
                        L[vr, vc] = P[vr, vc]
                for v in range(4):
                    with T.sblock("P"):
                        vr, vc = T.axis.spatial(4, r), T.axis.spatial(8, c * 4 + v)
                        P[vr, vc] = L[vr, vc] + A[vr, vc]
        for r in T.thread_binding(4, thread="blockIdx.x"):
            for c in T.thread_binding(2, thread="threadIdx.x"):
                for v in range(4):
                    with T.sblock("K"):
                        vr, vc = T.axis.spatial(4, r), T.axis.spatial(8, c * 4 + v)
                        K[vr, vc] = P[vr, vc]
                for v in range(4):
                    with T.sblock("B"):
                        vr, vc = T.axis.spatial(4, r), T.axis.spatial(8, c * 4 + v)
                        B[vr, vc] = K[vr, vc]
""")


def test_what_the_first_kernel_changes_is_loaded_again():
    sch = Schedule(UPDATED)
    first, second = (sch.get_loops(sch.get_sblock(name))[0] for name in "PB")
    fuse_kernels_in_clusters(sch, first, second, blocks=2)
    oracle = make_subject("updated", UPDATED).oracle
    *_, result = get_device("simulator").compile(sch.mod)(oracle.arguments)
    assert result.tolist() == oracle.expected[-1].tolist()


def test_clusters_begin_with_compute_capability_9():
    known = {"sm_80": False, "sm_89": False, "sm_90": True, "sm_90a": True, "sm_120f": True}
    assert {name: has_clusters(name) for name in known} == known


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", ["softmax", "layer_norm", "rms_norm"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rows_of_clusters_are_right_on_a_gpu(kernel, dtype):
    problem = get_kernel(kernel).problem(33, 50_001 if dtype == "float32" else 66_000, dtype=dtype)
    sch = Schedule(problem.module)
    config = RowConfig(
        threads=256, vector=4, in_registers=True, parts=8, clusters=True, tail="guard"
    )
    list(schedule_rows(sch, config))
    assert check_numbers(problem, sch.mod, get_device("cuda"), where="clusters") == []
