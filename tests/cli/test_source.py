"""``tirstep lower --source``: what TVM generates of a step, and what each step changed in it."""

import subprocess
from pathlib import Path

import pytest
from golden_runs import run_golden

from tirstep.lowering_checks.compile.passes import lower_through_passes
from tirstep.transforms.recipes import find_recipe

from .conftest import Command


def sources() -> dict[str, str]:
    run = run_golden(find_recipe("window_sum_shared"))
    texts = {step.name: lower_through_passes(step.module).source for step in run.steps}
    return {name: text.strip("\n") + "\n" for name, text in texts.items()}


def test_the_source_of_the_last_step_and_of_another(command: Command):
    texts = sources()
    assert command("lower", "window_sum_shared", "--source").out == texts["fetched_cooperatively"]
    result = command("lower", "window_sum_shared", "--source", "--step", "bound")
    assert (result.code, result.err, result.out) == (0, "", texts["bound"])


@pytest.mark.parametrize(
    ("target", "word"), [("opencl", "__kernel void"), ("llvm", "define "), ("sm_75", "__global__")]
)
def test_other_targets(command: Command, target: str, word: str):
    result = command("lower", "vector_add_bound", "--source", "--target", target)
    assert result.code == 0
    assert word in result.out


def test_diffs_make_each_source_of_the_one_before(command: Command, tmp_path: Path):
    texts = sources()
    result = command("lower", "window_sum_shared", "--source", "--diff", "--context", "1")
    assert result.code == 0
    names = [name for name, text in texts.items() if text.strip()]
    headings = [line for line in result.out.splitlines() if line.startswith("# ")]
    assert len(headings) == len(names) - 1
    (tmp_path / "kernel.cu").write_text(texts[names[0]])
    command_line = ["patch", "--quiet", "--fuzz=0", str(tmp_path / "kernel.cu")]
    subprocess.run(command_line, input=result.out, text=True, check=True)
    assert (tmp_path / "kernel.cu").read_text() == texts[names[-1]]


def test_the_diff_of_one_step(command: Command):
    result = command("lower", "window_sum_shared", "--source", "--diff", "--step", "3")
    (heading,) = (line for line in result.out.splitlines() if line.startswith("# "))
    assert "→ window_sum_shared/03_fetched_cooperatively  +" in heading
    assert "conv1d.py:" in heading


def test_as_json(command: Command):
    document = command("lower", "vector_add_bound", "--source", "--json").document
    assert set(document) == {
        *("command", "versions", "recipe", "shape", "options", "config", "step", "target"),
        *("language", "text"),
    }
    assert (document["step"], document["language"]) == ("02_bound", "cuda")
    assert document["text"] == command("lower", "vector_add_bound", "--source").out
    diffs = command("lower", "window_sum_shared", "--source", "--diff", "--json").document["diffs"]
    assert set(diffs[0]) == {"before", "after", "added", "removed", "diff"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            "--step input",
            "vector_add_bound 00_input has no source for cuda: no loop is bound to a ",
        ),
        ("--step 1 --diff", "vector_add_bound 01_split has no source for cuda: no loop is bound"),
        ("--diff", "fewer than two steps have a source for cuda, so there is no diff; print it"),
        ("--target opencll", "there is no target 'opencll'; did you mean opencl"),
        ("--step spilt", "vector_add_bound has no step 'spilt'; did you mean split?"),
    ],
)
def test_wrong_use(command: Command, arguments: str, sentence: str):
    result = command("lower", "vector_add_bound", "--source", *arguments.split())
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert sentence in result.err
