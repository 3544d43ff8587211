"""Each step: its golden and its numbers; those of the last one in other runs, too."""

from pathlib import Path

import pytest
from my_kernels.recipes import multiply_add_bound

from tirstep.lowering_checks import GoldenStore, get_device, judge_run, run_golden
from tirstep.lowering_checks.verdict import find_other_runs

STORE = GoldenStore(Path(__file__).parent / "golden")
RECIPES = [multiply_add_bound]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_each_step_is_right(recipe):
    run = run_golden(recipe)
    others = list(find_other_runs(run))  # at odd shapes, with other knobs, in other types
    verdicts = list(judge_run(run, get_device("auto"), store=STORE, others=others))
    assert [finding for verdict in verdicts for finding in verdict.findings] == []
    assert len(verdicts) > len(run.steps)


def test_goldens_are_of_this_tvm_and_of_these_recipes():
    findings = [*STORE.check_version(), *STORE.find_orphans(map(run_golden, RECIPES))]
    assert findings == []
