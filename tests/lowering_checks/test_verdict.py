"""Verdicts: every step is judged, in order, with its diff, its golden and its numbers.

Each recipe is run at a shape that no tile divides, too, and a tail that is wrong is found there.
"""

import dataclasses
from pathlib import Path

import pytest
from tvm.script import from_source

from tirstep.lowering_checks import (
    Finding,
    GoldenStore,
    get_device,
    judge_run,
    run_golden,
    run_recipe,
    verdict,
)
from tirstep.lowering_checks.verdict import find_odd_run
from tirstep.modules import KernelError, get_kernel
from tirstep.transforms.recipes import RECIPES

CPU = get_device("cpu")
RECIPE = RECIPES["matmul_shared_blocking"]
GOLDEN = GoldenStore(Path(__file__).resolve().parents[1] / "golden")


def test_each_step_of_a_good_run_is_judged_good() -> None:
    run = run_golden(RECIPE)
    verdicts = list(judge_run(run, CPU, store=GOLDEN))
    assert [verdict.step for verdict in verdicts] == list(run.steps)
    assert verdicts[0].diff is None
    assert all(verdict.diff.lines for verdict in verdicts[1:])
    assert all(verdict.golden == () and verdict.numbers == () for verdict in verdicts)
    assert {verdict.checked_on for verdict in verdicts} == {"cpu 64x48x32"}
    assert {verdict.timing for verdict in verdicts} == {None}


def test_the_numbers_are_of_the_run_and_the_goldens_of_the_golden_example() -> None:
    run = run_recipe(
        RECIPE, {"m": 65, "n": 33, "k": 7}, options={"dtype": "float16"}, config={"tail": "pad"}
    )
    verdicts = {verdict.step.name: verdict for verdict in judge_run(run, CPU, store=GOLDEN)}
    assert verdicts["padded"].golden is None
    assert verdicts["decomposed"].golden == ()
    assert verdicts["decomposed"].checked_on == "cpu 65x33x7"
    assert not any(verdict.findings for verdict in verdicts.values())


def test_a_wrong_step_is_found_at_that_step() -> None:
    run = run_golden(RECIPE)
    other = get_kernel("matmul")(64, 48, 32, transpose_b=False)
    wrong = other.script().replace("* B[vk, vj]", "* B[vk, 47 - vj]")
    broken = dataclasses.replace(run.steps[2], module=from_source(wrong))
    run = dataclasses.replace(run, steps=(*run.steps[:2], broken, *run.steps[3:]))
    findings = [verdict.findings for verdict in judge_run(run, CPU)]
    assert [bool(one) for one in findings] == [False, False, True, False, False, False]
    assert findings[2][0].where == "matmul_shared_blocking 02_accumulated_in_registers"
    assert "elements are wrong" in findings[2][0].message


def test_steps_that_only_the_cpu_runs_have_the_sizes_of_the_run() -> None:
    run = run_recipe(RECIPES["vector_add_bound"], {"n": 1024}, config={"threads": 64})
    text = run.steps[1].module.script()
    assert "T.grid(16, 64)" in text
    wrong = dataclasses.replace(run.steps[1], module=from_source(text.replace("] + B", "] - B")))
    run = dataclasses.replace(run, steps=(run.steps[0], wrong, run.steps[2]))
    verdicts = list(judge_run(run, get_device("simulator")))
    assert [bool(verdict.findings) for verdict in verdicts] == [False, True, False]
    assert [verdict.checked_on for verdict in verdicts] == [
        *("cpu 1024", "cpu 1024", "simulator 1024")
    ]


