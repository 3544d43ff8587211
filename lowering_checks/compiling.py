"""How a module is compiled, wherever tirstep compiles one: with its own options, within limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm

from tirstep.transforms import find_pass_options, find_pipeline

from .deadline import SECONDS, SECONDS_VARIABLE, Deadline
from .devices.device import DeviceError
from .limits import read_limit, require_compilable


def compile_module(
    module: tvm.IRModule,
    target: Any,
    *,
    instruments: Sequence[Any] = (),
    pipeline: str | None = None,
) -> Any:
    """Compile a module in `pass_context`; returns TVM's executable.

    `pipeline` is a registered one of TVM; without it the one that the module asks for
    (`tirstep.transforms.set_pipeline`).

    Raises `DeviceError` for a module that would be copied too often, or that takes too long (see
    `limits` and `deadline`), and what TVM raises where it refuses.
    """
    require_compilable(module)
    deadline = Deadline(read_limit(SECONDS_VARIABLE, SECONDS))
    watching = [deadline.instrument(), *instruments]
    try:
        with deadline.watch(), pass_context(module, watching):
            chosen = pipeline or find_pipeline(module)
            return tvm.compile(module, target=target, tir_pipeline=chosen)
    except Exception as error:
        if deadline.sentence:
            raise DeviceError(deadline.sentence) from error
        raise


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
