"""Runs a built program in a process of its own, and turns its report into findings.

A kernel that stores where it must not, or that never ends, ends its process and not ours.
"""

from __future__ import annotations

import itertools
import math
import re
import signal
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tirstep.transforms.gpu_limits import MAX_EXTENTS

from ..device import Arrays, DeviceError, DeviceFinding, is_blank
from .cxx_compiler import run_limited
from .generated import Generated, HostBuffer, HostPart, Launch

VECTOR_BYTES = 16
"""Where a source has vectors, buffers are aligned to the widest; elsewhere each ends at a page that
no access may reach."""
EXCERPT = 100
_BARRIERS = {
    "some": "barrier reached by only some threads of a block: the others have exited",
    "different": "threads of a block wait at different barriers",
    "lanes": "lanes of a warp wait for others that never arrive",
}
_DEPENDS = {
    "race": "the order in which threads run (a missing barrier, or two threads that store to it)",
    "uninitialized read": "uninitialized memory",
}


def run_built(
    program: Path, part: HostPart, generated: Generated, *, seed: int, seconds: float
) -> tuple[Arrays, list[DeviceFinding]]:
    """Run a program on the arguments of a host's part: they come back, with what went wrong."""
    job = _write_job(part, generated, seed, seconds)
    try:
        done = run_limited([str(program)], job, seconds)
    except subprocess.TimeoutExpired as error:
        raise DeviceError(
            f'the kernel does not end within {seconds:g} s on the device "host"; look for a loop '
            "that never ends, or choose a smaller shape"
        ) from error
    except OSError as error:
        raise DeviceError(f"the built kernel does not start: {error}") from error
    if done.returncode != 0 or not done.stdout.endswith(b"end\n"):
        raise DeviceError(f"the kernel's process died: {_describe_death(done)}")
    arrays, reports = _read_result(done.stdout, part)
    return arrays, [report.to_finding(part.buffers, generated.source) for report in reports]


def _write_job(part: HostPart, generated: Generated, seed: int, seconds: float) -> bytes:
    """As `read_job` in runtime/main.cpp reads it."""
    numbers = [math.ceil(seconds), seed, len(part.buffers)]
    for buffer in part.buffers:
        alignment = VECTOR_BYTES if generated.has_vectors else buffer.item_bytes
        is_argument = buffer.data is not None
        # What is read and written begins as it is given, always.
        is_output = buffer.data is not None and buffer.is_written and is_blank(buffer.data)
        size = math.prod(buffer.shape) * buffer.item_bytes
        numbers += [size, buffer.item_bytes, alignment, is_argument, is_output]
    numbers.append(len(part.launches))
    for launch in part.launches:
        numbers += _write_launch(launch, generated.kernels)
    data = (buffer.data.tobytes() for buffer in part.buffers if buffer.data is not None)
    return struct.pack(f"{len(numbers)}q", *numbers) + b"".join(data)


def _write_launch(launch: Launch, kernels: list[str]) -> list[int]:
    extents = [launch.extents.get(axis, 1) for axis in MAX_EXTENTS]
    arguments = [
        (value, 0) if kind == "buffer" else (-1, value) for kind, value in launch.arguments
    ]
    flat = itertools.chain.from_iterable(arguments)
    return [kernels.index(launch.kernel), *extents, len(arguments), *flat]


def _read_result(output: bytes, part: HostPart) -> tuple[Arrays, list[RuntimeReport]]:
    arrays, offset = [], 0
    for buffer in part.buffers:
        if buffer.data is not None:
            flat = np.frombuffer(output, buffer.data.dtype, buffer.data.size, offset)
            arrays.append(flat.reshape(buffer.data.shape).copy())
            offset += buffer.data.nbytes
    lines = output[offset:].decode().splitlines()[:-1]
    return arrays, [RuntimeReport.parse(line) for line in lines]


def _describe_death(done: subprocess.CompletedProcess[bytes]) -> str:
    errors = done.stderr.decode(errors="replace").strip()
    if errors:
        return errors.splitlines()[-1]
    if done.returncode < 0:
        return f"signal {signal.Signals(-done.returncode).name}"
    return f"exit code {done.returncode}"


