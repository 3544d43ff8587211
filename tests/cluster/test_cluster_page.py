"""The page of what more GPUs would do: its table is today's scheduler's."""

from __future__ import annotations

import json
from pathlib import Path

import cluster_page
import pytest


def test_the_page_is_what_the_simulation_says():
    page = cluster_page.PAGE.read_text(encoding="utf-8")
    assert cluster_page.fill(page, cluster_page.write_part(cluster_page.SECONDS)) == page
    assert "Nothing of this was measured on many GPUs" in page


def test_a_search_s_own_seconds_make_another_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "a.seconds.json"
    file.write_text(json.dumps({"seconds": {"compile": [500.0]}}))
    monkeypatch.setattr("sys.argv", ["cluster_page.py", str(file)])
    monkeypatch.setattr(cluster_page, "SEARCHES", (32,))
    assert cluster_page.main() == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| 32")]
    assert len(rows) == len(cluster_page.GPUS)
    assert "cores that compile" in rows[0]
    with pytest.raises(ValueError, match="has no <!-- simulated: begin -->"):
        cluster_page.fill("a page", "a part")
