"""The strategies for whole modules, as a user's tests draw from them."""

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from tirstep.experiments.trying import make_subject
from tirstep.lowering_checks import get_device
from tirstep.lowering_checks.device import DeviceError
from tirstep.modules import Problem
from tirstep.strategies import kernels, programs, recipe_steps
from tirstep.strategies.problems import SIZES


@given(problem=kernels())
def test_kernels_are_small_problems(problem: Problem):
    assert problem.kernel.name in SIZES
    assert problem.flops < 2**20


@given(module=programs(blocks=False))
def test_programs_are_right_as_they_stand(module):
    """Each output is written, within its bounds, by one thread."""
    subject = make_subject("drawn", module)
    after = subject.oracle.expected
    assert len(after) == len(module["main"].params)
    if subject.target == "llvm":
        try:
            found = subject.oracle.check(get_device("cpu").compile(module), "cpu", "drawn")
        except DeviceError:  # LLVM refuses some vectors of bfloat16
            return
        assert found == []


@given(data=st.data())
def test_blocks_and_steps_are_modules(data):
    assert "sblock" in data.draw(programs(blocks=True)).script()
    run, step = data.draw(recipe_steps(["relu_bound", "window_sum_shared"]))
    assert step in run.steps


def test_without_hypothesis_the_reason_is_a_sentence():
    program = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "import tirstep.strategies as s, tirstep.strategies.drawn_programs\n"
        "try: s.programs\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    needs = "tirstep.strategies.programs needs Hypothesis: pip install 'tirstep[strategies]'"
    assert done.stdout.strip() == needs
