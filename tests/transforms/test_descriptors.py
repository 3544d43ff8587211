"""Tiles that are read by descriptors begin at multiples of what their swizzle repeats after.

Found by random schedules: a bias of 64 bytes in shared memory moved both tiles of a product.
"""

from pairs import refuses
from tvm.s_tir import Schedule

from tirstep.lowering_checks import check_numbers, get_device
from tirstep.lowering_checks.legality.storage_reuse import find_misplaced_tiles
from tirstep.modules import matmul_bias_relu
from tirstep.transforms import cache_read_at
from tirstep.transforms.recipes import find_recipe

STEPS = 7
"""Of the recipe, behind which products are instructions of a warpgroup."""
WRONG = "whose rows are swizzled in 128 bytes, after other buffers, not at a multiple of 1024 bytes"


def schedule() -> tuple[Schedule, list[str]]:
    """A product of warpgroups, and what the simulator finds with its bias in shared memory."""
    problem = matmul_bias_relu.problem(16, 16, 32, dtype="float16")
    sch = Schedule(problem.module)
    running = find_recipe("matmul_bias_relu_wgmma_best").run(sch)
    for _ in range(STEPS):
        next(running)
    plain = sch.copy()
    block = plain.get_sblock("D")
    copy = plain.cache_read(block, 1, "shared.dyn")
    plain.compute_at(copy, plain.get_loops(block)[2], preserve_unit_loops=True)
    split = plain.split(plain.get_loops(copy)[-1], [None, 128])
    plain.bind(split[1], "threadIdx.x")
    assert {repeat for _, _, repeat in find_misplaced_tiles(plain.mod)} == {1024}
    found = check_numbers(problem, plain.mod, get_device("simulator"), where="here")
    return sch, [finding.message for finding in found]


def test_a_small_buffer_before_swizzled_tiles_is_refused() -> None:
    sch, messages = schedule()
    assert any("begins at a multiple of 1024" in message for message in messages)
    assert any("elements are wrong" in message for message in messages)
    assert find_misplaced_tiles(sch.mod) == []
    block = sch.get_sblock("D")
    place = sch.get_loops(block)[2]
    with refuses(sch, WRONG):
        cache_read_at(sch, block, place, operand=1, scope="shared.dyn")
