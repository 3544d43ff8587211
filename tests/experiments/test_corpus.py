"""What the corpus draws: nothing that takes the interpreter for minutes."""

import pytest

from tirstep.experiments import corpus
from tirstep.strategies.plays import count_steps
from tirstep.transforms.recipes import RECIPES


@pytest.fixture
def wgmma_alone(monkeypatch):
    """A corpus of the steps of one recipe, most of which have six million statements."""
    monkeypatch.setattr(corpus, "RECIPES", {"matmul_wgmma": RECIPES["matmul_wgmma"]})
    return corpus.Corpus(0, (corpus.STEP,))


def test_no_step_takes_the_interpreter_for_minutes(wgmma_alone):
    labels = []
    for trial in range(4):
        subject = wgmma_alone.draw(trial)
        assert count_steps(subject.module) <= corpus.LONGEST
        labels.append(subject.label)
    assert all("matmul_wgmma" in label for label in labels)


def test_a_recipe_of_long_steps_alone_is_not_drawn(wgmma_alone, monkeypatch):
    monkeypatch.setattr(corpus, "LONGEST", 0)
    with pytest.raises(corpus.UndrawnError, match="every step of the recipes takes"):
        wgmma_alone.draw(0)
