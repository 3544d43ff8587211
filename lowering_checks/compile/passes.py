"""The module after each of TVM's lowering passes, the source, and why TVM refuses a module; of one
that TVM has split into host and device, the kernels and the host's launches of them.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import tvm
import tvm_ffi
from tvm.ir import Call

from tirstep.transforms.passes.serial import make_threads_serial
from tirstep.transforms.tir import find_all
from tirstep.tvm_compat import get_op_name

from ..device import DeviceError, find_unbound_sblocks, get_reason, is_tvm_error
from ..steps import CheckError, Diff, diff_modules
from .compiling import (
    MAIN,
    TARGET,
    compile_module,
    get_target,
    keeping_source,
    name_functions,
    watch_passes,
    write_host_in_c,
)

CONTAINERS = ("sequential", "_pipeline")
"""Passes that only run others; TVM names a pipeline after its function."""
BEFORE_PASSES = "tvm.compile"
"""The name of a failure while no pass was running."""


@dataclass(frozen=True)
class Pass:
    """One pass of a compilation.

    Attributes
    ----------
    number : its place among all passes, in the order in which they began, from 1
    name : of TVM, as ``"tirx.UnrollLoop"``; several passes may have one name
    given : what it was given
    before, module : the same, with the changes of passes that it ran itself; its result
    seconds : without the passes that it ran itself
    """

    number: int
    name: str
    given: tvm.IRModule = field(repr=False)
    before: tvm.IRModule = field(repr=False)
    module: tvm.IRModule = field(repr=False)
    changed: bool
    seconds: float

    @property
    def label(self) -> str:
        """``42 s_tir.ThreadSync``."""
        return f"{self.number} {self.name}"

    def diff(self, *, context: int = 3) -> Diff:
        """What it changed, as a diff of TVMScript."""
        names = (f"before {self.label}", f"after {self.label}")
        return diff_modules(self.before, self.module, names=names, context=context)


class _RunningPass:
    """A pass that began and did not end, with the time of the passes that it runs.

    Attributes
    ----------
    first, given : the module that it was given, and a copy of it
    current, before : the same with the changes of passes that it ran itself
    """

    def __init__(self, number: int, name: str, given: tvm.IRModule) -> None:
        self.number, self.name, self.first, self.current = number, name, given, given
        self.start, self.inner_seconds = time.perf_counter(), 0.0
        self.given = self.before = given.clone()


@dataclass(frozen=True)
class Failure:
    """The pass that refused the module, by number and name, and why.

    Attributes
    ----------
    is_limit : a limit of tirstep's own ended the compilation (see `compile_module`), wherever that
        was
    """

    number: int
    name: str
    reason: str
    is_limit: bool = False

    def __str__(self) -> str:
        place = f"pass {self.number} {self.name}" if self.number else self.name
        return f"{place} refuses the module: {self.reason}"


@dataclass(frozen=True)
class Lowering:
    """What compiling a module gave.

    Attributes
    ----------
    module : as it was given to TVM
    target : the target's name
    language : of `source`, one of `compiling.KINDS`
    passes : in the order in which they ended, so that one that runs others stands behind them
    source : for the device; empty where the compilation failed
    executable : of ``"llvm"`` alone one that runs, since no machine code is made of CUDA source
        (`tirstep.lowering_checks.get_device` does that); None where the compilation failed
    failed : None where the compilation succeeded
    """

    module: tvm.IRModule = field(repr=False)
    target: str
    language: str
    passes: tuple[Pass, ...] = field(repr=False)
    source: str = field(repr=False)
    executable: Any = field(repr=False)
    failed: Failure | None

    @property
    def changed(self) -> tuple[Pass, ...]:
        """The passes that changed the module."""
        return tuple(each for each in self.passes if each.changed)

    def get_pass(self, name: str | int) -> Pass:
        """The pass of a number, a name, or both, as ``"42 s_tir.ThreadSync"``.

        A name may lack what stands before its dot. Where several passes have it, the first that
        changed something is taken. Raises `CheckError` with the nearest names.
        """
        wanted = str(name).strip()
        if wanted.isdecimal():
            for each in self.passes:
                if each.number == int(wanted):
                    return each
            last = max((each.number for each in self.passes), default=0)
            raise CheckError(
                f"there is no pass {int(wanted)} for the target {self.target}; its passes are 1 to "
                f"{last}"
            )
        found = []
        for each in self.passes:
            low = each.name.lower()
            spellings = low, low.rpartition(".")[2], f"{each.number} {low}", f"{each.number}_{low}"
            found += [each] if wanted.lower() in spellings else []
        if not found:
            # The nearest names, with and without what stands before the dot.
            names = list(dict.fromkeys(each.name for each in self.passes))
            short = {name.rpartition(".")[2].lower(): name for name in names}
            end = wanted.rpartition(".")[2].lower()
            near = difflib.get_close_matches(end, short, n=3, cutoff=0.5)
            hint = f"there are: {', '.join(names)}"
            if near:
                hint = f"did you mean {' or '.join(short[each] for each in near)}?"
            raise CheckError(f"there is no pass '{wanted}' for the target {self.target}; {hint}")
        return next((each for each in found if each.changed), found[0])


def lower_through_passes(
    module: tvm.IRModule,
    target: str = TARGET,
    *,
    pipeline: str | None = None,
    is_run: bool = True,
) -> Lowering:
    """Compile a module for a target and keep it as it stands after each pass. Needs no GPU.

    For ``llvm`` thread bindings are made serial first. The options of the current `PassContext`
    and of the module itself hold. `pipeline` is the name of one that is registered with TVM, in
    place of the module's own. Without `is_run`, nobody runs the executable, and its host's part is
    C (`write_host_in_c`). A module that TVM refuses is no error: see `Lowering.failed`. Raises
    `CheckError` for an unknown target.
    """
    made = get_target(target) if is_run else write_host_in_c(get_target(target), module)
    language = str(made.kind.name)
    if language == "llvm":
        module = make_threads_serial(module)
    # Some passes change the module that they are given in place (tirx.AnnotateEntryFunc does), so
    # copies are kept; the functions in them never change. They are compared outside of all times.
    running: list[_RunningPass] = []  # the passes that began and did not end, outermost first
    ended: list[tuple[_RunningPass, tvm.IRModule, float]] = []

    def begin(name: str, given: tvm.IRModule) -> None:
        if name not in CONTAINERS:
            running.append(_RunningPass(len(running) + len(ended) + 1, name, given))

    def end(name: str, result: tvm.IRModule) -> None:
        if name in CONTAINERS:
            return
        inner = running.pop()
        spent, copy = time.perf_counter() - inner.start, result.clone()
        ended.append((inner, copy, spent - inner.inner_seconds))
        if running:
            outer = running[-1]
            outer.inner_seconds += spent
            # Only where they went on from what it was given: others work on parts of it.
            if inner.first.same_as(outer.current):
                outer.before, outer.current = copy, result

    executable, failed, watch = None, None, watch_passes(before=begin, after=end)
    try:
        with keeping_source():
            executable = compile_module(module, made, instruments=[watch], pipeline=pipeline)
    except DeviceError as error:
        failed = Failure(0, BEFORE_PASSES, str(error), is_limit=True)
    except Exception as error:
        if not is_tvm_error(error):
            raise
        if not is_run:  # for the usual reason
            return lower_through_passes(module, target, pipeline=pipeline)
        number, name = 0, BEFORE_PASSES
        if running:
            number, name = running[-1].number, running[-1].name
        unbound = [] if language == "llvm" else find_unbound_sblocks(module)
        reason = f"not bound yet: {', '.join(unbound)}" if unbound else get_reason(error)
        failed = Failure(number, name, reason)
    passes = tuple(
        Pass(
            *(each.number, each.name, each.given, each.before, result),
            changed=not tvm_ffi.structural_equal(each.before, result),
            seconds=seconds,
        )
        for each, result, seconds in ended
    )
    source = "" if executable is None else _read_source(executable, language)
    return Lowering(module, target, language, passes, source, executable, failed)


def _read_source(executable: Any, language: str) -> str:
    if language == "llvm":
        return str(executable.mod.inspect_source("ll"))
    return "".join(str(imported.inspect_source()) for imported in executable.mod.imports)


SPLIT_PASS = "tirx.SplitHostDevice"
DYNAMIC_SHARED = "tirx.use_dyn_shared_memory"
"""In a launch's extents, the bytes of dynamic shared memory."""
_KERNEL_LAUNCH = 2  # TVM's calling convention of what the host launches


