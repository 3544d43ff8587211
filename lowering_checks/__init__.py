"""What must hold, step by step: goldens, diffs, numbers, and the devices they are computed on."""

import importlib
from typing import TYPE_CHECKING, Any

if __name__ != "tirstep.lowering_checks":
    raise ImportError("this folder is a part of tirstep: import it as tirstep.lowering_checks")

from tirstep.versions import require_supported_tvm

require_supported_tvm()

if TYPE_CHECKING:
    from .devices import Device, DeviceError, get_device
    from .devices.simulator import Counts
    from .diff import Diff, diff_modules, diff_steps
    from .facts import count_accesses
    from .golden import GoldenStore
    from .numeric import check_numbers
    from .ownership import check_ownership
    from .steps import (
        CheckError,
        Finding,
        Run,
        print_module,
        run_default_example,
        run_golden,
        run_recipe,
    )
    from .verdict import Verdict, judge_run

__all__ = [
    "CheckError",
    "Counts",
    "Device",
    "DeviceError",
    "Diff",
    "Finding",
    "GoldenStore",
    "Run",
    "Verdict",
    "check_numbers",
    "check_ownership",
    "count_accesses",
    "diff_modules",
    "diff_steps",
    "get_device",
    "judge_run",
    "print_module",
    "run_default_example",
    "run_golden",
    "run_recipe",
]

_HOMES = {
    "devices": ("Device", "DeviceError", "get_device"),
    "devices.simulator": ("Counts",),
    "diff": ("Diff", "diff_modules", "diff_steps"),
    "facts": ("count_accesses",),
    "golden": ("GoldenStore",),
    "numeric": ("check_numbers",),
    "ownership": ("check_ownership",),
    "steps": (
        "CheckError",
        "Finding",
        "Run",
        "print_module",
        "run_default_example",
        "run_golden",
        "run_recipe",
    ),
    "verdict": ("Verdict", "judge_run"),
}
"""The modules that have them, imported when one is asked for: the guard needs none of them."""


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
