"""What passes promise, and what holds them to it, module by module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import tvm
import tvm_ffi
from tvm.ir.transform import Pass
from tvm.tirx import Evaluate, SeqStmt
from tvm_ffi import structural_map

from tirstep.lowering_checks import CheckError
from tirstep.lowering_checks.compile.passes import Pass as RunPass
from tirstep.lowering_checks.expectations import ARCHITECTURE
from tirstep.lowering_checks.facts import compile_facts, facts_of_lowering
from tirstep.transforms.passes.uses import is_barrier
from tirstep.transforms.tir import find_all

from .trying import Trial, find_marked, have_same_bits

NUMBERS = "changes no numbers"


class UncheckedError(Exception):
    """A promise cannot be checked here: one sentence."""


def _keeps_numbers(trial: Trial, _made: Pass) -> str:
    return trial.reason if trial.is_bad else ""


def _keeps_bits(trial: Trial, made: Pass) -> str:
    if broken := _keeps_numbers(trial, made):
        return broken
    return (
        "" if have_same_bits(trial) in (True, None) else "an output has other bits than without it"
    )


def _adds_no_barriers(trial: Trial, _made: Pass) -> str:
    for each in _get_runs(trial):
        before, after = (count_barriers(module) for module in (each.before, each.module))
        if after > before:
            return f"there are {after} barriers behind it, and {before} before"
    return ""


def _drops_barriers_only(trial: Trial, made: Pass) -> str:
    for each in _get_runs(trial):
        one, other = (drop_barriers(module) for module in (each.before, each.module))
        if not tvm_ffi.structural_equal(one, other, map_free_vars=True):
            return _adds_no_barriers(trial, made) or "it changes something else than barriers"
    return _adds_no_barriers(trial, made)


def _is_done_at_once(trial: Trial, made: Pass) -> str:
    for each in _get_runs(trial):
        if not tvm_ffi.structural_equal(each.module, made(each.module), map_free_vars=True):
            return "run twice, it changes the module twice"
    return ""


def _compare_compiled(trial: Trial, name: str) -> str:
    """A fact of the compiler's that has grown; raises `UncheckedError` without a compiler."""
    if trial.lowered is None or any(each.language != "cuda" for each in trial.lowered):
        return ""
    found = []
    for lowering in trial.lowered:
        facts = facts_of_lowering(lowering)
        try:
            compiled = compile_facts(facts.source, ARCHITECTURE, facts.kernels)
        except CheckError as error:
            raise UncheckedError(str(error)) from error
        found.append({each.name: getattr(each, name) for each in compiled.kernels})
    before, after = found
    for kernel, count in after.items():
        if count > before.get(kernel, count):
            what = name.replace("_", " ")
            without = before[kernel]
            return f"{kernel} has {count} {what} with it on {ARCHITECTURE}, and {without} without"
    return ""


def _get_runs(trial: Trial) -> list[RunPass]:
    return [] if trial.lowered is None else [e for e in find_marked(trial.lowered[1]) if e.changed]


def count_barriers(module: tvm.IRModule) -> int:
    """The barriers of a GPU block in a module."""
    return sum(
        is_barrier(node)
        for function in module.functions.values()
        for node in find_all(function.body, Evaluate)
    )


def drop_barriers(module: tvm.IRModule) -> tvm.IRModule:
    """The module without barriers, and without sequences of one or no statement."""

    def drop(sequence: Any) -> Any:
        kept = [each for each in sequence.seq if not is_barrier(each)]
        if len(kept) == 1:
            return kept[0]
        return SeqStmt(kept) if kept else Evaluate(tvm.tirx.const(0, "int32"))

    functions = {
        name: structural_map(function, (SeqStmt, drop))
        for name, function in module.functions_items()
    }
    return tvm.IRModule(functions)


PROMISES: Mapping[str, Callable[[Trial, Pass], str]] = MappingProxyType(
    {
        NUMBERS: _keeps_numbers,
        "changes no bits": _keeps_bits,
        "drops barriers only": _drops_barriers_only,
        "adds no barriers": _adds_no_barriers,
        "registers never grow": lambda trial, _: _compare_compiled(trial, "registers"),
        "spills never grow": lambda trial, _: _compare_compiled(trial, "spill_stores"),
        "is done at once": _is_done_at_once,
    }
)
"""Each says in a sentence how it is broken; "" where it is kept."""
