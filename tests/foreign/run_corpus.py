"""Every transform on every function of the corpus (`make foreign`): what is wrong, raw or bare.

python tests/foreign/run_corpus.py [--calls 1.0] [--judged 1.0] [--seed 0] [--state STATE] [NAME...]
"""

from __future__ import annotations

import argparse
import collections
import random
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from foreign_corpus.driving import Outcome, list_places, play

GOOD = ("right", "refused", "accepted")
EACH = ("wrong", "finding", "changed by a refusal")
"""Verdicts that are all shown."""


def main() -> int:
    """Print what is not as it should be, and how many calls had which end; 1 if any is not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="functions; all by default")
    parser.add_argument("--calls", type=float, default=1, help="the share of calls that are made")
    parser.add_argument("--judged", type=float, default=1, help="of accepted ones, that are judged")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", help="this state alone")
    given = parser.parse_args()
    dice, counts, shown = random.Random(given.seed), collections.Counter[str](), set[str]()
    for foreign, state in list_places(given.names):
        if given.state in (None, state):
            for outcome in play(foreign, state, dice, calls=given.calls, judged=given.judged):
                counts[outcome.verdict] += 1
                _show(outcome, shown)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    return int(any(verdict not in (*GOOD, "not built") for verdict in counts))


def _show(outcome: Outcome, shown: set[str]) -> None:
    """Print what is wrong; of refusals and errors one with the same words."""
    words = re.sub(r"'[^']*'|\d+|\[kernel .*", "", outcome.text)
    mark = f"{outcome.verdict} {outcome.call.transform} {words}"
    if outcome.verdict not in GOOD and (outcome.verdict in EACH or mark not in shown):
        print(outcome, flush=True)
    shown.add(mark)


if __name__ == "__main__":
    sys.exit(main())
