"""What the suites and the wishes of a user come to."""

import pytest

from tirstep.bench.errors import BenchError
from tirstep.bench.peers import PACKAGES
from tirstep.bench.suites import CPU_PEERS, GPU_PEERS, SUITES, Entry
from tirstep.bench.works import Choice, Work, find_works
from tirstep.modules import KernelError
from tirstep.transforms.recipes import LADDERS, RECIPES

SMALL = {
    "one": (Entry("matmul", ((64, 48, 32), (8, 8, 8))), Entry("vector_add", ((32, 4),))),
    "two": (Entry("matmul", ((8, 8, 8),), recipes=("all",), peers=("torch",)),),
    "three": (Entry("no_such_kernel", ((1, 2),)),),
}


def shapes(works: list[Work]) -> list[tuple[int, ...]]:
    return [tuple(work.problem.shape.values()) for work in works]


def test_all_suites_by_default():
    works, absent = find_works(Choice(), SMALL)
    assert [work.suite for work in works] == ["one", "one", "one", "two"]
    # A kernel of one size takes the product of a shape.
    assert shapes(works) == [(64, 48, 32), (8, 8, 8), (128,), (8, 8, 8)]
    recipes = tuple(recipe for recipe in RECIPES.values() if recipe.kernel == "matmul")
    assert works[0].recipes == (recipes[0], recipes[-1])
    assert [recipe.name for recipe in works[0].recipes] == ["matmul_naive", "matmul_best"]
    assert works[3].recipes == recipes
    assert works[3].peers == ("torch",)
    assert absent == ["no_such_kernel"]


def test_a_suite_a_kernel_and_other_wishes():
    assert {work.suite for work in find_works(Choice(["two"]), SMALL)[0]} == {"two"}
    works, _ = find_works(Choice(["vector_add"]), SMALL)
    assert [work.problem.kernel.name for work in works] == ["vector_add"]
    # A kernel that no suite has is measured at the shapes of its tutorials.
    works, _ = find_works(Choice(["window_sum"]), SMALL)
    assert shapes(works) == [tuple(LADDERS["window_sum"][0].default_example.shape.values())]
    # A ladder of another name than its kernel's has its own shape, and its recipes alone.
    ((work,), _) = find_works(Choice(["step-by-step"]), SMALL)
    assert shapes([work]) == [(512, 512, 512)]
    assert work.recipes == LADDERS["step-by-step"].recipes
    works, _ = find_works(Choice(["one"], quick=True), SMALL)
    assert shapes(works) == [(64, 48, 32), (128,)]
    works, _ = find_works(Choice(["two"], [(4, 5, 6)], "float16", ["matmul_tiled"]), SMALL)
    assert shapes(works) == [(4, 5, 6)]
    assert dict(works[0].problem.options)["out"] == "float16"
    assert works[0].recipes == (RECIPES["matmul_tiled"],)
    # Two entries of a suite come to one problem: it is measured once.
    double = {"one": (Entry("matmul", ((8, 8, 8),)), Entry("matmul", ((9, 9, 9),)))}
    assert len(find_works(Choice(["one"], [(4, 5, 6)]), double)[0]) == 1


def test_integer_types_keep_their_own_outputs():
    works, _ = find_works(Choice(["two"], dtype="int8"), SMALL)
    assert works[0].problem.outputs[0].dtype == "int32"


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        (Choice(["matmull"]), "no suite and no kernel 'matmull'; did you mean matmul"),
        (Choice(["three"]), "there is nothing to measure: no_such_kernel is not here yet"),
        (Choice(recipes=["matmul_tilde"]), "there is no recipe 'matmul_tilde'; did you mean"),
        (Choice(["vector_add"], recipes=["matmul_tiled"]), "nothing to measure: no recipe fits"),
    ],
)
def test_what_cannot_be_is_refused(choice: Choice, sentence: str):
    with pytest.raises(BenchError, match=sentence):
        find_works(choice, SMALL)


def test_a_shape_of_too_many_sizes_is_refused():
    with pytest.raises(KernelError, match="got 4 sizes"):
        find_works(Choice(["two"], [(1, 2, 3, 4)]), SMALL)


def test_the_suites_can_run():
    works, _ = find_works(Choice())
    assert {work.suite for work in works} >= {"matmul", "convolution", "tutorial"}
    known = {*PACKAGES, "dlight", "numpy"}
    assert known == {*GPU_PEERS, *CPU_PEERS}
    for entries in SUITES.values():
        for entry in entries:
            assert set(entry.peers) <= known
            assert set(entry.recipes) <= {"first", "last", "all", *LADDERS, *RECIPES}


def test_the_suites_have_the_shapes_of_the_tutorials():
    tutorial = [entry for entry in SUITES["tutorial"] if entry.kernel == "matmul"]
    wanted = [(1024, 512, 2048), *((size,) * 3 for size in (256, 512, 1024, 2048))]
    assert [*tutorial[0].shapes] == wanted
