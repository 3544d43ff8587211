"""Reductions split, and their initialization taken out."""

import pytest
from kernels import Matmul, Scale, at_block, parse_kernel, start
from pairs import assert_dead, check_pair, refuses
from tvm.s_tir import Schedule

from tirstep import transforms as tr
from tirstep.lowering_checks import check_numbers, get_device
from tirstep.modules import get_kernel
from tirstep.transforms.queries import get_realize

SymbolicSum = parse_kernel("""
    A (4, n), B (4,)
    for i, k in T.grid(4, n):
        with T.sblock("B", "SR", i, k):
            B[vi] += A[vi, vk]
""")


def test_split_reduction_by_a_divisor():
    after = """
        for i, j, k_0, k_1 in T.grid(16, 12, 3, 2):
            with T.sblock("C", "SS", i, j):
                vk = T.axis.reduce(6, k_0 * 2 + k_1)
                C[vi, vj] += A[vi, vk] * B[vk, vj]
    """

    def change(sch):
        block = sch.get_sblock("C")
        *_, k = sch.get_loops(block)
        steps = tr.split_reduction(sch, block, inner=2)
        assert isinstance(steps, tr.Split)
        assert [int(sch.get(loop).extent) for loop in steps] == [3, 2]
        assert_dead(sch, k)
        return steps, block

    check_pair(Matmul, change, after)


def test_split_reduction_refuses_what_does_not_fit():
    sch, block, *_ = start()
    with refuses(sch, r"split_reduction: loop 'k' runs 6 times, which inner=4 does not divide"):
        tr.split_reduction(sch, block, inner=4)
    sch, block, *_ = start(Scale, "B")
    with refuses(sch, r"split_reduction: block 'B' has 0 reduction loops, not one; use split_loop"):
        tr.split_reduction(sch, block, inner=2)
    sch, block, *_ = start(SymbolicSum, "B")
    with refuses(sch, r"loop 'k' has the symbolic extent n, which inner=8 may not divide"):
        tr.split_reduction(sch, block, inner=8)
    tr.split_reduction(sch, block, inner=8, tail="guard")
    sch, block, *_ = start()
    tr.split_reduction(sch, block, inner=2)
    with refuses(sch, r"split_reduction: block 'C' has 2 reduction loops, not one"):
        tr.split_reduction(sch, block, inner=2)
    sch, block, _, _, k = start()
    tr.unroll_loop(sch, k)
    with refuses(sch, r"split_reduction: loop 'k' is already unrolled"):
        tr.split_reduction(sch, block, inner=2)


def test_decompose_reduction_at_its_reduction_loop():
    after = """
        for i, j in T.grid(16, 12):
            with T.sblock("C_init", "SS", i, j):
                C[vi, vj] = T.float32(0)
            for k in range(6):
                with T.sblock("C_update", "SSR", i, j, k):
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    """

    def change(sch):
        block = sch.get_sblock("C")
        i, j, k = sch.get_loops(block)
        init = tr.decompose_reduction_at(sch, block, k)
        assert sch.get(init).name_hint == "C_init"
        assert sch.get(block).name_hint == "C_update"
        return init, block, i, j, k

    check_pair(Matmul, change, after)


def test_decompose_reduction_at_refuses_threads_that_only_a_guard_knows():
    """One thread sums, and in front of it all would set the sum to 0, the last of them too late."""

    SumOfAll = parse_kernel("""
        A (64,), S (1,)
        for t in T.thread_binding(8, "threadIdx.x"):
            for k in range(64):
                with T.sblock("S"):
                    v = T.axis.spatial(1, 0)
                    vk = T.axis.reduce(64, k)
                    T.where(t < 1)
                    S[v] += A[vk]
    """)

    sch, block, threads, k = at_block(SumOfAll, "S")
    with refuses(
        sch,
        "loop 't' on 'threadIdx.x' lets only one thread sum in block 'S', and all its threads "
        "would initialize the sum in front of it; choose a loop inside of it",
    ):
        tr.decompose_reduction_at(sch, block, threads)
    tr.decompose_reduction_at(sch, block, k)


