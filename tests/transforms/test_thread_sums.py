"""Sums over threads: what is refused is wrong on the simulator, and what is not is right there."""

import math

import numpy as np
import pytest
import tvm
from foreign_modules import Argmax
from kernels import at_block, make_row_sums, parse_kernel
from pairs import find_wrong, refuses
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.script import from_source

from tirstep import transforms as tr
from tirstep.lowering_checks import check_ownership, get_device, run_recipe
from tirstep.lowering_checks.device import DeviceError
from tirstep.lowering_checks.legality.sums import find_unordered_sums
from tirstep.modules import Problem, layer_norm, row_sum
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.schedule import TransformError


def test_terms_of_threads_whose_initialization_is_taken_out():
    """Each thread would add up its own; TVM's primitive takes out what the transform leaves in."""
    problem = row_sum.problem(8, 16)
    sch, block, i, k = at_block(problem.module, "B")
    tr.bind_loop(sch, i, axis="blockIdx.x")
    tr.cache_write_at(sch, block, i)
    tr.bind_loop(sch, k, axis="threadIdx.x")
    with refuses(sch, "decompose_reduction_at: "):
        tr.decompose_reduction_at(sch, block, k)
    with refuses(sch, "B_update' would add each thread's terms on 'threadIdx.x' to its own"):
        with tr.one_change(sch):
            sch.decompose_reduction(block, k)
    sch.decompose_reduction(block, k)
    assert find_wrong(problem, sch)
    assert "none would have the whole sum" in str(check_ownership(sch.mod))


def split_among(roles: str, dtype: str = "float32") -> tuple[Schedule, dict[str, LoopRV]]:
    """Sums over some thread axes, as "x32 z2", with rows on others, as "y:2", and their loops."""
    sizes = {part[0]: int(part[1:].removeprefix(":")) for part in roles.split()}
    rows = {f"threadIdx.{part[0]}": sizes[part[0]] for part in roles.split() if ":" in part}
    summed = {f"threadIdx.{part[0]}": sizes[part[0]] for part in roles.split() if ":" not in part}
    sch = Schedule(make_row_sums(math.prod(rows.values()), 2 * math.prod(summed.values()), dtype))
    i, k = sch.get_loops(sch.get_sblock("B"))
    grid, *across = sch.split(i, [None, *rows.values()])
    *along, rest = sch.split(k, [*summed.values(), None])
    sch.reorder(grid, *across, *along, rest)
    sch.bind(grid, "blockIdx.x")
    return sch, dict(zip([*rows, *summed], [*across, *along], strict=True))


def find_faults(module: tvm.IRModule) -> list[str]:
    program = get_device("simulator").compile(module)
    matrix, vector = module["main"].params
    shape = [int(extent) for extent in matrix.shape]
    ones = np.ones(shape, str(matrix.dtype))
    program([ones, np.zeros(shape[:1], str(vector.dtype))])
    return [str(finding) for finding in program.findings]


UNSOUND = {
    "x5 y8": "reduces over the 40 threads of 'threadIdx.x' and 'threadIdx.y': in its last",
    "x8 z5": "reduces over the 40 threads of 'threadIdx.x' and 'threadIdx.z': in its last",
    "x2 y3 z8": "the 48 threads of 'threadIdx.x' and 'threadIdx.y' and 'threadIdx.z': in its",
    "x32 y:2 z2": "'threadIdx.x' and 'threadIdx.z', with 'threadIdx.y' between them: in its",
    "x96 y:3 z2": "'threadIdx.x' and 'threadIdx.z', with 'threadIdx.y' between them: in its",
    "y33": "the 33 threads of 'threadIdx.y': in its last steps, TVM assumes that",
    "int8 x4": "the 4 threads of 'threadIdx.x' in 'int8', a type that TVM does not",
    "int8 y:2 x64": "the 64 threads of 'threadIdx.x' in 'int8', a type that TVM does not",
}
SOUND = [
    "x32",
    "x5",
    "x96 z2",
    "x32 y3 z:2",
    "x:2 y32",
    "x:3 y96 z2",
    "x16 y:2 z4",
    "x24 y:3 z4",
    "x8 y:2 z6",
    "x:5 y2 z40",
    "float16 y:2 x64",
    "int8 x3",
    "int8 y:2 x8",
    "int8 x:4 y32",
]


