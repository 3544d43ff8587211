"""A planted wrong pass of each kind is caught over the corpus, and shrunk to a few lines."""

import functools
from pathlib import Path

import pytest
import tvm

from tirstep.experiments import Corpus, Edit, Experiment, Subject, make_subject, try_change
from tirstep.experiments.promises import load_experiment
from tirstep.experiments.shrinking import find_counterexample
from tirstep.strategies.drawn_programs import parse_program

WRONG = Path(__file__).parents[2] / "examples/passes/wrong_passes.py"
KINDS = {
    "drop_last_barrier": "race",
    "sort_operands": "numbers",
    "hoist_store": "out of bounds",
    "drop_resets": "uninitialized read",
    "widen_vectors": "out of bounds",
}
"""The planted passes, and what the simulator calls what they do."""
FEW, MOST = 2, 150
"""So many programs that show it are enough, and must be among so many trials."""
LINES = 30


@functools.cache
def draw(trial: int) -> Subject:
    """Each program is drawn once: all that is planted is looked for in the same ones."""
    return Corpus(0, ("program",)).draw(trial)


@pytest.mark.share(24)
@pytest.mark.parametrize("name", KINDS)
def test_a_wrong_pass_is_caught_and_made_small(name: str, tmp_path: Path):
    experiment = load_experiment("", "", f"{WRONG}:{name}")
    bad = []
    for trial in range(MOST):
        found = try_change(experiment, draw(trial))
        bad += [found] * found.is_bad
        if len(bad) >= FEW and KINDS[name] in {each.what for each in bad}:
            break
    assert KINDS[name] in {each.what for each in bad}
    subjects = [each.subject for each in bad]
    small = find_counterexample(experiment, subjects, tmp_path / "wrong.py", seconds=30)
    assert small is not None
    assert small.is_shown, small.last_line
    assert small.last_line.startswith("WRONG: ")
    assert small.shrunk.lines < LINES


ASKS_FOR_OURS = """
@T.prim_func(s_tir=True)
def main(B: T.Buffer((4, 1), "int32")):
    with T.sblock("root"):
        T.sblock_attr({"tir_pipeline": "tirstep"})
        S = T.sblock_alloc_buffer((1, 2), "int32", scope="shared")
        L = T.sblock_alloc_buffer((1, 1), "int32", scope="local")
        for i in T.thread_binding(2, thread="threadIdx.x"):
            for j in T.thread_binding(2, thread="threadIdx.x"):
                S[0, j] = B[j, 0] + B[2, 0]
            L[0, 0] = S[0, 1]
"""


@pytest.mark.share(3)
def test_a_change_at_a_pass_of_ours_is_made_small_in_our_pipeline(tmp_path: Path):
    subject = make_subject("ours", parse_program(ASKS_FOR_OURS))
    spec = f"{WRONG}:drop_last_barrier"
    experiment = load_experiment("after", "DropRedundantBarriers", spec)
    found = find_counterexample(experiment, [subject], tmp_path / "wrong.py", seconds=10)
    assert found is not None
    assert found.is_shown, found.last_line
    assert "'tir_pipeline': 'tirstep'" in found.shrunk.text
    assert found.shrunk.trial.what == "race"


@pytest.mark.share(3)
def test_a_right_change_is_not_caught():
    """A pass that TVM runs anyway, once more."""
    edit = Edit("after", "tirx.StmtSimplify", tvm.tirx.transform.StmtSimplify())
    corpus = Corpus(0)
    experiment = Experiment("again", edit)
    statuses = {try_change(experiment, corpus.draw(trial)).status for trial in range(24)}
    assert "unchanged" in statuses
    assert statuses <= {"unchanged", "right", "left out"}
