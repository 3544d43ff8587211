"""`rules.cuda()` on every function of the corpus: scheduled and right, or left with reasons.

python tests/foreign/run_rules.py [NAME...]
"""

from __future__ import annotations

import sys
from pathlib import Path

import tvm

sys.path.insert(0, str(Path(__file__).parent))
from foreign_corpus import CORPUS, Foreign
from foreign_corpus.judging import RIGHT, judge

from tirstep import rules

LEFT = "left"
TARGET = "nvidia/nvidia-h100"


def try_rules(foreign: Foreign) -> tuple[str, str, str]:
    """The rule that takes a function, the verdict on what it makes, and what is wrong.

    Of a function that none takes: no rule, "left", and the reasons of all.
    """
    ours, target = rules.cuda(), tvm.target.Target(TARGET)
    for rule in ours:
        made = rule.apply(foreign.function, target, False)
        if made is not None:
            return rule.name, *judge(foreign, made.mod, "simulator")
    return "", LEFT, " | ".join(reason for rule in ours for reason in rule.reasons.values())


def main() -> int:
    """Print what became of each function; 1 if anything is not right."""
    verdicts = []
    for name in sys.argv[1:] or CORPUS:
        rule, verdict, text = try_rules(CORPUS[name])
        verdicts.append(verdict)
        print(f"{name}: {rule} {verdict} {text}", flush=True)
    return int(any(verdict not in (RIGHT, LEFT) for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
