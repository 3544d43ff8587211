"""A module lowered a part of the way, to see what TVM has made of it by then."""

from __future__ import annotations

from typing import Any, NamedTuple

import tvm
from tvm import s_tir, tirx
from tvm.ir.instrument import pass_instrument

from ..pass_options import find_pass_options
from .pipeline import PIPELINE, find_pipeline

_NEEDS_TARGET = "tirx.VerifyMemory"
_UNROLLING = "tirx.UnrollLoop"
"""May take minutes, and is left out unless asked for: copies of a body seldom say anything new."""

_MARK = "__tvm_ffi_error__"
"""What errors bear that came out of TVM, of whatever type."""


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
