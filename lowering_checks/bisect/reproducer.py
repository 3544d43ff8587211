"""Writes a script that shows a first bad step or pass, with TVM and NumPy alone where these can.

The parts of the script stand at the end of this file.
"""

from __future__ import annotations

import math
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import tvm

from tirstep.files import may_replace, require_writable, write_file
from tirstep.modules import AnyProblem
from tirstep.modules.numeric import Array
from tirstep.transforms import get_pass_options
from tirstep.transforms.passes.serial import make_threads_serial

from ..compile.passes import BEFORE_PASSES
from ..devices.device import is_scalar
from ..steps import CheckError, print_module, step_label
from .bisection import CODE_GENERATION, HOST
from .first_bad import FirstBad
from .script_case import ScriptCase, find_case, plan_case
from .states import STATES, State

PREFIXES = ("tirx.", "s_tir.")
"""Of the names of TVM's own passes."""
SECONDS = 300.0
"""How long a reproducer may run."""
_SHOWN = re.compile(
    r"[1-9]\d* of \d+ elements are wrong$|TVM refuses the module: |"
    r"the interpreter finds: "
)
VALUES = 256
"""How many right values are written down where a kernel itself is wrong."""


def write_reproducer(bad: FirstBad, path: Path) -> None:
    """Write the script of a first bad step or pass.

    It holds the kernel and the scheduled module as TVMScript, runs both, and ends with an
    assertion that fails. Where a CPU does not show the wrong result, it takes a GPU; without one,
    and for a pass that is none of TVM's own, it runs tirstep's interpreter on the states before and
    after, where that judged them (`State`), or else prints what changed and ends with 2. See
    `run_reproducer`. Raises `CheckError` for a file that this function did not write,
    and where the kernel is not known.
    """
    require_ours(path)
    write_file(path, make_reproducer(bad))


def require_ours(path: Path) -> None:
    """Raise `CheckError` for a file that `write_reproducer` would not overwrite.

    Raises `OSError` where it could not be written. A script that was cut short is ours.
    """
    if not may_replace(path, FIRST_LINE):
        raise CheckError(f"{path} is no script of tirstep why's; it stays: give another name")
    require_writable(path)


