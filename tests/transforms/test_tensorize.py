"""Transforms for tensor cores: pairs out of the goldens of matmul_mma, and what they refuse."""

import pytest
import tvm
from golden_runs import read_step
from pairs import check_pair, refuses
from tvm.s_tir import Schedule

from tirstep import transforms as tr
from tirstep.lowering_checks import check_numbers, get_device
from tirstep.modules import get_kernel, matmul
from tirstep.transforms.recipes import RECIPES

SIMULATOR = get_device("simulator")


def read(step: str, recipe: str = "matmul_mma") -> tvm.IRModule:
    return read_step(step, recipe)


def tile(sch: Schedule, block=None, **changes) -> tr.FragmentTile:
    sizes = {"tile": (16, 32), "warp": (16, 16), "tile_k": 32, **changes}
    return tr.tile_in_fragments(sch, block or sch.get_sblock("C"), **sizes)


def half(m: int = 32, n: int = 64, k: int = 96, **options) -> Schedule:
    return Schedule(matmul(m, n, k, **{"dtype": "float16", **options}))


def stage(sch: Schedule, made: tr.FragmentTile, operand: int = 0, **changes):
    sizes = {"warps": 2, "vector": 8, "tail": "guard", **changes}
    return tr.stage_fragments_at(sch, made.block, made.outer, operand=operand, **sizes)


def prepare(sch: Schedule, vector: int = 8, **changes):
    """All that comes before tensorize_fragments: the tile, the copies, and the blocks."""
    made = tile(sch, **changes)
    store = tr.accumulate_in_registers(sch, made.block, made.warps)
    copies = [stage(sch, made, operand, vector=vector) for operand in range(2)]
    loads = [
        tr.cache_read_at(sch, made.block, made.inner, operand=n, scope="local") for n in (0, 1)
    ]
    zeros = tr.decompose_reduction_at(sch, made.block, made.outer)
    return made, copies, (loads, zeros, store)


# ---- Pairs


def test_tile_in_fragments_pair() -> None:
    before = get_kernel("matmul").problem(32, 64, 96, dtype="float16").module
    check_pair(before, lambda sch: list(tile(sch)), read("01_tiled"))


def test_stage_fragments_at_pair() -> None:
    def change(sch: Schedule):
        block = sch.get_sblock("C_o")
        outer = tr.get_reduction_loops(sch, block)[0]
        return tr.stage_fragments_at(
            sch, block, outer, operand=0, warps=2, vector=8, layout="swizzled", tail="guard"
        )

    before = read("02_accumulated_in_registers", "matmul_mma_swizzled")
    check_pair(before, change, read("03_A_in_shared_memory", "matmul_mma_swizzled"))


def test_tensorize_fragments_pair() -> None:
    def change(sch: Schedule) -> None:
        loads = [sch.get_sblock(f"{name}_shared.dyn_local") for name in "AB"]
        block, zeros = sch.get_sblock("C_o_update"), sch.get_sblock("C_o_init")
        store = sch.get_sblock("C_local")
        names = tr.tensorize_fragments(sch, block, loads, zeros, store)
        assert (names.multiply, names.depth) == ("tirstep_mma_float16_float32", 16)

    check_pair(read("06_decomposed"), change, read("07_tensorized"))


def test_store_through_shared_pair() -> None:
    """Of a padded problem, whose crop becomes what is written."""

    def change(sch: Schedule):
        block = sch.get_sblock("C_o")
        grid, warps, *_ = sch.get_loops(block)
        tr.set_pipeline(sch)
        return tr.store_through_shared(sch, block, grid, warps, columns=128, warps=4, vector=4)

    before, after = (
        read(step, "matmul_mma_best") for step in ("02_tiled", "03_accumulated_in_registers")
    )
    check_pair(before, lambda sch: list(change(sch)), after)


# ---- Numbers


# ---- Refusals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"warp": (16, 24)}, r"warp=\(16, 24\) must be a multiple of a fragment's 16x16; use"),
        ({"tile": (16, 48), "warp": (16, 32)}, r"warp=\(16, 32\) does not divide tile=\(16, 48\)"),
        ({"tile_k": 24}, "tile_k=24 must be a multiple of a fragment's depth, 16"),
        ({"tile": (16,)}, r"tile=\(16,\) is not a pair of sizes"),
        ({"tile": (32, 64), "swizzle": 2}, "runs 32 times, which swizzle=2 .* does not divide"),
        ({"tile": (1024, 1024)}, r"takes 131072 threads of a block, and a GPU has 1024"),
        ({"tile_k": 64}, "loop 'k' runs 96 times, which tile_k=64 does not divide"),
    ],
)
def test_tile_in_fragments_refuses(changes, message: str) -> None:
    sch = half()
    block = sch.get_sblock("C")
    with refuses(sch, f"tile_in_fragments: .*{message}"):
        tile(sch, block, **changes)


