"""What each mutant must be killed by, read from expected.txt."""

from __future__ import annotations

from pathlib import Path

FILE = Path(__file__).resolve().parents[1] / "expected.txt"


def read() -> dict[str, frozenset[str]]:
    """A mutant's name, and the layers that must kill it."""
    lines = [line for line in FILE.read_text().splitlines() if line and not line.startswith("#")]
    expected = {}
    for line in lines:
        name, killers = line.split(": ", 1)
        expected[name] = frozenset(
            layer for killer in killers.split(", ") for layer in _layers(*killer.split())
        )
    return expected


def _layers(device: str, *aspects: str) -> list[str]:
    return [f"{device} {aspect}" for aspect in aspects] or [device]
