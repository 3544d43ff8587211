"""wgmma in the simulator: bugs that are planted around it, each of which is found without a GPU."""

import functools
from collections.abc import Callable

import pytest
import tvm
from edits import NOTHING, edit
from tvm.ir import Call
from tvm.tirx import Evaluate, call_intrin

from tirstep.lowering_checks.device import blank
from tirstep.lowering_checks.devices.simulator import lower, simulate_lowered
from tirstep.lowering_checks.steps import Run, run_recipe
from tirstep.transforms.recipes import RECIPES

FENCE, COMMIT, WAIT = (f"tirx.ptx.wgmma_{name}" for name in ("fence", "commit_group", "wait_group"))
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


@PIPELINES
def test_what_is_not_changed_is_right(name: str) -> None:
    assert judge(name, make(name)[1]) == ({}, True)


def test_a_group_that_is_not_committed_never_ends() -> None:
    name = "matmul_wgmma_async"
    found, _ = judge(name, drop(make(name)[1], COMMIT, 2))
    assert "while a wgmma that adds to it is in flight" in found["race"]


@PIPELINES
def test_a_missing_fence_of_registers_is_found(name: str) -> None:
    found, _ = judge(name, drop(make(name)[1], FENCE))
    assert "with no wgmma.fence after its last use" in found["missing fence"]


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
