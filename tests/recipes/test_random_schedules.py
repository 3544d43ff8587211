"""Random sequences of transforms: each one is refused with nothing changed, or right.

They begin with nothing, a tile, or the calls of a recipe; after them what is left is bound. Then
the numbers are checked on the CPU, and, where every block is spread over all threads of its kernel,
on the simulator too, which also sees races and reads of other threads' registers.
"""

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from judged_plays import (
    LIMIT,
    PRIME,
    TOO_LONG,
    WITH_PRIMITIVES,
    draw_huge,
    draw_prime,
    find_own_fault,
    judge,
    require_structure,
)
from players import TABLE, Player
from plays import TRANSFORMS, Play, find_kernel, is_finished

from tirstep.modules import kernels
from tirstep.strategies.hypothesis_strategies import Drawn
from tirstep.strategies.problems import SIZES, Dice, draw_problem
from tirstep.transforms.tir import get_places

EXAMPLES = max(6, settings().max_examples)
ALL = pytest.mark.parametrize("name", SIZES)
REFUSALS = (LIMIT, TOO_LONG, "TVM does not lower", "does not compile")
"""Of devices, what a transform may not know of."""


def assert_right(play: Play, device: str) -> None:
    require_structure(play.module)
    said = judge(play.problem, play.module, ("cpu", device))
    event(f"on {device}" if device in said.by_device else f"not on {device}")
    for refusal in said.refusals:
        event(refusal[:60])
        assert any(text in refusal for text in REFUSALS), refusal
    calls = "\n".join(map(str, play.calls))
    assert not said.findings, "\n".join([*said.findings, str(play.problem), calls])


def play_drawn(name: str, data: st.DataObject, device: str) -> None:
    choice = Drawn(data)
    play = Play(draw_problem(choice, name))
    Player(choice, play).play_all(data.draw(st.integers(2, 14), label="moves"))
    assert_right(play, device)


@pytest.mark.share(16)
@pytest.mark.parametrize("name", PRIME)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_transforms_between_primitives_are_refused_or_right(name: str, data: st.DataObject) -> None:
    """Kernels at prime sizes; what a primitive breaks by itself is TVM's own fault."""
    choice = Drawn(data)
    play = Play(draw_prime(choice, name))
    Player(choice, play, WITH_PRIMITIVES).play_all(data.draw(st.integers(2, 14), label="moves"))
    findings = judge(play.problem, play.module, ("cpu", "simulator")).findings
    own = findings and find_own_fault(play.problem, play.calls)
    assert not findings or own, "\n".join([*findings, str(play.problem), *map(str, play.calls)])


@pytest.mark.share(16)
@ALL
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_random_schedule_is_refused_or_right(name: str, data: st.DataObject) -> None:
    play_drawn(name, data, "simulator")


@pytest.mark.gpu
@ALL
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_random_schedule_is_refused_or_right_on_cuda(name: str, data: st.DataObject) -> None:
    play_drawn(name, data, "cuda")


@pytest.mark.share(9)
@settings(max_examples=2 * EXAMPLES)
@given(data=st.data())
def test_nests_of_2_to_the_31_iterations_stay_whole(data: st.DataObject) -> None:
    choice = Drawn(data)
    play = Play(draw_huge(choice))
    Player(choice, play).play_all(data.draw(st.integers(2, 14), label="moves"))
    for module in play.modules:
        require_structure(module)


def test_every_public_transform_has_a_move() -> None:
    """A new transform takes part, or this fails."""
    assert set(TABLE) == set(TRANSFORMS)


def test_every_kernel_is_drawn_by_the_fuzzers() -> None:
    """A new kernel takes part, or this fails."""
    assert set(SIZES) == set(kernels())
    for trial in range(20):
        for name in SIZES:
            assert draw_problem(Dice(f"rare:{trial}"), name).kernel.name == name


def test_sizes_of_one_and_odd_ones_are_drawn() -> None:
    """Of each kernel, without which no test would meet loops of one iteration, and tails."""
    for name in SIZES:
        drawn = [draw_problem(Dice(f"sizes:{trial}"), name).shape.values() for trial in range(60)]
        assert any(1 in sizes for sizes in drawn), name
        assert any(size % 2 and size > 1 for sizes in drawn for size in sizes), name


@pytest.mark.share(12)
def test_most_random_schedules_can_be_launched() -> None:
    """Otherwise the simulator would see few of them; some are two kernels."""
    finished, several, done = 0, 0, {}
    for trial in range(20):
        choice = Dice(f"launch:{trial}")
        play = Play(draw_problem(choice, list(SIZES)[trial % len(SIZES)]))
        Player(choice, play).play_all(10)
        finished += is_finished(play.module)
        several += len({*map(find_kernel, get_places(play.module["main"].body))} - {None}) > 1
        done.update({key: 1 for key in play.counts if key.startswith("done ")})
    assert finished >= 17  # fewer are without the finishing phase
    assert several >= 4
    assert len(done) > len(TABLE) // 3  # the rest takes more schedules
