"""A report's simulator runs a program once, and makes nothing else of it."""

import numpy as np
import pytest
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.cli.report import repeating
from tirstep.cli.report.repeating import RepeatingSimulator
from tirstep.lowering_checks.devices import SimulatorDevice
from tirstep.lowering_checks.devices.simulator.simulated_gpu import SimulatedGpu

SIZE = 64


def scale(factor: float, name: str = "C"):
    @I.ir_module
    class Scaled:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((SIZE,), "float32"), C: T.Buffer((SIZE,), "float32")):
            for i in T.thread_binding(SIZE, thread="threadIdx.x"):
                with T.sblock(name):
                    v = T.axis.spatial(SIZE, i)
                    C[v] = A[v] * T.float32(factor)

    return Scaled


@I.ir_module
class Racing:
    """Each thread loads what its neighbour stores."""

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((SIZE,), "float32"), C: T.Buffer((SIZE,), "float32")):
        for i in T.thread_binding(SIZE, thread="threadIdx.x"):
            with T.sblock("C"):
                v = T.axis.spatial(SIZE, i)
                C[v] = A[v]
                C[v] = C[(v + 1) % SIZE]


@pytest.fixture
def launches(monkeypatch):
    """What was run, and nothing that was run before."""
    monkeypatch.setattr(repeating, "_RUNS", {})
    seen: list[object] = []
    launch = SimulatedGpu.launch

    def note(gpu: SimulatedGpu, body: object) -> None:
        seen.append(body)
        launch(gpu, body)

    monkeypatch.setattr(SimulatedGpu, "launch", note)
    return seen


def run(module, array, device=None):
    device = device or RepeatingSimulator()
    program = device.compile(module)
    arguments = program([array, np.full(SIZE, np.nan, np.float32)])
    return arguments[1], program.findings, device.counts


def test_a_run_is_made_once_and_tells_the_same_again(launches):
    array = np.arange(SIZE, dtype=np.float32)
    first, again = (run(scale(3), array) for _ in range(2))
    assert len(launches) == 1
    np.testing.assert_array_equal(first[0], array * 3)
    np.testing.assert_array_equal(first[0], again[0])
    assert first[2] == again[2] == run(scale(3), array, SimulatorDevice())[2]
    again[0][:] = 0  # whoever has a result may change it
    np.testing.assert_array_equal(run(scale(3), array)[0], array * 3)


def test_other_arguments_and_other_programs_are_run(launches):
    array = np.arange(SIZE, dtype=np.float32)
    run(scale(3), array)
    np.testing.assert_array_equal(run(scale(3), array + 1)[0], array * 3 + 3)
    near = float(np.nextafter(np.float32(3), np.float32(4)))
    np.testing.assert_array_equal(run(scale(near), array)[0], array * np.float32(near))
    assert len(launches) == 3


def test_a_run_with_findings_is_made_again(launches):
    array = np.arange(SIZE, dtype=np.float32)
    first, again = (run(Racing, array) for _ in range(2))
    assert [finding.kind for finding in first[1]] == ["race"]
    assert [str(finding) for finding in first[1]] == [str(finding) for finding in again[1]]
    assert len(launches) == 2


def test_old_runs_are_forgotten(launches, monkeypatch):
    monkeypatch.setattr(repeating, "MOST_RUNS", 1)
    arrays = [np.full(SIZE, value, np.float32) for value in (1, 2, 1)]
    for array in arrays:
        np.testing.assert_array_equal(run(scale(3), array)[0], array * 3)
    assert len(launches) == 3
