"""Where a module is run with a change of the pipeline: behind that change, and not for ever."""

from pathlib import Path

import pytest
import tvm
from tvm import tirx
from tvm_ffi import structural_map

from tirstep.cli.pass_ import list_subjects
from tirstep.experiments import Edit, Experiment, trying
from tirstep.experiments.editing import get_pass
from tirstep.experiments.trying import UNJUDGED, DeviceVerdict, make_subject, try_change
from tirstep.strategies.drawn_programs import parse_program

TUTORIAL = Path(__file__).resolve().parents[2] / "examples/tutorial/mm_relu.py"


def run(*modules: str, drop: str) -> list[DeviceVerdict]:
    """The verdicts on the last step of some modules, without a pass of TVM's."""
    edit = Edit("drop", drop)
    subjects, _ = list_subjects(modules, 0, edit)
    with Experiment("drop", edit) as experiment:
        return list(try_change(experiment, subjects[-1], devices=("cpu",)).verdicts)


def test_a_state_in_front_of_the_change_is_no_answer():
    """What can be interpreted of it stands before StorageRewrite, where nothing was dropped yet."""
    interpreted, run_on_cpu = run(f"{TUTORIAL}:for_cpu", drop="tirx.StorageRewrite")
    assert interpreted.after is None
    assert "too much to interpret" in interpreted.note
    assert run_on_cpu.before == run_on_cpu.after == ()


def test_a_state_behind_the_change_is_one():
    (verdict, _) = run("window_sum_shared", drop="tirx.StorageRewrite")
    assert (verdict.device, verdict.before, verdict.after) == ("simulator", (), ())


def test_a_run_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trying, "SECONDS", 0.0)
    (verdict, _) = run("window_sum_shared", drop="tirx.StorageRewrite")
    assert verdict.before is None
    assert verdict.note == "it takes more than 0 s to run"


def test_a_pass_that_drops_the_function_is_refused():
    """Nothing can be run behind it, which is no reason to say that nothing is known."""
    edit = Edit("after", "tirx.FlattenBuffer", get_pass(lambda module: tvm.IRModule({}), "drop"))
    subjects, _ = list_subjects(["window_sum_shared"], 0)
    with Experiment("drop", edit) as experiment:
        found = try_change(experiment, subjects[0])
    reason = "the module has no function 'main' behind it"
    assert (found.status, found.what, found.reason) == ("refused", "refused", reason)


STORES = """
# from tvm.script import tirx as T
@T.prim_func
def main(C: T.Buffer((4,), "int32")):
    for tx in T.thread_binding(4, thread="threadIdx.x"):
        S = T.alloc_buffer((4,), "int32", scope="shared")
        S[(tx + 1) % 4] = 7
        U = T.alloc_buffer((4,), "int32", scope="shared")
        C[tx] = 0
        for i in range(2):
            U[tx] = i
            C[tx] = C[tx] + U[0]
"""


def test_stores_that_tvm_leaves_unordered_are_no_fault_of_a_pass_in_front():
    """StorageRewrite gives U the memory of S, and ThreadSync orders no store after a store."""

    def peel(loop):
        if loop.kind != tirx.ForKind.SERIAL or loop.loop_var.name != "i":
            return loop
        copies = [
            structural_map(
                loop.body,
                (tirx.Var, lambda it, at=at: loop.min + at if it.same_as(loop.loop_var) else it),
            )
            for at in (0, 1)
        ]
        return tirx.SeqStmt(copies)

    def run(module):
        functions = {
            name: structural_map(function, (tirx.For, peel))
            for name, function in module.functions_items()
        }
        return tirx.transform.ConvertSSA()(tvm.IRModule(functions, attrs=module.attrs))

    with Experiment("peel", Edit("before", "tirx.VectorizeLoop", get_pass(run, "peel"))) as peels:
        found = try_change(peels, make_subject("stores", parse_program(STORES)))
    assert found.status == UNJUDGED
    assert "ThreadSync leaves stores unordered" in found.reason
