"""``make docs``: fills the generated parts, and holds the documents to them."""

import re
from pathlib import Path

import pytest
from readme import SPEED

from tirstep.bench.cases import LADDER_SUITES, NOT_MEASURED, SUITES

from .conftest import ROOT, Command

README = """\
```python
print('--- before')
print('+++ after')
```
<!-- begin output-diff -->
old
<!-- end output-diff -->
<!-- begin commands -->
```console
$ echo one | tr o O
old
```
<!-- end commands -->
"""


def test_what_is_stale_is_told_and_filled(fill_documents: Command, tmp_path: Path):
    readme = tmp_path / "README.md"
    readme.write_text(README)
    options = ("--readme", readme, "--results", tmp_path)
    assert fill_documents(*options, "--check").code == 1
    assert readme.read_text() == README
    assert fill_documents(*options).code == 0
    filled = README.replace("old\n<", "```diff\n--- before\n+++ after\n```\n<").replace(
        "old", "One"
    )
    assert readme.read_text() == filled
    assert fill_documents(*options, "--check").code == 0
    readme.write_text(README.replace("print(", "raise SystemExit("))
    failed = fill_documents(*options)
    assert (failed.code, "a Python program fails: --- before" in failed.err) == (2, True)


@pytest.mark.share(6)
@pytest.mark.usefixtures("warm_commands")
def test_the_documents_are_as_generated(fill_documents: Command):
    result = fill_documents("--check")
    assert result.code == 0, result.out + result.err


def test_the_tables_of_all_suites_are_in_the_documents():
    speed = (ROOT / SPEED).read_text()
    wanted = {f"bench-{suite}" for suite in set(SUITES) - {*NOT_MEASURED, *LADDER_SUITES}}
    assert {*re.findall("^<!-- begin (.*) -->$", speed, re.M)} == {*wanted, "bench-overview"}
