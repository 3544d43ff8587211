"""The outputs on docs/passes.md are what the command prints today."""

import re
from pathlib import Path

import pytest
from passes_page import PAGE, make_page

from tirstep.experiments import assert_keeps_promises
from tirstep.experiments.promises import load_value


@pytest.mark.share(18)
def test_the_page_has_today_s_outputs():
    assert PAGE.read_text("utf-8") == make_page()


@pytest.mark.share(4)
def test_the_pass_on_the_page_is_whole(tmp_path: Path):
    """It is taken as it stands, changes modules, and keeps its promises on all of them."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "written.py").write_text(blocks[0])
    written = load_value(f"{tmp_path / 'written.py'}:shift_for_quotients")
    assert assert_keeps_promises(written, 24).changed > 1
