"""Options of TVM's passes, and the pipeline, that a schedule needs, kept in the module itself.

Some schedules mean what they say only under an option of the pass context: copies are asynchronous
with ``tirx.use_async_copy``. The option is noted as an annotation of the root block, so that it
is printed, held in goldens, replayed by the trace, and goes along with the module. TVM itself does
not read it: whoever compiles the module passes `get_pass_options` to ``PassContext``.
"""

from __future__ import annotations

import tvm
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import For

from .annotations import computes_first
from .own_lanes import OWN_LANES
from .passes.pipeline import KEY, PIPELINE, PIPELINES, PREFIX
from .schedule import Int64, TransformError, suggest, transform
from .tir import find_all
from .tma_tiles import TMA_IN_FLIGHT


@transform
def set_pass_option(sch: Schedule, *, name: str, value: bool | Int64) -> None:
    """Note that the module is to be compiled with an option of TVM's pass context.

    ``tvm.transform.PassContext(config=get_pass_options(sch.mod))`` compiles it so; the devices of
    tirstep do it by themselves. Setting an option again replaces its value.

    rewrite: root block -> root block with ``T.sblock_attr({"pass_config.<name>": value})``
    consumes: nothing
    requires: an option that TVM knows, as ``"tirx.use_async_copy"``; a bool or an int of 64 bits,
        whichever the option takes
    """
    known = sorted(str(option) for option in tvm.transform.PassContext.list_configs())
    if name not in known:
        hint = suggest(name, known, "tvm.transform.PassContext lists them")
        raise TransformError(f"TVM has no pass option '{name}'", hint)
    kind = str(tvm.transform.PassContext.list_configs()[name]["type"])
    try:
        tvm.transform.PassContext(config={name: value})
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        raise TransformError(
            f"'{name}' takes a {kind}, and is given {value!r}",
            "give such options to tvm.transform.PassContext where you compile",
        ) from error
    root, key = require_root(sch), PREFIX + name
    if key in sch.get(root).annotations:
        sch.unannotate(root, key)
    sch.annotate(root, key, value)


def require_root(sch: Schedule) -> SBlockRV:
    """The root block of the function that a schedule works on; refuse one that works on none."""
    names = [str(variable.name_hint) for variable, _ in sch.mod.functions_items()]
    if sch.func_working_on is None and "main" not in names:
        listed = ", ".join(f"'{name}'" for name in names)
        raise TransformError(
            f"the schedule works on none of {listed}", "name one with sch.work_on(name)"
        )
    return sch.get_sblock("root")


@transform
def set_pipeline(sch: Schedule, *, name: str = PIPELINE) -> None:
    """Note that the module is to be lowered with a pipeline of tirstep, or with TVM's own again.

    ``tvm.compile(sch.mod, target, tir_pipeline=get_pipeline(sch.mod))`` lowers it so; the devices
    of tirstep do it by themselves. Without it most modules are as right, and may be slower.

    rewrite: root block -> root block with ``T.sblock_attr({"tir_pipeline": name})``
    consumes: nothing
    requires: "tirstep" or "default"; a schedule that works on one function; "tirstep" where
        `lay_in_quads` laid out fragments, whose lanes find their own rows in no other pipeline,
        behind `prefetch_by_tma` with groups in flight, and behind `prefetch_asynchronously` with
        `products_first`
    """
    if name not in PIPELINES:
        raise TransformError(
            f"there is no pipeline {name!r} for scheduled modules",
            f"use one of {', '.join(PIPELINES)}",
        )
    root = require_root(sch)
    if name != PIPELINE and (need := _find_need(sch, root)):
        raise TransformError(f"{need} the pipeline {name!r}", f"keep the pipeline {PIPELINE!r}")
    if KEY in sch.get(root).annotations:
        sch.unannotate(root, KEY)
    sch.annotate(root, KEY, name)


def _find_need(sch: Schedule, root: SBlockRV) -> str:
    """What of a schedule is wrong in other pipelines than tirstep's; empty for nothing."""
    if OWN_LANES in sch.get(root).annotations:
        return "fragments that lay_in_quads has laid out are other ones in"
    for loop in find_all(sch.get(root), For):
        name = f"loop '{loop.loop_var.name}'"
        if TMA_IN_FLIGHT in loop.annotations:
            return (
                f"the copies of {name} would be plain ones, over tiles that wgmma still reads, in"
            )
        if computes_first(loop):
            return f"{name}, of asynchronous copies behind products, waits for too few of them in"
    return ""
