"""``tirstep ladder``: its table, its diffs, its times, and what it does with trouble."""

import dataclasses
import json

import pytest
from golden_runs import run_golden

from tirstep.lowering_checks import count_accesses, diff_steps
from tirstep.transforms.recipes import LADDERS, find_recipe

from .conftest import ClockDevice, Command
from .test_check import RECIPE_KEYS, STEP_KEYS

CPU = ("--device", "cpu")


@pytest.fixture(autouse=True)
def one_rung(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ladder of vector_add with its first recipe alone, whose output is short."""
    ladders = {**LADDERS, "vector_add": (find_recipe("vector_add_bound"),)}
    monkeypatch.setattr("tirstep.transforms.recipes.LADDERS", ladders)


@pytest.fixture
def short_ladder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ladder of matmul with three recipes, one of them for n up to 1024 only."""
    names = ("matmul_naive", "matmul_rows_on_blocks", "matmul_tiled")
    recipes = tuple(find_recipe(name) for name in names)
    monkeypatch.setattr("tirstep.transforms.recipes.LADDERS", {"matmul": recipes})


def rows(out: str) -> list[list[str]]:
    """The cells of the table: they are two spaces apart at least."""
    lines = out.partition("──\n")[2].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]


def test_table_at_the_shape_of_the_goldens(command: Command):
    result = command("ladder", "window_sum", *CPU)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(
        "window_sum at 1024, the shape of the goldens, float32\n"
        "device  CPU (LLVM, thread bindings made serial)\n"
        "golden  tests/golden\n\n"
    )
    header = result.out.splitlines()[4]
    assert header.split() == ["recipe", "steps", "golden", "numbers", "lines"]
    for name, *cells in rows(result.out):
        steps = run_golden(find_recipe(name)).steps
        whole = diff_steps(steps[0], steps[-1])
        lines = f"+{whole.added} −{whole.removed}"
        assert cells == [str(len(steps) - 1), "ok", "right on cpu", lines]


def test_a_recipe_that_refuses_the_shape_is_skipped(command: Command, short_ladder: None):
    result = command("ladder", "matmul", "--shape", "64x2048x8", *CPU)
    assert result.code == 0
    assert result.out.startswith("matmul at 64x2048x8, as given with --shape, float32\n")
    assert rows(result.out)[1] == ["matmul_rows_on_blocks", "not judged"]
    assert [row[2] for row in rows(result.out) if len(row) > 2] == ["ok", "ok"]
    sentence = "matmul_rows_on_blocks skipped: bind_loop: loop 'j' would make a block of 2048 thr"
    assert sentence in result.out
    skipped = command("ladder", "matmul", "--shape", "64x2048x8", "--json", *CPU).document
    (reason,) = [row["reason"] for row in skipped["recipes"] if row["status"] == "not judged"]
    assert "2048 threads" in reason


def test_a_failed_check_exits_with_1(command: Command, wrong_vector_add: None):
    result = command("ladder", "vector_add", *CPU)
    assert result.code == 1
    assert rows(result.out) == [["vector_add_bound", "2", "failed", "wrong on cpu", "+7 −6"]]
    assert "\nvector_add_bound 00_input [transforms/recipes/element_ladders.py:" in result.out


def test_times(command: Command, clock_device: ClockDevice, short_ladder: None):
    result = command("ladder", "matmul", "--shape", "32x64x8")
    assert result.code == 0
    assert "device  Test GPU (sm_00)\n" in result.out
    header = next(line for line in result.out.splitlines() if line.startswith("recipe"))
    assert header.split()[-4:] == ["time", "us", "GFLOP/s", "speed-up"]
    assert [row[-3:] for row in rows(result.out)] == [
        ["2,000.0", "0.0", "1.0x"],
        ["1,000.0", "0.0", "2.0x"],
        ["500.0", "0.1", "4.0x"],
    ]
    assert [row[3] for row in rows(result.out)] == ["right on cuda, cpu"] * 3
    assert "speed-up: over matmul_naive;" in result.out
    assert "numbers on cpu: of steps that cuda cannot run, at the shape of" in result.out


