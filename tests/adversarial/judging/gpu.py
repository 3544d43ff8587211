"""The programs on a GPU: each in a process of its own, and under NVIDIA's compute-sanitizer.

A fault may end the process's CUDA context and a deadlock never ends, so no two programs share a
process. TVM is loaded once by each server; it forks a child for each program before CUDA is
touched. Where CUDA does not bear the fork, the child begins anew instead.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import tvm
from planted.sanitizer import PREFIX, Answers
from planted.subjects import REST
from programs import PROGRAMS, Program
from programs.program import BOUNDS

from tirstep.bench.compile_pool import get_cache_folder, installed
from tirstep.lowering_checks import DeviceError
from tirstep.lowering_checks.compile.compiling import compile_module

from . import results
from .devices import INPUT, NUMBERS, Verdict, compare

SCRIPT = Path(__file__).resolve().parents[1] / "make_table.py"
GPU_RIGHT, WRONG_NUMBERS, DIFFERS, SAME = "right", "wrong", "differs", "same"
FAULTS, HANGS, NOT_COMPILED, NOT_RUN = "faults", "hangs", "not compiled", "not run"
REPORTS, SILENT = "reports", "silent"
RUNS = 20
COMPILE_SECONDS, RUN_SECONDS = 60.0, 6.0
FIRST_SECONDS, WATCHED_SECONDS = 60, 10
"""Of a program under the sanitizer: the first of a process starts CUDA."""
CANARY = "load of another warp's cell behind a barrier"
ERRORS = (DeviceError, RuntimeError, ValueError, tvm.error.InternalError)
Runner = Callable[[int], None]


def get_reason(program: Program, arch: str) -> str:
    """Why a program is not run on a GPU without the sanitizer; empty where it can be."""
    if program.kind == BOUNDS:
        return "out of bounds by construction: under the sanitizer only"
    if _read_number(program.arch) > _read_number(arch):
        return f"needs {program.arch}"
    if program.arch.endswith("a") and _read_number(program.arch) != _read_number(arch):
        return f"needs {program.arch} itself"
    return ""


def _read_number(arch: str) -> int:
    return int("".join(filter(str.isdigit, arch)) or 0)


def get_device() -> tvm.runtime.Device:
    """The GPU that all programs run on."""
    return tvm.cuda(0)


def find_arch() -> str:
    """Its architecture, as ``sm_90a``."""
    return str(tvm.target.Target.from_device(get_device()).attrs["arch"])


def build(number: int) -> Callable[..., None]:
    """Compile a program for the GPU that is here, its kernels under its number."""
    target = tvm.target.Target(tvm.target.Target.from_device(get_device()), host="llvm")
    name = f"{PREFIX}_{number}"
    function = PROGRAMS[number].module["main"]
    function = function.with_attrs({"global_symbol": name, "target": target})
    with installed(get_cache_folder()):
        return compile_module(tvm.IRModule({name: function}), target, pipeline=REST)[name]


def run_once(function: Callable[..., None], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Run a program on copies of its arguments; returns them afterwards."""
    device = get_device()
    tensors = [tvm.runtime.tensor(array, device) for array in arrays]
    function(*tensors)
    device.sync()
    return [tensor.numpy() for tensor in tensors]


def describe_runs(program: Program, runs: Sequence[Sequence[np.ndarray]]) -> Verdict:
    """What the arguments after several runs say."""
    said = [compare(program, arrays) for arrays in runs]
    distinct = {tuple(array.tobytes() for array in arrays) for arrays in runs}
    if len(distinct) > 1:
        bad = sum(NUMBERS in text for text in said)
        share = f", {bad} wrong" if program.expected is not None else ""
        return Verdict(DIFFERS, f"{len(distinct)} results in {len(runs)} runs{share}")
    if INPUT in said[0]:
        return Verdict(WRONG_NUMBERS, INPUT)
    if program.expected is None:
        return Verdict(SAME, f"one result in {len(runs)} runs")
    return Verdict(WRONG_NUMBERS if said[0] else GPU_RIGHT)


def report(number: int) -> None:
    """Compile and run a program; print when it is compiled, and what came of it."""
    program = PROGRAMS[number]
    if reason := get_reason(program, find_arch()):
        return _say(Verdict(NOT_RUN, reason))
    try:
        function = build(number)
    except ERRORS as error:
        return _say(Verdict(NOT_COMPILED, shorten(error)))
    print("compiled", flush=True)
    try:
        runs = [run_once(function, program.make_arguments()) for _ in range(RUNS)]
    except ERRORS as error:
        return _say(Verdict(FAULTS, shorten(error)))
    return _say(describe_runs(program, runs))


def _say(verdict: Verdict) -> None:
    print("verdict", json.dumps([verdict.outcome, verdict.says]), flush=True)


def shorten(error: Exception) -> str:
    """The end of an error, in one line."""
    return " ".join(str(error).split())[-160:]


def serve(numbers: Sequence[int], *, is_forked: bool, runner: Runner = report) -> None:
    """Run programs one after the other, each in a child, and print what came of each."""
    for number in numbers:
        verdict = run_in_child(number, is_forked=is_forked, runner=runner)
        print("program", number, json.dumps([verdict.outcome, verdict.says]), flush=True)


