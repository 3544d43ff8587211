"""What must hold, step by step: goldens, diffs, numbers, and the devices they are computed on."""

import importlib
from typing import TYPE_CHECKING, Any

if __name__ != "tirstep.lowering_checks":
    raise ImportError("this folder is a part of tirstep: import it as tirstep.lowering_checks")

from tirstep.versions import require_supported_tvm

require_supported_tvm()

if TYPE_CHECKING:
    from .devices import Device as Device
    from .devices import DeviceError as DeviceError
    from .devices import get_device as get_device
    from .devices.simulator import Counts as Counts
    from .facts import count_accesses as count_accesses
    from .golden import GoldenStore as GoldenStore
    from .numeric import check_numbers as check_numbers
    from .ownership import check_ownership as check_ownership
    from .steps import CheckError as CheckError
    from .steps import Diff as Diff
    from .steps import Finding as Finding
    from .steps import Run as Run
    from .steps import diff_modules as diff_modules
    from .steps import diff_steps as diff_steps
    from .steps import print_module as print_module
    from .steps import run_default_example as run_default_example
    from .steps import run_golden as run_golden
    from .steps import run_recipe as run_recipe
    from .verdict import Verdict as Verdict
    from .verdict import judge_run as judge_run

_HOMES = {
    "devices": "Device DeviceError get_device",
    "devices.simulator": "Counts",
    "facts": "count_accesses",
    "golden": "GoldenStore",
    "numeric": "check_numbers",
    "ownership": "check_ownership",
    "steps": "CheckError Diff Finding Run diff_modules diff_steps print_module run_default_example "
    "run_golden run_recipe",
    "verdict": "Verdict judge_run",
}
"""The modules that have them, imported when one is asked for: the guard needs none of them."""


__all__ = [name for names in _HOMES.values() for name in names.split()]


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names.split():
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
