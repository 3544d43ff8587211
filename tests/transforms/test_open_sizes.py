"""At sizes that a module leaves open, what is wrong at some of them is refused as at these."""

import pytest
from kernels import at_block
from pairs import refuses
from tvm.s_tir import Schedule
from tvm.tirx.buffer import BufferType

from tirstep import transforms as tr
from tirstep.lowering_checks import check_numbers, get_device
from tirstep.lowering_checks.legality.accesses import close_sizes
from tirstep.modules import attention, row_sum, vector_add
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


@pytest.mark.parametrize(
    ("call", "place", "open_room"),
    [
        ("cache_read_at", 0, "'A_shared' of n elements along one dimension in shared memory"),
        ("cache_read_at", 1, "'A_local' of n elements along one dimension in registers"),
        ("cache_read_at", 2, ""),
        ("accumulate_in_registers", 1, r"'B_local' of T.min\(m, .*4\)\) elements"),
    ],
)
def test_a_room_of_open_size_is_refused(call: str, place: int, open_room: str) -> None:
    """TVM says only when it generates code that it allocates constant sizes alone."""
    problem = row_sum.problem(7, 37, symbolic=("m", "n"))
    sch = Schedule(problem.module)
    block = sch.get_sblock("B")
    tile = tr.tile_block(sch, block, threads=(32,), per_thread=(4,), tail="guard")
    loop = (tile.blocks[-1], tile.threads[-1], sch.get_loops(block)[-1])[place]
    scope = "shared" if place == 0 else "local"
    options = {"operand": 0, "scope": scope} if call == "cache_read_at" else {}
    if open_room:
        with refuses(sch, f"{call}: TVM would keep {open_room}"):
            getattr(tr, call)(sch, block, loop, **options)
    else:
        getattr(tr, call)(sch, block, loop, **options)
    assert check_numbers(problem, sch.mod, get_device("simulator"), where="here") == []


def test_a_row_of_open_size_in_registers_is_refused() -> None:
    """Of a row that threads share TVM knows no bound but that of an index, 2^31 elements."""
    sch, block, rows, _ = at_block(row_sum.problem(7, 37, symbolic=("m", "n")).module, "B")
    tr.bind_loop(sch, rows, axis="blockIdx.x")
    tr.spread_over_threads(sch, block, threads=32, tail="guard")
    with refuses(sch, r"cache_row_at: TVM would keep 'A_local' of .* in registers"):
        tr.cache_row_at(sch, block, rows, operand=0)
