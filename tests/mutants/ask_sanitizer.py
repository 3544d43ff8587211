"""Ask NVIDIA's compute-sanitizer about every planted bug that compiles for CUDA, on a GPU.

Its four tools run the mutants, and their originals, at their small shapes. What they say goes into
tests/mutants/elsewhere.json, from which `make mutants` makes its table. Mutants that were not asked
about keep what the file says of them; a file that is not there yet begins as a copy of that one.
Exit code 1 if an original is accused, refused or not compiled, 2 without a GPU or the program.
"""

import argparse
import datetime
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import tvm
from planted import MUTANTS, elsewhere
from planted.layers import SANITIZER, TOOLS
from planted.sanitizer import PREFIX, Answers, ask
from planted.subjects import Subject, find_original_subject, find_subject

from tirstep.lowering_checks import DeviceError, get_device
from tirstep.lowering_checks.compile.compiling import compile_module
from tirstep.modules import Problem
from tirstep.modules.dtypes import dtype_facts
from tirstep.processes import count_cores

FAULTS = (DeviceError, RuntimeError, tvm.error.InternalError)
SECONDS = 60  # for one program, its compilation among them


CANDIDATES: list[Callable[[], Subject | None]] = [
    *(partial(find_subject, mutant) for mutant in MUTANTS),
    *(
        partial(find_original_subject, name, is_lowered=is_lowered)
        for name in sorted({mutant.original for mutant in MUTANTS})
        for is_lowered in (False, True)
    ),
]
"""What is asked about, each by its number; behind the mutants the originals."""


def main(out: Path, wanted: list[str], processes: int, seconds: float) -> int:
    """Ask, write the record, and say what it has."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        print("compute-sanitizer is not on the PATH; it comes with the CUDA toolkit")
        return 2
    device = get_device("cuda")
    numbers = [number for number in range(len(CANDIDATES)) if is_wanted(number, wanted)]
    old = elsewhere.read(out)
    answers = ask(program, TOOLS, [__file__, "--run"], numbers, processes, seconds)
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    words = version.stdout.strip().splitlines()[-1].removeprefix("Version ")
    place = f"{device.description}, compute-sanitizer {words}, {datetime.date.today()}"
    record = {
        f"{SANITIZER} {tool}": merge_answers(
            tool, said, numbers, old.get(f"{SANITIZER} {tool}", {})
        )
        for tool, said in answers.items()
    }
    elsewhere.write(record, SANITIZER, place, out)
    return report(answers)


def merge_answers(
    tool: str, said: Answers, numbers: Sequence[int], old: Mapping[str, bool]
) -> dict[str, bool]:
    """The record of a tool, from its old one and what it says of the programs of these numbers.

    Mutants that were not asked about, or not reached, keep what they have in the old one.
    """
    reached = set(numbers) - said.unheard
    asked = {MUTANTS[number].name for number in reached if number < len(MUTANTS)}
    new = {
        MUTANTS[number].name: kills
        for number, kills in read_answers(tool, said).items()
        if number < len(MUTANTS)
    }
    return {**{name: kills for name, kills in old.items() if name not in asked}, **new}


def read_answers(tool: str, said: Answers) -> dict[int, bool]:
    """Which programs a tool kills: what CUDA does not launch is memcheck's, which reports that."""
    asked = dict.fromkeys(said.silent, False)
    refused = {number: True for number in said.refused if tool == "memcheck"}
    return {**asked, **refused, **dict.fromkeys(said.accused, True)}


def report(answers: Mapping[str, Answers]) -> int:
    """Print what came of it; 1 if an original is accused, refused or not compiled."""
    wrong = 0
    for tool, said in answers.items():
        print(
            f"{tool}: {len(said.accused)} accused, {len(said.silent)} silent, "
            f"{len(said.refused)} refused, {len(said.unbuilt)} not compiled, "
            f"{len(said.unheard)} not asked"
        )
        for sentence in said.mute:
            print(f"  {sentence}")
        failed = {**said.refused, **said.unbuilt}
        for number, sentence in sorted(failed.items()):
            print(f"  {name(number)}: {sentence}")
        for number in sorted(said.accused | set(failed)):
            if number >= len(MUTANTS):
                print(f"  WRONG: {name(number)} {describe_wrong(number, said)}")
                wrong = 1
    return wrong


