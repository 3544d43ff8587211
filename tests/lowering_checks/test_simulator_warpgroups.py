"""wgmma in the simulator: bugs that are planted around it, each of which is found without a GPU."""

import functools
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from edits import NOTHING, drop_barrier, edit, edit_wait
from tvm.ir import Call
from tvm.tirx import AttrStmt, Evaluate, FloorMod, IntImm, call_intrin, const

from tirstep.lowering_checks.devices.device import blank
from tirstep.lowering_checks.devices.simulator import lower, simulate_lowered, warpgroups
from tirstep.lowering_checks.steps import Run, run_recipe
from tirstep.transforms.recipes import RECIPES

FENCE, COMMIT, WAIT = (f"tirx.ptx.wgmma_{name}" for name in ("fence", "commit_group", "wait_group"))
PROXY = "tirx.ptx.fence_proxy"
ENCODE = "tirx.cuda.wgmma_encode_matrix_descriptor"
PIPELINES = pytest.mark.parametrize("name", ["matmul_wgmma_async", "matmul_wgmma_in_flight"])


@functools.cache
def make(name: str) -> tuple[Run, tvm.IRModule]:
    """A recipe at its golden sizes with more steps of k, and its module as it is lowered."""
    recipe = RECIPES[name]
    run = run_recipe(
        recipe,
        {"m": 64, "n": 64, "k": 384},
        options={"dtype": "float16"},
        config={**recipe.golden.config, "tile": (64, 32)},
    )
    return run, lower(run.steps[-1].module)


def judge(name: str, module: tvm.IRModule) -> tuple[dict[str, str], bool]:
    """The first message of each kind of finding, and whether the numbers are right."""
    run, _ = make(name)
    inputs = run.problem.integer_inputs(0)
    arguments = [*inputs, *(blank(output) for output in run.problem.outputs)]
    result = simulate_lowered(module, arguments)
    found: dict[str, str] = {}
    for finding in result.findings:
        found.setdefault(finding.kind, finding.message)
    a, b = (array.astype("f8") for array in inputs)
    return found, bool((result.arguments[-1] == a @ b).all())


def is_call(name: str) -> Callable[[Evaluate], bool]:
    return lambda node: str(getattr(getattr(node.value, "op", None), "name", "")) == name


def drop(module: tvm.IRModule, name: str, which: int = 0) -> tvm.IRModule:
    return edit(module, Evaluate, is_call(name), lambda _: NOTHING, which)


def change(module: tvm.IRModule, name: str, place: int, value: int, which: int = 0) -> tvm.IRModule:
    """The module with another constant as an argument of a call."""

    def replace(node: Evaluate) -> Evaluate:
        arguments = list(node.value.args)
        arguments[place] = const(value, "int32")
        return Evaluate(call_intrin(node.value.ty, node.value.op, *arguments))

    return edit(module, Evaluate, is_call(name), replace, which)


@PIPELINES
def test_what_is_not_changed_is_right(name: str) -> None:
    assert judge(name, make(name)[1]) == ({}, True)


def test_a_sum_that_is_read_before_its_group_has_ended_is_a_race() -> None:
    name = "matmul_wgmma_in_flight"
    _, lowered = make(name)
    waits = 4  # of the loop and the three tiles after it; the store has the last one
    found, _ = judge(name, drop(lowered, WAIT, waits - 1))
    assert "load of C_local[0]" in found["race"]
    assert "while a wgmma that adds to it is in flight" in found["race"]


def test_a_group_that_is_not_committed_never_ends() -> None:
    name = "matmul_wgmma_async"
    found, _ = judge(name, drop(make(name)[1], COMMIT, 2))
    assert "while a wgmma that adds to it is in flight" in found["race"]


def test_a_tile_that_is_overwritten_under_its_group_is_a_race() -> None:
    """Copies come before the products, and go to the place of the tile before."""
    name = "matmul_wgmma_async"
    found, _ = judge(name, change(make(name)[1], WAIT, 0, 1))
    assert "wgmma of" in found["race"]
    assert "in flight" in found["race"]


def test_two_groups_in_flight_are_one_too_many() -> None:
    name = "matmul_wgmma_in_flight"
    found, _ = judge(name, change(make(name)[1], WAIT, 0, 2))
    assert "wgmma of" in found["race"]


