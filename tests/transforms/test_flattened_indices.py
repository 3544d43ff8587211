"""Indices that TVM changes where it flattens a buffer: refused, and right ones stay accepted."""

from collections.abc import Sequence

import pytest
from pairs import refuses
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tirstep.lowering_checks import check_numbers, get_device, run_recipe
from tirstep.modules import Problem, window_sum
from tirstep.transforms import cache_read_at, compute_block_at, fold_tile, split_loop
from tirstep.transforms.legality.lowered_memory import find_changed_indices
from tirstep.transforms.recipes import RECIPES

REFUSAL = "TVM would use other elements of 'A_shared' than the schedule does: it takes remainders "
PROBLEM = window_sum.problem(16, width=3)


def find_wrong(problem: Problem, sch: Schedule) -> list[str]:
    found = check_numbers(problem, sch.mod, get_device("cpu"), where="here")
    return [finding.message for finding in found]


def split(inner: int) -> tuple[Schedule, SBlockRV, LoopRV]:
    sch = Schedule(PROBLEM.module)
    block = sch.get_sblock("C")
    return sch, block, split_loop(sch, sch.get_loops(block)[0], inner=inner).outer


def fold_plainly(sch: Schedule, copy: SBlockRV, row: int) -> None:
    def place(at: int) -> Sequence[int]:
        return at // row, at % row

    sch.transform_layout(copy, ("write", 0), place, assume_injective_transform=True)


def test_rows_of_two_in_a_tile_that_begins_at_any_element():
    """Of ``S[i % 2, (i + 1) % 2]`` in rows of two TVM makes ``S[(i + 1) % 2 * 3]``."""
    plain, block, loop = split(1)
    copy = plain.cache_read(block, 0, "shared")
    plain.compute_at(copy, loop)
    fold_plainly(plain, copy, 2)
    assert "elements are wrong" in find_wrong(PROBLEM, plain)[0]
    assert find_changed_indices(plain.mod) == ["A_shared"]


@pytest.mark.parametrize("padding", [0, 1])
def test_a_tile_that_is_folded_where_it_begins_at_any_element(padding: int):
    sch, block, loop = split(1)
    copy = cache_read_at(sch, block, loop, operand=0)
    with refuses(sch, "fold_tile: " + REFUSAL):
        fold_tile(sch, copy, row=2, padding=padding)


def test_a_folded_tile_that_is_moved_to_where_it_begins_at_any_element():
    sch, block, loop = split(1)
    copy = sch.cache_read(block, 0, "shared")
    fold_tile(sch, copy, row=2)
    with refuses(sch, "compute_block_at: " + REFUSAL):
        compute_block_at(sch, copy, loop)


@pytest.mark.parametrize(("inner", "row"), [(4, 2), (1, 4), (8, 8), (4, 3)])
def test_rows_in_tiles_whose_indices_stay(inner: int, row: int):
    sch, block, loop = split(inner)
    fold_tile(sch, cache_read_at(sch, block, loop, operand=0), row=row, padding=row // 2)
    assert find_wrong(PROBLEM, sch) == []


def test_an_open_size_of_zero_decides_nothing():
    """Where ``i // w`` has no value it is neither the same element nor another."""
    sizes, config = {"b": 1, "c": 1, "h": 5, "w": 1, "k": 1}, {"rows": 4, "columns": 8}
    recipe = RECIPES["depthwise_conv2d_outer_fusion"]
    run = run_recipe(recipe, sizes, config={**config, "tail": "guard"}, symbolic=("b", "w"))
    assert run.steps[-1].name == "bound"
