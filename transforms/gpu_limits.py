"""Limits of GPUs, from the CUDA C++ Programming Guide ("Compute Capabilities").

The numbers of a launch hold for every compute capability since 3.0.
"""

from __future__ import annotations

MAX_EXTENTS = {
    "blockIdx.x": 2**31 - 1,
    "blockIdx.y": 2**16 - 1,
    "blockIdx.z": 2**16 - 1,
    "threadIdx.x": 1024,
    "threadIdx.y": 1024,
    "threadIdx.z": 64,
}
"""Blocks of a grid and threads of a block, along each axis."""
MAX_CLUSTER = 8
"""Blocks of a cluster, on every GPU that has clusters (compute capability 9.0)."""
MAX_THREADS = 1024
"""Threads of a block."""
MAX_SHARED_BYTES = {"shared": 48 << 10, "shared.dyn": 227 << 10}
"""Shared memory per thread block, static and dynamic, on compute capability 9.0."""
WARP = 32
"""Threads of a warp."""
THREADS = 2048
"""Threads per multiprocessor, on compute capability 9.0."""
REGISTERS = 65536
"""Registers per multiprocessor, since compute capability 5.0."""


def count_registers(threads: int) -> int:
    """The most registers that each thread of a block can begin with, which come in eights."""
    return min(REGISTERS // threads // 8 * 8, 256)
