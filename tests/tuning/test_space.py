"""A recipe as MetaSchedule's design space: decisions, mutations, and what is no candidate."""

import sys
from types import ModuleType
from typing import Any

import pytest
import tuned_programs
import tvm
from relax_functions import make_functions
from tvm.ir import assert_structural_equal
from tvm.relax import op
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

from tirstep.modules import get_kernel
from tirstep.transforms import TransformError
from tirstep.transforms.recipes import RECIPES, find_recipe
from tirstep.tuning import as_space
from tirstep.tuning.space import (
    RecipeSpace,
    carry_out,
    make_decided,
    read_choices,
    read_decisions,
    read_fixed,
)

TILED = find_recipe("matmul_tiled")
MODULE = get_kernel("matmul").problem(64, 48, 32).module
STRATEGIES = {
    "replay-func": ms.search_strategy.ReplayFunc,
    "replay-trace": ms.search_strategy.ReplayTrace,
    "evolutionary": lambda: ms.search_strategy.EvolutionarySearch(
        population_size=12, init_min_unmeasured=4, genetic_num_iters=2
    ),
}


@pytest.fixture
def without_intrinsics(monkeypatch: pytest.MonkeyPatch) -> None:
    """`TuneContext` reads all intrinsics of tensors, half a minute's work; none is used."""
    name = "tvm.s_tir.tensor_intrin"
    monkeypatch.setitem(sys.modules, name, sys.modules.get(name, ModuleType(name)))


def make_space(recipe: Any = TILED, **config: object) -> RecipeSpace:
    return RecipeSpace(recipe, dict(config), read_choices(recipe, {}, config))


def make_candidate(space: RecipeSpace, decisions: dict[str, int]) -> Schedule:
    sch = make_decided(space, MODULE, decisions)
    sch.enter_postproc()
    assert carry_out(space, sch) == ""
    return sch


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.usefixtures("without_intrinsics")
def test_each_strategy_of_metaschedules_takes_the_space(strategy: str) -> None:
    """Whatever its decisions, a candidate is what the recipe makes of them; so is what simplified
    traces replay.
    """
    space = as_space(TILED)
    context = ms.TuneContext(
        mod=MODULE,
        target=tvm.target.Target("llvm"),
        space_generator=space,
        search_strategy=STRATEGIES[strategy](),
        num_threads=1,
        rand_state=7,
    )
    database, model = ms.database.MemoryDatabase(), ms.cost_model.RandomModel()
    context.pre_tuning(8, 4, context.generate_design_space(), database, model)
    seen = 0
    while candidates := context.generate_measure_candidates():
        for candidate in candidates:
            seen += 1
            config = space.recipe_space.get_config(read_decisions(candidate.sch.trace))
            expected = TILED.steps(MODULE, **config)[-1].module
            assert_structural_equal(candidate.sch.mod, expected)
            fresh = Schedule(MODULE)
            simplified = candidate.sch.trace.simplified(remove_postproc=False)
            simplified.apply_to_schedule(fresh, remove_postproc=False)
            assert_structural_equal(fresh.mod, expected)
        results = [ms.runner.RunnerResult([0.1], None) for _ in candidates]
        context.notify_runner_results(candidates, results)
    assert seen > 4
    assert space.recipe_space.refused  # 64x48x32 does not divide by all


def test_a_mutation_changes_one_decision_and_runs_the_recipe_again() -> None:
    space = make_space()
    places = {"rows": 0, "columns": 1, "per_thread": 0}
    first = make_candidate(space, places)
    (mutator,) = as_space(TILED).mutator_probs
    changed = set()
    for _ in range(12):
        mutated = mutator.apply(first.trace)
        decisions = read_decisions(mutated)
        differing = [name for name, place in decisions.items() if place != places[name]]
        assert len(differing) == 1
        changed |= {*differing}
        sch = Schedule(MODULE)
        mutated.apply_to_schedule(sch, remove_postproc=True)
        reason = carry_out(space, sch)
        config = space.get_config(decisions)
        if reason:
            with pytest.raises(TransformError):
                TILED.steps(MODULE, **config)
        else:
            assert_structural_equal(sch.mod, TILED.steps(MODULE, **config)[-1].module)
    assert changed == {"rows", "columns", "per_thread"}


