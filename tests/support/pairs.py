"""Before/after pairs of transforms, and refusals that change nothing."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import tvm
from kernels import expand_sums
from tvm.ir import assert_structural_equal
from tvm.s_tir import SBlock, Schedule, ScheduleError
from tvm.script import from_source

from tirstep.lowering_checks import check_numbers, get_device
from tirstep.lowering_checks.device import blank
from tirstep.lowering_checks.devices import CpuDevice
from tirstep.lowering_checks.devices.simulator import simulate_lowered
from tirstep.lowering_checks.steps import Run
from tirstep.modules import Problem
from tirstep.transforms import TransformError
from tirstep.transforms.tir import find_all


def check_pair(
    before: tvm.IRModule,
    change: Callable[[Schedule], object],
    after: tvm.IRModule | str,
    *,
    is_verified: bool = True,
    is_replayable: bool = True,
) -> None:
    """`change` makes `after` of `before`, block names and all, and its trace does so again.

    A text is the body of the same function, see `rewrite`.

    Unless it is not `is_replayable`: then replaying the trace fails, with a name that says so.

    TVM verifies the schedule after every primitive, unless not `is_verified`: of a tile that is
    swizzled it cannot tell what a copy writes; the handles that `change` returns must live.
    """
    debug_mask = "all" if is_verified else "none"
    sch = Schedule(before, debug_mask=debug_mask)
    handles = change(sch)
    if isinstance(after, str):
        after = rewrite(before, after)
    assert_structural_equal(sch.mod, after)
    assert find_block_names(sch.mod) == find_block_names(after)
    for handle in _flatten(handles):
        sch.get(handle)
    if is_replayable:
        check_trace(sch, before, debug_mask)
        return
    with pytest.raises(ScheduleError, match="which no trace can replay"):
        check_trace(sch, before, debug_mask)


def rewrite(module: tvm.IRModule, body: str) -> tvm.IRModule:
    """The module with another body of its function, with sums as in `expand_sums`."""
    head = module.script().partition("# with T.sblock")[0].rstrip(" ")
    dtypes = dict(re.findall(r'(\w+): T.Buffer\(.*?, "(\w+)"\)', head))
    text = expand_sums(textwrap.dedent(body).strip("\n"), dtypes)
    return from_source(head + textwrap.indent(text, " " * 8))


def check_trace(sch: Schedule, before: tvm.IRModule, debug_mask: str = "all") -> None:
    """The schedule's trace makes the same module of a fresh schedule."""
    fresh = Schedule(before, debug_mask=debug_mask)
    sch.trace.apply_to_schedule(fresh, remove_postproc=False)
    assert_structural_equal(fresh.mod, sch.mod)


@contextmanager
def refuses(sch: Schedule, match: str) -> Iterator[pytest.ExceptionInfo[TransformError]]:
    """The body raises one `TransformError` of one sentence, and the schedule stays as it was."""
    module, text, steps = sch.mod, sch.mod.script(), len(sch.trace.insts)
    with pytest.raises(TransformError, match=match) as caught:
        yield caught
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert "T.prim_func" not in sentence
    assert caught.value.advice
    assert sch.mod.script() == text
    assert_structural_equal(sch.mod, module)
    assert len(sch.trace.insts) == steps


def assert_dead(sch: Schedule, *handles: object) -> None:
    """The handles were consumed."""
    for handle in handles:
        with pytest.raises(ValueError, match="no longer exists"):
            sch.get(handle)


def find_block_names(module: tvm.IRModule) -> dict[str, list[str]]:
    """The names of each function's blocks in program order, which structural equality ignores."""
    return {
        variable.name_hint: [str(block.name_hint) for block in find_all(function.body, SBlock)]
        for variable, function in module.functions_items()
    }


def run_on_cpu(module: tvm.IRModule, *inputs: np.ndarray, output: tuple[int, ...], dtype: str):
    """The module's one output, computed by LLVM with thread bindings made serial."""
    blank = np.full(output, np.nan if dtype.startswith("float") else -128, dtype)
    return CpuDevice().compile(module)([*inputs, blank])[-1]


def find_wrong(
    problem: Problem, made: tvm.IRModule | Schedule, device: str = "simulator"
) -> list[str]:
    """What is wrong with the numbers of a problem's module, and what the device finds besides."""
    module = made.mod if isinstance(made, Schedule) else made
    found = check_numbers(problem, module, get_device(device), where="here")
    return [finding.message for finding in found]


def find_kinds(lowered: tvm.IRModule, run: Run) -> set[str]:
    """The kinds of what the simulator finds in a lowered module of a recipe's run."""
    arguments = [*run.problem.integer_inputs(0), *map(blank, run.problem.outputs)]
    return {found.kind for found in simulate_lowered(lowered, arguments).findings}


def compile_for_cuda(module: tvm.IRModule) -> str:
    """The CUDA source of a module; no GPU is needed."""
    executable = tvm.compile(module, target="nvidia/nvidia-h100")
    return executable.mod.imports[0].inspect_source()


def _flatten(handles: Any) -> list[Any]:
    if handles is None:
        return []
    if isinstance(handles, (list, tuple)):
        return [inner for handle in handles for inner in _flatten(handle)]
    return [handles]
