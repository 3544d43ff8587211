"""Whether a schedule computes what its function did: on integers, bit for bit."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import tvm
from tvm.tirx import For
from tvm.tirx.buffer import BufferType

from tirstep.lowering_checks import DeviceError, get_device
from tirstep.transforms.tir import find_all, get_axis

from . import BOUNDS, CORPUS, DISTINCT, OPEN, Foreign

RIGHT, WRONG, FINDING, UNBUILT = "right", "wrong", "finding", "not built"
_LOOSE = {"float16": 1e-2, "float32": 1e-5}


def make_inputs(foreign: Foreign) -> list[np.ndarray]:
    """Integers of each parameter's type, the same in each run."""
    generator = np.random.default_rng(len(foreign.name))
    return [_draw(generator, foreign, parameter) for parameter in foreign.function.params]


def _draw(generator: np.random.Generator, foreign: Foreign, parameter: Any) -> np.ndarray:
    if not isinstance(parameter.ty, BufferType):
        return np.asarray(3, str(parameter.ty))
    dtype, name = str(parameter.dtype), str(parameter.name)
    usual = {"uint32": (0, 2**31), "bool": (0, 2)}.get(dtype, (-4, 5))
    low, top = BOUNDS.get(f"{name} of {foreign.name}", BOUNDS.get(name, usual))
    sizes = [int(OPEN.get(str(size), size)) for size in parameter.shape]
    if foreign.name in DISTINCT:
        return generator.permutation(int(np.prod(sizes))).reshape(sizes).astype(dtype)
    return generator.integers(low, top, sizes).astype(dtype)


@functools.cache
def get_expected(name: str) -> list[np.ndarray]:
    """What the function computes before it is scheduled, on the CPU."""
    foreign = CORPUS[name]
    program = get_device("cpu").compile(tvm.IRModule({"main": foreign.function}))
    return list(program([array.copy() for array in make_inputs(foreign)]))


def is_on_a_gpu(module: tvm.IRModule) -> bool:
    """Whether loops of a module run on blocks or threads of a GPU."""
    loops = find_all(module["main"].body, For)
    return any((get_axis(loop) or "").startswith(("blockIdx", "threadIdx")) for loop in loops)


def judge(foreign: Foreign, module: tvm.IRModule, device: str) -> tuple[str, str]:
    """One of the four verdicts on a scheduled module, with what is wrong."""
    try:
        program = get_device(device).compile(module)
        results = program([array.copy() for array in make_inputs(foreign)])
    except DeviceError as error:
        return UNBUILT, str(error)
    if program.findings:
        return FINDING, str(program.findings[0])
    for at, (result, expected) in enumerate(zip(results, get_expected(foreign.name), strict=True)):
        if not _agree(result, expected, is_exact=foreign.is_exact):
            return WRONG, f"argument {at}: {_differ(result, expected)}"
    return RIGHT, ""


def _agree(result: np.ndarray, expected: np.ndarray, *, is_exact: bool) -> bool:
    if is_exact:
        return bool(np.array_equal(result, expected))
    loose = _LOOSE.get(str(expected.dtype), 0)
    both = (each.astype("float64") for each in (result, expected))
    return bool(np.allclose(*both, rtol=loose, atol=loose, equal_nan=True))


def _differ(result: np.ndarray, expected: np.ndarray) -> str:
    unequal = np.flatnonzero((result != expected).ravel())
    first = unequal[0] if len(unequal) else 0
    return (
        f"{len(unequal)} of {result.size} elements differ, the first at {first}: "
        f"{result.ravel()[first]} in place of {expected.ravel()[first]}"
    )