@pytest.mark.parametrize(
    ("options", "sizes", "changes", "message"),
    [
        (
            {"dtype": "int8"},
            {"depth": 32},
            {"layout": "swizzled", "vector": 16},
            'elements of 1 bytes, and TVM swizzles those of 2; use layout="padded"',
        ),
        ({}, {"tile_k": 16}, {"layout": "swizzled"}, "has rows of 32 bytes, and TVM swizzles"),
        ({}, {}, {"layout": "swizzled", "vector": 16}, "vector=16 of .* takes more than a chunk"),
        ({}, {}, {"vector": 8, "tail": "refuse", "warps": 32}, r"threads \* vector = 8192 does"),
    ],
)
def test_stage_fragments_at_refuses(options, sizes, changes, message: str) -> None:
    sch = half(**options)
    made = tile(sch, **sizes)
    tr.accumulate_in_registers(sch, made.block, made.warps)
    with refuses(sch, f"stage_fragments_at: .*{message}"):
        stage(sch, made, **changes)


def test_tensorize_fragments_refuses_one_load() -> None:
    sch = half()
    made, _, (loads, zeros, store) = prepare(sch)
    with refuses(sch, "tensorize_fragments: 1 loads are given; pass those of A and of B"):
        tr.tensorize_fragments(sch, made.block, loads[:1], zeros, store)


def test_tensorize_fragments_refuses_what_does_not_fit():
    # Of all blocks in all roles, only the right ones pass; the swapped operands do not, either.
    sch = half()
    made, copies, (loads, zeros, store) = prepare(sch)
    right = [made.block, *loads, zeros, store]
    for role in range(len(right)):
        for block in [*copies, *right]:
            if sch.get(block).same_as(sch.get(right[role])):
                continue
            product, a, b, zero, end = [*right[:role], block, *right[role + 1 :]]
            with refuses(sch, "tensorize_fragments: block '.*' (is no|must zero|does not|reads)"):
                tr.tensorize_fragments(sch, product, [a, b], zero, end)
    with refuses(sch, "block 'B_shared.dyn_local' does not write 'A_shared.dyn_local', the prod"):
        tr.tensorize_fragments(sch, made.block, loads[::-1], zeros, store)
    tr.tensorize_fragments(sch, made.block, loads, zeros, store)
    with refuses(sch, "the block handle is dead"):
        tr.tensorize_fragments(sch, made.block, loads, zeros, store)
    sch = half()
    made = tile(sch)
    store = tr.accumulate_in_registers(sch, made.block, made.warps)
    with refuses(sch, "block 'C_o' begins its own sums; decompose it"):
        tr.tensorize_fragments(sch, made.block, [store, store], store, store)
    sch = half()
    made = tile(sch)
    store = tr.accumulate_in_registers(sch, made.block, made.warps)
    loads = [
        tr.cache_read_at(sch, made.block, made.inner, operand=n, scope="local") for n in (0, 1)
    ]
    zeros = tr.decompose_reduction_at(sch, made.block, made.outer)
    with refuses(sch, "copies 'A' in scope 'global' to scope 'local'; load fragments from scope"):
        tr.tensorize_fragments(sch, made.block, loads, zeros, store)
    sch = half(dtype="float32")
    made, _, blocks = prepare(sch, vector=4, depth=8)
    with refuses(sch, "float32 operands would be rounded to the 10 bits of TF32; pass tf32=True"):
        tr.tensorize_fragments(sch, made.block, *blocks)
    assert tr.tensorize_fragments(sch, made.block, *blocks, tf32=True).depth == 8
    sch = half(30, 50, 90)
    tr.pad_block(sch, sch.get_sblock("C"), multiples=(16, 32, 32))
    made, _, blocks = prepare(sch)
    with refuses(sch, "does not copy all of its tile, .*; pad the problem first, or store through"):
        tr.tensorize_fragments(sch, made.block, *blocks)


def test_store_through_shared_refuses_long_vectors() -> None:
    sch = half()
    made = tile(sch)
    with refuses(sch, "store_through_shared: .* makes vectors of 8 elements .* 32 bytes"):
        tr.store_through_shared(
            sch, made.block, made.grid, made.warps, columns=32, warps=2, vector=8
        )


def test_store_through_shared_refuses_loops_of_other_blocks_and_sizes() -> None:
    """TVM would say of such a loop, which moves with its block, that it is no longer there."""
    sch = half()
    made = tile(sch)
    sizes = {"columns": 32, "warps": 2, "vector": 4}

    def store(grid, of_warps, **changes) -> None:
        tr.store_through_shared(sch, made.block, grid, of_warps, **{**sizes, **changes})

    with refuses(sch, "store_through_shared: loop 'k_0' of block 'C_o' is .*not bound|reduction"):
        store(made.grid, made.outer)
    with refuses(sch, "loop 'i_2_j_1_fused' of block 'C_o' is not bound to blockIdx.x"):
        store(made.warps, made.warps)
    with refuses(sch, "warps=4 are not the 2 of loop 'i_2_j_1_fused'"):
        store(made.grid, made.warps, warps=4)
    for changes in ({"vector": 0}, {"vector": 3}, {"columns": -16}):
        with refuses(sch, "are not sizes of a tile and a vector"):
            store(made.grid, made.warps, **changes)
    with refuses(sch, "columns=16 are fewer than the 32 of a row of the tile"):
        store(made.grid, made.warps, columns=16)
    elsewhere = sch.get_loops(sch.cache_read(made.block, 0, "shared.dyn"))[0]
    with refuses(sch, "loop 'ax0' is not around block 'C_o'"):
        store(elsewhere, made.warps)


