"""What modules are lowered for: TVM's targets, and NVIDIA's architectures by their names."""

from __future__ import annotations

import difflib
import re
from typing import Any

import tvm

from .finding import CheckError

TARGET = "nvidia/nvidia-h100"
"""What is lowered for where nothing else is said; its source compiles for older GPUs, too."""
KINDS = ("cuda", "opencl", "llvm")
"""The kinds of targets that tirstep reads the source of."""


def find_target(name: str) -> Any:
    """TVM's target of a name.

    ``cuda`` is that of `TARGET`, ``sm_80`` the same with another architecture; ``opencl``,
    ``llvm`` and TVM's tags (``nvidia/nvidia-a100``) are what TVM makes of them. Raises
    `CheckError` with the nearest names.
    """
    if name == "cuda":
        return tvm.target.Target(TARGET)
    if re.fullmatch(r"sm_\d+[af]?", name):
        attributes = dict(tvm.target.Target(TARGET).attrs)
        return tvm.target.Target({"kind": "cuda", **attributes, "arch": name})
    try:
        target = tvm.target.Target(name)
    except (ValueError, TypeError, tvm.error.InternalError):
        raise CheckError(f"there is no target '{name}'; {_suggest(name)}") from None
    if target.kind.name not in KINDS:
        raise CheckError(
            f"the target '{name}' is of the kind {target.kind.name}, whose source tirstep does not "
            f"read; choose one of {', '.join(KINDS)}"
        )
    return target


def _suggest(name: str) -> str:
    known = [*KINDS, "sm_80", "sm_90a", *sorted(str(tag) for tag in tvm.target.list_tags())]
    if near := difflib.get_close_matches(name, known, n=3, cutoff=0.5):
        return f"did you mean {' or '.join(near)}?"
    return f"there are {', '.join(KINDS)}, sm_80 and the like, and TVM's tags such as {TARGET}"
