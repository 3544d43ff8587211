"""Every step of every recipe is as its golden file says; `make golden` rewrites them."""

from pathlib import Path

import pytest
from golden_runs import run_golden

from tirstep.lowering_checks import GoldenStore
from tirstep.transforms.recipes import RECIPES, Recipe
from tirstep.tvm_compat import TVM
from tirstep.versions import PAIRS

STORE = GoldenStore(Path(__file__).resolve().parents[1] / "golden")


@pytest.fixture(scope="session", autouse=True)
def same_tvm() -> None:
    """Goldens of another TVM say nothing, so this is asked before anything else."""
    if tuple(map(int, PAIRS[-1].tvm.split("."))) > TVM:
        pytest.skip(f"the goldens are printed by TVM {PAIRS[-1].tvm}")
    findings = STORE.check_version()
    if findings:
        pytest.fail(str(findings[0]), pytrace=False)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
def test_golden(recipe: Recipe) -> None:
    findings = [finding for step in STORE.check(run_golden(recipe)) for finding in step]
    if findings:
        pytest.fail("\n".join(map(str, findings)), pytrace=False)


def test_no_orphans() -> None:
    findings = STORE.find_orphans([run_golden(recipe) for recipe in RECIPES.values()])
    if findings:
        pytest.fail("\n".join(map(str, findings)), pytrace=False)