@pytest.mark.parametrize("change", [tr.keep_in_registers, tr.cache_write_at, tr.cache_read_at])
def test_an_instruction_keeps_the_memory_that_it_takes(change) -> None:
    """TVM moves its buffer to another memory, and says so only where it lowers the block, or it
    takes the registers of a warp's lanes for those of each one."""
    sch = half()
    made = tile(sch, tile=(16, 16))
    through = tr.store_through_shared(
        sch, made.block, made.grid, made.warps, columns=16, warps=1, vector=4
    )
    copies = [stage(sch, made, operand, warps=1) for operand in range(2)]
    loads = [
        tr.cache_read_at(sch, made.block, made.inner, operand=n, scope="local") for n in (0, 1)
    ]
    zeros = tr.decompose_reduction_at(sch, made.block, made.outer)
    tr.tensorize_fragments(sch, made.block, loads, zeros, through.store)
    assert copies
    name = "B_shared.dyn_local_o" if change is tr.cache_read_at else "C_shared.dyn_local_o"
    block = sch.get_sblock(name)
    given = {
        tr.keep_in_registers: {},
        tr.cache_write_at: {"scope": "local"},
        tr.cache_read_at: {"operand": 0, "scope": "shared"},
    }[change]
    loop = [] if change is tr.keep_in_registers else [sch.get_loops(block)[-1]]
    with refuses(
        sch, "the instruction that block '.*' has become (takes memory in scope|lays 'C_)"
    ):
        change(sch, block, *loop, **given)


@pytest.mark.parametrize("scope", ["shared", "shared.dyn", "local"])
def test_what_a_swizzled_block_reads_is_swizzled_or_in_registers(scope: str) -> None:
    """TVM swizzles all that the block uses in shared memory: numbers of other columns."""
    problem = get_kernel("matmul").problem(32, 64, 96, dtype="float16")
    sch = Schedule(problem.module)
    for _ in RECIPES["matmul_mma_swizzled"].run(sch, tile=(16, 32), warp=(16, 16)):
        pass
    copy = sch.get_sblock("A_shared.dyn")
    around = sch.get_loops(copy)[-2]
    if scope == "local":
        tr.cache_read_at(sch, copy, around, operand=0, scope=scope)
        assert check_numbers(problem, sch.mod, SIMULATOR, where="here") == []
        return
    with refuses(sch, "of all else that block 'A_shared.dyn' uses in shared memory"):
        tr.cache_read_at(sch, copy, around, operand=0, scope=scope)


@pytest.mark.parametrize("ahead", [False, True])
def test_prefetch_asynchronously_refuses_first_fragments_without_their_pipeline(ahead) -> None:
    sch = half()
    made, copies, blocks = prepare(sch)
    tr.tensorize_fragments(sch, made.block, *blocks)
    if ahead:
        tr.prefetch_fragments(sch, made.inner)
    stages = 2 if ahead else 3
    message = "stages=2 of loop 'k_0' leave no tile in flight" if ahead else "not a pipeline of fra"
    with refuses(sch, message):
        tr.prefetch_asynchronously(sch, made.outer, copies, stages=stages, fragments_first=True)


@pytest.mark.parametrize("elements", [1, 3])
def test_rows_of_sums_begin_where_mma_may_store_a_pair(elements: int) -> None:
    sch = half()
    made = tile(sch)
    store, _ = tr.store_through_shared(
        sch, made.block, made.grid, made.warps, columns=32, warps=2, vector=1
    )
    for operand in range(2):
        stage(sch, made, operand)
    loads = [
        tr.cache_read_at(sch, made.block, made.inner, operand=n, scope="local") for n in (0, 1)
    ]
    zeros = tr.decompose_reduction_at(sch, made.block, made.outer)
    odd = sch.copy()
    tr.pad_shared_rows(odd, store, elements=elements)
    with refuses(
        odd,
        r"the rows of 'C_shared.dyn' would begin at multiples of 4 bytes, and the instruction in "
        r"block 'C_shared.dyn_local_o' stores vectors that begin at multiples of 8; pad by a "
        "multiple of 8 bytes",
    ):
        tr.tensorize_fragments(odd, made.block, loads, zeros, store)
    tr.pad_shared_rows(sch, store, elements=elements + 1)
    tr.tensorize_fragments(sch, made.block, loads, zeros, store)