@PIPELINES
@pytest.mark.parametrize("which", [0, 1])
def test_a_wait_for_copies_that_is_one_group_short_is_a_race(name: str, which: int) -> None:
    def wait_less(node: AttrStmt) -> AttrStmt:
        return AttrStmt(node.node, node.attr_key, node.value + 1, node.body)

    found, _ = judge(name, edit_wait(make(name)[1], which, wait_less))
    assert "race" in found


@PIPELINES
def test_a_stage_fewer_than_is_used_is_a_race(name: str) -> None:
    def is_ring(node: FloorMod) -> bool:
        return isinstance(node.b, IntImm) and int(node.b) == 3

    module, count = make(name)[1], 0
    while True:
        try:
            module = edit(
                module, FloorMod, is_ring, lambda node: FloorMod(node.a, const(2, "int32"))
            )
        except AssertionError:
            break
        count += 1
    assert count
    assert "race" in judge(name, module)[0]


@PIPELINES
def test_a_missing_fence_of_registers_is_found(name: str) -> None:
    found, _ = judge(name, drop(make(name)[1], FENCE))
    assert "with no wgmma.fence after its last use" in found["missing fence"]


@PIPELINES
def test_a_missing_fence_of_shared_memory_is_found(name: str) -> None:
    """Behind the wait for copies, which are stores of the threads that wait for them."""
    found, _ = judge(name, drop(make(name)[1], PROXY))
    assert "wgmma of" in found["missing fence"]
    assert "with no fence.proxy.async in between" in found["missing fence"]


@pytest.mark.parametrize("which", [0, 1])
def test_a_missing_barrier_is_a_race(which: int) -> None:
    """One in front of the products, and one in front of the copies to the place of a tile."""
    name = "matmul_wgmma_in_flight"
    assert "race" in judge(name, drop_barrier(make(name)[1], which))[0]


@pytest.mark.parametrize("operand", [0, 1])
@pytest.mark.parametrize("swizzle", [0, 1, 2, 3])
def test_a_descriptor_of_another_swizzle_gives_wrong_numbers(operand: int, swizzle: int) -> None:
    """A's rows have 128 bytes, TVM's number 3, and B's have 64, number 2."""
    name = "matmul_wgmma_swizzled"
    _, is_right = judge(name, change(make(name)[1], ENCODE, 4, swizzle, operand))
    assert is_right == (swizzle == (3, 2)[operand])


@pytest.mark.parametrize(("place", "operand"), [(3, 0), (3, 1), (2, 0)])
def test_another_stride_in_a_descriptor_gives_wrong_numbers(place: int, operand: int) -> None:
    """But for the leading one where a swizzled row goes along k, which nothing reads."""
    name = "matmul_wgmma_swizzled"
    _, is_right = judge(name, change(make(name)[1], ENCODE, place, 7, operand))
    assert is_right == (place == 2)


def test_a_tile_at_an_address_that_its_swizzle_does_not_divide_is_found() -> None:
    name = "matmul_wgmma_swizzled"

    def shift(call: Call) -> Call:
        _, data, offset, *rest = call.args
        return call_intrin(call.ty, call.op, call.args[0], data, offset + 8, *rest)

    planted = edit(
        make(name)[1], Call, lambda call: str(call.op.name) == "tirx.tvm_access_ptr", shift
    )
    found, is_right = judge(name, planted)
    assert "(a swizzle of 128 bytes begins at a multiple of 1024)" in found["misaligned access"]
    assert not is_right


def test_rows_of_b_that_are_taken_for_columns_give_wrong_numbers() -> None:
    name = "matmul_wgmma_swizzled"
    _, lowered = make(name)

    def transpose(node: Evaluate) -> Evaluate:
        call = node.value
        arguments = list(call.args)
        last = max(i for i, it in enumerate(arguments) if isinstance(it, IntImm))
        arguments[last] = const(0, "int32")
        return Evaluate(call_intrin(call.ty, call.op, *arguments))

    planted = edit(lowered, Evaluate, is_call("tirx.ptx.wgmma_f16_ss"), transpose)
    assert not judge(name, planted)[1]


def test_each_sum_has_a_thread_and_an_element_of_its_own() -> None:
    row, column = warpgroups._place_sums(96)
    assert row.shape == (128, 48)
    assert len(np.unique(row * 96 + column)) == 64 * 96
