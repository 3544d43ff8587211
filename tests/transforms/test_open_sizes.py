"""At sizes that a module leaves open, what is wrong at some of them is refused as at these."""

import pytest
from kernels import at_block
from pairs import refuses
from tvm.tirx.buffer import BufferType

from tirstep.lowering_checks import check_numbers, get_device
from tirstep.lowering_checks.legality.open_sizes import close_sizes
from tirstep.modules import attention, vector_add
from tirstep.transforms import cache_write_at, reorder_loops, split_loop


@pytest.mark.parametrize("scope", ["local", "shared"])
def test_a_copy_of_what_other_iterations_write(scope: str):
    """Each of two iterations writes every second element, and would copy out all of them."""
    problem = vector_add.problem(16, symbolic=("n",))
    sch, block, *_ = at_block(problem.module, "C")
    outer, inner = split_loop(sch, sch.get_loops(block)[0], inner=2, tail="guard")
    right = sch.copy()
    cache_write_at(right, block, outer, scope=scope)
    assert check_numbers(problem, right.mod, get_device("cpu"), where="here") == []
    reorder_loops(sch, [inner, outer])
    with refuses(
        sch, rf"block 'C_{scope}' would read C_{scope}\[1\], which block 'C' has not written by"
    ):
        cache_write_at(sch, block, inner, scope=scope)


def test_closed_are_all_sizes_that_are_open():
    module = attention.problem(1, 4, 8, 8, 4, group=4, symbolic=("heads", "keys", "dim")).module
    closed = close_sizes(module)["main"]
    shapes = [
        [int(extent) for extent in parameter.shape]
        for parameter in closed.params
        if isinstance(parameter.ty, BufferType)
    ]
    assert shapes == [[1, 12, 8, 20], [1, 3, 28, 20], [1, 3, 28, 20], [1, 12, 8, 20]]
    assert close_sizes(module) is close_sizes(module)
