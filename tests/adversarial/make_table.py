"""Write docs/adversarial.md: what each check says of programs of known status (`make adversarial`).

The simulator runs them all, and host where there is a C++ compiler. With --gpu the hardware runs
them too, each in a process of its own and many at once, and compute-sanitizer where it is found;
tests/adversarial/results.json keeps what host and GPU say.
"""

from __future__ import annotations

import argparse
import datetime
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS / "mutants"))  # as pytest has it: the sanitizer is called from there

from judging import gpu, results  # noqa: E402
from judging.devices import HOST, judge  # noqa: E402
from judging.table import render  # noqa: E402
from planted import sanitizer  # noqa: E402
from programs import PROGRAMS, RIGHT, WRONG  # noqa: E402

from tirstep.files import write_file  # noqa: E402
from tirstep.lowering_checks import get_device  # noqa: E402
from tirstep.lowering_checks.devices import is_host_available  # noqa: E402

DOCUMENT = TESTS.parent / "docs" / "adversarial.md"


def main(arguments: argparse.Namespace) -> int:
    """Make the document; with --gpu, 1 where the hardware contradicts a status."""
    recorded = results.read()
    recorded.keep({program.name for program in PROGRAMS})
    if is_host_available() and not arguments.gpu:
        verdicts = {program.name: judge(program, HOST) for program in PROGRAMS}
        recorded.update(HOST, verdicts, get_device("host").description)
    code = 0
    if arguments.gpu:
        numbers = [
            number
            for number, program in enumerate(PROGRAMS)
            if any(word in program.name for word in arguments.only)
        ]
        code = ask_gpu(recorded, numbers, arguments.jobs, arguments.seconds)
    recorded.write()
    write_file(DOCUMENT, render(recorded))
    print(f"{DOCUMENT.relative_to(TESTS.parent)} is written")
    return code


def ask_gpu(recorded: results.Results, numbers: Sequence[int], jobs: int, seconds: float) -> int:
    """Run programs on the GPU and under the sanitizer, and print what came of it."""
    begin = time.monotonic()
    place = describe_gpu()
    verdicts = gpu.run_all(numbers, jobs, seconds)
    recorded.update(results.GPU, verdicts, f"{place}, {datetime.date.today()}")
    recorded.write()
    print(f"hardware: {time.monotonic() - begin:.0f} s", flush=True)
    print_counts("hardware", verdicts, numbers)
    if program := shutil.which("compute-sanitizer"):
        left = seconds - (time.monotonic() - begin)
        try:
            ask_sanitizer(recorded, program, place, numbers, jobs, left)
        except RuntimeError as error:  # the hardware's verdicts are worth keeping
            print(error)
    else:
        print("compute-sanitizer is not on the PATH; it comes with the CUDA toolkit")
    print(f"all: {time.monotonic() - begin:.0f} s", flush=True)
    return print_contradictions(verdicts)


def ask_sanitizer(
    recorded: results.Results,
    program: str,
    place: str,
    numbers: Sequence[int],
    jobs: int,
    seconds: float,
) -> None:
    """Run programs under the four tools; what is not reached in time keeps its older verdict."""
    runner = [__file__, "--watch"]
    said = sanitizer.ask(program, results.TOOLS, runner, numbers, jobs, seconds)
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    words = version.stdout.strip().splitlines()[-1].removeprefix("Version ")
    for tool, answers in said.items():
        verdicts = gpu.read_answers(answers)
        where = f"{place}, compute-sanitizer {words}, {datetime.date.today()}"
        recorded.update(tool, verdicts, where)
        print_counts(tool, verdicts, numbers)
        for sentence in answers.mute:
            print(f"  {sentence}")


def describe_gpu() -> str:
    """The GPU's name, asked in another process: this one leaves CUDA alone before it forks."""
    command = "from tirstep.lowering_checks import get_device as f; print(f('cuda').description)"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr.strip().splitlines()[-1])
    return done.stdout.strip()


def print_counts(column: str, verdicts: dict, numbers: Sequence[int]) -> None:
    """One line for each status: how many programs came to what."""
    for status in (WRONG, RIGHT):
        names = [PROGRAMS[number].name for number in numbers if PROGRAMS[number].status == status]
        counts = Counter(verdicts[name].outcome if name in verdicts else "-" for name in names)
        counted = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
        print(f"{column}, {len(names)} {status} programs: {counted}", flush=True)


def print_contradictions(verdicts: dict) -> int:
    """The right programs that the hardware does not run right; 1 if there are any."""
    expected = (gpu.GPU_RIGHT, gpu.NOT_RUN)
    wrong = [
        f"CONTRADICTED: {program.name}: {verdicts[program.name]}"
        for program in PROGRAMS
        if program.status == RIGHT
        and program.name in verdicts
        and verdicts[program.name].outcome not in expected
    ]
    print("\n".join(wrong) or "every right program that ran is right on the hardware", flush=True)
    return int(bool(wrong))


def show(name: str) -> int:
    """Print a program: its status and its text."""
    found = [program for program in PROGRAMS if program.name == name]
    for program in found:
        print(f"# {program.name}\n# {program.status} {program.kind}: {program.why}")
        print(program.script)
    return 0 if found else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", action="store_true", help="run them on a GPU too")
    parser.add_argument("--jobs", type=int, default=8, help="processes at once on the GPU")
    parser.add_argument("--seconds", type=float, default=600, help="for all of --gpu")
    parser.add_argument("--only", nargs="+", default=[""], help="what is in a program's name")
    parser.add_argument("--show", metavar="NAME", help="print a program")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--spawn", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--watch", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def run(arguments: argparse.Namespace) -> int:
    """What the arguments say: one of the parts of --gpu, or all."""
    if arguments.show:
        return show(arguments.show)
    if arguments.one is not None:
        gpu.report(arguments.one)
    elif arguments.serve:
        numbers = [int(number) for number in arguments.serve.split(",")]
        gpu.serve(numbers, is_forked=not arguments.spawn)
    elif arguments.watch:
        tool, listed = arguments.watch
        gpu.watch(tool, [int(number) for number in listed.split(",")])
    else:
        return main(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(run(parse()))
