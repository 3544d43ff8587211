"""The pipeline "tirstep": TVM's own for scheduled modules, with our passes where they belong."""

from __future__ import annotations

from types import FunctionType, SimpleNamespace
from typing import Any

import tvm
from tvm import s_tir, tirx
from tvm.s_tir import SBlock, Schedule
from tvm.tirx import compilation_pipeline

from ..errors import TransformError, composite, query
from ..pass_options import require_root
from ..queries import find_all
from .barriers import DropRedundantBarriers
from .conditions import DropImpliedConditions
from .guarded_vectors import SplitGuardedVectors
from .thread_dimensions import DropThreadDimensions

PIPELINE = "tirstep"
PIPELINES = (PIPELINE, "default")
KEY = "tir_pipeline"


def _make_pipeline() -> tuple[Any, Any, Any]:
    """TVM's pipeline, with our passes among those that it names.

    Three come directly before FlattenBuffer, where buffers still have their dimensions and vectors
    are loops, the fourth directly after the passes that put barriers in. It is TVM's own function,
    which looks its passes up by name when it runs, with names of its own: TVM's modules stay as
    they are, for other pipelines that run at the same time.
    """
    before_flattening = tvm.transform.Sequential(
        [DropThreadDimensions, DropImpliedConditions, SplitGuardedVectors]
    )
    named = {
        "s_tir": _put_before(s_tir.transform, "LowerThreadAllreduce", DropRedundantBarriers),
        "tirx": _put_before(tirx.transform, "FlattenBuffer", before_flattening),
    }
    own = s_tir.pipeline.default_s_tir_pipeline
    pipeline = FunctionType(own.__code__, {**own.__globals__, **named})()
    return pipeline[0], pipeline[1], pipeline[2]


def _put_before(passes: Any, name: str, ours: Any) -> SimpleNamespace:
    """What stands for a module of TVM's, in which one of its passes comes after one of ours."""
    following = getattr(passes, name)

    def both() -> Any:
        return tvm.transform.Sequential([ours, following()])

    return SimpleNamespace(transform=SimpleNamespace(**{**vars(passes), name: both}))


compilation_pipeline.register_tir_pipeline(PIPELINE, _make_pipeline)


@composite
def set_pipeline(sch: Schedule, *, name: str = PIPELINE) -> None:
    """Note that the module is to be lowered with a pipeline of tirstep, or with TVM's own again.

    ``tvm.compile(sch.mod, target, tir_pipeline=find_pipeline(sch.mod))`` lowers it so; the devices
    of tirstep do it by themselves. Without it the module is as right, and may be slower.

    rewrite: root block -> root block with ``T.sblock_attr({"tir_pipeline": name})``
    consumes: nothing
    requires: "tirstep" or "default"; a schedule that works on one function
    """
    if name not in PIPELINES:
        raise TransformError(
            "set_pipeline",
            f"there is no pipeline {name!r} for scheduled modules",
            f"use one of {', '.join(PIPELINES)}",
        )
    root = require_root(sch, "set_pipeline")
    if KEY in sch.get(root).annotations:
        sch.unannotate(root, KEY)
    sch.annotate(root, KEY, name)


@query
def find_pipeline(module: tvm.IRModule) -> str:
    """The pipeline that a module's transforms asked for; "default" where they did not."""
    for _, function in module.functions_items():
        for block in find_all(function.body, SBlock):
            if KEY in block.annotations:
                return str(block.annotations[KEY])
    return "default"
