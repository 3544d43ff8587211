"""The pass context in which a module is compiled, wherever tirstep compiles one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm

from tirstep.transforms.pass_options import find_pass_options


def pass_context(module: tvm.IRModule, instruments: Sequence[Any] = ()) -> Any:
    """The current `PassContext`, with the options that a module asks for and with instruments.

    The options are those of `tirstep.transforms.set_pass_option`; where the current context has
    another value for one, the module's counts.
    """
    current = tvm.transform.PassContext.current()
    return tvm.transform.PassContext(
        opt_level=current.opt_level,
        required_pass=list(current.required_pass),
        disabled_pass=list(current.disabled_pass),
        config={**dict(current.config), **find_pass_options(module)},
        instruments=list(instruments),
    )
