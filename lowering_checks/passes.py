"""The module after each of TVM's lowering passes, and the source that comes out in the end."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import tvm

from .compiling import compile_module
from .devices import find_unbound_blocks
from .devices.cpu import make_threads_serial
from .devices.device import DeviceError
from .devices.refusals import find_reason, is_refusal
from .finding import CheckError
from .pass_log import Pass, PassLog
from .targets import TARGET, find_target

__all__ = ["Failure", "Lowering", "Pass", "lower_through_passes"]

BEFORE_PASSES = "tvm.compile"
"""Who refuses a module where no pass was running."""


@dataclass(frozen=True)
class Failure:
    """The pass that refused the module, by number and name, and why.

    Attributes
    ----------
    is_limit : nobody refused it: a limit of tirstep's own ended the compilation (see `limits` and
        `deadline`), wherever that was
    """

    number: int
    name: str
    reason: str
    is_limit: bool = False

    def __str__(self) -> str:
        who = f"pass {self.number} {self.name}" if self.number else self.name
        return f"{who} refuses the module: {self.reason}"


@dataclass(frozen=True)
class Lowering:
    """What compiling a module gave.

    Attributes
    ----------
    module : as it was given to TVM
    target : the target's name
    language : of `source`: ``"cuda"``, ``"opencl"`` or ``"llvm"``
    passes : in the order in which they ended, so that one that runs others stands behind them
    source : for the device; empty where the compilation failed
    executable : None where the compilation failed
    failed : None where all went well
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
        return tuple(one for one in self.passes if one.changed)

    def find_pass(self, name: str | int) -> Pass:
        """The pass of a number, a name, or both, as ``"42 s_tir.ThreadSync"``.

        A name may lack what stands before its dot. Where several passes have it, the first that
        changed something is taken. Raises `CheckError` with the nearest names.
        """
        wanted = str(name).strip()
        if wanted.isdecimal():
            return self._find_number(int(wanted))
        found = [one for one in self.passes if wanted.lower() in _spellings(one)]
        if not found:
            raise CheckError(
                f"there is no pass '{wanted}' for the target {self.target}; "
                f"{_suggest(wanted, [one.name for one in self.passes])}"
            )
        return next((one for one in found if one.changed), found[0])

    def _find_number(self, number: int) -> Pass:
        for one in self.passes:
            if one.number == number:
                return one
        last = max((one.number for one in self.passes), default=0)
        raise CheckError(
            f"there is no pass {number} for the target {self.target}; its passes are 1 to {last}"
        )


def lower_through_passes(
    module: tvm.IRModule, target: str = TARGET, *, pipeline: str | None = None
) -> Lowering:
    """Compile a module for a target and keep it as it stands after each pass. Needs no GPU.

    For ``llvm`` thread bindings are made serial first. The options of the current `PassContext`
    and of the module itself hold. `pipeline` is the name of one that is registered with TVM, in
    place of the module's own. A module that TVM refuses is no error: see `Lowering.failed`. Raises
    `CheckError` for an unknown target.
    """
    made = find_target(target)
    language = str(made.kind.name)
    if language == "llvm":
        module = make_threads_serial(module)
    log = PassLog()
    executable, failed = None, None
    try:
        executable = compile_module(module, made, instruments=[log.instrument()], pipeline=pipeline)
    except DeviceError as error:
        failed = Failure(0, BEFORE_PASSES, str(error), is_limit=True)
    except Exception as error:
        if not is_refusal(error):
            raise
        failed = _describe_failure(log, module, language, error)
    source = "" if executable is None else _read_source(executable, language)
    return Lowering(module, target, language, log.passes(), source, executable, failed)


def _describe_failure(
    log: PassLog, module: tvm.IRModule, language: str, error: Exception
) -> Failure:
    number, name = 0, BEFORE_PASSES
    if log.running:
        number, name = log.running[-1].number, log.running[-1].name
    unbound = [] if language == "llvm" else find_unbound_blocks(module)
    reason = f"not bound yet: {', '.join(unbound)}" if unbound else find_reason(error)
    return Failure(number, name, reason)


def _read_source(executable: Any, language: str) -> str:
    if language == "llvm":
        return str(executable.mod.inspect_source("ll"))
    return "".join(str(one.inspect_source()) for one in executable.mod.imports)


def _spellings(one: Pass) -> tuple[str, ...]:
    name = one.name.lower()
    return name, name.rpartition(".")[2], f"{one.number} {name}", f"{one.number}_{name}"


def _suggest(wanted: str, known: Iterable[str]) -> str:
    """The nearest names, with and without what stands before the dot."""
    names = list(dict.fromkeys(known))
    short = {name.rpartition(".")[2].lower(): name for name in names}
    near = difflib.get_close_matches(wanted.rpartition(".")[2].lower(), short, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(short[one] for one in near)}?"
    return f"there are: {', '.join(names)}"
