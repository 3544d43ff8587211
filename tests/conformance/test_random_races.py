"""Random stores, loads and barriers on the simulator, against a rule for which of them race.

The rule knows nothing of the simulator: two accesses of one cell, one of them a store, by two
threads, race unless they are of one block with a barrier between.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from lowered import find_kinds, run_kernel

from tirstep.lowering_checks.devices.simulator import Simulation

THREADS, ROUNDS = 64, 3
SYNC = 'T.tvm_storage_sync("shared")'
INDICES = (
    "tx",
    "63 - tx",
    "(tx + 1) % 64",
    "(tx + 32) % 64",
    "tx // 2 * 2",
    "tx % 32",
    "5",
    "tx // 32 * 32 + (tx + 7) % 32",
    "(tx + k) % 64",
    "(tx + k * 32) % 64",
)
THREAD_GUARDS = ("", "", "tx < 32", "tx == 3", "tx % 2 == 0", "tx // 32 == k % 2")
BLOCK_GUARDS = ("", "", "", "bx == 0")


@dataclass(frozen=True)
class Step:
    """A store, a load or a barrier, behind a condition of the thread or of the block."""

    kind: str
    index: str = ""
    guard: str = ""

    def render(self, number: int, cells: str, offset: str) -> str:
        place = f"{cells}[{self.index}{offset}]"
        mark = f"{number + 1} * 9999 + k * 999 + bx * 99"  # stores of one value do not race
        text = {
            "store": f"{place} = A[tx] + T.Cast('float32', {mark})",
            "load": f"r[0] = r[0] + {place}",
            "barrier": SYNC,
        }[self.kind]
        return f"if {self.guard}:\n    {text}" if self.guard else text


@dataclass(frozen=True)
class Case:
    """Steps, of which those of `repeated` are run in each of three rounds, and what they share."""

    steps: tuple[Step, ...]
    repeated: slice
    blocks: int
    is_global: bool
    are_apart: bool  # each block has cells of its own in global memory

    @property
    def offset(self) -> str:
        return " + bx * 64" if self.is_global and self.are_apart else ""

    def find_races(self) -> bool:
        """Whether any two accesses race, by the rule."""
        seen = defaultdict(list)
        for block in range(self.blocks):
            for thread, phase, kind, cell in self._follow(block):
                place = cell + 64 * block * self.are_apart if self.is_global else (block, cell)
                seen[place].append((block, thread, phase, kind))
        return any(
            _race(access, other) for accesses in seen.values() for access, other in _pair(accesses)
        )

    def _follow(self, block: int) -> Iterator[tuple[int, int, str, int]]:
        """The accesses of a block's threads, each with the number of barriers before it."""
        first, last = self.repeated.start, self.repeated.stop
        rounds = [(0, self.steps[:first])]
        rounds += [(k, self.steps[first:last]) for k in range(ROUNDS)]
        rounds += [(0, self.steps[last:])]
        phase = 0
        for k, steps in rounds:
            for step in steps:
                takes = [t for t in range(THREADS) if _evaluate(step.guard, t, k, block)]
                phase += step.kind == "barrier" and bool(takes)
                if step.kind != "barrier":
                    for t in takes:
                        yield t, phase, step.kind, _evaluate(step.index, t, k, block)

    def write(self) -> str:
        """The body of the kernel, which stores the sum of what each thread loads."""
        cells = "C" if self.is_global else "S"
        texts = [step.render(n, cells, self.offset) for n, step in enumerate(self.steps)]
        lines = ["r = T.alloc_local((1,))", "r[0] = T.float32(0)"]
        if not self.is_global:
            lines += ["S = T.alloc_shared((64,))", "S[tx] = A[tx]", SYNC]
        first, last = self.repeated.start, self.repeated.stop
        for part, head in (
            (texts[:first], "for k in range(1):"),
            (texts[first:last], f"for k in range({ROUNDS}):"),
            (texts[last:], "for k in range(1):"),
        ):
            body = "\n".join(part) or "T.evaluate(0)"
            lines += [head, *("    " + line for line in body.splitlines())]
        return "\n".join([*lines, "B[bx * 64 + tx] = r[0]"])

    def run(self) -> Simulation:
        """What the simulator makes of it, after a launch that fills C."""
        arrays = {
            "A": np.arange(64, dtype="float32"),
            "B": np.full(64 * self.blocks, np.nan, "float32"),
            "C": np.full(128, np.nan, "float32"),
        }
        fill = "if bx == 0:\n    C[tx] = A[tx]\n    C[tx + 64] = A[tx]"
        return run_kernel(arrays, fill, self.write(), blocks=self.blocks, threads=THREADS)


def _evaluate(text: str, thread: int, k: int, block: int):
    return eval(text or "True", {}, {"tx": thread, "k": k, "bx": block})


def _pair(accesses: list) -> Iterator[tuple]:
    return ((access, other) for place, access in enumerate(accesses) for other in accesses[:place])


def _race(one: tuple, other: tuple) -> bool:
    (block, thread, phase, kind), (block2, thread2, phase2, kind2) = one, other
    is_ordered = block == block2 and (phase != phase2 or thread == thread2)
    return not is_ordered and "store" in (kind, kind2)


def draw(seed: int) -> Case:
    drawn = random.Random(seed)
    steps = []
    for _ in range(drawn.randint(3, 7)):
        kind = drawn.choice(("store", "load", "load", "barrier", "barrier"))
        guards = BLOCK_GUARDS if kind == "barrier" else THREAD_GUARDS
        index = "" if kind == "barrier" else drawn.choice(INDICES)
        steps.append(Step(kind, index, drawn.choice(guards)))
    first = drawn.randint(0, len(steps))
    return Case(
        tuple(steps),
        slice(first, drawn.randint(first, len(steps))),
        drawn.choice((1, 2)),
        drawn.random() < 0.5,
        drawn.random() < 0.5,
    )


@pytest.mark.share(2)
@pytest.mark.parametrize("start", range(0, 80, 20))
def test_the_simulator_sees_the_races_that_the_rule_sees(start: int) -> None:
    seen = {}
    for seed in range(start, start + 20):
        case = draw(seed)
        truth = case.find_races()
        found = find_kinds(case.run())
        assert found == ["race"] * truth, f"seed {seed}\n{case.write()}"
        seen[truth] = seed
    assert set(seen) == {True, False}
