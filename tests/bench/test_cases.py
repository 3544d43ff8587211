"""What the suites and the wishes of a user come to."""

import pytest

from tirstep.bench import BenchError
from tirstep.bench.cases import (
    SUITES,
    CaseChoice,
    PlannedCase,
    SuiteEntry,
    plan_cases,
)
from tirstep.bench.peers import PEERS
from tirstep.modules import KernelError
from tirstep.transforms.recipes import LADDERS, RECIPES

SMALL = {
    "one": (SuiteEntry("matmul", ((64, 48, 32), (8, 8, 8))), SuiteEntry("vector_add", ((32, 4),))),
    "two": (SuiteEntry("matmul", ((8, 8, 8),), recipes=("all",), peers=("torch",)),),
}


def shapes(cases: list[PlannedCase]) -> list[tuple[int, ...]]:
    return [tuple(planned.problem.shape.values()) for planned in cases]


def test_all_suites_by_default():
    cases, _ = plan_cases(CaseChoice(), SMALL)
    assert [planned.suite for planned in cases] == ["one", "one", "one", "two"]
    # A kernel of one size takes the product of a shape.
    assert shapes(cases) == [(64, 48, 32), (8, 8, 8), (128,), (8, 8, 8)]
    # Tensor cores multiply other types.
    recipes = tuple(
        recipe for recipe in RECIPES.values() if recipe.kernel == "matmul" and not recipe.dtypes
    )
    assert cases[0].recipes == (recipes[0], recipes[-1])
    assert [recipe.name for recipe in cases[0].recipes] == ["matmul_naive", "matmul_best"]
    assert cases[3].recipes == recipes
    assert cases[3].peers == ("torch",)


def test_a_suite_a_kernel_and_other_wishes():
    assert {planned.suite for planned in plan_cases(CaseChoice(["two"]), SMALL)[0]} == {"two"}
    cases, _ = plan_cases(CaseChoice(["vector_add"]), SMALL)
    assert [planned.problem.kernel.name for planned in cases] == ["vector_add"]
    # A kernel that no suite has is measured at the shapes of its tutorials.
    cases, _ = plan_cases(CaseChoice(["window_sum"]), SMALL)
    assert shapes(cases) == [tuple(LADDERS["window_sum"][0].default_example.shape.values())]
    # A ladder of another name than its kernel's has its own shape, and its recipes alone.
    (planned,), _ = plan_cases(CaseChoice(["step-by-step"]), SMALL)
    assert shapes([planned]) == [(512, 512, 512)]
    assert planned.recipes == LADDERS["step-by-step"].recipes
    # It is measured in its own types, and at what it computes.
    (planned,), _ = plan_cases(CaseChoice(["attention_mma_causal"]), SMALL)
    assert planned.recipes == LADDERS["attention_mma_causal"].recipes
    assert (planned.problem.options["dtype"], planned.problem.options["causal"]) == (
        "float16",
        True,
    )
    cases, _ = plan_cases(CaseChoice(["one"], quick=True), SMALL)
    assert shapes(cases) == [(64, 48, 32), (128,)]
    cases, _ = plan_cases(CaseChoice(["two"], [(4, 5, 6)], "float16", ["matmul_tiled"]), SMALL)
    assert shapes(cases) == [(4, 5, 6)]
    assert dict(cases[0].problem.options)["out"] == "float16"
    assert cases[0].recipes == (RECIPES["matmul_tiled"],)
    # Two entries of a suite come to one problem: it is measured once.
    double = {"one": (SuiteEntry("matmul", ((8, 8, 8),)), SuiteEntry("matmul", ((9, 9, 9),)))}
    assert len(plan_cases(CaseChoice(["one"], [(4, 5, 6)]), double)[0]) == 1


def test_a_problem_of_two_entries_has_the_recipes_and_peers_of_both():
    entries = [
        SuiteEntry("matmul", ((8, 8, 8),), recipes=recipes, peers=(PEERS[peer],))
        for recipes, peer in ((("matmul_tiled", "matmul_naive"), "torch"), (("all",), "triton"))
    ]
    (planned,), _ = plan_cases(CaseChoice(["one"]), {"one": entries})
    every = [it.name for it in RECIPES.values() if it.kernel == "matmul" and not it.dtypes]
    assert sorted(it.name for it in planned.recipes) == sorted(every)
    assert [it.name for it in planned.peers] == ["torch", "triton"]


def test_a_type_that_only_products_have_is_stored_as_float32():
    cases, _ = plan_cases(CaseChoice(["two"], dtype="tf32"), SMALL)
    assert [tensor.dtype for tensor in cases[0].problem.arguments] == ["float32"] * 3
    assert {recipe.dtypes for recipe in cases[0].recipes} > {()}


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        (CaseChoice(["matmull"]), "no suite and no kernel 'matmull'; did you mean matmul"),
        (CaseChoice(recipes=["matmul_tilde"]), "there is no recipe 'matmul_tilde'; did you mean"),
        (
            CaseChoice(["vector_add"], recipes=["matmul_tiled"]),
            "nothing to measure: no recipe fits",
        ),
    ],
)
def test_what_cannot_be_is_refused(choice: CaseChoice, sentence: str):
    with pytest.raises(BenchError, match=sentence):
        plan_cases(choice, SMALL)


def test_a_shape_is_for_the_kernels_that_it_fits():
    cases, left_out = plan_cases(CaseChoice(["attention"], [(2, 16, 2048, 2048, 128)]))
    assert {it.problem.kernel.name for it in cases} == {"attention"}
    assert shapes(cases) == [(2, 16, 2048, 2048, 128)] * 2
    assert left_out == [
        "decode_attention has the sizes batch, heads, keys, dim, which no --shape gives"
    ]
    with pytest.raises(KernelError, match="attention: size queries is missing"):
        plan_cases(CaseChoice(["attention"], [(2, 16)]))


def test_the_suites_can_run():
    cases, _ = plan_cases(CaseChoice())
    assert {planned.suite for planned in cases} >= {"matmul", "convolution", "tutorial"}
    for entries in SUITES.values():
        for entry in entries:
            assert set(entry.recipes) <= {"first", "last", "all", *LADDERS, *RECIPES}