@dataclass(frozen=True)
class RuntimeReport:
    """One line of the runtime's report (runtime/findings.h).

    Attributes
    ----------
    detail : an access, as ``load``; a C++ type in quotes; or which error of its kind
    buffer : the number of a buffer in global memory; -1 for none
    element : of the buffer, or of the array of the type
    line : of the generated source; 0 where it is not known
    thread : and its block; empty where they are not known
    """

    kind: str
    detail: str
    buffer: int
    element: int
    line: int
    count: int
    thread: str

    @classmethod
    def parse(cls, text: str) -> RuntimeReport:
        """Read a line with tabs between its fields."""
        kind, detail, buffer, element, line, count, known, thread, block = text.split("\t")
        place = f"thread {thread} of block {block}" if known == "1" else ""
        return cls(kind, detail, int(buffer), int(element), int(line), int(count), place)

    def to_finding(self, buffers: list[HostBuffer], source: str) -> DeviceFinding:
        """The finding, with names for numbers."""
        lines = source.splitlines()
        excerpt = lines[self.line - 1].strip() if 0 < self.line <= len(lines) else ""
        short = excerpt if len(excerpt) <= EXCERPT else f"{excerpt[:EXCERPT]} …"
        place = f" (line {self.line} of the generated source: {short})" if excerpt else ""
        if self.buffer >= 0:
            buffer = buffers[self.buffer]
            name, message = buffer.name, self._describe_global(buffer)
        else:
            name = _find_array(lines, excerpt, self.detail)
            message = self._describe_local(name)
        return DeviceFinding(self.kind, name, message + place, "", self.count)

    def _describe_global(self, buffer: HostBuffer) -> str:
        place = f"{buffer.name}[{self.element}]"
        if self.kind in _DEPENDS:
            indices = np.unravel_index(self.element, buffer.shape)
            place = f"{buffer.name}[{', '.join(str(int(index)) for index in indices)}]"
            return f"{place} depends on {_DEPENDS[self.kind]}"
        if self.kind == "misaligned access":
            return f"{_get_type(self.detail)} access to {place} by {self.thread}"
        access = "access to" if self.detail.startswith("'") else self.detail
        by = f" by {self.thread}" if self.thread else ""
        return f"{access} {place}{by} ({buffer.name} has {math.prod(buffer.shape)} elements)"

    def _describe_local(self, name: str) -> str:
        if self.detail in _BARRIERS:
            return _BARRIERS[self.detail]
        if self.kind == "misaligned access":
            place = "shared memory or a local array"
            return f"{_get_type(self.detail)} access to {place} by {self.thread}"
        if self.kind == "undefined operation" and self.detail == "shift":
            return f"{self.thread} shifts by {self.element} bits (the type has fewer)"
        if self.kind == "undefined operation":
            return (
                f"{self.thread} converts a number beyond the range of {_get_type(self.detail)}: a "
                "GPU saturates, and a CPU does not"
            )
        if self.kind != "out of bounds":
            return f"{self.thread} {self.detail}"
        if "[" in self.detail:
            place = f"{name or 'an array'}[{self.element}]"
            return f"access to {place} by {self.thread} (a {_get_type(self.detail)})"
        if self.detail.startswith("'"):
            place = f"a {_get_type(self.detail)} beyond the end of an array"
            return f"access to {place} by {self.thread}"
        return f"{self.detail} an address far from every array by {self.thread}"


def _get_type(type_name: str) -> str:
    """A type as the source writes it: ``'const struct float4'`` is ``float4``."""
    return re.sub(r"\b(?:const|struct) |\s+(?=\[)", "", type_name.strip("'"))


def _find_array(lines: list[str], excerpt: str, type_name: str) -> str:
    """The array of a type that a line of the source names; empty unless there is just one."""
    size = re.search(r"\[(\d+)\]", type_name)
    if size is None:
        return ""
    pattern = re.compile(rf"\b(\w+)\[{size[1]}\];")
    names = {declared[1] for line in lines if (declared := pattern.search(line))}
    here = sorted(name for name in names if re.search(rf"\b{name}\b", excerpt))
    return re.sub(r"_ptr(?=_\d+$|$)", "", here[0]) if len(here) == 1 else ""
