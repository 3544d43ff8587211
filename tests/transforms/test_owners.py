"""Elements that several threads or thread blocks store, where the values are not always equal."""

import re

import pytest
from kernels import at_block, parse_kernel
from pairs import refuses
from tvm.s_tir import Schedule
from tvm.script import from_source

from tirstep import transforms as tr
from tirstep.lowering_checks import check_ownership
from tirstep.lowering_checks.legality.stores import find_unowned
from tirstep.modules import softmax


def tell(axis: str, buffer: str, block: str) -> str:
    who = "threads" if axis.startswith("thread") else "thread blocks"
    return re.escape(
        f"{who} on '{axis}' would store the same elements of '{buffer}' in block '{block}', "
        "initial values and incomplete sums among them, while others read final ones; keep "
        'its results in registers (cache_write_at with scope="local"), place it where one thread '
        "computes each of them, or leave it a kernel of its own"
    )


def test_binding_a_loop_around_a_reduction_that_does_not_use_it():
    problem = softmax.problem(4, 16)
    sch = Schedule(problem.module)
    block, outer = sch.get_sblock("max"), sch.get_loops(sch.get_sblock("exp"))[1]
    tr.compute_block_at(sch, block, outer)
    with refuses(sch, tell("threadIdx.x", "largest", "max")):
        tr.bind_loop(sch, outer, axis="threadIdx.x")


TwoWriters = parse_kernel("""
    A (8,), B (8,)
    T.func_attr({"tirx.noalias": True})
    for i in T.thread_binding(8, thread="threadIdx.x"):
        with T.sblock("zero"):
            vi = T.axis.spatial(8, 7 - i)
            B[vi] = T.float32(0.0)
        with T.sblock("copy", "S", i):
            B[vi] = A[vi]
""")


def test_two_blocks_that_store_an_element_by_other_threads():
    assert len(find_unowned(TwoWriters)) == 1
    text = TwoWriters.script()
    assert find_unowned(from_source(text.replace("7 - i", "i"))) == {}
    (fault,) = find_unowned(TwoWriters).values()
    assert fault.problem == (
        "blocks 'zero' and 'copy' would store the same elements of 'B' in one kernel by "
        "different threads or thread blocks on 'threadIdx.x', in no order"
    )


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
    sch, block, *_ = at_block(parse_kernel(NESTED), "B")
    loop = sch.get_loops(block)[0]
    with refuses(
        sch,
        "threads on 'threadIdx.x' would store the same elements of 'A_shared' in block 'A_shared', "
        "each a value of its own; keep its results in registers",
    ):
        tr.cache_read_at(sch, block, loop, operand=0)
    for text in (NESTED, NESTED.replace("(4, thread", "(1, thread").replace("i * 4", "i")):
        sch, block, *_ = at_block(parse_kernel(text), "B")
        scope = "local" if text is NESTED else "shared"
        tr.cache_read_at(sch, block, sch.get_loops(block)[0], operand=0, scope=scope)
        assert check_ownership(sch.mod) == []


def test_shared_memory_of_a_block_behind_a_guard_which_ends_tvm_s_process():
    whole = NESTED.replace('T.thread_binding(4, thread="threadIdx.x")', "range(1)")
    for guard, is_refused in (("T.where(i * 4 + t < 29)", True), ("pass", False)):
        text = whole.replace("T.reads(A", f"{guard}\n            T.reads(A")
        sch, block, loop, *_ = at_block(parse_kernel(text), "B")
        tr.cache_read_at(sch.copy(), block, loop, operand=0, scope="local")
        if is_refused:
            with refuses(sch, "'A_shared' would be shared memory of block 'row', which is under"):
                tr.cache_read_at(sch, block, loop, operand=0)
        else:
            tr.cache_read_at(sch, block, loop, operand=0)
