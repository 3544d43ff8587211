"""Functions that are not called ``main`` are run as well; of several, none is guessed at."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.lowering_checks import CheckError, DeviceError, get_device
from tirstep.lowering_checks.bisect import find_bad_pass
from tirstep.lowering_checks.devices.simulator.interpreter import Interpreter

GPU = "nvidia/nvidia-h100"
INPUT = np.arange(-32, 32, dtype="float32")
OUTPUT = np.maximum(INPUT, 0)


@I.ir_module
class Relu:
    @T.prim_func(s_tir=True)
    def mm_relu(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
        for i in T.thread_binding(64, thread="threadIdx.x"):
            with T.sblock("C"):
                vi = T.axis.spatial(64, i)
                C[vi] = T.max(A[vi], T.float32(0))


def make_two() -> tvm.IRModule:
    (function,) = Relu.functions.values()
    return tvm.IRModule(
        {name: function.with_attr("global_symbol", name) for name in ("first", "second")}
    )


@pytest.mark.parametrize("name", ["cpu", "simulator", "interpreter"])
def test_of_several_functions_none_is_guessed_at(name: str) -> None:
    device = Interpreter() if name == "interpreter" else get_device(name)
    with pytest.raises(DeviceError, match="'first', 'second', and none of them is 'main'; give a"):
        device.compile(make_two())


def test_the_bad_pass_of_the_one_function() -> None:
    blank = np.zeros(64, "float32")
    assert find_bad_pass(Relu, [INPUT, blank], [OUTPUT], GPU) is None
    found = find_bad_pass(Relu, [INPUT, blank], [OUTPUT + 1], GPU)
    assert (found.kind, found.number) == ("step", 0)
    with pytest.raises(CheckError, match="find_bad_pass: the module has 'first', 'second', and"):
        find_bad_pass(make_two(), [INPUT, blank], [OUTPUT], GPU)
    with pytest.raises(CheckError, match=r"module takes .*, and 1 arguments are given"):
        find_bad_pass(Relu, [INPUT], [OUTPUT], GPU)
