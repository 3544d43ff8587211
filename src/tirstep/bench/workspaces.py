"""Intermediate tensors of kernels with several launches, as arguments of the compiled function.

By itself TVM takes them from a pool for each call, and frees a page of it where the next function
needs a larger one. A CUDA graph that was recorded before would go on writing there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import tvm
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import PrimFunc


class Workspace(NamedTuple):
    """An intermediate tensor."""

    shape: tuple[int, ...]
    dtype: str


def lift_workspaces(module: tvm.IRModule) -> tuple[tvm.IRModule, list[Workspace]]:
    """Make the global intermediates of "main" its last arguments; which they are, in that order.

    rewrite: ``main(A, C): P = alloc(...); ...`` -> ``main(A, C, P): ...``
    """
    function = module["main"]
    root = function.body.block
    lifted = [buffer for buffer in root.alloc_buffers if buffer.scope() == "global"]
    if not lifted:
        return module, []
    block = SBlock(
        root.iter_vars,
        root.reads,
        root.writes,
        root.name_hint,
        root.body,
        root.init,
        [buffer for buffer in root.alloc_buffers if buffer.scope() != "global"],
        root.match_buffers,
        root.annotations,
        root.span,
    )
    main = PrimFunc(
        [*function.params, *lifted],
        SBlockRealize([], True, block),
        function.ret_type,
        function.attrs,
        function.span,
    )
    workspaces = [
        Workspace(tuple(int(size) for size in buffer.shape), str(buffer.dtype)) for buffer in lifted
    ]
    return tvm.IRModule({"main": main}), workspaces


def write_workspaces(workspaces: Sequence[Workspace], library: Path) -> None:
    """Keep them beside the library of their function."""
    _find_file(library).write_text(json.dumps(workspaces), encoding="utf-8")


def read_workspaces(library: Path) -> list[Workspace]:
    """The workspaces of a library."""
    said = json.loads(_find_file(library).read_text(encoding="utf-8"))
    return [Workspace(tuple(shape), dtype) for shape, dtype in said]


def _find_file(library: Path) -> Path:
    return library.with_suffix(".workspaces.json")
