"""The outputs on docs/passes.md are what the command prints today."""

import pytest
from passes_page import PAGE, make_page


@pytest.mark.share(3)
def test_the_page_has_today_s_outputs():
    assert PAGE.read_text("utf-8") == make_page()
