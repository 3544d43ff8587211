"""Writes a script that shows a culprit with TVM and NumPy alone."""

from __future__ import annotations

import math
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tirstep.files import require_writable, write_file
from tirstep.modules import KernelError, Problem
from tirstep.modules.dtypes import dtype_facts
from tirstep.transforms import find_pass_options

from ..devices import CpuDevice, DeviceError
from ..devices.cpu import make_threads_serial
from ..diff import print_module
from ..finding import CheckError
from ..passes import BEFORE_PASSES
from ..steps import step_label
from .culprit import Culprit
from .outputs import find_bound, find_wrong
from .search import CODE_GENERATION
from .templates import (
    COMPARE,
    CUSTOM_PASS,
    END_OF_FAULT,
    END_OF_NUMBERS,
    FIRST_LINE,
    HEAD,
    REFUSED,
    RUN_AGAINST_VALUES,
    RUN_ON_CPU,
    RUN_ON_GPU,
    SHOW_CHANGE,
    SHOW_SOURCE,
    WATCH_PASS,
)

OF_TVM = ("tirx.", "s_tir.")
"""How TVM's own passes are called."""
SECONDS = 300.0
"""How long a reproducer may run."""
_SHOWN = re.compile(r"[1-9]\d* of \d+ elements are wrong$|TVM refuses the module: ")
VALUES = 256
"""So many are written down where a kernel itself is wrong."""


