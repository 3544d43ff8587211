"""Holds the tests that were skipped against those that may be: ``skips.py LOG "COUNT REASON"...``

LOG is what pytest printed with -ra. Each allowance is a number and a regular expression of the
reasons' beginning. Exits with 1 where more tests were skipped, or for another reason: a test that
nobody runs any more looks like one that passes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

SKIPPED = re.compile(r"^SKIPPED \[(\d+)\] (\S+): (.*)$", re.MULTILINE)
CLOSING = re.compile(r"^=* ?(?:.*?(\d+) skipped)?.* in [0-9.]+s(?: \(.*\))?(?: =+)?$", re.MULTILINE)


def find_findings(log: str, allowances: Sequence[str]) -> list[str]:
    """What was skipped too often or without leave, each as a sentence."""
    left = {
        reason: int(count)
        for count, reason in (allowance.split(" ", 1) for allowance in allowances)
    }
    findings, listed = [], 0
    for count, place, reason in SKIPPED.findall(log):
        listed += int(count)
        allowed = next((pattern for pattern in left if re.match(pattern, reason)), None)
        if allowed is None:
            findings.append(f"{count} skipped in {place}, and .ci/run allows none: {reason}")
        else:
            left[allowed] -= int(count)
    for reason, rest in left.items():
        if rest < 0:
            findings.append(f"{-rest} more skipped than .ci/run allows: {reason}")
    closing = CLOSING.findall(log)
    if not closing:
        findings.append("pytest printed no closing line, so nobody knows what was skipped")
    elif int(closing[-1] or 0) != listed:
        findings.append(f"pytest skipped {closing[-1] or 0} tests, and gave reasons for {listed}")
    return findings


def main(arguments: Sequence[str]) -> int:
    """Print the findings; 1 if there are any."""
    log, *allowances = arguments
    findings = find_findings(Path(log).read_text("utf-8", "replace"), allowances)
    for finding in findings:
        print(f"skips: {finding}", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
