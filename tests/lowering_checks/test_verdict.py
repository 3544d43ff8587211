"""Verdicts: every step is judged, in order, with its diff, its golden and its numbers; and the last
one in other runs.
"""

import dataclasses
import itertools
from pathlib import Path

import pytest
from golden_runs import run_golden
from tvm.script import from_source

from tirstep.lowering_checks import (
    Finding,
    GoldenStore,
    get_device,
    judge_run,
    run_recipe,
    verdict,
)
from tirstep.lowering_checks.judgement import Judgement, Status
from tirstep.lowering_checks.verdict import OtherRun, find_other_runs, try_run
from tirstep.modules import get_kernel
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
    assert [bool(finding) for finding in findings] == [False, False, True, False, False, False]
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
    right, texts = verdict.judge_numbers, {}

    def check(problem, module, device, *, where, seed):
        texts[where] = module.script()
        return right(problem, module, device, where=where, seed=seed)

    monkeypatch.setattr(verdict, "judge_numbers", check)
    _, split, bound = judge_run(run, get_device("simulator"))
    assert checked in texts["vector_add_bound 01_split"]
    assert (split.findings, split.checked_on) == ((), checked_on)
    assert bound.checked_on == f"simulator {shape['n']}"


def test_without_a_store_no_golden_is_asked() -> None:
    run = run_golden(RECIPES["vector_add_bound"])
    assert all(verdict.golden is None for verdict in judge_run(run, CPU))


def test_the_verdicts_of_other_runs_come_last_and_say_where() -> None:
    run = run_golden(RECIPES["matmul_threads_1d"])
    others = itertools.islice(find_other_runs(run), 3)
    *steps, odd, knobs, narrow = judge_run(run, CPU, seed=3, others=others)
    assert [verdict.step for verdict in steps] == list(run.steps)
    assert {verdict.about for verdict in steps} == {None}
    assert odd.run is not run
    assert (odd.findings, odd.about) == ((), "at an odd shape")
    assert odd.checked_on == "cpu 67x53x33 tail=guard"
    assert (narrow.findings, narrow.about) == ((), f"in {narrow.run.problem.options['dtype']}")
    assert (knobs.findings, knobs.about) == ((), "with other knobs")


def test_another_run_that_no_device_computes_has_no_verdict() -> None:
    run = run_golden(RECIPES["transpose_naive"])
    float8 = try_run(run, options={"dtype": "float8_e4m3fn"})
    for device, wanted in (("cpu", 0), ("simulator", 1)):
        others = [OtherRun(float8, "in float8_e4m3fn")]
        verdicts = list(judge_run(run, get_device(device), others=others))
        there = [verdict for verdict in verdicts if verdict.run is float8]
        assert [verdict.findings for verdict in there] == [()] * wanted


WRONG = Judgement(Status.WRONG, (Finding("numbers", "here", "planted failure"),), "cpu")
UNKNOWN = Judgement(Status.NOT_JUDGED, reason="planted reason")


def test_another_run_that_is_wrong_has_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    right = verdict.judge_numbers

    def judge(problem, module, device, *, where, seed):
        is_odd = problem.shape["n"] == 1025
        return WRONG if is_odd else right(problem, module, device, where=where, seed=seed)

    monkeypatch.setattr(verdict, "judge_numbers", judge)
    run = run_golden(RECIPES["vector_add_bound"])
    *steps, odd = judge_run(run, CPU, others=itertools.islice(find_other_runs(run), 1))
    assert not any(step.findings for step in steps)
    assert [finding.message for finding in odd.findings] == ["planted failure"]
    assert (odd.status, odd.about) == ("wrong", "at an odd shape")


def test_a_step_of_which_nothing_is_known_leaves_the_others_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def judge(*_: object, where: str, **__: object) -> Judgement:
        return UNKNOWN if where.endswith("01_split") else Judgement(Status.RIGHT, device="cpu")

    monkeypatch.setattr(verdict, "judge_numbers", judge)
    run = run_golden(RECIPES["vector_add_bound"])
    first, split, last = judge_run(run, CPU)
    assert [each.status for each in (first, split, last)] == ["right", "not judged", "right"]
    assert (split.findings, split.reason, split.checked_on) == ((), "planted reason", "no device")


def test_another_run_of_which_nothing_is_known_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(problem, module, device, *, where, seed):
        return UNKNOWN if problem.shape["n"] != 1024 else Judgement(Status.RIGHT, device="cpu")

    monkeypatch.setattr(verdict, "judge_numbers", judge)
    run = run_golden(RECIPES["vector_add_bound"])
    others = itertools.islice(find_other_runs(run), 1)
    assert len([*judge_run(run, CPU, others=others)]) == len(run.steps)
