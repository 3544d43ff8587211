"""``tirstep bench``: measures, and shows every case as it comes."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tirstep.printing import print_error
from tirstep.programs.naming import is_program

from .formatting import complete
from .request import argument, flag, option, with_options
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.bench.cases import CaseChoice, PlannedCase
    from tirstep.bench.torch_machine import TorchMachine

QUICK_ROUNDS = 5
VERDICTS = ("faster", "slower", "same")


@with_options()
def command(
    *,
    names: list[str] | None = argument(
        "NAME",
        "Suites (matmul, half, tf32, eight-bit, fused, conv2d, attention, bandwidth, "
        "convolution, product-shapes, row-shapes, attention-shapes, decoding-shapes, layer-shapes, "
        "more-products, long-rows, tutorial, rungs), kernels or ladders, or programs of yours: "
        "FILE.py, FILE.py:NAME, module:NAME, FILE.json. [default: all]",
        default=None,
        show_default=False,
        autocompletion=complete("ladder"),
    ),
    file: Path | None = option("--output -o", "FILE", "Save the run, updated after each case."),
    save: Path | None = option(
        "--save", "DIR", "Save it in this folder instead, in a file named after the GPU."
    ),
    quick: bool = flag("--quick", "A smoke test: one shape of each entry, few rounds."),
    shape: list[str] | None = option(
        "--shape", "SIZES", "Only this shape, 1024x512x2048; may be repeated."
    ),
    dtype: str | None = option("--dtype", "TYPE", "Only this data type, such as float16."),
    recipe: list[str] | None = option(
        "--recipe", "RECIPE", "Time this recipe instead of the suite's; may be repeated."
    ),
    function: str | None,
    seed: int,
    compare: tuple[Path, Path] | None = option(
        "--compare", "OLD NEW", "Measure nothing; compare two saved runs."
    ),
    json: bool,
) -> int:
    """Time recipes against PyTorch, Triton and dlight on a GPU.

    All run in one process, on the same tensors and stream, taking turns, with cold caches; a wrong
    result gets no time. Needs the extra bench: pip install '.[bench]'.

    A program of yours runs against dlight, and against PyTorch if its file has a dict TORCH that
    maps the kernel's name to a function of tensors.
    """
    if file is not None and save is not None:
        raise UseError("--output and --save both name the file to write; give one")
    if compare is not None:
        return show_comparison(*compare, as_json=json)
    from tirstep.bench.cases import LADDER_SUITES, SUITES, CaseChoice
    from tirstep.bench.metrics import find_reasons, make_case_table, make_summary
    from tirstep.bench.results import require_run_or_nothing, to_document, write_run
    from tirstep.bench.session import Settings, run_bench
    from tirstep.files import locked

    from .formats import print_document
    from .screen import Screen, show_text_table

    own = [name for name in names or () if is_program(name)]
    if own and recipe:
        raise UseError(f"--recipe takes names; give {own[0]}:NAME instead")
    if function is not None and not own:
        raise UseError("--function is for modules of your own; leave it out")
    for text in shape or []:  # for which kernel it is, is not known yet
        if not re.fullmatch(r"\d+([x×,]\d+)*", text):
            raise UseError(f"--shape {text} is not a shape; give it as 1024x512x2048")
    shapes = [tuple(map(int, re.split("[x×,]", text))) for text in shape or []]
    choice = CaseChoice(names or [], shapes, dtype, recipe or [], quick)
    cases, machine, screen = plan_all(choice, function), make_machine("bench"), Screen(quiet=json)

    def slug(name: str) -> str:
        return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")

    if save is not None:  # what of a choice goes into its name: nothing where it is all
        words = [str(machine.device["name"])]
        words += [slug(it) if it in own else it for it in names or []]
        words += ["x".join(map(str, sizes)) for sizes in shapes]
        words += [*([dtype] if dtype else []), *(recipe or []), *(["quick"] if quick else [])]
        file = save / f"bench-{slug(words[0])}{''.join(f'-{word}' for word in words[1:])}.json"
    settings = Settings(seed=seed)
    if quick:
        settings = Settings(rounds=QUICK_ROUNDS, budget=settings.budget / 10, seed=seed)
    with contextlib.ExitStack() as held:
        if file is not None:  # this process alone writes there, if anything can be written
            require_run_or_nothing(file)
            held.enter_context(locked(file, seconds=0))
        held.enter_context(screen.working())
        for run in run_bench(cases, machine, settings, screen.doing):
            case, limits = run.cases[-1], run.ceilings
            if len(run.cases) == 1:
                peaks = [f"{it} {flops / 1e12:.1f} TFLOP/s" for it, flops in limits.flops.items()]
                for name, text in {
                    "device": run.place,
                    "versions": ", ".join(f"{key} {it}" for key, it in run.versions.items()),
                    "ceilings": ", ".join([f"copy {limits.copy / 1e12:.2f} TB/s", *peaks]),
                    "empty": f"{limits.empty_us:.1f} us for an empty kernel",
                    "cases": str(len(cases)),
                }.items():
                    screen.line((f"{name:<10}", "dim"), text)
            screen.line()
            screen.line((case.title, "bold"), (f"  {case.suite}", "dim"))
            if case.skipped:
                screen.line(("skipped: ", "yellow"), case.skipped)
            else:
                with_before = case.suite in LADDER_SUITES
                show_text_table(screen, make_case_table(case, limits, with_before=with_before))
                for reason in find_reasons(case):
                    screen.line((reason, "yellow"))
            if file is not None:
                write_run(run, file)
    for suite in SUITES:
        if any(case.suite == suite and not case.skipped for case in run.cases):
            screen.line()
            screen.line((f"{suite}: the fastest recipe of each case", "bold"))
            show_text_table(screen, make_summary(run, suite))
    failures = [  # of our own: a peer's failure is not ours
        (f"{case.title}: {outcome.candidate}: ", outcome.note)
        for case in run.cases
        for outcome in case.outcomes
        if outcome.kind == "recipe" and outcome.status in ("wrong", "failed")
    ]
    for where, note in failures:
        screen.line((where, "bold red"), note)
    if file is not None:
        screen.line((f"wrote {file}", "green"))
    if json:
        print_document("bench", ok=not failures, run=to_document(run))
    return 1 if failures else 0


def plan_all(choice: CaseChoice, function: str | None) -> list[PlannedCase]:
    """The cases of names, and those of the user's programs."""
    from tirstep.bench.cases import plan_cases
    from tirstep.programs.benching import plan_program

    own = [name for name in choice.names if is_program(name)]
    names = [name for name in choice.names if name not in own]
    plans = [plan_cases(replace(choice, names=names))] if names or not own else []
    plans += [plan_program(it, choice.shapes, choice.dtype, function) for it in own]
    for sentence in (it for _, left_out in plans for it in left_out):
        print_error(f"left out: {sentence}")
    return [case for cases, _ in plans for case in cases]


