"""Options of TVM's passes, and the pipeline, that a schedule needs, kept in the module itself.

Some schedules mean what they say only under an option of the pass context: copies are asynchronous
with ``tirx.use_async_copy``. The option is noted as an annotation of the root block, so that it
is printed, held in goldens, replayed by the trace, and goes along with the module. TVM itself does
not read it: whoever compiles the module passes `get_pass_options` to ``PassContext``, and lowers it
by the pipeline that `get_pipeline` says. `lower_around` does both, and watches passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import tvm
from tvm import s_tir, tirx
from tvm.ir.instrument import pass_instrument
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import SBlockRV

from .schedule import Int64, TransformError, query, suggest, transform
from .tir import cached_by_module, find_all, find_entries, list_functions

PIPELINE = "tirstep"
TIRX = "tirx"
"""TVM's pipeline of TIRx kernels: no pass of it puts in a barrier that its author forgot."""
KEY = "tir_pipeline"
PREFIX = "pass_config."
_NEEDS_TARGET = "tirx.VerifyMemory"
_UNROLLING = "tirx.UnrollLoop"
"""May take minutes, and is left out unless asked for: copies of a body seldom say anything new."""
_MARK = "__tvm_ffi_error__"
"""The attribute of errors that came out of TVM, of any type."""


@transform
def set_pass_option(sch: Schedule, *, name: str, value: bool | Int64) -> None:
    """Record that the module is to be compiled with an option of TVM's PassContext.

    ``tvm.transform.PassContext(config=get_pass_options(sch.mod))`` does so; tirstep's devices do it
    by themselves. Setting an option again replaces its value.

    rewrite: root block -> root block with ``T.sblock_attr({"pass_config.<name>": value})``
    consumes: nothing
    requires: an option that TVM knows, such as ``"tirx.use_async_copy"``; a bool or a 64-bit
        integer, whichever the option takes
    guarded: without TVM's storage rewrite no buffer overlaps dynamic shared memory that is in use
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
def set_pipeline(sch: Schedule) -> None:
    """Record that the module is to be lowered with tirstep's pipeline.

    ``tvm.compile(sch.mod, target, tir_pipeline=get_pipeline(sch.mod))`` does so; tirstep's devices
    do it by themselves. Lowered otherwise, most modules are still right, and may be slower. Wrong
    are then those of `lay_in_quads` (no other pipeline gives lanes their own rows), of
    `prefetch_by_tma` with groups in flight, and of `prefetch_asynchronously` with `products_first`.

    rewrite: root block -> root block with ``T.sblock_attr({"tir_pipeline": "tirstep"})``
    consumes: nothing
    requires: a schedule that works on one function
    """
    root = require_root(sch)
    if KEY in sch.get(root).annotations:
        sch.unannotate(root, KEY)
    sch.annotate(root, KEY, PIPELINE)


@query
def get_pipeline(module: tvm.IRModule) -> str:
    """The pipeline that transforms have recorded; else "tirx" for TIRx kernels, or "default"."""
    if is_tirx(module):
        return TIRX
    for function in list_functions(module):
        for block in find_all(function.body, SBlock):
            if KEY in block.annotations:
                return str(block.annotations[KEY])
    return "default"


@query
def is_tirx(module: tvm.IRModule) -> bool:
    """Whether a module has a TIRx kernel, which begins with ``T.device_entry()``."""
    return any(find_entries(function.body) for function in list_functions(module))


@query
def get_pass_options(module: tvm.IRModule) -> dict[str, bool | int]:
    """The options of TVM's pass context that a module's transforms have recorded, by name."""
    options = {}
    for function in list_functions(module):
        for block in find_all(function.body, SBlock):
            for key, value in block.annotations.items():
                if str(key).startswith(PREFIX):
                    options[str(key).removeprefix(PREFIX)] = value
    return options


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
        watched = {name: watch.seen[name] for name in names if not watch.left[name]}
        around = {name: Around(*around) for name, around in watched.items()}
        seen.append((wanted, around))
    return {name: around[name] for name in names if name in around}


@cached_by_module(4)
def _remember(_module: tvm.IRModule, *, unrolls: bool) -> list[tuple[Counter[str], Any]]:
    return []


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
