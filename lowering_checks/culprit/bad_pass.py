"""The same search for any module, at arguments of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm

from tirstep.transforms import find_pipeline

from ..devices.device import Device, DeviceError
from ..entry import MAIN, name_main
from ..finding import CheckError, Finding
from ..refusal import explain_refusal
from .culprit import Culprit, Kind, diff_states
from .outputs import Bound, compare_outputs
from .search import AS_LOWERED, Outcome, Place, Refusal, Suspect, search

Array = np.ndarray[Any, Any]


def find_bad_pass(
    module: tvm.IRModule,
    arguments: Sequence[Array],
    expected: Sequence[Array],
    target: str,
    *,
    pipeline: str | None = None,
    kernel: tvm.IRModule | None = None,
    bounds: Sequence[Bound] | None = None,
) -> Culprit | None:
    """The first pass that makes a module of one function wrong, at some arguments.

    `expected` are the last of the arguments after the run. `bounds` say how far off each of them
    may be, by a number or by one for each element; without them integers must be equal, and so must
    floats that are expected to be whole numbers; others may be off by `outputs.ULPS` units in the
    last place of the largest. A module that is wrong as it stands is a culprit of kind ``"step"``,
    number 0. `kernel` is the module from which it was scheduled, for the reproducer. Raises
    `CheckError` for arguments that do not fit, and for a module of several functions.
    """
    module = _take_function(module, arguments, expected)
    kernel = None if kernel is None else _take_function(kernel, arguments, expected)
    compare_outputs(expected, expected, bounds)  # bounds that do not fit are no fault of a pass's

    def judge(one: tvm.IRModule, device: Device) -> list[Finding]:
        program = device.compile(one)
        got = program(arguments)[len(arguments) - len(expected) :]
        faults = [Finding(device.name, MAIN, str(fault)) for fault in program.faults]
        return [*faults, *compare_outputs(got, expected, bounds)]

    found = search(module, judge, target, pipeline)
    if found.suspect is None and found.refused is None:
        return None
    return _make_culprit(found, module, kernel, target, pipeline)


def _make_culprit(
    found: Outcome,
    module: tvm.IRModule,
    kernel: tvm.IRModule | None,
    target: str,
    pipeline: str | None,
) -> Culprit:
    suspect, kind = found.suspect, _find_kind(found)
    if suspect is None:
        assert found.refused is not None
        suspect = _describe_refusal(module, found.refused)
    number, name = (0, MAIN)
    if suspect.stage is not None:
        number, name = suspect.stage.number, suspect.stage.name
    elif kind == "refused" and found.refused is not None:
        number, name = found.refused.failed.number, found.refused.failed.name
    right = "" if suspect.right is None else f"the module {suspect.right.tell(right=True)}"
    after = module if suspect.stage is None else suspect.stage.module
    not_run = suspect.not_run if right else (*found.not_run, *suspect.not_run)
    return Culprit(
        kind=kind,
        right=right,
        wrong=f"the module {suspect.wrong.tell(right=False)}",
        number=number,
        name=name,
        finding=suspect.finding,
        diff=diff_states(suspect.before or module, after, right, number, name),
        module=module,
        kernel=kernel,
        target=target,
        run=None,
        step=None,
        seed=0,
        not_run=not_run if kind in ("between", "refused") else (),
        is_custom=(pipeline or find_pipeline(module)) != "default",
        source=suspect.source,
        is_pass=suspect.stage is not None or kind == "refused",
    )


def _find_kind(found: Outcome) -> Kind:
    suspect = found.suspect
    if suspect is None:
        return "refused"
    if not suspect.is_exact:
        return "between"
    return "step" if suspect.stage is None else "pass"


def _describe_refusal(module: tvm.IRModule, refused: Refusal) -> Suspect:
    finding = Finding("lowering", MAIN, explain_refusal(module, refused.failed))
    return Suspect(None, finding, refused.right, Place(AS_LOWERED, "TVM"), False, refused.not_run)


def _take_function(
    module: tvm.IRModule, arguments: Sequence[Array], expected: Sequence[Array]
) -> tvm.IRModule:
    """The module with its function called ``main``; raises `CheckError` where it does not fit."""
    if len(expected) > len(arguments):
        raise CheckError("find_bad_pass: more outputs are expected than there are arguments")
    try:
        module = name_main(module)
    except DeviceError as error:
        raise CheckError(f"find_bad_pass: {error}") from error
    if len(module.functions) != 1:
        raise CheckError(
            f"find_bad_pass: the module has {len(module.functions)} functions; give one of one "
            "function"
        )
    if len(module[MAIN].params) != len(arguments):
        raise CheckError(
            f"find_bad_pass: the function has {len(module[MAIN].params)} parameters and "
            f"{len(arguments)} arguments are given; give one for each"
        )
    return module
