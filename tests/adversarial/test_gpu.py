"""How programs are run on a GPU, shown without one: processes, limits of time, what runs say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from judging import gpu, results
from judging.devices import Verdict
from planted.sanitizer import Answers
from programs import PROGRAMS, Program

from tirstep.lowering_checks.devices import is_cuda_available

SCRIPT = Path(gpu.SCRIPT)
RIGHT_ONE = next(program for program in PROGRAMS if program.name == gpu.CANARY)
UNMEANT = next(program for program in PROGRAMS if program.expected is None)


def arrays_of(program: Program, shift: float = 0) -> list[np.ndarray]:
    """The arguments after a run, right but for a shift."""
    return [*program.inputs.values(), *(array + shift for array in program.expected)]


def test_twenty_right_runs_are_right() -> None:
    assert gpu.describe_runs(RIGHT_ONE, [arrays_of(RIGHT_ONE)] * 20) == Verdict(gpu.GPU_RIGHT)


def test_twenty_runs_with_the_same_wrong_numbers_are_wrong() -> None:
    runs = [arrays_of(RIGHT_ONE, 1)] * 20
    assert gpu.describe_runs(RIGHT_ONE, runs) == Verdict(gpu.WRONG_NUMBERS)


def test_one_run_of_twenty_that_differs_is_told() -> None:
    runs = [arrays_of(RIGHT_ONE)] * 19 + [arrays_of(RIGHT_ONE, 1)]
    verdict = gpu.describe_runs(RIGHT_ONE, runs)
    assert verdict == Verdict(gpu.DIFFERS, "2 results in 20 runs, 1 wrong")


def test_runs_without_numbers_that_are_meant_are_the_same_or_differ() -> None:
    first = UNMEANT.make_arguments()
    other = [*first[:-1], np.zeros_like(first[-1])]
    assert gpu.describe_runs(UNMEANT, [first] * 3) == Verdict(gpu.SAME, "one result in 3 runs")
    assert gpu.describe_runs(UNMEANT, [first, other]).outcome == gpu.DIFFERS


def test_an_input_that_changed_is_told() -> None:
    arrays = arrays_of(RIGHT_ONE)
    runs = [[arrays[0] + 1, *arrays[1:]]] * 2
    assert gpu.describe_runs(RIGHT_ONE, runs) == Verdict(gpu.WRONG_NUMBERS, "input changed")


def test_what_may_not_run_alone_is_told_with_its_reason() -> None:
    beyond = next(program for program in PROGRAMS if program.kind == "out of bounds")
    matrices = next(program for program in PROGRAMS if program.arch == "sm_80")
    assert "out of bounds by construction" in gpu.get_reason(beyond, "sm_90a")
    assert gpu.get_reason(matrices, "sm_75") == "needs sm_80"
    assert gpu.get_reason(matrices, "sm_90a") == ""
    assert gpu.get_reason(RIGHT_ONE, "sm_100a") == ""
    groups = next(program for program in PROGRAMS if program.arch == "sm_90a")
    assert gpu.get_reason(groups, "sm_90") == ""
    assert gpu.get_reason(groups, "sm_100") == "needs sm_90a itself"


def say(number: int) -> None:
    print("compiled", flush=True)
    print(f'noise\nverdict ["{gpu.GPU_RIGHT}", "{number}"]', flush=True)


def hang(number: int) -> None:
    print("compiled", flush=True)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)


def compile_for_ever(number: int) -> None:
    time.sleep(60)


def die(number: int) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def leave(number: int) -> None:
    raise RuntimeError("out of luck")


@pytest.mark.parametrize(
    ("runner", "verdict"),
    [
        (say, Verdict(gpu.GPU_RIGHT, "5")),
        (hang, Verdict(gpu.HANGS, "longer than 0.3 s")),
        (compile_for_ever, Verdict(gpu.NOT_COMPILED, "longer than 1 s")),
        (die, Verdict(gpu.FAULTS, "its process ended with SIGSEGV")),
        (leave, Verdict(gpu.FAULTS, "its process ended with exit code 1")),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_program_in_a_process_of_its_own(runner, verdict: Verdict) -> None:
    begin = time.monotonic()
    found = gpu.run_in_child(5, is_forked=True, runner=runner, compile_seconds=1, run_seconds=0.3)
    assert found == verdict
    assert time.monotonic() - begin < 10


def test_a_server_goes_on_behind_a_program_that_died(capfd) -> None:
    def some_die(number: int) -> None:
        (die if number == 3 else say)(number)

    gpu.serve([2, 3, 4], is_forked=True, runner=some_die)
    lines = [line for line in capfd.readouterr().out.splitlines() if line.startswith("program")]
    assert lines == [
        'program 2 ["right", "2"]',
        'program 3 ["faults", "its process ended with SIGSEGV"]',
        'program 4 ["right", "4"]',
    ]


@pytest.fixture
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """CUDA's place is taken by the CPU: no kernel can be built for it."""
    monkeypatch.setattr(gpu, "get_device", lambda: gpu.tvm.cpu(0))
    monkeypatch.setattr(gpu, "find_arch", lambda: "sm_90a")
    return monkeypatch


