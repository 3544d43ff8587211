"""The long fuzzer finds what is planted, says how to see it again, and counts what it did."""

import importlib.util
import re
import signal
import sys
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import pytest
from judged_plays import (
    WITH_PRIMITIVES,
    Judgement,
    find_own_fault,
    judge,
    replay,
    require_structure,
    shorten,
)
from players import Player
from plays import PREFIX, Call, Loop, Play, WrongError, record
from plays import Block as At
from tvm.ir import assert_structural_equal
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.script import from_source

from tirstep import transforms as tr
from tirstep.lowering_checks.steps import run_golden
from tirstep.modules import matmul, row_sum, softmax, vector_add
from tirstep.strategies.problems import Dice, draw_problem
from tirstep.transforms import Split, TransformError
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.schedule import transform

SCRIPT = Path(__file__).parent / "fuzz_schedules.py"
_spec = importlib.util.spec_from_file_location("fuzz_schedules", SCRIPT)
fuzz_schedules = importlib.util.module_from_spec(_spec)
sys.modules["fuzz_schedules"] = fuzz_schedules
_spec.loader.exec_module(fuzz_schedules)


@transform
def lose_the_guard(sch: Schedule, loop: LoopRV, *, inner, tail="refuse"):
    return Split(*sch.split(loop, [None, inner], disable_predication=True))


def stumble(sch, loop, *, inner, tail="refuse"):
    raise KeyError("a mistake of ours")


def refuse_too_late(sch: Schedule, loop: LoopRV, *, inner, tail="refuse"):
    sch.split(loop, [None, 1])
    raise TransformError("split_loop", "no", "leave it")


SEED = "planted-10"
ONLY, HARMLESS = "vector_add", ("simulator",)
"""On a CPU a lost guard may store far beyond the guard zones, and end this process."""
SHOWN = {
    "wrong": "simulator: ",
    "raised": "KeyError: 'a mistake of ours'",
    "changed by a refusal": "split_loop: no",
}
PLANTED = {"wrong": lose_the_guard, "raised": stumble, "changed by a refusal": refuse_too_late}


@pytest.mark.share(3)
@pytest.mark.parametrize("kind", PLANTED)
def test_what_is_planted_is_found_and_shown(kind, monkeypatch):
    monkeypatch.setattr(tr, "split_loop", PLANTED[kind])
    session = fuzz_schedules.Session(SEED, HARMLESS, only=ONLY)
    trial = -1
    while not session.wrong:
        trial += 1
        assert trial < 60
        session.play(trial)
    (said,) = session.wrong
    assert said.startswith(f"{kind}: ")
    assert SHOWN[kind] in said.splitlines()[0]
    assert f"again: fuzz_schedules.py {SEED} 0 --trial {trial} --only {ONLY}" in said
    calls = re.findall(r"^ *(tr\.\w+)\(sch", said, re.MULTILINE)
    assert "tr.split_loop" in calls
    assert len(calls) <= 4  # of up to 40
    again = fuzz_schedules.Session(SEED, HARMLESS, only=ONLY)
    again.play(trial)
    assert again.wrong == session.wrong
    if kind == "raised":
        assert fuzz_schedules.main([SEED, "0", "--trial", str(trial), "--only", ONLY]) == 1


SPLIT = Call("split_loop", (Loop(At("C"), 0),), {"inner": 4})
BIND = Call("bind_loop", (Loop(At("C"), 1),), {"axis": "threadIdx.x"})


def test_a_call_that_is_refused_without_another_goes_with_it():
    """Neither can be left out alone, and the second has no loop without the first."""
    few = shorten(vector_add.problem(8), [SPLIT, BIND], lambda play: len(play.calls) != 1)
    assert few == []


MISPLACED = [
    Call(
        "stage_operand_at",
        (At("wide"), Loop(At("wide"), 0)),
        {"operand": 0, "threads": (2, 2), "vector": 1, "scope": "shared", "tail": "guard"},
    ),
    Call("sch.reverse_compute_at", (At("A_shared"), Loop(At("statistics"), 1))),
]


def test_what_a_primitive_breaks_by_itself_is_no_fault_of_ours():
    """TVM moves a block behind its own reader; a guard that a transform loses is ours."""
    problem = softmax.problem(4, 1, online=True)
    assert judge(problem, replay(problem, MISPLACED).module, ["cpu"]).findings
    assert find_own_fault(problem, MISPLACED) == MISPLACED[1]
    assert find_own_fault(problem, MISPLACED[:1]) is None


def test_a_copy_beyond_its_buffer_is_the_primitive_s_own_fault_where_nothing_can_be_run():
    """TVM copies for the 16 threads on an axis what the 13 that a guard lets in have."""
    problem = row_sum.problem(13, 16)
    rows = Call(PREFIX, ("row_sum_vectors", 10), {"vector": 4, "rows": 16, "tail": "guard"})
    copy = Call("sch.cache_read", (At("B"), 0, "shared.dyn"))
    bind = Call("bind_loop", (Loop(At("A_local_shared.dyn"), 4),), {"axis": "threadIdx.x"})
    assert find_own_fault(problem, [rows, copy, bind]) == copy
    assert find_own_fault(problem, [rows]) is None