@dataclass(frozen=True)
class Reproduction:
    """A run of a reproducer on this machine.

    Attributes
    ----------
    is_shown : the wrong result was seen
    text : the script's last line: what shows it, or why it was not seen
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


def make_reproducer(bad: FirstBad) -> str:
    """The text of the script."""
    if bad.kernel is None:
        raise CheckError(
            "the kernel is not known, so there is no right result; give find_bad_pass the kernel"
        )
    if bad.run is not None and ((bad.kind, bad.number) == ("step", 0) or _spoils_kernel(bad)):
        return _make_script_of_kernel(bad, bad.run.problem)
    serial = make_threads_serial(bad.module)
    case, on_cpu = _choose_case(bad, serial)
    return "".join(
        [
            _make_head(_describe(bad), bad.kernel),
            quote("KERNEL", print_module(bad.kernel)),
            "\n# The step" + (", its thread bindings made serial.\n" if on_cpu else ".\n"),
            quote("MODULE", print_module(serial if on_cpu else bad.module)),
            f"OPTIONS = {get_pass_options(bad.module)}  # of TVM's pass context\n",
            quote("DIFF", "\n".join(bad.diff.lines) + "\n"),
            *_make_end(bad, case, on_cpu=on_cpu),
        ]
    )


def _spoils_kernel(bad: FirstBad) -> bool:
    """Whether a pass for a CPU makes the kernel wrong as it was written, and the script may run it.

    Then what LLVM makes of the kernel is wrong as well, and only the reference knows what is right.
    """
    is_of_kernel = bad.is_pass and bad.step is not None and bad.step.index == 0
    is_run = bad.finding.check == "numbers" and bad.kind != "refused" and not _explain_custom(bad)
    return is_of_kernel and is_run and bad.target.startswith(HOST)


def _choose_case(bad: FirstBad, serial: tvm.IRModule) -> tuple[ScriptCase, bool]:
    """What the script runs on, and whether a CPU shows it; out-of-bounds accesses are not tried."""
    is_tried = not bad.finding.message.startswith("out of bounds")
    if bad.kind == "refused" or not is_tried or _explain_custom(bad):
        return plan_case(bad), False
    case, is_shown = find_case(bad, serial, lambda case: case.run(bad.kernel))
    return case, is_shown or bad.target.startswith(HOST)


def _make_end(bad: FirstBad, case: ScriptCase, *, on_cpu: bool) -> list[str]:
    """What the script does with its modules."""
    target = bad.target
    reason = _explain_custom(bad)
    if reason and bad.states is not None and bad.kind != "refused":
        run = case.write() + RUN_KERNEL + f"print(DIFF)\nprint({reason!r})\n"
        return [run, _write_states(bad.states, case)]
    if reason:
        return [CUSTOM_PASS.format(reason=reason)]
    if bad.kind == "refused":
        return [REFUSED.format(target=target)]
    run = RUN_ON_CPU if on_cpu else RUN_ON_GPU.format(target=target)
    run = case.write() + run
    change = SHOW_CHANGE
    if bad.source:
        change = SHOW_SOURCE.format(target=target)
    elif bad.is_pass and bad.name != CODE_GENERATION:
        change = WATCH_PASS.format(name=bad.name, number=bad.number, target=target)
    if bad.states is not None and not on_cpu:
        return [run, change, _write_states(bad.states, case)]
    end = END_OF_NUMBERS if bad.finding.check == "numbers" else END_OF_FAULTS
    return [run, change, COMPARE.format(bounds=_spell(case.bounds)), end]


def _write_states(states: tuple[State, State], case: ScriptCase) -> str:
    before, after = states
    return STATES.format(
        bounds=_spell(case.bounds), before=before.write("BEFORE"), after=after.write("AFTER")
    )


def _make_script_of_kernel(bad: FirstBad, problem: AnyProblem) -> str:
    """No module is right: the first values that the reference has are written down."""

    def refer(case: ScriptCase) -> list[Array]:
        return problem.reference(case.take_inputs(problem))

    case, _ = find_case(bad, bad.module, refer)
    right = [array.ravel()[:VALUES] for array in refer(case)]
    return "".join(
        [
            _make_head(_describe(bad), bad.module),
            quote("MODULE", print_module(bad.module)),
            case.write(),
            RUN_AGAINST_VALUES.format(
                source=problem.reference_name,
                values=", ".join(_spell(array.tolist()) for array in right),
            ),
            COMPARE.format(bounds=_spell(case.bounds)),
            END_OF_NUMBERS,
        ]
    )


def _spell(values: Iterable[float]) -> str:
    """Numbers as Python reads them back; infinities and NaN have no literal."""
    spelled = [repr(value) if math.isfinite(value) else f'float("{value}")' for value in values]
    return f"[{', '.join(spelled)}]"


def _describe(bad: FirstBad) -> str:
    lines = [f"{bad}"]
    if bad.run is not None and bad.step is not None:
        lines += [
            "",
            f"{bad.run.problem}",
            f"recipe {bad.run.recipe.name}, config {dict(bad.run.config)}, "
            f"step {step_label(bad.step)}, seed {bad.seed}, target {bad.target}",
        ]
    lines += [f"not run: {text}" for text in bad.not_run]
    return "\n".join(lines).replace("\\", "/").replace('"""', "'''")


def quote(name: str, text: str) -> str:
    """The statement that gives a name a text, whatever the text holds.

    Names of blocks and passes stand in it, which may be anything.
    """
    if "'''" not in text and text.endswith("\n") and text.replace("\n", "").isprintable():
        return f"{name} = r'''\n{text}'''\n"
    lines = "".join(f"    {line!r}\n" for line in text.splitlines(keepends=True))
    return f"{name} = (\n{lines})\n" if lines else f'{name} = ""\n'


def _make_head(about: str, kernel: tvm.IRModule) -> str:
    series = ".".join(tvm.__version__.split(".")[:2])
    return HEAD.format(about=about, series=series, half_types=import_half_types(kernel))


def import_half_types(kernel: tvm.IRModule) -> str:
    """The import that a script for a module with bfloat16 or float8 needs; else ""."""
    buffers = [each for each in kernel["main"].params if not is_scalar(each)]
    dtypes = {str(buffer.dtype) for buffer in buffers}
    own = any(dtype.startswith(("bfloat", "float8")) for dtype in dtypes)
    return "import ml_dtypes  # noqa: F401: gives NumPy the types\n" if own else ""


def _explain_custom(bad: FirstBad) -> str:
    """Why the script cannot run the pass; empty where it can, or where no pass is to be shown."""
    if not bad.is_pass:
        return ""
    if bad.is_custom:
        return f"{bad.name} ran in a pipeline that is not TVM's default one"
    is_pass = bad.name not in (CODE_GENERATION, BEFORE_PASSES)
    if is_pass and not bad.name.startswith(PREFIXES):
        return f"{bad.name} is no pass of TVM's own"
    return ""


# The parts of the script: it ends with 1 where the wrong result shows, with 2 where it cannot.

FIRST_LINE = "# Written by `tirstep why`: it may be overwritten."

HEAD = (
    FIRST_LINE
    + '''
"""{about}

Run it with Python, NumPy and apache-tvm {series}. It ends with 1 where the result is wrong, and
with 2 where this machine cannot show it.
"""

import sys

import numpy as np
{half_types}import tvm
from tvm.script import from_source

# What is to be computed.
'''
)

