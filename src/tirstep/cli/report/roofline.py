"""What a GPU can do at most: the roofs of a roofline (Williams et al., CACM 52(4), 2009)."""

from __future__ import annotations

import ctypes

from .model import Peaks

# CUDA driver API, CUdevice_attribute.
CLOCK_RATE, MEMORY_CLOCK_RATE, MEMORY_BUS_WIDTH = 13, 36, 37
MULTIPROCESSORS, MAJOR, MINOR = 16, 75, 76
# CUDA C++ Programming Guide, "Arithmetic Instructions": float32 multiply-adds a clock and SM.
LANES = {(7, 0): 64, (7, 5): 64, (8, 0): 64}
LANES_SINCE_8_6 = 128


def find_peaks() -> Peaks | None:
    """The float32 and memory peaks of the first GPU from its clocks; None without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0):
        return None

    def ask(attribute: int) -> int:
        value = ctypes.c_int()
        code = driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        return 0 if code else value.value

    lanes = LANES.get((ask(MAJOR), ask(MINOR)), LANES_SINCE_8_6)
    flops = 2.0 * lanes * ask(MULTIPROCESSORS) * ask(CLOCK_RATE) * 1e3
    # Memory moves data on both edges of its clock.
    moved = 2.0 * ask(MEMORY_CLOCK_RATE) * 1e3 * ask(MEMORY_BUS_WIDTH) / 8
    return Peaks(flops / 1e9, moved / 1e9) if flops and moved else None
