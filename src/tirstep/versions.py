"""Which TVM tirstep works with, checked before TVM is imported.

A wrong pair of apache-tvm and apache-tvm-ffi does not fail in a way that a reader could trace to
it: with apache-tvm-ffi 0.1.15, TVM 0.27 ends in a segmentation fault inside ``tensorize``. Other
versions of TVM print and name the same program differently. So both are refused at import.
"""

import importlib.metadata
import importlib.util
import re
import shlex
import sys

# Package, series, and the same series as pip understands it (pyproject.toml has these too).
_TVM = ("apache-tvm", "0.27", ">=0.27,<0.28")
_FFI = ("apache-tvm-ffi", "0.1.14", ">=0.1.14.post0,<0.1.15")


class UnsupportedVersions(ImportError):  # noqa: N818
    """apache-tvm or apache-tvm-ffi is missing, or not of the series that tirstep works with."""


def require_supported_tvm() -> None:
    """Raise `UnsupportedVersions` unless apache-tvm 0.27.x with apache-tvm-ffi 0.1.14.x is there.

    Only the packages' metadata is read. A TVM built from source has none: it passes, and that it
    fits is its builder's word.
    """
    tvm, ffi = _installed(_TVM[0]), _installed(_FFI[0])
    if tvm is None and _is_tvm_from_source():
        return
    if _is_of(tvm, _TVM[1]) and _is_of(ffi, _FFI[1]):
        return
    packages = " ".join(shlex.quote(name + pins) for name, _, pins in (_TVM, _FFI))
    raise UnsupportedVersions(
        f"tirstep needs {_TVM[0]} {_TVM[1]}.x with {_FFI[0]} {_FFI[1]}.x, but here "
        f"{_found(_TVM[0], tvm)} and {_found(_FFI[0], ffi)}; "
        f"run: {shlex.quote(sys.executable or 'python')} -m pip install {packages}"
    )


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _is_tvm_from_source() -> bool:
    """Whether ``import tvm`` would find a package; a mere folder called tvm has no origin."""
    spec = importlib.util.find_spec("tvm")
    return spec is not None and spec.origin is not None


def _is_of(version: str | None, series: str) -> bool:
    """Whether 0.27.0.post1 is of 0.27: 0.27.1 and 0.27rc0 are, 0.271 is not."""
    return version is not None and re.match(rf"{re.escape(series)}(?!\d)", version) is not None


def _found(name: str, version: str | None) -> str:
    return f"{name} is missing" if version is None else f"{name} is {version}"