ARGUMENTS = '''

def make_arguments(module):
    """Whole numbers; what is only written begins with zeros."""
    random = np.random.default_rng(SEED)
    arrays = []
    for parameter, shape, drawn in zip(module["main"].params, SHAPES, DRAWN):
        is_tensor = hasattr(parameter, "shape")
        dtype = str(getattr(parameter, "dtype", None) or parameter.ty)
        low, high = drawn or (0, 0)
        array = np.asarray(random.integers(low, high + 1, shape)).astype(dtype)
        arrays.append(array if is_tensor else array.item())
    return arrays


def run(module, target, device, options):
    arguments = [
        tvm.runtime.tensor(each, device) if isinstance(each, np.ndarray) else each
        for each in make_arguments(module)
    ]
    with tvm.transform.PassContext(config=options):
        tvm.compile(module, target=target)["main"](*arguments)
    return [arguments[place].numpy().astype("float64") for place in OUTPUTS]


'''

RUN_ON_CPU = (
    ARGUMENTS
    + """TARGET = "llvm"
kernel, module = from_source(KERNEL), from_source(MODULE)
right = run(kernel, "llvm", tvm.cpu(), {})
wrong = run(module, "llvm", tvm.cpu(), OPTIONS)
"""
)

RUN_ON_GPU = (
    ARGUMENTS
    + """TARGET = {target!r}
kernel, module = from_source(KERNEL), from_source(MODULE)
right = run(kernel, "llvm", tvm.cpu(), {{}})
wrong = run(module, TARGET, tvm.cuda(), OPTIONS) if tvm.cuda().exist else None
"""
)

RUN_KERNEL = (
    ARGUMENTS
    + """kernel = from_source(KERNEL)
right, wrong = run(kernel, "llvm", tvm.cpu(), {}), None
"""
)

RUN_AGAINST_VALUES = (
    ARGUMENTS
    + """# The first values of each output, by {source}.
right = [np.array(values, dtype="float64") for values in ({values},)]
wrong = run(from_source(MODULE), "llvm", tvm.cpu(), {{}})
wrong = [array.ravel()[: len(values)] for array, values in zip(wrong, right)]
"""
)

WATCH_PASS = '''

NUMBER, NAME = {number}, {name!r}


@tvm.ir.instrument.pass_instrument
class Watch:
    """Prints the module around one pass of the compilation."""

    count, running = 0, []

    def run_before_pass(self, module, info):
        if info.name not in ("sequential", "_pipeline"):
            self.count += 1
            self.running.append(self.count)
            self.show("before", module, info)

    def run_after_pass(self, module, info):
        if info.name not in ("sequential", "_pipeline"):
            self.show("after", module, info)
            self.running.pop()

    def show(self, when, module, info):
        if (info.name, self.running[-1]) == (NAME, NUMBER):
            print(f"# {{when}} {{info.name}}\\n{{module.script()}}\\n")


with tvm.transform.PassContext(config=OPTIONS, instruments=[Watch()]):
    tvm.compile(module, target={target!r})
'''

SHOW_SOURCE = """
# The module is right after the last pass that could be run, and the source is wrong.
with tvm.transform.PassContext(config=OPTIONS):
    print(tvm.compile(module, target={target!r}).mod.imports[0].inspect_source())
"""

SHOW_CHANGE = """
print(DIFF)
"""

CUSTOM_PASS = """
print(DIFF)
print({reason!r} + ", so this script cannot run it: above is what changed.")
sys.exit(2)
"""

REFUSED = """
TARGET = {target!r}
print(DIFF)
try:
    with tvm.transform.PassContext(config=OPTIONS):
        tvm.compile(from_source(MODULE), target=TARGET)
except Exception as error:
    print("TVM refuses the module:", str(error).strip().splitlines()[-1])
    sys.exit(1)
print("This TVM does not refuse the module.")
"""

COMPARE = """
BOUNDS = {bounds}  # of the errors of each output, in absolute numbers
if wrong is None:
    print("There is no GPU here that TVM can use, and a CPU does not show it.")
    sys.exit(2)
found = []
for name, true, got, bound in zip(NAMES, right, wrong, BOUNDS):
    found.append(np.isclose(got, true, rtol=0, atol=bound, equal_nan=True).ravel())
    print(f"right {{name}}:", true.ravel()[:16])
    print(f"wrong {{name}}:", got.ravel()[:16])
is_right = np.concatenate(found)
print(f"{{np.count_nonzero(~is_right)}} of {{is_right.size}} elements are wrong")
"""

END_OF_NUMBERS = """assert is_right.all()
print("The result is right here.")
"""

END_OF_FAULTS = """assert is_right.all()
print("The numbers are right in this run, which they may be in spite of what is found above.")
sys.exit(2)
"""
