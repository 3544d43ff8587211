"""Asks NVIDIA's compute-sanitizer about programs, many in one process.

Each program's kernels bear its number, so that a report says whose it is, wherever it is printed.
What is left of a list after a program broke its process is asked in a new one.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TextIO

PREFIX = "subject"
_KERNEL = re.compile(rf"\b{PREFIX}_(\d+)_")
_SAID = re.compile(r"^(begin|end|none|unbuilt|refused) (\d+)(?: (.*))?$", re.MULTILINE)
MOST_SECONDS = 240  # for one process; each program in it has a limit of its own
FLAGS = {
    "--print-limit": "0",  # all reports, not the first hundred
    "--show-backtrace": "no",
    "--destroy-on-device-error": "kernel",  # and not the context, with all programs behind it
    "--padding": "4096",  # so that what is beside a buffer is nobody's
}


@dataclass
class Answers:
    """What one tool says of programs, by number.

    Attributes
    ----------
    accused : it has reports of them
    silent : they ran to their end without any
    refused : CUDA does not launch them, or they broke their process: the sentence of that
    unbuilt : CUDA does not compile them: the sentence of that
    unheard : not asked, since the time was over or their process said nothing
    mute : of each process that said nothing, a sentence
    """

    accused: set[int] = field(default_factory=set)
    silent: set[int] = field(default_factory=set)
    refused: dict[int, str] = field(default_factory=dict)
    unbuilt: dict[int, str] = field(default_factory=dict)
    unheard: set[int] = field(default_factory=set)
    mute: list[str] = field(default_factory=list)


class Ran(NamedTuple):
    """What a process printed, the sanitizer's log of it, and whether it ran into its limit."""

    said: str
    log: str
    is_cut: bool


def find_flags(program: str) -> list[str]:
    """Of `FLAGS` those that this version of the sanitizer has."""
    done = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
    known = done.stdout + done.stderr
    return [part for flag, value in FLAGS.items() if flag in known for part in (flag, value)]


def ask(
    program: str,
    tools: Sequence[str],
    runner: Sequence[str],
    programs: Sequence[int],
    processes: int,
    seconds: float,
) -> Mapping[str, Answers]:
    """Ask every tool about programs, by their numbers, in several processes at once.

    `runner` with a tool and numbers, ``3,4,5``, behind it is the command that runs programs. After
    so many seconds no more are asked; what is known by then is returned. Raises RuntimeError if
    processes ended and no program began in any.
    """
    flags, shares = find_flags(program), max(1, processes // len(tools))
    end = time.monotonic() + seconds
    answers = {tool: Answers() for tool in tools}
    with ThreadPoolExecutor(len(tools) * shares) as pool:
        jobs = []
        for tool in tools:
            command = [program, "--tool", tool, *flags]
            for share in range(shares):
                numbers = list(programs[share::shares])
                runs = [*runner, tool]
                jobs.append(pool.submit(_ask_all, command, runs, numbers, answers[tool], end))
        has_heard = [job.result() for job in jobs]
    mute = [sentence for said in answers.values() for sentence in said.mute]
    if mute and not any(has_heard):
        raise RuntimeError(mute[0])
    return answers


def _ask_all(
    command: Sequence[str],
    runner: Sequence[str],
    numbers: list[int],
    answers: Answers,
    end: float,
) -> bool:
    """Ask one tool about a list of programs; whether any of them began."""
    has_heard = False
    while numbers and (left := end - time.monotonic()) > 0:
        limit = min(MOST_SECONDS, left)
        ran = _run(command, runner, numbers, limit)
        heard = _hear(ran.said, answers)
        accused = {int(number) for number in _KERNEL.findall(ran.log)}
        begun = [int(number) for word, number, _ in _SAID.findall(ran.said) if word == "begin"]
        if not begun:
            if not ran.is_cut or limit == MOST_SECONDS:
                answers.mute.append(_describe_mute(command, ran, limit))
            break
        has_heard = True
        if begun[-1] not in heard:
            if not ran.is_cut:
                answers.refused[begun[-1]] = "it ended its process"
            elif limit == MOST_SECONDS and len(begun) == 1:
                sentence = f"alone it takes longer than the {limit:g} s of one process"
                answers.refused[begun[0]] = sentence
            else:  # the next process, if there is time for one, begins with it
                accused.discard(begun.pop())
        answers.accused |= accused
        answers.silent -= accused
        numbers = [number for number in numbers if number not in begun]
    answers.unheard.update(numbers)
    return has_heard


def _describe_mute(command: Sequence[str], ran: Ran, limit: float) -> str:
    within = f" within {limit:g} s" if ran.is_cut else ""
    return f"no program ran under {' '.join(command)}{within}: {(ran.log + ran.said)[-2000:]}"


def _hear(said: str, answers: Answers) -> set[int]:
    """Take over what programs said of their end; their numbers."""
    heard = set()
    for word, number, sentence in _SAID.findall(said):
        if word == "begin":
            continue
        heard.add(int(number))
        if word == "end":
            answers.silent.add(int(number))
        elif word == "refused":
            answers.refused[int(number)] = sentence
        elif word == "unbuilt":
            answers.unbuilt[int(number)] = sentence
    return heard


def _wait(command: Sequence[str], stream: TextIO, seconds: float) -> bool:
    """Run a command; at the limit it ends with the processes that it began. Whether it did."""
    with subprocess.Popen(
        command, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        try:
            process.wait(seconds)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return True
    return False


def _run(
    command: Sequence[str], runner: Sequence[str], numbers: Sequence[int], seconds: float
) -> Ran:
    with tempfile.TemporaryDirectory() as folder:
        log, output = Path(folder, "log"), Path(folder, "output")
        listed = ",".join(map(str, numbers))
        with output.open("w") as stream:
            full = [*command, "--log-file", str(log), sys.executable, *runner, listed]
            is_cut = _wait(full, stream, seconds)
        texts = [path.read_text(errors="replace") for path in Path(folder).glob("log*")]
        return Ran(output.read_text(errors="replace"), "".join(texts), is_cut)
