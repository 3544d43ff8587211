"""TVM's default schedules, dlight."""

from __future__ import annotations

from typing import Any

import tvm
from tvm.s_tir import dlight


def schedule_by_default(module: tvm.IRModule, target: Any) -> tvm.IRModule:
    """Schedule a module with the first rule that fits it, and dlight's fallback where none does."""
    gpu = dlight.gpu
    rules = (
        gpu.Matmul(),
        gpu.GEMV(),
        gpu.Reduction(),
        gpu.GeneralReduction(),
        gpu.Transpose(),
        gpu.Fallback(),
    )
    with get_plain_target(target):
        # dlight writes what it schedules into the module that it is given, too.
        return dlight.ApplyDefaultSchedule(*rules)(tvm.IRModule(dict(module.functions_items())))


def get_plain_target(target: Any) -> Any:
    """A target with an architecture that dlight knows.

    It does not understand one such as sm_90a, and then leaves the tensor cores out without a word;
    it gets the same one without the letter.
    """
    attributes = dict(target.attrs)
    attributes["arch"] = str(attributes["arch"]).rstrip("af")
    return tvm.target.Target({"kind": "cuda", **attributes})
