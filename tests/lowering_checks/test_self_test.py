"""Checks that have gone blind are told by `tirstep check` itself."""

import inspect
import textwrap

import numpy as np
import pytest
from tvm.ir import Range

from tirstep.lowering_checks import numeric, self_test
from tirstep.lowering_checks.devices.simulator import async_copies
from tirstep.lowering_checks.self_test import (
    find_blind_checks,
    list_broken_passes,
    list_broken_refusals,
)
from tirstep.modules import numeric as numbers
from tirstep.transforms import decorators
from tirstep.transforms.legality import registers
from tirstep.transforms.passes import barriers, before_flattening, uses

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


def plant(monkeypatch, home, place, old, new):
    """Change the source of a function that a module has, or a class in it."""
    owner, _, name = place.rpartition(".")
    holder = getattr(home, owner) if owner else home
    text = textwrap.dedent(inspect.getsource(getattr(holder, name)))
    assert text.count(old) == 1
    names = dict(vars(home))
    exec(f"from __future__ import annotations\n{text.replace(old, new)}", names)
    monkeypatch.setattr(holder, name, names[name])


EAGER = {
    "goes one element beyond": (
        uses,
        "_find_size",
        "return size if variables.is_within(linear[1], size) else None",
        "return size",
    ),
    "slot of three iterations later": (uses, "Slot.never_meets", " % self.count != 0", " != 0"),
    "head of the next iteration": (
        barriers,
        "_find_redundant",
        "*find_shared_accesses(again, loop, variables, ahead=1),",
        "",
    ),
    "value that has changed since": (
        barriers,
        "find_shared_accesses",
        "if not find_all(node.condition, TensorLoad)",
        "",
    ),
    "two tiles to which TVM gives one place": (
        barriers,
        "SharedAccess.is_harmless_with",
        "return self.is_lasting and other.is_lasting",
        "return True",
    ),
    "keeps its last element out": (before_flattening, "_split", "extent - 1", "extent - 2"),
    "stores and those that it loads": (
        before_flattening,
        "_find_thread_dimensions",
        "of_thread and all(",
        "of_thread or any(",
    ),
}
"""Bugs that no golden and no number of a recipe showed."""


@pytest.mark.parametrize("what", EAGER)
def test_a_pass_whose_proof_is_too_eager_is_found(what, monkeypatch):
    plant(monkeypatch, *EAGER[what])
    broken = list_broken_passes()
    assert broken[0].startswith("tirstep.")
    assert what in broken[0]


def test_a_pass_that_forgets_the_last_iteration_is_found(monkeypatch):
    class Short:
        @staticmethod
        def of(function):
            found = uses.Variables.of(function)
            ranges = {
                variable: Range.from_min_extent(span.min, span.extent - 1)
                for variable, span in found.ranges.items()
            }
            return uses.Variables(found.values, ranges)

    monkeypatch.setattr(before_flattening, "Variables", Short)
    (broken,) = list_broken_passes()
    assert "drops a condition that holds in the last iteration of a loop" in broken


def test_transforms_that_refuse_too_little_or_too_late_are_found(monkeypatch):
    monkeypatch.setattr(registers, "_find_spreading_loops", lambda *_: [])
    assert [text.split()[0] for text in list_broken_refusals()] == ["cache_write_at"]
    monkeypatch.setattr(decorators, "_copy", lambda _: None)
    assert "a composite that is refused half-way changes" in list_broken_refusals()[-1]


def test_waits_and_inputs_that_have_gone_blind_are_found(monkeypatch):
    plant(monkeypatch, async_copies, "AsyncQueue.wait", "work.group <", "work.group <=")
    plant(monkeypatch, numbers, "draw_whole_numbers", "min(reach, facts.exact_integers)", "1")
    messages = [finding.message for finding in find_blind_checks()]
    assert len(messages) == 2
    assert "what is still being copied, on the simulator, which is planted" in messages[0]
    assert "whole numbers are no others" in messages[1]
