"""Which GPU it is, and the versions of all that runs on it."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

PACKAGES = ("apache-tvm", "apache-tvm-ffi", "torch", "triton", "numpy")


def describe_device(properties: Any, architecture: str) -> dict[str, object]:
    """The GPU's facts by PyTorch; sizes in bytes."""
    return {
        "name": str(properties.name),
        "architecture": architecture,
        "multiprocessors": int(properties.multi_processor_count),
        "memory_bytes": int(properties.total_memory),
        "l2_bytes": int(properties.L2_cache_size),
        "cpu": platform.processor() or platform.machine(),
        "cpu_cores": len(os.sched_getaffinity(0)),
    }


def find_versions() -> dict[str, str]:
    """By name; what is not there is left out."""
    import tirstep

    found = {"tirstep": tirstep.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    found["cuda"] = str(torch.version.cuda)
    found["cudnn"] = str(torch.backends.cudnn.version())
    if driver := _find_driver():
        found["driver"] = driver
    return found


def _find_driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
