"""Runs a built program in a process of its own, and reads what it says.

A kernel that writes where it must not, or that never ends, ends its process and not ours.
"""

from __future__ import annotations

import itertools
import math
import signal
import struct
import subprocess
from pathlib import Path

import numpy as np

from ..device import Arrays, DeviceError
from .compiler import call
from .generated import AXES, Buffer, Generated, HostPart, Launch
from .reports import Report

VECTOR_BYTES = 16
"""Where a source has vectors, buffers are aligned to the widest; elsewhere each ends at a page that
nobody may touch."""


def run_program(
    program: Path, part: HostPart, generated: Generated, *, seed: int, seconds: float
) -> tuple[Arrays, list[Report]]:
    """Run a program on the arguments of a host's part: they come back, with what went wrong."""
    job = _write_job(part, generated, seed, seconds)
    try:
        done = call([str(program)], job, seconds)
    except subprocess.TimeoutExpired as error:
        raise DeviceError(
            f'the kernel does not end within {seconds:g} s on the device "host"; look for a loop '
            "that never ends, or choose a smaller shape"
        ) from error
    except OSError as error:
        raise DeviceError(f"the built kernel does not start: {error}") from error
    if done.returncode != 0 or not done.stdout.endswith(b"end\n"):
        raise DeviceError(f"the kernel's process died: {_describe_death(done)}")
    return _read_result(done.stdout, part)


def _write_job(part: HostPart, generated: Generated, seed: int, seconds: float) -> bytes:
    """As `read_job` in runtime/main.cpp reads it."""
    numbers = [math.ceil(seconds), seed, len(part.buffers)]
    for buffer in part.buffers:
        alignment = VECTOR_BYTES if generated.has_vectors else buffer.item_bytes
        is_argument = buffer.data is not None
        is_output = is_argument and buffer.is_written
        numbers += [_count_bytes(buffer), buffer.item_bytes, alignment, is_argument, is_output]
    numbers.append(len(part.launches))
    for launch in part.launches:
        numbers += _write_launch(launch, generated.kernels)
    data = (buffer.data.tobytes() for buffer in part.buffers if buffer.data is not None)
    return struct.pack(f"{len(numbers)}q", *numbers) + b"".join(data)


def _write_launch(launch: Launch, kernels: list[str]) -> list[int]:
    extents = [launch.extents.get(axis, 1) for axis in AXES]
    arguments = [
        (value, 0) if kind == "buffer" else (-1, value) for kind, value in launch.arguments
    ]
    flat = itertools.chain.from_iterable(arguments)
    return [kernels.index(launch.kernel), *extents, len(arguments), *flat]


def _read_result(output: bytes, part: HostPart) -> tuple[Arrays, list[Report]]:
    arrays, offset = [], 0
    for buffer in part.buffers:
        if buffer.data is not None:
            flat = np.frombuffer(output, buffer.data.dtype, buffer.data.size, offset)
            arrays.append(flat.reshape(buffer.data.shape).copy())
            offset += buffer.data.nbytes
    lines = output[offset:].decode().splitlines()[:-1]
    return arrays, [Report.parse(line) for line in lines]


def _count_bytes(buffer: Buffer) -> int:
    return math.prod(buffer.shape) * buffer.item_bytes


def _describe_death(done: subprocess.CompletedProcess[bytes]) -> str:
    said = done.stderr.decode(errors="replace").strip()
    if said:
        return said.splitlines()[-1]
    if done.returncode < 0:
        return f"signal {signal.Signals(-done.returncode).name}"
    return f"exit code {done.returncode}"
