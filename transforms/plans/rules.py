"""Plans and recipes as rules of dlight, for ``tvm.s_tir.dlight.ApplyDefaultSchedule``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm.s_tir import Schedule
from tvm.s_tir.dlight import ScheduleRule
from tvm.target import Target
from tvm.tirx import PrimFunc

from tirstep.tvm_compat import SBlock

from ..errors import TransformError
from ..tir import find_all
from .choosing import DEVICE
from .plan import Plan
from .roles import Mismatch
from .targets import find_unsupported


class TirstepRule(ScheduleRule):
    """A rule that says why it leaves a function to the next one.

    Attributes
    ----------
    reasons : why the rule left a function to the next one, by the function's name, or the names of
        its blocks where it has none, as those that Relax makes
    """

    def __init__(self, name: str, make: Callable[[PrimFunc, Target], Schedule | Mismatch]) -> None:
        self.name, self._make = name, make
        self.reasons: dict[str, str] = {}

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> Schedule | None:
        """The scheduled function; None, with a reason, where the rule does not fit."""
        if not isinstance(func, PrimFunc) or "gpu" not in target.keys:
            return None
        made = self._make(func, target)
        if isinstance(made, Schedule) and (reason := find_unsupported(made.mod, target)):
            made = Mismatch(self.name, reason)
        if isinstance(made, Mismatch):
            self.reasons[_name(func)] = str(made)
            return None
        return made


def make_plan_rule(plan: Plan, *, device: str = DEVICE, tensor_cores: bool = False) -> TirstepRule:
    """The rule that schedules by a plan, with the best config that works."""

    def make(function: PrimFunc, target: Target) -> Schedule | Mismatch:
        sch = Schedule(function)
        roles = plan.match(sch)
        if isinstance(roles, Mismatch):
            return roles
        try:
            plan.schedule(sch, roles, plan.choose(sch, roles, device, tensor_cores), target)
        except TransformError as error:
            return Mismatch(plan.name, str(error))
        return sch

    return TirstepRule(plan.name, make)


def _name(function: PrimFunc) -> str:
    symbol: Any = None if function.attrs is None else function.attrs.get("global_symbol")
    blocks = [str(node.name_hint) for node in find_all(function.body, SBlock)]
    return str(symbol) if symbol is not None else " ".join(it for it in blocks if it != "root")
