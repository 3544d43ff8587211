"""A cache of compiled kernels on disk, so that a second run starts at once.

TVM calls the global function ``tvm_callback_cuda_compile`` with a CUDA source for its machine code;
`CompileCache.install` puts the cache in front of it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import tvm
import tvm_ffi

from tirstep.caches import find_cache, keep, take

CALLBACK = "tvm_callback_cuda_compile"
OPTIONS = (
    "TVM_CUDA_COMPILE_MODE",
    "TVM_CUDA_PTXAS_REG_LEVEL",
    "TVM_CUDA_PTXAS_EXTRA_OPTS",
    "TVM_CUDA_NVRTC_EXTRA_OPTS",
    "TVM_CUDA_NVCC_NO_FAST_MATH",
    "CUDA_PATH",
)
"""Environment variables that change what TVM's compilers make of a source."""
PACKAGES = ("apache-tvm", "cuda-bindings", "nvidia-cuda-nvrtc")

Compile = Callable[[str], bytes]


def get_cache_folder() -> Path:
    """``tirstep/cubins`` in the user's cache folder: XDG_CACHE_HOME, or ~/.cache."""
    return find_cache("cubins")


class CompileCache:
    """Machine code by source, architecture, options and compiler.

    A file holds its content and then the digest of it: one that was cut short or changed is
    compiled again. Files are written at once, so that processes can share a folder. Where the
    folder cannot be written, every source is compiled.

    Attributes
    ----------
    hits, misses : how many sources were found, and how many compiled
    """

    def __init__(self, folder: Path, compile_source: Compile) -> None:
        self.folder = folder
        self._compile = compile_source
        self.hits = self.misses = 0

    def __call__(self, source: str) -> bytes:
        """The machine code of a source, from the folder if it is there."""
        file = self.folder / compute_key(source)
        content = take(file)
        if content is not None:
            self.hits += 1
            return content
        self.misses += 1
        content = bytes(self._compile(source))
        with contextlib.suppress(OSError):
            keep(content, file)
        return content


@contextlib.contextmanager
def installed(folder: Path) -> Iterator[CompileCache]:
    """Let TVM compile through a cache, and as before afterwards."""
    import tvm.support.nvcc  # noqa: F401 - it registers the function that is replaced

    original = tvm_ffi.get_global_func(CALLBACK)
    cache = CompileCache(folder, original)
    tvm_ffi.register_global_func(CALLBACK, cache.__call__, override=True)
    try:
        yield cache
    finally:
        tvm_ffi.register_global_func(CALLBACK, original, override=True)


def compute_key(source: str) -> str:
    """The name of a source's file: a digest of all that decides what is made of it."""
    target = tvm.target.Target.current(allow_none=True)
    parts = [source, "" if target is None else str(target.attrs.get("arch", ""))]
    parts += [f"{name}={os.environ.get(name, '')}" for name in OPTIONS]
    parts += [*_get_compilers()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@functools.cache
def _get_compilers() -> tuple[str, ...]:
    """The versions of what compiles; the toolkit's stands in its folder's name or its link."""
    found = [os.path.realpath(shutil.which("nvcc") or "")]
    for package in PACKAGES:
        try:
            found.append(version(package))
        except PackageNotFoundError:
            found.append("")
    return tuple(found)
