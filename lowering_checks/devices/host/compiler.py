"""The machine's C++ compiler, and a cache of what it built."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
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
from .complaints import explain_complaints

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
    "-ffp-contract=off",
    # runtime/main.cpp has what these checks call
    "-fsanitize=alignment,bounds,object-size,float-cast-overflow,shift-exponent",
)
_IF_UNDERSTOOD = (
    "-ftrivial-auto-var-init=pattern",  # registers begin as garbage, not as what lies there
    "-fno-finite-loops",  # a loop that never ends is to run on, and not to be left out
    "-fcf-protection=none",  # shadow stacks know one stack
)


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: how it is called, the first line that it says of itself, and its flags."""

    command: tuple[str, ...]
    version: str
    extras: tuple[str, ...]

    def build(self, source: str, seconds: float) -> Path:
        """The program made of a generated source and the runtime; kept from call to call.

        Raises `DeviceError` with the compiler's first complaint, or when the time is over.
        """
        key = _hash(self._runtime_key, *_KERNEL, source)
        path = find_cache() / key
        if _is_whole(path):
            return path
        with tempfile.TemporaryDirectory() as folder:
            kernel, program = Path(folder, "kernel.o"), Path(folder, "program")
            # In two calls: at the link, the checks' flags would bring in a runtime of their own.
            flags = (*_KERNEL, f"-I{HEADERS}", "-x", "c++", "-c", "-", "-o", str(kernel))
            self._call(flags, seconds, source)
            self._call((str(kernel), *self._runtime(), "-o", str(program)))
            path = self._keep(program, path)
        caches.forget_oldest(path.parent, KEPT)
        return path

    @functools.cached_property
    def _runtime_key(self) -> str:
        texts = [
            path.read_text("utf-8") for folder in (HEADERS, RUNTIME) for path in _files(folder)
        ]
        flags = (*_COMMON, *self.extras, *_RUNTIME)
        return _hash(*self.command, self.version, platform.machine(), *flags, *texts)

    def _runtime(self) -> list[str]:
        """The runtime's object files; they are the same for all programs of a compiler."""
        objects = []
        for source in (path for path in _files(RUNTIME) if path.suffix == ".cpp"):
            path = find_cache() / f"{self._runtime_key}-{source.stem}.o"
            if _is_whole(path):
                objects.append(str(path))
                continue
            with tempfile.TemporaryDirectory() as folder:
                made = Path(folder, path.name)
                self._call((*_RUNTIME, "-c", str(source), "-o", str(made)))
                objects.append(str(self._keep(made, path)))
        return objects

    def _keep(self, made: Path, path: Path) -> Path:
        """Put a file into the cache: other processes find all of it or nothing. Where it is then.

        What stands behind the end of a program or an object, here a digest, harms neither.
        """
        try:
            content = made.read_bytes()
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
        done = _run((*self.command, *_COMMON, *self.extras, *flags), seconds, source)
        if done.returncode:
            raise DeviceError(explain_complaints(done.stderr.decode(errors="replace")))


def find_compiler() -> Compiler:
    """The compiler that $CXX names, otherwise g++ or clang++.

    Raises `DeviceError` where there is none, or the system is not Linux.
    """
    if sys.platform != "linux":
        raise DeviceError('the device "host" runs on Linux only; choose the device "simulator"')
    return _find_compiler(os.environ.get("CXX", ""), os.environ.get("PATH", ""))


@functools.cache
def _find_compiler(named: str, path: str) -> Compiler:
    words = tuple(shlex.split(named))
    candidates = [words] if words else [(name,) for name in CANDIDATES]
    found = next((one for one in candidates if shutil.which(one[0], path=path)), None)
    if found is None:
        missing = (
            f"$CXX names '{named}', and there is" if words else "there is no g++ and no clang++"
        )
        raise DeviceError(
            f"{missing} {'no such program' if words else 'on this machine'}; "
            'install a C++ compiler, or choose the device "simulator"'
        )
    version = _run((*found, "--version"), 60).stdout.decode().partition("\n")[0].strip()
    extras = [flag for flag in _IF_UNDERSTOOD if _understands(found, flag)]
    return Compiler(found, version, tuple(extras))


def _understands(command: tuple[str, ...], flag: str) -> bool:
    flags = (flag, "-S", "-x", "c++", "-", "-o", "-")
    return _run((*command, *flags), 60).returncode == 0


def _run(
    command: Sequence[str], seconds: float, text: str = ""
) -> subprocess.CompletedProcess[bytes]:
    try:
        return call(command, text.encode(), seconds)
    except subprocess.TimeoutExpired as error:
        raise DeviceError(
            f"the C++ compiler does not end within {seconds:g} s on the generated source; "
            "unroll less"
        ) from error
    except OSError as error:
        raise DeviceError(f"the C++ compiler does not start: {error}") from error


def call(command: Sequence[str], text: bytes, seconds: float) -> subprocess.CompletedProcess[bytes]:
    """Run a command on a text; at the limit it ends with all processes that it began.

    Raises `subprocess.TimeoutExpired`, and `OSError` where the command cannot be started.
    """
    pipe = subprocess.PIPE
    environment = {**os.environ, "LC_ALL": "C"}  # complaints are read, so in English
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
            out, complaints = process.communicate(text, timeout=seconds)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, complaints)


def find_cache() -> Path:
    """The folder of built programs, the user's own: what lies there is run."""
    return caches.find_cache("host")


def _is_whole(path: Path) -> bool:
    """Whether a file of the cache is as it was built; its age begins anew."""
    if caches.take(path) is None:
        return False
    with contextlib.suppress(OSError):
        path.touch()
    return True


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in (".h", ".cpp"))


def _hash(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]
