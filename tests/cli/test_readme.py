"""``make docs``: fills the generated parts, and holds the documents to them."""

import re
from pathlib import Path

import pytest
from readme import SPEED

from tirstep.bench.cases import LADDER_SUITES, NOT_MEASURED, SUITES

from .conftest import ROOT, Command

DIFF = """\
```python
print('--- before')
print('+++ after')
```
<!-- begin output-diff -->
old
<!-- end output-diff -->
"""
WORDS = """\
```python
print('word ' * 30)
```

<!-- begin output-words -->
<!-- end output-words -->
"""
COMMANDS = """\
<!-- begin commands -->
```console
$ echo one | tr o O
old
$ tirstep --version | cut -c 1-7
```
<!-- end commands -->
"""


@pytest.fixture
def readme(tmp_path: Path) -> Path:
    file = tmp_path / "README.md"
    file.write_text(f"# title\n\n{DIFF}\n{WORDS}\n{COMMANDS}\nthe end\n")
    return file


def test_every_part_is_filled(fill_documents: Command, readme: Path, tmp_path: Path):
    options = ("--readme", readme, "--results", tmp_path)
    stale = fill_documents(*options, "--check")
    assert stale.code == 1
    assert "is stale: write it again with `make docs`" in stale.out
    assert "\nold\n" in readme.read_text()

    assert fill_documents(*options).code == 0
    text = readme.read_text()
    assert "<!-- begin output-diff -->\n```diff\n--- before\n+++ after\n```\n<!-- end" in text
    assert (
        f"```text\n{' '.join(21 * ['word'])}\n    {' '.join(9 * ['word'])}\n```\n<!-- end" in text
    )
    assert (
        "```console\n$ echo one | tr o O\nOne\n$ tirstep --version | cut -c 1-7\ntirstep\n```"
        in text
    )
    assert text.startswith("# title\n\n```python\n")
    assert text.endswith("<!-- end commands -->\n\nthe end\n")
    assert "\nold\n" not in text

    assert fill_documents(*options, "--check").code == 0
    assert "is up to date" in fill_documents(*options).out
    assert [path.name for path in readme.parent.iterdir()] == ["README.md"]


@pytest.mark.parametrize(
    ("find", "replace", "sentence"),
    [
        (
            "<!-- end commands -->",
            "",
            "needs the lines <!-- begin commands --> and <!-- end comm",
        ),
        (
            "<!-- end output-words -->",
            "",
            "needs the lines <!-- begin output-words --> and <!-- end",
        ),
        ("the end", DIFF, "<!-- end output-diff -->, once each and in this order"),
        ("the end", "<!-- begin news -->\n<!-- end news -->", "a marker of 'news', which nothing"),
        ("the end", "<!-- begin bench-overview -->", "<!-- end bench-overview -->, once each"),
        ("```python", "```", "the marker of 'output-diff' has no Python program right above it"),
        ("print(", "raise SystemExit(", "a Python program fails: --- before; fix it first"),
        ("echo one", "tirstep zzz", "tirstep zzz | tr o O fails: tirstep: No such command"),
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


@pytest.mark.usefixtures("warm_commands")
def test_the_documents_are_as_generated(fill_documents: Command):
    result = fill_documents("--check")
    assert result.code == 0, result.out + result.err


def test_the_tables_of_all_suites_are_in_the_documents():
    speed = (ROOT / SPEED).read_text()
    wanted = {f"bench-{suite}" for suite in set(SUITES) - {*NOT_MEASURED, *LADDER_SUITES}}
    assert {*re.findall("^<!-- begin (.*) -->$", speed, re.M)} == {*wanted, "bench-overview"}
