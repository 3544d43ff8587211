"""A plugin for pytest: goldens of TIR, and numbers on every device that can run a program.

It is loaded by its entry point, ``tirstep``, in every run of pytest beside which tirstep is
installed, and imports TVM when a test first takes one of its fixtures. See docs/own-programs.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tirstep.lowering_checks import Finding

UPDATE = "--update-golden"
ADVICE = f"if that is meant, run pytest {UPDATE} and read the change in git"
SUFFIX = ".tir.py"
"""Ending of goldens: Python for an editor, but not a file that pytest collects."""
_OWNERS = pytest.StashKey[dict[Path, str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option of goldens."""
    group = parser.getgroup("tirstep", "goldens of TIR")
    group.addoption(
        UPDATE, action="store_true", help="write the goldens of `tir_golden`, instead of checking"
    )


@pytest.fixture
def tir_golden(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Goldens of TIR: ``tir_golden(sch)`` compares a program with a file beside the test.

    ``pytest --update-golden`` writes the files; read in git what changed. It is refused under CI.
    """
    from tirstep.files import write_file
    from tirstep.lowering_checks import print_module
    from tirstep.lowering_checks.golden import check_golden_file, is_under_ci

    is_updating = bool(request.config.getoption(UPDATE))
    if is_updating and is_under_ci(os.environ):
        pytest.fail(
            f"goldens are not rewritten under CI (the environment has CI set); run pytest {UPDATE} "
            "on your machine and commit what it changed",
            pytrace=False,
        )
    folder, node = request.path.parent / "golden" / request.path.stem, request.node
    test = node.name if node.cls is None else f"{node.cls.__name__}-{node.name}"
    # Of this run, and of this test.
    owners, claimed = request.config.stash.setdefault(_OWNERS, {}), set[Path]()

    def hold(program: Any, name: str = "") -> None:
        """Hold a program against its golden; the test fails with the diff where they differ.

        Parameters
        ----------
        program : an IRModule, a PrimFunc, a Schedule, or a `Run`, whose steps have a golden each
        name : of the golden; needed where a test has several programs
        """
        __tracebackhide__ = True
        findings: list[Finding] = []
        for label, module in _list_modules(program):
            own = "-".join(filter(None, map(str, (test, name, label))))
            stem = re.sub(r"[^\w.+=]+", "-", re.sub(r"^(test_)+|(?<=-)test_", "", own)).strip("-")
            path, text = folder / f"{stem}{SUFFIX}", print_module(module)
            if path in claimed or owners.setdefault(path, node.nodeid) != node.nodeid:
                pytest.fail(
                    f"the golden {path.name} belongs to another program already; give this "
                    'one its own name, as tir_golden(module, "tiled")',
                    pytrace=False,
                )
            claimed.add(path)
            if not is_updating:
                findings += check_golden_file(path, module, where=stem, advice=ADVICE)
            elif not path.is_file() or path.read_bytes() != text.encode():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_file(path, text, durable=False)
        _fail_with(findings)

    return hold


Check = Callable[..., list[str]]


@pytest.fixture
def tir_check() -> Check:
    """Numbers: ``tir_check(sch, reference)`` runs a program wherever it can run.

    See `check_program`, which this is.
    """
    return check_program


def check_program(
    program: Any,
    reference: Any = None,
    *,
    devices: Sequence[str] | None = None,
    function: str | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
) -> list[str]:
    """Hold a program's numbers against a reference on each device; fail the test where they differ.

    Parameters
    ----------
    program : an IRModule, a PrimFunc, a Schedule, or a `Run`, whose steps are all checked
    reference : the program as it was before it was changed, a module or a PrimFunc, which is
        computed with its floats widened to float64; or a `Problem` of a kernel, which has its
        meaning in NumPy. Without it, a `Run` is compared with its kernel, and anything else with
        itself, widened
    devices : names of devices; by default "cpu", "simulator" and "cuda", where the program can run
    function : the name of the function to run, where the reference has several
    sizes : of a program that leaves some open: each by its name, as ``{"n": 100, "m": 24}``
    seed : of the random inputs

    Returns the names of the devices that ran it. What a device saw go wrong, a race, say, fails the
    test as well. A program whose threads exchange values, and that has no reference, is simulated
    without comparing its numbers; one that nothing can judge skips the test, with the reason.
    """
    __tracebackhide__ = True
    from tirstep.lowering_checks import CheckError, DeviceError, Run
    from tirstep.lowering_checks.comparison import require_same_arguments
    from tirstep.lowering_checks.devices import get_device, is_cuda_available
    from tirstep.lowering_checks.judgement import Status, judge_numbers
    from tirstep.lowering_checks.reference import ModuleKernel
    from tirstep.modules import AnyProblem, KernelError

    def pose(module: Any) -> AnyProblem:
        """One function of a module as a problem of its own, at the sizes."""
        kernel = ModuleKernel(module, "the program", function)
        if missing := [name for name in kernel.size_names if name not in (sizes or {})]:
            advice = ", ".join(f'"{name}": {64 >> place}' for place, name in enumerate(missing))
            raise CheckError(
                f"the program has symbolic sizes, {', '.join(missing)}; give tir_check(..., "
                f"sizes={{{advice}}})"
            )
        given: dict[str, Any] = dict(sizes or {})
        return kernel.problem(**given)

    refusal, unjudged, used = "", "", dict[str, None]()
    findings: list[Finding] = []
    try:
        if reference is None and isinstance(program, Run):
            problem = program.problem
        elif isinstance(reference, AnyProblem):
            problem = reference
        else:
            problem = pose(_get_module(program if reference is None else reference))
        for label, module in _list_modules(program):
            alone = module if label else pose(module).module
            if reference is not None and not label:
                require_same_arguments(problem, "its reference", alone, "the program")
            known = ("cpu", "simulator", *(["cuda"] if is_cuda_available() else []))
            chosen = [get_device(name) for name in (known if devices is None else devices)]
            if devices is None:
                chosen = [device for device in chosen if device.find_obstacle(alone) is None]
            where = label or "the program"
            reasons = [] if chosen else [f"no device can run {where}; name one in devices"]
            for device in chosen:
                place = f"{label} on {device.name}".strip()
                judged = judge_numbers(problem, alone, device, where=place, seed=seed)
                findings += judged.findings
                unjudged = unjudged or "; ".join(judged.unrun)
                if judged.status is not Status.NOT_JUDGED:
                    used[judged.device] = None
                elif devices is None:
                    reasons.append(judged.reason)
                else:
                    raise DeviceError(judged.reason)
            if len(reasons) >= len(chosen):
                unjudged = unjudged or f"{where} is not judged: {reasons[0]}"
    except (CheckError, DeviceError, KernelError) as error:
        refusal = str(error)
    if refusal:
        pytest.fail(refusal, pytrace=False)
    _fail_with(findings)
    if unjudged:
        pytest.skip(unjudged)
    return [*used]


def _list_modules(program: Any) -> list[tuple[str, Any]]:
    """The modules of a program, each with its label: of a run its steps, else one without."""
    from tirstep.lowering_checks import Run
    from tirstep.lowering_checks.steps import step_label

    if isinstance(program, Run):
        return [(step_label(step), step.module) for step in program.steps]
    return [("", _get_module(program))]


def _get_module(program: Any) -> Any:
    __tracebackhide__ = True
    import tvm
    from tvm.s_tir import Schedule

    if isinstance(program, Schedule):
        return program.mod
    if isinstance(program, tvm.tirx.PrimFunc):
        attributes = {} if program.attrs is None else dict(program.attrs)
        return tvm.IRModule({str(attributes.get("global_symbol", "main")): program})
    if not isinstance(program, tvm.IRModule):
        pytest.fail(
            f"{type(program).__name__} is not a program; give an IRModule, a PrimFunc, a Schedule, "
            "or a Run of a recipe",
            pytrace=False,
        )
    return program


def _fail_with(findings: Sequence[Finding]) -> None:
    """Fail the test with what was found, in sentences and diffs, and no traceback of ours."""
    __tracebackhide__ = True
    if findings:
        pytest.fail("\n\n".join(map(str, findings)), pytrace=False)
