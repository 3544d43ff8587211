"""``tirstep lower``: the passes, what each changed, the modules between them, and the source."""

import pytest
from golden_runs import run_golden

from tirstep.lowering_checks import print_module
from tirstep.lowering_checks.compile.passes import Lowering, lower_through_passes
from tirstep.transforms.recipes import find_recipe

from .conftest import Command


@pytest.fixture(scope="module")
def lowering() -> Lowering:
    return lower_through_passes(run_golden(find_recipe("window_sum_shared")).steps[-1].module)


def test_the_table_has_every_pass_by_number(command: Command, lowering: Lowering):
    result = command("lower", "window_sum_shared")
    assert (result.code, result.err) == (0, "")
    first, *rest = result.out.splitlines()
    assert first == "window_sum_shared 03_fetched_cooperatively  1024  for cuda"
    rows = [line.split() for line in rest if line.strip()[:1].isdigit() and "passes" not in line]
    passes = sorted(lowering.passes, key=lambda changed: changed.number)
    assert [row[:2] for row in rows] == [[str(step.number), step.name] for step in passes]
    for row, one in zip(rows, passes, strict=True):
        diff = one.diff()
        change = [f"+{diff.added}", f"−{diff.removed}"] if one.changed else []
        assert row[2:-1] == change
    counts = f"{len(passes)} passes, {len(lowering.changed)} changed the module, "
    assert rest[-1].startswith(counts)


def test_diffs_are_of_the_passes_that_changed_something(command: Command, lowering: Lowering):
    result = command("lower", "window_sum_shared", "--diff", "--context", "0")
    headings = [line for line in result.out.splitlines() if line.startswith("# ")]
    assert [" ".join(line.split()[1:3]) for line in headings] == [
        changed.label for changed in lowering.changed
    ]
    for one in lowering.changed:
        assert "\n".join(one.diff(context=0).lines) in result.out
    added = {line.strip("+ ") for line in result.out.splitlines() if line.startswith("+")}
    assert 'T.tvm_storage_sync("shared")' in added


def test_one_pass(command: Command, lowering: Lowering):
    one = lowering.get_pass("FlattenBuffer")
    for name in ("FlattenBuffer", "tirx.flattenbuffer", one.number):
        result = command("lower", "window_sum_shared", "--pass", name)
        heading, _, program = result.out.partition("\n")
        assert heading.startswith(f"# {one.label}  +")
        assert program == print_module(one.module)
    result = command("lower", "window_sum_shared", "--pass", one.number, "--diff")
    assert result.out.partition("\n")[2] == "\n".join(one.diff().lines) + "\n"
    result = command("lower", "window_sum_shared", "--pass", "VerifyMemory", "--diff")
    assert "tirx.VerifyMemory  the text does not change" in result.out


def test_another_step_shape_and_target(command: Command):
    options = ("--step", "bound", "--shape", "300", "--set", "threads=64", "--target", "llvm")
    result = command("lower", "vector_add_bound", *options, "--set", "tail=guard", "--pass", "1")
    assert result.code == 0
    assert "A: T.Buffer((300,)" in result.out
    assert '"kind": "llvm"' in result.out
    assert "thread_binding" not in result.out


def test_as_json(command: Command, lowering: Lowering):
    document = command("lower", "window_sum_shared", "--diff", "--json").document
    assert set(document) == {
        *("command", "versions", "recipe", "shape", "options", "config", "step", "target"),
        *("passes_run", "passes", "refused"),
    }
    assert document["passes_run"] == len(lowering.passes)
    assert [entry["number"] for entry in document["passes"]] == [
        changed.number for changed in lowering.changed
    ]
    first = document["passes"][0]
    assert set(first) == {"number", "name", "changed", "time_us", "added", "removed", "diff"}
    assert first["diff"] == str(lowering.changed[0].diff())
    one = command("lower", "window_sum_shared", "--pass", "42", "--json").document["passes"]
    assert [each["tir"] for each in one] == [print_module(lowering.get_pass(42).module)]


REFUSING = "tirstep.lowering_checks.compile.passes.compile_module"


def test_a_module_that_tvm_refuses_is_told(command: Command, monkeypatch: pytest.MonkeyPatch):
    def refuse(*arguments: object, **options: object) -> None:
        raise RuntimeError("one loop too many")

    monkeypatch.setattr(REFUSING, refuse)
    result = command("lower", "vector_add_bound")
    assert (result.code, result.err) == (1, "")
    told = result.out.splitlines()[-1]
    assert told == "refused  tvm.compile refuses the module: one loop too many"
    assert command("lower", "vector_add_bound", "--json").document["refused"] == told[9:]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ("--target opencl", "__kernel void"),
        ("--target metal", "kernel void"),
        ("--target webgpu", "@compute @workgroup_size(128, 1, 1)"),
        ("--target llvm", "define "),
        ("--target sm_75", "__global__"),
        ("--step 2", "__global__"),
    ],
)
def test_the_source_for_a_target(command: Command, arguments: str, word: str):
    result = command("lower", "vector_add_bound", "--source", *arguments.split())
    assert (result.code, result.err) == (0, "")
    assert word in result.out


def test_the_source_is_what_tvm_generates(command: Command, lowering: Lowering):
    text = command("lower", "window_sum_shared", "--source").out
    assert text == lowering.source.strip("\n") + "\n"
    document = command("lower", "window_sum_shared", "--source", "--json").document
    assert set(document) == {
        *("command", "versions", "recipe", "shape", "options", "config", "step", "target"),
        *("language", "text"),
    }
    assert (document["step"], document["language"]) == ("03_fetched_cooperatively", "cuda")
    assert document["text"] == text
