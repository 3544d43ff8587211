"""Strategies for whole modules: kernels, steps of recipes, drawn schedules and drawn programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from hypothesis import assume
from hypothesis import strategies as st

from tirstep.lowering_checks.steps import Run, run_golden
from tirstep.modules import Problem
from tirstep.transforms import TransformError
from tirstep.transforms.recipes import RECIPES, Step

from .drawn_programs import BLOCKS, KERNEL, LOOPS, draw_program
from .players import Player
from .plays import Play
from .problems import SIZES, draw_problem


class Drawn:
    """What draws for players and programs, out of a test's data."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def one(self, values: Sequence[Any], label: str) -> Any:
        """One of the values."""
        return self._data.draw(st.sampled_from(list(values)), label=label)


@st.composite
def kernels(draw: st.DrawFn, names: Sequence[str] = tuple(SIZES)) -> Problem:
    """Small problems of these kernels: sizes of one element and odd ones among them."""
    choice = Drawn(draw(st.data()))
    return draw_problem(choice, draw(st.sampled_from(list(names))))


@st.composite
def schedules(
    draw: st.DrawFn, names: Sequence[str] = tuple(SIZES), tries: tuple[int, int] = (3, 15)
) -> Play:
    """A schedule of one of these kernels by drawn transforms: `Play.module` and `Play.calls`."""
    choice = Drawn(draw(st.data()))
    play = Play(draw_problem(choice, draw(st.sampled_from(list(names)))))
    Player(choice, play).play_all(draw(st.integers(*tries)))
    return play


@st.composite
def programs(draw: st.DrawFn, *, blocks: bool | None = None) -> tvm.IRModule:
    """A drawn program of one function ``main``; of blocks, of plain statements, or either."""
    forms = {True: (BLOCKS,), False: (LOOPS, KERNEL), None: (LOOPS, KERNEL, BLOCKS)}[blocks]
    choice = Drawn(draw(st.data()))
    return draw_program(choice, draw(st.sampled_from(forms)))


@st.composite
def recipe_steps(draw: st.DrawFn, names: Sequence[str] = tuple(RECIPES)) -> tuple[Run, Step]:
    """A step of one of these recipes, at its golden's shape, with the run that it is one of."""
    try:
        run = run_golden(RECIPES[draw(st.sampled_from(list(names)))])
    except TransformError:
        assume(condition=False)
        raise
    return run, draw(st.sampled_from(run.steps))
