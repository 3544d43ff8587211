"""The former name of `tirstep.transforms.passes`; it goes with the next version."""

from __future__ import annotations

import warnings
from typing import Any

from . import pass_options, passes, reduction

_HOMES = {"set_pipeline": pass_options, "register_reducer": reduction}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name, passes)
    if name.startswith("__") or not hasattr(home, name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"tirstep.transforms.lowering.{name} is now {home.__name__}.{name}",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(home, name)
