"""The sanitizer's reports reach the programs that they are about, whatever happens to a process.

In its place, and in that of programs on a GPU, are scripts: what they say is planted.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ask_sanitizer
import pytest
from planted import MUTANTS, elsewhere, sanitizer
from planted.layers import SANITIZER as LAYER
from planted.originals import TENSOR_CORES
from planted.plant import GOLDEN, LEVELS
from planted.sanitizer import PREFIX, Answers, Ran, ask
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


class Processes:
    """In place of the sanitizer's processes.

    Programs end at once, but for those that are slow in so many processes, which run until the
    limit. A process whose first program is in `mute` says nothing.
    """

    def __init__(self, slow: dict[int, int], mute: Sequence[int] = ()) -> None:
        self.slow, self.mute = slow, mute
        self.lists: list[list[int]] = []

    def run(self, command: Any, runner: Any, numbers: list[int], seconds: float) -> Ran:
        self.lists.append(numbers)
        if numbers[0] in self.mute:
            return Ran("no context\n", "", False)
        said = []
        for number in numbers:
            said.append(f"begin {number}")
            if self.slow.get(number, 0) > 0:
                self.slow[number] -= 1
                return Ran("\n".join(said), f"Error: {PREFIX}_{number}_kernel", True)
            said.append(f"end {number}")
        return Ran("\n".join(said), "", False)


def ask_processes(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, *, count: int = 5, at_once: int = 1
) -> Answers:
    monkeypatch.setattr(sanitizer, "_run", processes.run)
    monkeypatch.setattr(sanitizer, "find_flags", lambda program: [])
    return ask("compute-sanitizer", ["memcheck"], [], range(count), at_once, 3600)["memcheck"]


def test_a_program_that_was_cut_off_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes({2: 1})
    answers = ask_processes(processes, monkeypatch)
    assert processes.lists == [[0, 1, 2, 3, 4], [2, 3, 4]]
    assert answers == Answers(silent={0, 1, 2, 3, 4})


def test_a_program_that_takes_a_whole_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes({2: 9})
    answers = ask_processes(processes, monkeypatch)
    assert processes.lists == [[0, 1, 2, 3, 4], [2, 3, 4], [3, 4]]
    assert answers.silent == {0, 1, 3, 4}
    assert answers.refused == {2: "alone it takes longer than the 240 s of one process"}


def test_one_process_that_says_nothing_loses_no_other_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = ask_processes(Processes({}, mute=[1]), monkeypatch, at_once=2)
    assert (answers.silent, answers.unheard) == ({0, 2, 4}, {1, 3})
    assert answers.mute == ["no program ran under compute-sanitizer --tool memcheck: no context\n"]
    assert ask_sanitizer.report({"memcheck": answers}) == 0
    assert "2 not asked\n  no program ran under" in capsys.readouterr().out
    with pytest.raises(RuntimeError, match=r"no program ran under .*: no context"):
        ask_processes(Processes({}, mute=[0, 1]), monkeypatch, at_once=2)


def test_a_process_says_whether_it_ran_into_its_limit(tmp_path: Path) -> None:
    with (tmp_path / "output").open("w") as stream:
        assert sanitizer._wait([sys.executable, "-c", "import time; time.sleep(60)"], stream, 0.1)
        assert not sanitizer._wait([sys.executable, "-c", "pass"], stream, 60)


def test_mutants_that_were_not_reached_keep_their_answers() -> None:
    names = [mutant.name for mutant in MUTANTS[:5]]
    old = dict.fromkeys(names, True)
    said = Answers(accused={0}, silent={1}, refused={2: "too many threads"}, unheard={3})
    numbers = [0, 1, 2, 3, len(MUTANTS)]
    merged = ask_sanitizer.merge_answers("racecheck", said, numbers, old)
    assert merged == {names[0]: True, names[1]: False, names[3]: True, names[4]: True}
    merged = ask_sanitizer.merge_answers("memcheck", said, numbers, old)
    assert merged == {**old, names[1]: False}


def test_a_record_is_merged_into_the_file_that_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is not there yet begins as a copy of the repository's."""
    write_program(tmp_path / "compute-sanitizer", "print('Version 2025.3')")
    monkeypatch.setenv("PATH", str(tmp_path))
    ours, out = tmp_path / "ours.json", tmp_path / "other.json"
    layer, places = f"{LAYER} memcheck", {"host": "a compiler"}
    text = json.dumps({"layers": {layer: {"ours": True}}, "asked on": places})
    ours.write_text(text)
    monkeypatch.setattr(elsewhere, "FILE", ours)
    monkeypatch.setattr(ask_sanitizer, "CANDIDATES", ask_sanitizer.CANDIDATES[:3])
    device = SimpleNamespace(description="a GPU")
    monkeypatch.setattr(ask_sanitizer, "get_device", lambda name: device)
    first, second = (mutant.name for mutant in MUTANTS[:2])
    for name, said in ((first, Answers(accused={0})), (second, Answers(silent={1}))):
        monkeypatch.setattr(ask_sanitizer, "ask", lambda *rest, said=said: {"memcheck": said})
        assert ask_sanitizer.main(out, [name], 1, 60) == 0
    assert elsewhere.read(out) == {layer: {"ours": True, first: True, second: False}}
    assert elsewhere.read_places(out).keys() == {"host", LAYER}
    assert ours.read_text() == text


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"accused": {10**6}}, "WRONG: an original is accused, and it is right"),
        ({"refused": {10**6: "too large"}}, "WRONG: an original is refused, and it is right"),
        ({"unbuilt": {10**6: "no such axis"}}, "WRONG: an original does not compile"),
    ],
)
def test_what_is_wrong_with_an_original_is_told(
    said: Any, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ask_sanitizer, "name", lambda number: "an original")
    assert ask_sanitizer.report({"memcheck": Answers(**said)}) == 1
    assert capsys.readouterr().out.splitlines()[-1].strip() == sentence


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
