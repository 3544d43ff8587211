"""Dynamic shared memory that TVM merges wrongly where its storage rewrite is off."""

import pytest
from kernels import at_block
from pairs import find_wrong, refuses
from tvm.s_tir import Schedule
from tvm.tirx import Broadcast, Ramp, Var

from tirstep import transforms as tr
from tirstep.lowering_checks import DeviceError, check_numbers, get_device
from tirstep.lowering_checks.legality.storage_reuse import find_offset, find_overlaps
from tirstep.modules import get_kernel, matmul
from tirstep.transforms.recipes import RECIPES

OPTION = "tirx.disable_storage_rewrite"
SCOPE = "shared.dyn"
PROBLEM = matmul.problem(40, 32, 16, dtype="int8", transpose_b=True)


def schedule_four_buffers() -> Schedule:
    """A small tile that is copied to a larger one, which is still read when B's tile comes."""
    sch, block, *_ = at_block(PROBLEM.module, "C")
    tr.pad_block(sch, block, multiples=(16, 16, 32))
    tile = tr.tile_in_fragments(sch, block, tile=(16, 32), warp=(16, 16), tile_k=32, depth=32)
    store = tr.store_through_shared(
        sch, tile.block, tile.grid, tile.warps, columns=32, warps=2, vector=4
    ).store
    a = tr.stage_fragments_at(
        sch, tile.block, tile.outer, operand=0, warps=2, vector=1, tail="guard"
    )
    tr.stage_fragments_at(
        sch, tile.block, tile.inner, operand=1, warps=2, vector=4, layout="padded"
    )
    places = (tile.inner, sch.get_loops(tile.block)[4])
    loads = [
        tr.cache_read_at(sch, tile.block, place, operand=operand, scope="local")
        for operand, place in enumerate(places)
    ]
    tr.stage_operand_at(
        sch, a, tile.grid, operand=0, threads=(2, 32), vector=2, scope="shared.dyn", tail="guard"
    )
    zeros = tr.decompose_reduction_at(sch, tile.block, tile.outer)
    tr.tensorize_fragments(sch, tile.block, loads, zeros, store)
    return sch


def test_a_place_that_a_larger_buffer_takes_over():
    sch = schedule_four_buffers()
    assert find_wrong(PROBLEM, sch) == []
    with refuses(sch, "TVM would let another buffer overlap 'A_pad_shared.dyn' while that is"):
        tr.set_pass_option(sch, name=OPTION, value=True)
    raw = sch.copy()
    raw.annotate(raw.get_sblock("root"), f"pass_config.{OPTION}", True)
    assert find_overlaps(raw.mod) == ["A_pad_shared.dyn"]
    assert "another buffer's value is in its place" in find_wrong(PROBLEM, raw)[0]


@pytest.mark.parametrize("lanes", [1, 4])
def test_the_place_of_a_buffer_is_what_is_added_to_each_lane(lanes: int):
    i, j = Var("i", "int32"), Var("j", "int32")
    index = i * 8 + 8 if lanes == 1 else Ramp(i * 8 + 8, 1, lanes)
    place = 1088 if lanes == 1 else Broadcast(1088, lanes)
    assert find_offset(index, index) == 0
    assert find_offset(index, index + place) == 1088
    assert find_offset(index, place + index) == 1088
    other = j * 8 + 8 if lanes == 1 else Ramp(j * 8 + 8, 1, lanes)
    assert find_offset(index, other + place) is None


def schedule_result_behind_tile(
    dtype: str, scope: str = SCOPE, threads: int = 4
) -> tuple[Schedule, list[object]]:
    """Sums of rows whose tile of A is in dynamic shared memory, and where their results begin."""
    sch = Schedule(get_kernel("row_sum").problem(m=8, n=16, dtype=dtype, acc="float32").module)
    block = sch.get_sblock("B")
    tr.tile_block(sch, block, threads=(threads,), fuse_threads=False)
    tr.accumulate_in_registers(sch, block, sch.get_loops(block)[1])
    tr.decompose_reduction_at(sch, block, sch.get_loops(block)[2])
    update = sch.get_sblock("B_update")
    tr.cache_read_at(sch, update, sch.get_loops(update)[2], operand=1, scope=scope)
    store = sch.get_sblock("B_local")
    return sch, [store, sch.get_loops(store)[1]]


def test_results_of_another_type_in_the_place_of_a_tile_that_others_still_read():
    """Each thread reads its row of the tile in its last step, and stores its sum over another's."""
    sch, (store, loop) = schedule_result_behind_tile("float16")
    with refuses(sch, "TVM would put 'B_shared.dyn' in the place of 'A_shared.dyn' without a"):
        tr.cache_write_at(sch, store, loop, scope=SCOPE)
    tr.cache_write_at(sch, store, loop, scope="shared")
    problem = get_kernel("row_sum").problem(m=8, n=16, dtype="float16", acc="float32")
    assert check_numbers(problem, sch.mod, get_device("simulator"), where="here") == []


def test_two_buffers_of_one_thread_to_which_tvm_gives_no_place():
    """The refusal was TVM's own error, with the advice to choose smaller sizes."""
    sch, (store, loop) = schedule_result_behind_tile("float16", threads=1)
    tr.cache_write_at(sch, store, loop, scope=SCOPE)
    with pytest.raises(DeviceError, match="is not allocated in the kernel: keep it in scope"):
        get_device("simulator").compile(sch.mod)
    sch, (store, loop) = schedule_result_behind_tile("float16", threads=1)
    tr.cache_write_at(sch, store, loop, scope="shared")
    get_device("simulator").compile(sch.mod)


def test_a_tile_of_28_bytes_behind_which_two_tiles_get_one_place() -> None:
    """TVM frees it where the tiles are filled, and puts the second one over the first."""
    problem = matmul.problem(4, 16, 7, dtype="int8", acc="int32", out="int32", transpose_b=True)
    sch = Schedule(problem.module)
    sizes = {"stages": 3, "tile_k": 32, "tile": (32, 16), "warp": (16, 16), "tail": "pad"}
    for _ in RECIPES["matmul_mma_async"].run(sch, **sizes):
        pass
    block = sch.get_sblock("A_pad_shared.dyn")
    loop = sch.get_loops(block)[0]
    with refuses(sch, "TVM would put 'B_pad_shared.dyn' in the place of 'A_pad_shared.dyn'"):
        tr.cache_read_at(sch, block, loop, operand=0, scope="shared.dyn")
