"""Random schedules for as long as you like: each call is refused with nothing changed, or right.

    python tests/fuzz_schedules.py SEED SECONDS [--jobs N] [--device cuda] [--keep-going]
                                   [--ignore TEXT]

The moves are those of tests/recipes/test_random_schedules.py, drawn by Python's `random`. After the
last move of a trial the numbers are checked on the CPU and, where every block is spread over the
threads of its kernel, on the simulator and on the other devices named. At the first wrong trial it
ends with exit code 1 and a program that reproduces it, with as few calls as do; with
``--keep-going`` it collects them. ``--trial N`` plays one trial again.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TVM_NUM_THREADS", "1")
os.environ.setdefault("TIRSTEP_COMPILE_SECONDS", "60")
sys.path.insert(0, str(Path(__file__).parent / "support"))

from players import MOVES, SIZES, Dice, Player, draw_huge, draw_problem
from plays import (
    Play,
    WrongError,
    judge,
    require_structure,
    shorten,
    write_script,
)

HUGE_ONES = 20  # one trial of so many is of a huge problem
LONGEST = 600  # seconds of a trial, after which the process ends with its stack
OFTEN = 60  # seconds between two lines of progress


@dataclass
class Session:
    """What one process plays, and what it has seen.

    Attributes
    ----------
    counts : of trials, transforms and devices, by name
    ignored : findings with one of these in their text count for nothing
    """

    seed: str
    devices: Sequence[str]
    folder: Path
    ignored: Sequence[str] = ()
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def play(self, trial: int) -> None:
        """Play one trial, and write a program about it if it is wrong."""
        self._mark(trial)
        play: Play | None = None
        try:
            choice = Dice(f"{self.seed}:{trial}")
            is_huge = choice.one(range(HUGE_ONES), "huge") == 0
            kernel = choice.one(list(SIZES), "kernel")
            play = Play(draw_huge(choice) if is_huge else draw_problem(choice, kernel))
            self.counts["trials"] += 1
            Player(choice, play).play_all(choice.one(range(3, 40), "tries"))
            self._judge(play, is_huge)
        except WrongError as wrong:
            self._report(trial, play, wrong)
        finally:
            self.counts.update(play.counts if play else {})

    def _mark(self, trial: int) -> None:
        """Note which trial is running, for what ends the whole process."""
        (self.folder / f"running-{self.seed}").write_text(str(trial), "utf-8")

    def _judge(self, play: Play, is_huge: bool) -> None:
        require_structure(play.module)
        if is_huge:
            self.counts["huge"] += 1
            return
        said = judge(play.problem, play.module, self.devices)
        self.counts.update(f"ran on {name}" for name in said.ran)
        self.counts.update(f"not run: {one[:90]}" for one in said.refusals)
        if any(not self._is_ignored(text) for text in said.findings):
            raise WrongError("wrong", "; ".join(said.findings)[:1000])

    def _is_ignored(self, text: str) -> bool:
        return any(part in text for part in self.ignored)

    def _report(self, trial: int, play: Play | None, wrong: WrongError) -> None:
        assert play is not None
        calls = [*play.calls, *([wrong.call] if wrong.call else [])]
        fewer = shorten(play.problem, calls, lambda other: self._is_wrong(other, wrong.kind))
        path = self.folder / f"{self.seed}-{trial}.py"
        path.write_text(write_script(wrong, play.problem, fewer, self.devices), "utf-8")
        again = f"{Path(__file__).name} {self.seed} 0 --trial {trial}"
        log = "\n".join(f"  {call}" for call in fewer)
        text = f"{wrong}\n{play.problem}\n{log}\n  again: {again}\n  program: {path}"
        self.wrong.append(text)
        print(text, flush=True)

    def _is_wrong(self, play: Play, kind: str) -> bool:
        if play.wrong is not None:
            return play.wrong.kind == kind
        try:
            require_structure(play.module)
            found = judge(play.problem, play.module, self.devices).findings
            return kind == "wrong" and any(not self._is_ignored(text) for text in found)
        except WrongError as wrong:
            return wrong.kind == kind


def summarize(seed: str, counts: Counter[str], seconds: float, wrong: int) -> str:
    """What was done, in lines."""
    done = {name: counts[f"done {name}"] for name in dict.fromkeys(MOVES)}
    refused = sum(count for key, count in counts.items() if key.startswith("refused "))
    ran = ", ".join(f"{counts[key]} {key}" for key in sorted(counts) if key.startswith("ran on "))
    never = [name for name, count in done.items() if not count]
    return "\n".join(
        [
            f"seed {seed}: {counts['trials']} trials in {seconds:.0f} s: {sum(done.values())} "
            f"transforms done, {refused} refused; {ran or 'nothing ran'}; {counts['huge']} huge; "
            f"{wrong} wrong",
            "  " + ", ".join(f"{name} {count}" for name, count in done.items() if count),
            *([f"  never done: {', '.join(never)}"] if never else []),
            *(f"  {counts[key]} times {key}" for key in sorted(counts) if key.startswith("not ")),
        ]
    )


def play_one(wishes: argparse.Namespace) -> int:
    """Play in this process; the exit code."""
    session = Session(wishes.seed, wishes.devices, wishes.folder, wishes.ignore)
    begin = last = time.monotonic()
    trials = iter([wishes.trial]) if wishes.trial is not None else iter(range(10**9))
    for trial in trials:
        if wishes.trial is None and time.monotonic() - begin >= wishes.seconds:
            break
        faulthandler.dump_traceback_later(LONGEST, exit=True)  # TVM cannot be interrupted
        session.play(trial)
        if session.wrong and not wishes.keep_going:
            break
        if time.monotonic() - last >= OFTEN:
            last = time.monotonic()
            print(f"seed {wishes.seed}: {session.counts['trials']} trials", flush=True)
    faulthandler.cancel_dump_traceback_later()
    (wishes.folder / f"running-{wishes.seed}").unlink(missing_ok=True)
    if wishes.is_part:
        print("counts " + json.dumps(session.counts))
    print(summarize(wishes.seed, session.counts, time.monotonic() - begin, len(session.wrong)))
    return 1 if session.wrong else 0


def play_many(wishes: argparse.Namespace) -> int:
    """Play in several processes, with a seed each; the first wrong one ends all."""
    begin, arguments = time.monotonic(), sys.argv[3:]
    seeds = [f"{wishes.seed}.{job}" for job in range(wishes.jobs)]
    logs = [(wishes.folder / f"log-{seed}").open("w+", encoding="utf-8") for seed in seeds]
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, seed, str(wishes.seconds), *arguments, "--is-part"],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        for seed, log in zip(seeds, logs, strict=True)
    ]
    while any(process.poll() is None for process in processes):
        if any(process.poll() for process in processes) and not wishes.keep_going:
            for process in processes:
                process.terminate()
        time.sleep(0.5)
    counts: Counter[str] = Counter()
    bad = 0
    for seed, log, process in zip(seeds, logs, processes, strict=True):
        log.seek(0)
        lines = log.read().splitlines()
        log.close()
        bad += process.returncode > 0
        counts.update(*(json.loads(line[7:]) for line in lines if line.startswith("counts ")))
        if process.returncode:
            running = wishes.folder / f"running-{seed}"
            where = f" in trial {running.read_text('utf-8')}" if running.exists() else ""
            print(f"seed {seed} ended with {process.returncode}{where}:")
            print("\n".join(line for line in lines if not line.startswith("counts ")))
    print(summarize(wishes.seed, counts, time.monotonic() - begin, bad))
    return 1 if any(process.returncode for process in processes) else 0


def main(arguments: Sequence[str]) -> int:
    """Read the command line and play."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("seed", help="any text; jobs add their number")
    parser.add_argument("seconds", type=float, help="after which no trial begins")
    parser.add_argument("--jobs", type=int, default=1, help="processes; 0 is one for each core")
    parser.add_argument("--device", dest="devices", action="append", help="besides cpu, simulator")
    parser.add_argument("--keep-going", action="store_true", help="collect all that is wrong")
    parser.add_argument("--ignore", action="append", default=[], help="findings with this text")
    parser.add_argument("--trial", type=int, help="play this one alone")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"), help="for programs")
    parser.add_argument("--is-part", action="store_true", help=argparse.SUPPRESS)
    wishes = parser.parse_args(arguments)
    wishes.devices = ("cpu", "simulator", *(wishes.devices or ()))
    wishes.folder.mkdir(parents=True, exist_ok=True)
    wishes.jobs = wishes.jobs or os.cpu_count() or 1
    is_one = wishes.is_part or wishes.jobs <= 1 or wishes.trial is not None
    return play_one(wishes) if is_one else play_many(wishes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
