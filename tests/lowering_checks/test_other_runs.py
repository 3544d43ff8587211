"""Other runs of a recipe: at shapes that no tile divides, in narrower types, with other knobs."""

import dataclasses
import itertools
import math

import pytest
import tvm
from golden_runs import run_golden
from tvm.script import from_source

from tirstep.lowering_checks import check_ownership, run_recipe, verdict
from tirstep.lowering_checks.reference import ModuleKernel
from tirstep.lowering_checks.verdict import (
    LimitedRuns,
    OtherRun,
    find_odd_run,
    find_other_runs,
)
from tirstep.modules.dtypes import dtype_facts
from tirstep.transforms.recipes import LADDERS, RECIPES, Example, recipe

# The rungs of a ladder share a schedule: of others, test_numbers.py draws such shapes.
LAST = [ladder[-1] for ladder in LADDERS.values()]
BY_NAME = pytest.mark.parametrize("recipe", LAST, ids=lambda recipe: recipe.name)


@pytest.mark.share(12)
@BY_NAME
def test_a_recipe_takes_an_odd_shape_and_ends_finished_there(recipe) -> None:
    odd = find_odd_run(run_golden(recipe))
    assert odd is not None
    golden = recipe.golden.shape
    changed = {name: size for name, size in odd.problem.shape.items() if size != golden[name]}
    kept = golden.keys() - changed.keys()
    if recipe.kernel == "depthwise_conv2d":
        assert kept <= {"k"}  # a filter of images is odd already
    elif recipe.kernel == "attention" and not recipe.tails:
        # Vectors of 16 bits are whole, and causal queries no more than keys.
        vectors, causal = {"dim"} if recipe.arch else set(), {"queries"} & kept
        assert kept == vectors | (causal if recipe.golden.options.get("causal") else set())
    else:
        assert not kept
    assert all(size % 2 or golden[name] == 1 for name, size in changed.items())
    # Those of conv2d pad whatever their tail is.
    assert odd.config.get("tail", "guard") in ("guard", "pad") or recipe.kernel == "conv2d"
    assert check_ownership(odd.steps[-1].module) == []


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "name", ["vector_add_bound", "matmul_shared", "matmul_strips", "softmax_vectors"]
)
def test_the_first_six_have_each_thing_that_the_recipe_has(name: str) -> None:
    recipe, run = RECIPES[name], run_golden(RECIPES[name])
    others = list(itertools.islice(find_other_runs(run), 6))
    by_about = {other.about: other.run for other in others}
    odd = by_about["at an odd shape"]
    tails = {other.run.config.get("tail") for other in others}
    assert tails == {tail for tail in recipe.tails if tail != "refuse"}
    (narrow,) = [by for about, by in by_about.items() if about.startswith("in ")]
    own = dtype_facts(str(run.problem.options["dtype"]))
    assert dtype_facts(str(narrow.problem.options["dtype"])).bytes < own.bytes
    assert dict(narrow.problem.shape) == dict(odd.problem.shape)
    assert 1 in by_about["at extents of 1"].problem.shape.values()
    knobs = {**recipe.config, **run.config}
    drawn = {**recipe.config, **by_about["with other knobs"].config}
    assert any(drawn[knob] in recipe.choices[knob] for knob in recipe.choices)
    assert (dict(run.problem.shape), knobs) != (
        dict(by_about["with other knobs"].problem.shape),
        drawn,
    )
    assert ("with open sizes" in by_about) == bool(recipe.symbolic)
    if recipe.symbolic:
        assert by_about["with open sizes"].problem.symbolic == recipe.symbolic


def test_what_is_kept_stays() -> None:
    run = run_golden(RECIPES["matmul_threads_2d"])
    run = dataclasses.replace(run, config={**run.config, "rows": 4})
    others = list(itertools.islice(find_other_runs(run, kept={"rows", "dtype"}), 7))
    assert len(others) == 7
    assert {other.run.config["rows"] for other in others} == {4}
    assert {other.run.problem.options["dtype"] for other in others} == {"float32"}
    assert len({other.run.config["columns"] for other in others}) > 1


def test_a_recipe_without_anything_to_draw_ends() -> None:
    """No other extent near the example's divides, a tail is not wished, and all else is kept."""
    run = run_golden(RECIPES["vector_add_bound"])
    run = dataclasses.replace(run, config={"tail": "refuse", "threads": 512})
    assert list(find_other_runs(run, kept={"threads", "dtype"})) == []


def test_runs_are_limited_in_number_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_golden(RECIPES["vector_add_bound"])
    many = [OtherRun(run, "again")] * 5
    clock = itertools.count()
    monkeypatch.setattr(verdict.time, "process_time", lambda: next(clock))
    assert len(list(LimitedRuns(many, None, 4))) == 4
    assert len(list(LimitedRuns(many, 3, 5))) == 3
    assert len(list(LimitedRuns(many, 0, 5))) == 1
    assert list(LimitedRuns(many, 9, 0)) == []
    for seconds, count, left in ((3, 5, 2), (0, 4, 3), (9, 4, 0), (None, 5, 0)):
        limited = LimitedRuns(many, seconds, count)
        assert (len(list(limited)), limited.left) == (count - left, left)


AXES = """
@T.prim_func(s_tir=True)
def main(a: T.handle, b: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, 8, m), "float32")
    B = T.match_buffer(b, (n, 8, m), "float32")
    for i in T.thread_binding(n, thread="blockIdx.x"):
        for j in T.thread_binding(256, thread="threadIdx.x"):
            for k, c in T.grid((m + 255) // 256, 8):
                if k * 256 + j < m:
                    B[i, c, k * 256 + j] = A[i, c, k * 256 + j]
"""


STAGED = """
@T.prim_func(s_tir=True)
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for k, j in T.grid((n + 31) // 32, 32):
        if k * 32 + j < n:
            B[k * 32 + j] = A[k * 32 + j] + T.if_then_else(k < 16, T.float32(0), T.float32(1))
"""


def list_near(text: str, **sizes: int) -> list:
    """The problems of a program's runs near its numbers."""
    kernel = ModuleKernel(tvm.IRModule({"main": from_source(text)}), "mine")
    example = Example(sizes)

    @recipe(kernel=kernel, blocks=("",), default_example=example, golden=example)
    def mine(sch):
        """Nothing is done."""
        yield "same"

    others = itertools.islice(find_other_runs(run_recipe(mine, sizes)), 12)
    return [it.run.problem for it in others if "near" in it.about]


def test_a_program_with_axes_of_its_own_gets_no_large_sizes() -> None:
    near = list_near(AXES, n=4, m=6)
    assert max(problem.shape["m"] for problem in near) > 768
    assert all(math.prod(it.shape) <= verdict.LARGE for own in near for it in own.arguments)


def test_sizes_have_as_many_tiles_as_a_condition_tells_from_others() -> None:
    assert list_near(STAGED, n=6)[0].shape == {"n": 16 * 32 + 1}
