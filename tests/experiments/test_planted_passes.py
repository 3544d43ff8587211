"""A planted wrong pass of each kind is caught over the corpus, and shrunk to a few lines."""

import functools
from pathlib import Path

import pytest
import tvm

from tirstep.experiments import Corpus, Edit, Experiment, get_declaration
from tirstep.experiments.counterexample import read_source
from tirstep.experiments.editing import get_pass
from tirstep.experiments.hunting import (
    HuntState,
    TrialRecord,
    find_counterexample,
    hunt,
    shrink_subject,
    try_subject,
    write_counterexample,
)
from tirstep.experiments.subject import Subject, make_subject
from tirstep.experiments.user_file import load_value
from tirstep.strategies.program_text import parse_program

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


class RememberedCorpus(Corpus):
    """Draws each program once: all that is planted is looked for in the same ones."""

    @functools.cache  # noqa: B019
    def draw(self, trial: int) -> Subject:
        return super().draw(trial)


@pytest.mark.parametrize("name", KINDS)
def test_a_wrong_pass_is_caught_and_made_small(name: str, tmp_path: Path):
    value = load_value(f"{WRONG}:{name}")
    edit = get_declaration(value).edit(value, name)
    corpus, bad = RememberedCorpus(0, ("program",)), []
    with Experiment(name, [edit]) as experiment:
        for record in hunt(experiment, corpus, range(MOST), HuntState(None, name, corpus)):
            bad += [record] * record.is_bad
            if len(bad) == FEW:
                break
        assert KINDS[name] in {record.what for record in bad}
        found = find_counterexample(experiment, corpus, bad, seconds=40)
    assert found is not None
    path = tmp_path / "wrong.py"
    found = write_counterexample(found, [edit], read_source(WRONG, name), name, path)
    assert found.is_shown, found.last_line
    assert found.last_line.startswith("WRONG: ")
    assert found.shrunk.lines < LINES
    assert "tirstep.experiments" not in path.read_text("utf-8")


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


def test_a_change_at_a_pass_of_ours_is_made_small_in_our_pipeline():
    value = load_value(f"{WRONG}:drop_last_barrier")
    edit = Edit("after", "DropRedundantBarriers", get_pass(value, "drop_last_barrier"))
    subject = make_subject("ours", parse_program(ASKS_FOR_OURS))
    with Experiment("ours", [edit]) as experiment:
        verdict = try_subject(experiment, subject)
        assert verdict.kind == "race"
        record = TrialRecord(0, "", "ours", verdict.status, "", verdict.kind)
        found = shrink_subject(experiment, subject, record, seconds=10)
    assert found is not None
    assert not found.is_scripted
    assert "'tir_pipeline': 'tirstep'" in found.shrunk.text
    assert found.verdict.kind == "race"


def test_a_right_change_is_not_caught():
    """A pass that TVM runs anyway, once more."""
    edit = Edit("after", "tirx.StmtSimplify", tvm.tirx.transform.StmtSimplify())
    corpus = Corpus(0)
    with Experiment("again", [edit]) as experiment:
        state = HuntState(None, "again", corpus)
        records = list(hunt(experiment, corpus, range(24), state))
    assert not [record for record in records if record.is_bad]
    assert {record.status for record in records} >= {"unchanged"}