@pytest.mark.parametrize("roles", [*UNSOUND, *SOUND])
def test_the_steps_that_are_called_unordered_are_a_race(roles: str):
    dtype = next((part for part in roles.split() if part[0] in "fi"), "float32")
    sch, loops = split_among(roles.removeprefix(dtype).strip(), dtype)
    for axis, loop in loops.items():
        sch.bind(loop, axis)
    problems = [fault.problem for fault in find_unordered_sums(sch.mod)]
    faults = find_faults(sch.mod)
    assert all(fault.startswith("race: ") and "red_buf0" in fault for fault in faults)
    assert len(problems) == (roles in UNSOUND) == bool(faults)
    assert all(UNSOUND[roles] in problem for problem in problems)


@pytest.mark.gpu
@pytest.mark.parametrize("roles", SOUND)
def test_the_steps_that_are_called_ordered_are_right_on_a_gpu(roles: str):
    dtype = next((part for part in roles.split() if part[0] in "fi"), "float32")
    sch, loops = split_among(roles.removeprefix(dtype).strip(), dtype)
    for axis, loop in loops.items():
        sch.bind(loop, axis)
    matrix = sch.mod["main"].params[0]
    ones = np.ones([int(extent) for extent in matrix.shape], dtype)
    program = get_device("cuda").compile(sch.mod)
    for _ in range(20):
        sums = program([ones, np.zeros(len(ones), dtype)])[-1]
        np.testing.assert_array_equal(sums, ones.sum(axis=1, dtype=dtype))


def keep_rows(m: int, rows: int, place: int) -> tuple[Problem, Schedule, LoopRV]:
    """Sums of guarded rows in registers, of all rows of a thread (0) or of one (1)."""
    problem = row_sum.problem(m, 8)
    sch = Schedule(problem.module)
    block: SBlockRV = sch.get_sblock("B")
    around = tr.split_loop(sch, sch.get_loops(block)[0], inner=rows, tail="guard")
    tr.bind_loop(sch, around.outer, axis="blockIdx.x")
    tr.cache_write_at(sch, block, around[place])
    return problem, sch, sch.get_loops(block)[-1]


@pytest.mark.parametrize(("m", "rows"), [(1, 2), (2, 4), (3, 4)])
def test_the_sums_of_rows_that_do_not_exist_have_no_registers(m: int, rows: int):
    problem, sch, loop = keep_rows(m, rows, 0)
    plain = sch.copy()
    plain.bind(loop, "threadIdx.x")
    assert f"out of bounds: store to B_local[{m}]" in find_wrong(problem, plain.mod)[0]
    with refuses(
        sch,
        rf"bind_loop: block 'B' reduces over threads, and .* < {m} is its only guard: TVM would "
        "store sums of outputs that do not exist to 'B_local'",
    ):
        tr.bind_loop(sch, loop, axis="threadIdx.x")


@pytest.mark.parametrize(
    ("m", "rows", "place"), [(1, 2, 1), (2, 2, 0), (3, 2, 1), (5, 4, 1), (3, 4, 1), (8, 4, 0)]
)
def test_the_sums_of_rows_that_have_registers_are_right(m: int, rows: int, place: int):
    problem, sch, loop = keep_rows(m, rows, place)
    tr.bind_loop(sch, loop, axis="threadIdx.x")
    assert find_wrong(problem, sch.mod) == []


def test_a_sum_over_threads_behind_guards_that_tvm_cannot_solve():
    """Its pass leaves the block alone, and each thread sums up into a register of its own."""
    problem = layer_norm.problem(3, 7)
    sch = Schedule(problem.module)
    running = RECIPES["layer_norm_threads"].run(sch, threads=256, tail="guard")
    for _ in range(2):
        next(running)
    mean = sch.get_sblock("mean")
    tr.split_loop(sch, sch.get_loops(mean)[2], inner=4, tail="guard")
    tr.fuse_loops(sch, sch.get_loops(mean)[1:4])
    assert find_wrong(problem, sch.mod) == []
    plain = sch.copy()
    plain.split(plain.get_loops(mean)[1], [None, 2], preserve_unit_iters=True)
    assert "which never stored to it: thread (0, 0, 0)" in find_wrong(problem, plain.mod)[0]
    fused = sch.get_loops(mean)[1]
    with refuses(
        sch,
        "split_loop: block 'mean' reduces over threads of 'threadIdx.x', which TVM does not see "
        "under guards that it cannot solve: each thread would store sums of its own; choose sizes",
    ):
        tr.split_loop(sch, fused, inner=2, tail="guard")