@pytest.mark.parametrize(
    ("shape", "sizes", "options", "checked", "checked_on"),
    [
        ({"n": 4096}, {"threads": 64}, {}, "T.grid(16, 64)", "cpu 1024"),
        ({"n": 4096}, {}, {"dtype": "float16"}, '"float16"', "cpu 1024"),
        # The example's 1024 are no multiple of 12.
        ({"n": 1200}, {"threads": 12}, {}, "T.grid(8, 128)", "cpu 1024, the recipe's example"),
        # LLVM's float8 is wrong.
        (
            {"n": 1024},
            {},
            {"dtype": "float8_e4m3fn"},
            '"float32"',
            "cpu 1024, the recipe's example",
        ),
    ],
    ids=["sizes", "options", "refused", "no device"],
)
def test_steps_that_only_the_cpu_runs_at_other_shapes(
    monkeypatch: pytest.MonkeyPatch, shape, sizes, options, checked, checked_on
) -> None:
    run = run_recipe(RECIPES["vector_add_bound"], shape, config=sizes, options=options)
    right, texts = verdict.check_numbers, {}

    def check(problem, module, device, *, where, seed):
        texts[where] = module.script()
        return right(problem, module, device, where=where, seed=seed)

    monkeypatch.setattr(verdict, "check_numbers", check)
    _, split, bound = judge_run(run, get_device("simulator"))
    assert checked in texts["vector_add_bound 01_split"]
    assert (split.findings, split.checked_on) == ((), checked_on)
    assert bound.checked_on == f"simulator {shape['n']}"


def test_without_a_store_no_golden_is_asked() -> None:
    run = run_golden(RECIPES["vector_add_bound"])
    assert all(verdict.golden is None for verdict in judge_run(run, CPU))


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
def test_every_recipe_takes_an_odd_shape(recipe) -> None:
    odd = find_odd_run(run_golden(recipe))
    assert odd is not None
    changed = {
        name: size for name, size in odd.problem.shape.items() if size != recipe.golden.shape[name]
    }
    # Not the filter of a convolution of images, which is odd already.
    assert len(changed) >= len(recipe.golden.shape) - (recipe.kernel == "depthwise_conv2d")
    assert all(size % 2 for size in changed.values())
    assert odd.config.get("tail", "guard") in ("guard", "pad")


def test_remainders_are_one_and_others() -> None:
    odd = find_odd_run(run_golden(RECIPES["matmul_shared"]))
    assert dict(odd.problem.shape) == {"m": 67, "n": 53, "k": 33}


def test_without_a_tail_some_extents_change_alone() -> None:
    """A recipe that takes whole tiles of its rows, and any columns."""
    recipe = RECIPES["transpose_naive"]
    run = run_golden(recipe)
    whole = dataclasses.replace(run, config={**run.config, "tail": "refuse"})
    assert find_odd_run(whole) is None
    fixed = run_recipe(RECIPES["matmul_rows_on_blocks"], {"m": 8, "n": 8, "k": 8})
    assert dict(find_odd_run(fixed).problem.shape) == {"m": 67, "n": 53, "k": 33}


def test_the_verdict_at_an_odd_shape_comes_last_and_says_where() -> None:
    run = run_golden(RECIPES["matmul_threads_1d"])
    *steps, odd = judge_run(run, CPU, seed=3, at_odd_shape=True)
    assert [verdict.step for verdict in steps] == list(run.steps)
    assert odd.run is not run
    assert (odd.findings, odd.checked_on) == ((), "cpu 67x53x33 tail=guard")


def test_an_odd_shape_that_no_device_computes_has_no_verdict() -> None:
    float8 = run_recipe(
        RECIPES["transpose_naive"],
        {"m": 32, "n": 24},
        options={"dtype": "float8_e4m3fn"},
        config=run_golden(RECIPES["transpose_naive"]).config,
    )
    for device, wanted in (("cpu", 0), ("simulator", 1)):
        verdicts = list(judge_run(float8, get_device(device), at_odd_shape=True))
        odd = [verdict for verdict in verdicts if verdict.run is not float8]
        assert [verdict.findings for verdict in odd] == [()] * wanted


def test_a_step_that_cannot_be_judged_has_a_finding_and_is_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, where: str, **__: object) -> list[Finding]:
        if where.endswith("01_split"):
            raise KernelError("planted failure")
        return []

    monkeypatch.setattr(verdict, "check_numbers", fail)
    run = run_golden(RECIPES["vector_add_bound"])
    first, failed = judge_run(run, CPU, at_odd_shape=True)
    assert first.findings == ()
    (finding,) = failed.findings
    assert (failed.step, failed.checked_on) == (run.steps[1], "cpu 1024")
    assert (finding.message, finding.location) == ("planted failure", run.steps[1].location)
