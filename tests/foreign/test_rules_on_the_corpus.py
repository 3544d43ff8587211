"""Recipes and rules on the corpus: roles or a reason for each function, and right schedules."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import tvm
from foreign_corpus import CORPUS, Foreign
from foreign_corpus.judging import RIGHT, judge
from tvm.s_tir import Schedule
from tvm_ffi import structural_equal

from tirstep import rules
from tirstep.transforms import (
    TransformError,
    bind_loop,
    inline_epilogue,
    spread_over_threads,
    tile_in_warps,
)
from tirstep.transforms.plans import (
    GemmConfig,
    Mismatch,
    Roles,
    RowConfig,
    match_recipe,
    schedule_convolution,
    schedule_matmul,
    schedule_rows,
)
from tirstep.transforms.plans.plan import PLANS
from tirstep.transforms.plans.roles import list_sblocks
from tirstep.transforms.recipes import find_recipe

LEFT = "left"
TARGET = "nvidia/nvidia-h100"
DOCS = Path(__file__).resolve().parents[2] / "docs"
RULES = {
    "chain_of_three": "flat",
    "gathered": "flat",
    "one_producer_of_two": "flat",
    "open_rows": "flat",
    "padded_image": "flat",
    "product_divided_and_added": "matmul",
    "batch_with_a_scale": "matmul",
    "product_of_open_rows": "matmul",
    "product_of_nibbles": "matmul",
    "patches": "convolution",
    "padded_picture_with_taps": "convolution",
    "sum_of_rows": "rows",
    "sum_around_the_middle": "rows",
    "softmax": "rows",
    "blocks_in_blocks": "",
    "two_products": "",
    "running_sum": "",
    "sum_from_a_bias": "",
    "scaled_by_the_largest": "",
}
"""Of some functions the rule that takes them; none of what no plan is for."""
FAMILIES = {"matmul_prefetched": "matmul", "softmax_vectors": "rows", "gelu_vectors": "flat"}


def try_rules(foreign: Foreign) -> tuple[str, str, str]:
    """The rule that takes a function, the verdict on what it makes, and what is wrong.

    Of a function that none takes: no rule, "left", and the reasons of all.
    """
    ours, target = rules.cuda(), tvm.target.Target(TARGET)
    for rule in ours:
        made = rule.apply(foreign.function, target, False)
        if made is not None:
            return rule.name, *judge(foreign, made.mod, "simulator")
    return "", LEFT, " | ".join(reason for rule in ours for reason in rule.reasons.values())


@pytest.mark.share(3)
@pytest.mark.parametrize(("name", "rule"), RULES.items())
def test_rules_take_a_function_and_are_right(name: str, rule: str) -> None:
    taken, verdict, text = try_rules(CORPUS[name])
    assert (taken, verdict) == (rule, RIGHT if rule else LEFT), text
    if not rule:
        assert text.count(" | ") == len(rules.cuda()) - 1  # a reason of each rule


@pytest.mark.parametrize("recipe", FAMILIES)
def test_a_recipe_has_roles_or_a_reason_for_every_function(recipe: str) -> None:
    found = {}
    for name, foreign in CORPUS.items():
        sch = Schedule(foreign.function)
        before = sch.mod
        roles = match_recipe(find_recipe(recipe), sch)
        assert sch.mod.same_as(before)
        if isinstance(roles, Mismatch):
            assert roles.reason, name
        else:
            assert isinstance(roles, Roles)
            assert roles.blocks
            found[name] = roles.plan
    assert len(found) >= 10
    assert {*found.values()} == {FAMILIES[recipe]}


PLANNED = {
    "matmul": (lambda sch, block: schedule_matmul(sch, block, config=GemmConfig(tail="pad"))),
    "convolution": (
        lambda sch, block: schedule_convolution(sch, block, config=GemmConfig(tail="pad"))
    ),
    "rows": lambda sch, block: schedule_rows(sch, [block], config=RowConfig(tail="guard")),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("plan", PLANNED)
def test_a_plan_schedules_a_block_or_refuses_it_by_a_sentence(plan: str) -> None:
    """Also one that it would not find by itself: raw errors came of 81 blocks."""
    found = Counter[bool]()
    for name, foreign in CORPUS.items():
        for number in range(len(list_sblocks(Schedule(foreign.function)))):
            sch = Schedule(foreign.function)
            before = sch.mod
            try:
                PLANNED[plan](sch, list_sblocks(sch)[number])
            except TransformError:
                assert structural_equal(sch.mod, before), name
                found[False] += 1
            else:
                found[True] += 1
    assert found[False] > 100
    assert found[True] > 1


def test_the_table_of_forms_is_as_counted() -> None:
    counts = Counter[tuple[str, str]]()
    for foreign in CORPUS.values():
        sch = Schedule(foreign.function)
        counts[foreign.family, next((it.name for it in PLANS if it.match(sch)), LEFT)] += 1
    page = (DOCS / "reuse.md").read_text(encoding="utf-8")
    for family in sorted({family for family, _ in counts}):
        row = [counts[family, plan] for plan in ("matmul", "convolution", "rows", "flat", LEFT)]
        assert f"| {family} | {' | '.join(map(str, [sum(row), *row]))} |\n" in page


def test_sums_over_threads_begin_with_a_constant() -> None:
    """TVM took such a schedule and did not lower it."""
    sch = Schedule(CORPUS["sum_from_a_bias"].function)
    block = sch.get_sblock("S")
    bind_loop(sch, sch.get_loops(block)[0], axis="blockIdx.x")
    before = sch.mod
    with pytest.raises(TransformError, match="which starts from elements of 'b', and TVM red"):
        spread_over_threads(sch, block, threads=4)
    assert sch.mod.same_as(before)


def test_extremes_over_threads_begin_with_the_least_value() -> None:
    """The rule took such a schedule, which TVM did not lower."""
    sch = Schedule(CORPUS["scaled_by_the_largest"].function)
    block = sch.get_sblock("largest")
    bind_loop(sch, sch.get_loops(block)[0], axis="blockIdx.x")
    sentence = "which starts from -1000, and TVM reduces over threads only from -2147483648; let"
    with pytest.raises(TransformError, match=sentence):
        spread_over_threads(sch, block, threads=4)


def test_the_epilogue_of_a_product_with_another_producer_is_inlined() -> None:
    """`product -> add <- divide`: what does not reduce goes, and the product stays."""
    sch = Schedule(CORPUS["product_divided_and_added"].function)
    inline_epilogue(sch, sch.get_sblock("C"))
    left = [sch.get(each).name_hint for each in sch.get_child_blocks(sch.get_sblock("root"))]
    assert left == ["C", "E"]


@pytest.mark.parametrize("name", ["product_of_open_rows", "odd_product", "picture_with_taps"])
def test_warps_take_what_tiles_take(name: str) -> None:
    sch = Schedule(CORPUS[name].function)
    (block,) = sch.get_child_blocks(sch.get_sblock("root"))
    before = len(sch.get_loops(block))
    tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 2), tail="guard")
    assert len(sch.get_loops(block)) > before
    assert "threadIdx.x" in sch.mod.script()
