"""The passes of a compilation: their numbers, what each changed, and the source in the end."""

import pytest
import tvm
import tvm_ffi
from golden_runs import run_golden

from tirstep.lowering_checks import CheckError, print_module
from tirstep.lowering_checks.compile.passes import Lowering, lower_through_passes
from tirstep.transforms.recipes import find_recipe


def scheduled(name: str = "matmul_shared") -> tvm.IRModule:
    return run_golden(find_recipe(name)).steps[-1].module


@pytest.fixture(scope="module")
def lowering() -> Lowering:
    return lower_through_passes(scheduled())


def test_what_did_not_change_is_equal_and_what_changed_is_not(lowering: Lowering):
    assert 15 < len(lowering.changed) < 30 < len(lowering.passes)
    for step in lowering.passes:
        is_equal = tvm_ffi.structural_equal(step.before, step.module)
        assert step.changed is not is_equal
        assert step.changed or step.diff().lines == ()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("UnrolLoop", "there is no pass 'UnrolLoop' .*; did you mean tirx.UnrollLoop or "),
        ("zzz", "there is no pass 'zzz' for the target .*; there are: tirx.BindTarget, "),
        ("0", "there is no pass 0 .*; its passes are 1 to 59"),
        (60, "there is no pass 60 .*; its passes are 1 to 59"),
    ],
)
def test_an_unknown_pass_is_refused(lowering: Lowering, name: str | int, sentence: str):
    with pytest.raises(CheckError, match=sentence):
        lowering.get_pass(name)


def test_an_architecture_as_target_reaches_tvm():
    bound = lower_through_passes(scheduled("vector_add_bound"), "sm_75").get_pass(1)
    assert '"arch": "sm_75"' in print_module(bound.module)


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("cudaa", "there is no target 'cudaa'; did you mean cuda?"),
        ("nvidia/nvidia-h10", "did you mean nvidia/nvidia-h100 or "),
        ("zzz", "there are cuda, opencl, metal, webgpu, llvm, sm_80 and the like, and TVM's tags"),
        ("vulkan", "has the kind vulkan, .*; choose one of cuda, opencl, metal, webgpu, llvm"),
    ],
)
def test_an_unknown_target_is_refused(target: str, sentence: str):
    with pytest.raises(CheckError, match=sentence):
        lower_through_passes(scheduled("vector_add_bound"), target)
