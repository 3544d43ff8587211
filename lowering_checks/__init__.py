"""What must hold, step by step: goldens, diffs, numbers, and the devices they are computed on."""

if __name__ != "tirstep.lowering_checks":
    raise ImportError("this folder is a part of tirstep: import it as tirstep.lowering_checks")

from tirstep.versions import require_supported_tvm

require_supported_tvm()

from .counts import Counts, count_accesses
from .devices import Device, DeviceError, find_device
from .diff import Diff, diff_modules, diff_steps, print_module
from .finding import CheckError, Finding
from .golden import GoldenStore
from .numeric import check_numbers
from .steps import Run, run_golden, run_recipe, run_seed
from .unfinished import find_unfinished
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
    "count_accesses",
    "diff_modules",
    "diff_steps",
    "find_device",
    "find_unfinished",
    "judge_run",
    "print_module",
    "run_golden",
    "run_recipe",
    "run_seed",
]