def store_expected(*tensors) -> None:
    """What the canary's kernel would do."""
    tensors[-1].copyfrom(RIGHT_ONE.expected[0].astype("float32"))


def refuse(*tensors) -> None:
    raise RuntimeError("CUDA: misaligned address")


def fail_to_build(number: int) -> None:
    raise ValueError("no such instruction")


CANARY = PROGRAMS.index(RIGHT_ONE)


@pytest.mark.parametrize(
    ("build", "verdict"),
    [
        (lambda number: store_expected, '["right", ""]'),
        (lambda number: lambda *tensors: None, '["wrong", ""]'),
        (lambda number: refuse, '["faults", "CUDA: misaligned address"]'),
        (fail_to_build, '["not compiled", "no such instruction"]'),
    ],
)
def test_a_report_of_a_program(on_the_cpu, capsys, build, verdict: str) -> None:
    on_the_cpu.setattr(gpu, "build", build)
    gpu.report(CANARY)
    printed = capsys.readouterr().out
    assert printed.endswith(f"verdict {verdict}\n")
    assert ("compiled\n" in printed.splitlines(keepends=True)) == (build is not fail_to_build)


@pytest.mark.parametrize("tool", ["memcheck", "initcheck"])
@pytest.mark.parametrize(
    ("build", "word"),
    [
        (lambda number: store_expected, "end"),
        (lambda number: refuse, "refused"),
        (fail_to_build, "unbuilt"),
    ],
)
def test_what_a_watched_program_says_of_its_end(on_the_cpu, capsys, tool, build, word) -> None:
    on_the_cpu.setattr(gpu, "build", build)
    gpu.watch(tool, [CANARY])
    begin, end = capsys.readouterr().out.splitlines()
    assert begin == f"begin {CANARY}"
    assert end.startswith(f"{word} {CANARY}")


def test_a_program_that_hung_is_left_to_synccheck(on_the_cpu, capsys) -> None:
    hung = results.Results(columns={"gpu": {RIGHT_ONE.name: Verdict(gpu.HANGS)}})
    on_the_cpu.setattr(gpu.results, "read", lambda: hung)
    on_the_cpu.setattr(gpu, "build", lambda number: store_expected)
    gpu.watch("racecheck", [CANARY])
    gpu.watch("synccheck", [CANARY])
    ends = capsys.readouterr().out.splitlines()[1::2]
    assert ends == [f"refused {CANARY} hangs on the hardware", f"end {CANARY}"]


SERVER = """
import sys
for number in sys.argv[2].split(","):
    said = "right" if "--spawn" in sys.argv else "faults"
    print("program", number, f'["{said}", ""]')
"""


def test_where_cuda_does_not_bear_a_fork_each_program_begins_anew(tmp_path, monkeypatch) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    monkeypatch.setattr(gpu, "SCRIPT", script)
    verdicts = gpu.run_all(list(range(5)), jobs=2, seconds=30)
    names = {program.name for program in PROGRAMS[:5]}
    assert verdicts == dict.fromkeys(names, Verdict(gpu.GPU_RIGHT))


SLOW_SERVER = """
import sys, time
for place, number in enumerate(sys.argv[2].split(",")):
    time.sleep(60 * (place > 1))
    print("program", number, '["right", ""]', flush=True)
"""


def test_at_the_limit_of_time_what_is_known_is_kept(tmp_path, monkeypatch) -> None:
    script = tmp_path / "server.py"
    script.write_text(SLOW_SERVER)
    monkeypatch.setattr(gpu, "SCRIPT", script)
    verdicts = gpu.run_all(list(range(4)), jobs=1, seconds=3)
    assert list(verdicts) == [program.name for program in PROGRAMS[:2]]


def test_the_tools_answers_become_verdicts() -> None:
    answers = Answers(accused={0}, silent={1}, refused={2: "no launch"}, unbuilt={3: "no cubin"})
    names = [program.name for program in PROGRAMS[:4]]
    assert gpu.read_answers(answers) == {
        names[0]: Verdict(gpu.REPORTS),
        names[1]: Verdict(gpu.SILENT),
        names[2]: Verdict(gpu.FAULTS, "no launch"),
        names[3]: Verdict(gpu.NOT_COMPILED, "no cubin"),
    }


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    recorded = results.Results()
    recorded.update("gpu", {"a": Verdict("right"), "b": Verdict("wrong", "numbers")}, "here")
    recorded.update("gpu", {"b": Verdict("hangs")}, "there")
    recorded.write(file)
    assert results.read(file) == recorded
    assert results.read(file).programs("gpu") == {"a": Verdict("right"), "b": Verdict("hangs")}
    recorded.keep({"b"})
    assert list(recorded.programs("gpu")) == ["b"]
    assert results.read(tmp_path / "none.json") == results.Results()
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


@pytest.mark.usefixtures("warm_commands")
@pytest.mark.skipif(is_cuda_available(), reason="this machine has a GPU")
def test_without_a_gpu_a_sentence_and_exit_1() -> None:
    before = results.FILE.read_bytes()
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--gpu"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "this machine has no CUDA device" in done.stderr
    assert "Traceback" not in done.stderr
    assert results.FILE.read_bytes() == before
