"""The machine's C++ compiler: found, called within a time limit, its errors put into sentences.

What it built is kept in a cache.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tirstep import caches

from ..device import DeviceError

HERE = Path(__file__).parent
HEADERS = HERE / "include"
RUNTIME = HERE / "runtime"
CANDIDATES = ("g++", "clang++")
KEPT = 500
"""Programs in the cache, of about 60 KB each; the ones used longest ago go first."""
_COMMON = ("-std=c++20", "-w", "-fno-exceptions", "-fno-rtti", "-fno-stack-protector")
_RUNTIME = ("-O2", "-U_FORTIFY_SOURCE")  # which takes a longjmp to another stack for an error
_KERNEL = (
    "-O1",
    "-fwrapv",  # integers of a GPU wrap
    "-fno-strict-aliasing",  # float4 is laid over float
    # A product and a sum are one operation with one rounding, as nvcc has it; GCC looks for them
    # with the second flag alone.
    "-ffp-contract=fast",
    "-fexpensive-optimizations",
    # runtime/main.cpp has what these checks call
    "-fsanitize=alignment,bounds,object-size,float-cast-overflow,shift-exponent",
)
_IF_SUPPORTED = (
    "-ftrivial-auto-var-init=pattern",  # registers begin as garbage, not as what lies there
    "-fno-finite-loops",  # a loop that never ends is to run on, and not to be left out
    "-fcf-protection=none",  # shadow stacks know one stack
)
_OTHERWISE = 'choose the device "simulator" or "cuda"'
_UNKNOWN_NAMES = (
    r"error: '(?:tirstep::)?([\w:]+)' (?:was not declared|has not been declared)",
    r"error: '(\w+)' does not name a type",
    r"error: use of undeclared identifier '(\w+)'",
    r"error: unknown type name '(\w+)'",
    r"error: no (?:type|member) named '(\w+)' in",
    r"error: no matching function for call to '(\w+)",
)
_HEADER = re.compile(
    r"fatal error: '?([\w./]+)'?(?::| file) .*(?:No such file|not found)"  # GCC's, and Clang's
)
_ASSEMBLY = re.compile(r"\b_*asm_*\s*(?:_*volatile_*\s*)?\((.*?)\)\s*;", re.DOTALL)
_INSTRUCTION = re.compile(r"\b([a-z]\w*\.[a-z]\w*)(?:\.\w+)*")  # two words name it
# A predicate is no news beside what it guards; TVM's preamble has dp4a where a GPU compiles it.
_PASSED_OVER = ("setp", "dp4a")


@dataclass(frozen=True)
class CxxCompiler:
    """A C++ compiler: how it is called, the first line of its ``--version``, and extra flags."""

    command: tuple[str, ...]
    version: str
    extras: tuple[str, ...]

    def build(self, source: str, seconds: float) -> Path:
        """The program made of a generated source and the runtime; kept from call to call.

        Raises `DeviceError` with the compiler's first error, or when the time is over.
        """
        key = _hash(self._runtime_key, *_KERNEL, source)
        path = get_cache() / key
        if _is_intact(path):
            return path
        with tempfile.TemporaryDirectory() as folder:
            kernel, program = Path(folder, "kernel.o"), Path(folder, "program")
            # In two calls: at the link, the checks' flags would bring in a runtime of their own.
            flags = (*_KERNEL, f"-I{HEADERS}", "-x", "c++", "-c", "-", "-o", str(kernel))
            self._call(flags, seconds, source)
            self._call((str(kernel), *self._build_runtime(), "-o", str(program)))
            path = self._keep(program, path)
        caches.forget_oldest(path.parent, KEPT)
        return path

    @functools.cached_property
    def _runtime_key(self) -> str:
        texts = [
            path.read_text("utf-8")
            for folder in (HEADERS, RUNTIME)
            for path in _list_sources(folder)
        ]
        flags = (*_COMMON, *self.extras, *_RUNTIME)
        return _hash(*self.command, self.version, platform.machine(), *flags, *texts)

    def _build_runtime(self) -> list[str]:
        """The runtime's object files; they are the same for all programs of a compiler."""
        objects = []
        for source in (path for path in _list_sources(RUNTIME) if path.suffix == ".cpp"):
            path = get_cache() / f"{self._runtime_key}-{source.stem}.o"
            if not _is_intact(path):
                with tempfile.TemporaryDirectory() as folder:
                    built = Path(folder, path.name)
                    self._call((*_RUNTIME, "-c", str(source), "-o", str(built)))
                    path = self._keep(built, path)
            objects.append(str(path))
        return objects

    def _keep(self, built: Path, path: Path) -> Path:
        """Put a file into the cache: other processes find all of it or nothing. Where it is then.

        What stands behind the end of a program or an object, here a digest, harms neither.
        """
        try:
            content = built.read_bytes()
        except FileNotFoundError as error:
            raise DeviceError(
                f"'{shlex.join(self.command)}' ends well and writes nothing, so it is no C++ "
                "compiler; set $CXX to one"
            ) from error
        try:
            caches.keep(content, path, mode=0o700)
        except OSError as error:  # a full disk, say
            path = caches.give_up("host", error) / path.name
            caches.keep(content, path, mode=0o700)
        return path

    def _call(self, flags: Sequence[str], seconds: float = 60, source: str = "") -> None:
        done = _run_compiler((*self.command, *_COMMON, *self.extras, *flags), seconds, source)
        if done.returncode:
            raise DeviceError(describe_errors(done.stderr.decode(errors="replace")))


