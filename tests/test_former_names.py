"""Names that moved work for one version more, and say where they are now."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import tirstep.transforms

MODULES = {
    "tirstep.lowering_checks.finding.Finding": "tirstep.lowering_checks.steps",
    "tirstep.lowering_checks.other_runs.find_other_runs": "tirstep.lowering_checks.verdict",
    "tirstep.lowering_checks.records.record_recipe": "tirstep.lowering_checks.upgrades",
    "tirstep.transforms.lowering.PIPELINE": "tirstep.transforms.passes",
    "tirstep.transforms.recipes.stencil.conv1d_naive": "tirstep.transforms.recipes.conv1d",
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_that_moved_warns_and_has_the_same(name: str) -> None:
    module, _, member = name.rpartition(".")
    home = MODULES[name]
    with pytest.warns(DeprecationWarning, match=f"^{module} is now {home}$"):
        found = getattr(importlib.import_module(module), member)
    assert found is getattr(importlib.import_module(home), member)


def test_names_that_were_gathered_in_one_module_are_found_where_they_are() -> None:
    module = importlib.import_module("tirstep.transforms.lowering")
    home, own = (
        pytest.warns(DeprecationWarning, match=text)
        for text in ("lowering is now", "register_reducer is now")
    )
    with home, own:
        assert module.register_reducer is tirstep.transforms.reduction.register_reducer
    with pytest.warns(DeprecationWarning, match="lowering is now"):
        assert module.set_pipeline is tirstep.transforms.set_pipeline


def test_the_import_statement_of_a_user_works_and_names_their_line(tmp_path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(
        "from tirstep.transforms.recipes.matmul_blocking import matmul_shared_blocking"
    )
    done = subprocess.run(
        [sys.executable, "-W", "default", script], capture_output=True, text=True, check=True
    )
    assert "tirstep.transforms.recipes.matmul_blocking is now" in done.stderr
    assert "matmul_tutorials" in done.stderr


def test_what_a_moved_module_never_had_is_an_error() -> None:
    module = importlib.import_module("tirstep.lowering_checks.other_runs")
    with pytest.raises(AttributeError, match="no attribute 'find_other_rooms'"):
        _ = module.find_other_rooms
    assert not hasattr(module, "__file__")  # without a warning, for tools that look at all modules
