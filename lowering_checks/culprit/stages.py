"""The module after each pass of TVM that changed it, and what can be run of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm.tirx import AllocBuffer

from tirstep.transforms.queries import find_all

from ..devices.host.generated import SPLIT_PASS, Generated
from ..passes import Failure, Pass, lower_through_passes
from .parts import find_host, find_kernels, join

ORDERS_THREADS = "s_tir.ThreadSync"
COMPACTS = "s_tir.CompactBufferAllocation"
HOST_ALONE = "its function takes packed arguments, which the interpreter does not know"
HALF_ORDERED = "threads are ordered in static shared memory and not in dynamic shared memory yet"


@dataclass(frozen=True)
class Stage:
    """The module after one pass that changed it, or that changes what the module means.

    Attributes
    ----------
    number : the pass's place among all passes of the compilation, from 1
    is_in_order : TVM has not put barriers in yet
    is_compact : buffers are as small as they will be
    before : the module that the pass was given
    program : what can be run of `module`, with a function ``main``: once TVM has split it, the
        kernels as they stand, launched by the host's part as it was at the split; otherwise None
    obstacle : why there is none
    given : the same of `before`, for a pass that another one runs, and for one that was given
        something else than the pass before it made; None for all others
    is_inner : another pass runs it
    """

    number: int
    name: str
    before: tvm.IRModule
    module: tvm.IRModule
    is_in_order: bool
    program: tvm.IRModule | None
    given: tvm.IRModule | None = None
    is_compact: bool = True
    obstacle: str = ""
    is_inner: bool = False

    @property
    def label(self) -> str:
        """``pass 42 s_tir.ThreadSync``."""
        return f"pass {self.number} {self.name}"


@dataclass(frozen=True)
class Lowering:
    """What compiling a module gave.

    Attributes
    ----------
    count : of all passes
    executable : None where the compilation failed
    generated : the CUDA source and the host's part; None for another target, or where it failed
    failed : None where all went well
    """

    stages: tuple[Stage, ...]
    count: int
    executable: Any
    generated: Generated | None
    failed: Failure | None


def lower_in_stages(module: tvm.IRModule, target: str, pipeline: str | None = None) -> Lowering:
    """The passes of `lower_through_passes` that changed the module, as stages."""
    lowering = lower_through_passes(module, target, pipeline=pipeline)
    split = [one.module for one in lowering.passes if one.name == SPLIT_PASS]
    is_cuda = lowering.language == "cuda" and lowering.executable is not None and bool(split)
    generated = Generated(lowering.source, split[-1]) if is_cuda else None
    stages = tuple(_make_stages(lowering.module, lowering.passes))
    return Lowering(stages, len(lowering.passes), lowering.executable, generated, lowering.failed)


def _make_stages(module: tvm.IRModule, passes: Sequence[Pass]) -> Iterator[Stage]:
    half, ordered = _find_order(passes)
    compacted = next((one.number for one in passes if one.name == COMPACTS), 0)
    host: Any = None
    latest = module  # that is judged: TVM goes on with the host's part and the kernels in turns
    for place, one in enumerate(passes):
        before = latest
        if not _is_host_alone(one.module, host):
            latest = one.module
        # A pass that another one runs ends before it, and began after it.
        is_inner = any(later.number < one.number for later in passes[place + 1 :])
        is_judged = not _is_host_alone(one.before, host)
        is_other = is_judged and not tvm_ffi.structural_equal(one.before, before)
        # Behind these a module means something else, be it the same: barriers that are missing
        # are missing from here on.
        is_turn = one.number in (half, ordered, compacted) or (is_other and not is_inner)
        if not (one.changed or is_turn):
            continue
        host = find_host(one.module) or host
        given = None
        if is_inner or is_other:
            given = _find_program(one.before, find_host(one.before) or host)
        program = _find_program(one.module, host)
        obstacle = HOST_ALONE if program is None else ""
        if half <= one.number < ordered:
            program, obstacle = None, HALF_ORDERED
        yield Stage(
            one.number,
            one.name,
            one.before,
            one.module,
            one.number < ordered,
            program,
            given,
            one.number >= compacted,
            obstacle,
            is_inner,
        )


def _find_order(passes: Sequence[Pass]) -> tuple[int, int]:
    """The numbers of the passes behind which barriers order some threads, and all threads.

    TVM puts barriers in for static shared memory first, then for the dynamic one. In a module that
    has one kind only, or none, the two are the same.
    """
    ordering = [one for one in passes if one.name == ORDERS_THREADS]
    if not ordering:
        return len(passes) + 1, len(passes) + 1
    scopes = {
        str(node.buffer.scope())
        for function in ordering[0].before.functions.values()
        for node in find_all(function.body, AllocBuffer)
    }
    static, dynamic = ordering[0].number, ordering[min(1, len(ordering) - 1)].number
    if "shared.dyn" not in scopes:
        return static, static
    return (static if "shared" in scopes else dynamic), dynamic


def _find_program(module: tvm.IRModule, host: Any) -> tvm.IRModule | None:
    kernels = find_kernels(module)
    if _is_host_alone(module, host):
        return None
    return join(host, kernels) if kernels else module


def _is_host_alone(module: tvm.IRModule, host: Any) -> bool:
    return (host is None or not find_kernels(module)) and find_host(module) is None