def test_a_refused_config_is_no_candidate_and_counted_once() -> None:
    space = make_space(tuned_programs.never_fits)
    module = tuned_programs.twice_plus_one.problem(n=64).module
    for _ in range(2):
        sch = make_decided(space, module, {"inner": 1})
        assert carry_out(space, sch).startswith("refused: split_loop: loop 'i' runs 64 times")
    assert space.refused == {"refused by split_loop": 1}


def test_a_space_without_a_config_that_fits_is_refused() -> None:
    """MetaSchedule's replays would look for one without an end."""
    space = as_space(tuned_programs.never_fits)
    with pytest.raises(Exception, match=r"never_fits fits with none of 256 configs.*inner=\d does"):
        space.generate_design_space(tuned_programs.twice_plus_one.problem(n=64).module)


def test_a_recipes_own_value_is_one_of_its_choices() -> None:
    assert make_space(tuned_programs.folded).choices == {"inner": (4, 2, 8, 24), "fold": (1, 2)}
    assert read_choices(tuned_programs.folded, {"inner": (2, 8)}, {"fold": 1}) == {"inner": (2, 8)}


def test_what_is_no_choice_is_as_in_the_recipes_example() -> None:
    """It takes 8 elements a thread, which divide nothing here, and guards its tail."""
    space = as_space(find_recipe("gelu_persistent"), blocks=264).recipe_space
    assert space.fixed == {"tail": "guard", "blocks": 264}
    module = get_kernel("gelu").problem(1000).module
    assert space.schedule(module, dict.fromkeys(space.choices, 0)).trace is not None
    assert read_fixed(tuned_programs.folded, {}, {"inner": 2}) == {"inner": 2}


def test_every_recipe_with_choices_makes_a_space() -> None:
    for recipe in RECIPES.values():
        if recipe.choices:
            space = as_space(recipe)
            assert {*space.recipe_space.choices} == {*recipe.choices}


@pytest.mark.parametrize(
    ("recipe", "options", "sentence"),
    [
        (tuned_programs.without_choices, {}, "without_choices declares no choices, so there is"),
        (tuned_programs.never_fits, {"inner": 4}, "never_fits has no choice left"),
        (tuned_programs.folded, {"among": {"inner": ()}}, "'inner' has no value"),
        (tuned_programs.folded, {"outer": 4}, "there is no size 'outer'; it has inner, fold"),
        (tuned_programs.folded, {"among": {"outer": (1,)}}, "there is no size 'outer'"),
    ],
)
def test_wrong_use_is_a_sentence(recipe: Any, options: Any, sentence: str) -> None:
    with pytest.raises(TransformError, match=sentence):
        as_space(recipe, **options)


def test_a_space_is_of_any_function_that_the_recipes_plan_takes() -> None:
    """Of a model's product, with other blocks than matmul has; its simplified trace replays."""
    halves = ((20, 32, "float16"), (32, 24, "float16"))
    (function,) = make_functions(lambda x, y: op.nn.relu(op.matmul(x, y)), *halves).values()
    module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    space = as_space(find_recipe("matmul_prefetched"), threads=(8, 8), tile_k=8)
    (decided,) = space.generate_design_space(module)
    decided.enter_postproc()
    assert carry_out(space.recipe_space, decided) == ""
    assert 'thread="blockIdx.x"' in decided.mod.script()
    again = Schedule(module)
    decided.trace.simplified(remove_postproc=False).apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, decided.mod)
    with pytest.raises(RuntimeError, match="softmax_rows: no rows: block 'matmul' reads each"):
        as_space(find_recipe("softmax_rows")).generate_design_space(module)
