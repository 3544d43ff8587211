"""The documents of ``--json``: one object on standard output, with the keys of schema.json.

Every document has ``command`` and ``versions`` ({tirstep, tvm, document}; the last is of the keys:
2 since verdicts have four words). Where nothing was measured or asked, a key is there and null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import tirstep
from tirstep.printing import begin_document

from .formats import render

if TYPE_CHECKING:
    from tirstep.lowering_checks import Run

Document = dict[str, object]
DOCUMENT = 2
"""The version of the keys above."""
FIELDS = {
    "Diff": "before after added removed",
    "Example": "shape options config",
    "JudgedState": "state device",
    "Time": "median=median_us lower=lower_us upper=upper_us",
    "Finding": "check where source=location message detail",
}
"""The keys of values by their class; of one, the attribute that it has."""


def print_document(command: str, **keys: object) -> None:
    """Print the document of a command; of TVM the version as pip knows it, which needs no import,
    or of one that was built from source as it says itself.
    """
    try:
        tvm_version = version("apache-tvm")
    except PackageNotFoundError:
        import tvm

        tvm_version = str(tvm.__version__)
    versions = {"tirstep": tirstep.__version__, "tvm": tvm_version, "document": DOCUMENT}
    document = {"command": command, "versions": versions, **keys}
    text = render(json.dumps(document, indent=2, default=_encode))
    begin_document()
    print(text, flush=True)


def read_keys(value: object, names: str) -> Document:
    """Attributes of a value by key, of text ``name number=index``; null where there is no value."""
    pairs = (name.partition("=") for name in names.split())
    return {key: getattr(value, name or key, None) for key, _, name in pairs}


def run_keys(run: Run | None) -> Document:
    """The recipe, shape, options and config that ran."""
    if run is None:
        return {"shape": None, "options": None, "config": None}
    keys = read_keys(run.problem, "shape options")
    return {"recipe": run.recipe.name, **keys, "config": {**run.recipe.config, **run.config}}


def _encode(value: object) -> object:
    """JSON for other values: mappings, the values of `FIELDS`, and all else as its text."""
    if isinstance(value, Mapping):
        return dict(value)
    kind = type(value).__name__
    if kind not in FIELDS:
        return str(value)
    keys = read_keys(value, FIELDS[kind])
    return {**keys, "diff": str(value)} if kind == "Diff" else keys