def make_machine(command: str) -> TorchMachine:
    """The GPU; raises `UseError` where there is none, and where PyTorch is missing."""
    from tirstep.lowering_checks.devices import is_cuda_available

    if not is_cuda_available():
        raise UseError(
            f"{command} needs a GPU, and this machine has no CUDA device that TVM can use; run it "
            "on one that has"
        )
    if importlib.util.find_spec("torch") is None:
        raise UseError(
            f"{command} launches and times through PyTorch, which is not installed; install the "
            f"extra bench, in a clone: {sys.executable} -m pip install '.[bench]'"
        )
    from tirstep.bench.torch_machine import TorchMachine

    return TorchMachine()


def show_comparison(old: Path, new: Path, *, as_json: bool = False) -> int:
    """Compare two files, candidate by candidate."""
    from tirstep.bench.metrics import Table, format_ratio
    from tirstep.bench.peers import show_name
    from tirstep.bench.results import compare_runs, list_differences, read_run

    from .formats import print_document
    from .screen import Screen, show_text_table

    before, after, screen = read_run(old), read_run(new), Screen(quiet=as_json)
    differences = list_differences(before, after)
    for sentence in differences:
        screen.line((sentence, "yellow"))
    changes = compare_runs(before, after)
    rows = []
    for it in changes:
        times = ["" if time is None else f"{time.median_us:,.1f}" for time in (it.before, it.after)]
        ratio = format_ratio(it.ratio)
        rows.append([it.title, show_name(it.candidate), *times, ratio, it.verdict])
    header = ["case", "candidate", "before µs", "after µs", "speed-up", ""]
    show_text_table(screen, Table(header, rows, 4))
    counts = {word: sum(it.verdict == word for it in changes) for word in VERDICTS}
    screen.line(", ".join(f"{count} {word}" for word, count in counts.items()))
    if as_json:
        told = [it._asdict() for it in changes]
        print_document("bench", old=old, new=new, differences=differences, changes=told)
    return 0
