"""Functions that Relax makes of its operators, as a model's are: private, fused, int64 loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op
from tvm.tirx import PrimFunc

from tirstep.lowering_checks import get_device


def fuse(module: tvm.IRModule) -> tvm.IRModule:
    """The module with its operators as functions of TIR, fused."""
    passes = [
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FoldConstant(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(),
    ]
    return tvm.transform.Sequential(passes)(module)


def make_functions(build: Callable[..., Any], *tensors: Sequence[Any]) -> dict[str, PrimFunc]:
    """The functions of an expression of tensors, each a shape and, maybe, a type behind it."""
    make_type = getattr(relax, "TensorStructInfo", None) or relax.TensorType  # as TVM 0.25 names it
    builder, variables = relax.BlockBuilder(), []
    for number, tensor in enumerate(tensors):
        dtype = tensor[-1] if tensor and isinstance(tensor[-1], str) else "float32"
        shape = [size for size in tensor if not isinstance(size, str)]
        variables.append(relax.Var(f"x{number}", make_type(shape, dtype)))
    with builder.function("main", variables):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(build(*variables)))
        builder.emit_func_output(result)
    return list_functions(fuse(builder.get()))


def list_functions(module: tvm.IRModule) -> dict[str, PrimFunc]:
    """A module's functions of TIR by their names in it."""
    return {
        str(variable.name_hint): function
        for variable, function in module.functions_items()
        if isinstance(function, PrimFunc)
    }


def find_difference(
    scheduled: tvm.IRModule, function: PrimFunc, length: int = 0, **sizes: int
) -> str:
    """What a schedule computes else than a function, or what the simulator finds; "" for nothing.

    `length` stands for sizes that are left open and not among `sizes`, by their names.
    """
    generator, arrays = np.random.default_rng(0), []
    for parameter in function.params:
        shape = [
            int(each) if hasattr(each, "value") else sizes.get(str(each), length)
            for each in parameter.shape
        ]
        dtype = str(parameter.dtype)
        if dtype == "uint32":  # eight numbers of four bits in a word
            nibbles = generator.integers(0, 5, (*shape, 8))
            values = (nibbles << np.arange(0, 32, 4)).sum(-1)
        else:
            values = generator.integers(0, 5, shape) / (4 if "float" in dtype else 1)
        arrays.append(np.asarray(values).astype(dtype))
    expected = get_device("cpu").compile(tvm.IRModule({"main": function}))(
        [array.copy() for array in arrays]
    )
    program = get_device("simulator").compile(scheduled)
    results = program(arrays)
    if program.findings:
        return str(program.findings[0])
    half = any("float16" in str(array.dtype) for array in expected)
    for result, wanted in zip(results, expected, strict=True):
        close = np.allclose(
            result.astype("float64"),
            wanted.astype("float64"),
            rtol=1e-2 if half else 1e-5,
            atol=1e-5,
        )
        if not close:
            return f"{result.ravel()[:4]} in place of {wanted.ravel()[:4]}"
    return ""


def half(values: Any) -> Any:
    """A constant factor, as a scale has it."""
    return op.multiply(values, relax.const(0.5, "float32"))
