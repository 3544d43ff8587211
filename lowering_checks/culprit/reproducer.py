"""Writes a script that shows a culprit with TVM and NumPy alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tirstep.files import require_writable, write_file
from tirstep.modules import Problem
from tirstep.modules.dtypes import dtype_facts
from tirstep.transforms import find_pass_options

from ..devices import CpuDevice, DeviceError
from ..devices.cpu import make_threads_serial
from ..diff import print_module
from ..finding import CheckError
from ..steps import step_label
from .culprit import Culprit
from .templates import (
    COMPARE,
    CUSTOM_PASS,
    FIRST_LINE,
    HEAD,
    RUN_AGAINST_VALUES,
    RUN_ON_CPU,
    RUN_ON_GPU,
    SHOW_SOURCE,
    WATCH_PASS,
)

OF_TVM = ("tirx.", "s_tir.")
"""How TVM's own passes are called."""
VALUES = 256
"""So many are written down where a kernel itself is wrong."""


def write_reproducer(culprit: Culprit, path: Path) -> None:
    """Write the script of a culprit.

    It holds the kernel and the scheduled module as TVMScript, runs both, and ends with an
    assertion that fails. Where a CPU does not show the fault, it takes a GPU; without one it prints
    what the step or pass changed. Raises `CheckError` for a file that this function did not write,
    and for a culprit whose kernel is not known.
    """
    require_ours(path)
    write_file(path, make_reproducer(culprit))


def require_ours(path: Path) -> None:
    """Raise `CheckError` for a file that `write_reproducer` would not overwrite.

    Raises `OSError` where it could not be written. A script that was cut short is ours.
    """
    if path.exists():
        text = path.read_text("utf-8", "replace") if path.is_file() else None
        if text is None or not (text.startswith(FIRST_LINE) or FIRST_LINE.startswith(text)):
            raise CheckError(f"{path} is no script of tirstep why's; it stays: give another name")
    require_writable(path)


def make_reproducer(culprit: Culprit) -> str:
    """The text of the script."""
    if culprit.kernel is None:
        raise CheckError("nothing says what is right; give find_bad_pass the kernel")
    if culprit.run is not None and (culprit.kind, culprit.number) == ("step", 0):
        return _make_script_of_kernel(culprit, culprit.run.problem)
    serial = make_threads_serial(culprit.module)
    on_cpu = _is_wrong_on_cpu(culprit, serial)
    parts = [
        HEAD.format(about=_describe(culprit), half_types=_import_half_types(culprit.kernel)),
        _quote("KERNEL", culprit.kernel),
        "\n# The step" + (", its thread bindings made serial.\n" if on_cpu else ".\n"),
        _quote("MODULE", serial if on_cpu else culprit.module),
        f"OPTIONS = {find_pass_options(culprit.module)}  # of TVM's pass context\n",
        "DIFF = r'''\n" + "\n".join(culprit.diff.lines) + "\n'''\n",
        RUN_ON_CPU if on_cpu else RUN_ON_GPU.format(target=culprit.target),
        _show_change(culprit),
        COMPARE,
    ]
    return "".join(parts)


def _make_script_of_kernel(culprit: Culprit, problem: Problem) -> str:
    """No module is right: the first values that NumPy has are written down."""
    right = problem.reference(_make_arguments(culprit.module)[:-1])[-1].ravel()[:VALUES]
    return "".join(
        [
            HEAD.format(about=_describe(culprit), half_types=_import_half_types(culprit.module)),
            _quote("MODULE", culprit.module),
            RUN_AGAINST_VALUES.format(values=right.tolist(), count=len(right)),
            COMPARE,
        ]
    )


def _describe(culprit: Culprit) -> str:
    lines = [f"{culprit}"]
    if culprit.run is not None and culprit.step is not None:
        lines += [
            "",
            f"{culprit.run.problem}",
            f"recipe {culprit.run.recipe.name}, sizes {dict(culprit.run.sizes)}, "
            f"step {step_label(culprit.step)}, seed {culprit.seed}, target {culprit.target}",
        ]
    for one in culprit.not_run:
        lines.append(f"not run: {one}")
    return "\n".join(lines).replace("\\", "/").replace('"""', "'''")


def _show_change(culprit: Culprit) -> str:
    if culprit.kind == "step":
        return "print(DIFF)\n"
    if culprit.source:
        return SHOW_SOURCE.format(target=culprit.target)
    if culprit.is_custom or not culprit.name.startswith(OF_TVM):
        return CUSTOM_PASS.format(name=culprit.name)
    return WATCH_PASS.format(name=culprit.name, number=culprit.number, target=culprit.target)


def _quote(name: str, module: tvm.IRModule) -> str:
    return f"{name} = r'''\n{print_module(module)}'''\n"


def _import_half_types(kernel: tvm.IRModule) -> str:
    dtypes = {str(buffer.dtype) for buffer in kernel["main"].params}
    own = any(one.startswith(("bfloat", "float8")) for one in dtypes)
    return "import ml_dtypes  # noqa: F401: gives NumPy the types\n" if own else ""


def _is_wrong_on_cpu(culprit: Culprit, serial: tvm.IRModule) -> bool:
    """Whether the script's own inputs show the fault on a CPU; stray writes are not tried."""
    is_custom_pass = culprit.kind == "pass" and culprit.is_custom
    if culprit.finding.message.startswith("out of bounds") or is_custom_pass:
        return False
    try:
        right, wrong = (_run(module) for module in (culprit.kernel, serial))
    except DeviceError:
        return False
    return not np.array_equal(right, wrong)


def _run(module: Any) -> Any:
    return CpuDevice().compile(module)(_make_arguments(module))[-1].astype(np.float64)


def _make_arguments(module: Any) -> list[Any]:
    """Those of the script: whole numbers; the last argument is the output."""
    random = np.random.default_rng(0)
    arrays = []
    for buffer in module["main"].params:
        shape, facts = [int(extent) for extent in buffer.shape], dtype_facts(str(buffer.dtype))
        arrays.append(random.integers(-3, 4, shape).astype(facts.numpy))
    arrays[-1] = np.zeros_like(arrays[-1])
    return arrays
