"""From judged runs to the values of a report. Nothing here prints or writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import tvm

import tirstep
from tirstep.lowering_checks import Counts, Device

from ..rungs import Rung
from ..selection import format_shape
from ..texts import describe_recipe
from .model import RecipePart, Report
from .roofline import find_peaks
from .steps import Doing, StepBuilder, finding_part


def build_report(parts: Sequence[RecipePart], *, device: Device | None, target: str) -> Report:
    """A report of recipes that `build_recipe` made; `device` is None where nothing was checked."""
    return Report(
        title=_find_title(parts),
        device=None if device is None else device.description,
        target=target,
        versions={"tirstep": tirstep.__version__, "TVM": tvm.__version__},
        peaks=find_peaks() if device is not None and device.has_clock else None,
        recipes=tuple(parts),
    )


def build_recipe(
    rung: Rung,
    *,
    is_judged: bool,
    target: str,
    counts: Mapping[int, Counts | None] = MappingProxyType({}),
    doing: Doing = lambda text: None,
) -> RecipePart:
    """Lower every step of a recipe, and put together all that the page shows of it.

    `counts` are the simulator's, by the numbers of the steps; `doing` hears what goes on.
    """
    run = rung.run
    problem = None if run is None else run.problem
    sizes = {} if run is None else {**run.recipe.config, **run.config}
    builder = StepBuilder(rung, counts, target, doing)
    return RecipePart(
        name=rung.recipe.name,
        about=describe_recipe(rung.recipe),
        kernel=rung.recipe.kernel,
        shape="" if problem is None else format_shape(problem.shape),
        dtype="" if problem is None else str(problem.options["dtype"]),
        config={name: str(value) for name, value in sizes.items()},
        status=rung.status if is_judged or rung.status != "ok" else None,
        refusal=None if rung.refusal is None else str(rung.refusal),
        flops=None if problem is None else problem.flops,
        bytes=None if problem is None else problem.bytes,
        trouble=tuple(finding_part(one) for one in rung.trouble),
        steps=() if run is None else builder.build(run),
    )


def _find_title(parts: Sequence[RecipePart]) -> str:
    """The kernels, with their shape and type where all recipes have one."""
    ran = [part for part in parts if part.steps]
    kernels = ", ".join(dict.fromkeys(part.kernel for part in parts))
    shapes = {part.shape.replace("x", "×") for part in ran}
    dtypes = {part.dtype for part in ran}
    return " ".join([kernels, *(one.pop() for one in (shapes, dtypes) if len(one) == 1)])
