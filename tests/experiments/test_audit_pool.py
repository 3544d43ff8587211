"""A program with which TVM ends the process is one finding of the audit, and the others go on."""

import json
from pathlib import Path

import pytest
from crashing_audit import crash_at_some

from tirstep.cli import main
from tirstep.experiments import audit_pool
from tirstep.experiments.audit import tabulate


def test_a_crash_is_one_finding_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(audit_pool, "audit_one", crash_at_some)
    state = tmp_path / "state.jsonl"
    words = ["pass", "--audit", "--corpus", "6", "--jobs", "2", "--state", str(state), "--json"]
    assert main(words) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["counts"] == {"right": 4, "crashed": 2}
    assert document["ok"] is False
    first, second = document["trials"]
    assert (first["trial"], first["at"]) == (2, "tirx.StorageRewrite")
    assert first["reason"] == "TVM ends the process (SIGSEGV) in tirx.StorageRewrite"
    assert (second["trial"], second["reason"]) == (
        4,
        "TVM ends the process (SIGABRT) in drawing it",
    )
    # What was found is kept: nothing is tried again.
    monkeypatch.setattr(audit_pool, "audit_one", None)
    assert main(words) == 1
    capsys.readouterr()
    assert main(words[:-1]) == 1
    assert "trial 2, program 2: TVM ends the process (SIGSEGV)" in capsys.readouterr().out


def test_a_pass_that_crashes_is_in_the_table() -> None:
    trials = [*audit_pool.audit_in_processes(0, [2], 1, crash_at_some)]
    (row,) = tabulate(trials, ["tirx.StorageRewrite"])
    assert dict(row.wrong) == {"crash": 1}
