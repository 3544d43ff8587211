"""Attention by wgmma at other sizes, and what it is lowered to: none needs a GPU."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from compilers import needs_compiler
from edits import edit
from golden_runs import require_right
from one_key import plant_places
from tvm.ir import Call
from tvm.tirx import Evaluate, call_intrin

from tirstep.lowering_checks import run_recipe
from tirstep.lowering_checks.device import blank
from tirstep.lowering_checks.devices.simulator import lower, simulate_lowered
from tirstep.lowering_checks.facts import compile_facts, get_facts
from tirstep.lowering_checks.steps import Run
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.recipes.attention_wgmma import choose_config
from tirstep.transforms.tir import find_all
from tirstep.tvm_compat import get_op_name

SHAPE = {"batch": 1, "heads": 1, "queries": 128, "keys": 96, "dim": 32}
SMALL = {"warpgroups": 1, "keys": 32}
HALF = {"dtype": "float16", "out": "float16"}
BRAIN = {"dtype": "bfloat16", "out": "float32"}
LAST = "attention_wgmma_overlap"
ENDED = "attention_wgmma_causal_ended"
PARTED, BEST = "attention_wgmma_causal_parted", "attention_wgmma_best"
PERSISTENT = "attention_wgmma_persistent"
FUSES: dict[str, Any] = {"fused_exponents": True}
STAYS = {"persistent": 3, "longest_first": True}
TWO, THREE = ({"warpgroups": count, "keys": keys} for count, keys in ((2, 64), (3, 32)))


@pytest.mark.share(18)
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
        (PERSISTENT, {"queries": 320, "dim": 72}, FUSES, {**THREE, "persistent": 2}),
        (LAST, {"keys": 128}, {}, {**TWO, "overlaps": False, "stages": 2}),
        (ENDED, {"keys": 256, "queries": 256}, {}, TWO),
        # Blocks with no tile that is whole wait in the second loop alone.
        (PARTED, {"keys": 128}, {}, {"keys": 16, "overlaps": False, "longest_first": True}),
        (PARTED, {"keys": 160, "heads": 2}, {"window": 70}, {"persistent": 3}),
        (PARTED, {"queries": 256, "keys": 256}, FUSES, {**TWO, **STAYS, "powers": "fused"}),
        (PERSISTENT, {"heads": 3}, FUSES, {"persistent": 4}),
        # Steps of earlier tiles count, and the last round goes back; a stage beside the queries.
        (PARTED, {"queries": 192, "keys": 192}, {}, {"persistent": 2}),
        (PARTED, {"queries": 192, "keys": 192, "heads": 1}, {}, {"persistent": 2}),
        (PERSISTENT, {"keys": 64}, FUSES, {"persistent": 2}),
        (BEST, {"queries": 256, "keys": 128, "dim": 80}, BRAIN, {}),
        (BEST, {"keys": 192, "dim": 48}, {**FUSES, "causal": True}, {}),
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
    require_right(made)


def judge(made: Run, seed: int = 0) -> list[str]:
    """The names of the calls of a run's last module, which is right to the bit."""
    lowered, (inputs, right) = lower(made.steps[-1].module), plant_places(made.problem, seed)
    result = simulate_lowered(lowered, [*inputs, *map(blank, made.problem.outputs)])
    assert list(result.findings) == []
    np.testing.assert_array_equal(result.arguments[-1].astype(np.float32), right)
    calls = [it.value for it in find_all(lowered["main"].body, Evaluate)]
    return [get_op_name(call) for call in calls if isinstance(call, Call)]


@pytest.mark.share(6)
@pytest.mark.parametrize("name", ["attention_wgmma_async", "attention_wgmma_roles", LAST, ENDED])
def test_one_key_takes_all_and_nothing_is_tolerated(name: str) -> None:
    causal = "causal" in name
    shape = {**SHAPE, "keys": 128} if causal else SHAPE
    names = judge(
        run_recipe(RECIPES[name], shape, options={**HALF, "causal": causal}, config=SMALL)
    )
    if name == LAST:
        # Of the first iteration; of the loop, for its scores and for the products before; at the
        # end. Two steps of k each, in the loop and at its end; before the loop, in the loop.
        counted = Counter(names)
        assert [counted[f"tirx.ptx.wgmma_{it}"] for it in ("wait_group", "fence")] == [4, 4]
        assert [counted[f"tirx.ptx.wgmma_f16_{it}"] for it in ("rs", "ss")] == [4, 4]


def test_fragments_that_are_rewritten_under_a_group_one_too_many_are_a_race() -> None:
    made = run_recipe(RECIPES[LAST], SHAPE, options=HALF, config={**SMALL, "stages": 3})

    def is_wait(node: Evaluate) -> bool:
        return isinstance(node.value, Call) and get_op_name(node.value).endswith("wgmma_wait_group")

    def wait_for_fewer(node: Evaluate) -> Evaluate:
        in_flight, *rest = node.value.args
        return Evaluate(call_intrin(node.value.ty, node.value.op, in_flight + 1, *rest))

    planted = edit(lower(made.steps[-1].module), Evaluate, is_wait, wait_for_fewer, 2)
    arguments = [*plant_places(made.problem, 1)[0], *map(blank, made.problem.outputs)]
    told = [it.message for it in simulate_lowered(planted, arguments).findings if it.kind == "race"]
    assert any("store to power_float16_local" in it for it in told)
    assert any("while a wgmma that reads it is in flight" in it for it in told)


def test_sums_begin_with_zeros_in_their_registers() -> None:
    """Two groups in the same registers, which nothing else writes, are one value to ptxas."""
    made = run_recipe(RECIPES[LAST], SHAPE, options=HALF, config={**SMALL, "stages": 3})
    source = get_facts(made.steps[-1].module, "cuda", problem=made.problem).source
    groups = source[source.rindex('extern "C" __global__') :].split("wgmma_fence_fence_sync")[:-1]
    zeros = [group.rstrip().splitlines()[-3:-1] for group in groups]
    begun = [all("scores_local_ptr" in line and "= 0x0p+0f" in line for line in it) for it in zeros]
    assert begun == [True, True, False, False]


def test_a_mask_is_loaded_under_the_products() -> None:
    """In the loop behind both groups' issue, and in front of the wait for the first."""
    options = {**HALF, "mask": "qk"}
    name = "attention_wgmma_masked_overlap"
    made = run_recipe(RECIPES[name], SHAPE, options=options, config=SMALL)
    source = get_facts(made.steps[-1].module, "cuda", problem=made.problem).source
    before, waited = source.split("wgmma_wait_group_wait_group_sync_aligned_1();")
    assert "A_ptr" in before.split("commit_group_sync_aligned();")[-1]
    assert "A_ptr" not in waited


def test_warpgroups_are_those_that_fill_the_gpu() -> None:
    sizes, others = (60, 1536, 1536, 96), ((256, 1024, 1024, 64), (72, 64, 100, 80))
    found = [choose_config(*sizes, is_masked=it, powers="two") for it in (False, True)]
    found += [choose_config(*it, is_masked=False, powers="two") for it in others]
    assert [(it.warpgroups, it.keys) for it in found] == [(3, 112), (3, 96), (1, 128), (1, 64)]


# ---- The compiler's word


@pytest.mark.share(6)
@needs_compiler
@pytest.mark.parametrize(("name", "config"), [(LAST, {}), (ENDED, {})])
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