def test_primitives_are_drawn_between_transforms():
    plays = [Play(matmul.problem(7, 13, 11)) for _ in range(2)]
    for seed, play in enumerate(plays, 6):  # what a seed draws changes with each transform
        Player(Dice(f"primitives:{seed}"), play, WITH_PRIMITIVES).play_all(60)
    done = {call.name for play in plays for call in play.calls}
    primitives = {name for name in done if name.startswith("sch.")}
    assert 3 < len(primitives) < len(done)


def test_a_play_is_made_anew_from_its_calls():
    choice = Dice("anew:5")
    play = Play(draw_problem(choice, "matmul"))
    Player(choice, play).play_all(60)  # whatever kernels and recipes there are to draw from
    assert len(play.calls) > 4
    again = replay(play.problem, play.calls)
    assert again.module.script() == play.module.script()
    assert len(replay(play.problem, play.calls[:2]).calls) <= 2


@pytest.mark.share(3)
@pytest.mark.parametrize("name", ["matmul_wgmma", "matmul_mma_split_k"])
def test_the_calls_of_a_recipe_make_its_last_step(name):
    """Transforms and primitives, each at its place, of blocks within others, too."""
    run = run_golden(RECIPES[name])
    calls = record(RECIPES[name], Schedule(run.problem.module), **run.recipe.golden.config)
    play = replay(run.problem, calls)
    assert [call.name for call in play.calls] == [call.name for call in calls]
    assert_structural_equal(play.module, run.steps[-1].module)


def test_a_recipe_that_is_refused_or_breaks_is_recorded_so_far_or_told():
    problem, recipe = vector_add.problem(8), RECIPES["vector_add_bound"]
    assert record(recipe, Schedule(problem.module), threads=3) == []
    broken = SimpleNamespace(name="broken", run=lambda sch: iter([].pop, None))
    with pytest.raises(WrongError, match=r"raised: broken \{\}: IndexError: pop from empty list"):
        record(broken, Schedule(problem.module))


@pytest.mark.share(3)
def test_plays_reach_warps_of_roles_that_the_tma_feeds_and_are_judged():
    """None did in thousands, before recipes' own calls were followed."""
    problem = matmul.problem(128, 64, 128, dtype="float16", transpose_b=True)
    recipe = RECIPES["matmul_wgmma_persistent"]
    config = {**recipe.golden.config, "tile": (64, 64), "tile_k": 64}
    choice = Straight("roles")
    play = Play(problem)
    player = Player(choice, play)
    player.follow(record(recipe, Schedule(problem.module), **config))
    player.finish()
    assert {call.name for call in play.calls} >= {
        *("tile_in_warpgroups", "prefetch_by_tma", "tensorize_warpgroups", "specialize_warps"),
        "make_persistent",
    }
    assert judge(problem, play.module, ("simulator",)) == Judgement({"simulator": []})


class Straight(Dice):
    """Draws nothing in between, and no other options."""

    def one(self, values, label):
        return values[-1] if label in ("otherwise", "changed") else super().one(values, label)


def test_a_fault_of_asynchronous_copies_counts():
    problem = matmul.problem(2, 4, 6)
    sch = Schedule(problem.module)
    block = sch.get_sblock("C")
    row, column, k = sch.get_loops(block)
    tr.bind_loop(sch, row, axis="blockIdx.x")
    tr.bind_loop(sch, column, axis="threadIdx.x")
    copy = tr.stage_operand_at(sch, block, k, operand=0, threads=4, scope="shared", tail="guard")
    sch.decompose_reduction(block, k)
    tr.prefetch_asynchronously(sch, k, [copy], stages=3)
    assert judge(problem, sch.mod, ["simulator"]) == Judgement({"simulator": []})
    text = sch.mod.script()
    late = text.replace('"software_pipeline_stage": [0, 2]', '"software_pipeline_stage": [0, 0]')
    assert late != text
    said = judge(problem, from_source(late), ["simulator"])
    assert said.refusals == []
    assert "simulator: race" in said.findings[0]


def test_structure_sees_what_does_not_run():
    problem = vector_add.problem(8)
    play = Play(problem)
    play.call(Call("split_loop", (Loop(At("C"), 0),), {"inner": 4, "tail": "guard"}))
    require_structure(play.module)
    text = play.module.script()
    fewer = from_source(text.replace("T.grid(2, 4)", "T.grid(1, 4)"), check_well_formed=False)
    with pytest.raises(WrongError, match="block 'C' runs 4 times, and 8 are needed"):
        require_structure(fewer)
    none = from_source(text.replace("T.grid(2, 4)", "T.grid(-2, 4)"), check_well_formed=False)
    with pytest.raises(WrongError, match="runs -2 times"):
        require_structure(none)


def test_a_process_that_dies_is_a_finding_of_its_trial(capsys):
    """The session goes on to its end, and the command fails."""
    session, future = fuzz_schedules.Session("6", HARMLESS), Future()
    future.set_exception(fuzz_schedules.pebble.ProcessExpired("died", code=-signal.SIGSEGV))
    fuzz_schedules.take(session, future, 3)
    (said,) = session.wrong
    assert said.startswith("died: trial 3 of seed 6 ended with signal SIGSEGV\n")
    assert "again: fuzz_schedules.py 6 0 --trial 3" in capsys.readouterr().out
