"""``make readme``: fills the generated parts, and holds the documents to them."""

import re
from pathlib import Path

import pytest
from readme import SPEED

from tirstep.bench.cases import SUITES
from tirstep.transforms.recipes import RECIPES

from .conftest import ROOT, Command

NAMES = ("first-diff", "transforms", "recipes")
PARTS = "\n".join(f"## {name}\n\n<!-- begin {name} -->\nold\n<!-- end {name} -->" for name in NAMES)
PROGRAM = "```python\nprint('--- before')\nprint('+++ after')\n```\n"


@pytest.fixture
def readme(tmp_path: Path) -> Path:
    file = tmp_path / "README.md"
    file.write_text(f"# title\n\n{PROGRAM}\n{PARTS}\n\nthe end\n")
    return file


def test_every_part_is_filled(fill_documents: Command, readme: Path, tmp_path: Path):
    options = ("--readme", readme, "--results", tmp_path)
    stale = fill_documents(*options, "--check")
    assert stale.code == 1
    assert "\n-old\n" in stale.out
    assert "is stale: write it again with `make readme`" in stale.out
    assert "\nold\n" in readme.read_text()

    assert fill_documents(*options).code == 0
    text = readme.read_text()
    assert "<!-- begin first-diff -->\n```diff\n--- before\n+++ after\n```\n<!-- end" in text
    assert "\n| `split_loop` | Split a loop in two, " in text
    assert "TransformError" not in text
    for recipe in RECIPES:
        assert f"| `{recipe}` | " in text
    assert text.startswith(f"# title\n\n{PROGRAM}\n## first-diff\n")
    assert text.endswith("<!-- end recipes -->\n\nthe end\n")
    assert "\nold\n" not in text

    assert fill_documents(*options, "--check").code == 0
    assert "is up to date" in fill_documents(*options).out
    assert [path.name for path in readme.parent.iterdir()] == ["README.md"]


@pytest.mark.parametrize(
    ("find", "replace", "sentence"),
    [
        ("<!-- end recipes -->", "", "needs the lines <!-- begin recipes --> and <!-- end recip"),
        ("<!-- begin recipes -->", "<!-- begin recipes --> ", "needs the lines <!-- begin recipes"),
        ("the end", "<!-- begin recipes -->\n<!-- end recipes -->", "once each and in this order"),
        ("the end", "<!-- begin news -->\n<!-- end news -->", "a marker of 'news', which nothing"),
        ("the end", "<!-- begin bench-overview -->", "<!-- end bench-overview -->, once each"),
        ("```python", "```", "has no ```python block"),
        ("print(", "raise SystemExit(", "the first Python program fails: --- before; fix it"),
    ],
)
def test_a_readme_that_cannot_be_filled(
    fill_documents: Command, readme: Path, tmp_path: Path, find: str, replace: str, sentence: str
):
    before = readme.read_text().replace(find, replace, 1)
    readme.write_text(before)
    result = fill_documents("--readme", readme, "--results", tmp_path)
    assert (result.code, result.out) == (2, "")
    assert sentence in result.err
    assert len(result.err.splitlines()) == 1
    assert readme.read_text() == before


def test_the_documents_are_as_generated(fill_documents: Command):
    result = fill_documents("--check")
    assert result.code == 0, result.out + result.err


def test_the_tables_of_all_suites_are_in_the_documents():
    speed, readme = ((ROOT / file).read_text() for file in (SPEED, "README.md"))
    wanted = {f"{kind}-{suite}" for kind in ("bench", "plots") for suite in SUITES}
    assert {*re.findall("^<!-- begin (.*) -->$", speed, re.MULTILINE)} == wanted
    assert "<!-- begin bench-overview -->" in readme


@pytest.mark.parametrize("name", ["README.md", "docs/speed.md", "docs/benchmarks.md"])
def test_links_lead_to_files(name: str):
    links = re.findall(r"\]\(([^)#]+)", (ROOT / name).read_text())
    for link in [one for one in links if not one.startswith("http")]:
        assert (ROOT / name).parent.joinpath(link).exists(), f"{name} links to {link}"
