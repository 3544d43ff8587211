"""``make docs``: fills the generated parts, and holds the documents to them."""

import re

import pytest
from readme import SPEED

from tirstep.bench.cases import LADDER_SUITES, NOT_MEASURED, SUITES

from .conftest import ROOT, Command


@pytest.mark.usefixtures("warm_commands")
def test_the_documents_are_as_generated(fill_documents: Command):
    result = fill_documents("--check")
    assert result.code == 0, result.out + result.err


def test_the_tables_of_all_suites_are_in_the_documents():
    speed = (ROOT / SPEED).read_text()
    wanted = {f"bench-{suite}" for suite in set(SUITES) - {*NOT_MEASURED, *LADDER_SUITES}}
    assert {*re.findall("^<!-- begin (.*) -->$", speed, re.M)} == {*wanted, "bench-overview"}
