"""How a module is compiled: for which target, with which options, and within which limits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import tvm
from tvm.tirx import PrimFunc

from tirstep.transforms import get_pass_options, get_pipeline

from ..devices.device import DeviceError
from ..finding import CheckError, suggest
from .instruments import SECONDS, SECONDS_VARIABLE, Deadline
from .limits import read_limit, require_compilable

TARGET = "nvidia/nvidia-h100"
"""What is compiled for by default; its source compiles for older GPUs, too."""
KINDS = ("cuda", "opencl", "llvm")
"""The kinds of targets whose source tirstep reads."""
MAIN = "main"
_chosen_pipeline: ContextVar[str | None] = ContextVar("pipeline", default=None)


@contextmanager
def using_pipeline(name: str | None) -> Iterator[None]:
    """While this lasts, modules are compiled with this pipeline, whatever they ask for."""
    token = _chosen_pipeline.set(name)
    try:
        yield
    finally:
        _chosen_pipeline.reset(token)


def compile_module(
    module: tvm.IRModule,
    target: Any,
    *,
    instruments: Sequence[Any] = (),
    pipeline: str | None = None,
) -> Any:
    """Compile a module in `pass_context`; returns TVM's executable.

    `pipeline` is the name of one registered with TVM; without it, that of `using_pipeline`, or the
    one that the module asks for (`tirstep.transforms.set_pipeline`).

    Raises `DeviceError` for a module that would be copied too often (`limits`) or that takes too
    long (`instruments.Deadline`), and what TVM raises where it refuses.
    """
    require_compilable(module)
    deadline = Deadline(read_limit(SECONDS_VARIABLE, SECONDS))
    try:
        with deadline.watch(), pass_context(module, [deadline.instrument(), *instruments]):
            chosen = pipeline or _chosen_pipeline.get() or get_pipeline(module)
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
        config={**dict(current.config), **get_pass_options(module)},
        instruments=list(instruments),
    )


def get_target(name: str) -> Any:
    """TVM's target of a name.

    ``cuda`` is that of `TARGET`, ``sm_80`` the same with another architecture; ``opencl``,
    ``llvm`` and TVM's tags (``nvidia/nvidia-a100``) are what TVM makes of them. Raises
    `CheckError` with the nearest names.
    """
    if name == "cuda":
        return tvm.target.Target(TARGET)
    if re.fullmatch(r"sm_\d+[af]?", name):
        attributes = dict(tvm.target.Target(TARGET).attrs)
        return tvm.target.Target({"kind": "cuda", **attributes, "arch": name})
    try:
        target = tvm.target.Target(name)
    except (ValueError, TypeError, tvm.error.InternalError):
        raise CheckError(f"there is no target '{name}'; {_suggest_target(name)}") from None
    if target.kind.name not in KINDS:
        raise CheckError(
            f"the target '{name}' is of the kind {target.kind.name}, whose source tirstep does not "
            f"read; choose one of {', '.join(KINDS)}"
        )
    return target


def _suggest_target(name: str) -> str:
    known = [*KINDS, "sm_80", "sm_90a", *sorted(str(tag) for tag in tvm.target.list_tags())]
    kinds = f"there are {', '.join(KINDS)}, sm_80 and the like, and TVM's tags such as {TARGET}"
    return suggest(name, known, kinds)


def make_main(function: PrimFunc) -> tvm.IRModule:
    """A module of one function, under the name ``main``, whatever its own name is."""
    return tvm.IRModule({MAIN: function.with_attr("global_symbol", MAIN)})


def name_main(module: tvm.IRModule) -> tvm.IRModule:
    """The module with its one function called ``main``; itself where it is called so already.

    A function without a name of its own, as all that Relax makes are, is private: it gets one.

    Raises `DeviceError` for a module of no function, or of several of which none is ``main``.
    """
    functions = {
        str(variable.name_hint): function
        for variable, function in module.functions_items()
        if isinstance(function, PrimFunc)
    }
    if MAIN in functions:
        main = functions[MAIN]
        if main.attrs is not None and main.attrs.get("global_symbol") is not None:
            return module
        named = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs)
        named[MAIN] = main.with_attr("global_symbol", MAIN)
        return named
    if len(functions) != 1:
        names = ", ".join(f"'{name}'" for name in functions) or "no function"
        raise DeviceError(
            f"the module has {names}, and none of them is 'main'; give a module of one function, "
            "or call the one to be run 'main'"
        )
    (function,) = functions.values()
    renamed = make_main(function)
    return renamed.with_attrs(module.attrs) if module.attrs else renamed
