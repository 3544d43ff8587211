"""Transforms for wgmma: pairs out of the goldens of matmul_wgmma, and what they refuse."""

import pytest
import tvm
from golden_runs import read_step
from kernels import at_block
from pairs import check_pair, refuses
from tvm.s_tir import Schedule

from tirstep import transforms as tr
from tirstep.lowering_checks import get_device, run_golden
from tirstep.modules import get_kernel, matmul
from tirstep.transforms.recipes import RECIPES

SIMULATOR = get_device("simulator")


def read(step: str, recipe: str = "matmul_wgmma_swizzled") -> tvm.IRModule:
    return read_step(step, recipe)


def half(m: int = 128, n: int = 64, k: int = 192, **options) -> Schedule:
    return Schedule(matmul(m, n, k, **{"dtype": "float16", **options}))


def tile(sch: Schedule, block=None, **changes) -> tr.WarpgroupTile:
    sizes = {"tile": (64, 32), "warpgroup": (64, 32), "tile_k": 64, **changes}
    return tr.tile_in_warpgroups(sch, block or sch.get_sblock("C"), **sizes)


def stage(sch: Schedule, made: tr.WarpgroupTile, operand: int = 0, **changes):
    sizes = {"warpgroups": 1, "vector": 8, "tail": "guard", **changes}
    return tr.stage_swizzled_at(sch, made.block, made.outer, operand=operand, **sizes)


def prepare(sch: Schedule, vector: int = 8, **changes):
    """All that comes before tensorize_warpgroups: the tile, the copies, and the blocks."""
    made = tile(sch, **changes)
    store = tr.accumulate_in_registers(sch, made.block, made.warpgroups)
    copies = [stage(sch, made, operand, vector=vector) for operand in range(2)]
    zeros = tr.decompose_reduction_at(sch, made.block, made.outer)
    return made, copies, (zeros, store)


# ---- Pairs


def test_tile_in_warpgroups_pair() -> None:
    before = get_kernel("matmul").problem(128, 256, 192, dtype="float16").module
    check_pair(before, lambda sch: list(tile(sch)), read("01_tiled"))


def test_stage_swizzled_at_pair() -> None:
    def change(sch: Schedule):
        block = sch.get_sblock("C")
        outer = sch.get_loops(block)[2]
        return tr.stage_swizzled_at(
            sch, block, outer, operand=0, warpgroups=1, vector=8, tail="guard"
        )

    before, after = read("02_accumulated_in_registers"), read("03_A_in_shared_memory")
    check_pair(before, change, after, is_verified=False)


def test_tensorize_warpgroups_pair() -> None:
    def change(sch: Schedule) -> None:
        block, zeros, store = (sch.get_sblock(f"C_{name}") for name in ("update", "init", "local"))
        names = tr.tensorize_warpgroups(sch, block, zeros, store)
        assert names.store == "tirstep_wgmma_store_32_float32_as_float32_global"
        tr.set_pipeline(sch)

    check_pair(read("05_decomposed"), change, read("06_tensorized"), is_verified=False)


# ---- Numbers


def test_tf32_is_multiplied_where_it_is_meant() -> None:
    sch = half(dtype="float32")
    made, _, (zeros, store) = prepare(sch, vector=4, tile_k=32)
    with refuses(sch, "float32 operands would be rounded to the 10 bits of TF32; pass tf32=True"):
        tr.tensorize_warpgroups(sch, made.block, zeros, store)
    tr.tensorize_warpgroups(sch, made.block, zeros, store, tf32=True)
    problem = matmul.problem(128, 64, 192, dtype="float32")
    run = SIMULATOR.compile(sch.mod)
    a, b = problem.integer_inputs(0)
    *_, c = run([a, b, 0 * (a @ b)])
    assert list(run.findings) == []
    assert (c == a @ b).all()


# ---- Refusals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"warpgroup": (32, 32)}, r"=\(32, 32\) must be a multiple of 64 rows and 8 columns"),
        ({"warpgroup": (64, 12)}, r"=\(64, 12\) must be a multiple of 64 rows and 8 columns"),
        ({"tile": (64, 48)}, r"warpgroup=\(64, 32\) does not divide tile=\(64, 48\); choose"),
        ({"tile": (64,)}, r"tile=\(64,\) is not a pair of sizes"),
        ({"swizzle": 4}, "runs 128 times, which swizzle=4 .* does not divide"),
        ({"tile": (1024, 64)}, "takes 4096 threads of a block, and a GPU has 1024"),
        ({"tile_k": 128}, "loop 'k' runs 192 times, which tile_k=128 does not divide"),
    ],
)
def test_tile_in_warpgroups_refuses(changes, message: str) -> None:
    sch = half()
    block = sch.get_sblock("C")
    with refuses(sch, f"tile_in_warpgroups: .*{message}"):
        tile(sch, block, **changes)


