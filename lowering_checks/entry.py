"""The one function of a module that checks run, whatever it is called."""

from __future__ import annotations

import tvm
from tvm.tirx import PrimFunc

from .devices.device import DeviceError

MAIN = "main"


def name_main(module: tvm.IRModule) -> tvm.IRModule:
    """The module with its one function called ``main``; itself where it is called so already.

    Raises `DeviceError` for a module of no function, or of several of which none is ``main``.
    """
    functions = {
        str(variable.name_hint): function
        for variable, function in module.functions_items()
        if isinstance(function, PrimFunc)
    }
    if MAIN in functions:
        return module
    if len(functions) != 1:
        names = ", ".join(f"'{name}'" for name in functions) or "no function"
        raise DeviceError(
            f"the module has {names}, and none of them is 'main'; give a module of one function, "
            "or call the one to be run 'main'"
        )
    (function,) = functions.values()
    renamed = tvm.IRModule({MAIN: function.with_attr("global_symbol", MAIN)})
    return renamed.with_attrs(module.attrs) if module.attrs else renamed
