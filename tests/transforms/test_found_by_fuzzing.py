"""What tests/fuzz_schedules.py found: public transforms alone made these, and they were wrong.

Each test shows first that the schedule is wrong, and then which check names it or which transform
refuses it.
"""

import pytest
from kernels import at_block
from pairs import find_wrong, refuses
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep import transforms as tr
from tirstep.lowering_checks import DeviceError, get_device
from tirstep.lowering_checks.legality.accesses import find_outside
from tirstep.lowering_checks.ownership import check_ownership
from tirstep.modules import (
    Problem,
    depthwise_conv2d,
    get_kernel,
    matmul,
    softmax,
    transpose,
    window_sum,
)
from tirstep.transforms.recipes import RECIPES


def test_a_padding_that_reads_what_other_threads_write():
    """What a padding reads, it reads under a condition: the loops alone decide it."""
    problem = softmax.problem(1, 32, online=True)
    sch = Schedule(problem.module)
    tr.pad_block(sch, sch.get_sblock("statistics"), multiples=(2, 4))
    wide, padding = sch.get_sblock("wide"), sch.get_sblock("W_pad")
    outer, inner = sch.get_loops(padding)
    tr.reverse_compute_block_at(sch, wide, outer)
    tr.bind_loop(sch, tr.split_loop(sch, inner, inner=8).outer, axis="threadIdx.x")
    tr.bind_loop(
        sch, tr.split_loop(sch, sch.get_loops(wide)[-1], inner=4).inner, axis="threadIdx.x"
    )
    sentence = "block 'W_pad' would read elements of 'W' that others on 'threadIdx.x' write"
    with refuses(sch, sentence):  # until then there are two kernels, launched one after the other
        tr.bind_loop(sch, outer, axis="blockIdx.x")
    sch.bind(outer, "blockIdx.x")
    for block in sch.get_child_blocks(sch.get_sblock("root")):
        if sch.get(sch.get_loops(block)[0]).thread_binding is None:
            tr.bind_loop(sch, sch.get_loops(block)[0], axis="blockIdx.x")
    assert "race" in find_wrong(problem, sch.mod)[0]
    messages = [finding.message for finding in check_ownership(sch.mod)]
    assert any(message.startswith(sentence) for message in messages)


def test_what_a_let_reads_other_threads_write():
    """T.let binds what "statistics" reads, in statements before its stores."""
    problem = softmax.problem(8, 40, online=True)
    sch = Schedule(problem.module)
    wide, statistics, last = map(sch.get_sblock, ("wide", "statistics", "B"))
    row, column = sch.get_loops(wide)
    tr.bind_loop(sch, tr.split_loop(sch, column, inner=8).inner, axis="threadIdx.x")
    tr.reverse_compute_block_at(sch, statistics, row)
    tr.bind_loop(sch, sch.get_loops(last)[0], axis="blockIdx.x")
    sentence = "block 'statistics' would read elements of 'W' that others on 'threadIdx.x' write"
    _, inner = tr.split_loop(sch, sch.get_loops(statistics)[1], inner=8, tail="guard")
    tr.bind_loop(sch, row, axis="blockIdx.x")
    with refuses(sch, sentence):
        tr.bind_loop(sch, inner, axis="threadIdx.x")
    sch.bind(inner, "threadIdx.x")
    assert "race" in find_wrong(problem, sch.mod)[0]
    messages = [finding.message for finding in check_ownership(sch.mod)]
    assert any(message.startswith(sentence) for message in messages)


@I.ir_module
class BoundIndices:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in T.serial(16):
            with T.sblock("B"):
                v = T.axis.spatial(16, i)
                with T.attr(0, "pragma_note", 1):
                    after: T.let[T.int32] = v + 1
                    value: T.let[T.float32] = A[after] * T.float32(2)
                    B[v] = value


