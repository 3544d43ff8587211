"""The time of a compilation, which ends between two passes."""

import pytest
import tvm
from golden_runs import run_golden
from tvm.s_tir import Schedule

from tirstep.lowering_checks import DeviceError, get_device
from tirstep.lowering_checks.compile import instruments
from tirstep.lowering_checks.compile.compiling import compile_module
from tirstep.lowering_checks.compile.instruments import Deadline
from tirstep.lowering_checks.compile.passes import lower_through_passes
from tirstep.modules import matmul
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


def test_tvm_compiles_on_after_a_limit(
    bound: tvm.IRModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIRSTEP_COMPILE_SECONDS", "0.001")
    with pytest.raises(DeviceError, match="compiling took more than"):
        compile_module(bound, "nvidia/nvidia-h100")
    monkeypatch.delenv("TIRSTEP_COMPILE_SECONDS")
    assert compile_module(bound, "nvidia/nvidia-h100").mod.imports


def test_looking_at_the_passes_ends_at_its_limit(no_time: None, bound: tvm.IRModule) -> None:
    failed = lower_through_passes(bound).failed
    assert failed is not None
    assert "compiling took more than 0.001 s" in failed.reason


def test_the_longest_pass_is_named(monkeypatch: pytest.MonkeyPatch, bound: tvm.IRModule) -> None:
    now = [0.0]
    monkeypatch.setattr(instruments.time, "monotonic", lambda: now[0])
    deadline = Deadline(10.0)

    class Info:
        def __init__(self, name: str) -> None:
            self.name = name

    watch = deadline.instrument()
    for name, seconds in (("sequential", 0), ("tirx.Quick", 2), ("tirx.Slow", 7)):
        watch.run_before_pass(bound, Info(name))
        now[0] += seconds
        if name != "sequential":
            watch.run_after_pass(bound, Info(name))
    assert deadline.sentence == ""
    now[0] += 2
    with pytest.raises(TimeoutError, match=r"more than 10 s, 7\.0 s of them in TVM's tirx\.Slow"):
        watch.run_before_pass(bound, Info("tirx.Next"))


def test_what_tvm_refuses_stays_what_it_is() -> None:
    sch = Schedule(matmul(8, 64, 8))
    i, j, k = sch.get_loops(sch.get_sblock("C"))
    sch.reorder(k, i, j)
    sch.bind(i, "threadIdx.x")
    sch.vectorize(j)
    with pytest.raises(tvm.error.InternalError):
        compile_module(sch.mod, "nvidia/nvidia-h100")
