"""The one guard of a sum over threads is lost: what TVM stores then must harm nothing."""

from pairs import find_wrong, refuses
from tvm.s_tir import Schedule

from tirstep import transforms as tr
from tirstep.modules import Problem, layer_norm, row_sum
from tirstep.transforms.recipes import RECIPES

OUTSIDE = "out of bounds: store to"
LOST = (
    "reduces over threads, and i_1 < 1 is its only guard: TVM would store sums of "
    "outputs that do not exist"
)


def begin(recipe: str, problem: Problem, steps: int, **sizes: int) -> Schedule:
    """The first steps of a recipe whose guard keeps the threads of other rows out."""
    sch = Schedule(problem.module)
    running = RECIPES[recipe].run(sch, **sizes, tail="guard")
    for _ in range(steps):
        next(running)
    return sch


def test_sums_in_registers_that_are_read_at_another_place():
    """Each thread stores a sum; where all is read at its row, that is a register of its own."""
    problem = layer_norm.problem(1, 4)
    sch = begin("layer_norm_vectors", problem, 2, threads=128, vector=2, rows=2)
    assert find_wrong(problem, sch) == []
    copy, raw = sch.get_sblock("B_local"), sch.copy()
    for producer in raw.get_producers(copy):
        raw.compute_inline(producer)
    assert (
        f"{OUTSIDE} sums_local[1] by thread (0, 1, 0) of block (0, 0, 0)"
        in find_wrong(problem, raw)[0]
    )
    with refuses(sch, f"inline_producers: block 'mean' {LOST} to 'sums_local'; keep the sums in"):
        tr.inline_producers(sch, copy)


def test_sums_in_shared_memory():
    problem = layer_norm.problem(1, 4)
    sch = begin("layer_norm_vectors", problem, 3, threads=512, vector=4, rows=8)
    block = sch.get_sblock("variance")
    loop, raw = sch.get_loops(block)[2], sch.copy()
    raw.reverse_compute_at(raw.cache_write(block, 0, "shared"), loop, preserve_unit_loops=True)
    assert (
        f"{OUTSIDE} squares_local_shared[1] by thread (0, 1, 0) of block (0, 0, 0)"
        in find_wrong(problem, raw)[0]
    )
    with refuses(sch, f"cache_write_at: block 'variance' {LOST} to 'squares_local_shared'"):
        tr.cache_write_at(sch, block, loop, scope="shared")
    tr.cache_write_at(sch, block, loop, scope="local")
    assert find_wrong(problem, sch) == []


def test_a_guard_in_a_loop_around_the_threads_of_a_sum():
    """The loop's other iterations add up nothing, and TVM stores that over the sum."""
    problem = row_sum.problem(1, 64)
    sch = begin("row_sum_threads", problem, 2, threads=1024)
    block = sch.get_sblock("B")
    loop = tr.fuse_loops(sch, [sch.get_loops(block)[1]])
    raw = sch.copy()
    raw.split(loop, [None, 4])
    assert "B[0] is 0, and NumPy has" in find_wrong(problem, raw)[0]
    with refuses(sch, r"split_loop: block 'B' reduces over threads, and .* < 1 is its only guard"):
        tr.split_loop(sch, loop, inner=4, tail="guard")
    tr.split_loop(sch, loop, inner=1, tail="guard")
    assert find_wrong(problem, sch) == []
