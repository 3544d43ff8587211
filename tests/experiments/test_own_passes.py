"""tirstep's own passes keep what they promise, and do to a few modules what their goldens say."""

import pytest
from own_passes import DECLARED, GOLDENS, get_pass, list_subjects, make_golden

from tirstep.experiments import assert_keeps_promises
from tirstep.transforms import passes


@pytest.mark.parametrize("name", DECLARED)
def test_a_pass_of_ours_keeps_its_promises(name: str):
    subjects = list_subjects(name)
    report = assert_keeps_promises(get_pass(name), subjects, declaration=DECLARED[name])
    assert (report.tried, report.changed, report.unchecked) == (len(subjects), len(subjects), {})


@pytest.mark.parametrize("name", DECLARED)
def test_a_pass_of_ours_does_what_its_golden_says(name: str):
    assert (GOLDENS / f"{name}.diff").read_text("utf-8") == make_golden(name)


def test_every_pass_of_ours_is_held():
    """But for the one that corrects what is wrong before: test_async_waits.py holds that."""
    ours = {name for name in passes.__all__ if name[0].isupper() and not name.isupper()}
    assert ours == {*DECLARED, "CorrectAsyncWaits"}
