"""Writes a script that shows a first bad step or pass.

It does so with TVM and NumPy alone where a CPU shows it; elsewhere it searches for it again, with
tirstep. The parts of the script stand at the end.
"""

from __future__ import annotations

import math
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm_ffi import structural_equal

from tirstep.files import may_replace, require_writable, write_file
from tirstep.modules import KernelError, Problem
from tirstep.modules.dtypes import dtype_facts
from tirstep.modules.inputs import Array
from tirstep.transforms import get_pass_options, get_pipeline
from tirstep.transforms.passes.serial import make_threads_serial

from ..compile.compiling import MAIN
from ..compile.passes import BEFORE_PASSES
from ..device import is_scalar
from ..devices import CpuDevice, DeviceError
from ..judgement import WHOLE_WORK
from ..numeric import find_wrong, get_default_bound
from ..reference import ModuleProblem
from ..reference.functions import close_sizes
from ..steps import CheckError, print_module, step_label
from .bisection import CODE_GENERATION, HOST
from .first_bad import FirstBad

PREFIXES = ("tirx.", "s_tir.", "tirstep.")
"""Prefixes of the names of passes that a script runs."""
Drawn = tuple[tuple[int, int] | None, ...]
SECONDS = 300.0
"""How long a reproducer may run."""
_SHOWN = re.compile(
    r"[1-9]\d* of \d+ elements are wrong$|TVM refuses the module: |tirstep finds: |WRONG: "
)
VALUES = 256
"""How many right values are written down where a kernel itself is wrong."""
REACH = 3
"""Up to which whole numbers are drawn for floats: most sums of them are exact."""
FAR = 4000
"""Where those show nothing: numbers that no narrower float than float32 holds."""
SEEDS = 3


def write_reproducer(bad: FirstBad, path: Path) -> None:
    """Write the script of a first bad step or pass.

    It holds the kernel and the scheduled module as TVMScript, runs both, and ends with an
    assertion that fails. Where a CPU does not show the wrong result, it has tirstep search for it;
    for a pass that is none of TVM's or tirstep's it prints what changed and ends with 2. See
    `run_reproducer`. Raises `CheckError` for a file that this function did not write,
    and where the kernel is not known.
    """
    require_ours(path)
    write_file(path, _make_script(bad))


