"""Tiles that all iterations of a pipeline read: a pair, faults that die, and what is refused."""

from collections.abc import Callable
from typing import Any

import pytest
from edits import NOTHING, edit
from golden_runs import read_step
from pairs import check_pair, find_kinds, refuses
from tvm.ir import Call
from tvm.s_tir import Schedule
from tvm.tirx import Evaluate, call_intrin

from tirstep import transforms as tr
from tirstep.lowering_checks import run_recipe
from tirstep.lowering_checks.devices.simulator import lower
from tirstep.lowering_checks.steps import Run
from tirstep.transforms.hopper.tma_tiles import TMA_STAGES
from tirstep.transforms.recipes import RECIPES
from tirstep.tvm_compat import get_op_name

ROLES = "attention_wgmma_roles"


def find_loop(sch: Schedule) -> Any:
    """The loop over tiles of keys."""
    loops = sch.get_loops(sch.get_sblock("K_shared.dyn"))
    return next(loop for loop in loops if TMA_STAGES in sch.get(loop).annotations)


def test_copy_once_by_tma_pair() -> None:
    def change(sch: Schedule) -> None:
        tr.specialize_warps(sch, find_loop(sch))
        tr.copy_once_by_tma(sch, find_loop(sch), sch.get_sblock("Q_shared.dyn"))

    before, after = (
        read_step("08_next_tiles_by_tma", ROLES),
        read_step("09_warps_specialized", ROLES),
    )
    check_pair(before, change, after, is_verified=False)


def add_pipeline(sch: Schedule) -> None:
    sch.annotate(sch.get_loops(sch.get_sblock("Q_shared.dyn"))[-1], TMA_STAGES, 2)


@pytest.mark.parametrize(
    ("step", "prepare", "copy", "message"),
    [
        (
            "08_next_tiles_by_tma",
            None,
            "Q",
            "loop 'j_0' is no pipeline in which warps have roles, or",
        ),
        (
            "09_warps_specialized",
            lambda sch: tr.make_persistent(sch, find_loop(sch), blocks=2),
            "Q",
            "or its blocks stay already; call specialize_warps first, and make_persistent after",
        ),
        ("09_warps_specialized", None, "V", "block 'V_shared.dyn' does not stand in front of loop"),
        (
            "09_warps_specialized",
            add_pipeline,
            "Q",
            "the kernel of loop 'j_0' has another pipeline",
        ),
        (
            "09_warps_specialized",
            lambda sch: sch.storage_align(sch.get_sblock("Q_shared.dyn"), 0, -2, 32, 8),
            "Q",
            "block 'Q_shared.dyn' writes rows with padding in between, and the TMA writes them one",
        ),
    ],
)
def test_copy_once_by_tma_refuses(
    step: str, prepare: Callable[[Schedule], None] | None, copy: str, message: str
) -> None:
    sch = Schedule(read_step(step, ROLES), debug_mask="none")
    if prepare:
        prepare(sch)
    loop, block = find_loop(sch), sch.get_sblock(f"{copy}_shared.dyn")
    with refuses(sch, f"copy_once_by_tma: .*{message}"):
        tr.copy_once_by_tma(sch, loop, block)


# ---- Faults


@pytest.fixture(scope="module")
def run() -> Run:
    """Three tiles of queries for two thread blocks that stay; two products that overlap."""
    return run_recipe(
        RECIPES["attention_wgmma_persistent"],
        {"batch": 1, "heads": 3, "queries": 64, "keys": 96, "dim": 32},
        options={"dtype": "float16", "out": "float16", "fused_exponents": True},
        config={"persistent": 2, "warpgroups": 1, "keys": 32},
    )


def drop(_: Evaluate) -> Evaluate:
    return NOTHING


def wait_for_even(node: Evaluate) -> Evaluate:
    place, parity = node.value.args
    return Evaluate(call_intrin(node.value.ty, node.value.op, place, parity * 0))


def test_tiles_arrive_in_time(run: Run) -> None:
    assert find_kinds(lower(run.steps[-1].module), run) == set()


@pytest.mark.share(6)
@pytest.mark.parametrize("which", range(8))
@pytest.mark.parametrize(
    ("call", "change"), [("wait", drop), ("wait", wait_for_even), ("arrive", drop)]
)
def test_each_wait_and_arrival_counts(
    run: Run, call: str, change: Callable[[Evaluate], Evaluate], which: int
) -> None:
    """Of queries, which come once in a round, and of keys and values, which come apart."""

    def is_wanted(node: Evaluate) -> bool:
        return isinstance(node.value, Call) and f"mbarrier_{call}" in get_op_name(node.value)

    planted = edit(lower(run.steps[-1].module), Evaluate, is_wanted, change, which)
    assert find_kinds(planted, run) & {"race", "deadlock"}
