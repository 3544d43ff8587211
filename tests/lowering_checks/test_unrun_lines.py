"""What of a program ran in no round is told with its lines, and nothing else is."""

from __future__ import annotations

import pytest
import tvm
from tvm.script import tirx as T

from tirstep.lowering_checks.devices import CpuDevice
from tirstep.lowering_checks.numeric import check_numbers, make_cases
from tirstep.lowering_checks.reference import ModuleKernel
from tirstep.lowering_checks.reference.module_kernel import ModuleProblem
from tirstep.lowering_checks.steps import run_golden
from tirstep.lowering_checks.verdict import find_odd_run
from tirstep.transforms.recipes import RECIPES


@T.prim_func(s_tir=True)
def rare(x: T.Buffer((8,), "int32"), y: T.Buffer((8,), "int32")):
    for i in range(8):
        y[i] = x[i]
        if x[0] * 5 + x[1] * 3 == 71293:
            y[i] = 0  # line of `rare`
            if x[2] > 0:
                y[i] = 1


@T.prim_func(s_tir=True)
def always(x: T.Buffer((8,), "int32"), y: T.Buffer((8,), "int32")):
    for i in range(8):
        if x[0] * 5 + x[1] * 3 != 71293:
            y[i] = x[i]
        else:
            y[i] = 0  # line of `always`


@T.prim_func(s_tir=True)
def no_iteration(x: T.Buffer((8,), "int32"), y: T.Buffer((8,), "int32")):
    for i in range(8):
        y[i] = x[i]
        for j in range(T.max(x[i] - 2147483640, 0)):
            y[i] = j  # line of `no_iteration`


@T.prim_func(s_tir=True)
def waiting(x: T.Buffer((8,), "int32"), y: T.Buffer((8,), "int32")):
    for i in range(8):
        y[i] = x[i]
        while y[i] == 71293 + x[0] * x[1]:
            y[i] = 0  # line of `waiting`


@T.prim_func(s_tir=True)
def proven(x: T.Buffer((8,), "int32"), y: T.Buffer((8,), "int32")):
    for i in range(8):
        y[i] = x[i]
        if i >= 8:
            y[i] = 0
        if x[i] * 2 % 2 == 1:
            y[i] = 1
        for _ in range(T.min(i, 0)):
            y[i] = 2
        if i < 6:
            y[i] = 3
            if i > 6:
                y[i] = 4


@T.prim_func(s_tir=True)
def guarded(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
    for b in T.thread_binding(3, thread="blockIdx.x"):
        for t in T.thread_binding(3, thread="threadIdx.x"):
            if b * 3 + t < 8:
                y[b * 3 + t] = x[b * 3 + t]


@T.prim_func(s_tir=True)
def waits(x: T.Buffer((32,), "float32"), y: T.Buffer((32,), "float32")):
    with T.launch_thread("threadIdx.x", 32) as t:
        s = T.alloc_shared((32,))
        s[t] = x[t]
        T.tvm_storage_sync("shared")
        if x[0] * x[1] == T.float32(71293):
            y[t] = 0.0
        y[t] = s[31 - t]


@T.prim_func(s_tir=True)
def turned(x: T.Buffer((32,), "float32"), y: T.Buffer((32,), "float32")):
    for i in range(32):
        y[i] = x[31 - i]


def make_problem(function: object, reference: object = None) -> ModuleProblem:
    kernel = ModuleKernel(tvm.IRModule({"main": function}), "mine")
    if reference is not None:
        kernel = kernel.with_reference(ModuleKernel(tvm.IRModule({"main": reference}), "other"))
    return kernel.problem()


def find_line(text: str) -> int:
    with open(__file__) as file:
        return 1 + next(place for place, line in enumerate(file) if text in line)


LONGEST = 1 << 24
LINES = {
    name: find_line(f"# line of `{name}`") for name in ("rare", "always", "no_iteration", "waiting")
}


@pytest.mark.parametrize(
    ("function", "lines", "reason"),
    [
        (
            rare,
            f"lines {LINES['rare']} to {LINES['rare'] + 2}",
            "`x[0] * 5 + x[1] * 3 == 71293` held in no iteration",
        ),
        (
            always,
            f"line {LINES['always']}",
            "`x[0] * 5 + x[1] * 3 != 71293` held in every iteration",
        ),
        (no_iteration, f"line {LINES['no_iteration']}", "the loop over `x` had no iteration"),
        (waiting, f"line {LINES['waiting']}", "did not hold before the first iteration"),
    ],
)
def test_what_does_not_run_is_told(function: object, lines: str, reason: str) -> None:
    """Of what lies within one another, the outermost."""
    (said,) = make_problem(function).find_unrun(0)
    assert said.startswith(f"{lines} never ran: ")
    assert said.endswith(reason)


@pytest.mark.parametrize("function", [proven, guarded, turned])
def test_what_never_runs_or_always_does_is_not_told(function: object) -> None:
    """Nor are a seed's cases, on which its numbers were compared, made again."""
    problem = make_problem(function)
    make_cases.cache_clear()
    assert not check_numbers(problem, problem.module, CpuDevice(), where="")
    assert problem.find_unrun(0) == []
    assert make_cases.cache_info().misses == 1


def test_of_a_program_with_a_reference_it_is_the_program() -> None:
    """Of one whose threads exchange values, nothing is known."""
    plain = make_problem(proven)
    assert len(make_problem(rare, plain.function).find_unrun(0)) == 1
    assert make_problem(proven, rare).find_unrun(0) == []
    assert make_problem(waits, turned).find_unrun(0) == []


@pytest.mark.share(30)
@pytest.mark.parametrize("name", RECIPES)
def test_all_of_a_recipe_runs_at_its_golden_and_at_an_odd_shape(name: str) -> None:
    """As modules of somebody's own; of those whose threads exchange values nothing is known."""
    golden = run_golden(RECIPES[name])
    for run in (golden, find_odd_run(golden)):
        for step in () if run is None else {run.steps[0], run.steps[-1]}:
            kernel = ModuleKernel(step.module, name)
            sizes = {size: run.problem.shape[size] for size in kernel.size_names}
            problem = kernel.problem(**sizes)
            if problem.find_refusal() is None and problem.work < LONGEST:
                assert problem.find_unrun(0) == []
