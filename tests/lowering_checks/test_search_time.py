"""A search for the first bad state ends, whatever the module: in time, or at once on Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from foreign_modules import MatmulRelu
from golden_runs import run_default_example
from tvm.s_tir import Schedule

from tirstep.lowering_checks.bisect import bisect_run
from tirstep.lowering_checks.device import blank
from tirstep.lowering_checks.devices import DeviceError
from tirstep.lowering_checks.devices.simulator.interpreter import Interpreter
from tirstep.lowering_checks.numeric import make_cases
from tirstep.lowering_checks.reference import ModuleKernel
from tirstep.transforms.recipes import Example, recipe

SUPPORT = Path(__file__).parents[1] / "support"


@recipe(
    kernel=ModuleKernel(MatmulRelu, "MatmulRelu"),
    blocks=("Y C",),
    default_example=Example({}),
    golden=Example({}),
)
def vectors(sch: Schedule) -> Iterator[str]:
    """TVM's VectorizeLoop gets it wrong; no state of it can be run as threads."""
    _, j = sch.get_loops(sch.get_sblock("C"))
    _, lanes = sch.split(j, [None, 8])
    sch.vectorize(lanes)
    sch.compute_at(sch.get_sblock("Y"), lanes)
    yield "vectors"


def test_a_module_that_takes_minutes_ends_in_time_and_says_what_was_not_run() -> None:
    run = run_default_example(vectors)
    make_cases(run.problem, 0, False)
    started = time.monotonic()
    found = bisect_run(run, target="llvm", timeout=4)
    assert time.monotonic() - started < 25
    assert found.first_bad.step is run.steps[1]
    told = [*found.not_run, *found.first_bad.not_run]
    assert any("the time that is left is too short to interpret it" in text for text in told)


def test_what_is_interpreted_has_a_deadline() -> None:
    device = Interpreter()
    device.deadline = time.monotonic()
    run = run_default_example(vectors)
    program = device.compile(run.steps[1].module)
    inputs = run.problem.integer_inputs(0)
    blanks = [blank(tensor) for tensor in run.problem.outputs]
    with pytest.raises(DeviceError, match="choose a smaller shape, or give a longer timeout"):
        program(run.problem.make_arguments(inputs, blanks))


INTERRUPTED = """
import sys
sys.path.insert(0, {support!r})
import pytest
from foreign_modules import MatmulRelu
from tirstep.lowering_checks.devices.simulator import interpreter

require_time = interpreter.SimulatedGpu.require_time
seen = [0]

def tell(gpu):
    seen[0] += 1
    if seen[0] == 1000:
        print("interpreting", flush=True)
    return require_time(gpu)

interpreter.SimulatedGpu.require_time = tell
from tirstep.cli import main
sys.exit(main(["why", {program!r}]))
"""
PROGRAM = """
import sys
sys.path.insert(0, {support!r})
import pytest
from foreign_modules import MatmulRelu

def vectors(sch):
    _, j = sch.get_loops(sch.get_sblock("C"))
    _, lanes = sch.split(j, [None, 8])
    sch.vectorize(lanes)
    sch.compute_at(sch.get_sblock("Y"), lanes)
"""


@pytest.mark.share(3)
def test_it_ends_at_once_when_it_is_interrupted(tmp_path: Path) -> None:
    program = tmp_path / "vectors.py"
    program.write_text(PROGRAM.format(support=str(SUPPORT)))
    script = tmp_path / "run.py"
    script.write_text(INTERRUPTED.format(support=str(SUPPORT), program=f"{program}:vectors"))
    with subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        assert process.stdout.readline() == "interpreting\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors


@pytest.mark.share(4)
def test_a_vector_that_tvm_spoils_is_named_well_within_the_time() -> None:
    """Variables that are looked up by == made this five times as slow as it is."""
    found = bisect_run(run_default_example(vectors), target="llvm")
    assert (found.first_bad.kind, found.first_bad.name) == ("pass", "tirx.VectorizeLoop")
    assert (found.not_run, found.first_bad.not_run) == ((), ())
    interpreted = [each.state for each in found.judged if each.device == "interpreter"]
    assert interpreted == ["as scheduled", "as scheduled"]
