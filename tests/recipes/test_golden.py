"""Every step of every recipe is as its golden file says; `make golden` rewrites them."""

from pathlib import Path

import pytest
from golden_runs import find_first_recipes, list_new_steps, run_golden
from tvm.s_tir import Schedule
from tvm_ffi import structural_equal

from tirstep.lowering_checks import GoldenStore, Run
from tirstep.lowering_checks.steps import make_golden_problem, step_label
from tirstep.transforms.recipes import RECIPES, Recipe, Step

STORE = GoldenStore(Path(__file__).resolve().parents[1] / "golden")


@pytest.fixture(scope="session", autouse=True)
def same_tvm() -> None:
    """Goldens of another TVM say nothing, so this is asked before anything else."""
    findings = STORE.check_version()
    if findings:
        pytest.fail(str(findings[0]), pytrace=False)


def name_steps(recipe: Recipe) -> Run:
    """The run of a recipe at its golden example, with the steps of its folder, none of them run."""
    problem = make_golden_problem(recipe)
    names = ["input", *(label[3:] for label in STORE.read_digests(recipe.name))]
    steps = tuple(
        Step(place, name, problem.module, Schedule(problem.module).trace, "")
        for place, name in enumerate(names)
    )
    return Run(recipe, problem, {}, steps)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
def test_golden(recipe: Recipe) -> None:
    made = [step.name for step in run_golden(recipe).steps]
    assert made == [step.name for step in name_steps(recipe).steps]
    findings = [finding for step in STORE.check(run_golden(recipe)) for finding in step]
    if findings:
        pytest.fail("\n".join(map(str, findings)), pytrace=False)


def test_no_orphans() -> None:
    """By the names of files, which `test_golden` holds."""
    findings = STORE.find_orphans([name_steps(recipe) for recipe in RECIPES.values()])
    if findings:
        pytest.fail("\n".join(map(str, findings)), pytrace=False)


@pytest.mark.parametrize("name", ["matmul_deeper", "matmul_mma_fragments"])
def test_steps_that_are_not_new_are_those_of_a_recipe_before(name: str) -> None:
    """Which are run and lowered there."""
    run, first = run_golden(RECIPES[name]), find_first_recipes()
    new = [step.name for step in list_new_steps(run)]
    assert run.steps[-1].name in new
    digests = STORE.read_digests(name)
    old = [step for step in run.steps if step.name not in new]
    assert len(old) >= 2
    for step in old:
        other = run_golden(RECIPES[first[run.problem, digests[step_label(step)]]])
        assert [*RECIPES].index(other.recipe.name) < [*RECIPES].index(name)
        assert other.problem == run.problem
        assert any(structural_equal(step.module, each.module) for each in other.steps)
