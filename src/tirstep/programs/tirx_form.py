"""Writes a scheduled kernel in the form of TIRx, which is compiled as it stands.

It is lowered by the passes that put barriers in, make copies asynchronous and give shared memory
its places, up to where TVM splits the host from it; names for common subexpressions, which TIRx's
own pipeline makes, are left to that. Its launches become numbers of blocks and threads.
"""

from __future__ import annotations

import re
from typing import Any

import tvm

from tirstep.experiments.editing import edit_pipeline, register
from tirstep.lowering_checks.compile.compiling import MAIN
from tirstep.lowering_checks.compile.passes import SPLIT_PASS, lower_through_passes
from tirstep.lowering_checks.steps import CheckError
from tirstep.transforms import get_pipeline

_LAUNCH = re.compile(
    r' *(?:with )?(?:(\w+) = )?T\.launch_thread\("(\w+)Idx\.(\w)", (\d+)\)(?: as (\w+):)?'
)
_NAMES = {"clusterCta": "cta_id_in_cluster", "block": "cta_id", "thread": "thread_id"}


def write_as_tirx(module: tvm.IRModule, name: str) -> str:
    """The text of one function `name`; raises `CheckError` for what has no such form."""

    def leave_out(passes: list[Any]) -> list[Any]:
        return [each for each in passes if each.info.name != "tirx.CommonSubexprElim"]

    pipeline = register(lambda: edit_pipeline(get_pipeline(module), leave_out))
    lowering = lower_through_passes(module, "cuda", pipeline=pipeline, is_run=False)
    if lowering.failed is not None:
        raise CheckError(str(lowering.failed))
    split = next(each.number for each in lowering.passes if each.name == SPLIT_PASS)
    state = [each.module for each in lowering.passes if each.number == split - 1][-1]
    function = state[MAIN].without_attr("target").without_attr("tirx.is_entry_func")
    lines = function.script().splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith("@T.prim_func"))
    text = "\n".join(lines[begin:]).replace("@T.prim_func(s_tir=True)", "@T.prim_func")
    text = re.sub(r'T\.tvm_storage_sync\("shared(?:\.dyn)?"\)', "T.cuda.cta_sync()", text)
    return _name_threads(re.sub(r"def \w+\(", f"def {name}(", text, count=1), name)


def _name_threads(text: str, name: str) -> str:
    """The text without its launches, whose bodies stand in the function's own."""
    axes, lines, opened = dict[tuple[str, str], tuple[str, str]](), list[str](), list[int]()
    begin, barrier = 0, 1 << 30
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip())
        if depth > barrier:  # of a cluster, whose axis stands around that alone
            lines.append(line[4 * (len(opened) + 1) :])
            continue
        barrier = 1 << 30
        if line.strip() and opened and depth <= opened[-1]:
            raise CheckError(f"{name} launches more than one kernel, or has statements after it")
        found = _LAUNCH.fullmatch(line)
        if found is None:
            lines.append(line[4 * len(opened) :])
            continue
        variable, kind, axis, extent, named = found.groups()
        if (kind, axis) in axes or kind not in _NAMES:
            raise CheckError(f"{name} launches virtual threads, or several clusters")
        begin = begin if axes else len(lines)
        axes[kind, axis] = named or variable or f"{kind}_{axis}", extent
        if kind == "clusterCta":
            barrier = depth
            continue
        opened += [depth] * bool(named)
    if not axes:
        raise CheckError(f"{name} launches no kernel; bind its loops to threads first")
    numbers = ["    T.device_entry()"]
    for kind, call in _NAMES.items():
        if kind == "clusterCta" and (kind, "x") not in axes:
            continue
        last = max((at for at, axis in enumerate("xyz") if (kind, axis) in axes), default=0)
        own = [axes.get((kind, axis), (f"{kind}_{axis}", "1")) for axis in "xyz"[: last + 1]]
        names, extents = (", ".join(it) for it in zip(*own, strict=True))
        numbers.append(f"    {names} = T.{call}([{extents}])")
    return "\n".join([*lines[:begin], *numbers, *lines[begin:]])
