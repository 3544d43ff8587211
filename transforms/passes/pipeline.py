"""The pipeline "tirstep": TVM's own for scheduled modules, with our passes among them.

`find_pipeline` and `find_pass_options` read what a module asks for; `lower_around` lowers it a part
of the way.
"""

from __future__ import annotations

from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple

import tvm
from tvm import s_tir, tirx
from tvm.ir.instrument import pass_instrument
from tvm.s_tir import SBlock
from tvm.tirx import compilation_pipeline

from ..errors import query
from ..tir import find_all
from .barriers import DropRedundantBarriers
from .before_flattening import DropImpliedConditions, DropThreadDimensions, SplitGuardedVectors

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


@query
def find_pipeline(module: tvm.IRModule) -> str:
    """The pipeline that a module's transforms asked for; "default" where they did not."""
    for _, function in module.functions_items():
        for block in find_all(function.body, SBlock):
            if KEY in block.annotations:
                return str(block.annotations[KEY])
    return "default"


@query
def find_pass_options(module: tvm.IRModule) -> dict[str, bool | int]:
    """The options of TVM's pass context that a module's transforms asked for, by name."""
    options = {}
    for _, function in module.functions_items():
        for block in find_all(function.body, SBlock):
            for key, value in block.annotations.items():
                if str(key).startswith(PREFIX):
                    options[str(key).removeprefix(PREFIX)] = value
    return options


class Around(NamedTuple):
    """A module before and after one of the passes that lower it."""

    before: tvm.IRModule
    after: tvm.IRModule


def lower_around(
    module: tvm.IRModule, name: str, *, times: int = 1, unrolls: bool = False
) -> Around | None:
    """Lower a module until a pass has run so many times, in the pipeline that the module asks for.

    Loops stay as they are where TVM would unroll them, unless `unrolls`. Returns the module before
    the first and after the last of these runs; None where TVM refuses the module on the way.
    """
    left_out = {_NEEDS_TARGET} if unrolls else {_NEEDS_TARGET, _UNROLLING}
    watch = _Watch(name, times, left_out)
    if find_pipeline(module) == PIPELINE:
        pipeline = tirx.get_tir_pipeline(PIPELINE)[0]
    else:
        pipeline = s_tir.pipeline.default_s_tir_pipeline()[0]
    try:
        with tvm.transform.PassContext(config=find_pass_options(module), instruments=[watch]):
            pipeline(module)
    except Exception as error:
        if not isinstance(error, RuntimeError) and not hasattr(error, _MARK):
            raise  # a mistake of ours, which must show as one
        return None
    return Around(watch.before, watch.after) if watch.left == 0 else None


@pass_instrument
class _Watch:
    """Notes what a pass is given and makes, and skips all passes after that."""

    def __init__(self, name: str, times: int, left_out: set[str]) -> None:
        self.watched, self.left, self.left_out = name, times, left_out
        self.before: Any = None
        self.after: Any = None

    def should_run(self, _module: tvm.IRModule, info: Any) -> bool:
        return self.left > 0 and info.name not in self.left_out

    def run_before_pass(self, module: tvm.IRModule, info: Any) -> None:
        if info.name == self.watched and self.before is None:
            self.before = module

    def run_after_pass(self, module: tvm.IRModule, info: Any) -> None:
        if info.name == self.watched:
            self.after = module
            self.left -= 1
