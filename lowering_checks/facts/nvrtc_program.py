"""A program that compiles CUDA source with NVRTC, for a process of its own.

``python nvrtc.py CUBIN OPTION... < SOURCE`` writes machine code, and the compiler's log to standard
error; it exits with 1 where the source is refused. It stands alone: a process per architecture is
the only way to compile for several at once, since within one NVRTC compiles one after the other.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# TVM gives NVRTC, which has no <math.h>, this name, too; the rest is in the sources themselves.
HEAD = """#include <cuda/std/limits>
#ifndef INFINITY
#define INFINITY (::cuda::std::numeric_limits<float>::infinity())
#endif
"""


# What <cuda.h> has for tensor maps, which kernels with bulk copies take by value; TVM gives NVRTC
# the same, by the tag that <cuda/barrier> declares.
TENSOR_MAP = """struct alignas(64) CUtensorMap_st { unsigned long long opaque[16]; };
typedef struct CUtensorMap_st CUtensorMap;
"""


def main(cubin: str, options: Sequence[str]) -> int:
    """Compile standard input; the exit code."""
    from cuda.bindings import nvrtc

    program_text = prepare(sys.stdin.read()).encode()
    program = _call(nvrtc.nvrtcCreateProgram, program_text, b"kernels.cu", 0, None, None)
    (code,) = nvrtc.nvrtcCompileProgram(
        program, len(options), [option.encode() for option in options]
    )
    log = bytearray(_call(nvrtc.nvrtcGetProgramLogSize, program))
    _call(nvrtc.nvrtcGetProgramLog, program, log)
    sys.stderr.write(log.decode(errors="replace").rstrip("\0\n") + "\n")
    if int(code) != 0:
        return 1
    machine_code = bytearray(_call(nvrtc.nvrtcGetCUBINSize, program))
    _call(nvrtc.nvrtcGetCUBIN, program, machine_code)
    Path(cubin).write_bytes(machine_code)
    return 0


def prepare(source: str) -> str:
    """What NVRTC is given of a source of TVM's: tensor maps for a header that it lacks."""
    text = "".join(line for line in source.splitlines(True) if line.strip() != "#include <cuda.h>")
    return HEAD + (TENSOR_MAP if re.search(r"\bCUtensorMap\b", text) else "") + text


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of the bindings, which returns its error code in front of its result."""
    code, *results = function(*arguments)
    if int(code) != 0:
        sys.exit(f"error: {function.__name__} fails with {code.name}")
    return results[0] if results else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
