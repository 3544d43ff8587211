"""Elements that several threads or GPU blocks store, where these are not one value all the time."""

import re

import pytest
from kernels import parse_kernel
from pairs import refuses
from tvm.s_tir import Schedule
from tvm.script import from_source

from tirstep.lowering_checks import check_numbers, check_ownership, get_device
from tirstep.modules import Problem, matmul, softmax
from tirstep.transforms import (
    bind_loop,
    cache_read_at,
    compute_block_at,
    split_loop,
)
from tirstep.transforms.legality.owners import find_unowned

SIMULATOR = get_device("simulator")


def tell(axis: str, buffer: str, block: str) -> str:
    who = "threads" if axis.startswith("thread") else "GPU blocks"
    return re.escape(
        f"{who} on '{axis}' would store the same elements of '{buffer}' in block '{block}', "
        "initial values and incomplete sums among them, while others read the complete ones; keep "
        'its results in registers (cache_write_at with scope="local"), place it where one thread '
        "computes each of them, or leave it a kernel of its own"
    )


def start(axis: str) -> tuple[Problem, Schedule]:
    """A softmax with its powers' rows in parts of 8 on an axis, and one GPU block for the rest."""
    problem = softmax.problem(4, 16)
    sch = Schedule(problem.module)
    outer, _ = split_loop(sch, sch.get_loops(sch.get_sblock("exp"))[1], inner=8)
    bind_loop(sch, outer, axis=axis)
    for name in ("sum", "B"):
        bind_loop(sch, sch.get_loops(sch.get_sblock(name))[0], axis="blockIdx.x")
    return problem, sch


@pytest.mark.parametrize("axis", ["blockIdx.x", "threadIdx.x"])
@pytest.mark.parametrize("scope", ["global", "shared"])
def test_rows_that_are_reduced_where_several_threads_use_them(axis: str, scope: str):
    problem, sch = start(axis)
    block, outer = sch.get_sblock("max"), sch.get_loops(sch.get_sblock("exp"))[1]
    plain = sch.copy()
    plain.set_scope(block, 0, scope)
    plain.compute_at(block, outer)
    found = check_numbers(problem, plain.mod, SIMULATOR, where="here")
    if (axis, scope) == ("blockIdx.x", "shared"):  # each GPU block has its own
        assert found == []
        sch.set_scope(block, 0, scope)
        compute_block_at(sch, block, outer)
        return
    assert "race: store to" in str(found[0])
    assert [axis for _, _, axis in find_unowned(plain.mod)] == [axis]
    sch.set_scope(block, 0, scope)
    name = "largest" if scope == "global" else "largest_shared"
    with refuses(sch, tell(axis, name, "max")):
        compute_block_at(sch, block, outer)


def test_rows_that_are_reduced_in_registers_where_several_threads_use_them():
    problem, sch = start("threadIdx.x")
    block = sch.get_sblock("max")
    sch.set_scope(block, 0, "local")
    compute_block_at(sch, block, sch.get_loops(sch.get_sblock("exp"))[1])
    assert check_numbers(problem, sch.mod, SIMULATOR, where="here") == []


def test_binding_a_loop_around_a_reduction_that_does_not_use_it():
    problem = softmax.problem(4, 16)
    sch = Schedule(problem.module)
    block, outer = sch.get_sblock("max"), sch.get_loops(sch.get_sblock("exp"))[1]
    compute_block_at(sch, block, outer)
    with refuses(sch, tell("threadIdx.x", "largest", "max")):
        bind_loop(sch, outer, axis="threadIdx.x")


def copy_rows(axis: str) -> Schedule:
    """A product of which each row is a kernel, and what computes its columns copies a row of A."""
    sch = Schedule(matmul.problem(4, 6, 8).module)
    product = sch.get_sblock("C")
    columns = sch.get_loops(product)[1]
    bind_loop(sch, columns, axis=axis)
    copy = sch.cache_read(product, 0, "global")
    compute_block_at(sch, copy, columns)
    return sch


@pytest.mark.parametrize("axis", ["blockIdx.x", "threadIdx.x"])
def test_what_all_gpu_blocks_compute_alike_is_right(axis: str):
    """Each stores the one value that an element ever has, and reads it back itself.

    The simulator says so in test_simulator_order, test_blocks_may_compute_the_same_twice.
    """
    sch = copy_rows(axis)
    assert find_unowned(sch.mod) == {}
    text = sch.mod.script().replace("= A[v0, v1]", "= A_global[v0, v1] + A[v0, v1]")
    assert len(find_unowned(from_source(text))) == 1


TwoWriters = parse_kernel("""
    A (8,), B (8,)
    T.func_attr({"tirx.noalias": True})
    for i in T.thread_binding(8, thread="threadIdx.x"):
        with T.sblock("zero"):
            vi = T.axis.spatial(8, 7 - i)
            B[vi] = T.float32(0.0)
        with T.sblock("copy"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
""")


