"""The pipeline "tirstep": TVM's own for scheduled modules, with our passes among them.

`get_pipeline` and `get_pass_options` read what a module requests; `lower_around` lowers it and
watches passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple

import tvm
from tvm import s_tir, tirx
from tvm.ir.instrument import pass_instrument
from tvm.s_tir import SBlock
from tvm.tirx import compilation_pipeline

from ..schedule import query
from ..tir import cached_by_module, find_all
from .async_dma import LowerAsyncDMA
from .async_waits import CorrectAsyncWaits
from .barriers import DropDoubledBarriers, DropRedundantBarriers
from .before_flattening import DropImpliedConditions, DropThreadDimensions, SplitGuardedVectors
from .butterflies import ExchangeByButterflies
from .mask_loops import EndLoopsAtMasks, SplitLoopsAtMasks
from .own_lanes import UseOwnLanes
from .persistent import NameBarriersOfRoles
from .pointer_types import PointInOwnTypes
from .streams import StreamSteps
from .tma import LowerTmaPipelines
from .tma_store import LowerTmaStores

PIPELINE = "tirstep"
PIPELINES = (PIPELINE, "default")
KEY = "tir_pipeline"
PREFIX = "pass_config."
_NEEDS_TARGET = "tirx.VerifyMemory"
_UNROLLING = "tirx.UnrollLoop"
"""May take minutes, and is left out unless asked for: copies of a body seldom say anything new."""
_MARK = "__tvm_ffi_error__"
"""What errors bear that came out of TVM, of whatever type."""


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

    GPU blocks share steps, and loops end at masks, as soon as reductions over threads are lowered.
    Lanes find their own rows of fragments, and bulk copies are made, before TVM swizzles indices;
    loops are split at masks when pipelines are loops. Three of our passes come directly before
    FlattenBuffer, where buffers still have their dimensions and vectors are loops, those of
    barriers directly after the passes that put them in, and lanes exchange what they reduce behind
    the pass that has them do so. LowerAsyncDMA is TVM's, made faster.
    """
    if pipeline != PIPELINE:
        return {}
    before_init = tvm.transform.Sequential([StreamSteps, EndLoopsAtMasks])
    before_swizzling = tvm.transform.Sequential([UseOwnLanes, LowerTmaPipelines, LowerTmaStores])
    before_flattening = tvm.transform.Sequential(
        [DropThreadDimensions, DropImpliedConditions, SplitGuardedVectors]
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
                "LowerInitBlock": before_init,
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


@query
def get_pipeline(module: tvm.IRModule) -> str:
    """The pipeline that a module's transforms asked for; "default" where they did not."""
    for function in _list_functions(module):
        for block in find_all(function.body, SBlock):
            if KEY in block.annotations:
                return str(block.annotations[KEY])
    return "default"


@query
def get_pass_options(module: tvm.IRModule) -> dict[str, bool | int]:
    """The options of TVM's pass context that a module's transforms asked for, by name."""
    options = {}
    for function in _list_functions(module):
        for block in find_all(function.body, SBlock):
            for key, value in block.annotations.items():
                if str(key).startswith(PREFIX):
                    options[str(key).removeprefix(PREFIX)] = value
    return options


def _list_functions(module: tvm.IRModule) -> list[tirx.PrimFunc]:
    """The functions of TIR; a module of Relax has others beside."""
    return [each for _, each in module.functions_items() if isinstance(each, tirx.PrimFunc)]


class Around(NamedTuple):
    """A module before and after one of the passes that lower it, or several runs of one."""

    before: tvm.IRModule
    after: tvm.IRModule


def lower_around(
    module: tvm.IRModule, names: Sequence[str], *, unrolls: bool = False
) -> dict[str, Around]:
    """Lower a module once, in the pipeline that it requests, and watch passes as they go by.

    `names` are theirs, and one that stands there twice is watched for two runs: `before` is then
    the module before the first, `after` the one after the last. No pass runs after the last of
    them. Loops stay as they are where TVM would unroll them, unless `unrolls`. Passes that are not
    reached, where TVM refuses the module on the way, are left out.

    What was seen of a module is kept for who asks about the same passes next, or some of them.
    """
    seen, wanted = _remember(module, unrolls=unrolls), Counter(names)
    around = next((found for runs, found in seen if wanted.items() <= runs.items()), None)
    if around is None:
        around = _lower_around(module, names, unrolls)
        seen.append((wanted, around))
    return {name: around[name] for name in names if name in around}


@cached_by_module(4)
def _remember(_module: tvm.IRModule, *, unrolls: bool) -> list[tuple[Counter[str], Any]]:
    return []


def _lower_around(module: tvm.IRModule, names: Sequence[str], unrolls: bool) -> dict[str, Around]:
    left_out = {_NEEDS_TARGET} if unrolls else {_NEEDS_TARGET, _UNROLLING}
    watch = _Watch(names, left_out)
    if get_pipeline(module) == PIPELINE:
        pipeline = tirx.get_tir_pipeline(PIPELINE)[0]
    else:
        pipeline = s_tir.pipeline.default_s_tir_pipeline()[0]
    try:
        with tvm.transform.PassContext(config=get_pass_options(module), instruments=[watch]):
            pipeline(module)
    except Exception as error:
        if not isinstance(error, RuntimeError) and not hasattr(error, _MARK):
            raise  # a mistake of ours, which must show as one
    seen = {name: watch.seen[name] for name in names if not watch.left[name]}
    return {name: Around(*around) for name, around in seen.items()}


@pass_instrument
class _Watch:
    """Notes what passes are given and make, and skips all after the last one of them."""

    def __init__(self, names: Sequence[str], left_out: set[str]) -> None:
        self.left, self.left_out = Counter(names), left_out
        self.seen: dict[str, Around] = {}

    def should_run(self, _module: tvm.IRModule, info: Any) -> bool:
        return self.left.total() > 0 and info.name not in self.left_out

    def run_before_pass(self, module: tvm.IRModule, info: Any) -> None:
        if info.name in self.left and info.name not in self.seen:
            self.seen[info.name] = Around(module, module)

    def run_after_pass(self, module: tvm.IRModule, info: Any) -> None:
        if self.left[info.name] > 0:
            self.seen[info.name] = Around(self.seen[info.name].before, module)
            self.left[info.name] -= 1
