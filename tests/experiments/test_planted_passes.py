"""A planted wrong pass of each kind is caught over the corpus, and shrunk to a few lines."""

import time
from pathlib import Path

import pytest
import tvm

from tirstep.experiments import Corpus, Edit, Experiment, get_declaration
from tirstep.experiments.counterexample import read_source
from tirstep.experiments.hunting import HuntState, find_counterexample, hunt, write_counterexample
from tirstep.experiments.user_file import load_value

WRONG = Path(__file__).parents[2] / "examples/passes/wrong_passes.py"
KINDS = {
    "drop_last_barrier": "race",
    "sort_operands": "numbers",
    "hoist_store": "out of bounds",
    "drop_resets": "uninitialized read",
    "widen_vectors": "out of bounds",
}
"""The planted passes, and what the simulator calls what they do."""
FEW, MOST = 4, 150
"""So many programs that show it are enough, and must be among so many trials."""
LINES, SECONDS = 30, 120


@pytest.mark.parametrize("name", KINDS)
def test_a_wrong_pass_is_caught_and_made_small(name: str, tmp_path: Path):
    begin = time.monotonic()
    value = load_value(f"{WRONG}:{name}")
    edit = get_declaration(value).edit(value, name)
    corpus, bad = Corpus(0, ("program",)), []
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
    assert time.monotonic() - begin < SECONDS


def test_a_right_change_is_not_caught():
    """A pass that TVM runs anyway, once more."""
    edit = Edit("after", "tirx.StmtSimplify", tvm.tirx.transform.StmtSimplify())
    corpus = Corpus(0)
    with Experiment("again", [edit]) as experiment:
        state = HuntState(None, "again", corpus)
        records = list(hunt(experiment, corpus, range(24), state))
    assert not [record for record in records if record.is_bad]
    assert {record.status for record in records} >= {"unchanged"}
