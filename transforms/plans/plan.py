"""A plan as a whole: how it finds its roles, chooses its config, and schedules a function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.target import Target

from ..queries import get_sblock_name, is_reduction
from ..schedule import TransformError, inlines, transform
from .flat import LEFT_OVER, choose_flat, match_flat, schedule_flat, schedule_results
from .product_plan import (
    CONVOLUTION,
    choose_convolution,
    choose_matmul,
    is_by_vector,
    match_convolution,
    match_matmul,
    schedule_convolution,
    schedule_matmul,
)
from .roles import DEVICE, Mismatch, Roles, is_bound, list_sblocks
from .row_plan import choose_row_configs, match_rows, schedule_rows
from .targets import find_gather, find_unsupported

Match = Callable[[Schedule], Roles | Mismatch]


@dataclass(frozen=True)
class Plan:
    """What makes a schedule of a whole function, with nothing left to bind.

    Attributes
    ----------
    name : "matmul", "rows" or "flat"
    match : the roles of a function's blocks, or why it has none
    run : ``run(sch, roles, config)``
    choose : ``choose(sch, roles, device, tensor_cores)``, the configs to try, the best first
    """

    name: str
    match: Match
    run: Callable[..., None]
    choose: Callable[[Schedule, Roles, str, bool], Sequence[Any]]

    def schedule(
        self, sch: Schedule, roles: Roles, configs: Sequence[Any], target: Target | None = None
    ) -> Any:
        """Schedule the function by the first config that works, on a target too; returns it.

        Raises the `TransformError` of the last one where none does; nothing has changed then.
        """
        refusal = TransformError(self.name, "there is no config to try", "give one")
        for config in configs:
            try:
                run = functools.partial(self.run, roles=roles, config=config)
                schedule_by_plan(sch, list(roles.blocks), run=run, target=target)
            except TransformError as error:
                refusal = error
            else:
                return config
        raise refusal


def schedule_function(
    sch: Schedule, *, device: str = DEVICE, tensor_cores: bool = False
) -> tuple[str, Any]:
    """Schedule the function that a schedule works on by the first plan that takes it.

    Returns the plan's name and the config. Raises a `TransformError` with the reasons of all where
    none takes it; the module is as it was then.
    """
    reasons = []
    for plan in PLANS:
        roles = plan.match(sch)
        if isinstance(roles, Mismatch):
            reasons.append(str(roles))
            continue
        try:
            return plan.name, plan.schedule(
                sch, roles, plan.choose(sch, roles, device, tensor_cores)
            )
        except TransformError as error:
            reasons.append(str(error))
    raise TransformError(
        "schedule_function", "; ".join(reasons), "schedule it by hand, or by a rule of dlight's own"
    )


@transform
@inlines
def schedule_by_plan(
    sch: Schedule, blocks: list[SBlockRV], *, run: Callable[..., Any], target: Target | None = None
) -> None:
    """Run a plan on some blocks, and make flat kernels of what it has left alone.

    With a target, what it is known not to have is refused.
    """
    run(sch)
    for block in list_sblocks(sch):
        if is_bound(sch, block):
            continue
        if is_reduction(sch, block):
            raise TransformError(
                f"block '{get_sblock_name(sch, block)}' reduces and is not part of the plan",
                "give it a function of its own, or schedule it by hand",
            )
        schedule_flat(sch, block, config=LEFT_OVER)
    if reason := find_gather(sch.get(sch.get_sblock("root")).body):
        raise TransformError(reason, "take shorter vectors")
    if target is not None and (reason := find_unsupported(sch.mod, target)):
        raise TransformError(reason, f"choose a config that {target.kind.name} takes")


MATMUL = Plan(
    "matmul",
    match_matmul,
    lambda sch, roles, config: schedule_matmul(sch, roles.blocks[0], config=config),
    choose_matmul,
)
ROWS = Plan(
    "rows",
    match_rows,
    lambda sch, roles, config: schedule_rows(sch, list(roles.blocks), config=config),
    choose_row_configs,
)
CONVOLUTION_PLAN = Plan(
    CONVOLUTION,
    match_convolution,
    lambda sch, roles, config: schedule_convolution(sch, roles.blocks[0], config=config),
    choose_convolution,
)
FLAT_PLAN = Plan("flat", match_flat, schedule_results, choose_flat)


def _match_several_rows(sch: Schedule) -> Roles | Mismatch:
    """The roles of a product, unless threads do better to share its sums, as those of rows."""
    roles = match_matmul(sch)
    if isinstance(roles, Mismatch):
        return roles
    if is_by_vector(sch, roles.blocks[0]) and match_rows(sch):
        reason = (
            f"block '{roles.names[0]}' has one row, and reads each other element once, in order"
        )
        return Mismatch(MATMUL.name, reason)
    return roles


PLANS = (replace(MATMUL, match=_match_several_rows), CONVOLUTION_PLAN, ROWS, FLAT_PLAN)
"""In the order in which a function is held against them."""
