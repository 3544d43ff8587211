"""The sanitizer's reports reach the programs that they are about, whatever happens to a process.

In its place, and in that of programs on a GPU, are scripts: what they say is planted.
"""

import sys
from pathlib import Path

import pytest
from planted import MUTANTS
from planted.originals import TENSOR_CORES
from planted.plant import GOLDEN, LEVELS
from planted.sanitizer import PREFIX, ask
from planted.subjects import find_original_subject, find_subject
from tvm import IRModule

from tirstep.lowering_checks.devices.host import generate

# Accuses program 2 in every run that has it, as if while another one runs.
SANITIZER = """
import pathlib, subprocess, sys
if sys.argv[1] == "--help":
    sys.exit("usage: --print-limit arg")
tool, log, command = sys.argv[2], sys.argv[6], sys.argv[7:]
assert sys.argv[3:6] == ["--print-limit", "0", "--log-file"], sys.argv
done = subprocess.run(command)
if "2" in command[-1].split(",") and tool == "racecheck":
    pathlib.Path(log).write_text("===== Error: Race at subject_2_kernel+0x90 in kernel.cu")
sys.exit(done.returncode)
"""
# Program 3 is refused, program 4 ends its process, program 5 is none, and 8 does not compile.
RUNNER = """
import os, sys
for number in sys.argv[2].split(","):
    print("begin", number, flush=True)
    if number == "4":
        os._exit(1)
    said = {"3": "refused 3 too many threads", "5": "none 5", "8": "unbuilt 8 no such axis"}
    print(said.get(number, f"end {number}"))
"""


def write_program(path: Path, text: str) -> Path:
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("processes", [1, 4])
def test_reports_reach_their_programs(tmp_path: Path, processes: int) -> None:
    program = write_program(tmp_path / "compute-sanitizer", SANITIZER)
    runner = write_program(tmp_path / "runner.py", RUNNER)
    tools = ("memcheck", "racecheck")
    answers = ask(str(program), tools, [str(runner)], range(9), processes, 60)
    for tool in tools:
        accused = {2} if tool == "racecheck" else set()
        assert answers[tool].accused == accused
        assert answers[tool].silent == {0, 1, 2, 6, 7} - accused
        assert answers[tool].refused == {3: "too many threads", 4: "it ended its process"}
        assert answers[tool].unbuilt == {8: "no such axis"}


def test_what_is_not_asked_in_time_is_told(tmp_path: Path) -> None:
    program = write_program(tmp_path / "compute-sanitizer", SANITIZER)
    slow = "import sys, time\nprint('begin 0', flush=True)\ntime.sleep(60)"
    runner = write_program(tmp_path / "runner.py", slow)
    answers = ask(str(program), ["racecheck"], [str(runner)], range(3), 1, 2)["racecheck"]
    assert answers.unheard == {0, 1, 2}
    assert answers.accused | answers.silent | set(answers.refused) == set()


def test_a_sanitizer_that_does_not_start_is_told(tmp_path: Path) -> None:
    program = write_program(tmp_path / "compute-sanitizer", "import sys\nsys.exit('no driver')")
    with pytest.raises(RuntimeError, match=r"no program ran under .*: no driver"):
        ask(str(program), ["memcheck"], ["-c"], range(2), 1, 60)


@pytest.mark.parametrize("is_lowered", [False, True])
def test_kernels_bear_the_name_of_their_program(is_lowered: bool) -> None:
    subject = find_original_subject("window_sum_shared", is_lowered=is_lowered)
    name = f"{PREFIX}_7"
    function = subject.module["main"].with_attr("global_symbol", name)
    source = generate(IRModule({name: function}), pipeline=subject.pipeline).source
    assert f"__global__ void __launch_bounds__(128) {name}_kernel(" in source


def test_a_lowered_program_keeps_its_instructions() -> None:
    lowered = find_original_subject(TENSOR_CORES, is_lowered=True)
    source = generate(lowered.module, pipeline=lowered.pipeline).source
    assert source.count("ldmatrix.sync.aligned.m8n8.x4") == 2


@pytest.mark.parametrize("level", LEVELS)
def test_a_mutant_of_a_program_is_asked_about(level: str) -> None:
    subject = find_subject(next(mutant for mutant in MUTANTS if mutant.level == level))
    assert (subject is None) == (level == GOLDEN)  # the fault is in a file
