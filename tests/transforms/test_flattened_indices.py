"""Indices that TVM changes where it flattens a buffer: refused, and right ones stay accepted."""

from kernels import at_block
from pairs import refuses
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tirstep.lowering_checks import run_recipe
from tirstep.modules import window_sum
from tirstep.transforms import compute_block_at, fold_tile, split_loop
from tirstep.transforms.recipes import RECIPES

REFUSAL = "TVM would use other elements of 'A_shared' than the schedule does: it takes remainders "
PROBLEM = window_sum.problem(16, width=3)


def split(inner: int) -> tuple[Schedule, SBlockRV, LoopRV]:
    sch, block, *_ = at_block(PROBLEM.module, "C")
    return sch, block, split_loop(sch, sch.get_loops(block)[0], inner=inner).outer


def test_a_folded_tile_that_is_moved_to_where_it_begins_at_any_element():
    sch, block, loop = split(1)
    copy = sch.cache_read(block, 0, "shared")
    fold_tile(sch, copy, row=2)
    with refuses(sch, "compute_block_at: " + REFUSAL):
        compute_block_at(sch, copy, loop)


def test_an_open_size_of_zero_decides_nothing():
    """Where ``i // w`` has no value it is neither the same element nor another."""
    sizes, config = {"b": 1, "c": 1, "h": 5, "w": 1, "k": 1}, {"rows": 4, "columns": 8}
    recipe = RECIPES["depthwise_conv2d_outer_fusion"]
    run = run_recipe(recipe, sizes, config={**config, "tail": "guard"}, symbolic=("b", "w"))
    assert run.steps[-1].name == "bound"