@pytest.mark.parametrize("kernel", ["row_argmax", "row_sum"])
def test_decompose_reduction_at_refuses_loops_further_out_of_which_a_guard_lets_some_sum(kernel):
    """A sum of one term, on eight threads: seven would initialize it behind the one that sums."""
    sch = Schedule(get_kernel(kernel).problem(m=4, n=1).module)
    (block,) = sch.get_child_blocks(sch.get_sblock("root"))
    tr.fuse_loops(sch, sch.get_loops(block)[1:])
    tr.tile_block(sch, block, threads=[1, 8], per_thread=[3, 1], tail="guard", fuse_threads=False)
    last = sch.get_loops(block)[5]
    with refuses(
        sch,
        r"a guard lets only some iterations of loop 'k_fused_1' sum in block '\w+', and all of "
        "them would initialize the same sum; leave the initialization in the block, or split that",
    ):
        tr.decompose_reduction_at(sch, block, last)


def test_decompose_reduction_at_refuses_what_does_not_fit():
    sch, block, i, _ = start(Scale, "B")
    with refuses(sch, r"decompose_reduction_at: block 'B' has no initialization to take out; call"):
        tr.decompose_reduction_at(sch, block, i)
    sch, block, _, _, k = start()
    tr.decompose_reduction_at(sch, block, k)
    with refuses(sch, r"decompose_reduction_at: block 'C_update' has no initialization to take"):
        tr.decompose_reduction_at(sch, block, k)
    sch, block, _, _, k = start()
    init = tr.decompose_reduction_at(sch, block, k)
    sch, block, *_ = start()
    other = sch.cache_read(block, 0, "shared")
    loop, _ = sch.get_loops(other)
    with refuses(sch, r"decompose_reduction_at: loop 'ax0' is not around block 'C'; choose one of"):
        tr.decompose_reduction_at(sch, block, loop)
    with refuses(sch, r"decompose_reduction_at: the block handle belongs to another schedule; pas"):
        tr.decompose_reduction_at(sch, init, loop)
    for place in ["j", "k_1"]:
        sch, block, i, j, k = start()
        steps = tr.split_loop(sch, k, inner=2)
        tr.reorder_loops(sch, [i, steps.outer, j, steps.inner])
        with refuses(sch, rf"'{place}' is inside of .* 'k_0', .* would be reset in each"):
            tr.decompose_reduction_at(sch, block, {"j": j, "k_1": steps.inner}[place])
        tr.decompose_reduction_at(sch, block, steps.outer)
    sch, block, i, _, k = start()
    tr.bind_loop(sch, i, axis="blockIdx.x")
    tr.bind_loop(sch, k, axis="threadIdx.x")
    with refuses(
        sch,
        r"decompose_reduction_at: the reduction loop 'k' is bound to 'threadIdx.x', and without its"
        " initialization its threads would race for the sum; leave the initialization in the block",
    ):
        tr.decompose_reduction_at(sch, block, k)


def test_rfactor_reduction_into_two_parts():
    after = """
        C_rf = T.sblock_alloc_buffer((2, 16, 12))
        for k_0, i, j, k_1 in T.grid(2, 16, 12, 3):
            with T.sblock("C_rf", "SSSR", k_0, i, j, k_1):
                with T.init():
                    C_rf[vk_0, vi, vj] = T.float32(0)
                C_rf[vk_0, vi, vj] = (
                    C_rf[vk_0, vi, vj] + A[vi, vk_0 * 3 + vk_1] * B[vk_0 * 3 + vk_1, vj]
                )
        for i, j, k_0 in T.grid(16, 12, 2):
            with T.sblock("C", "RSS", k_0, i, j):
                C[vi, vj] += C_rf[vk_0, vi, vj]
    """

    def change(sch):
        block = sch.get_sblock("C")
        *_, k = sch.get_loops(block)
        partial = tr.rfactor_reduction(sch, block, parts=2)
        assert isinstance(partial, tr.PartialSums)
        assert int(sch.get(partial.parts).extent) == 2
        assert sch.get(sch.get_loops(partial.block)[0]).same_as(sch.get(partial.parts))
        assert_dead(sch, k)
        return partial, block

    check_pair(Matmul, change, after)


