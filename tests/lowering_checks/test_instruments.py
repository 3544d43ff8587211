"""The time of a compilation, which ends between two passes."""

import pytest
import tvm
from golden_runs import run_golden

from tirstep.lowering_checks import DeviceError, get_device
from tirstep.lowering_checks.compile.passes import lower_through_passes
from tirstep.transforms.recipes import find_recipe

SENTENCE = (
    r"compiling took more than 0.001 s(, \d+\.\d s of them in TVM's \w+\.\w+)?; make its loops "
    r"smaller, or raise the limit with the environment variable TIRSTEP_COMPILE_SECONDS$"
)


@pytest.fixture
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIRSTEP_COMPILE_SECONDS", "0.001")


@pytest.fixture
def bound() -> tvm.IRModule:
    return run_golden(find_recipe("matmul_naive")).steps[-1].module


@pytest.mark.parametrize("device", ["cpu", "simulator"])
def test_a_compilation_ends_at_its_limit(device: str, no_time: None, bound: tvm.IRModule) -> None:
    with pytest.raises(DeviceError, match=SENTENCE) as caught:
        get_device(device).compile(bound)
    assert "\n" not in str(caught.value)


def test_looking_at_the_passes_ends_at_its_limit(no_time: None, bound: tvm.IRModule) -> None:
    failed = lower_through_passes(bound).failed
    assert "compiling took more than 0.001 s" in failed.reason
