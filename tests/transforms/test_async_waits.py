"""Waits for asynchronous copies where products come first, which TVM counts wrongly."""

import pytest
import tvm
from kernels import at_block
from mma_by_tma import MMA_BY_TMA
from tvm.tirx import AttrStmt

from tirstep.lowering_checks import check_numbers, get_device, run_golden, run_recipe
from tirstep.lowering_checks.devices.simulator import lower
from tirstep.transforms.pass_options import KEY
from tirstep.transforms.pipelining import COMMIT, WAIT, CorrectAsyncWaits
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.tir import constant, find_all

SIMULATOR = get_device("simulator")


def count(module: tvm.IRModule) -> list[int | None]:
    """The copies that may be in flight at each wait, in their order."""
    nodes = find_all(module["main"].body, AttrStmt)
    return [constant(node.value) for node in nodes if node.attr_key == WAIT]


def in_default_pipeline(module: tvm.IRModule) -> tvm.IRModule:
    sch, root, *_ = at_block(module, "root")
    if KEY in sch.get(root).annotations:
        sch.unannotate(root, KEY)
    sch.annotate(root, KEY, "default")
    return sch.mod


@pytest.mark.parametrize(
    ("name", "is_race"),
    [
        ("matmul_wgmma_in_flight", True),
        ("matmul_wgmma_tma", True),
        ("matmul_wgmma_async", False),
        ("matmul_mma_tma", False),
    ],
)
def test_what_needs_our_pipeline(name: str, is_race: bool) -> None:
    """TVM's own pipeline makes a race of it, and of the others none."""
    run = run_golden(RECIPES.get(name, MMA_BY_TMA))
    plain = in_default_pipeline(run.steps[-1].module)
    found = check_numbers(run.problem, plain, SIMULATOR, where=name)
    assert any("race: " in str(finding) for finding in found) == is_race


def test_without_the_pass_it_is_a_race() -> None:
    run = run_golden(RECIPES["matmul_wgmma_in_flight"])
    simulator, inputs = get_device("simulator"), run.problem.integer_inputs(0)
    wanted = (inputs[0].astype("f4") @ inputs[1].astype("f4")).astype("f4")
    found = []
    for module in (run.steps[-1].module, in_default_pipeline(run.steps[-1].module)):
        program = simulator.compile(module)
        *_, got = program([*inputs, 0 * wanted])
        found.append(({finding.kind for finding in program.findings}, bool((got == wanted).all())))
    assert found[0] == (set(), True)
    assert "race" in found[1][0]


def test_other_pipelines_stay_as_they_are() -> None:
    modules = [run_golden(RECIPES["matmul_mma_rows"]).steps[-1].module]
    shape = {"m": 64, "n": 64, "k": 128}
    for stages in (2, 3, 4):
        config = {"tile": (64, 64), "warp": (32, 32), "tile_k": 32, "stages": stages}
        run = run_recipe(
            RECIPES["matmul_mma_async"], shape, options={"dtype": "float16"}, config=config
        )
        modules.append(run.steps[-1].module)
    for module in modules:
        lowered = lower(in_default_pipeline(module))
        assert count(lowered)
        assert any(node.attr_key == COMMIT for node in find_all(lowered["main"].body, AttrStmt))
        assert CorrectAsyncWaits(lowered).same_as(lowered) or count(
            CorrectAsyncWaits(lowered)
        ) == count(lowered)
