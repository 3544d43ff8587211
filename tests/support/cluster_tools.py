"""Workers of a cluster that need no GPU, and what tests plant in them."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fake_machine import FakeMachine
from fake_pool import FakePool

from tirstep.bench import workers
from tirstep.bench.compile_pool import CompileJob
from tirstep.bench.search import SearchPlan
from tirstep.bench.session import Launch, Replay, Settings, order_turns
from tirstep.modules import matmul
from tirstep.transforms.recipes import RECIPES

BLOCKING = dataclasses.replace(RECIPES["matmul_shared_blocking"], choices={"local_y": (2, 4, 16)})
FIXED = {"local_x": 2, "block_y": 4, "block_x": 8, "tile_k": 4, "vector": 1}
PLAN = SearchPlan(BLOCKING, matmul.problem(32, 32, 16), FIXED)
SETTINGS = Settings(rounds=3)


@dataclass
class OneCluster:
    """Workers, what they warned of, and the folder with what is planted."""

    workers: Any
    warned: list[str]
    folder: Path


class ClusterMachine(FakeMachine):
    """Takes 10 ms for each row of a thread's tile. What goes wrong stands in the file "plant"."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.rows: dict[int, int] = {}

    def compile(self, module: Any, arguments: Sequence[Any]) -> Launch:
        right, rows = super().compile(module, arguments), count_rows(module)

        def launch() -> None:
            right()
            self._misbehave(rows)

        self.rows[id(launch)] = rows
        return launch

    def _misbehave(self, rows: int) -> None:
        plant = (self.folder / "plant").read_text()
        if plant == "kill once" and rows == 2 and _is_first(self.folder, "killed"):
            os.kill(os.getpid(), signal.SIGKILL)
        if plant == "hang" and rows == 2:
            time.sleep(1000)

    def time(self, replays: Sequence[Replay], repeats: Sequence[int]) -> list[list[float]]:
        times: list[list[float]] = [[] for _ in replays]
        for turn in order_turns(repeats):
            times[turn].append(1e-2 * self.rows.get(id(replays[turn].run), 1))
        return times


@dataclass(frozen=True)
class MakeMachine:
    """Goes to the workers, in which candidates are compiled as they are run."""

    folder: Path

    def __call__(self) -> ClusterMachine:
        workers.CompilePool = lambda *_, processes, **__: FakePool(compile_nothing, processes)
        return ClusterMachine(self.folder)


def count_rows(module: Any) -> int:
    """Of a thread's tile, where 4 threads of a block share 32 rows with the other blocks."""
    found = re.search(r'thread_binding\((\d+), thread="blockIdx.y"\)', module.script())
    return 8 // int(found[1]) if found else 8


def compile_nothing(job: CompileJob) -> str:
    """Leaves no library: the machine compiles for itself."""
    return "refused: split_loop: no" if job.config["local_y"] == 16 else ""


def _is_first(folder: Path, what: str) -> bool:
    """Whether nobody has asked for this yet."""
    try:
        (folder / what).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
