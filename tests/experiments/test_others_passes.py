"""Passes that the corpus was not made for are judged as what they are, with 200 modules."""

import functools

import pytest
from others_passes import PASSES

from tirstep.experiments import Corpus, Edit, Experiment, Subject, try_change
from tirstep.experiments.corpus import PROGRAM, REDRAWS, UndrawnError
from tirstep.experiments.editing import get_pass
from tirstep.experiments.trying import REFUSED, WRONG

MODULES = 200


@functools.cache
def draw(trial: int, redraw: int) -> Subject | None:
    """Each module is drawn once for all passes that this process tries."""
    try:
        return Corpus(0).draw(trial, redraw)
    except UndrawnError:
        return None


@pytest.mark.share(30)
@pytest.mark.parametrize("name", PASSES)
def test_a_pass_of_others_is_judged_as_what_it_is(name: str):
    is_right, anchor, run = PASSES[name]
    changed = 0
    experiment = Experiment(name, Edit("before", anchor, get_pass(run, name)))
    for trial in range(MODULES):
        is_redrawn = not is_right and Corpus(0).get_kind(trial) == PROGRAM
        for redraw in range(REDRAWS if is_redrawn else 1):
            subject = draw(trial, redraw)
            if subject is None:
                break
            found = try_change(experiment, subject)
            assert not found.raised
            told = f"{subject.label}: {found.reason}\n{subject.module.script()}"
            assert found.status != REFUSED, told
            if found.status == WRONG:
                assert not is_right, told
                return
            if found.is_changed:
                changed += 1
                break
    assert changed
    assert is_right, f"none of {changed} modules that it changes shows it"
