"""Random schedules for as long as you like: each call is refused with nothing changed, or right.

    python tests/fuzz_schedules.py SEED SECONDS [--jobs N] [--device cuda] [--keep-going]
                                   [--ignore TEXT] [--only KERNEL]

The moves are those of tests/recipes/test_random_schedules.py, drawn by Python's `random`. After the
last move of a trial the numbers are checked on the CPU and, where every block is spread over the
threads of its kernel, on the simulator and on the other devices named. At the first wrong trial it
ends with exit code 1 and a program of as few calls as show it, which was run and seen to; with
``--keep-going`` it collects them. Trials are played in worker processes: one that dies, of a
program that writes where it may not, of too much memory or of too much time, is a finding of its
trial, and with ``--keep-going`` another worker goes on behind it. A trial of a minute or more is
told as slow. ``--trial N`` plays one trial again, in this process. ``--only`` draws one kernel, or
"fragments" or "warpgroups": products of whole fragments, or whole tiles of a warpgroup, in the
types of tensor cores; or "quads" and "rows": attention of whole fragments, or of whole rows of a
warpgroup; or "streams" and "streamed rows": sums of several parts.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TVM_NUM_THREADS", "1")
os.environ.setdefault("TIRSTEP_COMPILE_SECONDS", "60")
sys.path.insert(0, str(Path(__file__).parent / "support"))

from tirstep.files import write_file
from tirstep.modules import Problem
from tirstep.processes import count_cores
from tirstep.strategies.players import MOVES, Player
from tirstep.strategies.plays import (
    Play,
    WrongError,
    judge,
    require_structure,
    shorten,
    write_script,
)
from tirstep.strategies.problems import (
    PARTS,
    RARE,
    SIZES,
    Dice,
    draw_huge,
    draw_part,
    draw_problem,
    draw_rare,
)

PART_ONES = 4  # one trial of so many is of one of these
HUGE_ONES = 20  # one trial of so many is of a huge problem
LONGEST = 600  # seconds of a trial, after which the process ends with its stack
SLOW = 60  # seconds of a trial, from which on it is told: nothing may take so long
OFTEN = 60  # seconds between two lines of progress
GIBIBYTES = 8  # of memory, in each worker


@dataclass
class Session:
    """What one process plays, and what it has seen.

    Attributes
    ----------
    counts : of trials, transforms and devices, by name
    ignored : findings with one of these in their text count for nothing
    only : the kernel that is drawn, or one of `PARTS`; "" for all, and huge ones
    shows : whether the text of a program shows a kind of wrong; none is kept that does not
    """

    seed: str
    devices: Sequence[str]
    folder: Path
    ignored: Sequence[str] = ()
    only: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    shows: Callable[[str, str], bool] = field(default_factory=lambda: shows)

    def play(self, trial: int) -> None:
        """Play one trial, and write a program about it if it is wrong."""
        play: Play | None = None
        try:
            choice = Dice(f"{self.seed}:{trial}")
            problem, is_huge = self.draw(choice)
            play = Play(problem)
            self.counts["trials"] += 1
            Player(choice, play).play_all(choice.one(range(3, 40), "tries"))
            self._judge(play, is_huge)
        except WrongError as wrong:
            self._report(trial, play, wrong)
        finally:
            self.counts.update(play.counts if play else {})

    def draw(self, choice: Dice) -> tuple[Problem, bool]:
        """A problem, and whether it is a huge one, which is not run."""
        is_huge = not self.only and choice.one(range(HUGE_ONES), "huge") == 0
        return (draw_huge(choice) if is_huge else self._draw(choice)), is_huge

    def _draw(self, choice: Dice) -> Problem:
        if self.only in PARTS:
            return draw_part(choice, self.only)
        if self.only in SIZES and self.only not in RARE:
            return draw_problem(choice, self.only)
        if self.only in RARE and self.only not in SIZES:
            return draw_rare(choice, self.only)
        if not self.only and choice.one(range(PART_ONES), "parts") == 0:
            return draw_part(choice, choice.one(list(PARTS), "part"))
        is_rare = choice.one((False, False, True), "rare")
        name = self.only or choice.one(list(RARE if is_rare else SIZES), "kernel")
        return (draw_rare if is_rare else draw_problem)(choice, name)

    def note(self, trial: int | None) -> None:
        """Write down what has been seen, and the trial that now begins, if there is one more."""
        noted = {"trial": trial, "counts": self.counts, "wrong": len(self.wrong)}
        get_notes(self.folder, self.seed).write_text(json.dumps(noted), "utf-8")

    def _judge(self, play: Play, is_huge: bool) -> None:
        require_structure(play.module)
        if is_huge:
            self.counts["huge"] += 1
            return
        said = judge(play.problem, play.module, self.devices)
        self.counts.update(f"ran on {name}" for name in said.by_device)
        self.counts.update(f"not run: {refusal[:90]}" for refusal in said.refusals)
        if any(not self._is_ignored(text) for text in said.findings):
            raise WrongError("wrong", "; ".join(said.findings)[:1000])

    def _is_ignored(self, text: str) -> bool:
        return any(part in text for part in self.ignored)

    def _report(self, trial: int, play: Play | None, wrong: WrongError) -> None:
        assert play is not None
        play.wrong = wrong
        fewer = shorten(play.problem, play.all_calls, lambda other: self._is_wrong(other, wrong))
        path = self.folder / f"{self.seed}-{trial}.py"
        for calls in (fewer, play.all_calls):
            text = write_script(wrong, play.problem, calls, self.devices)
            if is_shown := self.shows(text, wrong.kind):
                write_file(path, text)
                break
        log = "\n".join(f"  {call}" for call in calls)
        again = say_again(self.seed, trial, self.only)
        program = path if is_shown else "none: in a process of their own these calls do not show it"
        said = f"{wrong}\n{play.problem}\n{log}\n  again: {again}\n  program: {program}"
        self.wrong.append(said)
        print(said, flush=True)

    def _is_wrong(self, play: Play, wrong: WrongError) -> bool:
        if play.wrong is not None:
            return play.wrong.kind == wrong.kind
        if wrong.call is not None:
            return False
        try:
            require_structure(play.module)
            if wrong.kind == "structure":  # nor may a huge one be run
                return False
            found = judge(play.problem, play.module, self.devices).findings
            return wrong.kind == "wrong" and any(not self._is_ignored(text) for text in found)
        except WrongError as other:
            return other.kind == wrong.kind


def shows(text: str, kind: str, *, seconds: float = LONGEST / 4) -> bool:
    """Whether a program ends with a `WrongError` of a kind, or by a signal, in its own process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.py"
        path.write_text(text, "utf-8")
        try:
            done = subprocess.run(
                [sys.executable, str(path)],
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
    return done.returncode < 0 or f".WrongError: {kind}: " in done.stderr


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


def say_again(seed: str, trial: int, only: str) -> str:
    """The command that plays one trial again."""
    part = f" --only {only}" if only else ""
    return f"{Path(__file__).name} {seed} 0 --trial {trial}{part}"


def get_notes(folder: Path, seed: str) -> Path:
    """Where a worker writes down what it does, for the process that watches over it."""
    return folder / f"notes-{seed}.json"


def play_here(wishes: argparse.Namespace) -> int:
    """Play in this process; the exit code."""
    session = Session(wishes.seed, wishes.devices, wishes.folder, wishes.ignore, wishes.only)
    begin = last = time.monotonic()
    trials = iter([wishes.trial]) if wishes.trial is not None else count(wishes.first)
    for trial in trials:
        late = time.monotonic() - begin >= wishes.seconds or trial == wishes.trials
        if wishes.trial is None and late:
            break
        session.note(trial)
        faulthandler.dump_traceback_later(LONGEST, exit=True)  # TVM cannot be interrupted
        trial_begin, cpu_begin = time.monotonic(), time.process_time()
        session.play(trial)
        if (spent := time.monotonic() - trial_begin) >= SLOW:
            session.counts["slow"] += 1
            again = say_again(wishes.seed, trial, wishes.only)
            took = f"{spent:.0f} s, and {time.process_time() - cpu_begin:.0f} s of a core"
            print(f"slow: trial {trial} took {took}\n  again: {again}", flush=True)
        if session.wrong and not wishes.keep_going:
            break
        if time.monotonic() - last >= OFTEN:
            last = time.monotonic()
            print(f"seed {wishes.seed}: {session.counts['trials']} trials", flush=True)
    faulthandler.cancel_dump_traceback_later()
    session.note(None)
    if not wishes.is_part:
        spent = time.monotonic() - begin
        print(summarize(wishes.seed, session.counts, spent, len(session.wrong)))
    return 1 if session.wrong else 0


def limit_worker() -> None:
    """Limit this process's data, and have it show where it dies.

    Not its address space: CUDA's libraries take many times more of that than they ever use.
    """
    faulthandler.enable()
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = GIBIBYTES * 2**30
    resource.setrlimit(resource.RLIMIT_DATA, (limit if most < 0 else min(limit, most), most))


class Crew:
    """The workers, with a seed each; one that dies is a finding, and another takes its place.

    Attributes
    ----------
    counts, wrong : of all that have ended
    """

    def __init__(self, wishes: argparse.Namespace) -> None:
        self.wishes = wishes
        self.counts: Counter[str] = Counter()
        self.wrong = 0
        self._end = time.monotonic() + wishes.seconds
        self._at_work: dict[str, subprocess.Popen[bytes]] = {}

    def play(self) -> None:
        """Have all seeds played, until the time is over or something is wrong."""
        jobs = range(self.wishes.jobs)
        names = [f"{self.wishes.seed}.{job}" for job in jobs] if len(jobs) > 1 else []
        for seed in names or [self.wishes.seed]:
            self._begin(seed, 0)
        try:
            while self._at_work:
                for seed, worker in list(self._at_work.items()):
                    if worker.poll() is not None:
                        self._look_at(seed, worker.returncode)
                if self.wrong and not self.wishes.keep_going:
                    return
                time.sleep(0.1)
        finally:
            for seed, worker in self._at_work.items():
                worker.terminate()
                worker.wait()
                self._read_notes(seed)

    def _begin(self, seed: str, first: int) -> None:
        get_notes(self.wishes.folder, seed).unlink(missing_ok=True)
        left = max(0.0, self._end - time.monotonic())
        own = ["--is-part", "--first", str(first)]
        command = [sys.executable, sys.argv[0], seed, str(left), *sys.argv[3:], *own]
        self._at_work[seed] = subprocess.Popen(command)

    def _look_at(self, seed: str, code: int) -> None:
        """Count what a worker that ended has done; if it died, say so and begin behind it."""
        del self._at_work[seed]
        trial = self._read_notes(seed)
        if trial is None and code in (0, 1):
            return
        self.wrong += 1
        died = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if trial is None:
            raise RuntimeError(f"the worker of seed {seed} ended with {died}, in no trial")
        again = say_again(seed, trial, self.wishes.only)
        print(f"died: trial {trial} of seed {seed} ended with {died}\n  again: {again}", flush=True)
        if self.wishes.keep_going and time.monotonic() < self._end:
            self._begin(seed, trial + 1)

    def _read_notes(self, seed: str) -> int | None:
        """Add what a worker has noted; the trial in which it ended, None if it ended by itself."""
        notes = get_notes(self.wishes.folder, seed)
        if not notes.exists():
            return None
        noted = json.loads(notes.read_text("utf-8"))
        notes.unlink()
        self.counts.update(noted["counts"])
        self.wrong += noted["wrong"]
        return noted["trial"]


def play_in_workers(wishes: argparse.Namespace) -> int:
    """Play in workers; the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # which ends the workers, too
    begin, crew = time.monotonic(), Crew(wishes)
    crew.play()
    print(summarize(wishes.seed, crew.counts, time.monotonic() - begin, crew.wrong))
    return 1 if crew.wrong else 0


def main(arguments: Sequence[str]) -> int:
    """Read the command line and play."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("seed", help="any text; jobs add their number")
    parser.add_argument("seconds", type=float, help="after which no trial begins")
    parser.add_argument("--jobs", type=int, default=1, help="processes; 0 is one for each core")
    parser.add_argument("--device", dest="devices", action="append", help="besides cpu, simulator")
    parser.add_argument("--keep-going", action="store_true", help="collect all that is wrong")
    parser.add_argument("--ignore", action="append", default=[], help="findings with this text")
    parser.add_argument(
        "--only",
        choices=[*dict.fromkeys((*SIZES, *RARE)), *PARTS],
        default="",
        help="draw these alone",
    )
    parser.add_argument("--trial", type=int, help="play this one alone")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"), help="for programs")
    parser.add_argument("--trials", type=int, help="end after so many, before the time is over")
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--is-part", action="store_true", help=argparse.SUPPRESS)
    wishes = parser.parse_args(arguments)
    wishes.devices = ("cpu", "simulator", *(wishes.devices or ()))
    wishes.folder.mkdir(parents=True, exist_ok=True)
    wishes.jobs = wishes.jobs or count_cores()
    if wishes.is_part:
        limit_worker()
    is_here = wishes.is_part or wishes.trial is not None
    return play_here(wishes) if is_here else play_in_workers(wishes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
