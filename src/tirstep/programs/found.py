"""Finds what a user's place has: kernels, recipes, schedules, modules, functions, passes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.ir.transform import Pass
from tvm.s_tir import Schedule
from tvm.tirx import PrimFunc

from tirstep.files import show_path
from tirstep.modules import Kernel
from tirstep.transforms.recipes import Ladder, Recipe

from .databases import Record
from .loading import Loaded
from .traces import Capture

COMMANDS = "check, why, steps, diff, lower, facts, ladder, bench, report, export"
DECLARED = "__experiment__"
"""The attribute that `tirstep.experiments.pass_experiment` sets on a pass."""
TAKEN_BY: Mapping[str, str] = {
    "kernel": f"{COMMANDS}; with --shape where it has no recipe",
    "recipe": f"{COMMANDS}, search",
    "pass": "pass, with --after NAME or the like where it is not decorated with pass_experiment",
    "helper": "no command: each of its parameters besides the schedule needs a default",
}
"""The commands for some kinds of programs; the others go to `COMMANDS`."""
KINDS: Mapping[str, type] = {
    "kernel": Kernel,
    "recipe": Recipe,
    "ladder": Ladder,
    "module": tvm.IRModule,
    "function": PrimFunc,
    "record": Record,
    "capture": Capture,
    "pass": Pass,
}
"""The types of programs; other ones are known by what they are called with."""


@dataclass(frozen=True)
class Found:
    """One program.

    Attributes
    ----------
    kind : a key of `KINDS`, ``"schedule"``, or ``"helper"``: a function of a schedule that needs
        other arguments, too, which its `doc` names
    location : ``FILE:LINE``, or only the place
    functions : of a module or function: the names of its PrimFuncs
    """

    kind: str
    name: str
    value: Any
    location: str
    doc: str = ""
    functions: tuple[str, ...] = ()


def find_programs(loaded: Loaded) -> list[Found]:
    """The programs of a place in its order, each object once, under its first name.

    What a file of Python imports is not its own, and is left out, but for modules and functions of
    TVM, which have no home: those that it has under a name at its top count.
    """
    programs, seen = [], set()
    for name, value in loaded.values.items():
        if name.startswith("__") or id(value) in seen:
            continue
        kind = next((kind for kind, cls in KINDS.items() if isinstance(value, cls)), None)
        missing: list[str] | None = None
        if kind is None and isinstance(value, type):
            kind = "pass" if issubclass(value, Pass) else None
        elif kind is None and inspect.isfunction(value):
            missing = None if hasattr(value, DECLARED) else list_missing(value)
            kind = "pass" if hasattr(value, DECLARED) else "schedule" if missing == [] else None
            kind = "helper" if missing else kind
        if kind is None:
            continue
        # The Python function of a program, if there is one.
        function: Any = value.body if kind == "recipe" else value
        function = value.factory if kind == "kernel" else function
        is_function, is_here = inspect.isfunction(function), name in loaded.lines
        is_homed = is_function or inspect.isclass(function)
        is_own = is_here or (is_homed and function.__module__ == loaded.module)
        if loaded.module and not is_own:
            continue
        seen.add(id(value))
        location = loaded.locate(name)
        if is_function and not is_here:
            code = function.__code__
            location = f"{show_path(code.co_filename)}:{code.co_firstlineno}"
        doc = (inspect.getdoc(function) if is_function else None) or ""
        if missing:
            doc = f"no command can call it: {' and '.join(missing)} must have a default"
        if kind in ("recipe", "ladder"):
            doc = value.doc if kind == "recipe" else value.title
        if kind == "capture":
            location, doc = value.place, value.about
        functions = list_functions(value) if kind == "module" else ()
        programs.append(Found(kind, name, value, location, doc or "", functions))
    return programs


def list_missing(function: Any) -> list[str] | None:
    """The parameters without a default, besides the schedule, of a function that takes a schedule
    first (by type or name); None for any other function.
    """
    parameters = [*inspect.signature(function).parameters.values()]
    if not parameters:
        return None
    first, *others = parameters
    hint = first.annotation
    is_named = hint is first.empty and first.name in ("sch", "schedule")
    is_typed = isinstance(hint, str) and hint.rpartition(".")[2] == "Schedule"
    if not (is_named or is_typed or hint is Schedule):
        return None
    rest = [it for it in others if it.kind not in (it.VAR_POSITIONAL, it.VAR_KEYWORD)]
    return [it.name for it in rest if it.default is it.empty]


def list_functions(module: tvm.IRModule) -> tuple[str, ...]:
    """The names of a module's PrimFuncs, in its own order."""
    return tuple(
        str(var.name_hint) for var, it in module.functions_items() if isinstance(it, PrimFunc)
    )