def require_ours(path: Path, command: str = "why", advice: str = "give another name") -> None:
    """Raise `CheckError` for a file that is no script of a command's, which may not overwrite it.

    Raises `OSError` where it could not be written. A script that was cut short is ours.
    """
    if not may_replace(path, FIRST_LINE.format(command)):
        raise CheckError(f"{path} is not a script of tirstep {command}, and is kept; {advice}")
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
    """Run a script that `write_reproducer` or ``tirstep pass`` wrote, in a process of its own."""
    try:
        done = subprocess.run(
            [sys.executable, str(path)], capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return Reproduction(False, f"it does not end within {seconds:g} s")
    printed = [line for line in done.stdout.splitlines() if line.strip()]
    failed = [line for line in done.stderr.splitlines() if line.strip()]
    wrong = [line for line in printed if _SHOWN.match(line)]
    # TVM may warn there, too.
    has_raised = "Traceback (most recent call last):" in failed and failed[-1] != "AssertionError"
    if done.returncode == 1 and wrong and not has_raised:
        return Reproduction(True, wrong[-1])
    if done.returncode < 0:
        ended = f"it ends with the signal {signal.Signals(-done.returncode).name}"
        return Reproduction(True, ended)
    if done.returncode == 1 and failed:
        return Reproduction(False, failed[-1])
    return Reproduction(False, printed[-1] if printed else f"it ends with {done.returncode}")


def _make_script(bad: FirstBad) -> str:
    kernel, problem = bad.kernel, None if bad.run is None else bad.run.problem
    if kernel is None:
        raise CheckError("without the kernel there is no expected result; give it to find_bad_pass")
    reason = ""  # why the script cannot run the pass
    if bad.is_pass and not bad.name.startswith((*PREFIXES, CODE_GENERATION, BEFORE_PASSES)):
        reason = f"{bad.name} is not one of TVM's passes"
    # TVM alone runs its own pipeline, whichever a module asks for.
    is_by_tvm = not bad.is_pass or get_pipeline(bad.module) == "default"
    is_tried = bad.kind != "refused" and not reason and is_by_tvm
    # What LLVM makes of the kernel is wrong as well where a pass for a CPU spoils it.
    is_input = bad.step is not None and bad.step.index == 0
    is_spoilt = bad.is_pass and bad.target.startswith(HOST) and bad.finding.check == "numbers"
    is_kernel = is_input and is_tried and (is_spoilt or (bad.kind, bad.number) == ("step", 0))

    series = ".".join(tvm.__version__.split(".")[:2])
    about = [f"{bad}"]
    if bad.run is not None and bad.step is not None:
        about += [
            f"\n{bad.run.problem}",
            f"recipe {bad.run.recipe.name}, config {dict(bad.run.config)}, "
            f"step {step_label(bad.step)}, seed {bad.seed}, target {bad.target}",
        ]
    about += [f"not run: {text}" for text in bad.not_run]
    said = "\n".join(about).replace("\\", "/").replace('"""', "'''")
    module, parameters = bad.module, bad.module[MAIN].params
    dtypes = [str(it.ty if is_scalar(it) else it.dtype) for it in parameters]
    is_half = any(dtype.startswith(("bfloat", "float8")) for dtype in dtypes)
    half = "import ml_dtypes  # noqa: F401: gives NumPy the types\n" * is_half
    serial = make_threads_serial(module)

    def begin(is_shown: bool) -> list[str]:
        """The parts up to what changed."""
        first = FIRST_LINE.format("why")
        parts = [HEAD.format(first_line=first, about=said, series=series, half=half)]
        if not is_kernel:  # a CPU runs it, whose threads are loops
            text = print_module(make_threads_serial(kernel))
            parts += ["# What is to be computed.\n", quote("KERNEL", text)]
        parts += [
            "\n# The step" + (", its thread bindings made serial.\n" if is_shown else ".\n"),
            quote("MODULE", print_module(serial if is_shown else module)),
            f"BEFORE = {''.join(parts).count(chr(10)) + 3}  # lines of this file before its own\n",
            f"OPTIONS = {get_pass_options(module)}  # of TVM's pass context\n",
            f"TARGET = {(HOST if is_shown else bad.target)!r}\n",
            quote("DIFF", "\n".join(bad.diff.lines) + "\n"),
            "print(DIFF)\n",
        ]
        return parts

    if reason:
        return "".join([*begin(False), CUSTOM_PASS.format(reason=reason)])
    if bad.kind == "refused" and is_by_tvm:
        return "".join([*begin(False), REFUSED])
    if isinstance(problem, ModuleProblem):
        sizes = {name: problem.shape[name] for name in problem.symbolic}
        reference = problem.kernel.reference if is_kernel else None
        right = "MODULE" if is_kernel else "KERNEL"
        judged = [f"SIZES = {sizes}\n"]
        if reference is not None:
            right, left = "REFERENCE", problem.symbolic
            closed = close_sizes(reference, problem.shape, problem.kernel.name, left=left)
            judged.append(quote(right, print_module(tvm.IRModule({MAIN: closed}))))
        given, recorded = problem.kernel.recorded, ""
        whole = [it if it is not None and it.dtype.kind in "biu" else None for it in given]
        if 0 < sum(it.size for it in whole if it is not None) < VALUES:
            listed = [
                str(it) if it is None else f'np.array({it.tolist()}, "{it.dtype}")' for it in whole
            ]
            judged.append(f"RECORDED = [{', '.join(listed)}]  # the integers of a call\n")
            recorded = ", recorded=RECORDED"
        judged.append(TIRSTEP + JUDGE.format(right=right, seed=bad.seed, recorded=recorded))
        if problem.find_refusal() is not None or problem.work > WHOLE_WORK:
            return "".join([*begin(False), *judged])

    plan, shapes, outputs = _plan_inputs(bad, dtypes)

    def make_arguments(drawn: Drawn, seed: int) -> list[Array]:
        """Those that the script makes, by its own lines."""
        own: dict[str, Any] = {"np": np, "SEED": seed, "DRAWN": drawn, "SHAPES": shapes}
        exec(ARGUMENTS, own)
        made: list[Array] = own["make_arguments"](module)
        return made

    def run(module: tvm.IRModule, arguments: Sequence[Array]) -> list[Array]:
        """The outputs, by LLVM; raises `DeviceError`."""
        after = CpuDevice().compile(module)(arguments)
        return [after[place].astype(np.float64) for place in outputs]

    def refer(arguments: Sequence[Array]) -> Sequence[Array]:
        if is_kernel and problem is not None:  # only the reference knows what is right
            return problem.reference(problem.take_inputs(arguments))
        return run(kernel, arguments)

    # A kernel without threads, which a CPU runs as it stands; else it is tried.
    is_shown = is_kernel and bool(structural_equal(serial, module))
    is_shown = is_shown and CpuDevice().find_obstacle(serial) is None
    far = tuple((-FAR, FAR) if each == (-REACH, REACH) else each for each in plan)
    tried = [*((plan, seed) for seed in range(SEEDS)), (far, 0)]
    chosen: tuple[Drawn, int, Sequence[Any]] | None = None
    for drawn, seed in tried:
        arguments = make_arguments(drawn, seed)
        # The bounds that hold between two right modules.
        bounds: Sequence[Any] = [0.0] * len(outputs)
        with suppress(DeviceError, KernelError):
            if problem is None:
                after = CpuDevice().compile(kernel)(arguments)
                bounds = [get_default_bound(after[place]) for place in outputs]
            else:
                inputs, is_exact = problem.take_inputs(arguments), False
                if isinstance(problem, ModuleProblem):
                    is_exact = problem.answer(inputs).is_exact
                elif isinstance(problem, Problem):
                    is_exact = problem.measure_sums(inputs).is_exact
                if not is_exact:
                    errors = problem.error_bound(inputs)
                    bounds = [2 * float(np.max(bound, initial=0)) for bound in errors]
        chosen = chosen or (drawn, seed, bounds)
        if not is_tried or bad.finding.message.startswith("out of bounds"):
            break
        if not np.isfinite(bounds).all():  # nothing is known of some elements
            continue
        try:
            pairs = zip(run(serial, arguments), refer(arguments), bounds, strict=True)
        except (DeviceError, KernelError):
            break
        if any(find_wrong(got, it, (it - bound, it + bound)).any() for got, it, bound in pairs):
            chosen, is_shown = (drawn, seed, bounds), True
            break
    else:  # no inputs that a script draws show it
        is_shown = is_shown and not isinstance(problem, ModuleProblem)
    assert chosen is not None
    drawn, seed, bounds = chosen
    parts = begin(is_shown)
    names = [str(parameters[place].name) for place in outputs]
    parts += [
        f"\nSEED = {seed}\n",
        "# The least and the largest integer of each argument; None for an output.\n",
        f"DRAWN = {list(drawn)}\n",
        f"SHAPES = {[list(shape) for shape in shapes]}\n",
        f"OUTPUTS, NAMES = {outputs}, {names}\n",
        f"BOUNDS = {_spell(bounds)}  # of the errors of each output, in absolute numbers\n",
        ARGUMENTS,
    ]
    if is_kernel and isinstance(problem, ModuleProblem) and not is_shown:
        return "".join([*parts, *judged])
    if is_kernel and problem is not None:
        known = refer(make_arguments(drawn, seed))
        values = ", ".join(_spell(array.ravel()[:VALUES].tolist()) for array in known)
        parts.append(KNOWN.format(source=problem.reference_name, values=values))
    else:
        parts.append('right = run(from_source(KERNEL), "llvm", {})\n')
    return "".join([*parts, COMPARE if is_shown else TIRSTEP + SEARCH])


def _spell(values: Iterable[float]) -> str:
    """Numbers as Python reads them back; infinities and NaN have no literal."""
    spelled = [repr(value) if math.isfinite(value) else f'float("{value}")' for value in values]
    return f"[{', '.join(spelled)}]"


def quote(name: str, text: str) -> str:
    """The statement that gives a name a text, whatever the text holds.

    Names of blocks and passes stand in it, which may be anything.
    """
    if "'''" not in text and text.endswith("\n") and text.replace("\n", "").isprintable():
        return f"{name} = r'''\n{text}'''\n"
    lines = "".join(f"    {line!r}\n" for line in text.splitlines(keepends=True))
    return f"{name} = (\n{lines})\n" if lines else f'{name} = ""\n'


def _plan_inputs(
    bad: FirstBad, dtypes: Sequence[str]
) -> tuple[Drawn, list[tuple[int, ...]], list[int]]:
    """From which to which whole number each argument is: floats up to `REACH`, integers in the
    range that was searched with, since they may be indices; a scalar is what it was, and None what
    is only written. Then the arguments' shapes, and the places of what is compared.
    """
    rounds, own, in_out = [bad.arguments], list[int](), frozenset[int]()
    if bad.run is not None:
        problem = bad.run.problem
        own = [at for at, each in enumerate(problem.arguments) if each in problem.outputs]
        in_out = frozenset(problem.in_out)
        blanks = [np.zeros(each.shape) for each in problem.outputs]
        planted = (inputs for _, inputs in problem.planted_inputs(bad.seed))
        inputs = (*problem.integer_rounds(bad.seed), *planted)
        rounds = [tuple(problem.make_arguments(each, blanks)) for each in inputs]
    outputs = sorted({*bad.outputs, *own})  # of a reference parameters may have other names
    scalars = [is_scalar(it) for it in bad.module[MAIN].params]

    def plan(place: int, given: Sequence[Array]) -> tuple[int, int] | None:
        is_float, scalar = dtype_facts(dtypes[place]).is_float, scalars[place]
        flat = np.concatenate([np.asarray(it).astype(float).ravel() for it in given])
        is_of_one = bool(np.isnan(flat).all() or (flat == flat[:1]).all())
        if place in outputs and (is_of_one if bad.run is None else place not in in_out):
            return None
        if scalar and np.isfinite(flat[0]):
            return (round(flat[0]) or int(is_float),) * 2
        if is_float or not flat.size:
            return -REACH, REACH
        return min(int(np.min(it)) for it in given), max(int(np.max(it)) for it in given)

    drawn = map(plan, range(len(dtypes)), zip(*rounds, strict=True))
    return tuple(drawn), [np.shape(each) for each in rounds[0]], outputs


# The parts of the script: it ends with 1 where the wrong result shows, with 2 where it cannot.

FIRST_LINE = "# Written by `tirstep {}`: it may be overwritten."

HEAD = '''{first_line}
"""{about}

Run it with Python, NumPy and apache-tvm {series}. It exits with 1 if the result is wrong, and
with 2 if this machine cannot show that.
"""

import sys

import numpy as np
{half}import tvm
from tvm.script import from_source

'''

ARGUMENTS = '''

def make_arguments(module):
    """Integers; outputs start as zeros."""
    random = np.random.default_rng(SEED)
    arrays = []
    for parameter, shape, drawn in zip(module["main"].params, SHAPES, DRAWN):
        dtype = str(getattr(parameter, "dtype", None) or parameter.ty)
        low, high = drawn or (0, 0)
        arrays.append(np.asarray(random.integers(low, high + 1, shape)).astype(dtype))
    return arrays


def run(module, target, options):
    arguments = [
        tvm.runtime.tensor(array) if hasattr(parameter, "shape") else array.item()
        for parameter, array in zip(module["main"].params, make_arguments(module))
    ]
    with tvm.transform.PassContext(config=options):
        tvm.compile(module, target=target)["main"](*arguments)
    return [arguments[place].numpy() for place in OUTPUTS]


'''

KNOWN = """# The first values of each output, by {source}.
right = [np.array(values, dtype="float64") for values in ({values},)]
"""

COMPARE = """wrong = run(from_source(MODULE), TARGET, OPTIONS)
found = []
for name, true, got, bound in zip(NAMES, right, wrong, BOUNDS):
    true, got = true.ravel().astype("float64"), got.ravel()[: true.size].astype("float64")
    found.append(np.isclose(got, true, rtol=0, atol=bound, equal_nan=True))
    print(f"right {name}:", true[:16])
    print(f"wrong {name}:", got[:16])
is_right = np.concatenate(found)
print(f"{np.count_nonzero(~is_right)} of {is_right.size} elements are wrong")
assert is_right.all()
print("The result is right here.")
"""

TIRSTEP = """try:
    from tirstep.lowering_checks import bisect, get_device, judgement, reference
except ImportError:
    print("A CPU with only TVM does not show it; with tirstep installed, this script does.")
    sys.exit(2)
"""

SEARCH = """module = from_source("\\n" * BEFORE + MODULE.lstrip())
given = make_arguments(module)
bad = bisect.find_bad_pass(module, given, right, TARGET, bounds=BOUNDS, outputs=OUTPUTS)
told = "nothing is wrong here" if bad is None else f"tirstep finds: {bad}"
print(told.replace("<str>", __file__.rpartition("/")[2]))
sys.exit(2 if bad is None else 1)
"""

JUDGE = """module = from_source("\\n" * BEFORE + MODULE.lstrip())
right = reference.ModuleKernel(from_source({right}), "main")
problem = reference.ModuleKernel(module, "main", reference=right{recorded}).problem(**SIZES)
device = get_device("simulator")
device = device if device.find_obstacle(module) is None else get_device("cpu")
judged = judgement.judge_numbers(problem, module, device, where="main", seed={seed})
told = f"tirstep finds: {{judged.findings[0]}}" if judged.findings else "nothing is wrong here"
print(told.replace("<str>", __file__.rpartition("/")[2]))
sys.exit(1 if judged.findings else 2)
"""

CUSTOM_PASS = """print({reason!r} + ", so this script cannot run it: above is what changed.")
sys.exit(2)
"""

REFUSED = """try:
    with tvm.transform.PassContext(config=OPTIONS):
        tvm.compile(from_source(MODULE), target=TARGET)
except Exception as error:
    print("TVM refuses the module:", str(error).strip().splitlines()[-1])
    sys.exit(1)
print("This TVM does not refuse the module.")
"""