@pytest.mark.parametrize(
    ("sizes", "changes", "message"),
    [
        ({}, {"swizzle": 96}, "swizzle=96 is not a swizzle of wgmma; use 128, 64, 32, or 16"),
        ({"tile_k": 12}, {}, "reads rows of 24 bytes .*, which are not whole chunks of 16; use"),
        ({}, {"vector": 16}, "vector=16 of .* takes more than a chunk of 16 bytes"),
        ({}, {"vector": 8, "tail": "refuse", "warpgroups": 8}, r"threads \* vector = 8192 does"),
    ],
)
def test_stage_swizzled_at_refuses(sizes, changes, message: str) -> None:
    sch = half()
    made = tile(sch, **sizes)
    tr.accumulate_in_registers(sch, made.block, made.warpgroups)
    with refuses(sch, f"stage_swizzled_at: .*{message}"):
        stage(sch, made, **changes)


def test_stage_swizzled_at_refuses_a_copy_in_the_place_of_its_own_source() -> None:
    """Its vectors hide where TVM puts the two: threads would write what others have yet to read."""
    sch = Schedule(matmul(64, 64, 16, dtype="tf32", transpose_b=True))
    made = tile(sch, tile_k=16)
    tr.accumulate_in_registers(sch, made.block, made.warpgroups)
    stage(sch, made, 0, vector=4, swizzle=64)
    copy = stage(sch, made, 1, vector=4, swizzle=128)
    with refuses(sch, "TVM would put 'B_shared.dyn' in the place of another 'B_shared.dyn' with"):
        tr.stage_swizzled_at(
            sch, copy, made.outer, operand=0, warpgroups=1, vector=8, swizzle=32, tail="guard"
        )


def test_what_is_no_matmul_is_refused_in_a_sentence() -> None:
    sch, block, loop = at_block(get_kernel("vector_add").problem(64).module, "C")
    with refuses(sch, "stage_swizzled_at: block 'C' does not multiply a tile"):
        tr.stage_swizzled_at(sch, block, loop, operand=0, warpgroups=1, vector=8)
    with refuses(
        sch, "tensorize_warpgroups: block 'C' reads 2 buffers and writes 1, and a copy one of each"
    ):
        tr.tensorize_warpgroups(sch, block, block, block)


def test_tensorize_warpgroups_refuses_what_does_not_fit():
    sch = half()
    made = tile(sch)
    store = tr.accumulate_in_registers(sch, made.block, made.warpgroups)
    for operand in range(2):
        tr.cache_read_at(sch, made.block, made.outer, operand=operand, scope="shared.dyn")
    zeros = tr.decompose_reduction_at(sch, made.block, made.outer)
    with refuses(sch, "which is not a tile that descriptors of wgmma describe; stage both"):
        tr.tensorize_warpgroups(sch, made.block, zeros, store)
    sch = half()
    made = tile(sch)
    store = tr.accumulate_in_registers(sch, made.block, made.warpgroups)
    for operand in range(2):
        stage(sch, made, operand)
    with refuses(sch, "does not add products of two tiles to its sums; pass the block that"):
        tr.tensorize_warpgroups(sch, made.block, made.block, store)
    sch = half(120, 60, 190)
    tr.pad_block(sch, sch.get_sblock("C"), multiples=(64, 32, 64))
    made, _, (zeros, store) = prepare(sch)
    with refuses(sch, "stores a part of its tile, .*; pad the problem first, or store thr"):
        tr.tensorize_warpgroups(sch, made.block, zeros, store)


def test_groups_in_flight_need_a_pipeline_that_computes_first() -> None:
    for options in (None, {}, {"products_first": True}):
        sch = half()
        made, copies, (zeros, store) = prepare(sch)
        if options is not None:
            tr.prefetch_asynchronously(sch, made.outer, copies, stages=3, **options)
        if options:
            tr.tensorize_warpgroups(sch, made.block, zeros, store, in_flight=1)
            continue
        with refuses(sch, "would leave groups in flight that read tiles while the next ones are"):
            tr.tensorize_warpgroups(sch, made.block, zeros, store, in_flight=1)


def test_prefetch_asynchronously_refuses_what_does_not_fit():
    sch = half()
    made, copies, _ = prepare(sch)
    with refuses(sch, "stages=2 of loop 'k_0' leave no copy in flight while a tile is used"):
        tr.prefetch_asynchronously(sch, made.outer, copies, stages=2, products_first=True)
    run = run_golden(RECIPES["matmul_mma_swizzled"])
    sch, block, *_ = at_block(run.steps[-1].module, "C_o_update")
    outer, inner = sch.get_loops(block)[2:4]
    copies = [sch.get_sblock(f"{name}_shared.dyn") for name in "AB"]
    tr.prefetch_fragments(sch, inner)
    with refuses(sch, "' computes is itself a pipeline, whose parts run later; leave"):
        tr.prefetch_asynchronously(sch, outer, copies, stages=3, products_first=True)
