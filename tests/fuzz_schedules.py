"""Random schedules for as long as you like: each call is refused with nothing changed, or right.

    python tests/fuzz_schedules.py SEED SECONDS [--jobs N] [--device cuda] [--only KERNEL]

The moves are those of tests/recipes/test_random_schedules.py, with TVM's primitives in between,
drawn by Python's `random`. Then numbers are checked on the CPU and, where every block is spread
over the threads of its kernel, on the simulator and on the other devices named. At the first wrong
trial it ends with exit code 1 and as few calls as show it; what a primitive breaks by itself is
counted. Trials are played in workers: one that dies, of a store where none may be, of too much
memory or time, is a finding. ``--trial N`` plays one again, in this process. ``--only`` draws one
kernel, or "fragments" or "warpgroups": products of whole fragments, or tiles of a warpgroup, in the
types of tensor cores; or "quads" and "rows": attention of whole fragments, or of whole rows of a
warpgroup.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TVM_NUM_THREADS", "1")
os.environ.setdefault("TIRSTEP_COMPILE_SECONDS", "60")

sys.path.append(str(Path(__file__).parent / "support"))

import pebble
from judged_plays import (
    PRIME,
    WITH_PRIMITIVES,
    draw_huge,
    draw_prime,
    find_own_fault,
    judge,
    require_structure,
    shorten,
)
from players import Player
from plays import Play, WrongError

from tirstep.modules import Problem
from tirstep.processes import count_cores
from tirstep.strategies.problems import PARTS, SIZES, Dice, draw_part, draw_problem

PART_ONES, HUGE_ONES = 4, 20  # one trial of so many is of `PARTS`, or of a huge problem
LONGEST = 600  # seconds of a trial, after which its process is ended
GIBIBYTES = 8  # of memory, in each worker


@dataclass
class Session:
    """What is played, and what was seen.

    Attributes
    ----------
    counts : of trials, transforms and devices, by name
    only : the kernel that is drawn, or one of `PARTS`; "" for all, and huge ones
    """

    seed: str
    devices: Sequence[str]
    only: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def play(self, trial: int) -> Session:
        """Play one trial, and note it with as few calls as show it if it is wrong; the session."""
        play: Play | None = None
        try:
            choice = Dice(f"{self.seed}:{trial}")
            problem, is_huge = self.draw(choice)
            play = Play(problem)
            self.counts["trials"] += 1
            player = Player(choice, play, WITH_PRIMITIVES)
            player.play_all(choice.one(range(3, 40), "tries"))
            self._judge(play, is_huge)
        except WrongError as wrong:
            assert play is not None
            play.wrong = wrong
            kind, is_at_call = wrong.kind, wrong.call is not None
            calls = shorten(
                problem, play.all_calls, lambda it: self._is_wrong(it, kind, is_at_call=is_at_call)
            )
            if kind == "wrong" and (own := find_own_fault(problem, calls)):
                self.counts[f"TVM's own: {own.name}"] += 1
                return self
            log = "\n".join(f"  {call}" for call in calls)
            self.wrong.append(f"{wrong}\n{problem}\n{log}\n  again: {self.say_again(trial)}")
        finally:
            self.counts.update(play.counts if play else {})
        return self

    def draw(self, choice: Dice) -> tuple[Problem, bool]:
        """A problem, and whether it is a huge one, which is not run."""
        only = self.only
        if not only and choice.one(range(HUGE_ONES), "huge") == 0:
            return draw_huge(choice), True
        if only in PARTS or (not only and choice.one(range(PART_ONES), "parts") == 0):
            return draw_part(choice, only or choice.one(list(PARTS), "part")), False
        kinds = [*[(draw_problem, SIZES)] * 3, (draw_prime, PRIME)]
        draw, known = choice.one([it for it in kinds if not only or only in it[1]], "kind")
        return draw(choice, only or choice.one(list(known), "kernel")), False

    def _judge(self, play: Play, is_huge: bool) -> None:
        require_structure(play.module)
        if is_huge:
            self.counts["huge"] += 1
            return
        said = judge(play.problem, play.module, self.devices)
        self.counts.update(f"ran on {name}" for name in said.by_device)
        self.counts.update(f"not run: {refusal[:90]}" for refusal in said.refusals)
        if said.findings:
            raise WrongError("wrong", "; ".join(said.findings)[:1000])

    def _is_wrong(self, play: Play, kind: str, *, is_at_call: bool) -> bool:
        if play.wrong is not None or is_at_call:
            return play.wrong is not None and play.wrong.kind == kind
        try:
            require_structure(play.module)
            if kind == "structure":  # nor may a huge one be run
                return False
            found = judge(play.problem, play.module, self.devices).findings
            return kind == "wrong" and bool(found)
        except WrongError as other:
            return other.kind == kind

    def say_again(self, trial: int) -> str:
        """The command that plays one trial again."""
        part = f" --only {self.only}" if self.only else ""
        return f"{Path(__file__).name} {self.seed} 0 --trial {trial}{part}"

    def summarize(self, seconds: float) -> str:
        """What was done, in lines."""
        counts = self.counts
        done = sum(counts[f"done {name}"] for name in WITH_PRIMITIVES)
        refused = sum(number for key, number in counts.items() if key.startswith("refused "))
        ran = ", ".join(f"{counts[key]} {key}" for key in sorted(counts) if key.startswith("ran "))
        never = [name for name in WITH_PRIMITIVES if not counts[f"done {name}"]]
        own = ", ".join(f"{counts[key]} {key[11:]}" for key in sorted(counts) if key[:5] == "TVM's")
        return (
            f"seed {self.seed}: {counts['trials']} trials in {seconds:.0f} s: {done} transforms "
            f"done, {refused} refused; {ran or 'nothing ran'}; {counts['huge']} huge; "
            f"{len(self.wrong)} wrong\n  never done: {', '.join(never) or 'none'}"
            f"\n  wrong by a primitive of TVM's itself: {own or 'none'}"
        )


def limit_worker() -> None:
    """Limit this process's data, and have it show where it dies.

    Not its address space: CUDA's libraries take many times more of that than they ever use.
    """
    faulthandler.enable()
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = GIBIBYTES * 2**30
    resource.setrlimit(resource.RLIMIT_DATA, (limit if most < 0 else min(limit, most), most))


def take(session: Session, future: Future[Session], trial: int) -> None:
    """Add what came of a trial; a worker that died is a finding."""
    try:
        played = future.result()
    except (pebble.ProcessExpired, TimeoutError) as error:
        code = getattr(error, "exitcode", None)
        how = f"after {LONGEST} s" if code is None else f"with exit code {code}"
        how = f"with signal {signal.Signals(-code).name}" if code is not None and code < 0 else how
        told = f"died: trial {trial} of seed {session.seed} ended {how}"
        session.wrong.append(f"{told}\n  again: {session.say_again(trial)}")
    else:
        session.counts.update(played.counts)
        session.wrong += played.wrong
        if not played.wrong:
            return
    print(session.wrong[-1], flush=True)


def play_in_workers(session: Session, wishes: argparse.Namespace) -> None:
    """Play trials until the time is over, or something is wrong."""
    end = time.monotonic() + wishes.seconds
    trials = count()
    running: dict[Future[Session], int] = {}
    spawn = multiprocessing.get_context("spawn")  # TVM's threads do not survive a fork
    with pebble.ProcessPool(wishes.jobs, context=spawn, initializer=limit_worker) as pool:
        while True:
            while len(running) < wishes.jobs and time.monotonic() < end:
                if (trial := next(trials)) == wishes.trials:
                    end = 0.0
                    break
                fresh = Session(session.seed, session.devices, session.only)
                future = pool.schedule(fresh.play, (trial,), timeout=LONGEST)
                running[future] = trial
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                take(session, future, running.pop(future))
            if session.wrong:
                pool.stop()
                return


def main(arguments: Sequence[str]) -> int:
    """Read the command line and play."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("seed", help="any text")
    parser.add_argument("seconds", type=float, help="after which no trial begins")
    parser.add_argument("--jobs", type=int, default=1, help="processes; 0 is one for each core")
    parser.add_argument("--device", dest="devices", action="append", help="besides cpu, simulator")
    parser.add_argument("--only", choices=[*SIZES, *PARTS], default="", help="draw these alone")
    parser.add_argument("--trial", type=int, help="play this one alone")
    parser.add_argument("--trials", type=int, help="end after so many, before the time is over")
    wishes = parser.parse_args(arguments)
    wishes.jobs = wishes.jobs or count_cores()
    devices = ("cpu", "simulator", *(wishes.devices or ()))
    session, begin = Session(wishes.seed, devices, wishes.only), time.monotonic()
    if wishes.trial is not None:
        session.play(wishes.trial)
        print(*session.wrong, sep="\n")
    else:
        play_in_workers(session, wishes)
    print(session.summarize(time.monotonic() - begin))
    return 1 if session.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