def describe_wrong(number: int, said: Answers) -> str:
    """What is wrong with what a tool says of an original."""
    if number in said.unbuilt:
        return "does not compile"
    return f"is {'accused' if number in said.accused else 'refused'}, and it is right"


def is_wanted(number: int, wanted: list[str]) -> bool:
    """Whether a program's name, or that of its original, has one of some words in it."""
    names = [name(number)]
    if number < len(MUTANTS):
        names.append(MUTANTS[number].original)
    return any(word in one for word in wanted for one in names)


def name(number: int) -> str:
    """What a candidate is called."""
    if number < len(MUTANTS):
        return MUTANTS[number].name
    subject = CANDIDATES[number]()
    return f"number {number}" if subject is None else subject.name


def run_programs(tool: str, numbers: list[int]) -> None:
    """Run programs under a tool; each says when it begins and how it ends."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # even while CUDA waits
    for number in numbers:
        print(f"begin {number}", flush=True)
        signal.alarm(SECONDS)
        print(run_candidate(number, is_blank=tool == "initcheck"), flush=True)
        if not is_context_alive():
            os._exit(1)
        signal.alarm(0)


def run_candidate(number: int, *, is_blank: bool) -> str:
    """Compile and run a program under a name of its own; the line that says how it ended."""
    subject = CANDIDATES[number]()
    if subject is None:
        return f"none {number}"
    try:
        function = build(subject, f"{PREFIX}_{number}")
    except FAULTS as error:
        return f"unbuilt {number} {shorten(error)}"
    try:
        run_once(function, subject.problem, is_blank=is_blank)
    except FAULTS as error:
        return f"refused {number} {shorten(error)}"
    return f"end {number}"


def shorten(error: Exception) -> str:
    """The end of an error, in one line."""
    return " ".join(str(error).split())[-200:]


def build(subject: Subject, name: str) -> Callable[..., None]:
    """Compile a program under a name for the GPU that is here."""
    target = tvm.target.Target(tvm.target.Target.from_device(tvm.cuda(0)), host="llvm")
    function = subject.module["main"].with_attr("global_symbol", name)
    if "target" in function.attrs:
        function = function.with_attr("target", target)
    module = tvm.IRModule({name: function})
    return compile_module(module, target, pipeline=subject.pipeline)[name]


def run_once(function: Callable[..., None], problem: Problem, *, is_blank: bool) -> None:
    """Run a program once.

    `is_blank`: nobody writes the outputs before, so that a read of them can be seen.
    """
    device = tvm.cuda(0)
    tensors = [
        tvm.runtime.tensor(np.ascontiguousarray(array), device)
        for array in problem.integer_inputs(0)
    ]
    for output in problem.outputs:
        dtype = output.dtype
        made = tvm.runtime.empty(output.shape, dtype, device)
        if not is_blank:
            made.copyfrom(np.zeros(output.shape, dtype_facts(dtype).numpy))
        tensors.append(made)
    function(*tensors)
    device.sync()


def is_context_alive() -> bool:
    """Whether CUDA still works in this process."""
    try:
        tvm.runtime.tensor(np.zeros(1, "float32"), tvm.cuda(0)).numpy()
    except FAULTS:
        return False
    return True


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=elsewhere.FILE, help="the file to write")
    parser.add_argument("--only", nargs="+", default=[""], help="what is in a program's name")
    parser.add_argument("--processes", type=int, default=count_cores())
    parser.add_argument("--seconds", type=float, default=3600, help="then it asks no more")
    parser.add_argument("--run", nargs=2, metavar=("TOOL", "NUMBERS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    try:
        if arguments.run:
            tool, listed = arguments.run
            run_programs(tool, [int(number) for number in listed.split(",")])
            sys.exit(0)
        wish = (arguments.only, arguments.processes, arguments.seconds)
        sys.exit(main(arguments.out, *wish))
    except DeviceError as error:
        print(error)
        sys.exit(2)
