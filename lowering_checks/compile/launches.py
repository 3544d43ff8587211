"""A module behind TVM's split of host and device: its kernels, and the host's launches of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.ir import Call

from tirstep.transforms.tir import find_all
from tirstep.tvm_compat import get_op_name

from .compiling import MAIN

SPLIT_PASS = "tirx.SplitHostDevice"
DYNAMIC_SHARED = "tirx.use_dyn_shared_memory"
"""In a launch's extents, the bytes of dynamic shared memory."""
_KERNEL_LAUNCH = 2  # TVM's calling convention of what the host launches


@dataclass(frozen=True)
class KernelCall:
    """A launch in the host's part.

    Attributes
    ----------
    arguments : the buffers' pointers and the integers that the kernel takes
    extents : expressions, by thread axis; `DYNAMIC_SHARED` among them where the kernel has any
    """

    kernel: str
    arguments: tuple[Any, ...]
    extents: dict[str, Any]


def read_launch(call: Any, kernels: Mapping[str, Any]) -> KernelCall | None:
    """What an expression launches; None for one that is no launch.

    Before TVM writes a launch down as one, it is a plain call of one of `kernels`, without extents.
    """
    if not isinstance(call, Call):
        return None
    if get_op_name(call) == "tirx.call_ffi_kernel":
        tags = [str(tag) for tag in call.attrs.launch_params]
        name, *passed = call.args
        count = len(passed) - len(tags)
        extents = dict(zip(tags, passed[count:], strict=True))
        return KernelCall(str(name.value), tuple(passed[:count]), extents)
    callee = str(getattr(call.op, "name_hint", ""))
    return KernelCall(callee, tuple(call.args), {}) if callee in kernels else None


def find_launches(body: Any, kernels: Mapping[str, Any]) -> list[KernelCall]:
    """The launches of `kernels` in a function's body, in the order of the text."""
    launches = (read_launch(call, kernels) for call in find_all(body, Call))
    return [launch for launch in launches if launch is not None]


def find_kernels(module: tvm.IRModule) -> dict[str, Any]:
    """The functions that run on a GPU, by name; none before TVM splits them off."""
    return {
        str(variable.name_hint): function
        for variable, function in module.functions_items()
        if _get_convention(function) == _KERNEL_LAUNCH or str(variable.name_hint) != MAIN
    }


def find_host(module: tvm.IRModule) -> Any:
    """The function that launches the kernels, while it still takes buffers; otherwise None.

    Later on it takes packed arguments, and launches through the driver.
    """
    functions = module.functions_items()
    entry = next((function for variable, function in functions if variable.name_hint == MAIN), None)
    return None if entry is None or _get_convention(entry) is not None else entry


def count_item_bytes(buffer: Any) -> int:
    """The bytes of one element of a buffer, which may be a vector."""
    dtype = tvm.DataType(str(buffer.dtype))
    return int(dtype.bits * dtype.lanes + 7) // 8


def _get_convention(function: Any) -> int | None:
    convention = function.attrs.get("calling_conv") if function.attrs is not None else None
    return None if convention is None else int(getattr(convention, "value", convention))
