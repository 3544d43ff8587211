"""A draw from the corpus of foreign functions: no wrong result, no raw error, no bare refusal."""

from __future__ import annotations

import collections

import numpy as np
import pytest
import tvm
from foreign_corpus import CORPUS, Foreign
from foreign_corpus.calls import Call, Loop, list_calls, list_transforms
from foreign_corpus.driving import BARE, RAW, REFUSED, TORN, Outcome, play
from foreign_corpus.judging import FINDING, RIGHT, WRONG, get_expected, judge
from foreign_corpus.states import STATES, make_state
from tvm.s_tir import Schedule

from tirstep import transforms
from tirstep.transforms import TransformError

BAD = (WRONG, FINDING, RAW, BARE, TORN)


def test_there_are_as_many_functions_as_we_say() -> None:
    families = collections.Counter(foreign.family for foreign in CORPUS.values())
    assert families.total() == 89
    assert set(families) == {"elements", "products", "reductions", "types"}


def test_every_transform_is_called_somewhere() -> None:
    """Of one product in its states every transform has a call."""
    called: set[str] = set()
    for state in STATES:
        if (start := make_state(CORPUS["product_with_bias"].function, state)) is not None:
            called |= {call.transform for call in list_calls(start)}
    assert called == {*list_transforms()}


@pytest.mark.share(768)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", CORPUS)
def test_every_call_is_right_or_refused_with_advice(name: str, state: str) -> None:
    outcomes = list(play(CORPUS[name], state))
    assert [str(outcome) for outcome in outcomes if outcome.verdict in BAD] == []


def test_calls_are_judged_right_and_refused() -> None:
    verdicts = collections.Counter(it.verdict for it in play(CORPUS["doubled"], "as written"))
    assert verdicts[RIGHT] >= 2
    assert verdicts[REFUSED] >= 2


def test_a_wrong_schedule_and_a_race_are_seen() -> None:
    """The judge can fail: a sum that begins with one, and rows that all threads write."""
    foreign = CORPUS["sum_of_rows"]
    start = Schedule(foreign.function)
    text = start.mod.script()
    wrong = tvm.script.from_source(text.replace("T.float32(0.0)", "T.float32(1.0)"))
    assert judge(foreign, wrong, "cpu")[0] == WRONG
    racing = make_state(CORPUS["softmax"].function, "on threads")
    assert racing is not None
    top, power = racing.get_sblock("top"), racing.get_sblock("power")
    racing.compute_at(top, racing.get_loops(power)[0])  # two thread blocks a row
    assert judge(CORPUS["softmax"], racing.mod, "simulator")[0] == FINDING


def test_open_sizes_and_scalars_have_inputs() -> None:
    assert get_expected("open_rows")[1].shape == (13, 24)
    assert get_expected("sums_over_open_rows")[0].shape == (13, 21)
    expected = get_expected("scaled_by_an_argument")
    assert np.array_equal(expected[1], 3 * expected[0])


def test_shared_memory_of_a_guarded_block_is_refused() -> None:
    """TVM ended the process in CompactBufferAllocation, also in our own net."""
    sch = make_state(CORPUS["blocks_in_blocks"].function, "in tiles")
    assert sch is not None
    inner = sch.get_sblock("inner")
    before = sch.mod
    with pytest.raises(TransformError, match=r"shared memory of block 'outer', which is under a"):
        transforms.cache_read_at(sch, inner, sch.get_loops(inner)[0], operand=0)
    assert sch.mod.same_as(before)
    transforms.cache_read_at(sch, inner, sch.get_loops(inner)[0], operand=0, scope="local")
    assert judge(CORPUS["blocks_in_blocks"], sch.mod, "simulator") == (RIGHT, "")


LOCAL = {"scope": "local"}
ADVICE = [
    (
        "in_place",
        Call("cache_write_at", ("A", Loop("A", 0)), LOCAL),
        "let the block write to an",
    ),
    (
        "sum_in_blocks",
        Call("accumulate_in_registers", ("inner", Loop("inner", 0))),
        "leave the re",
    ),
    ("sum_in_blocks", Call("rfactor_reduction", ("outer",), {"parts": 2}), "not one around others"),
    (
        "gathered",
        Call("cache_read_at", ("rows", Loop("rows", 4)), {"operand": 0, **LOCAL}),
        "before the loops are split with a guard",
    ),
    (
        "gathered",
        Call("cache_read_at", ("rows", Loop("rows", 2)), {"operand": 0}),
        "leave it in global memory",
    ),
    ("later_beginning", Call("split_loop", (Loop("B", 1),), {"inner": 4}), "from 0"),
    (
        "product_after_zeros",
        Call("cache_write_at", ("C", Loop("C", 0)), LOCAL),
        "in one block only",
    ),
    (
        "softmax",
        Call("bind_loop", (Loop("top", 1),), {"axis": "blockIdx.x"}),
        "spread_over_threads",
    ),
    ("triangle_of_loops", Call("fuse_loops", ((Loop("B", 0), Loop("B", 1)),)), "depends on a loop"),
    ("running_sum", Call("reorder_loops", ((Loop("B", 1), Loop("B", 0)),)), "scans"),
]


@pytest.mark.parametrize(("name", "call", "advice"), ADVICE)
def test_what_tvm_refuses_or_makes_wrong_is_refused_with_advice(
    name: str, call: Call, advice: str
) -> None:
    sch = make_state(CORPUS[name].function, "in tiles" if name == "gathered" else "as written")
    assert sch is not None
    with pytest.raises(TransformError) as caught:
        call.run(sch)
    assert advice in caught.value.advice


def test_handles_are_spelt_as_the_runner_prints_them() -> None:
    call = Call("fuse_loops", ((Loop("C", 0), Loop("C", 1)),))
    assert str(call) == "fuse_loops([C/0, C/1])"
    foreign = Foreign("x", "elements", CORPUS["doubled"].function, is_exact=True)
    assert str(Outcome(foreign.name, "as written", call, RIGHT, "")).startswith("x, as written: fu")