def test_an_index_that_a_let_binds_is_out_of_bounds():
    assert find_outside(BoundIndices) == {("B", "read", "A"): ("B", "read", "A", 0, 16)}


@pytest.mark.parametrize("parts", [1, 2])
def test_threads_that_take_one_element_each_of_an_online_softmax(parts: int):
    """Masked elements, -inf, are a thread's own maximum: scales of exp(-inf - -inf) are NaNs."""
    problem = softmax.problem(4, 16, online=True)

    def spread(sch: Schedule):
        for block in sch.get_child_blocks(sch.get_sblock("root")):
            sch.bind(sch.get_loops(block)[0], "blockIdx.x")
        loop = sch.get_loops(sch.get_sblock("statistics"))[1]
        return (loop,) if parts == 1 else sch.split(loop, [4, 4])

    sch = Schedule(problem.module)
    plain = sch.copy()
    for loop, axis in zip(spread(plain), ("threadIdx.x", "threadIdx.y"), strict=False):
        plain.bind(loop, axis)
    assert "is nan, and NumPy has" in find_wrong(problem, plain.mod)[0]
    *first, last = spread(sch)
    for loop in first:
        tr.bind_loop(sch, loop, axis="threadIdx.y")
    name = sch.get(last).loop_var.name
    with refuses(
        sch,
        f"bind_loop: loop '{name}' is a reduction of block 'statistics', and each thread "
        f"would start from its one element, instead of -inf: masked elements, which are",
    ):
        tr.bind_loop(sch, last, axis="threadIdx.x")
    tr.bind_loop(sch, tr.split_loop(sch, last, inner=1).outer, axis="threadIdx.x")
    assert find_wrong(problem, sch.mod) == []


def test_a_padding_in_guarded_loops_that_is_moved_under_its_fetch():
    """The guarded loops run more often than the padding has elements, the guard's part less."""
    problem = depthwise_conv2d.problem(2, 2, 3, 4, 3)

    sch, block, *_ = at_block(problem.module, "padded")
    tile = tr.tile_block(sch, block, threads=(4, 8), tail="guard")
    copy = tr.cache_read_at(sch, block, tile.threads[1], operand=0, scope="local")
    loop = sch.get_loops(copy)[-2]
    plain = sch.copy()
    plain.reverse_compute_at(block, loop, preserve_unit_loops=True)
    assert "elements are wrong" in find_wrong(problem, plain.mod, "cpu")[0]
    with refuses(
        sch, "reverse_compute_block_at: block 'padded' would compute 48 of its 120 elements, only"
    ):
        tr.reverse_compute_block_at(sch, block, loop)


def stage_twice(sch: Schedule) -> SBlockRV:
    """A tile that each thread fetches into shared memory, and from there into other such memory."""
    block = sch.get_sblock("C")
    tr.tile_block(sch, block, threads=(8, 8), tail="guard")
    k = tr.split_loop(sch, sch.get_loops(block)[-1], inner=16, tail="guard").outer
    copy = tr.stage_operand_at(sch, block, k, operand=0, threads=(8, 8))
    return tr.cache_read_at(sch, copy, sch.get_loops(copy)[-3], operand=0, scope="shared")


