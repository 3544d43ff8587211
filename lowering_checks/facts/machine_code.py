"""The instructions in machine code that matter, counted in what nvdisasm prints."""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from .compiler import find_tool

COUNTED = ("FFMA", "FFMA2", "DFMA", "IMMA", "HMMA", "HGMMA", "LDSM", "LDGSTS", "BAR")
BY_WIDTH = ("LDG", "STG", "LDS", "STS", "LDL", "STL")
"""Loads and stores, counted by bits: ``LDG.128``. LDL and STL are of a thread's own memory."""
_KERNEL = re.compile(r"^\.text\.([^:\s]+):")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P[T\d]+\s+)?([A-Z][A-Z0-9_.]*)")
_WIDTH = re.compile(r"\.[US]?(8|16|64|128)(?=\.|$)")


@functools.lru_cache(maxsize=256)
def count_instructions(cubin: bytes) -> Mapping[str, Counter[str]] | None:
    """How many of each instruction that matters, by kernel; None where there is no nvdisasm."""
    program = find_tool("nvdisasm")
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernels.cubin"
        file.write_bytes(cubin)
        done = subprocess.run(
            [program, "--print-code", str(file)], capture_output=True, text=True, errors="replace"
        )
    return None if done.returncode else read_instructions(done.stdout)


def read_instructions(text: str) -> dict[str, Counter[str]]:
    """The same, of the text that nvdisasm prints."""
    counts: dict[str, Counter[str]] = {}
    kernel = ""
    for line in text.splitlines():
        if start := _KERNEL.match(line):
            kernel = start[1]
            counts[kernel] = Counter()
        elif kernel and (found := _INSTRUCTION.match(line)):
            counts[kernel].update(_classify(found[1]))
    return counts


def _classify(instruction: str) -> list[str]:
    name, _, modifiers = instruction.partition(".")
    if name in COUNTED:
        return [name]
    if name not in BY_WIDTH:
        return []
    width = _WIDTH.search(f".{modifiers}")
    return [f"{name}.{width[1] if width else 32}"]