def test_two_blocks_that_store_an_element_by_other_threads():
    assert len(find_unowned(TwoWriters)) == 1
    text = TwoWriters.script()
    assert find_unowned(from_source(text.replace("7 - i", "i"))) == {}
    (fault,) = find_unowned(TwoWriters).values()
    assert fault.problem == (
        "blocks 'zero' and 'copy' would store the same elements of 'B' in one kernel by other "
        "threads or GPU blocks on 'threadIdx.x', and nothing orders these"
    )


def test_a_store_behind_a_guard_has_one_thread():
    """A sum in global memory that the first thread of a GPU block computes for itself."""
    text = Guarded.script()
    assert find_unowned(Guarded) == {}
    (fault,) = find_unowned(from_source(text.replace("t < 1", "t < 2"))).values()
    assert fault.problem.startswith("threads on 'threadIdx.x' would store the same elements of 'B'")


Guarded = parse_kernel("""
    A (8,), B (1,)
    T.func_attr({"tirx.noalias": True})
    for t in T.thread_binding(8, thread="threadIdx.x"):
        for k in range(8):
            with T.sblock("sum"):
                vi = T.axis.spatial(1, 0)
                vk = T.axis.reduce(8, k)
                T.where(t < 1)
                B[vi] += A[vk]
""")


@pytest.mark.parametrize(("index", "is_own"), [("vi * n + vj", True), ("vj", False)])
def test_open_sizes_and_numbers_of_the_caller(index: str, is_own: bool):
    """At n = 0, which is tried for what is not known, all rows would be one."""
    text = f"""
@I.ir_module
class Open:
    @T.prim_func(s_tir=True)
    def main(a: T.handle, b: T.handle, m: T.int32, n: T.int32, shift: T.int32):
        A = T.match_buffer(a, (m * n, 16), "int32")
        s = T.match_buffer(b, (m * n,), "int32")
        for i in T.thread_binding(m, thread="blockIdx.x"):
            for j in T.thread_binding(n, thread="blockIdx.y"):
                for k in range(16):
                    with T.sblock("s"):
                        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                        with T.init():
                            s[{index}] = 0
                        s[{index}] = s[{index}] + A[{index}, vk]
"""
    assert (find_unowned(from_source(text)) == {}) == is_own
    shifted = text.replace(f"s[{index}]", f"s[{index} * shift]")
    assert find_unowned(from_source(shifted)) == {}, "shift is nobody's size"


LAUNCHES = """
A (4, 8) int32, B (5, 8) int32
T.func_attr({"tirx.noalias": True})
for r in range(4):
    for t in T.thread_binding(8, thread="threadIdx.x"):
        with T.sblock("B"):
            vr, vt = T.axis.remap("SS", [r, t])
            B[0, INDEX] = B[vr, 7 - vt] + A[vr, vt]
"""


def test_launches_are_in_order():
    """A loop on the host launches its kernel anew: what other threads wrote before is there."""
    assert find_unowned(parse_kernel(LAUNCHES.replace("INDEX", "vr + vt"))) == {}
    apart = find_unowned(parse_kernel(LAUNCHES.replace("INDEX", "vr + vt // 2")))
    assert [*apart] == [("B", "B", "threadIdx.x")]


NESTED = """
A (32, 8), B (32, 8)
for i in T.thread_binding(8, thread="blockIdx.x"):
    for t in T.thread_binding(4, thread="threadIdx.x"):
        with T.sblock("row"):
            vi = T.axis.spatial(32, i * 4 + t)
            T.reads(A[vi, 0:8])
            T.writes(B[vi, 0:8])
            for j in range(8):
                with T.sblock("B"):
                    vj = T.axis.spatial(8, j)
                    B[vi, vj] = A[vi, vj] + T.float32(1)
"""


def test_a_copy_in_a_block_of_each_thread_is_shared_by_all_of_them():
    """A block in another one gets a buffer of its own size, which 4 threads would fill at once."""
    sch = Schedule(parse_kernel(NESTED))
    block = sch.get_sblock("B")
    loop = sch.get_loops(block)[0]
    with refuses(
        sch,
        "threads on 'threadIdx.x' would store the same elements of 'A_shared' in block 'A_shared', "
        "each a value of its own; keep its results in registers",
    ):
        cache_read_at(sch, block, loop, operand=0)
    for text in (NESTED, NESTED.replace("(4, thread", "(1, thread").replace("i * 4", "i")):
        sch = Schedule(parse_kernel(text))
        block = sch.get_sblock("B")
        scope = "local" if text is NESTED else "shared"
        cache_read_at(sch, block, sch.get_loops(block)[0], operand=0, scope=scope)
        assert check_ownership(sch.mod) == []