@pytest.mark.parametrize("parts", [2, 24])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("matmul", {"dtype": "float16"}),
        ("matmul", {"dtype": "float16", "acc": "float16"}),
        ("matmul", {"dtype": "int8"}),
        ("matmul_bias_relu", {}),
    ],
    ids=str,
)
def test_the_sum_of_the_parts_is_the_sum(name, options, parts):
    problem = get_kernel(name).problem(8, 6, 24, **options)
    sch = Schedule(problem.module, debug_mask="all")
    partial = tr.rfactor_reduction(sch, sch.get_sblock("C"), parts=parts)
    tr.bind_loop(sch, partial.parts, axis="blockIdx.y")
    assert check_numbers(problem, sch.mod, get_device("cpu"), where="parts") == []


@pytest.mark.parametrize("parts", [4, 12])
def test_rfactor_reduction_refuses_parts_that_do_not_divide(parts):
    sch, block, *_ = start()
    with refuses(
        sch,
        rf"rfactor_reduction: loop 'k' runs 6 times, which parts={parts} does not divide; choose a "
        "divisor, or pad the block first with pad_block",
    ):
        tr.rfactor_reduction(sch, block, parts=parts)


def test_rfactor_reduction_refuses_what_does_not_fit():
    sch, block, *_ = start(SymbolicSum, "B")
    with refuses(
        sch, r"loop 'k' runs n times, which parts=2 may not divide; .* pad the block first"
    ):
        tr.rfactor_reduction(sch, block, parts=2)
    sch, block, *_ = start()
    tr.split_reduction(sch, block, inner=2)
    with refuses(sch, r"rfactor_reduction: block 'C' has 2 reduction loops; split a block with"):
        tr.rfactor_reduction(sch, block, parts=3)
    sch, block, *_ = start(Scale, "B")
    with refuses(sch, r"block 'B' has 0 reduction loops and no initialization; split a block with"):
        tr.rfactor_reduction(sch, block, parts=2)
    sch, block, *_, k = start()
    tr.decompose_reduction_at(sch, block, k)
    with refuses(
        sch, r"block 'C_update' has 1 reduction loops and no initialization; .* before it"
    ):
        tr.rfactor_reduction(sch, block, parts=2)
    sch, block, i, _, _ = start()
    tr.split_loop(sch, i, inner=5, tail="guard")
    with refuses(
        sch,
        r"rfactor_reduction: block 'C' has the predicate i_0 \* 5 \+ i_1 < 16, which TVM leaves "
        "out where the parts are added up; call this before its loops are split, or pad",
    ):
        tr.rfactor_reduction(sch, block, parts=2)
    raw, block, *_ = at_block(sch.mod, "C")
    outer, _ = raw.split(raw.get_loops(block)[-1], [2, None])
    partial = raw.rfactor(outer, 0)
    predicates = [str(get_realize(raw, sblock).predicate) for sblock in (partial, block)]
    assert predicates == ["i_0 * 5 + i_1 < 16", "T.bool(True)"]
    sch, block, i, _, _ = start()
    sch.compute_at(sch.cache_read(block, 0, "shared"), i)
    with refuses(sch, r"^rfactor_reduction: TVM refuses: .*is not the reduction block"):
        tr.rfactor_reduction(sch, block, parts=2)


@pytest.mark.parametrize(("place", "axis"), [(0, "blockIdx.x"), (1, "threadIdx.x")])
def test_rfactor_reduction_refuses_a_bound_loop(place, axis):
    sch, block, *loops = start()
    tr.bind_loop(sch, loops[place], axis=axis)
    with refuses(sch, rf"rfactor_reduction: loop '{'ij'[place]}' is already bound to '{axis}'; do"):
        tr.rfactor_reduction(sch, block, parts=2)