def get_cxx_compiler() -> CxxCompiler:
    """The compiler that $CXX names, otherwise g++ or clang++.

    Raises `DeviceError` where there is none, or the system is not Linux.
    """
    if sys.platform != "linux":
        raise DeviceError('the device "host" runs on Linux only; choose the device "simulator"')
    return _get_cxx_compiler(os.environ.get("CXX", ""), os.environ.get("PATH", ""))


@functools.cache
def _get_cxx_compiler(named: str, path: str) -> CxxCompiler:
    words = tuple(shlex.split(named))
    candidates = [words] if words else [(name,) for name in CANDIDATES]
    command = next((words for words in candidates if shutil.which(words[0], path=path)), None)
    if command is None:
        missing = (
            f"$CXX names '{named}', and there is no such program"
            if words
            else "there is no g++ and no clang++ on this machine"
        )
        raise DeviceError(f'{missing}; install a C++ compiler, or choose the device "simulator"')
    version = _run_compiler((*command, "--version"), 60).stdout.decode()
    wanted = (*_IF_SUPPORTED, "-mfma") if _has_fma() else _IF_SUPPORTED
    extras = [flag for flag in wanted if _is_supported(command, flag)]
    return CxxCompiler(command, version.partition("\n")[0].strip(), tuple(extras))


def _has_fma() -> bool:
    """Whether a processor of x86 has the operation; others need no flag for theirs."""
    try:
        return re.search(r"^flags\b.*\bfma\b", Path("/proc/cpuinfo").read_text(), re.M) is not None
    except OSError:
        return False


def _is_supported(command: tuple[str, ...], flag: str) -> bool:
    flags = (flag, "-S", "-x", "c++", "-", "-o", "-")
    return _run_compiler((*command, *flags), 60).returncode == 0


def _run_compiler(
    command: Sequence[str], seconds: float, text: str = ""
) -> subprocess.CompletedProcess[bytes]:
    try:
        return run_limited(command, text.encode(), seconds)
    except subprocess.TimeoutExpired as error:
        raise DeviceError(
            f"the C++ compiler does not end within {seconds:g} s on the generated source; "
            "unroll less"
        ) from error
    except OSError as error:
        raise DeviceError(f"the C++ compiler does not start: {error}") from error


def run_limited(
    command: Sequence[str], text: bytes, seconds: float
) -> subprocess.CompletedProcess[bytes]:
    """Run a command on a text; at the limit it ends with all processes that it began.

    Raises `subprocess.TimeoutExpired`, and `OSError` where the command cannot be started.
    """
    pipe = subprocess.PIPE
    environment = {**os.environ, "LC_ALL": "C"}  # errors are parsed, so in English
    with subprocess.Popen(
        command,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env=environment,
        cwd=tempfile.gettempdir(),  # compilers leave files of their own where they are called
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(text, timeout=seconds)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def get_cache() -> Path:
    """The folder of built programs, the user's own: what lies there is run."""
    return caches.find_cache("host")


def _is_intact(path: Path) -> bool:
    """Whether a file of the cache is as it was built; its age begins again."""
    if caches.take(path) is None:
        return False
    with contextlib.suppress(OSError):
        path.touch()
    return True


def _list_sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in (".h", ".cpp"))


def _hash(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]


def find_instructions(source: str) -> list[str]:
    """A GPU's own instructions in a generated source, in assembly: ``cp.async``, say."""
    names = [name for text in _ASSEMBLY.findall(source) for name in _INSTRUCTION.findall(text)]
    return [name for name in dict.fromkeys(names) if not name.startswith(_PASSED_OVER)]


def describe_instructions(instructions: Sequence[str]) -> str:
    """Why a source with such instructions is not compiled at all."""
    names = ", ".join(f"'{name}'" for name in instructions)
    return _describe_unsupported(f"the GPU instructions {names}")


def describe_errors(errors: str) -> str:
    """The first error of a compiler in a generated source.

    Mostly that is a function of CUDA which our headers do not have.
    """
    if header := _HEADER.search(errors):
        return (
            f'the generated source includes <{header[1]}>, which the device "host" lacks; '
            f"{_OTHERWISE}"
        )
    first = next((line for line in errors.splitlines() if "rror:" in line), errors.strip())
    for pattern in _UNKNOWN_NAMES:
        if unknown := re.search(pattern, first):
            return _describe_unsupported(f"'{unknown[1]}'")
    return f"the C++ compiler refuses the generated source: {first.strip()}"


def _describe_unsupported(what: str) -> str:
    return (
        f'the generated source uses {what}, which the device "host" does not support; {_OTHERWISE}'
    )