KernelCall = tuple[str, tuple[Any, ...], dict[str, Any]]
"""A launch in the host's part: the kernel's name; the buffers' pointers and the integers that it
takes; and extents, expressions by thread axis, `DYNAMIC_SHARED` among them where it has any."""


def read_launch(call: Any, kernels: Mapping[str, Any]) -> KernelCall | None:
    """What an expression launches; None for one that is no launch.

    Before TVM writes a launch down as one, it is a plain call of one of `kernels`, without extents.
    """
    if not isinstance(call, Call):
        return None
    if get_op_name(call) == "tirx.call_ffi_kernel":
        tags = [str(tag) for tag in call.attrs.launch_params]
        name, *passed = call.args
        count = len(passed) - len(tags)
        extents = dict(zip(tags, passed[count:], strict=True))
        return str(name.value), tuple(passed[:count]), extents
    callee = str(getattr(call.op, "name_hint", ""))
    return (callee, tuple(call.args), {}) if callee in kernels else None


def find_launches(body: Any, kernels: Mapping[str, Any]) -> list[KernelCall]:
    """The launches of `kernels` in a function's body, in the order of the text."""
    launches = (read_launch(call, kernels) for call in find_all(body, Call))
    return [launch for launch in launches if launch is not None]


def find_kernels(module: tvm.IRModule) -> dict[str, Any]:
    """The functions that run on a GPU, by name; none before TVM splits them off."""
    return {
        str(variable.name_hint): function
        for variable, function in module.functions_items()
        if _get_convention(function) == _KERNEL_LAUNCH or str(variable.name_hint) != MAIN
    }


def find_host(module: tvm.IRModule) -> Any:
    """The function that launches the kernels, while it still takes buffers; otherwise None.

    Later on it takes packed arguments, and launches through the driver.
    """
    entry = name_functions(module).get(MAIN)
    return None if entry is None or _get_convention(entry) is not None else entry


def _get_convention(function: Any) -> int | None:
    convention = function.attrs.get("calling_conv") if function.attrs is not None else None
    return None if convention is None else int(getattr(convention, "value", convention))
