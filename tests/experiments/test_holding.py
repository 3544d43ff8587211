"""`pass_experiment` and `assert_keeps_promises`: a broken promise fails, and says how."""

from pathlib import Path

import pytest
import tvm
from golden_runs import run_golden
from tvm.tirx import BufferStore
from tvm_ffi import structural_map

from tirstep.experiments import (
    Declaration,
    ExperimentError,
    assert_keeps_promises,
    get_declaration,
    list_steps,
    make_subject,
    pass_experiment,
)
from tirstep.experiments.promises import load_value
from tirstep.strategies.drawn_programs import parse_program
from tirstep.transforms.recipes import RECIPES

EXAMPLES = Path(__file__).parents[2] / "examples/passes"
PROGRAM = """# from tvm.script import tirx as T
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        C[i] = A[i] - A[7 - i]
"""


def change(module, kind, edit):
    functions = {
        name.name_hint: structural_map(function, (kind, edit))
        for name, function in module.functions_items()
    }
    return tvm.IRModule(functions)


@pass_experiment(after="s_tir.ThreadSync", promises=["drops barriers only"])
def add_nothing(module):
    """It changes the program, and no barrier."""
    return change(
        module, BufferStore, lambda s: BufferStore(s.buffer, s.value * s.value, s.indices)
    )


def double_max(store):
    """The same number, by another way."""
    return BufferStore(store.buffer, tvm.tirx.Max(store.value, store.value), store.indices)


@pass_experiment(after="s_tir.ThreadSync", promises=["is idempotent"])
def grow(module):
    """It stores everything twice, each time that it runs."""
    return change(module, BufferStore, lambda store: tvm.tirx.SeqStmt([store, store]))


@pytest.mark.share(9)
def test_the_example_that_wins_keeps_its_promises():
    made = load_value(f"{EXAMPLES}/vectorize_maps.py:vectorize_maps")
    subjects = list(list_steps(run_golden(RECIPES["depthwise_conv2d_tiled"])))
    report = assert_keeps_promises(made, subjects)
    assert report.changed == 3


def test_a_wrong_pass_is_told_with_a_small_program():
    made = load_value(f"{EXAMPLES}/wrong_passes.py:sort_operands")
    with pytest.raises(AssertionError, match="breaks the promise 'changes no numbers'") as error:
        assert_keeps_promises(made, [make_subject("mine", parse_program(PROGRAM))])
    assert str(error.value).count("\n") < 10
    assert "def main" in str(error.value)


def test_another_promise_is_asked_too():
    subject = make_subject("mine", parse_program(PROGRAM))
    with pytest.raises(AssertionError, match="'is idempotent' on mine") as error:
        assert_keeps_promises(grow, [subject], shrinks=False)
    assert "run twice, it changes the module twice" in str(error.value)
    with pytest.raises(AssertionError, match="it changes something other than barriers"):
        assert_keeps_promises(
            lambda module: change(module, BufferStore, double_max),
            [subject],
            declaration=Declaration("after", "s_tir.ThreadSync", ("drops barriers only",)),
            shrinks=False,
        )
    with pytest.raises(AssertionError, match="breaks the promise 'changes no numbers'"):
        assert_keeps_promises(add_nothing, [subject], shrinks=False)


def test_a_pass_that_does_nothing_is_not_tested():
    subject = make_subject("mine", parse_program(PROGRAM))
    declared = Declaration("after", "tirx.StmtSimplify", ("changes no numbers",))
    with pytest.raises(AssertionError, match="changes none of 1 modules, so nothing was tested"):
        assert_keeps_promises(lambda module: module, [subject], declaration=declared)
    report = assert_keeps_promises(
        lambda module: module, [subject], declaration=declared, may_do_nothing=True
    )
    assert (report.tried, report.changed) == (1, 0)


def test_wrong_declarations_are_refused():
    with pytest.raises(ExperimentError, match="did you mean 'changes no bits'"):
        pass_experiment(after="s_tir.ThreadSync", promises=["changes no bit"])
    with pytest.raises(ExperimentError, match=r"did you mean s_tir\.ThreadSync"):
        pass_experiment(after="s_tir.ThreadSnc")
    with pytest.raises(ExperimentError, match="give one of after=, before= and replace="):
        pass_experiment()
    with pytest.raises(ExperimentError, match="decorate it with pass_experiment"):
        assert_keeps_promises(lambda module: module)
    assert get_declaration(add_nothing).promises == ("drops barriers only",)
