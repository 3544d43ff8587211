"""What recipes expect of the lowering of their steps: that it holds, and that a breach is found."""

import dataclasses
import importlib.util

import pytest
from compilers import needs_compiler
from golden_runs import run_default_example, run_golden

from tirstep.lowering_checks import CheckError, Finding, Run, run_recipe
from tirstep.lowering_checks import expectations as checked
from tirstep.lowering_checks.expectations import (
    check_expectations,
    find_unmade_steps,
    judge_expectations,
)
from tirstep.lowering_checks.facts import compiled, cuda_compilers
from tirstep.transforms.recipes import RECIPES, find_recipe
from tirstep.transforms.recipes.recipe import (
    Expect,
    SourcePattern,
    parse_expectation,
    read_expectations,
)
from tirstep.transforms.schedule import TransformError


def expecting(run: Run, *expected: str | SourcePattern) -> Run:
    """The run of a recipe that expects something else of its last step."""
    expects = read_expectations({run.steps[-1].name: expected})
    return dataclasses.replace(run, recipe=dataclasses.replace(run.recipe, expects=expects))


def sentences(run: Run) -> list[str]:
    return [expectation.message for expectation in check_expectations(run, run.steps[-1])]


@pytest.fixture(scope="module")
def blocking() -> Run:
    return run_default_example(find_recipe("matmul_shared_blocking"))


FACTS = {*checked.COMPILED_FACTS, *checked.COUNTED, *checked.BY_WIDTH}
COMPILED = [
    name
    for name, recipe in RECIPES.items()
    for expected in recipe.expects.values()
    if any(isinstance(it, Expect) and it.fact.partition(".")[0] in FACTS for it in expected)
]


def find_breaches(run: Run) -> list[str]:
    steps = {step.name: step for step in run.steps}
    outcomes = [
        each for step in run.recipe.expects for each in judge_expectations(run, steps[step])
    ]
    return [str(outcome) for outcome in outcomes if isinstance(outcome, Finding)]


@pytest.mark.share(30)
@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.usefixtures("no_compiler")
def test_what_a_recipe_expects_of_the_lowering_holds(name: str):
    run = run_default_example(find_recipe(name))
    chooses = name.endswith("_best")  # what the last step is depends on the shape
    assert chooses or run.steps[-1].name in run.recipe.expects
    assert find_breaches(run) == []


@pytest.mark.share(30)
@needs_compiler
@pytest.mark.parametrize("name", COMPILED)
def test_what_a_recipe_expects_of_the_machine_code_holds(name: str):
    assert find_breaches(run_default_example(find_recipe(name))) == []


@pytest.mark.parametrize("text", ["spills = 0", "spills", "== 0", "a == b", "a == 1 on gpu"])
def test_what_is_no_sentence_is_refused(text: str):
    with pytest.raises(TransformError, match=f"'{text}' is not an expectation; write FACT, one of"):
        parse_expectation(text)


def test_a_schedule_that_lost_its_vectors_is_found(blocking: Run):
    recipe = blocking.recipe
    scalar = run_recipe(recipe, recipe.default_example.shape, config={"vector": 1})
    found = sentences(scalar)
    assert "vector_loads == 2 is expected, and vector_loads is 0" in found
    has_filecheck = importlib.util.find_spec("filecheck") is not None
    complaint = "the source does not match the pattern"
    assert any(text.startswith(complaint) for text in found) == has_filecheck


def test_an_unknown_fact_is_refused_with_the_nearest(blocking: Run):
    with pytest.raises(CheckError, match="there is no such fact; did you mean vector_loads"):
        sentences(expecting(blocking, "vector_load == 2"))


def test_a_step_that_launches_nothing_meets_no_expectation():
    run = run_golden(find_recipe("vector_add_bound"))
    unbound = dataclasses.replace(run, steps=run.steps[:1])
    assert sentences(expecting(unbound, "threads == 1")) == [
        "the module launches no kernel: no loop is bound to a GPU"
    ]


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_or_filecheck_it_says_what_was_not_checked(
    blocking: Run, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(checked.importlib.util, "find_spec", lambda name: None)
    run = expecting(
        blocking, "spills == 0", "LDG.128 == 2", SourcePattern("CHECK: a"), "blocks > 0"
    )
    assert judge_expectations(run, run.steps[-1]) == [
        *(cuda_compilers.MISSING, cuda_compilers.MISSING, checked.MISSING_FILECHECK, None),
    ]


def test_without_a_disassembler_instructions_are_not_checked(
    blocking: Run, monkeypatch: pytest.MonkeyPatch
):
    try:
        cuda_compilers.get_compiler()
    except CheckError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(compiled, "count_instructions", lambda cubin: None)
    run = expecting(blocking, "HMMA > 0 on sm_80", "spills == 0 on sm_80")
    assert judge_expectations(run, run.steps[-1]) == [checked.MISSING_NVDISASM, None]


def test_what_is_expected_of_no_step_is_a_finding():
    run = run_golden(RECIPES["relu_bound"])
    assert find_unmade_steps(run) == []
    expects = read_expectations({"bund": ("barriers == 0",)})
    wrong = dataclasses.replace(run, recipe=dataclasses.replace(run.recipe, expects=expects))
    (finding,) = find_unmade_steps(wrong)
    assert "step 'bund', which it does not yield; did you mean bound?" in finding.message
