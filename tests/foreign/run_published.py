"""`rules.cuda()` on the PrimFuncs of other people's files: how many it takes, and why not the rest.

python tests/foreign/run_published.py FOLDER_OR_FILE... [--left] [--tensor-cores]

Their text is read, not run. With --left each function that is left is named, with the reasons.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

import tvm
from tvm.s_tir import dlight

sys.path.insert(0, str(Path(__file__).parent))
from published import Published, read_published

from tirstep import rules

TARGET = "nvidia/nvidia-h100"


def try_ours(found: Published, *, tensor_cores: bool = False) -> tuple[str, list[str]]:
    """The rule that takes a function, or "" and the reasons of all rules; a raw error raises."""
    ours, target = rules.cuda(tensor_cores=tensor_cores), tvm.target.Target(TARGET)
    for rule in ours:
        if rule.apply(found.function, target, False) is not None:
            return rule.name, []
    return "", [reason for rule in ours for reason in rule.reasons.values()]


def try_dlights(found: Published) -> str:
    """The rule of dlight's default that takes a function; "" where none does or one breaks."""
    target = tvm.target.Target(TARGET)
    for make in (
        dlight.gpu.Matmul,
        dlight.gpu.GEMV,
        dlight.gpu.Reduction,
        dlight.gpu.GeneralReduction,
        dlight.gpu.Fallback,
    ):
        try:
            with target:
                made = make().apply(found.function, target, False)
        except Exception as error:  # of TVM's many kinds
            return f"breaks: {type(error).__name__}"
        if made is not None:
            return make.__name__
    return ""


def generalise(reason: str) -> str:
    """A reason without the names and numbers of one function, to be counted."""
    return re.sub(r"\d+", "N", re.sub(r"'[^']*'", "'..'", reason))


def main() -> int:
    """Print the coverage; 1 if a rule raised what is no refusal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("places", nargs="+", type=Path, metavar="FOLDER_OR_FILE")
    parser.add_argument("--left", action="store_true", help="name each function that is left")
    parser.add_argument("--tensor-cores", action="store_true")
    arguments = parser.parse_args()
    broken = 0
    for place in arguments.places:
        broken += report(place, named=arguments.left, tensor_cores=arguments.tensor_cores)
    return int(broken > 0)


def report(place: Path, *, named: bool, tensor_cores: bool) -> int:
    """Print what became of a place's functions; how many raised what is no refusal."""
    taken: Counter[str] = Counter()
    by_dlight: Counter[str] = Counter()
    aside: Counter[str] = Counter()
    reasons: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for found in read_published(place):
        if found.function is None:
            aside[found.reason.partition(":")[0]] += 1
            continue
        by_dlight[try_dlights(found) or "left"] += 1
        try:
            rule, why = try_ours(found, tensor_cores=tensor_cores)
        except Exception as error:  # a finding
            rule, why = "raw error", [f"{type(error).__name__}: {error}"]
        taken[rule or "left"] += 1
        for reason in why:
            reasons[reason.partition(":")[0]][generalise(reason)] += 1
        if why and (named or rule):
            print(f"{found.file}: {found.name}: " + " | ".join(why), flush=True)
    total = sum(taken.values())
    ours = total - taken["left"] - taken["raw error"]
    print(f"{place}: {ours} of {total} functions: {_list(taken)}")
    print(f"  dlight's default: {_list(by_dlight)}; not tried: {_list(aside) or 'none'}")
    for several in reasons.values():
        for reason, number in several.most_common(8):
            print(f"  {number}: {reason}")
    return taken["raw error"]


def _list(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.most_common())


if __name__ == "__main__":
    sys.exit(main())
