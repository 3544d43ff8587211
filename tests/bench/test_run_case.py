"""One case: who is timed, who is not, and why."""

import math
import re
from typing import Any

import numpy as np
import pytest
from fake_machine import FakeMachine

from tirstep.bench import BenchError
from tirstep.bench.cases import PlannedCase
from tirstep.bench.metrics import make_case_table
from tirstep.bench.peers import PEERS, Peer, wrap_function
from tirstep.bench.session import (
    Settings,
    describe_shortage,
    get_options,
    list_configs_of,
    order_turns,
    plan_repeats,
    run_case,
)
from tirstep.modules import attention, conv1d, conv2d, matmul
from tirstep.transforms.recipes import RECIPES

PROBLEM = matmul.problem(64, 48, 32)
NAIVE = RECIPES["matmul_naive"]


def run(machine: FakeMachine, *peers: str, recipes: Any = (NAIVE,), **settings: Any) -> Any:
    planned = PlannedCase("matmul", PROBLEM, recipes, tuple(PEERS[name] for name in peers))
    return run_case(planned, machine, Settings(**{"rounds": 4, **settings}), lambda line: None)


def test_everybody_is_checked_and_timed(machine: FakeMachine):
    machine.seconds = [3e-3, 2e-3]
    case = run(machine, "torch")
    times = {
        outcome.candidate: (outcome.kind, outcome.status, outcome.time.median_us)
        for outcome in case.outcomes
    }
    assert times == {
        "matmul_naive": ("recipe", "ok", pytest.approx(3000)),
        "torch": ("peer", "ok", pytest.approx(2000)),
    }
    assert (case.flops, case.bytes) == (PROBLEM.flops, PROBLEM.bytes)
    assert case.outcomes[0].launched == "graph"
    # One run of each for the plan, and then in turns, each round with another beginning.
    assert machine.runs == [*(0, 1), *(0, 1), *(1, 0), *(0, 1), *(1, 0)]


def test_own_functions_take_part_without_a_row_in_the_table(machine: FakeMachine):
    right = Peer("mine", "mine", functions=wrap_function(lambda a, b: a @ b))
    wrong = Peer("theirs", "theirs", functions=wrap_function(lambda a, b: a @ b + 1))
    planned = PlannedCase("own", PROBLEM, (NAIVE,), (right, wrong))
    case = run_case(planned, machine, Settings(rounds=2), lambda line: None)
    outcomes = {outcome.candidate: (outcome.kind, outcome.status) for outcome in case.outcomes[1:]}
    assert outcomes == {"mine": ("peer", "ok"), "theirs": ("peer", "wrong")}
    header = make_case_table(case, machine.measure_ceilings(["float32"], [case.bytes])).header
    assert "× mine" in header


@pytest.mark.parametrize(
    ("peer", "note"),
    [
        (lambda a, b: a @ b + 1e-3, r"C\[.*\] is .*, and float64 has .*; 3072 of 3072 elements"),
        (lambda a, b: np.full((64, 48), np.nan, "float32"), r"C\[0, 0\] is nan"),
        (lambda a, b: (a @ b)[:-1], r"the shape is \(63, 48\), not \(64, 48\)"),
    ],
)
def test_a_wrong_result_gets_no_time(machine: FakeMachine, peer: Any, note: str):
    machine.peers["torch"] = peer
    naive, wrong = run(machine, "torch").outcomes
    assert (wrong.status, wrong.time) == ("wrong", None)
    assert re.search(note, wrong.note)
    assert naive.time is not None


def test_what_nobody_writes_is_seen(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch):
    def compile_half(module: Any, arguments: Any) -> Any:
        a, b, c = arguments

        def launch() -> None:
            c[:32] = (a @ b)[:32]

        return launch

    monkeypatch.setattr(machine, "compile", compile_half)
    (outcome,) = run(machine).outcomes
    assert (outcome.status, outcome.time) == ("wrong", None)
    assert "is nan" in outcome.note
    assert "1536 of 3072 elements" in outcome.note


def test_a_result_that_goes_wrong_later_is_seen(machine: FakeMachine):
    calls = []

    def flaky(a: Any, b: Any) -> Any:
        calls.append(1)
        return a @ b if len(calls) < 3 else a @ b + 1

    machine.peers["torch"] = flaky
    outcome = run(machine, "torch").outcomes[1]
    assert (outcome.status, outcome.time) == ("wrong", None)
    assert outcome.note.startswith("after the timed runs, C[")


def test_who_fails_does_not_end_the_run(machine: FakeMachine):
    def fail(a: Any, b: Any) -> Any:
        raise RuntimeError("long\nstory:\nno kernel\x00image is available\n\x00\x00")

    machine.peers["torch"] = fail
    case = run(machine, "torch", "triton")
    assert [outcome.status for outcome in case.outcomes] == ["ok", "failed", "missing"]
    assert case.outcomes[1].note == "RuntimeError: no kernel image is available"
    assert case.outcomes[2].note == "triton is not installed"
    assert case.outcomes[0].time is not None


