"""Attention by wgmma at other sizes, and bugs planted in its lowered kernels: none needs a GPU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from compilers import needs_compiler
from edits import NOTHING, edit
from one_key import plant_places
from tvm.ir import Call, TensorLoad
from tvm.tirx import BufferStore, Evaluate, Mul, call_intrin, const

from tirstep.lowering_checks import check_numbers, get_device, run_recipe
from tirstep.lowering_checks.device import blank, run
from tirstep.lowering_checks.devices.simulator import lower, simulate_lowered
from tirstep.lowering_checks.facts import compile_facts, get_facts
from tirstep.lowering_checks.steps import Run
from tirstep.transforms import TransformError
from tirstep.transforms.passes import tma_pipeline
from tirstep.transforms.passes.rounds import GridRounds
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.tir import find_all
from tirstep.tvm_compat import get_op_name

SHAPE = {"batch": 1, "heads": 1, "queries": 128, "keys": 96, "dim": 32}
SMALL = {"warpgroups": 1, "keys": 32}
HALF = {"dtype": "float16", "out": "float16"}
BRAIN = {"dtype": "bfloat16", "out": "float32"}
LAST = "attention_wgmma_overlap"
ENDED = "attention_wgmma_causal_ended"
PARTED, BEST = "attention_wgmma_causal_parted", "attention_wgmma_best"
FUSES: dict[str, Any] = {"fused_exponents": True}
STAYS = {"persistent": 3, "longest_first": True}
IN_TURNS = {"warpgroups": 2, "keys": 64, "pingpong": True}
"""Two warpgroups take turns, each with 64 queries."""
FENCE, WAIT = "tirx.ptx.wgmma_fence", "tirx.ptx.wgmma_wait_group"
FULL = "tirx.cuda.mbarrier_wait"
ON_REGISTERS, ON_SHARED = "tirx.ptx.wgmma_f16_rs", "tirx.ptx.wgmma_f16_ss"
SUMS = 16
"""Registers of a thread, of 64 rows and 32 columns."""


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("name", "shape", "options", "config"),
    [
        ("attention_wgmma", {"queries": 256}, {}, {}),
        ("attention_wgmma_async", {"dim": 64, "heads": 2}, {"group": 2}, {"keys": 48}),
        ("attention_wgmma_tma", {"dim": 16, "keys": 128}, BRAIN, {"keys": 64}),
        (LAST, {"dim": 64, "heads": 2}, {"group": 2}, {"warpgroups": 2}),
        (LAST, {"keys": 64}, BRAIN, {"stages": 2}),
        (ENDED, {"keys": 160}, {"window": 40}, {"stages": 2}),
        (ENDED, {"keys": 160}, {}, {"roles": False, "overlaps": False}),
        (LAST, {"keys": 192}, BRAIN, IN_TURNS),
        (LAST, {"keys": 128}, {}, {**IN_TURNS, "overlaps": False, "stages": 2}),
        (ENDED, {"keys": 256, "queries": 256}, {}, IN_TURNS),
        (LAST, {"keys": 128, "dim": 48}, {}, {"keys": 64, "stages": 2}),  # rows of six chunks
        (PARTED, {"keys": 160}, {}, {}),
        (PARTED, {"keys": 160, "heads": 2}, {"window": 70}, {"persistent": 3}),
        (PARTED, {"queries": 256, "keys": 256}, FUSES, {**IN_TURNS, **STAYS, "powers": "fused"}),
        ("attention_wgmma_persistent", {"heads": 3}, FUSES, {"persistent": 4}),
        (BEST, {"queries": 256, "keys": 128, "dim": 80}, BRAIN, {}),
        (BEST, {"keys": 192, "dim": 48}, {**FUSES, "causal": True}, {}),
        (BEST, {"keys": 16, "dim": 16}, {}, {}),
    ],
    ids=str,
)
def test_types_masks_and_tiles(name: str, shape: dict, options: dict, config: dict) -> None:
    causal = {"causal": True} if "causal" in name else {}
    made = run_recipe(
        RECIPES[name],
        {**SHAPE, **shape},
        options={**HALF, **causal, **options},
        config={**SMALL, **config} if name != BEST else {},
    )
    module = made.steps[-1].module
    assert check_numbers(made.problem, module, get_device("simulator"), where=name) == []


@pytest.mark.parametrize("name", ["attention_wgmma_async", "attention_wgmma_roles", LAST, ENDED])
def test_one_key_takes_all_and_nothing_is_tolerated(name: str) -> None:
    causal = "causal" in name
    shape = {**SHAPE, "keys": 128} if causal else SHAPE
    made = run_recipe(RECIPES[name], shape, options={**HALF, "causal": causal}, config=SMALL)
    inputs, right = plant_places(made.problem, 0)
    program = get_device("simulator").compile(made.steps[-1].module)
    (got,) = run(program, inputs, made.problem.outputs)
    assert list(program.findings) == []
    np.testing.assert_array_equal(got.astype(np.float32), right)


# ---- Bugs planted in what the last rung is lowered to: two iterations of its loop, and both ends


@functools.cache
def make(stages: int = 3) -> tuple[Run, tvm.IRModule]:
    made = run_recipe(RECIPES[LAST], SHAPE, options=HALF, config={**SMALL, "stages": stages})
    return made, lower(made.steps[-1].module)


def judge(module: tvm.IRModule, made: Run | None = None) -> tuple[dict[str, str], bool]:
    """The messages of each kind of finding, and whether the numbers are right."""
    made = made or make()[0]
    inputs, right = plant_places(made.problem, 1)
    result = simulate_lowered(module, [*inputs, *(blank(it) for it in made.problem.outputs)])
    found: dict[str, str] = {}
    for finding in result.findings:
        found[finding.kind] = f"{found.get(finding.kind, '')}\n{finding.message}".strip()
    return found, bool((result.arguments[-1].astype(np.float32) == right).all())


def is_call(name: str) -> Callable[[Evaluate], bool]:
    return lambda node: isinstance(node.value, Call) and get_op_name(node.value).startswith(name)


def count(name: str) -> int:
    return sum(map(is_call(name), find_all(make()[1]["main"].body, Evaluate)))


def drop(name: str, which: int) -> tvm.IRModule:
    return edit(make()[1], Evaluate, is_call(name), lambda _: NOTHING, which)


def change(name: str, which: int, new: Callable[[list[Any]], None]) -> tvm.IRModule:
    """The module with other arguments of a call."""

    def replace(node: Evaluate) -> Evaluate:
        arguments = list(node.value.args)
        new(arguments)
        return Evaluate(call_intrin(node.value.ty, node.value.op, *arguments))

    return edit(make()[1], Evaluate, is_call(name), replace, which)


def wait_for_fewer(arguments: list[Any]) -> None:
    arguments[0] = arguments[0] + 1


def test_what_is_not_changed_is_right_and_the_calls_are_where_they_are_sought() -> None:
    assert judge(make()[1]) == ({}, True)
    # Of the first iteration; of the loop, for its scores and for the products before; at the end.
    assert count(WAIT) == 4
    assert count(FENCE) == 4
    # Two steps of k each, in the loop and at its end; before the loop, in the loop.
    assert (count(ON_REGISTERS), count(ON_SHARED)) == (4, 4)


def test_scores_that_are_read_before_their_group_has_ended_are_a_race() -> None:
    found, _ = judge(change(WAIT, 1, wait_for_fewer))
    assert "scores_local" in found["race"]
    assert "while a wgmma that adds to it is in flight" in found["race"]


def test_fragments_that_are_rewritten_under_a_group_one_too_many_are_a_race() -> None:
    found, _ = judge(change(WAIT, 2, wait_for_fewer))
    assert "store to power_float16_local" in found["race"]
    assert "while a wgmma that reads it is in flight" in found["race"]


def test_results_that_are_stored_under_their_last_group_are_a_race() -> None:
    found, _ = judge(drop(WAIT, 3))
    assert "load of weighted_local" in found["race"]


@pytest.mark.parametrize("which", [0, 1, 3])
def test_a_missing_fence_of_registers_is_found(which: int) -> None:
    """The third one stands behind another group of the loop, and threads use nothing between."""
    found, _ = judge(drop(FENCE, which))
    assert "with no wgmma.fence after its last use" in found["missing fence"]


def test_a_stage_that_is_filled_before_it_is_empty_is_a_race() -> None:
    """With two stages for three tiles: who copies has one place less than there are."""
    module, is_wait = make(2)[1], is_call(FULL)
    assert judge(module) == ({}, True)
    waits = [it for it in find_all(module["main"].body, Evaluate) if is_wait(it)]
    (which,) = [at for at, it in enumerate(waits) if "copied" in str(it)]
    assert "race" in judge(edit(module, Evaluate, is_wait, lambda _: NOTHING, which))[0]


def test_tiles_that_nobody_waits_for_are_a_race() -> None:
    found, _ = judge(drop(FULL, 1))
    assert "race" in found


def test_a_fragment_of_exponentials_that_is_transposed_gives_wrong_numbers() -> None:
    """The second and the third register change rows for columns, by blocks of 8."""

    def exchange(arguments: list[Any]) -> None:
        second, third = SUMS + 1, SUMS + 2
        arguments[second], arguments[third] = arguments[third], arguments[second]

    assert not judge(change(ON_REGISTERS, 0, exchange))[1]


def test_values_that_are_not_transposed_give_wrong_numbers() -> None:
    def keep(arguments: list[Any]) -> None:
        places = [at for at, it in enumerate(arguments) if not isinstance(it, TensorLoad)]
        flag = max(at for at in places if str(arguments[at]) == "1")
        arguments[flag] = const(0, "int32")

    assert not judge(change(ON_REGISTERS, 0, keep))[1]


def test_results_that_are_not_repaired_give_wrong_numbers() -> None:
    def is_repair(store: BufferStore) -> bool:
        return store.buffer.name == "weighted_local" and isinstance(store.value, Mul)

    module = edit(
        make()[1],
        BufferStore,
        is_repair,
        lambda it: BufferStore(it.buffer, it.value.a, it.indices),
    )
    assert not judge(module)[1]


def test_sums_begin_with_zeros_in_their_registers() -> None:
    """Two groups in the same registers, which nothing else writes, are one value to ptxas."""
    source = get_facts(make()[0].steps[-1].module, "cuda", problem=make()[0].problem).source
    groups = source[source.rindex('extern "C" __global__') :].split("wgmma_fence_fence_sync")[:-1]
    zeros = [group.rstrip().splitlines()[-3:-1] for group in groups]
    begun = [all("scores_local_ptr" in line and "= 0x0p+0f" in line for line in it) for it in zeros]
    assert begun == [True, True, False, False]


# ---- Bugs planted in the turns of two warpgroups, which change no number: tiles are as they were

SYNC, ARRIVE = "tirx.ptx.bar_sync_count", "tirx.ptx.bar_arrive"


@functools.cache
def make_turns(overlaps: bool) -> tuple[Run, tvm.IRModule]:
    shape, config = {**SHAPE, "keys": 128}, {**IN_TURNS, "overlaps": overlaps}
    made = run_recipe(RECIPES[LAST], shape, options=HALF, config=config)
    return made, lower(made.steps[-1].module)


def plant_in_turns(
    name: str, which: int, new: Callable[[Evaluate], Any], *, overlaps: bool = True
) -> dict[str, str]:
    """What is found, by kind, where one instruction of the turns is another."""
    made, module = make_turns(overlaps)
    return judge(edit(module, Evaluate, is_call(name), new, which), made)[0]


def with_argument(place: int, change: Callable[[Any], Any]) -> Callable[[Evaluate], Evaluate]:
    def replace(node: Evaluate) -> Evaluate:
        arguments = list(node.value.args)
        arguments[place] = change(arguments[place])
        return Evaluate(call_intrin(node.value.ty, node.value.op, *arguments))

    return replace


@pytest.mark.parametrize("overlaps", [True, False])
def test_turns_begin_in_front_of_products_and_end_behind_them(overlaps: bool) -> None:
    made, module = make_turns(overlaps)
    assert judge(module, made) == ({}, True)
    names = [
        get_op_name(it.value)
        for it in find_all(module["main"].body, Evaluate)
        if isinstance(it.value, Call)
    ]
    words = {SYNC: "sync", ARRIVE: "arrive", WAIT: "wait", "tirx.ptx.wgmma_commit_group": "issue"}
    told = " ".join(words[name] for name in names if name in words)
    scores, turn = "issue wait", "sync issue issue arrive wait wait"
    apart = "arrive sync issue arrive wait sync issue wait arrive sync"
    assert told == (f"arrive {scores} {turn} {scores} sync" if overlaps else apart)


def test_warpgroups_whose_first_turn_never_begins_wait_forever() -> None:
    found = plant_in_turns(ARRIVE, 0, lambda _: NOTHING)
    assert "of barrier 1 by thread (0, 0, 0) of block (0, 0, 0) waits" in found["deadlock"]
    assert "waits forever: 128 of 256 threads have come" in found["deadlock"]
    assert "deadlock" in plant_in_turns(ARRIVE, 0, lambda _: NOTHING, overlaps=False)


def test_a_warpgroup_that_calls_itself_leaves_the_other_one_waiting() -> None:
    own = with_argument(0, lambda number: const(3, "uint32") - number)
    assert "waits forever: 128 of 256" in plant_in_turns(ARRIVE, 1, own)["deadlock"]


@pytest.mark.parametrize(
    ("name", "which", "kind"),
    [(ARRIVE, 1, "named barrier"), (SYNC, 0, "named barrier"), (ARRIVE, 0, "named barrier")],
)
def test_a_count_that_is_a_warp_short_is_found(name: str, which: int, kind: str) -> None:
    short = with_argument(1, lambda count: count - const(32, "uint32"))
    found = plant_in_turns(name, which, short)
    assert "for 224 threads" in found[kind] or "has come for 224" in found[kind]


def test_counts_that_all_are_a_warp_short_leave_a_warp_waiting() -> None:
    made, module = make_turns(True)
    short = with_argument(1, lambda count: count - const(32, "uint32"))
    for name in (SYNC, ARRIVE):
        for which in range(2):
            module = edit(module, Evaluate, is_call(name), short, which)
    assert "of 224 threads have come" in judge(module, made)[0]["deadlock"]


def test_an_arrival_that_nobody_waits_for_is_found() -> None:
    found = plant_in_turns(SYNC, 1, lambda _: NOTHING)
    assert "barrier 1, to which" in found["named barrier"]
    assert "has 128 of 256 threads when the kernel ends" in found["named barrier"]


# ---- The compiler's word


@needs_compiler
@pytest.mark.parametrize(("name", "config"), [(LAST, {"pingpong": True}), (ENDED, {})])
def test_nothing_is_spilled_and_no_instruction_serialized(name: str, config: dict) -> None:
    shape = {"batch": 4, "heads": 16, "queries": 2048, "keys": 2048, "dim": 128}
    options = {**HALF, "causal": "causal" in name}
    made = run_recipe(RECIPES[name], shape, options=options, config=config)
    facts = get_facts(made.steps[-1].module, "cuda", problem=made.problem)
    compiled = compile_facts(facts.source, "sm_90a", facts.kernels)
    assert (facts.refusal, compiled.refusal) == (None, None)
    # NVRTC's front end leaves ptxas with more: 240 bytes by NVRTC 13.0, none by nvcc 13.0.
    assert compiled.values()["spills"] <= (256 if "NVRTC" in compiled.compiler else 0)
    assert "NVRTC" in compiled.compiler or " 0 bytes stack frame" in compiled.log
    assert "serializ" not in compiled.log.lower()
    assert "(C75" not in compiled.log


# ---- What does not fit


@pytest.mark.parametrize(
    ("shape", "options", "config", "sentence"),
    [
        ({"queries": 96}, HALF, {}, "loop 'i' runs 96 times"),
        ({"keys": 100}, HALF, {}, "loop 'j' runs 100 times"),
        ({"dim": 24}, HALF, {}, "dim=24 is no multiple of a fragment's 16"),
        ({}, {"dtype": "float32", "out": "float32"}, {}, "values of float32 are not of 16 bits"),
        ({}, HALF, {"keys": 24}, "a tile of 24 columns has no whole fragments"),
        ({"dim": 16}, HALF, {"keys": 16}, "copies a part of its tile only, under a predicate"),
        ({"dim": 256, "keys": 512}, HALF, {"keys": 128}, "of shared memory"),
        ({"keys": 64}, HALF, {"ends_at_mask": True}, "no condition under loop 'j_0' hides all"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(
    shape: dict, options: dict, config: dict, sentence: str
) -> None:
    with pytest.raises(TransformError, match=sentence):
        run_recipe(RECIPES[LAST], {**SHAPE, **shape}, options=options, config={**SMALL, **config})


# ---- Blocks that stay, and tiles of other numbers of steps


def run_stays(shape: dict, **config: Any) -> Run:
    return run_recipe(
        RECIPES[PARTED],
        {**SHAPE, **shape},
        options={**HALF, "causal": True},
        config={**SMALL, **config},
    )


def check_last(made: Run) -> list[Any]:
    return check_numbers(made.problem, made.steps[-1].module, get_device("simulator"), where="")


def test_rounds_that_go_back_share_long_and_short_tiles() -> None:
    """Each block has as many steps as the others, but for half a tile."""
    tiles, blocks = [x + 1 for _ in range(8) for x in range(16)], 12  # steps of heads of 16 tiles
    shares = [0] * blocks
    for tile, steps in enumerate(tiles):
        round_, place = divmod(tile, blocks)
        shares[blocks - 1 - place if round_ % 2 else place] += steps
    forward = [sum(tiles[block::blocks]) for block in range(blocks)]
    assert max(shares) - min(shares) < (max(forward) - min(forward)) / 2


def test_steps_of_earlier_tiles_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    made = run_stays({"queries": 192, "keys": 192}, persistent=2)
    assert check_last(made) == []
    monkeypatch.setattr(GridRounds, "end_tile", lambda self: [])
    assert check_last(made)


def test_every_tile_has_a_round_where_the_last_one_goes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = run_stays({"queries": 192, "keys": 192, "heads": 1}, persistent=2)
    place = GridRounds._find_place

    def forward(self: GridRounds, round_: Any) -> Any:
        return self.axes[0][0] if isinstance(round_, int) else place(self, round_)

    monkeypatch.setattr(GridRounds, "_find_place", forward)
    assert check_last(made)


def test_queries_keep_their_memory_beside_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a block with one tile TVM would give their memory to stages that are read later."""
    made = run_recipe(
        RECIPES["attention_wgmma_persistent"],
        {**SHAPE, "keys": 64},
        options={**HALF, **FUSES},
        config={**SMALL, "persistent": 2},
    )
    assert check_last(made) == []
    monkeypatch.setattr(tma_pipeline, "find_shared", lambda buffers: [])
    assert "race" in str(check_last(made))
