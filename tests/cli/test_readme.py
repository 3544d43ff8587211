"""``tirstep readme``: fills the generated parts, and holds the README to them."""

import json
from pathlib import Path

import pytest

from tirstep.transforms.recipes import RECIPES

from .conftest import ROOT, ClockDevice, Command

NAMES = ("first-diff", "transforms", "ladder-matmul-gpu", "recipes")
PARTS = "\n".join(f"## {name}\n\n<!-- begin {name} -->\nold\n<!-- end {name} -->" for name in NAMES)
PROGRAM = "```python\nprint('--- before')\nprint('+++ after')\n```\n"
RESULT = ROOT / "benchmarks" / "results" / "ladder-matmul.json"


@pytest.fixture
def readme(tmp_path: Path) -> Path:
    file = tmp_path / "README.md"
    file.write_text(f"# title\n\n{PROGRAM}\n{PARTS}\n\nthe end\n")
    return file


@pytest.fixture
def ladder(tmp_path: Path, command: Command, clock_device: ClockDevice) -> Path:
    """What ``tirstep ladder --json`` prints on a device with a clock."""
    file = tmp_path / "ladder.json"
    file.write_text(command("ladder", "window_sum", "--shape", "256", "--json").out)
    return file


def test_every_part_is_filled(command: Command, readme: Path, ladder: Path):
    options = ("--readme", readme, "--ladder-json", ladder)
    stale = command("readme", *options, "--check")
    assert stale.code == 1
    assert "\n-old\n" in stale.out
    assert "is stale: write it anew with `tirstep readme`" in stale.out
    assert "\nold\n" in readme.read_text()

    assert command("readme", *options).code == 0
    text = readme.read_text()
    assert "<!-- begin first-diff -->\n```diff\n--- before\n+++ after\n```\n<!-- end" in text
    assert "\n| `split_loop` | Split a loop in two, " in text
    assert "TransformError" not in text
    for recipe in RECIPES:
        assert f"| `{recipe}` | " in text
    assert "\nTest GPU (sm_00), TVM 0.27" in text
    assert ", window_sum at 256, float32:\n\n| recipe | what it does | time µs |" in text
    row = json.loads(ladder.read_text())["recipes"][1]
    figures = f"{row['time_us']:,.1f} | {row['gflops']:,.1f} | {row['speedup']:,.1f}×"
    assert f"\n| `window_sum_shared` | {row['summary']} | {figures} |\n" in text
    assert text.startswith(f"# title\n\n{PROGRAM}\n## first-diff\n")
    assert text.endswith("<!-- end recipes -->\n\nthe end\n")
    assert "\nold\n" not in text

    assert command("readme", *options, "--check").code == 0
    assert "is up to date" in command("readme", *options).out
    assert sorted(path.name for path in readme.parent.iterdir()) == ["README.md", "ladder.json"]


@pytest.mark.parametrize(
    ("find", "replace", "sentence"),
    [
        ("<!-- end recipes -->", "", "needs the lines <!-- begin recipes --> and <!-- end recip"),
        ("<!-- begin recipes -->", "<!-- begin recipes --> ", "needs the lines <!-- begin recipes"),
        ("the end", "<!-- begin recipes -->\n<!-- end recipes -->", "once each and in this order"),
        ("the end", "<!-- begin news -->\n<!-- end news -->", "a marker of 'news', which nothing"),
        ("```python", "```", "has no ```python block"),
        ("print(", "raise SystemExit(", "the first Python program fails: --- before; mend it"),
    ],
)
def test_a_readme_that_cannot_be_filled(
    command: Command, readme: Path, ladder: Path, find: str, replace: str, sentence: str
):
    before = readme.read_text().replace(find, replace, 1)
    readme.write_text(before)
    result = command("readme", "--readme", readme, "--ladder-json", ladder)
    assert (result.code, result.out) == (2, "")
    assert sentence in result.err
    assert len(result.err.splitlines()) == 1
    assert readme.read_text() == before


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"ok": False}, "a check failed, so its times are worth nothing; write it anew on a GPU"),
        ({"recipes": []}, "has no times; write it anew on a GPU with: tirstep ladder matmul"),
        ({"recipes": [{"recipe": "a"}]}, "is no document of a ladder; write it anew"),
        ({"shape": None}, "is no document of a ladder; write it anew"),
        ({"device": None}, "is no document of a ladder; write it anew"),
    ],
)
def test_a_ladder_that_is_none(
    command: Command, readme: Path, ladder: Path, change: dict[str, object], sentence: str
):
    ladder.write_text(json.dumps({**json.loads(ladder.read_text()), **change}))
    before = readme.read_text()
    result = command("readme", "--readme", readme, "--ladder-json", ladder)
    assert (result.code, result.out) == (2, "")
    assert sentence in result.err
    assert readme.read_text() == before


def test_no_ladder(command: Command, readme: Path, tmp_path: Path):
    result = command("readme", "--readme", readme, "--ladder-json", tmp_path / "none.json")
    assert result.code == 2
    assert "none.json: No such file or directory" in result.err


def test_the_readme_is_as_generated(command: Command):
    result = command("readme", "--check")
    assert result.code == 0, result.out + result.err
