"""``tirstep facts``: a table of every step, and what was compiled."""

import pytest
from golden_runs import run_default_example, run_golden

from tirstep.lowering_checks import CheckError, DeviceError, count_accesses
from tirstep.lowering_checks.facts import compiled, cuda_compilers, get_compiler, get_facts
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
    run = run_default_example(find_recipe("window_sum_shared"))
    facts = {step: get_facts(step.module, problem=run.problem) for step in run.steps}
    bound = [step for step, fact in facts.items() if fact.refusal is None]
    assert lines[2].split() == [f"{step.index:02d}_{step.name}" for step in bound]
    threads = [str(facts[step].values()["threads"]) for step in bound]
    assert cells(result.out, "threads per block") == threads
    assert cells(result.out, "shared memory, bytes")[-1] == "520"
    assert cells(result.out, "shared loads")[-1] == "3 × 4 B"
    for step in set(facts) - set(bound):
        sentence = "the module launches no kernel: no loop is bound to a GPU before step"
        said = " ".join(result.out.split())
        assert f"no facts {step.index:02d}_{step.name}: {sentence} {lines[2].split()[0]}" in said
    assert "mma" not in result.out  # rows of zeros are left out


def test_counts_of_the_simulator_at_the_tutorials_shape(command: Command):
    result = command("facts", "window_sum_shared", "--counts")
    run = run_default_example(find_recipe("window_sum_shared"))
    counts = count_accesses(run.problem, run.steps[-1].module)
    shared = counts.scopes["shared"]
    table = result.out.partition("first thread block, simulated")[2]
    assert cells(table, "barriers passed")[-1] == str(counts.barriers) == "1"
    assert cells(table, "shared traffic, bytes")[-1] == f"{shared.bytes:,}"
    assert set(cells(table, "bank conflicts")) == {"0"}  # none is worth telling
    assert "cp.async" not in table
    (last,) = command("facts", run.recipe.name, "--counts", "--step", "3", "--json").document[
        "steps"
    ]
    values = {fact["key"]: fact["value"] for fact in last["counted"]["facts"]}
    far = counts.scopes["global"]
    assert last["counted"]["refused"] is None
    assert (values["global_requests"], values["sectors"]) == (far.requests, far.sectors)
    assert values["traffic_over_least"] == round(counts.traffic / run.problem.bytes, 2) >= 1


def test_what_the_simulator_does_not_know_has_no_counts(
    command: Command, monkeypatch: pytest.MonkeyPatch
):
    def refuse(problem: object, module: object) -> None:
        raise DeviceError("the simulator does not know this")

    monkeypatch.setattr("tirstep.lowering_checks.count_accesses", refuse)
    result = command("facts", "vector_add_bound", "--counts")
    assert result.code == 0
    assert "no counts  02_bound: the simulator does not know this" in result.out.splitlines()
    *_, last = command("facts", "vector_add_bound", "--counts", "--json").document["steps"]
    assert last["counted"] == {"refused": "the simulator does not know this", "facts": []}


def test_compiled_for_two_architectures(command: Command):
    try:
        get_compiler()
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
    assert [entry["architecture"] for entry in last["compiled"]] == ["sm_80", "sm_75"]


@pytest.mark.share(2)
def test_what_an_architecture_refuses_is_told_and_so_is_a_missing_nvdisasm(
    command: Command, monkeypatch: pytest.MonkeyPatch
):
    try:
        get_compiler()
    except CheckError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(compiled, "count_instructions", lambda cubin: None)
    steps = run_golden(find_recipe("matmul_mma_async")).steps
    wish = ("--shape", "128x128x64", "--step", steps[-1].name)
    result = command("facts", "matmul_mma_async", *wish, "--arch", "sm_75", "--arch", "sm_80")
    assert result.code == 0
    (refused,) = (line for line in result.out.splitlines() if line.startswith("refused  "))
    assert refused.startswith("refused  sm_75 cannot run main_kernel: ")
    assert "no instructions  there is no nvdisasm here" in result.out


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_the_rest_works(command: Command):
    assert command("facts", "vector_add_bound").code == 0
    result = command("facts", "vector_add_bound", "--all-archs")
    assert (result.code, result.out) == (2, "")
    assert result.err == f"tirstep: {cuda_compilers.MISSING}\n"
