"""``tirstep facts``: a table of every step, what was compiled, and what a shape loses."""

import pytest

from tirstep.lowering_checks import CheckError, run_seed
from tirstep.lowering_checks.facts import compiler, find_compiler, find_facts
from tirstep.transforms.recipes import find_recipe

from .conftest import Command


def cells(text: str, name: str) -> list[str]:
    """The cells of the row of a name."""
    (line,) = (line for line in text.splitlines() if line.startswith(f"  {name}  "))
    return [cell.strip() for cell in line.removeprefix(f"  {name}").split("  ") if cell.strip()]


def test_a_column_for_each_step_that_is_bound(command: Command):
    result = command("facts", "window_sum_shared")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == "window_sum_shared  1024"
    run = run_seed(find_recipe("window_sum_shared"))
    facts = {step: find_facts(step.module, problem=run.problem) for step in run.steps}
    bound = [step for step, one in facts.items() if one.refusal is None]
    assert lines[2].split() == [f"{step.index:02d}_{step.name}" for step in bound]
    threads = [str(facts[step].values()["threads"]) for step in bound]
    assert cells(result.out, "threads of a block") == threads
    assert cells(result.out, "shared memory, bytes")[-1] == "520"
    assert cells(result.out, "shared loads")[-1] == "3 × 4 B"
    for step in set(facts) - set(bound):
        assert (
            f"no facts  {step.index:02d}_{step.name}: the module launches no kernel" in result.out
        )
    assert "mma" not in result.out  # rows of zeros are left out
    assert "note" not in result.out


def test_a_shape_that_does_not_divide_has_notes(command: Command):
    options = ("--step", "decomposed", "--shape", "61x47x31", "--set", "tail=guard")
    result = command("facts", "matmul_shared_blocking", *options)
    assert result.code == 0
    notes = [line for line in result.out.splitlines() if line.startswith("note  ")]
    place = "at 1024x1024x1024"
    assert f"note  05_decomposed: no vector loads from global memory, and 2 {place}" in notes
    assert any(f"conditions around accesses, and 0 {place}" in note for note in notes)


def test_as_json(command: Command):
    document = command("facts", "vector_add_bound", "--shape", "4096", "--json").document
    assert set(document) == {
        *("command", "versions", "recipe", "shape", "options", "sizes", "target", "steps"),
    }
    first, *_, last = document["steps"]
    assert set(last) == {"number", "name", "source", "refused", "notes", "facts", "compiled"}
    assert (first["facts"], last["compiled"]) == ([], [])
    assert "no loop is bound to a GPU" in first["refused"]
    values = {fact["key"]: fact["value"] for fact in last["facts"]}
    assert (values["blocks"], values["threads"], values["flops"]) == (32, 128, 4096)
    assert set(last["facts"][0]) == {"group", "key", "name", "value", "unit"}


def test_compiled_for_two_architectures(command: Command):
    try:
        find_compiler()
    except CheckError as error:
        pytest.skip(str(error))
    options = ("--step", "bound", "--arch", "sm_80", "--arch", "sm_75")
    result = command("facts", "vector_add_bound", *options)
    assert (result.code, result.err) == (0, "")
    table = result.out.partition("02_bound  compiled by ")[2]
    assert table.splitlines()[2].split() == ["sm_80", "sm_75"]
    assert cells(table, "spill stores, bytes") == ["0", "0"]
    assert len(cells(table, "registers of a thread")) == 2
    (last,) = command("facts", "vector_add_bound", *options, "--json").document["steps"]
    assert [one["architecture"] for one in last["compiled"]] == ["sm_80", "sm_75"]


def test_without_a_compiler_the_rest_works(command: Command, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiler, "_find_nvrtc", lambda: None)
    monkeypatch.setattr(compiler, "_find_nvcc", lambda: None)
    assert command("facts", "vector_add_bound").code == 0
    result = command("facts", "vector_add_bound", "--all-archs")
    assert (result.code, result.out) == (2, "")
    assert result.err == f"tirstep: {compiler.MISSING}\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--arch sm_8", "there is no architecture 'sm_8'; did you mean sm_89 or sm_86?"),
        ("--arch zzz", "there is no architecture 'zzz'; there are sm_75, sm_80, sm_86, "),
        ("--arch sm_80 --all-archs", "--all-archs is every architecture; give it without --arch"),
        ("--step bond", "vector_add_bound has no step 'bond'; did you mean bound?"),
        ("--target llvm", "facts are of GPU kernels, and llvm makes none; choose cuda or opencl"),
    ],
)
def test_wrong_use(command: Command, arguments: str, sentence: str):
    result = command("facts", "vector_add_bound", *arguments.split())
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert sentence in result.err
