"""The module after each pass of TVM that changed it, and what can be run of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm.tirx import AllocBuffer, AttrStmt, Evaluate, Var
from tvm_ffi import structural_map

from tirstep.transforms.tir import THREAD_EXTENT, find_all

from ..compile.compiling import MAIN
from ..compile.launches import find_host, find_kernels, read_launch
from ..compile.passes import Lowering, Pass

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
    is_in_order : TVM has not inserted barriers yet
    program : what can be run of `module`, with a function ``main``: once TVM has split it, the
        kernels as they stand, launched by the host's part as it was at the split; otherwise None
    given : the same of what the pass was given, for one that another one runs, or that was given
        something else than the pass before it made; None for all others
    is_compact : buffers are as small as they will be
    obstacle : why there is no program
    is_inner : another pass runs it
    """

    number: int
    name: str
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


def find_stages(lowering: Lowering) -> tuple[Stage, ...]:
    """The stages of a module that was lowered."""
    passes, found = lowering.passes, list[Stage]()
    half, ordered = _find_order(passes)
    compacted = next((each.number for each in passes if each.name == COMPACTS), 0)
    host: Any = None
    # The latest that is judged: TVM alternates between the host's part and the kernels.
    latest = lowering.module
    for place, each in enumerate(passes):
        before = latest
        if not _is_host_alone(each.module, host):
            latest = each.module
        # A pass that another one runs ends before it, and began after it.
        is_inner = any(later.number < each.number for later in passes[place + 1 :])
        is_same = _is_host_alone(each.before, host) or tvm_ffi.structural_equal(each.before, before)
        # Behind these a module means something else, be it the same: barriers that are missing
        # are missing from here on.
        changes_meaning = each.number in (half, ordered, compacted) or not (is_same or is_inner)
        if not (each.changed or changes_meaning):
            continue
        host = find_host(each.module) or host
        given = None
        if is_inner or not is_same:
            given = _find_program(each.before, find_host(each.before) or host)
        program = _find_program(each.module, host)
        obstacle = HOST_ALONE if program is None else ""
        if half <= each.number < ordered:
            program, obstacle = None, HALF_ORDERED
        is_in_order, is_compact = each.number < ordered, each.number >= compacted
        stage = (each.number, each.name, each.module, is_in_order, program, given, is_compact)
        found.append(Stage(*stage, obstacle, is_inner))
    return tuple(found)


def _find_order(passes: Sequence[Pass]) -> tuple[int, int]:
    """The numbers of the passes behind which barriers order some threads, and all threads.

    TVM inserts barriers for static shared memory first, then for the dynamic one. In a module that
    has one kind only, or none, the two are the same.
    """
    ordering = [each for each in passes if each.name == ORDERS_THREADS]
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
    if _is_host_alone(module, host):
        return None
    return join(host, kernels) if (kernels := find_kernels(module)) else module


def _is_host_alone(module: tvm.IRModule, host: Any) -> bool:
    return (host is None or not find_kernels(module)) and find_host(module) is None


def join(host: Any, kernels: Mapping[str, Any]) -> tvm.IRModule:
    """One function ``main``, in which each launch is the kernel's body with its arguments.

    The extents of the threads are those that the host launches with.
    """

    def inline(statement: Any) -> Any:
        launch = read_launch(statement.value, kernels)
        if launch is None:
            return statement
        kernel, extents = kernels[launch.kernel], launch.extents
        known = dict(zip(kernel.params, launch.arguments, strict=True))

        def extend(node: Any) -> Any:
            tag = str(node.node.thread_tag) if node.attr_key == THREAD_EXTENT else ""
            if tag not in extents:
                return node
            return AttrStmt(node.node, node.attr_key, extents[tag], node.body)

        body = structural_map(kernel.body, (AttrStmt, extend))
        return structural_map(body, (Var, lambda variable: known.get(variable, variable)))

    return tvm.IRModule({MAIN: structural_map(host, (Evaluate, inline))})