def test_without_a_shape_a_gpu_takes_those_of_the_tutorials(
    command: Command, clock_device: ClockDevice, monkeypatch: pytest.MonkeyPatch
):
    ladder = tuple(
        dataclasses.replace(
            recipe, default_example=dataclasses.replace(recipe.default_example, shape={"n": n})
        )
        for recipe, n in (
            (find_recipe("window_sum_bound"), 256),
            (find_recipe("window_sum_shared"), 384),
        )
    )
    monkeypatch.setattr("tirstep.transforms.recipes.LADDERS", {"window_sum": ladder})
    result = command("ladder", "window_sum")
    assert result.out.startswith("window_sum, each recipe at the default shape, float32\n")
    first, second = rows(result.out)
    assert (first[5], second[5]) == ("256", "384")
    # Times at two shapes do not compare.
    assert first[-1] == "1.0x"
    assert not second[-1].endswith("x")


def test_no_times_of_wrong_steps(
    command: Command, clock_device: ClockDevice, wrong_vector_add: None
):
    document = command("ladder", "vector_add", "--json").document
    assert clock_device.timed == 0
    assert document["baseline"] is None
    assert document["recipes"][0]["time_us"] is None


def test_ladder_as_json(command: Command, clock_device: ClockDevice):
    result = command("ladder", "vector_add", "--shape", "2048", "--seed", "3", "--json")
    document = result.document
    assert (result.code, result.err) == (0, "")
    assert set(document) == {
        *("command", "versions", "ladder", "kernel", "device", "golden_dir", "seed", "ok"),
        *("shape_from", "shape", "baseline", "findings", "recipes"),
    }
    assert document["device"] == {"name": "cuda", "description": "Test GPU (sm_00)"}
    assert set(document["versions"]) == {"tirstep", "tvm", "document"}
    assert (document["shape_from"], document["shape"], document["seed"]) == ("option", "2048", 3)
    assert document["baseline"] == "vector_add_bound"
    (recipe,) = document["recipes"]
    assert set(recipe) == RECIPE_KEYS
    assert recipe["checked_on"] == ["cuda 2048", "cpu 1024"]
    figures = ("time_us", "time_us_lower", "time_us_upper", "repeats", "gflops", "speedup")
    expected = [2000.0, 1800.0, 2500.0, 20, 2048 / 2e-3 / 1e9, 1.0]
    assert [recipe[name] for name in figures] == pytest.approx(expected)
    assert [step["time_us"] for step in recipe["steps"]] == [None, None, pytest.approx(2000.0)]
    for step in recipe["steps"]:
        assert set(step) == STEP_KEYS


@pytest.mark.gpu
def test_ladder_on_cuda(command: Command):
    result = command("ladder", "vector_add", "--device", "cuda", "--json")
    document = json.loads(result.out)  # a GPU's host has no jsonschema
    (recipe,) = document["recipes"]
    assert result.code == 0
    assert document["shape_from"] == "default"
    assert recipe["time_us_lower"] <= recipe["time_us"] <= recipe["time_us_upper"]


def test_on_the_simulator_the_accesses_are_counted(
    command: Command, monkeypatch: pytest.MonkeyPatch
):
    ladder = (find_recipe("window_sum_bound"), find_recipe("window_sum_shared"))
    monkeypatch.setattr("tirstep.transforms.recipes.LADDERS", {"window_sum": ladder})
    result = command("ladder", "window_sum", "--device", "simulator", "--steps")
    assert result.code == 0
    header = next(line for line in result.out.splitlines() if line.startswith("recipe"))
    counts = ["traffic", "wavefronts/request", "bank", "conflicts", "barriers"]
    assert header.split()[-5:] == counts
    bound, shared = (row for row in rows(result.out) if row[0].startswith("window_sum"))
    counted = [
        count_accesses(run_golden(rung).problem, run_golden(rung).steps[-1].module)
        for rung in ladder
    ]
    least = run_golden(ladder[0]).problem.bytes
    traffic = [f"{count.traffic / least:.1f}x" for count in counted]
    assert bound[-2:] == [traffic[0], "0"]
    access = counted[1].scopes["shared"]
    wavefronts = f"{access.wavefronts_per_request:.1f}"
    assert shared[-4:] == [traffic[1], wavefronts, str(access.bank_conflicts), "1"]
    assert "traffic: global memory that the last step moves, over the minimum" in result.out
