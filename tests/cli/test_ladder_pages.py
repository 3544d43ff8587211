"""``make readme`` writes docs/ladders from the runs and profiles that there are."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from ladder_pages import LONGEST_SHOWN, GoldenProgram, describe_limit, find_diffs, write_diff
from ncu_profile import ProfileRun, RecipeProfile, read_table, write_profile
from ncu_table import make_table

from tirstep.bench.cases import NOT_MEASURED, RUNGS, SUITES, TUTORIAL
from tirstep.bench.results import BenchRun, Case, Ceilings, Outcome, Time, write_run
from tirstep.transforms.recipes import LADDERS

from .conftest import ROOT, Command

CONV = [recipe.name for recipe in LADDERS["conv1d-tutorial"]]
DEVICE = {"name": "Test GPU", "architecture": "sm_90", "multiprocessors": 132}


def make_case(suite: str = "tutorial", **times: float | None) -> Case:
    outcomes = tuple(
        Outcome(
            name,
            "peer" if name == "torch" else "recipe",
            "ok" if us else "wrong",
            note="" if us else "C[0] is nan",
            config={"threads": 128} if us else {},
            time=Time(us, 0.9 * us, 1.1 * us, 20) if us else None,
        )
        for name, us in times.items()
    )
    options = {"dtype": "float32"}
    return Case(suite, "conv1d", {"m": 16384, "n": 32}, options, 2**20, 2**17, outcomes)


def make_run(*cases: Case, date: str = "2026-01-02T03:04:05+00:00") -> BenchRun:
    versions = {"torch": "2", "apache-tvm": "0.27"}
    ceilings = Ceilings(4e12, {"float32": 6e13}, 2.0, {})
    return BenchRun(DEVICE, versions, date, {"rounds": 20}, ceilings, cases)


def make_profile(*names: str, **launch: str) -> ProfileRun:
    kernels = tuple(read_table(make_table({"Kernel Name": "main_kernel", **launch})))
    recipes = tuple(RecipeProfile(name, kernels) for name in names)
    shape, options = {"m": 16384, "n": 32}, {"dtype": "float32"}
    date = "2026-01-03T00:00:00+00:00"
    return ProfileRun("conv1d", shape, options, DEVICE, {"ncu": "2025.3"}, date, {}, recipes)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with a README, the goldens, and the results of a ladder on a GPU."""
    marks = "<!-- begin bench-tutorial -->\n<!-- end bench-tutorial -->"
    (tmp_path / "README.md").write_text(f"{marks}\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "golden").symlink_to(ROOT / "tests" / "golden")
    results = tmp_path / "results"
    times: dict[str, Any] = {name: 800 / 2**place for place, name in enumerate(CONV)}
    times |= {CONV[3]: None, "torch": 50.0}
    write_run(make_run(make_case(**times)), results / "bench-test-gpu-tutorial.json")
    return tmp_path


def fill(fill_documents: Command, tree: Path, *options: str) -> Any:
    files = ("--readme", tree / "README.md", "--results", tree / "results")
    return fill_documents(*files, *options)


def test_a_page_is_written_and_held_in_step(fill_documents: Command, tree: Path):
    write_profile(make_profile(*CONV[:2]), tree / "results" / "profile-conv1d-test-gpu.json")
    newer = dataclasses.replace(make_profile(CONV[0]), date="2999")  # of fewer recipes
    write_profile(newer, tree / "results" / "profile-conv1d-part.json")
    page = tree / "docs" / "ladders" / "conv1d-tutorial.md"
    stale = fill(fill_documents, tree, "--check")
    assert stale.code == 1
    assert "conv1d-tutorial.md is stale: write it again" in stale.out
    assert not page.exists()

    assert fill(fill_documents, tree).code == 0
    assert sorted(path.name for path in page.parent.iterdir()) == [
        "conv1d-tutorial.md",
        "conv1d-tutorial.svg",
    ]
    assert fill(fill_documents, tree, "--check").out.endswith("README.md is up to date\n")
    text = page.read_text()
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == [f"## {place}. `{name}`" for place, name in enumerate(CONV, 1)]
    assert "At 16384×32, float32. Test GPU (sm_90), TVM 0.27, PyTorch 2, 2026-01-02." in text
    # 800 us, then 400; PyTorch takes 50. The fourth has no time, so the fifth is held to the third.
    assert "**800.0 µs**, 0.00016 TB/s; speed: 0.062× PyTorch. Config: `threads=128`." in text
    assert "**400.0 µs**, 0.00033 TB/s; speed: 2.00× the rung before, 2.00× the first rung" in text
    assert "**50.0 µs**, 0.0026 TB/s; speed: 4.00× the rung before, 16.0× the first rung" in text
    assert "No time: wrong: C[0] is nan" in text
    assert "New steps: `accumulated_in_registers`, `filter_in_shared_memory`" in text
    assert "| `main_kernel` | (16×4) × 256 | 57.6 | 71 % | 56 % | 12 % | 83 % | 61 % |" in text
    assert text.count("Bound by the SMs, at 71 % of the peak") == 2
    assert text.count("Profiler: –, not profiled in this run.") == len(CONV) - 2
    assert "<title>conv1d_naive: 800.0 µs" in (page.parent / "conv1d-tutorial.svg").read_text()
    assert f"| {CONV[1]} | 400.0 |" in (tree / "README.md").read_text()  # bench-tutorial

    stray = page.with_name("matmul.md")
    stray.write_text("old")
    result = fill(fill_documents, tree)
    assert result.code == 1
    assert "matmul.md is of no ladder with results: remove it" in result.out


def test_what_was_measured_best_makes_the_page(fill_documents: Command, tree: Path):
    """Neither a rough run nor a part of the ladder counts, however new."""
    page = tree / "docs" / "ladders" / "conv1d-tutorial.md"
    few = make_run(make_case(**dict.fromkeys(CONV[:3], 1.0)), date="2027")
    write_run(few, tree / "results" / "bench-other.json")
    rough = make_run(make_case(**dict.fromkeys(CONV, 1.0)), date="2028")
    write_run(rough, tree / "results" / "bench-test-gpu-quick.json")
    other = dataclasses.replace(make_profile(*CONV), device={"name": "Other GPU"})
    write_profile(other, tree / "results" / "profile-conv1d-other-gpu.json")
    assert fill(fill_documents, tree).code == 0
    assert "**800.0 µs**" in page.read_text()
    assert "Profiler" not in page.read_text()
    assert "| 1.0 |" in (tree / "README.md").read_text()  # the newest run that is not rough

    page.unlink()
    (tree / "results" / "bench-test-gpu-tutorial.json").unlink()
    result = fill(fill_documents, tree, "--check")  # half of the ladder is no ladder
    assert "conv1d-tutorial.svg is of no ladder with results" in result.out


def test_results_that_are_none(fill_documents: Command, tree: Path):
    file = tree / "results" / "profile-conv1d-test-gpu.json"
    file.write_text(json.dumps({"command": "bench"}))
    result = fill(fill_documents, tree)
    assert (result.code, result.out) == (2, "")
    assert "profile-conv1d-test-gpu.json is no profile of tirstep" in result.err
    file.unlink()
    (tree / "tests" / "golden").unlink()
    result = fill(fill_documents, tree)
    assert "has no goldens of conv1d_naive; write them: make golden" in result.err
    assert not (tree / "docs").exists()


def test_diffs_of_further_steps_or_of_both_ends():
    def make(**texts: str) -> list[GoldenProgram]:
        return [
            GoldenProgram(f"{n:02d}_{key}", text) for n, (key, text) in enumerate(texts.items())
        ]

    first = make(input="a\n", bound="b\n")
    assert [str(diff) for diff in find_diffs(None, "first", first)] == [
        "--- first/00_input\n+++ first/01_bound\n@@ -1 +1 @@\n-a\n+b"
    ]
    short = make(input="a\n", tiled="t\n", bound="b\n")
    longer = make(input="a\n", tiled="t\n", bound="b\n", cached="c\n", unrolled="d\n")
    pairs = [(diff.before, diff.after) for diff in find_diffs(("short", short), "longer", longer)]
    assert pairs == [
        ("longer/02_bound", "longer/03_cached"),
        ("longer/03_cached", "longer/04_unrolled"),
    ]
    # The same steps, another step in the place of one, and one step alone that is shared.
    for before, after in (
        (short, make(input="a\n", tiled="t\n", bound="x\n")),
        (short, make(input="a\n", bound="x\n", cached="c\n")),
        (first, make(input="a\n", tiled="t\n", bound="x\n")),
    ):
        (diff,) = find_diffs(("first", before), "other", after)
        ends = (f"first/{before[-1].label}", f"other/{after[-1].label}")
        assert (diff.before, diff.after) == ends
        assert write_diff(diff).startswith(f"```diff\n--- {ends[0]}\n")
    many = "".join(f"{n}\n" for n in range(LONGEST_SHOWN))
    (folded,) = find_diffs(("first", first), "many", make(input="a\n", bound=many))
    assert write_diff(folded).startswith(
        f"<details><summary>first/01_bound → many/01_bound: +{LONGEST_SHOWN} −1</summary>\n\n```d"
    )


def test_what_binds_a_kernel():
    """The busiest part, blocks that are too few, and the two longest waits."""
    sm, memory, dram = (
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    )

    def describe(**launch: str) -> str:
        run = make_profile("a", **launch)
        return describe_limit(run.recipes[0], run)

    assert describe() == (
        "Bound by the SMs, at 71 % of the peak (the paths to memory and caches 56 %, DRAM 12 %). "
        "Its blocks, 64, leave 68 of 132 SMs idle. Warps wait for data from shared memory "
        "(`short_scoreboard`, 38 % of their time), then for the other warps at a barrier "
        "(`barrier`, 19 % of their time)."
    )
    busy = describe(**{memory: "91.2", dram: "91.2", "Grid Size": "(512, 1, 1)"})
    assert busy.startswith("Bound by DRAM, at 91 % of the peak")
    assert "idle" not in busy
    idle = describe(**{sm: "20", memory: "31"})
    assert idle.startswith("Latency binds it: nothing is busy, the paths to memory and caches the")
    run = make_profile("a")
    kernel = run.recipes[0].kernels[0]
    two = RecipeProfile("a", (kernel, dataclasses.replace(kernel, name="slow", duration_us=99)))
    assert describe_limit(two, run).startswith("Of `slow`, which takes the longest: Bound by")
    bare = dataclasses.replace(kernel, counters={}, stalls={}, grid="(999, 1, 1)")
    assert describe_limit(RecipeProfile("a", (bare,)), run) == ""


def test_the_tables_of_all_suites(fill_documents: Command, tree: Path):
    """Each suite in a file of its own, or all in one: the newest that has a suite counts."""
    speed = tree / "docs" / "speed.md"
    speed.parent.mkdir()
    speed.write_text("<!-- begin plots-matmul -->\n<!-- end plots-matmul -->\n")
    suites = tuple(name for name in SUITES if name not in (RUNGS, *NOT_MEASURED))
    timed = tuple(name for name in suites if name != TUTORIAL)
    readme = tree / "README.md"
    marks = "\n".join(
        f"<!-- begin bench-{name} -->\n<!-- end bench-{name} -->" for name in (*suites, "overview")
    )
    text = readme.read_text().replace(
        "<!-- begin bench-tutorial -->\n<!-- end bench-tutorial -->", ""
    )
    readme.write_text(f"{text}\n{marks}\n")
    lacking = fill(fill_documents, tree)
    assert (lacking.code, lacking.out) == (2, "")
    assert "no file has the suite 'matmul'; write one on a GPU with: make bench" in lacking.err

    cases = [make_case(suite, conv1d_naive=90.0, conv1d_unrolled=30.0) for suite in timed]
    write_run(make_run(*cases), tree / "results" / "bench-test-gpu.json")
    faster = make_case("matmul", conv1d_naive=90.0, conv1d_unrolled=10.0)
    write_run(make_run(faster, date="2027"), tree / "results" / "bench-test-gpu-matmul.json")
    assert fill(fill_documents, tree).code == 0
    text = readme.read_text()
    parts = {
        name: text.split(f"<!-- begin bench-{name} -->")[1].split("<!-- end")[0] for name in suites
    }
    row = "| `conv1d` | 16384×32 | float32 | `conv1d_unrolled` | {} | {} TB/s |"
    assert row.format("10.0", "0.013") in parts["matmul"]
    assert all(row.format("30.0", "0.0044") in parts[name] for name in timed[1:])
    assert f"| {CONV[0]} | 800.0 |" in parts[TUTORIAL]
    older = f"Test GPU (sm_90), 2026-01-02: {', '.join(timed[1:])}."
    where = f"Test GPU (sm_90), 2027: matmul; {older}"
    assert f"{where}\n\n| kernel | cases |" in text
    plot = tree / "results" / "bench-test-gpu-matmul-matmul-float32-bars.svg"
    assert f"![matmul, float32: bars](../results/{plot.name})" in speed.read_text()
    assert "conv1d_unrolled: 10.0 µs" in plot.read_text()
    assert fill(fill_documents, tree, "--check").code == 0

    for file in (speed, plot):
        old = file.read_text()
        file.write_text(old.replace("float32", "float64"))
        stale = fill(fill_documents, tree, "--check")
        assert (stale.code, f"{file} is stale: write it again" in stale.out) == (1, True)
        file.write_text(old)
