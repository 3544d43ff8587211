"""How a document of ``--json`` is printed; `documents` says what its keys are."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, version

import tirstep

from .screen import emit

Document = dict[str, object]


def print_document(command: str, **keys: object) -> None:
    """Print the document of a command."""
    versions = {"tirstep": tirstep.__version__, "tvm": _find_tvm_version()}
    emit(json.dumps({"command": command, "versions": versions, **keys}, indent=2, default=str))


def _find_tvm_version() -> str:
    """As pip knows it, which needs no import; a TVM built from source says it itself."""
    try:
        return version("apache-tvm")
    except PackageNotFoundError:
        import tvm

        return str(tvm.__version__)