def run_in_child(
    number: int,
    *,
    is_forked: bool,
    runner: Runner = report,
    compile_seconds: float = COMPILE_SECONDS,
    run_seconds: float = RUN_SECONDS,
) -> Verdict:
    """What a program comes to in a process of its own, within its time."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        os.dup2(writer, 1)
        if not is_forked:
            os.execv(sys.executable, [sys.executable, str(SCRIPT), "--one", str(number)])
        _run_and_exit(number, runner)
    os.close(writer)
    try:
        return _listen(reader, child, compile_seconds, run_seconds)
    finally:
        os.close(reader)


def _run_and_exit(number: int, runner: Runner) -> None:
    """In the child: run, and end without what the parent would do at its end."""
    sys.stdout = os.fdopen(1, "w")
    try:
        runner(number)
        sys.stdout.flush()
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def _listen(reader: int, child: int, compile_seconds: float, run_seconds: float) -> Verdict:
    """Read what a child prints until it says a verdict, ends, or its time is over."""
    text, end, is_compiled = b"", time.monotonic() + compile_seconds, False
    while (left := end - time.monotonic()) > 0:
        if not select.select([reader], [], [], left)[0]:
            break
        part = os.read(reader, 65536)
        if not part:
            return _find_verdict(text) or Verdict(FAULTS, _describe_end(child))
        text += part
        if not is_compiled and b"compiled\n" in text:
            is_compiled, end = True, time.monotonic() + run_seconds
        if verdict := _find_verdict(text):
            _end(child)
            return verdict
    _end(child)
    if is_compiled:
        return Verdict(HANGS, f"longer than {run_seconds:g} s")
    return Verdict(NOT_COMPILED, f"longer than {compile_seconds:g} s")


def _find_verdict(text: bytes) -> Verdict | None:
    for line in text.decode(errors="replace").splitlines(keepends=True):
        if line.startswith("verdict ") and line.endswith("\n"):
            return Verdict(*json.loads(line.removeprefix("verdict ")))
    return None


def _describe_end(child: int) -> str:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"its process ended with {how}"


def _end(child: int) -> None:
    """Kill a child and collect it; one that the driver holds is left behind after 5 s."""
    os.kill(child, signal.SIGKILL)
    end = time.monotonic() + 5
    while time.monotonic() < end and os.waitpid(child, os.WNOHANG)[0] == 0:
        time.sleep(0.01)


def run_all(numbers: Sequence[int], jobs: int, seconds: float) -> dict[str, Verdict]:
    """Run programs on the GPU, so many at once; verdicts by name.

    After so many seconds all servers end, and programs that were not reached have no verdict.
    """
    end = time.monotonic() + seconds
    names = [program.name for program in PROGRAMS]
    canary = _ask_server([names.index(CANARY)], is_forked=True, seconds=seconds)
    is_forked = canary.get(CANARY) == Verdict(GPU_RIGHT)
    if not is_forked:
        print(f"a fork does not do here ({canary.get(CANARY)}): each program loads TVM", flush=True)
    shares = [share for job in range(jobs) if (share := list(numbers[job::jobs]))]
    found: dict[str, Verdict] = {}

    def ask(share: Sequence[int]) -> dict[str, Verdict]:
        return _ask_server(share, is_forked=is_forked, seconds=end - time.monotonic())

    with ThreadPoolExecutor(jobs) as pool:
        for verdicts in pool.map(ask, shares):
            found.update(verdicts)
    return found


def _ask_server(numbers: Sequence[int], *, is_forked: bool, seconds: float) -> dict[str, Verdict]:
    """The verdicts that a server prints; at the limit it ends with its children."""
    command = [sys.executable, str(SCRIPT), "--serve", ",".join(map(str, numbers))]
    if not is_forked:
        command.append("--spawn")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as server:
        try:
            printed, _ = server.communicate(timeout=max(seconds, 0))
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            printed, _ = server.communicate()
    said = [line.split(" ", 2) for line in printed.splitlines() if line.startswith("program ")]
    return {PROGRAMS[int(number)].name: Verdict(*json.loads(text)) for _, number, text in said}


def watch(tool: str, numbers: Sequence[int]) -> None:
    """Run programs under one of the sanitizer's tools; each says when it begins and how it ends."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # even while CUDA waits
    alone = results.read().programs(results.GPU)
    seconds = FIRST_SECONDS
    for number in numbers:
        print(f"begin {number}", flush=True)
        said = alone.get(PROGRAMS[number].name)
        if said and said.outcome == HANGS and tool != "synccheck":
            print(f"refused {number} hangs on the hardware", flush=True)
            continue
        signal.alarm(seconds)
        seconds = WATCHED_SECONDS
        print(_watch_one(number, is_blank=tool == "initcheck"), flush=True)
        if not _is_context_alive():
            os._exit(1)
        signal.alarm(0)


def _watch_one(number: int, *, is_blank: bool) -> str:
    """Run a program once; with `is_blank` nothing was stored to its outputs before."""
    program, device = PROGRAMS[number], get_device()
    try:
        function = build(number)
    except ERRORS as error:
        return f"unbuilt {number} {shorten(error)}"
    try:
        tensors = [tvm.runtime.tensor(array, device) for array in program.inputs.values()]
        for array in program.outputs.values():
            made = tvm.runtime.empty(array.shape, str(array.dtype), device)
            tensors.append(made if is_blank else made.copyfrom(array))
        function(*tensors)
        device.sync()
    except ERRORS as error:
        return f"refused {number} {shorten(error)}"
    return f"end {number}"


def _is_context_alive() -> bool:
    try:
        tvm.runtime.tensor(np.zeros(1, "float32"), get_device()).numpy()
    except ERRORS:
        return False
    return True


def read_answers(answers: Answers) -> Mapping[str, Verdict]:
    """A tool's verdicts by name."""
    found = {number: Verdict(SILENT) for number in answers.silent}
    found |= {number: Verdict(NOT_COMPILED, why) for number, why in answers.unbuilt.items()}
    found |= {number: Verdict(FAULTS, why) for number, why in answers.refused.items()}
    found |= {number: Verdict(REPORTS) for number in answers.accused}
    return {PROGRAMS[number].name: verdict for number, verdict in sorted(found.items())}