def write_reproducer(culprit: Culprit, path: Path) -> None:
    """Write the script of a culprit.

    It holds the kernel and the scheduled module as TVMScript, runs both, and ends with an
    assertion that fails. Where a CPU does not show the fault, it takes a GPU; without one, and for
    a pass that is none of TVM's own, it prints what changed and ends with 2. See
    `run_reproducer`. Raises `CheckError` for a file that this function did not write,
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


@dataclass(frozen=True)
class Reproduction:
    """A run of a reproducer on this machine.

    Attributes
    ----------
    is_shown : the fault was seen
    text : what it was seen by, or why it was not: the script's last line
    """

    is_shown: bool
    text: str


def run_reproducer(path: Path, *, seconds: float = SECONDS) -> Reproduction:
    """Run a script that `write_reproducer` wrote, in a process of its own."""
    try:
        done = subprocess.run(
            [sys.executable, str(path)], capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return Reproduction(False, f"it does not end within {seconds:g} s")
    printed = [line for line in done.stdout.splitlines() if line.strip()]
    failed = [line for line in done.stderr.splitlines() if line.strip()]
    wrong = [line for line in printed if _SHOWN.match(line)]
    if done.returncode == 1 and wrong and (not failed or failed[-1] == "AssertionError"):
        return Reproduction(True, wrong[-1])
    if done.returncode < 0:
        return Reproduction(
            True, f"it ends with the signal {signal.Signals(-done.returncode).name}"
        )
    if done.returncode == 1 and failed:
        return Reproduction(False, failed[-1])
    return Reproduction(False, printed[-1] if printed else f"it ends with {done.returncode}")


def make_reproducer(culprit: Culprit) -> str:
    """The text of the script."""
    if culprit.kernel is None:
        raise CheckError("nothing says what is right; give find_bad_pass the kernel")
    if culprit.run is not None and (culprit.kind, culprit.number) == ("step", 0):
        return _make_script_of_kernel(culprit, culprit.run.problem)
    serial = make_threads_serial(culprit.module)
    bound = _find_bound(culprit)
    on_cpu = _is_wrong_on_cpu(culprit, serial, bound)
    return "".join(
        [
            HEAD.format(about=_describe(culprit), half_types=_import_half_types(culprit.kernel)),
            quote("KERNEL", print_module(culprit.kernel)),
            "\n# The step" + (", its thread bindings made serial.\n" if on_cpu else ".\n"),
            quote("MODULE", print_module(serial if on_cpu else culprit.module)),
            f"OPTIONS = {find_pass_options(culprit.module)}  # of TVM's pass context\n",
            quote("DIFF", "\n".join(culprit.diff.lines) + "\n"),
            *_make_end(culprit, bound, on_cpu=on_cpu),
        ]
    )


def _make_end(culprit: Culprit, bound: float, *, on_cpu: bool) -> list[str]:
    """What the script does with its modules."""
    target = culprit.target
    if reason := _explain_custom(culprit):
        return [CUSTOM_PASS.format(reason=reason)]
    if culprit.kind == "refused":
        return [REFUSED.format(target=target)]
    run = RUN_ON_CPU if on_cpu else RUN_ON_GPU.format(target=target)
    change = SHOW_CHANGE
    if culprit.source:
        change = SHOW_SOURCE.format(target=target)
    elif culprit.is_pass and culprit.name != CODE_GENERATION:
        change = WATCH_PASS.format(name=culprit.name, number=culprit.number, target=target)
    end = END_OF_NUMBERS if culprit.finding.check == "numbers" else END_OF_FAULT
    return [run, change, COMPARE.format(bound=bound), end]


def _make_script_of_kernel(culprit: Culprit, problem: Problem) -> str:
    """No module is right: the first values that NumPy has are written down."""
    inputs = _make_arguments(culprit.module)[:-1]
    right = problem.reference(inputs)[-1].ravel()[:VALUES]
    bound = float(np.max(problem.error_bound(inputs)[-1], initial=0))
    return "".join(
        [
            HEAD.format(about=_describe(culprit), half_types=_import_half_types(culprit.module)),
            quote("MODULE", print_module(culprit.module)),
            RUN_AGAINST_VALUES.format(values=_spell(right), count=len(right)),
            COMPARE.format(bound=0.0 if problem.is_exact else bound),
            END_OF_NUMBERS,
        ]
    )


def _spell(values: Any) -> str:
    """Numbers as Python reads them back; infinities and NaN have no literal."""
    spelled = [
        repr(value) if math.isfinite(value) else f'float("{value}")' for value in values.tolist()
    ]
    return f"[{', '.join(spelled)}]"


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


def quote(name: str, text: str) -> str:
    """The statement that gives a name a text, whatever the text holds.

    Names of blocks and passes stand in it, and anybody may choose those.
    """
    if "'''" not in text and text.endswith("\n") and text.replace("\n", "").isprintable():
        return f"{name} = r'''\n{text}'''\n"
    lines = "".join(f"    {line!r}\n" for line in text.splitlines(keepends=True))
    return f"{name} = (\n{lines})\n" if lines else f'{name} = ""\n'


def _import_half_types(kernel: tvm.IRModule) -> str:
    dtypes = {str(buffer.dtype) for buffer in kernel["main"].params}
    own = any(one.startswith(("bfloat", "float8")) for one in dtypes)
    return "import ml_dtypes  # noqa: F401: gives NumPy the types\n" if own else ""


def _explain_custom(culprit: Culprit) -> str:
    """Why the script cannot run the pass; empty where it can, or where no pass is to be shown."""
    if not culprit.is_pass:
        return ""
    if culprit.is_custom:
        return f"{culprit.name} ran in a pipeline that is not TVM's default one"
    is_pass = culprit.name not in (CODE_GENERATION, BEFORE_PASSES)
    if is_pass and not culprit.name.startswith(OF_TVM):
        return f"{culprit.name} is no pass of TVM's own"
    return ""


def _is_wrong_on_cpu(culprit: Culprit, serial: tvm.IRModule, bound: float) -> bool:
    """Whether the script's own inputs show the fault on a CPU; stray writes are not tried."""
    is_tried = not culprit.finding.message.startswith("out of bounds")
    if culprit.kind == "refused" or not is_tried or _explain_custom(culprit):
        return False
    try:
        right, wrong = (_run(module) for module in (culprit.kernel, serial))
    except DeviceError:
        return False
    return bool(find_wrong(wrong, right, bound).any())


def _find_bound(culprit: Culprit) -> float:
    """How far apart two right modules may be on the script's inputs, which are whole numbers."""
    try:
        if culprit.run is not None:
            problem = culprit.run.problem
            if problem.is_exact:
                return 0.0
            inputs = _make_arguments(culprit.kernel)[:-1]
            return 2 * float(np.max(problem.error_bound(inputs)[-1], initial=0))
        return find_bound(CpuDevice().compile(culprit.kernel)(_make_arguments(culprit.kernel))[-1])
    except (DeviceError, KernelError):
        return 0.0


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
