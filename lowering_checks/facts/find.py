"""Facts of a scheduled module, as TVM lowers it. Needs no GPU."""

from __future__ import annotations

from typing import Any

import tvm
from tvm.ir import Call

from tirstep.modules import Problem
from tirstep.transforms.queries import constant, find_all

from ..finding import CheckError
from ..passes import Lowering, lower_through_passes
from ..targets import TARGET
from .lowered import count_unrolled_loops, find_kernel_facts
from .model import Facts, KernelFacts

SPLIT_PASS = "tirx.SplitHostDevice"
UNROLL_PASS = "tirx.UnrollLoop"


def find_facts(
    module: tvm.IRModule, target: str = TARGET, *, problem: Problem | None = None
) -> Facts:
    """The facts of a module for a GPU; see `facts_of_lowering`. Raises `CheckError` for llvm."""
    return facts_of_lowering(lower_through_passes(module, target), problem=problem)


def facts_of_lowering(lowering: Lowering, *, problem: Problem | None = None) -> Facts:
    """The facts of a module that was lowered already.

    `problem` says how much is to be computed and moved. A module that TVM refuses, or that is not
    bound to a GPU, has no kernels and a `refusal`. Raises `CheckError` for a target that is no GPU.
    """
    if lowering.language == "llvm":
        raise CheckError(
            f"facts are of GPU kernels, and {lowering.target} makes none; choose cuda or opencl"
        )
    refusal, lowered, unrolled = None, None, 0
    kernels: tuple[KernelFacts, ...] = ()
    if lowering.failed is not None:
        refusal = str(lowering.failed)
    else:
        lowered = lowering.find_pass(SPLIT_PASS).module
        kernels = _find_kernels(lowered)
        unrolls = [one for one in lowering.passes if one.name == UNROLL_PASS]
        unrolled = sum(count_unrolled_loops(one.before, one.module) for one in unrolls)
        if not kernels:
            refusal = "the module launches no kernel: no loop is bound to a GPU"
    return Facts(
        target=lowering.target,
        language=lowering.language,
        kernels=kernels,
        unrolled_loops=unrolled,
        flops=None if problem is None else problem.flops,
        bytes=None if problem is None else problem.bytes,
        lowered=lowered,
        source=lowering.source,
        refusal=refusal,
    )


def _find_kernels(lowered: tvm.IRModule) -> tuple[KernelFacts, ...]:
    launches: dict[str, dict[str, int | None]] = {}
    for function in lowered.functions.values():
        for call in find_all(function.body, Call):
            if str(getattr(call.op, "name", "")) == "tirx.call_ffi_kernel":
                launches.setdefault(str(call.args[0].value), _read_extents(call))
    return tuple(
        find_kernel_facts(name, lowered[name], extents) for name, extents in launches.items()
    )


def _read_extents(call: Any) -> dict[str, int | None]:
    """The last arguments of a launch, by what they are: the extent of an axis, mostly."""
    tags = [str(tag) for tag in call.attrs.launch_params]
    given = list(call.args)[len(call.args) - len(tags) :]
    return {tag: constant(size) for tag, size in zip(tags, given, strict=True)}
