"""Which TVM tirstep works with, checked before TVM is imported.

A wrong pair of apache-tvm and apache-tvm-ffi does not fail in a way that a reader could trace to
it: with apache-tvm-ffi 0.1.15, TVM 0.27 ends in a segmentation fault inside ``tensorize``. Other
versions of TVM name the same program differently. So both are refused at import.
"""

import importlib.metadata
import importlib.util
import re
import shlex
import sys

_TVM, _FFI = "apache-tvm", "apache-tvm-ffi"


SERIES, FFI_SERIES = "0.27", "0.1.14"
"""The series of apache-tvm, whose printer wrote the goldens, and of apache-tvm-ffi."""
PINS, FFI_PINS = ">=0.27,<0.28", ">=0.1.14.post0,<0.1.15"
"""Both as ranges for pip, as in pyproject.toml; constraints.txt has exact versions."""


class UnsupportedVersions(ImportError):  # noqa: N818
    """apache-tvm or apache-tvm-ffi is missing, or not of the series that tirstep works with."""


def require_supported_tvm() -> None:
    """Raise `UnsupportedVersions` unless TVM of `SERIES` is there with the FFI that it needs.

    Only the packages' metadata is read. A TVM built from source has none: it passes, and that it
    fits is its builder's word.
    """
    tvm, ffi = _installed(_TVM), _installed(_FFI)
    spec = importlib.util.find_spec("tvm")
    if tvm is None and spec is not None and spec.origin is not None:  # a mere folder has none
        return
    if _is_of(tvm, SERIES) and _is_of(ffi, FFI_SERIES):
        return
    requirements = " ".join(shlex.quote(it) for it in (_TVM + PINS, _FFI + FFI_PINS))
    raise UnsupportedVersions(
        f"tirstep needs {_TVM} {SERIES}.x with {_FFI} {FFI_SERIES}.x, but here "
        f"{_found(_TVM, tvm)} and {_found(_FFI, ffi)}; "
        f"run: {shlex.quote(sys.executable or 'python')} -m pip install {requirements}"
    )


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _is_of(version: str | None, series: str) -> bool:
    """Whether 0.27.0.post1 is of 0.27: 0.27.1 and 0.27rc0 are, 0.271 is not."""
    return version is not None and re.match(rf"{re.escape(series)}(?!\d)", version) is not None


def _found(name: str, version: str | None) -> str:
    return f"{name} is missing" if version is None else f"{name} is {version}"
