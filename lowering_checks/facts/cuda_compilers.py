"""CUDA's compilers: NVRTC of the wheels, or the machine's nvcc. Neither needs a GPU.

Both get the options that TVM gives them at run time, so that what they make is the kernel that
runs: see ``tvm.support.nvcc``, whose environment variables for more options count here, too. The
two have different front ends: of one source they may make code with other numbers of registers.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..compile.compiling import drop_unused_traits
from ..steps import CheckError

MISSING = (
    "there is no compiler for CUDA here; install one: pip install 'tirstep[cuda]', or CUDA's nvcc"
)
NVCC_ADVICE = (
    "nvcc needs a C++ compiler of the machine, such as g++: install one, or NVRTC, which needs "
    "none: pip install 'tirstep[cuda]'"
)
OPTIONS = (
    "-U__CUDA_NO_HALF_OPERATORS__",
    "-U__CUDA_NO_HALF_CONVERSIONS__",
    "-U__CUDA_NO_BFLOAT16_OPERATORS__",
    "-U__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-U__CUDA_NO_BFLOAT162_OPERATORS__",
    "-U__CUDA_NO_BFLOAT162_CONVERSIONS__",
)
NVRTC_OPTIONS = (
    "-default-device",
    "--device-int128",
    "-D__NV_SILENCE_DEPRECATION_BEGIN=",
    "-D__NV_SILENCE_DEPRECATION_END=",
    "-D__NV_SILENCE_HOST_DEPRECATION_BEGIN=",
    "-D__NV_SILENCE_HOST_DEPRECATION_END=",
    *OPTIONS,
    "--use_fast_math",
)
NVCC_OPTIONS = ("--cubin", "-O3", *OPTIONS, "--expt-relaxed-constexpr", "--expt-extended-lambda")
SECONDS = 300
"""What a compiler may take for one source."""


class CompilerMissing(CheckError):  # noqa: N818
    """There is no compiler for CUDA here, or it compiles nothing."""


class CompileError(CheckError):
    """A compiler refuses a source: its first error."""


@dataclass(frozen=True)
class Compiled:
    """Machine code for one architecture, and what the compiler and ptxas say of it."""

    cubin: bytes
    log: str


@dataclass(frozen=True)
class CudaCompiler:
    """A compiler of CUDA.

    Attributes
    ----------
    command : what it is called with, for an architecture and the file that it is to write; the
        source goes to its standard input
    advice : what to do where it refuses everything
    """

    name: str
    command: Callable[[str, Path], list[str]]
    advice: str = "see whether it can compile a kernel by itself"

    def compile(self, source: str, architecture: str) -> Compiled:
        """Machine code of a source; raises `CompileError` where it is refused."""
        with tempfile.TemporaryDirectory() as folder:
            cubin = Path(folder) / "kernels.cubin"
            done = subprocess.run(
                self.command(architecture, cubin),
                input=drop_unused_traits(source),
                capture_output=True,
                text=True,
                errors="replace",
                cwd=folder,
                timeout=SECONDS,
            )
            log = done.stderr + done.stdout
            if done.returncode == 0:
                return Compiled(cubin.read_bytes(), log)
            # The first error, without its place in a generated source.
            lines = log.strip().splitlines() or ["the compiler does not say why"]
            errors = (line.partition("error") for line in lines)
            first = next((error.lstrip(" :").strip() for _, word, error in errors if word), None)
            raise CompileError(lines[-1] if first is None else first)


def get_compiler(name: str | None = None) -> CudaCompiler:
    """The compiler ``"nvrtc"`` or ``"nvcc"``, or the one that TVM would take, or any.

    Raises `CompilerMissing` where there is none.
    """
    first = name or os.environ.get("TVM_CUDA_COMPILE_MODE", "nvrtc").lower()
    finders = {"nvrtc": _find_nvrtc, "nvcc": _find_nvcc}
    order = [first] if name else sorted(finders, key=lambda other: other != first)
    compiler = next((found for each in order if (found := finders[each]())), None)
    if compiler is None:
        raise CompilerMissing(MISSING)
    return compiler


def find_tool(name: str) -> str | None:
    """One of CUDA's programs: of the wheels, on the path, or where CUDA is installed."""
    root = find_wheels()
    places = [root / "bin"] if root else []
    roots = [os.environ.get(variable) for variable in ("CUDA_HOME", "CUDA_PATH")]
    places += [Path(installed) / "bin" for installed in (*roots, "/usr/local/cuda") if installed]
    wheel, *rest = [shutil.which(name, path=str(place)) for place in places] or [None]
    return wheel or shutil.which(name) or next((path for path in rest if path), None)


@functools.cache
def find_wheels() -> Path | None:
    """Where NVIDIA's wheels put CUDA's headers and programs; None without them."""
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for root in sorted(Path(place).glob("cu[0-9]*"), reverse=True):
            if (root / "include" / "cuda_runtime.h").is_file():
                return root
    return None


@functools.cache
def _find_nvrtc() -> CudaCompiler | None:
    root = find_wheels()
    has_bindings = importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.bindings")
    if root is None or not has_bindings:
        return None
    try:
        name = f"NVRTC {version('nvidia-cuda-nvrtc')}"
    except PackageNotFoundError:
        return None
    program = [sys.executable, str(Path(__file__).with_name("nvrtc_program.py"))]
    includes = [f"-I{root / 'include'}", f"-I{root / 'include' / 'cccl'}"]

    def command(architecture: str, cubin: Path) -> list[str]:
        options = [f"--gpu-architecture={architecture}", *includes, *NVRTC_OPTIONS]
        options += [f"--ptxas-options={option}" for option in _ptxas_options()]
        more = shlex.split(os.environ.get("TVM_CUDA_NVRTC_EXTRA_OPTS", ""))
        return [*program, str(cubin), *options, *more]

    return CudaCompiler(name, command)


@functools.cache
def _find_nvcc() -> CudaCompiler | None:
    path = find_tool("nvcc")
    if path is None:
        return None
    done = subprocess.run([path, "--version"], capture_output=True, text=True)
    release = done.stdout.rpartition(" V")[2].split("\n")[0]

    def command(architecture: str, cubin: Path) -> list[str]:
        fast = [] if os.environ.get("TVM_CUDA_NVCC_NO_FAST_MATH") else ["--use_fast_math"]
        ptxas = f"--ptxas-options={','.join(_ptxas_options())}"
        options = [*NVCC_OPTIONS, *fast, ptxas, f"-arch={architecture}"]
        return [path, *options, "-x", "cu", "-o", str(cubin), "-"]

    return CudaCompiler(f"nvcc {release}", command, NVCC_ADVICE)


def _ptxas_options() -> list[str]:
    level = os.environ.get("TVM_CUDA_PTXAS_REG_LEVEL", "10")
    more = shlex.split(os.environ.get("TVM_CUDA_PTXAS_EXTRA_OPTS", ""))
    return ["-v", f"--register-usage-level={level}", "--warn-on-local-memory-usage", *more]