def test_a_device_that_is_gone_ends_the_run(machine: FakeMachine):
    def fail(a: Any, b: Any) -> Any:
        machine.is_gone = True
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    machine.peers["torch"] = fail
    spoilt = (
        r"^torch left the device unusable \(RuntimeError: CUDA error: an illegal memory access was "
        r"encountered\); leave it out, or find what is wrong with tirstep check, and begin again$"
    )
    with pytest.raises(BenchError, match=spoilt):
        run(machine, "torch")


def test_a_recipe_that_refuses_says_why(machine: FakeMachine):
    half = matmul.problem(64, 48, 32, dtype="float16", out="float16")
    planned = PlannedCase("matmul", half, (NAIVE,), ())
    (outcome,) = run_case(planned, machine, Settings(rounds=2), lambda line: None).outcomes
    assert (outcome.status, outcome.time) == ("missing", None)
    assert outcome.note.startswith("matmul_naive: the module has the blocks 'C C_cast'")


def test_a_shape_that_does_not_divide_takes_the_tails(machine: FakeMachine):
    blocking = RECIPES["matmul_shared_blocking"]
    assert list_configs_of(blocking, matmul.problem(64, 64, 64)) == [{}]
    variants = list_configs_of(blocking, matmul.problem(60, 50, 30))
    assert variants == [{"tail": "guard"}, {"tail": "pad"}]
    # Where no tail helps, the recipe itself says why.
    assert list_configs_of(NAIVE, matmul.problem(64, 48, 32, dtype="float16", out="float16")) == [
        {}
    ]


def test_an_example_s_options_are_no_form_where_all_recipes_have_them() -> None:
    """conv2d's examples have a padding, and a problem without one is timed without."""
    problem = conv2d.problem(1, 4, 4, 8, 8, 1, 1)
    assert get_options(RECIPES["conv2d_naive"], problem) == dict(problem.options)


def test_what_is_computed_is_said_by_the_problem() -> None:
    """A causal recipe is shown at causal attention, and timed at whatever is asked for."""
    problem = attention.problem(1, 1, 4, 4, 4)
    assert get_options(RECIPES["attention_causal"], problem) == dict(problem.options)
    assert get_options(RECIPES["attention_padded"], problem) == dict(problem.options)


def test_a_recipe_gets_its_own_form_of_the_kernel(machine: FakeMachine):
    problem = conv1d.problem(40, 5)
    naive = RECIPES["conv1d_naive"]
    assert get_options(naive, problem) == {**problem.options, "over": "output"}
    half = conv1d.problem(40, 5, dtype="float16")
    assert get_options(naive, half)["dtype"] == "float16"
    modules: list[str] = []
    compile_module = machine.compile

    def note(module: Any, arguments: Any) -> Any:
        modules.append(module.script())
        return compile_module(module, arguments)

    machine.compile = note  # type: ignore[method-assign]
    planned = PlannedCase("convolution", problem, (naive, RECIPES["conv1d_refactored"]), ())
    case = run_case(planned, machine, Settings(rounds=1), lambda line: None)
    assert [outcome.status for outcome in case.outcomes] == ["ok", "ok"]
    assert modules[0] != modules[1]


def test_too_little_memory_skips_the_shape(machine: FakeMachine):
    largest = max(math.prod(it.shape) for it in (*PROBLEM.inputs, *PROBLEM.outputs))
    machine.free = 3 * PROBLEM.bytes + 6 * 8 * largest - 1
    case = run(machine, "torch")
    assert case.outcomes == ()
    assert case.skipped == "needs 0.0 GiB on the device, and 0.0 are free"
    machine.free += 1
    assert run(machine, "torch").skipped == ""


def test_needed_memory_is_more_than_what_is_there(machine: FakeMachine):
    large: Any = matmul.problem(8192, 8192, 8192)
    machine.free = large.bytes + 4 * 8 * 8192**2
    fake: Any = machine
    assert describe_shortage(large, fake) == "needs 5.2 GiB on the device, and 2.8 are free"


def test_inputs_follow_from_the_seed(machine: FakeMachine):
    seen: list[Any] = []
    machine.peers["torch"] = lambda a, b: (seen.append(a.copy()), a @ b)[1]
    run(machine, "torch", seed=1)
    first = seen[0]
    seen.clear()
    run(machine, "torch", seed=2)
    assert not np.array_equal(first, seen[0])
    assert np.any(first)


def test_repeats_are_planned():
    assert plan_repeats([1e-6, 0.02, 0.3, 0.9, 2.0], rounds=50, budget=1.0) == [50, 50, 3, 3, 1]
    assert plan_repeats([0.5], rounds=2, budget=1.0) == [2]
    assert plan_repeats([0.0], rounds=5, budget=1.0) == [5]


def test_turns():
    assert [*order_turns([2, 1, 3])] == [0, 1, 2, 2, 0, 2]
    assert [*order_turns([])] == []
    assert sorted(order_turns([5, 0, 2])) == [0] * 5 + [2] * 2
