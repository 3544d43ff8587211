"""Checks that have gone blind are told by `tirstep check` itself."""

import numpy as np
import pytest

from tirstep.lowering_checks import numeric, self_test
from tirstep.lowering_checks.self_test import find_blind_checks

find_wrong = numeric.find_wrong


def let_nan_pass(got, expected, ends, xp=np):
    return find_wrong(got, expected, ends, xp) & ~xp.isnan(got)


def let_1000_bounds_pass(got, expected, ends, xp=np):
    low, high = ((end - expected) * 1000 + expected for end in ends)
    return find_wrong(got, expected, (low, high), xp)


def test_sound_checks_see_all_that_is_planted():
    assert find_blind_checks() == []


@pytest.mark.parametrize(
    ("blind", "missed"),
    [
        (let_nan_pass, ["an element that nobody writes", "a NaN"]),
        (let_1000_bounds_pass, ["results with errors of 1.5e-5"]),
    ],
)
def test_a_blind_check_is_found(blind, missed, monkeypatch):
    monkeypatch.setattr(numeric, "find_wrong", blind)
    messages = [finding.message for finding in find_blind_checks()]
    assert len(messages) == len(missed)
    for message, what in zip(messages, missed, strict=True):
        assert message.startswith(f"the checks do not see {what}")


def test_a_simulator_that_counts_no_shared_memory_is_found(monkeypatch):
    run = self_test.check_numbers

    def check_without_limits(*args, **options):
        return [each for each in run(*args, **options) if "limit" not in each.message]

    monkeypatch.setattr(self_test, "check_numbers", check_without_limits)
    (finding,) = find_blind_checks()
    assert "more shared memory than a GPU has on the simulator" in finding.message
