"""For which kinds of targets TVM makes source of a scheduled module; nothing is run."""

from __future__ import annotations

from typing import Any

import tvm

from tirstep.lowering_checks.compile.compiling import pass_context
from tirstep.transforms import get_pipeline
from tirstep.transforms.plans.targets import find_unsupported

TARGETS: dict[str, Any] = {
    "cuda": "nvidia/nvidia-h100",
    "opencl": {"kind": "opencl", "max_num_threads": 1024},
    "metal": {"kind": "metal", "max_threads_per_block": 1024, "thread_warp_size": 32},
    "webgpu": {"kind": "webgpu", "max_num_threads": 1024},
}
"""Each kind with a target of it, made where no device is."""
COMPILES = "compiles"
_MOST = 160
"""Characters of a sentence of TVM's that are kept."""


def make_target(kind: str) -> tvm.target.Target:
    """TVM's target of a kind."""
    return tvm.target.Target(TARGETS[kind])


def compile_source(module: tvm.IRModule, kind: str) -> str:
    """The source of a module for a kind of target; raises what TVM raises."""
    with pass_context(module):
        made = tvm.compile(module, make_target(kind), tir_pipeline=get_pipeline(module))
    return str(made.mod.imports[0].inspect_source())


def try_target(module: tvm.IRModule, kind: str) -> str:
    """Whether it compiles, or why not: in our words where that is foreseen, else "TVM: ..."."""
    reason = find_unsupported(module, make_target(kind))
    try:
        source = compile_source(module, kind)
    except Exception as error:  # whatever a code generator raises is its refusal
        line = str(error).strip().splitlines()[-1]
        return reason or f"TVM: {line[:_MOST]}"
    return COMPILES if source.strip() and not reason else reason or "TVM: no source"