@pytest.mark.parametrize("row", [4, 5])
@pytest.mark.parametrize("first", ["fetched", "folded"])
def test_a_tile_of_which_tvm_keeps_the_elements_of_one_thread(row: int, first: str):
    """TVM takes x % 13 % 4 of one thread for all that a tile's threads put there."""
    problem = matmul.problem(4, 2, 13)

    def fold(sch: Schedule, copy: SBlockRV) -> None:
        sch.transform_layout(
            copy, ("write", 0), lambda i, k: (i, k // row, k % row), assume_injective_transform=True
        )

    sch = Schedule(problem.module)
    copy = stage_twice(sch)
    plain = sch.copy()
    tr.fetch_cooperatively(plain, copy, threads=(8, 8), tail="guard")
    fold(plain, copy)
    assert "race" in find_wrong(problem, plain.mod)[0]
    if first == "fetched":
        tr.fetch_cooperatively(sch, copy, threads=(8, 8), tail="guard")
        with refuses(sch, r"fold_tile: TVM would make 'A_shared' smaller, as if each thread had"):
            tr.fold_tile(sch, copy, row=row)
    else:
        tr.fold_tile(sch, copy, row=row)
        with refuses(sch, r"fetch_cooperatively: TVM would make 'A_shared' smaller, as if each"):
            tr.fetch_cooperatively(sch, copy, threads=(8, 8), tail="guard")


def copy_out_of_vectors(
    problem: Problem, offset: int
) -> tuple[Schedule, SBlockRV, SBlockRV, LoopRV]:
    """A copy in registers, in vectors whose first element lies `offset` places within, and its copy
    in shared memory."""
    sch, block, *_ = at_block(problem.module, "C")
    outer = tr.tile_block(sch, block, threads=(64,), tail="guard").blocks[0]
    second = tr.cache_read_at(sch, block, outer, operand=0)
    first = tr.cache_read_at(sch, second, outer, operand=0, scope="local")
    tr.align_vectors(sch, first, vector=4, offset=offset)
    return sch, first, second, sch.get_loops(first)[1]


@pytest.mark.parametrize("offset", [1, 3])
def test_vectors_with_an_offset_that_are_copied_on_one_by_one(offset: int):
    """TVM takes a reader at ``(i + 3) // 4`` for one at ``i // 4``: it reads the next vectors."""
    problem = window_sum.problem(37, width=3)
    sch, first, second, loop = copy_out_of_vectors(problem, offset)
    plain = sch.copy()
    plain.reverse_compute_at(second, loop, preserve_unit_loops=True)
    assert "uninitialized read" in find_wrong(problem, plain.mod)[0]
    sentence = "block 'A_shared' would use elements of 'A_local' that block 'A_local' does not comp"
    with refuses(sch, f"reverse_compute_block_at: {sentence}"):
        tr.reverse_compute_block_at(sch, second, loop)
    with refuses(sch, f"fuse_epilogue_at: {sentence}"):
        tr.fuse_epilogue_at(sch, first, second, loop)


def test_vectors_without_an_offset_that_are_copied_on_one_by_one():
    problem = window_sum.problem(36, width=3)
    sch, first, second, loop = copy_out_of_vectors(problem, 0)
    tr.fuse_epilogue_at(sch, first, second, loop)
    assert find_wrong(problem, sch.mod) == []


def test_a_kernel_in_a_loop_that_is_unrolled():
    """TVM copies the loops of the threads, too, and finds the variables of the first ones only."""
    problem = transpose.problem(4, 8)
    sch, _, rows, columns = at_block(problem.module, "B")
    plain = sch.copy()
    plain.unroll(rows)
    plain.bind(columns, "threadIdx.x")
    with pytest.raises(DeviceError, match=r"variables .* are used, but are not passed in"):
        get_device("simulator").compile(plain.mod)

    tr.unroll_loop(sch, rows)
    sentence = "loop 'i' would be unrolled around the kernel of loop 'j', and TVM does not copy"
    with refuses(sch, f"bind_loop: {sentence}"):
        tr.bind_loop(sch, columns, axis="threadIdx.x")
    sch, _, rows, columns = at_block(problem.module, "B")
    tr.bind_loop(sch, columns, axis="threadIdx.x")
    with refuses(sch, f"unroll_loop: {sentence}"):
        tr.unroll_loop(sch, rows)


def test_threads_that_reduce_a_block_of_blocks():
    """TVM refuses it where it lowers the block: it adds up what one block computes."""
    sch = Schedule(matmul.problem(16, 16, 32, dtype="float16").module)
    made = tr.tile_in_fragments(sch, sch.get_sblock("C"), tile=(16, 16), warp=(16, 16), tile_k=16)
    with refuses(sch, "loop 'k_0' is a reduction of block 'C_o', which contains another block,"):
        tr.bind_loop(sch, made.outer, axis="threadIdx.x")


@pytest.mark.parametrize("last", ["vthread.x", "threadIdx.x"])
def test_virtual_threads_and_a_sum_over_threads(last: str):
    """TVM adds up over threads for one of 16 virtual threads; of 8 it lowers none."""
    problem = matmul.problem(16, 16, 32)
    sch, _, i, j, k = at_block(problem.module, "C")
    tr.bind_loop(sch, i, axis="blockIdx.x")
    axes = {"vthread.x": j, "threadIdx.x": k}
    other = next(axis for axis in axes if axis != last)
    tr.bind_loop(sch, axes[other], axis=other)
    with refuses(sch, "TVM would sum for one virtual thread only"):
        tr.bind_loop(sch, axes[last], axis=last)
    sch.bind(axes[last], last)
    assert "elements are wrong" in find_wrong(problem, sch.mod)[0]


def test_one_virtual_thread_may_sum_over_threads():
    problem = matmul.problem(16, 16, 32)
    sch, _, i, j, k = at_block(problem.module, "C")
    for loop, axis in ((i, "blockIdx.x"), (k, "threadIdx.x")):
        tr.bind_loop(sch, loop, axis=axis)
    tr.bind_loop(sch, tr.split_loop(sch, j, inner=1).inner, axis="vthread.x")
    assert find_wrong(problem, sch.mod) == []


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("inner", [2, 8])
def test_a_pipeline_of_a_sum_that_is_not_decomposed(asynchronous: bool, inner: int):
    """TVM makes two statements of a block that begins its sum, and refuses notes for one."""
    problem = matmul.problem(3, 7, 16)
    sch, block, *_ = at_block(problem.module, "C")
    outer, loop = tr.split_reduction(sch, block, inner=inner)
    rows, columns, *_ = sch.get_loops(block)
    tr.bind_loop(sch, rows, axis="blockIdx.x")
    tr.bind_loop(sch, columns, axis="threadIdx.x")
    copies = [
        tr.stage_operand_at(sch, block, loop, operand=operand, threads=7, tail="guard")
        for operand in range(2)
    ]
    if asynchronous:
        tr.prefetch_asynchronously(sch, loop, copies, stages=2)
    else:
        tr.prefetch_through_registers(sch, loop, copies)
    assert find_wrong(problem, sch.mod) == []
    assert find_wrong(problem, sch.mod, "cpu") == []
    with refuses(sch, "is a pipeline of .* statements, and its body would have"):
        tr.decompose_reduction_at(sch, block, outer)


def copy_in_a_pipeline(*, vector: int) -> tuple[Problem, Schedule, SBlockRV, LoopRV]:
    """A column of threads that each read a row, which one of them after the other copies whole."""
    problem = transpose.problem(3, 24)
    sch, block, threads, rows = at_block(problem.module, "B")
    tr.bind_loop(sch, threads, axis="threadIdx.x")
    copy = tr.cache_read_at(sch, block, rows, operand=0)
    tr.vectorize_copy(sch, copy, vector=vector)
    return problem, sch, copy, rows


def test_an_asynchronous_copy_of_neighbours_one_by_one():
    """TVM makes one call of such a loop, for an engine that copies, and CUDA has none."""
    _, sch, copy, rows = copy_in_a_pipeline(vector=1)
    plain = sch.copy()
    for name, value in (("stage", [0, 1]), ("order", [0, 1]), ("async_stages", [0])):
        plain.annotate(rows, f"software_pipeline_{name}", value)
    tr.set_pass_option(plain, name="tirx.use_async_copy", value=True)
    with pytest.raises(DeviceError, match="dma_start_group"):
        get_device("simulator").compile(plain.mod)
    with refuses(sch, "block 'A_shared' copies adjacent elements one by one in loop 'ax1'"):
        tr.prefetch_asynchronously(sch, rows, [copy], stages=2)
    _, sch, copy, rows = copy_in_a_pipeline(vector=4)
    tr.prefetch_asynchronously(sch, rows, [copy], stages=2)
    get_device("simulator").compile(sch.mod)


def test_a_copy_through_registers_keeps_its_loops_and_its_memory():
    _, sch, copy, rows = copy_in_a_pipeline(vector=4)
    tr.prefetch_through_registers(sch, rows, [copy])
    get_device("simulator").compile(sch.mod)
    own = sch.get_loops(copy)[-2]
    plain = sch.copy()
    plain.unroll(own)
    with pytest.raises(DeviceError, match="Expect the ancestor loops to be serial"):
        get_device("simulator").compile(plain.mod)
    with refuses(sch, "block 'A_shared' would copy through registers in loop '.*', which is unr"):
        tr.unroll_loop(sch, own)
    with refuses(sch, "block 'A_shared' would copy through registers to scope 'local'"):
        tr.keep_in_registers(sch, copy)


def test_padded_rows_are_none_that_the_tma_writes():
    sch = Schedule(matmul.problem(32, 32, 64, dtype="float16").module)
    tile = tr.tile_in_fragments(sch, sch.get_sblock("C"), tile=(32, 32), warp=(16, 16), tile_k=32)
    copy = tr.stage_fragments_at(
        sch, tile.block, tile.outer, operand=0, warps=4, vector=2, layout="padded"
    )
    with refuses(sch, "prefetch_by_tma: block 'A_shared.dyn' writes rows with padding in between"):
        tr.prefetch_by_tma(sch, tile.outer, [copy], stages=2)


def test_a_copy_of_one_place_of_a_swizzled_region_would_write_all_of_it():
    """By 128 threads, each of which has filled one of eight places."""
    sch = Schedule(matmul.problem(64, 64, 128, dtype="float16", transpose_b=True).module)
    block = sch.get_sblock("C")
    loop = sch.get_loops(block)[1]
    copy = tr.stage_swizzled_at(sch, block, loop, operand=0, warpgroups=1, vector=1, tail="guard")
    place = sch.get_loops(copy)[-1]
    with refuses(sch, "cache_write_at: block 'A_shared.dyn' writes single elements, within a"):
        tr.cache_write_at(sch, copy, place, scope="shared")


def test_a_guard_of_quotients_made_a_tile_of_one_column():
    """The threads of an image's columns stored into one place of a tile that TVM made too small."""
    problem = get_kernel("conv2d").problem(1, 4, 8, 4, 4, 3, 1, padding=2)
    sch = Schedule(problem.module)
    RECIPES["conv2d_naive"](sch)
    block = sch.get_sblock("Y_update")
    copy = tr.cache_read_at(sch, block, sch.get_loops(block)[2], operand=1, scope="local")
    place = sch.get_loops(copy)[4]
    plain = sch.copy()
    plain.reverse_compute_at(plain.cache_write(copy, 0, "shared.dyn"), place)
    assert find_wrong(problem, plain.mod) != []
    with refuses(
        sch, "cache_write_at: TVM would make 'X_local_shared.dyn' smaller, as if each thr"
    ):
        tr.cache_write_at(sch, copy, place, scope="shared.dyn")


def test_a_block_within_another_has_no_copy_of_its_own_sum():
    """Of a reduction that a user made a block of, TVM's cache_read ends the process."""
    sch = Schedule(matmul.problem(8, 8, 8).module)
    sch.blockize(sch.get_loops(sch.get_sblock("C"))[1])
    block = sch.get_sblock("C")
    loop = sch.get_loops(block)[0]
    with refuses(sch, "operand 0 of block 'C', 'C', is what the block itself writes, and TVM"):
        tr.cache_read_at(sch, block, loop, operand=0)
