"""The module after each pass of TVM that changed it, and what can be run of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.tirx import AllocBuffer

from tirstep.transforms.queries import find_all

from ..devices.host.generated import SPLIT_PASS, Generated
from ..passes import Pass, lower_through_passes
from .parts import ENTRY, find_host, find_kernels, join

ORDERS_THREADS = "s_tir.ThreadSync"


@dataclass(frozen=True)
class Stage:
    """The module after one pass that changed it.

    Attributes
    ----------
    number : the pass's place among all passes of the compilation, from 1
    is_in_order : TVM has not put barriers in yet
    before : the module that the pass was given
    program : what can be run of `module`, with a function ``main``: once TVM has split it, the
        kernels as they stand, launched by the host's part as it was at the split. None for a module
        that is the host's part alone.
    given : the same of `before`, for a pass that another one runs; None for all others
    """

    number: int
    name: str
    before: tvm.IRModule
    module: tvm.IRModule
    is_in_order: bool
    program: tvm.IRModule | None
    given: tvm.IRModule | None = None


@dataclass(frozen=True)
class Lowering:
    """What compiling a module gave.

    Attributes
    ----------
    count : of all passes
    executable : None where the compilation failed
    generated : the CUDA source and the host's part; None for another target, or where it failed
    failed : the number and name of the pass that failed, and why; None where all went well
    """

    stages: tuple[Stage, ...]
    count: int
    executable: Any
    generated: Generated | None
    failed: tuple[int, str, str] | None


def lower_in_stages(module: tvm.IRModule, target: str, pipeline: str | None = None) -> Lowering:
    """The passes of `lower_through_passes` that changed the module, as stages."""
    lowering = lower_through_passes(module, target, pipeline=pipeline)
    split = [one.module for one in lowering.passes if one.name == SPLIT_PASS]
    is_cuda = lowering.language == "cuda" and lowering.executable is not None and bool(split)
    generated = Generated(lowering.source, split[-1]) if is_cuda else None
    failed = lowering.failed
    reason = None if failed is None else (failed.number, failed.name, failed.reason)
    stages = tuple(_make_stages(lowering.passes))
    return Lowering(stages, len(lowering.passes), lowering.executable, generated, reason)


def _make_stages(passes: Sequence[Pass]) -> Iterator[Stage]:
    first = _find_order(passes)
    host: Any = None
    for place, one in enumerate(passes):
        if not one.changed:
            continue
        host = find_host(one.module) or host
        # A pass that another one runs ends before it, and began after it.
        is_inner = any(later.number < one.number for later in passes[place + 1 :])
        given = _find_program(one.before, find_host(one.before)) if is_inner else None
        program = _find_program(one.module, host)
        is_in_order = one.number < first
        yield Stage(one.number, one.name, one.before, one.module, is_in_order, program, given)


def _find_order(passes: Sequence[Pass]) -> int:
    """The number of the pass behind which barriers are what orders threads.

    TVM puts barriers in for static shared memory first, then for the dynamic one.
    """
    ordering = [one for one in passes if one.name == ORDERS_THREADS]
    if not ordering:
        return len(passes) + 1
    buffers = [node.buffer for node in find_all(ordering[0].before[ENTRY].body, AllocBuffer)]
    is_dynamic = any(str(buffer.scope()) == "shared.dyn" for buffer in buffers)
    return ordering[1 if is_dynamic and len(ordering) > 1 else 0].number


def _find_program(module: tvm.IRModule, host: Any) -> tvm.IRModule | None:
    kernels = find_kernels(module)
    if host is None or (not kernels and find_host(module) is None):
        return None
    return join(host, kernels) if kernels else module
