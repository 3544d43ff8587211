"""The pipeline "tirstep": TVM's own for scheduled modules, with our passes among them.

``tvm.compile(module, target, tir_pipeline="tirstep")`` lowers by it; importing this file registers
it. A module that wants it says so (`set_pipeline`). A pass of your own needs no place here:
`tirstep pass FILE.py:MyPass` tries it in TVM's pipeline.
"""

from __future__ import annotations

from types import FunctionType, SimpleNamespace
from typing import Any

import tvm
from tvm import s_tir, tirx
from tvm.tirx import compilation_pipeline

from .hopper.cluster_launch import FuseMarkedKernels
from .hopper.tma_stores import LowerTmaStores
from .hopper.warp_roles import LowerTmaPipelines, NameBarriersOfRoles
from .masked_loops import EndLoopsAtMasks, SplitLoopsAtMasks
from .pass_options import PIPELINE, get_pass_options
from .passes.barriers import DropDoubledBarriers, DropRedundantBarriers, PointInOwnTypes
from .passes.before_flattening import (
    DropImpliedConditions,
    DropThreadDimensions,
    SplitGuardedVectors,
)
from .pipelining import CorrectAsyncWaits, LowerAsyncDMA
from .tensor_cores.quads import UseOwnLanes
from .thread_rows import ExchangeByButterflies


def _make_pipeline() -> tuple[Any, Any, Any]:
    """TVM's pipeline, with our passes among those that it names.

    It is TVM's own function, which looks its passes up by name when it runs, with names of its own:
    TVM's modules stay as they are, for other pipelines that run at the same time.
    """
    own = s_tir.pipeline.default_s_tir_pipeline
    pipeline = FunctionType(own.__code__, {**own.__globals__, **name_passes(PIPELINE)})()
    # A pass that lowers each function of a module with the pass options that it asks for.
    # So whoever compiles many at once, as ``relax.build(module, target, tir_pipeline="tirstep")``,
    # needs no options of theirs. Where the context has all of them already, nothing is divided.
    lowering = pipeline[0]

    @tvm.transform.module_pass(opt_level=0, name="tirstep.LowerWithOwnOptions")
    def lower(module: tvm.IRModule, context: Any) -> tvm.IRModule:
        config = dict(context.config)
        groups: list[tuple[dict[str, Any], dict[Any, Any]]] = []
        for variable, function in module.functions_items():
            options = {**config, **get_pass_options(tvm.IRModule({variable: function}))}
            group = next((them for own, them in groups if own == options), None)
            if group is None:
                groups.append((options, group := {}))
            group[variable] = function
        if all(options == config for options, _ in groups):
            return lowering(module)
        lowered = {}
        for options, functions in groups:
            part = tvm.IRModule(functions, attrs=module.attrs)
            with tvm.transform.PassContext(
                opt_level=context.opt_level,
                required_pass=list(context.required_pass),
                disabled_pass=list(context.disabled_pass),
                config=options,
                instruments=list(context.instruments or ()),
            ):
                lowered.update(dict(lowering(part).functions_items()))
        return tvm.IRModule(lowered, attrs=module.attrs)

    return lower, pipeline[1], pipeline[2]


def name_passes(pipeline: str) -> dict[str, Any]:
    """The names that are other ones in a pipeline than in TVM's own: none but in `PIPELINE`.

    Loops end at masks as soon as reductions over threads are lowered.
    Lanes find their own rows of fragments, and bulk copies are made, before TVM swizzles indices;
    loops are split at masks when pipelines are loops. Four of our passes come directly before
    FlattenBuffer, where buffers still have their dimensions and vectors are loops, those of
    barriers directly after the passes that put them in, and lanes exchange what they reduce behind
    the pass that has them do so. LowerAsyncDMA is TVM's, made faster.
    """
    if pipeline != PIPELINE:
        return {}
    before_swizzling = tvm.transform.Sequential([UseOwnLanes, LowerTmaPipelines, LowerTmaStores])
    before_flattening = tvm.transform.Sequential(
        [DropThreadDimensions, FuseMarkedKernels, DropImpliedConditions, SplitGuardedVectors]
    )
    after_barriers = tvm.transform.Sequential(
        [
            CorrectAsyncWaits,
            DropDoubledBarriers,
            DropRedundantBarriers,
            NameBarriersOfRoles,
            PointInOwnTypes,
        ]
    )
    return {
        "s_tir": _put_before(
            s_tir.transform,
            {
                "LowerInitBlock": EndLoopsAtMasks,
                "InjectPermutedLayout": before_swizzling,
                "LowerOpaqueBlock": SplitLoopsAtMasks,
                "LowerThreadAllreduce": after_barriers,
                "MergeSharedMemoryAllocations": ExchangeByButterflies,
            },
            LowerAsyncDMA=lambda: LowerAsyncDMA,
        ),
        "tirx": _put_before(tirx.transform, {"FlattenBuffer": before_flattening}),
    }


def _put_before(passes: Any, ours: dict[str, Any], **others: Any) -> SimpleNamespace:
    """What stands for a module of TVM's, in which passes come after one of ours each, and `others`
    are other ones.
    """

    def join(name: str, own: Any) -> Any:
        following = getattr(passes, name)

        def both() -> Any:
            return tvm.transform.Sequential([own, following()])

        return both

    joined = {name: join(name, own) for name, own in ours.items()}
    return SimpleNamespace(transform=SimpleNamespace(**{**vars(passes), **joined, **others}))


compilation_pipeline.register_tir_pipeline(PIPELINE, _make_pipeline)