def make_halves() -> tvm.IRModule:
    """Sums of the first rows and of the others, in blocks of their own that write one buffer."""
    return parse_kernel("""
        A (4, 8), B (4,)
        for i in range(2):
            for k in range(8):
                with T.sblock("first"):
                    vi = T.axis.spatial(4, i)
                    vk = T.axis.reduce(8, k)
                    B[vi] += A[vi, vk]
            for k in range(8):
                with T.sblock("others"):
                    vi = T.axis.spatial(4, 2 + i)
                    vk = T.axis.reduce(8, k)
                    B[vi] += A[vi, vk]
    """)


def test_a_sum_over_threads_into_what_another_block_writes():
    sch, _first, row, along = at_block(make_halves(), "first")
    sch.bind(row, "blockIdx.x")
    sch.bind(sch.get_loops(sch.get_sblock("others"))[1], "threadIdx.x")
    plain = sch.copy()
    plain.bind(along, "threadIdx.x")
    assert find_faults(plain.mod)
    with refuses(sch, "bind_loop: block 'first' reduces over threads .* TVM does not see"):
        tr.bind_loop(sch, along, axis="threadIdx.x")


FIRST = "value[vi] > X[vi, vk] or (value[vi] == X[vi, vk] and index[vi] < vk)"


@pytest.mark.parametrize("is_decided", [False, True])
def test_of_equal_maxima_the_combiner_decides(is_decided: bool) -> None:
    """docs/own-programs.md: over threads another one of equal elements may come first."""
    text = Argmax.script()
    assert text.count("T.Select(value[vi] >= X[vi, vk], index[vi], vk)") == 1
    if is_decided:
        text = text.replace("value[vi] >= X[vi, vk], index[vi], vk", f"{FIRST}, index[vi], vk")
        text = text.replace("value[vi] >= X[vi, vk]", "value[vi] > X[vi, vk]")
    sch, _, row, column = at_block(from_source(text), "best")
    tr.bind_loop(sch, row, axis="blockIdx.x")
    tr.bind_loop(sch, tr.split_loop(sch, column, inner=8).inner, axis="threadIdx.x")
    x = np.zeros((16, 40), np.float32)
    x[:, [1, 16]] = 1  # of thread 1, and of thread 0
    empty = [np.zeros(16, np.int32), np.zeros(16, np.float32)]
    _, index, value = get_device("simulator").compile(sch.mod)([x, *empty])
    assert (value == 1).all()
    assert set(index.tolist()) == {1 if is_decided else 16}


@pytest.mark.parametrize("rows", [1, 2])
def test_copies_of_a_sum_over_threads_are_not_lowered(rows: int):
    """A loop over the terms may be unrolled, and one of a single row."""
    sch, block, row, along = at_block(make_row_sums(4 * rows, 128), "B")
    grid, row = sch.split(row, [None, rows], preserve_unit_iters=True)
    terms, lanes = sch.split(along, [None, 32])
    sch.bind(grid, "blockIdx.x")
    tr.bind_loop(sch, lanes, axis="threadIdx.x")
    tr.unroll_loop(sch, terms)
    tr.cache_write_at(sch, block, row)
    plain = sch.copy()
    plain.unroll(row)
    if rows == 1:
        tr.unroll_loop(sch, row)
        assert find_faults(sch.mod) == find_faults(plain.mod) == []
        return
    with refuses(sch, "would be unrolled around block 'B', which reduces over threads of 'thr"):
        tr.unroll_loop(sch, row)
    with pytest.raises(DeviceError, match=r"red_buf0.*leave the loop around it serial"):
        find_faults(plain.mod)


def test_a_pipeline_of_three_stages_around_a_sum_over_threads():
    """Behind its loop two iterations are left, which TVM writes out."""
    sizes = {"batch": 1, "heads": 1, "queries": 64, "keys": 256, "dim": 64}
    recipe = RECIPES["attention_mma_async"]
    assert run_recipe(recipe, sizes, config={"stages": 2}).steps[-1].name.endswith("asynchronously")
    with pytest.raises(TransformError, match=r"a pipeline of 3 stages, of which .* use 2 stages"):
        run_recipe(recipe, sizes, config={"stages": 3})
    with tr.unguarded():
        module = run_recipe(recipe, sizes, config={"stages": 3}).steps[-1].module
    with pytest.raises(DeviceError, match="red_buf0"):
        get_device("simulator").compile(module)
